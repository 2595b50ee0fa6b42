//! Things at which planning panics: each is found, told so and left out, and nobody else waits for it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use karpenter_ibm::api::names;
use karpenter_ibm::controllers::compute::{Compute, Place};
use karpenter_ibm::model::Snapshot;
use karpenter_ibm::model::pod::PodSet;
use karpenter_ibm::operator;
use karpenter_ibm::scheduling;
use karpenter_ibm::sim::kube::write;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::{World, audited, while_working};
use super::incidents::panics;

/// A replica whose plans panic where there is poison, and where it counts.
fn replica(
    world: &World,
    is_poison: fn(&Snapshot) -> bool,
) -> (BoxFuture<'static, ()>, prometheus::Registry) {
    let poison = move |context: operator::Context| operator::Context {
        compute: Compute::with(
            Place::Here,
            Arc::new(move |snapshot, options, budget| {
                assert!(!is_poison(snapshot), "this is poison");
                scheduling::solve(snapshot, options, budget)
            }),
        ),
        ..context
    };
    let edges = world.edges();
    let registry = edges.registry.clone();
    let factory = audited::factory_of(World::settings("one"), |edges| edges, poison);
    (factory(edges), registry)
}

fn is_among(pods: &PodSet) -> bool {
    let mut read = pods.classes.iter().flatten();
    read.any(|pod| pod.labels.contains_key("poison"))
}

/// How often planning has panicked after ten minutes in which something is left out for one, two, four minutes.
fn assert_backed_off(registry: &prometheus::Registry) {
    let panics = panics(registry, "provisioning");
    assert!((3.0..=5.0).contains(&panics), "{panics} times in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_which_planning_panics_is_told_so_and_nobody_else_waits_for_it() {
    let world = World::new();
    let (replica, registry) = replica(&world, |snapshot| is_among(&snapshot.pending));
    while_working(
        replica,
        Box::pin(async {
            world.pool("default", json!({})).await;
            for pod in ["a", "b", "poisoned", "d"] {
                world.waiting(pod, json!({"priority": 0})).await;
            }
            world.poison_pod("poisoned").await;
            let [claim] = world.until_claims(1).await.try_into().unwrap();
            assert_eq!(claim.annotations()[names::NOMINATED_PODS].split(',').count(), 3);
            world.until_told("FailedScheduling", "this is poison").await;
            world.clock.sleep(Duration::from_mins(10)).await;
            assert_eq!(world.notes("FailedScheduling").await.len(), 1);
            assert_backed_off(&registry);
            world
                .waiting(
                    "e",
                    json!({"nodeSelector": {"topology.kubernetes.io/zone": "us-south-3"}}),
                )
                .await;
            world.until_claims(2).await;
        }),
    )
    .await;
}

impl World {
    async fn poison_pod(&self, name: &str) {
        let label = json!({"metadata": {"labels": {"poison": "yes"}}});
        self.pods()
            .patch(name, &PatchParams::default(), &Patch::Merge(label))
            .await
            .unwrap();
    }

    /// A node that is not ours and has no room.
    fn foreign_node(&self, name: &str, labels: &Value) {
        let amounts = json!({"cpu": "100m", "memory": "1Gi", "pods": "1"});
        write::insert(
            &self.kube,
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                "status": {"capacity": amounts, "allocatable": amounts},
            }),
        );
    }

    /// Pods are served although something that is not a pod of theirs is poison; that one is told so, once.
    async fn serves_in_spite_of(&self, poison: fn(&Snapshot) -> bool, told: &str) {
        let (replica, registry) = replica(self, poison);
        while_working(
            replica,
            Box::pin(async {
                // One that nothing can be bought for, so that plans go on being made.
                self.waiting("never", json!({"nodeSelector": {"no": "where"}}))
                    .await;
                self.waiting("a", json!({})).await;
                let [claim] = self.until_claims(1).await.try_into().unwrap();
                assert_eq!(claim.labels()[names::NODE_POOL], "default");
                self.until("it is told", super::SOON, async || {
                    !self.objects_told("InternalError").await.is_empty()
                })
                .await;
                self.clock.sleep(Duration::from_mins(10)).await;
                assert_eq!(self.objects_told("InternalError").await, [told], "once");
                assert_backed_off(&registry);
                let far = json!({"nodeSelector": {"topology.kubernetes.io/zone": "us-south-3"}});
                self.waiting("b", far).await;
                self.until_claims(2).await;
            }),
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_with_which_planning_panics_is_told_so_and_pods_are_served_elsewhere() {
    let world = World::new();
    world.pool("default", json!({})).await;
    world.foreign_node("bad", &json!({"poison": "yes"}));
    world.foreign_node("good", &json!({}));
    let poison = |snapshot: &Snapshot| {
        let mut nodes = snapshot.nodes.iter();
        nodes.any(|node| node.labels.contains_key("poison"))
    };
    world.serves_in_spite_of(poison, "bad").await;
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_with_which_planning_panics_takes_its_node_out_and_no_pool() {
    let world = World::new();
    world.pool("default", json!({})).await;
    world.foreign_node("bad", &json!({}));
    world.waiting("poisoned", json!({})).await;
    world.poison_pod("poisoned").await;
    world.bind("poisoned", "bad").await;
    // It shows only where there is something to buy.
    let poison = |snapshot: &Snapshot| is_among(&snapshot.bound) && !snapshot.pools.is_empty();
    world.serves_in_spite_of(poison, "bad").await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_with_which_planning_panics_is_told_so_and_takes_no_pool_out() {
    let world = World::new();
    world.pool("default", json!({"weight": 100})).await;
    world.pool("other", json!({})).await;
    for (name, labels) in [
        ("bad", json!({"poison": "yes"})),
        ("good", json!({"app": "good"})),
    ] {
        write::insert(
            &world.kube,
            json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "default"},
                "spec": {"selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]},
                }},
            }),
        );
    }
    let poison = |snapshot: &Snapshot| {
        let mut daemons = snapshot.daemons.iter();
        daemons.any(|pod| pod.labels.contains_key("poison")) && !snapshot.pools.is_empty()
    };
    world.serves_in_spite_of(poison, "bad").await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_with_which_planning_panics_is_told_so_and_nobody_else_waits_for_it() {
    let world = World::new();
    world.pool("default", json!({})).await;
    for name in ["bad", "good"] {
        write::insert(
            &world.kube,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "csi": {"driver": "d", "volumeHandle": name},
                },
            }),
        );
    }
    world
        .serves_in_spite_of(|snapshot| snapshot.storage.volumes.contains_key("bad"), "bad")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_with_which_planning_panics_is_told_so_and_another_serves() {
    let world = World::new();
    world.pool("default", json!({})).await;
    world.pool("bad", json!({"weight": 100})).await;
    let poison = |snapshot: &Snapshot| snapshot.pools.iter().any(|pool| pool.name == "bad");
    world.serves_in_spite_of(poison, "bad").await;
}
