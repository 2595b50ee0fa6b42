//! Rare things that happen to pods: places on claims that are on their way, refusals, nodes that go from under them.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use serde_json::Value;

use super::{
    BUDGET_BLOCKED, EVICTED, Hits, LEFT_OUT, LIMIT_HELD, ON_ITS_WAY, PLANNED_AHEAD, PREEMPTED_WITH_PODS,
    UNDISTURBED,
};
use crate::api::names::{NOMINATED_PODS, REASON_FAILED_SCHEDULING, REASON_NOMINATED};
use crate::sim::history::{Entry, What};
use crate::sim::invariants::{Book, Truth};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::request::Target;
use crate::sim::kube::store::Stored;

/// What becomes of pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Machines that were taken back already, by id.
    taken: BTreeSet<String>,
    /// Pods on nodes that go whose budget allowed none of them to leave, by uid.
    kept: BTreeSet<String>,
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
            let placed = |pod: &Stored| !pod.field("spec.nodeName").is_empty();
            if pods(truth)
                .iter()
                .any(|pod| placed(pod) && names(&change.after, &uid(pod)))
            {
                hits.hit(PLANNED_AHEAD);
            }
        }
        if let What::Fault { name, detail } = &entry.what
            && *name == "k14-undisturbed-pod"
            && is_on_a_leaving_node(detail, truth)
        {
            hits.hit(UNDISTURBED);
        }
        if let (What::Answer(answer), Some(sent)) = (&entry.what, &book.answered) {
            let evicts = sent.request.method == Method::POST && sent.request.path.ends_with("/eviction");
            if evicts && matches!(answer.status, Some(200 | 201)) {
                hits.hit(EVICTED);
                self.look_at_budgets(&sent.request.path, truth, hits);
            }
            self.look_at_losses(book, truth, hits);
        }
    }

    /// A pod was evicted. The operator reads budgets and asks for nothing that they would refuse, so what they keep from
    /// leaving shows in who leaves later.
    fn look_at_budgets(&mut self, path: &str, truth: &Truth<'_>, hits: &mut Hits<'_>) {
        let pods = pods(truth);
        let target = Target::parse(path).unwrap_or_default();
        let evicted = pods.iter().find(|pod| {
            target.namespace.as_deref() == Some(pod.key.namespace.as_str())
                && target.name.as_deref() == Some(pod.key.name.as_str())
        });
        if evicted.is_some_and(|pod| self.kept.remove(&uid(pod))) {
            hits.hit(BUDGET_BLOCKED);
        }
        let mut budgets = objects(truth, "policy", "poddisruptionbudgets");
        budgets.retain(|budget| budget["status"]["disruptionsAllowed"] == 0);
        if budgets.is_empty() {
            return;
        }
        let claims = objects(truth, "karpenter.sh", "nodeclaims");
        let going = claims.iter().filter(|claim| object::is_deleting(claim));
        let going: BTreeSet<&str> = going.map(|claim| object::name(claim)).collect();
        let goes = |node: &str| going.contains(node);
        let kept = pods.iter().filter(|pod| {
            goes(pod.field("spec.nodeName"))
                && budgets.iter().any(|budget| guards(budget, pod))
                && !object::is_deleting(&pod.shared())
        });
        self.kept.extend(kept.map(|pod| uid(pod)));
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
                .any(|pod| pod.field("spec.nodeName") == claim.name)
            {
                hits.hit(PREEMPTED_WITH_PODS);
            }
        }
    }
}

/// Whether a pod, by its name as `pods/default/a`, is on a node whose claim is being deleted.
fn is_on_a_leaving_node(pod: &str, truth: &Truth<'_>) -> bool {
    let pods = pods(truth);
    let meant = pods
        .iter()
        .find(|it| format!("pods/{}/{}", it.key.namespace, it.key.name) == pod);
    let node = meant.map(|pod| pod.field("spec.nodeName"));
    let claims = objects(truth, "karpenter.sh", "nodeclaims");
    let mut leaving = claims.iter().filter(|claim| object::is_deleting(claim));
    node.is_some_and(|node| leaving.any(|claim| object::name(claim) == node))
}

/// Whether a budget is about a pod. Those of drawn worlds select by labels alone.
fn guards(budget: &Value, pod: &Stored) -> bool {
    let wanted = budget["spec"]["selector"]["matchLabels"].as_object();
    let has = |(key, value): (&String, &Value)| pod.labels.get(key).map(String::as_str) == value.as_str();
    object::namespace(budget) == pod.key.namespace && wanted.is_some_and(|wanted| wanted.iter().all(has))
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

fn pods(truth: &Truth<'_>) -> Vec<Arc<Stored>> {
    stored(truth, "", "pods")
}

fn objects(truth: &Truth<'_>, group: &str, plural: &str) -> Vec<Arc<Value>> {
    let listed = stored(truth, group, plural);
    listed.iter().map(|stored| stored.shared()).collect()
}

/// As they are stored: of pods, of which there are many, hardly one has to be decoded.
fn stored(truth: &Truth<'_>, group: &str, plural: &str) -> Vec<Arc<Stored>> {
    let state = truth.kube.state();
    let listed = state.store.list(&TableKey::of(group, plural), None);
    listed.cloned().collect()
}

fn uid(pod: &Stored) -> String {
    object::uid(&pod.shared()).to_owned()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::policy::v1::PodDisruptionBudget;
    use kube::Api;
    use kube::api::{Patch, PatchParams};
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
    async fn a_wish_not_to_be_disturbed_counts_on_a_node_that_goes() {
        let mut stage = Stage::new().await;
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                "spec": {"nodeName": "a", "containers": []},
            }),
        );
        stage.claim("a").await;
        stage.struck("k14-undisturbed-pod", "pods/default/p");
        assert!(hits(&stage).is_empty());
        stage.delete("a").await;
        stage.struck("k14-undisturbed-pod", "pods/default/p");
        assert_eq!(hits(&stage), [UNDISTURBED]);
    }

    fn evict(stage: &mut Stage, pod: &str, status: u16) {
        let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
        let number = stage.sends(0, Edge::Kube, &Method::POST, &path, "{}");
        stage.hears(0, number, Some(status), "{}");
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_are_recognized_and_those_that_a_budget_held_up() {
        let mut stage = Stage::new().await;
        for name in ["p", "q", "r"] {
            let node = if name == "r" { "stays" } else { "a" };
            write::insert(
                &stage.server,
                json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {"name": name, "namespace": "default", "labels": {"app": "api"}},
                    "spec": {"nodeName": node, "containers": []},
                }),
            );
        }
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "api", "namespace": "default"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "api"}}},
            }),
        );
        let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(stage.server.admin());
        let none = Patch::Merge(json!({"status": {
            "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2,
        }}));
        let params = PatchParams::default();
        budgets.patch_status("api", &params, &none).await.unwrap();
        stage.claim("a").await;
        evict(&mut stage, "p", 429);
        assert!(hits(&stage).is_empty());
        evict(&mut stage, "p", 201);
        evict(&mut stage, "q", 201);
        assert_eq!(hits(&stage), [EVICTED], "their node stays");
        stage.delete("a").await;
        evict(&mut stage, "p", 201);
        assert_eq!(hits(&stage), [EVICTED], "nothing had held it");
        evict(&mut stage, "r", 201);
        assert_eq!(hits(&stage), [EVICTED], "the node of this one stays");
        evict(&mut stage, "q", 201);
        assert_eq!(hits(&stage), [BUDGET_BLOCKED, EVICTED]);
    }
}
