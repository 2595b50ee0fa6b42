//! S8: we take the finalizer off a claim only when no machine of its name exists, and none appears later: a create whose
//! answer was lost may still be carried out for a minute. Whoever else forces it off takes the blame for that, and the sweep
//! the machine; but from when it is on again it is ours to keep.

use std::collections::BTreeMap;

use http::Method;
use serde_json::Value;

use super::book::{Book, Sent};
use super::changes::Versions;
use super::{Check, Findings, Truth};
use crate::api::names::TERMINATION_FINALIZER;
use crate::cloud::InstanceName;
use crate::sim::history::{Edge, Entry};
use crate::sim::kube::object;

pub(super) struct Release;

impl Check for Release {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let changes = book.changed.claims.iter();
        for change in changes.filter(|change| book.releases_itself(change)) {
            let uid = object::uid(&change.after);
            let name = book.cluster.and_then(|cluster| InstanceName::new(cluster, uid));
            let Some(name) = name else {
                continue;
            };
            let machine = truth.cloud.instance(&name.to_string());
            let ours = |group: &str| group == book.settings.resource_group;
            if let Some(machine) = machine.filter(|machine| ours(&machine.resource_group)) {
                let (claim, status) = (object::name(&change.after), machine.status);
                let message = format!(
                    "claim {claim} was released while its machine {} is {status}",
                    machine.id
                );
                found.blame("S8", entry.at, message);
            }
        }
        for id in &book.new_machines {
            let claim = book.machines.get(id).and_then(|machine| machine.claim.as_ref());
            let facts = claim.and_then(|uid| book.claims.get(uid));
            if let Some(claim) = facts.filter(|claim| claim.released.is_some()) {
                let name = &claim.name;
                let message = format!("machine {id} of claim {name} appeared after the claim was released");
                found.blame("S8", entry.at, message);
            }
        }
    }
}

/// Whether a write of a replica that is under way takes our finalizer off, and was computed from the claim as it was before:
/// whoever else does so names no version, or another one. Where a replica names none it is taken for its own.
pub(super) fn is_ours(change: &Versions, open: &BTreeMap<u64, Sent>) -> bool {
    let version = change
        .before
        .as_deref()
        .map(|before| &before["metadata"]["resourceVersion"]);
    let path = format!("/nodeclaims/{}", object::name(&change.after));
    let mut writes = open.values().filter(|sent| {
        let request = &sent.request;
        let writes = matches!(request.method, Method::PATCH | Method::PUT);
        request.edge == Edge::Kube && writes && request.path.ends_with(&path)
    });
    writes.any(|sent| {
        let body: Value = serde_json::from_slice(&sent.request.body).unwrap_or_default();
        let metadata = &body["metadata"];
        let says = metadata.get("finalizers").is_some();
        let keeps = object::finalizers(&body).contains(&TERMINATION_FINALIZER);
        let from = &metadata["resourceVersion"];
        says && !keeps && (from.is_null() || Some(from) == version)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;

    /// A replica takes the finalizer off a claim, as it is when it does so.
    async fn releases(stage: &mut Stage, name: &str) {
        let claim = stage.claims().get(name).await.unwrap();
        let patch =
            json!({"metadata": {"finalizers": [], "resourceVersion": claim.metadata.resource_version}});
        let path = format!("/apis/karpenter.sh/v1/nodeclaims/{name}");
        let number = stage.sends(0, Edge::Kube, &Method::PATCH, &path, &patch.to_string());
        stage.release(name).await;
        stage.hears(0, number, Some(200), "{}");
    }

    /// A replica puts the finalizer back.
    async fn holds(stage: &mut Stage, name: &str) {
        let held = json!({"metadata": {"finalizers": [TERMINATION_FINALIZER]}});
        stage.patch(name, held).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_is_not_released_before_its_machine() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.delete("a").await;
        stage.delete_machine(&id).await;
        // Still on its way out.
        releases(&mut stage, "a").await;
        assert_eq!(stage.blamed(), ["S8"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_is_released_after_its_machine() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.delete("a").await;
        stage.delete_machine(&id).await;
        stage.pass(200).await;
        releases(&mut stage, "a").await;
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_appears_late_belongs_to_a_claim_that_was_released_too_early() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        stage.delete("a").await;
        releases(&mut stage, "a").await;
        assert!(stage.blamed().is_empty());
        stage.machine(&stage.name_of(&uid)).await;
        assert_eq!(stage.blamed(), ["S8"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_forces_a_finalizer_off_takes_the_blame() {
        for appears in ["before", "after"] {
            let mut stage = Stage::new().await;
            let uid = stage.claim("a").await;
            if appears == "before" {
                stage.machine(&stage.name_of(&uid)).await;
            }
            stage.delete("a").await;
            stage.struck("k14-strip-finalizer", "nodeclaims/a");
            stage.release("a").await;
            if appears == "after" {
                stage.machine(&stage.name_of(&uid)).await;
            }
            assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn from_when_it_is_on_again_it_is_ours_to_keep() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        stage.machine(&stage.name_of(&uid)).await;
        stage.struck("k14-strip-finalizer", "nodeclaims/a");
        stage.release("a").await;
        holds(&mut stage, "a").await;
        stage.delete("a").await;
        releases(&mut stage, "a").await;
        assert_eq!(stage.blamed(), ["S8"]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_forces_it_off_once_more_takes_the_blame_once_more() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        stage.machine(&stage.name_of(&uid)).await;
        stage.struck("k10-recreated", "nodeclaims/a");
        stage.release("a").await;
        // Between two writes of whoever forces it out.
        holds(&mut stage, "a").await;
        stage.delete("a").await;
        stage.release("a").await;
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_that_is_refused_is_no_release() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        stage.machine(&stage.name_of(&uid)).await;
        let patch = json!({"metadata": {"finalizers": [], "resourceVersion": "1"}}).to_string();
        let path = "/apis/karpenter.sh/v1/nodeclaims/a";
        let number = stage.sends(0, Edge::Kube, &Method::PATCH, path, &patch);
        stage.release("a").await;
        stage.hears(0, number, Some(409), "{}");
        assert!(stage.blamed().is_empty(), "somebody else took it off");
    }

    #[tokio::test(start_paused = true)]
    async fn a_namesake_is_another_claim() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        stage.struck("k10-recreated", "nodeclaims/a");
        stage.delete("a").await;
        stage.release("a").await;
        let uid = stage.claim("a").await;
        stage.machine(&stage.name_of(&uid)).await;
        assert!(stage.blamed().is_empty());
        stage.delete("a").await;
        releases(&mut stage, "a").await;
        assert_eq!(stage.blamed(), ["S8"]);
    }
}
