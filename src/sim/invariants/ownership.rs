//! S2: no machine is changed or deleted that is not ours: by name and resource group, as both are atomic at create. Nor is
//! any interface or volume that was not made for a machine of ours, which its name says.

use http::Method;

use super::book::Book;
use super::leftovers::is_swept;
use super::{Check, Findings, Truth};
use crate::sim::history::{Edge, Entry, Request, What, Who};
use crate::sim::ibm::PartTruth;

pub(super) struct Ownership;

impl Check for Ownership {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let (What::Request(request), Who::Replica { .. }) = (&entry.what, &entry.who) else {
            return;
        };
        if request.edge != Edge::Cloud || request.method == Method::GET {
            return;
        }
        let foreign = target(request)
            .and_then(|id| book.machines.get(id))
            .filter(|machine| machine.claim.is_none() && machine.gone.is_none());
        if let Some(machine) = foreign {
            let (method, name) = (&request.method, &machine.name);
            found.blame("S2", entry.at, format!("{method} of {name}, which is not ours"));
        }
        if let Some(part) = part(request, truth).filter(|part| !is_swept(part, book)) {
            let (method, name) = (&request.method, &part.name);
            let message = format!("{method} of {name}, which was made for no machine of ours");
            found.blame("S2", entry.at, message);
        }
        if request.path.starts_with("/v3/tags/") {
            tags_ours_only(entry, request, book, truth, found);
        }
    }
}

/// The id of the machine that a request is about.
pub(in crate::sim) fn target(request: &Request) -> Option<&str> {
    let rest = request.path.strip_prefix("/v1/instances/")?;
    rest.split('/').next().filter(|id| !id.is_empty())
}

/// The interface or volume that a request is about, if it is there.
fn part(request: &Request, truth: &Truth<'_>) -> Option<PartTruth> {
    let kinds = ["/v1/virtual_network_interfaces/", "/v1/volumes/"];
    let rest = kinds.iter().find_map(|kind| request.path.strip_prefix(kind))?;
    truth.cloud.part(rest.split('/').next()?)
}

fn tags_ours_only(entry: &Entry, request: &Request, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    let body = String::from_utf8_lossy(&request.body);
    for machine in truth.cloud.instances() {
        let ours = book
            .machines
            .get(&machine.id)
            .is_some_and(|known| known.claim.is_some());
        if !ours && body.contains(&machine.crn) {
            let name = &machine.name;
            found.blame(
                "S2",
                entry.at,
                format!("tags of {name}, which is not ours, are changed"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_ours_is_left_alone() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let name = stage.name_of(&uid);
        let groups = stage.cloud_says(Method::GET, "/v2/resource_groups", "").await;
        let other = groups["resources"][1]["id"].as_str().unwrap().to_owned();
        let twin = format!("kib-00000001-{}", &name[13..]);
        let foreign = [
            stage.machine("billing").await,
            stage.machine(&twin).await,
            // Our very name, in a group of others.
            stage.machine_in(&name, &other).await,
        ];
        for (number, id) in foreign.iter().enumerate() {
            let path = format!("/v1/instances/{id}");
            stage.sends(0, Edge::Cloud, &Method::GET, &path, "");
            assert_eq!(stage.blamed().len(), number);
            let method = [Method::DELETE, Method::PATCH, Method::DELETE][number].clone();
            stage.sends(0, Edge::Cloud, &method, &path, "{}");
            assert_eq!(stage.blamed().len(), number + 1, "{path}");
        }
        assert_eq!(stage.blamed(), ["S2"; 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_ours_may_be_changed_and_what_is_gone_matters_to_nobody() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let name = stage.name_of(&uid);
        let ours = stage.machine(&name).await;
        let gone = stage.machine("billing").await;
        stage.delete_machine(&gone).await;
        stage.pass(200).await;
        stage.delete("a").await;
        for id in [ours, gone] {
            stage.sends(
                0,
                Edge::Cloud,
                &Method::DELETE,
                &format!("/v1/instances/{id}"),
                "",
            );
        }
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    /// An interface that belongs to no machine; its path.
    async fn interface(stage: &Stage, name: &str, group: &str) -> String {
        let subnet = stage.cloud.account().subnets[0].clone();
        let body = json!({"name": name, "subnet": {"id": subnet}, "resource_group": {"id": group}});
        let kind = "/v1/virtual_network_interfaces";
        let made = stage.cloud_says(Method::POST, kind, &body.to_string()).await;
        format!("{kind}/{}", made["id"].as_str().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn interfaces_and_volumes_of_others_are_left_alone() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let name = stage.name_of(&uid);
        let group = stage.cloud.account().resource_group;
        let groups = stage.cloud_says(Method::GET, "/v2/resource_groups", "").await;
        let other = groups["resources"][1]["id"].as_str().unwrap().to_owned();
        let twin = format!("kib-00000001-{}-vni", &name[13..]);
        let ours = interface(&stage, &format!("{name}-vni"), &group).await;
        let foreign = [
            interface(&stage, "billing", &group).await,
            interface(&stage, &twin, &group).await,
            interface(&stage, &format!("{name}-x1-vni"), &other).await,
        ];
        stage.sends(0, Edge::Cloud, &Method::DELETE, &ours, "");
        let gone = "/v1/volumes/r006-nowhere";
        stage.sends(0, Edge::Cloud, &Method::DELETE, gone, "");
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
        for (number, path) in foreign.iter().enumerate() {
            stage.sends(0, Edge::Cloud, &Method::GET, path, "");
            assert_eq!(stage.blamed().len(), number);
            let method = [Method::DELETE, Method::PATCH, Method::DELETE][number].clone();
            stage.sends(0, Edge::Cloud, &method, path, "{}");
            assert_eq!(stage.blamed().len(), number + 1, "{path}");
        }
        // A boot volume of somebody's machine, while it is attached.
        stage.machine("billing-2").await;
        let volumes = stage.cloud_says(Method::GET, "/v1/volumes", "").await;
        let id = volumes["volumes"][0]["id"].as_str().unwrap();
        let path = format!("/v1/volumes/{id}");
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert_eq!(stage.blamed(), ["S2"; 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn tags_of_others_are_left_alone() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let ours = stage.machine(&stage.name_of(&uid)).await;
        let foreign = stage.machine("billing").await;
        for (id, blamed) in [(ours, 0), (foreign, 1)] {
            let crn = stage.cloud.instance(&id).unwrap().crn;
            let body = format!(r#"{{"resources":[{{"resource_id":"{crn}"}}]}}"#);
            stage.sends(0, Edge::Cloud, &Method::POST, "/v3/tags/attach", &body);
            assert_eq!(stage.blamed().len(), blamed);
        }
    }
}
