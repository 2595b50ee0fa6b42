//! L1: after healing every pod runs that a NodePool has a machine for. By when is in `deadlines`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::book::Book;
use super::limits::limits;
use super::{Check, Findings, Truth};
use crate::api::names::{INSTANCE_TYPE, NODE_POOL};
use crate::ibm::builtin::find_profile;
use crate::sim::history::Entry;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::stored::ObjectKey;

/// A pod with this label is not to be had a place for: the scenario says so.
const HOPELESS: &str = "hopeless";

pub(super) struct Pods;

impl Check for Pods {
    fn observe(&mut self, _: &Entry, _: &Book, _: &Truth<'_>, _: &mut Findings) {}

    fn settled(&self, _: &Book, truth: &Truth<'_>, found: &mut Findings) {
        for pod in waiting(truth) {
            let message = format!("pod {} still waits", object::name(&pod));
            found.blame("L1", truth.since_start, message);
        }
    }
}

/// The pods that wait although a pool is open to them. A Node whose claim somebody forced away is reported and left alone:
/// where its pods go is the control plane's business, which may take ten minutes to give them up.
pub(super) fn waiting(truth: &Truth<'_>) -> Vec<Value> {
    let state = truth.kube.state();
    let pending = state.store.list(&TableKey::of("", "pods"), None);
    // Told by what stands beside the bytes: this is asked every second, and most pods run.
    let pending = pending.filter(|stored| stored.field("status.phase") == "Pending");
    let mut pods: Vec<Value> = pending.map(|stored| stored.value()).collect();
    drop(state);
    if !pods.is_empty() {
        let mut pools = open_pools(truth);
        pools.extend(roomy_pools(truth));
        let served = |pod: &Value| pools.iter().any(|pool| serves(pool, pod));
        let claims = objects(truth, "karpenter.sh", "nodeclaims");
        let is_forlorn = |pod: &Value| {
            let node = pod["spec"]["nodeName"].as_str();
            node.is_some_and(|node| claims.iter().all(|claim| object::name(claim) != node))
        };
        pods.retain(|pod| !object::is_deleting(pod) && !is_hopeless(pod) && !is_forlorn(pod) && served(pod));
    }
    pods
}

pub(super) fn is_hopeless(pod: &Value) -> bool {
    !pod["metadata"]["labels"][HOPELESS].is_null()
}

/// The pools that buy for whoever needs it, however much that is. What a limit or a pool that goes keeps pods from is no fault.
pub(super) fn open_pools(truth: &Truth<'_>) -> Vec<Value> {
    let mut pools = objects(truth, "karpenter.sh", "nodepools");
    pools.retain(|pool| {
        !object::is_deleting(pool) && pool["spec"]["limits"].is_null() && pool["spec"]["replicas"].is_null()
    });
    pools
}

/// The pools with limits that have plainly room for one machine more, though it and all that there are were of the largest
/// type that they may have.
fn roomy_pools(truth: &Truth<'_>) -> Vec<Value> {
    let mut pools = objects(truth, "karpenter.sh", "nodepools");
    pools.retain(|pool| {
        let limits = limits(pool);
        let is_open = !object::is_deleting(pool) && pool["spec"]["replicas"].is_null();
        let count = || i64::try_from(members(pool, truth)).unwrap_or(i64::MAX);
        is_open && !limits.is_empty() && have_room(&limits, largest(pool), count().saturating_add(1))
    });
    pools
}

/// Whether so many machines with so many processors each are within some limits. What they have of anything else is not
/// asked for.
fn have_room(limits: &[(String, i64)], largest: Option<i64>, machines: i64) -> bool {
    limits.iter().all(|(resource, limit)| match resource.as_str() {
        "nodes" => machines <= *limit,
        "cpu" => largest.is_some_and(|largest| machines.saturating_mul(largest) <= *limit),
        _ => false,
    })
}

/// How many thousandths of processors the largest type has that a pool may have, if it names them.
fn largest(pool: &Value) -> Option<i64> {
    let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array()?;
    let mut named = requirements.iter();
    let named = named.find(|it| it["key"] == INSTANCE_TYPE && it["operator"] == "In")?;
    let profiles = named["values"].as_array()?.iter();
    let processors = profiles.map(|name| Some(i64::from(find_profile(name.as_str()?)?.vcpu) * 1000));
    processors.collect::<Option<Vec<i64>>>()?.into_iter().max()
}

/// How many machines a pool has or may yet have: its claims, and Nodes that have lost theirs.
fn members(pool: &Value, truth: &Truth<'_>) -> usize {
    let kinds = [("karpenter.sh", "nodeclaims"), ("", "nodes")];
    let all = kinds
        .into_iter()
        .flat_map(|(group, plural)| objects(truth, group, plural));
    let own = all.filter(|it| it["metadata"]["labels"][NODE_POOL] == object::name(pool));
    let names: BTreeSet<String> = own.map(|it| object::name(&it).to_owned()).collect();
    names.len()
}

/// Whether a pool may buy for a pod, as far as the pod chooses among pools and tolerates them.
pub(super) fn serves(pool: &Value, pod: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let template = &pool["spec"]["template"]["spec"];
    let tolerations = list(&pod["spec"]["tolerations"]);
    let tolerates = |taint: &Value| tolerations.iter().any(|it| it["key"] == taint["key"]);
    // A daemon is for a node that is there.
    let owners = list(&pod["metadata"]["ownerReferences"]);
    if owners.iter().any(|owner| owner["kind"] == "DaemonSet") {
        return false;
    }
    let selector = pod["spec"]["nodeSelector"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let requirements = list(&template["requirements"]);
    let allows = |(key, value): (&String, &Value)| {
        let named = key != NODE_POOL || value == object::name(pool);
        let required = requirements.iter().filter(|it| it["key"] == key.as_str());
        let mut listed = required.filter(|it| it["operator"] == "In");
        named && listed.all(|it| list(&it["values"]).contains(value))
    };
    list(&template["taints"]).iter().all(tolerates) && selector.iter().all(allows)
}

/// Whether a volume of a pod is attached to a node that is not the pod's.
pub(super) fn waits_for_a_volume(pod: &Value, truth: &Truth<'_>) -> bool {
    let volumes = volumes(pod, truth);
    let is_elsewhere = |attachment: &Value| {
        let spec = &attachment["spec"];
        let volume = spec["source"]["persistentVolumeName"]
            .as_str()
            .unwrap_or_default();
        spec["nodeName"] != pod["spec"]["nodeName"] && volumes.iter().any(|name| name == volume)
    };
    !volumes.is_empty()
        && objects(truth, "storage.k8s.io", "volumeattachments")
            .iter()
            .any(is_elsewhere)
}

/// The names of the volumes that the claims of a pod have.
fn volumes(pod: &Value, truth: &Truth<'_>) -> Vec<String> {
    let claim = |volume: &Value| match volume["persistentVolumeClaim"]["claimName"].as_str() {
        Some(claim) => Some(claim.to_owned()),
        // Named for the pod and for what the pod calls it.
        None => volume["ephemeral"].is_object().then(|| {
            let own = volume["name"].as_str().unwrap_or_default();
            format!("{}-{own}", object::name(pod))
        }),
    };
    let listed = pod["spec"]["volumes"].as_array();
    let claims = listed.into_iter().flatten().filter_map(claim);
    let state = truth.kube.state();
    let table = TableKey::of("", "persistentvolumeclaims");
    let volume = |claim: String| {
        let key = ObjectKey::new(object::namespace(pod), &claim);
        let claim = state.store.get(&table, &key)?.shared();
        claim["spec"]["volumeName"].as_str().map(str::to_owned)
    };
    claims.filter_map(volume).collect()
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

    #[tokio::test(start_paused = true)]
    async fn a_pool_with_limits_is_open_as_long_as_it_has_plainly_room() {
        let waits = pod(&json!({}));
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "n", "labels": {NODE_POOL: "p"}},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "d"}},
        });
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "m", "labels": {NODE_POOL: "p"}},
        });
        for (limits, room) in [
            (json!({"nodes": 1}), 1),
            (json!({"nodes": "2", "cpu": "16"}), 2),
            (json!({"cpu": "15"}), 1),
            (json!({"cpu": "7"}), 0),
            (json!({"nodes": 1, "memory": "1Ti"}), 0),
        ] {
            let mut pool = pool(&limits);
            let types = json!({"key": INSTANCE_TYPE, "operator": "In", "values": ["bxf-4x16", "bxf-8x32"]});
            pool["spec"]["template"]["spec"]["requirements"] = json!([types]);
            let mut there = vec![pool, waits.clone()];
            for (count, member) in [&claim, &node].into_iter().enumerate() {
                let expected: &[&str] = if count < room { &["L1"] } else { &[] };
                assert_eq!(blamed(&there).await, expected, "{limits} {count}");
                there.push(member.clone());
            }
            assert!(blamed(&there).await.is_empty(), "{limits}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_on_a_node_whose_claim_is_gone_is_not_ours_to_move() {
        let (mut bound, open) = (pod(&json!({})), pool(&Value::Null));
        bound["spec"]["nodeName"] = json!("n");
        assert!(blamed(&[open.clone(), bound.clone()]).await.is_empty());
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "n"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "d"}},
        });
        assert_eq!(blamed(&[open, bound, claim]).await, ["L1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_that_a_pod_does_not_choose_or_tolerate_is_not_for_it() {
        let open = pool(&Value::Null);
        let mut picky = pod(&json!({}));
        picky["spec"]["nodeSelector"] = json!({NODE_POOL: "small"});
        assert!(blamed(&[open.clone(), picky]).await.is_empty());
        let mut guarded = open;
        guarded["spec"]["template"]["spec"]["taints"] = json!([{"key": "t", "effect": "NoSchedule"}]);
        let mut waits = pod(&json!({}));
        assert!(blamed(&[guarded.clone(), waits.clone()]).await.is_empty());
        waits["spec"]["tolerations"] = json!([{"key": "t", "operator": "Exists"}]);
        assert_eq!(blamed(&[guarded, waits]).await, ["L1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_waits_for_a_volume_that_is_attached_to_another_node() {
        let stage = Stage::new().await;
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "a-data", "namespace": "default"}, "spec": {"volumeName": "disk"},
            }),
        );
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1"},
                "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "disk"}},
            }),
        );
        let truth = Truth {
            kube: &stage.server,
            cloud: &stage.cloud,
            now: "2026-11-16T10:00:00Z".parse().unwrap(),
            since_start: std::time::Duration::ZERO,
        };
        let waits = |node: Option<&str>, volume: &Value| {
            let mut pod = pod(&json!({}));
            pod["spec"]["nodeName"] = json!(node);
            pod["spec"]["volumes"] = json!([volume]);
            waits_for_a_volume(&pod, &truth)
        };
        let named = |claim: &str| json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
        let own = json!({"name": "data", "ephemeral": {"volumeClaimTemplate": {}}});
        assert!(waits(None, &named("a-data")));
        assert!(waits(Some("m"), &own));
        assert!(!waits(Some("n"), &own), "it is where the pod is");
        assert!(!waits(None, &named("other")));
        assert!(!waits(None, &json!({"name": "data", "emptyDir": {}})));
    }
}
