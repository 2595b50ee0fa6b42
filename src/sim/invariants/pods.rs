//! L1: after healing every pod runs that a NodePool has a machine for. L9: one bad object keeps nobody else waiting, which
//! is the same question asked of the others.

use serde_json::Value;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::sim::history::Entry;
use crate::sim::kube::kind::TableKey;

/// A pod with this label is not to be had a place for: the scenario says so.
const HOPELESS: &str = "hopeless";

pub(super) struct Pods;

impl Check for Pods {
    fn observe(&mut self, _: &Entry, _: &Book, _: &Truth<'_>, _: &mut Findings) {}

    fn settled(&self, _: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let pools = objects(truth, "karpenter.sh", "nodepools");
        // What a limit or a pool that goes keeps pods from is no fault.
        let is_open = |pool: &Value| {
            pool["metadata"]["deletionTimestamp"].is_null()
                && pool["spec"]["limits"].is_null()
                && pool["spec"]["replicas"].is_null()
        };
        if !pools.iter().any(is_open) {
            return;
        }
        for pod in objects(truth, "", "pods") {
            let is_hopeless = !pod["metadata"]["labels"][HOPELESS].is_null();
            if !is_hopeless && pod["status"]["phase"] == "Pending" {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                found.blame("L1", truth.since_start, format!("pod {name} still waits"));
            }
        }
    }
}

fn objects(truth: &Truth<'_>, group: &str, plural: &str) -> Vec<Value> {
    let state = truth.kube.state();
    let listed = state.store.list(&TableKey::of(group, plural), None);
    listed.map(|stored| stored.value()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::sim::kube::write;

    fn pool(limits: &Value) -> Value {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
            "spec": {"limits": limits, "template": {"spec": {
                "requirements": [], "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "d"},
            }}},
        })
    }

    fn pod(labels: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "default", "labels": labels},
            "spec": {"containers": [{"name": "a", "image": "a"}]}, "status": {"phase": "Pending"},
        })
    }

    async fn blamed(objects: &[Value]) -> Vec<&'static str> {
        let stage = Stage::new().await;
        for object in objects {
            write::insert(&stage.server, object.clone());
        }
        let mut found = Findings::default();
        let truth = Truth {
            kube: &stage.server,
            cloud: &stage.cloud,
            now: "2026-11-16T10:00:00Z".parse().unwrap(),
            since_start: std::time::Duration::ZERO,
        };
        let book = Book::new(super::super::Settings::new("g"));
        Pods.settled(&book, &truth, &mut found);
        found.0.iter().map(|violation| violation.id).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_waits_although_a_pool_is_open_is_blamed() {
        let (waits, open) = (pod(&json!({})), pool(&Value::Null));
        assert_eq!(blamed(&[open.clone(), waits.clone()]).await, ["L1"]);
        assert!(
            blamed(std::slice::from_ref(&waits)).await.is_empty(),
            "nobody is to buy for it"
        );
        assert!(blamed(&[pool(&json!({"cpu": "1"})), waits]).await.is_empty());
        assert!(blamed(&[open, pod(&json!({"hopeless": "yes"}))]).await.is_empty());
    }
}
