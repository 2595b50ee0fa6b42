//! S3: nothing healthy is removed. What a failed, partial or stale read says is no reason; so a machine, claim or Node of
//! ours is removed only if its claim is going already, or its machine had failed, or never came up in time. Of claims that
//! have no machine yet see `unbought`.
//!
//! Judged when the request is sent: what it is based on cannot become truer on the way.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::machine::Machine;
use super::ownership::target;
use super::{Check, Findings, Truth};
use crate::api::names::{NODE_INITIALIZED, NODE_REGISTERED};
use crate::api::parse_duration;
use crate::clock::later;
use crate::sim::history::{Edge, Entry, Request, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::request::Target;
use crate::sim::kube::stored::ObjectKey;

/// A machine that was broken so shortly before may have been seen so: a host that failed restarts its machines.
const BROKEN_LATELY: Duration = Duration::from_mins(3);
/// A node that has been unhealthy for so long, or joined so long ago and is still not ready for use, may be given up; a little
/// less than is tolerated, as clocks differ.
const ILL_FOR: Duration = Duration::from_mins(25);

pub(super) struct Removals;

impl Check for Removals {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let (What::Request(request), Who::Replica { .. }) = (&entry.what, &entry.who) else {
            return;
        };
        let removed = match request.edge {
            Edge::Cloud => given_up(request, book),
            Edge::Kube => deleted(request, book),
        };
        for (what, machine) in removed {
            if is_healthy(machine, entry.at, book, truth) && !is_due(request, truth) {
                let (name, status) = (&machine.name, machine.status);
                let message =
                    format!("{what} although nobody wants its claim gone and machine {name} is {status}");
                found.blame("S3", entry.at, message);
            }
        }
    }
}

/// The machine that a request to the cloud takes from its claim, if the claim still needs it.
fn given_up<'a>(request: &Request, book: &'a Book) -> Vec<(String, &'a Machine)> {
    let renames = || {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        body.get("name").is_some()
    };
    let gives_up = request.method == Method::DELETE || (request.method == Method::PATCH && renames());
    let machine = target(request)
        .filter(|_| gives_up && request.path.matches('/').count() == 3)
        .and_then(|id| book.machines.get(id))
        .filter(|machine| machine.has_its_own_name());
    let wanted = machine.filter(|machine| {
        let claim = machine.claim.as_ref().and_then(|uid| book.claims.get(uid));
        claim.is_some_and(|claim| claim.deleting.is_none() && claim.gone.is_none())
    });
    let method = &request.method;
    wanted
        .map(|machine| (format!("{method} of machine {}", machine.id), machine))
        .into_iter()
        .collect()
}

/// The machines of the claim that a request to the cluster removes, or whose Node it removes.
fn deleted<'a>(request: &Request, book: &'a Book) -> Vec<(String, &'a Machine)> {
    if request.method != Method::DELETE {
        return Vec::new();
    }
    let Some(target) = Target::parse(&request.path) else {
        return Vec::new();
    };
    let (plural, name) = (target.plural, target.name.unwrap_or_default());
    if !matches!(plural.as_str(), "nodeclaims" | "nodes") {
        return Vec::new();
    }
    // A Node has the name of its claim.
    let claims = book
        .claims
        .iter()
        .filter(|(_, claim)| claim.name == name && claim.gone.is_none() && claim.deleting.is_none());
    claims
        .flat_map(|(uid, _)| book.machines_of(uid))
        .filter(|machine| machine.has_its_own_name())
        .map(|machine| (format!("DELETE of {plural}/{name}"), machine))
        .collect()
}

fn is_healthy(machine: &Machine, now: Duration, book: &Book, truth: &Truth<'_>) -> bool {
    let age = now.saturating_sub(machine.seen);
    let broken = machine
        .broken
        .is_some_and(|broken| now.saturating_sub(broken) < BROKEN_LATELY);
    let late = match machine.status {
        "running" => age > book.settings.registration_limit && !is_registered(machine, book, truth),
        _ => age > book.settings.launch_limit,
    };
    // Looked at again: what the book saw may be older than this request.
    let still = truth.cloud.instance(&machine.id);
    let alive = still.is_some_and(|now| now.status == machine.status);
    machine.is_live() && alive && !broken && !late
}

