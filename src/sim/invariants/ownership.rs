//! S2: no machine is changed or deleted that is not ours: by name and resource group, as both are atomic at create.

use http::Method;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::sim::history::{Edge, Entry, Request, What, Who};

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
