//! From pods that wait to NodeClaims, between the embedded cluster and the simulated cloud.

mod harm;
mod incidents;
mod numbers;
mod poison;
mod quiet;
mod told;
mod troubles;
mod window;

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use karpenter_ibm::api::{NodeClaim, NodePool, names};
use karpenter_ibm::sim::kube::write;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{World, audited, while_working};

const SOON: Duration = Duration::from_secs(20);

impl World {
    /// A pool that takes what `spec` says besides the class.
    pub(super) async fn pool(&self, name: &str, spec: Value) -> NodePool {
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}],
            }}},
        });
        json_patch::merge(&mut pool["spec"], &spec);
        let pools: Api<NodePool> = Api::all(self.kube.admin());
        let pool = serde_json::from_value(pool).unwrap();
        pools.create(&PostParams::default(), &pool).await.unwrap()
    }

    /// A pod that the scheduler has found no node for. Its owner makes it anew.
    pub(super) async fn waiting(&self, name: &str, spec: Value) {
        self.coming(name, spec).await;
        let refused = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
        let params = PatchParams::default();
        self.pods()
            .patch_status(name, &params, &Patch::Merge(refused))
            .await
            .unwrap();
    }

    /// A pod that the scheduler has not come to yet. Its owner makes it anew.
    pub(super) async fn coming(&self, name: &str, spec: Value) {
        let owner = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": self.owner().await, "controller": true,
        }]);
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": owner},
            "spec": {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
        });
        json_patch::merge(&mut pod["spec"], &spec);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// The claim that a pod `a` gets from a pool `default`, once its machine runs.
    async fn launched_for_a_pod(&self) -> NodeClaim {
        self.pool("default", json!({})).await;
        self.waiting("a", json!({})).await;
        let [claim] = self.until_claims(1).await.try_into().unwrap();
        self.until_launched(&claim.name_any()).await;
        claim
    }

    /// The uid of a ReplicaSet that nobody looks after here.
    async fn owner(&self) -> String {
        let sets: Api<ReplicaSet> = Api::default_namespaced(self.kube.admin());
        if let Some(set) = sets.get_opt("web").await.unwrap() {
            return set.uid().unwrap();
        }
        let labels = json!({"app": "web"});
        let set = json!({"metadata": {"name": "web"}, "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        }});
        let set = serde_json::from_value(set).unwrap();
        sets.create(&PostParams::default(), &set)
            .await
            .unwrap()
            .uid()
            .unwrap()
    }

    /// The kubelet of a node says what it has.
    pub(super) async fn report(&self, node: &str) {
        let nodes: Api<Node> = Api::all(self.kube.admin());
        let amounts = json!({"cpu": "2", "memory": "7Gi", "pods": "110", "ephemeral-storage": "80Gi"});
        let status = json!({"status": {"capacity": amounts, "allocatable": amounts}});
        let params = PatchParams::default();
        nodes
            .patch_status(node, &params, &Patch::Merge(status))
            .await
            .unwrap();
    }

    /// The scheduler puts a pod on a node.
    pub(super) async fn bind(&self, pod: &str, node: &str) {
        let mut bound = self.pods().get(pod).await.unwrap();
        self.pods()
            .delete(pod, &DeleteParams::default().grace_period(0))
            .await
            .unwrap();
        bound.metadata.resource_version = None;
        bound.spec.as_mut().unwrap().node_name = Some(node.to_owned());
        self.pods().create(&PostParams::default(), &bound).await.unwrap();
        let running = json!({"status": {"phase": "Running"}});
        let params = PatchParams::default();
        self.pods()
            .patch_status(pod, &params, &Patch::Merge(running))
            .await
            .unwrap();
    }

    pub(super) async fn all_claims(&self) -> Vec<NodeClaim> {
        self.claims().list(&ListParams::default()).await.unwrap().items
    }

    pub(super) async fn until_claims(&self, count: usize) -> Vec<NodeClaim> {
        let end = self.clock.instant() + SOON;
        while self.all_claims().await.len() != count {
            if self.clock.instant() > end {
                let told = self.notes("FailedScheduling").await;
                panic!(
                    "not {count} claims but {}; {told:?}",
                    self.all_claims().await.len()
                );
            }
            self.clock.sleep(Duration::from_millis(100)).await;
        }
        self.all_claims().await
    }

    /// Notes of events with that reason about pods.
    pub(super) async fn notes(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::all(self.kube.admin());
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let about = events
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        let of_pods = about.filter(|event| event.regarding.as_ref().unwrap().kind.as_deref() == Some("Pod"));
        of_pods.filter_map(|event| event.note).collect()
    }

    async fn until_told(&self, reason: &str, part: &str) {
        self.until(&format!("{reason}: {part}"), SOON, async || {
            self.notes(reason).await.iter().any(|note| note.contains(part))
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_get_a_claim_that_names_them_and_says_all_that_the_pool_does() {
    let world = World::new();
    while_working(world.replica(), Box::pin(async {
        let pool = json!({"template": {
            "metadata": {"labels": {"team": "shop"}, "annotations": {"note": "x"}},
            "spec": {
                "taints": [{"key": "shop", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "begin", "effect": "NoSchedule"}],
                "expireAfter": "12h", "terminationGracePeriod": "5m",
            },
        }});
        let pool = world.pool("shop", pool).await;
        let tolerant = json!({
            "tolerations": [{"key": "shop", "operator": "Exists"}],
            "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}],
        });
        world.waiting("a", tolerant.clone()).await;
        world.waiting("b", tolerant).await;
        let [claim] = world.until_claims(1).await.try_into().unwrap();
        let owner = &claim.owner_references()[0];
        assert_eq!(
            (owner.uid.clone(), owner.block_owner_deletion),
            (pool.uid().unwrap(), Some(true))
        );
        assert_eq!(claim.labels()["team"], "shop");
        assert_eq!(claim.labels()[names::NODE_POOL], "shop");
        assert_eq!(claim.labels()[names::NODE_CLASS], "default");
        assert_eq!(claim.annotations()["note"], "x");
        assert_eq!(claim.annotations()[names::NODE_POOL_HASH], pool.hash());
        assert_eq!(claim.annotations()[names::NOMINATED_PODS].split(',').count(), 2);
        assert_eq!(claim.spec.expire_after.as_deref(), Some("12h"));
        assert_eq!(claim.spec.termination_grace_period.as_deref(), Some("5m"));
        assert_eq!(claim.spec.taints.as_ref().unwrap()[0].key, "shop");
        assert_eq!(claim.spec.startup_taints.as_ref().unwrap()[0].key, "begin");
        let requests = claim.spec.resources.as_ref().unwrap().requests.as_ref().unwrap();
        assert_eq!(serde_json::to_value(requests).unwrap()["cpu"], json!("1"));
        let types = claim
            .spec
            .requirements
            .iter()
            .find(|it| it.key == names::INSTANCE_TYPE);
        assert!(types.unwrap().values().len() > 3, "launch may still choose");
        let name = claim.name_any();
        world.until_told("Nominated", &name).await;
        world.until_launched(&name).await;
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(world.all_claims().await.len(), 1, "nothing is bought twice");
        assert_eq!(world.notes("Nominated").await.len(), 2, "each pod is told once");
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn limits_hold_with_everything_counted_and_the_pod_left_out_is_told_why_once() {
    let world = World::new();
    while_working(world.replica(), Box::pin(async {
        world.pool("small", json!({"limits": {"cpu": "4", "nodes": "1"}})).await;
        for pod in ["a", "b", "c"] {
            let one_each = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
            world.waiting(pod, one_each).await;
        }
        world.until_claims(1).await;
        world.until_told("FailedScheduling", "small").await;
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(world.all_claims().await.len(), 1);
        let told = world.notes("FailedScheduling").await;
        assert_eq!(told.len(), 2, "one for each pod: {told:?}");
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_offering_that_is_withheld_is_not_planned_for_and_comes_back() {
    let world = World::new();
    write::insert(
        &world.kube,
        json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering", "metadata": {"name": "spot.all"},
            "spec": {"key": "spot:*:*", "reason": "Quota", "until": "2026-11-16T10:05:00Z"},
        }),
    );
    while_working(
        world.replica(),
        Box::pin(async {
            let only_spot =
                json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]);
            world
                .pool("spot", json!({"template": {"spec": {"requirements": only_spot}}}))
                .await;
            world.waiting("a", json!({})).await;
            world.until_told("FailedScheduling", "Quota").await;
            assert!(world.all_claims().await.is_empty());
            world.clock.sleep(Duration::from_mins(5)).await;
            world.until_claims(1).await;
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_claims_of_a_pool_go_when_it_goes() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let claim = world.launched_for_a_pod().await;
            let pools: Api<NodePool> = Api::all(world.kube.admin());
            pools
                .delete("default", &DeleteParams::background())
                .await
                .unwrap();
            world.until_gone(&claim.name_any()).await;
            assert!(world.cloud.instances().is_empty());
            world.clock.sleep(Duration::from_mins(1)).await;
            assert!(
                world.all_claims().await.is_empty(),
                "nothing is bought for a pool that is gone"
            );
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_goes_are_planned_for_before_they_are_evicted() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let name = world.launched_for_a_pod().await.name_any();
            world.join(&name).await;
            world.until_registered(&name).await;
            world.report(&name).await;
            world.make_ready(&name).await;
            world
                .until("ready", SOON, async || world.is_true(&name, "Ready").await)
                .await;
            world.bind("a", &name).await;
            world.clock.sleep(Duration::from_mins(2)).await;
            assert_eq!(world.all_claims().await.len(), 1);
            let nodes: Api<Node> = Api::all(world.kube.admin());
            let tainted =
                json!({"spec": {"taints": [{"key": names::DISRUPTED_TAINT, "effect": "NoSchedule"}]}});
            nodes
                .patch(&name, &PatchParams::default(), &Patch::Merge(tainted))
                .await
                .unwrap();
            let claims = world.until_claims(2).await;
            let uid = world.pods().get("a").await.unwrap().uid().unwrap();
            let new = claims.iter().find(|claim| claim.name_any() != name).unwrap();
            assert_eq!(new.annotations()[names::NOMINATED_PODS], uid);
            world.clock.sleep(Duration::from_mins(2)).await;
            assert_eq!(world.all_claims().await.len(), 2);
        }),
    )
    .await;
}

/// A ReplicaSet makes another pod at once, and the old one is there until its kubelet says that it has stopped.
#[tokio::test(start_paused = true)]
async fn the_successor_of_a_pod_that_takes_long_to_stop_gets_the_node_that_was_bought_for_it() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let old = world.launched_for_a_pod().await.name_any();
            world.join(&old).await;
            world.until_registered(&old).await;
            world.report(&old).await;
            world.make_ready(&old).await;
            world
                .until("ready", SOON, async || world.is_true(&old, "Ready").await)
                .await;
            world.bind("a", &old).await;
            let nodes: Api<Node> = Api::all(world.kube.admin());
            let tainted =
                json!({"spec": {"taints": [{"key": names::DISRUPTED_TAINT, "effect": "NoSchedule"}]}});
            nodes
                .patch(&old, &PatchParams::default(), &Patch::Merge(tainted))
                .await
                .unwrap();
            world.until_claims(2).await;
            world.delete(&old).await;
            world
                .until("evicted", SOON, async || {
                    let pod = world.pods().get("a").await.unwrap();
                    pod.metadata.deletion_timestamp.is_some()
                })
                .await;
            world.waiting("b", json!({})).await;
            world.clock.sleep(Duration::from_secs(20)).await;
            assert!(
                world.pods().get_opt("a").await.unwrap().is_some(),
                "it stops still"
            );
            world.until_emptied(&old, Duration::from_mins(3)).await;
            world.clock.sleep(Duration::from_mins(1)).await;
            assert_eq!(world.all_claims().await.len(), 1, "nothing was bought twice");
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_who_both_believe_to_lead_make_one_claim() {
    let world = World::new();
    // Each with a Lease of its own, so that both lead.
    let replica = |name: &str, namespace: &str| {
        let mut settings = World::settings(name);
        settings.controllers.namespace = namespace.to_owned();
        audited::factory(settings)(world.edges())
    };
    let both = futures::future::join(replica("one", super::NAMESPACE), replica("two", "default"));
    while_working(
        futures::FutureExt::map(both, |_| ()),
        Box::pin(async {
            world.clock.sleep(Duration::from_secs(30)).await;
            world.pool("default", json!({})).await;
            for pod in ["a", "b", "c"] {
                world.waiting(pod, json!({})).await;
            }
            world.until_claims(1).await;
            world.clock.sleep(Duration::from_mins(5)).await;
            assert_eq!(world.all_claims().await.len(), 1);
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_has_as_many_claims_as_it_says() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            world
                .pool("fixed", json!({"replicas": 2, "limits": {"nodes": "3"}}))
                .await;
            world.until_claims(2).await;
            let pools: Api<NodePool> = Api::all(world.kube.admin());
            let more = json!({"spec": {"replicas": 5}});
            pools
                .patch("fixed", &PatchParams::default(), &Patch::Merge(more))
                .await
                .unwrap();
            world.until_claims(3).await;
            world.clock.sleep(Duration::from_mins(1)).await;
            assert_eq!(world.all_claims().await.len(), 3, "the limit holds");
            let fewer = json!({"spec": {"replicas": 1}});
            pools
                .patch("fixed", &PatchParams::default(), &Patch::Merge(fewer))
                .await
                .unwrap();
            world
                .until("one claim", Duration::from_mins(5), async || {
                    world.all_claims().await.len() == 1
                })
                .await;
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_says_whether_it_can_be_used_and_what_it_has() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let pool = world.pool("default", json!({})).await;
            let pools: Api<NodePool> = Api::all(world.kube.admin());
            let says = async |type_: &str| {
                let status = pools.get("default").await.unwrap().status.unwrap_or_default();
                let conditions = status.conditions.unwrap_or_default();
                conditions
                    .into_iter()
                    .find(|it| it.type_ == type_)
                    .map(|it| it.status)
            };
            world
                .until("ready", SOON, async || {
                    says("Ready").await.as_deref() == Some("True")
                })
                .await;
            let stamped = pools.get("default").await.unwrap();
            assert_eq!(stamped.annotations()[names::NODE_POOL_HASH], pool.hash());
            world.waiting("a", json!({})).await;
            let [claim] = world.until_claims(1).await.try_into().unwrap();
            world.until_launched(&claim.name_any()).await;
            world
                .until("one node", SOON, async || {
                    pools.get("default").await.unwrap().status.unwrap().nodes == Some(1)
                })
                .await;
            world.unclassed().await;
            world
                .until("not ready", SOON, async || {
                    says("NodeClassReady").await.as_deref() == Some("False")
                })
                .await;
            assert_eq!(says("Ready").await.as_deref(), Some("False"));
        }),
    )
    .await;
}
