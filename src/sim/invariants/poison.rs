//! L9: one bad object keeps nobody else waiting. While a pod is there that no machine has room for, or a claim of a class
//! that is not, the others must come to what they wait for as if it were not: within the bounds of L1 and L2, where
//! `deadlines` asks for it, and by the time that everything must be well at the latest.

use serde_json::Value;

use super::book::Book;
use super::pods::{is_hopeless, waiting};
use super::{Check, Findings, Truth, leftovers};
use crate::sim::history::Entry;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

pub(super) struct Poison;

impl Check for Poison {
    fn observe(&mut self, _: &Entry, _: &Book, _: &Truth<'_>, _: &mut Findings) {}

    fn settled(&self, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let Some(bad) = bad_object(truth) else {
            return;
        };
        let pods = waiting(truth);
        let pods = pods.iter().map(|pod| format!("pod {}", object::name(pod)));
        let claims = leftovers::waiting(book, truth)
            .into_iter()
            .map(|claim| format!("claim {claim}"));
        for other in pods.chain(claims).filter(|other| *other != bad) {
            let message = format!("{other} waits while {bad} is there, which is no good");
            found.blame("L9", truth.since_start, message);
        }
    }
}

/// The first object that nobody can serve, as `pod giant-1`.
pub(super) fn bad_object(truth: &Truth<'_>) -> Option<String> {
    let state = truth.kube.state();
    let all = |group: &str, plural: &str| {
        let listed = state.store.list(&TableKey::of(group, plural), None);
        listed.map(|stored| stored.value()).collect::<Vec<Value>>()
    };
    let classes = all("karpenter-ibm.sh", "ibmnodeclasses");
    let is_stray = |claim: &&Value| {
        let class = claim["spec"]["nodeClassRef"]["name"].as_str().unwrap_or_default();
        !classes.iter().any(|it| object::name(it) == class)
    };
    let claims = all("karpenter.sh", "nodeclaims");
    let stray = claims.iter().find(is_stray);
    let pods = all("", "pods");
    let waits = |pod: &&Value| pod["status"]["phase"] == "Pending" && is_hopeless(pod);
    stray
        .map(|claim| format!("claim {}", object::name(claim)))
        .or_else(|| {
            pods.iter()
                .find(waits)
                .map(|pod| format!("pod {}", object::name(pod)))
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::sim::kube::write;

    fn add(stage: &Stage, object: Value) {
        write::insert(&stage.server, object);
    }

    fn pod(name: &str, labels: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"containers": [{"name": "a", "image": "a"}]}, "status": {"phase": "Pending"},
        })
    }

    fn pool() -> Value {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
            "spec": {"template": {"spec": {
                "requirements": [], "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            }}},
        })
    }

    fn class() -> Value {
        json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "spec": {"region": "us-south", "vpc": "v", "image": "i"},
        })
    }

    fn blamed(stage: &Stage) -> Vec<String> {
        let unmet = stage.unmet().into_iter().filter(|unmet| unmet.id == "L9");
        unmet.map(|unmet| unmet.message).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_the_sake_of_a_pod_that_cannot_be_served() {
        let stage = Stage::new().await;
        add(&stage, class());
        add(&stage, pool());
        add(&stage, pod("shop", &json!({})));
        assert!(blamed(&stage).is_empty(), "nothing is bad here: that is L1");
        add(&stage, pod("giant", &json!({"hopeless": "yes"})));
        assert_eq!(
            blamed(&stage),
            ["pod shop waits while pod giant is there, which is no good"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn nor_for_that_of_a_claim_whose_class_is_not_there() {
        let mut stage = Stage::new().await;
        stage.claim("stray").await;
        assert!(blamed(&stage).is_empty());
        add(&stage, pool());
        add(&stage, pod("shop", &json!({})));
        assert_eq!(
            blamed(&stage),
            ["pod shop waits while claim stray is there, which is no good"]
        );
    }
}
