//! Rare things that happen to pods: places on claims that are on their way, refusals, nodes that go from under them.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;

use super::{
    BUDGET_BLOCKED, EVICTED, Hits, LEFT_OUT, LIMIT_HELD, ON_ITS_WAY, PLANNED_AHEAD, PREEMPTED_WITH_PODS,
};
use crate::api::names::{NOMINATED_PODS, REASON_FAILED_SCHEDULING, REASON_NOMINATED};
use crate::sim::history::{Entry, What};
use crate::sim::invariants::{Book, Truth};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

/// What becomes of pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Machines that were taken back already, by id.
    taken: BTreeSet<String>,
}

impl Places {
    pub(super) fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, hits: &mut Hits<'_>) {
        for event in &book.changed.events {
            heard(event, truth, hits);
        }
        for change in book
            .changed
            .claims
            .iter()
            .filter(|change| change.before.is_none())
        {
            let placed = |pod: &Value| pod["spec"]["nodeName"].is_string();
            if pods(truth)
                .iter()
                .any(|pod| placed(pod) && names(&change.after, object::uid(pod)))
            {
                hits.hit(PLANNED_AHEAD);
            }
        }
        if let (What::Answer(answer), Some(sent)) = (&entry.what, &book.answered) {
            let evicts = sent.request.method == Method::POST && sent.request.path.ends_with("/eviction");
            match answer.status.filter(|_| evicts) {
                Some(200 | 201) => hits.hit(EVICTED),
                Some(429) if says(&answer.body, "disruption budget") => hits.hit(BUDGET_BLOCKED),
                _ => {}
            }
            self.look_at_losses(book, truth, hits);
        }
    }

    fn look_at_losses(&mut self, book: &Book, truth: &Truth<'_>, hits: &mut Hits<'_>) {
        let preempted = |reason: &Option<String>| reason.as_deref() == Some("stopped_by_preemption");
        let lost = book
            .machines
            .values()
            .filter(|machine| preempted(&machine.reason));
        for machine in lost {
            let claim = machine.claim.as_ref().and_then(|claim| book.claims.get(claim));
            let Some(claim) = claim.filter(|_| self.taken.insert(machine.id.clone())) else {
                continue;
            };
            if pods(truth)
                .iter()
                .any(|pod| pod["spec"]["nodeName"] == claim.name.as_str())
            {
                hits.hit(PREEMPTED_WITH_PODS);
            }
        }
    }
}

fn says(body: &[u8], words: &str) -> bool {
    String::from_utf8_lossy(body).contains(words)
}

/// Looks at an event about a pod.
fn heard(event: &Value, truth: &Truth<'_>, hits: &mut Hits<'_>) {
    let about = event.get("involvedObject").or_else(|| event.get("regarding"));
    let note = event["message"]
        .as_str()
        .or(event["note"].as_str())
        .unwrap_or_default();
    let ours = event["reportingComponent"]
        .as_str()
        .or(event["reportingController"].as_str());
    if !ours.is_some_and(|ours| ours.starts_with("karpenter-ibm")) {
        return;
    }
    if event["reason"] == REASON_FAILED_SCHEDULING {
        hits.hit(LEFT_OUT);
        if note.contains("limit") {
            hits.hit(LIMIT_HELD);
        }
    }
    let claim = note.strip_prefix("Pod should schedule on nodeclaim/");
    if let Some(claim) = claim.filter(|_| event["reason"] == REASON_NOMINATED) {
        let uid = about.and_then(|about| about["uid"].as_str()).unwrap_or_default();
        let claims = objects(truth, "karpenter.sh", "nodeclaims");
        let mut meant = claims.iter().filter(|it| object::name(it) == claim);
        if meant.any(|claim| !names(claim, uid)) {
            hits.hit(ON_ITS_WAY);
        }
    }
}

/// Whether a claim was made for a pod.
fn names(claim: &Value, pod: &str) -> bool {
    let named = claim["metadata"]["annotations"][NOMINATED_PODS].as_str();
    named.unwrap_or_default().split(',').any(|uid| uid == pod)
}

fn pods(truth: &Truth<'_>) -> Vec<Value> {
    objects(truth, "", "pods")
}

fn objects(truth: &Truth<'_>, group: &str, plural: &str) -> Vec<Value> {
    let state = truth.kube.state();
    let listed = state.store.list(&TableKey::of(group, plural), None);
    listed.map(|stored| stored.value()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sim::history::Edge;
    use crate::sim::invariants::stage::Stage;
    use crate::sim::kube::write;

    fn hits(stage: &Stage) -> Vec<&'static str> {
        stage.judge.probes().hits.keys().copied().collect()
    }

    fn event(stage: &mut Stage, reason: &str, note: &str) {
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
                "involvedObject": {"kind": "Pod", "uid": "7"}, "reason": reason, "message": note,
                "reportingComponent": "karpenter-ibm.sh/controller",
            }),
        );
        stage.look();
    }

    #[tokio::test(start_paused = true)]
    async fn what_pods_are_told_is_recognized() {
        let mut stage = Stage::new().await;
        event(
            &mut stage,
            REASON_FAILED_SCHEDULING,
            "pool small: its limit of 4 cpu leaves 0",
        );
        assert_eq!(hits(&stage), [LIMIT_HELD, LEFT_OUT]);
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        event(&mut stage, REASON_NOMINATED, "Pod should schedule on nodeclaim/a");
        assert_eq!(hits(&stage), [ON_ITS_WAY]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_for_a_pod_that_is_still_somewhere_is_recognized() {
        let mut stage = Stage::new().await;
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                "spec": {"nodeName": "a", "containers": []},
            }),
        );
        let annotations = json!({NOMINATED_PODS: format!("6,{}", stage.uid_of_pod("p"))});
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "b", "annotations": annotations}, "spec": {},
            }),
        );
        stage.look();
        assert_eq!(hits(&stage), [PLANNED_AHEAD]);
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_and_budgets_that_refuse_them_are_recognized() {
        let mut stage = Stage::new().await;
        let path = "/api/v1/namespaces/default/pods/p/eviction";
        for (status, body) in [
            (201, "{}"),
            (429, "it would violate the pod's disruption budget"),
            (429, "slow down"),
        ] {
            let number = stage.sends(0, Edge::Kube, &Method::POST, path, "{}");
            stage.hears(0, number, Some(status), body);
        }
        assert_eq!(hits(&stage), [BUDGET_BLOCKED, EVICTED]);
    }
}