/// Whether a claim may go although its machine is well: it has lived as long as it may, or its Node is deleted, gone, has
/// been unhealthy for long, or kept a startup taint. Or a Node of its name, that of another machine which is gone.
fn is_due(request: &Request, truth: &Truth<'_>) -> bool {
    let Some(target) = Target::parse(&request.path) else {
        return false;
    };
    let state = truth.kube.state();
    let stored = |group: &str, plural: &str| {
        let key = ObjectKey::new("", target.name.as_deref().unwrap_or_default());
        state
            .store
            .get(&TableKey::of(group, plural), &key)
            .map(|it| it.value())
    };
    if target.plural != "nodeclaims" {
        return stored("", "nodes").is_some_and(|node| is_left_behind(&node, truth));
    }
    let Some(claim) = stored("karpenter.sh", "nodeclaims") else {
        return true;
    };
    let was_node = super::claims::is_true(&claim, NODE_REGISTERED);
    let node = stored("", "nodes");
    let lost = node
        .as_ref()
        .is_none_or(|node| node["metadata"]["deletionTimestamp"].is_string());
    let ill = node.as_ref().is_some_and(|node| {
        let conditions = node["status"]["conditions"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let ready = conditions
            .iter()
            .find(|it| it["type"] == "Ready" && it["status"] != "True");
        let since = ready.and_then(|it| time(&it["lastTransitionTime"]));
        since.is_some_and(|since| truth.now >= later(since, ILL_FOR))
    });
    let registered = super::claims::conditions(&claim)
        .iter()
        .find(|it| it["type"] == NODE_REGISTERED);
    let joined = registered.and_then(|it| time(&it["lastTransitionTime"]));
    let unusable = !super::claims::is_true(&claim, NODE_INITIALIZED)
        && joined.is_some_and(|joined| truth.now >= later(joined, ILL_FOR));
    has_expired(&claim, truth) || (was_node && (lost || ill || unusable))
}

/// Whether a claim has lived as long as it may.
pub(super) fn has_expired(claim: &Value, truth: &Truth<'_>) -> bool {
    let lives = claim["spec"]["expireAfter"].as_str().and_then(parse_duration);
    let born = time(&claim["metadata"]["creationTimestamp"]);
    lives
        .zip(born)
        .is_some_and(|(lives, born)| truth.now >= later(born, lives))
}

/// The time that an object says, if it says one.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Whether a Node is what is left of a machine that is gone: that of an earlier claim of the name, which was forced out.
fn is_left_behind(node: &Value, truth: &Truth<'_>) -> bool {
    let provider_id = node["spec"]["providerID"].as_str().unwrap_or_default();
    let machine = provider_id.rsplit('/').next().filter(|id| !id.is_empty());
    machine.is_some_and(|id| truth.cloud.instance(id).is_none())
}

fn is_registered(machine: &Machine, book: &Book, truth: &Truth<'_>) -> bool {
    let claim = machine.claim.as_ref().and_then(|uid| book.claims.get(uid));
    let state = truth.kube.state();
    let stored = claim.and_then(|claim| {
        let key = ObjectKey::new("", &claim.name);
        state.store.get(&TableKey::of("karpenter.sh", "nodeclaims"), &key)
    });
    stored.is_some_and(|stored| super::claims::is_true(&stored.value(), NODE_REGISTERED))
}

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;
    use super::*;

    /// A deletion that says which object is meant.
    const NAMED: &str = r#"{"preconditions":{"uid":"1"}}"#;

    async fn running(stage: &mut Stage) -> String {
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.pass(200).await;
        assert_eq!(stage.cloud.instance(&id).unwrap().status, "running");
        format!("/v1/instances/{id}")
    }

    #[tokio::test(start_paused = true)]
    async fn a_healthy_machine_its_claim_and_its_node_are_kept() {
        let mut stage = Stage::new().await;
        let path = running(&mut stage).await;
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        let rename = r#"{"name":"other"}"#;
        stage.sends(0, Edge::Cloud, &Method::PATCH, &path, rename);
        let claim = "/apis/karpenter.sh/v1/nodeclaims/a";
        stage.sends(0, Edge::Kube, &Method::DELETE, claim, NAMED);
        stage.sends(0, Edge::Kube, &Method::DELETE, "/api/v1/nodes/a", NAMED);
        assert_eq!(stage.blamed(), ["S3"; 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_somebody_deletes_takes_its_machine_along() {
        let mut stage = Stage::new().await;
        let path = running(&mut stage).await;
        stage.delete("a").await;
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        stage.sends(0, Edge::Kube, &Method::DELETE, "/api/v1/nodes/a", NAMED);
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_failed_may_go_and_its_claim_too() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let name = stage.name_of(&uid);
        stage.cloud.fail_start(&name, "cannot_start_capacity").unwrap();
        let id = stage.machine(&name).await;
        stage.pass(120).await;
        stage.sends(
            0,
            Edge::Cloud,
            &Method::DELETE,
            &format!("/v1/instances/{id}"),
            "",
        );
        stage.sends(
            0,
            Edge::Kube,
            &Method::DELETE,
            "/apis/karpenter.sh/v1/nodeclaims/a",
            NAMED,
        );
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_came_back_a_moment_ago_may_have_been_given_up() {
        let mut stage = Stage::new().await;
        let path = running(&mut stage).await;
        let id = path.rsplit('/').next().unwrap();
        stage
            .cloud
            .fail_host(id, Some(crate::sim::ibm::HostFailure::Restart))
            .unwrap();
        stage.see_cloud();
        stage.pass(100).await;
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_never_joined_may_be_given_up_in_the_end() {
        let mut stage = Stage::new().await;
        let path = running(&mut stage).await;
        stage.pass(20 * 60).await;
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert!(stage.blamed().is_empty());
        stage.conditions("a", &[(NODE_REGISTERED, "True", 1)]).await;
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert!(stage.blamed().contains(&"S3"));
    }

    /// Whether it is blamed that a claim with a Node is deleted so many minutes after that joined.
    async fn is_blamed_after(minutes: u64, conditions: &[(&str, &str, u8)]) -> bool {
        let mut stage = Stage::new().await;
        running(&mut stage).await;
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(stage.server.admin());
        let node = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}})).unwrap();
        nodes
            .create(&kube::api::PostParams::default(), &node)
            .await
            .unwrap();
        stage.conditions("a", conditions).await;
        stage.pass(minutes * 60).await;
        let claim = "/apis/karpenter.sh/v1/nodeclaims/a";
        stage.sends(0, Edge::Kube, &Method::DELETE, claim, NAMED);
        stage.blamed().contains(&"S3")
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_never_became_usable_may_be_given_up_in_the_end() {
        let joined = (NODE_REGISTERED, "True", 1);
        assert!(is_blamed_after(0, &[joined]).await, "so soon");
        assert!(!is_blamed_after(30, &[joined]).await);
        let usable = [joined, (NODE_INITIALIZED, "True", 1)];
        assert!(is_blamed_after(30, &usable).await, "it is in use");
    }

    #[tokio::test(start_paused = true)]
    async fn reads_and_writes_remove_nothing() {
        let mut stage = Stage::new().await;
        let path = running(&mut stage).await;
        stage.sends(0, Edge::Cloud, &Method::GET, &path, "");
        stage.sends(
            0,
            Edge::Kube,
            &Method::PATCH,
            "/apis/karpenter.sh/v1/nodeclaims/a",
            "{}",
        );
        stage.sends(
            0,
            Edge::Kube,
            &Method::DELETE,
            "/apis/karpenter.sh/v1/nodeclaims/b",
            NAMED,
        );
        assert!(stage.blamed().is_empty());
    }
}
