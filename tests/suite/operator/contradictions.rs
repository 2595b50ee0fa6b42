//! The cloud says one thing and the cluster another: nothing is removed on the word of one of them alone.

use std::time::Duration;

use karpenter_ibm::api::CapacityType;
use karpenter_ibm::sim::ibm::{Cloud, Fault, FaultKind, Options};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{World, audited, while_working};

impl World {
    /// The kubelet of a Node says that all is well.
    async fn beat(&self, name: &str) {
        let now = self.clock.now().to_string();
        let status = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": now},
        ]}});
        let params = PatchParams::default();
        self.nodes()
            .patch_status(name, &params, &Patch::Merge(status))
            .await
            .unwrap();
    }

    /// Time passes, and kubelets say every five minutes how they are.
    async fn live_on(&self, names: &[&str], periods: u32) {
        for _ in 0..periods {
            for name in names {
                self.beat(name).await;
            }
            self.clock.sleep(Duration::from_mins(5)).await;
        }
    }

    /// These claims with their Nodes, and nobody at work.
    async fn populated(names: &[&str]) -> Self {
        let world = Self::new();
        while_working(world.replica(), async {
            for name in names {
                world.ready_node(name).await;
            }
        })
        .await;
        world
    }
}

/// A key of another account: its lists are empty, and it knows none of our ids.
fn elsewhere(world: &World) -> futures::future::BoxFuture<'static, ()> {
    let other = Cloud::new(Options::new("us-south", 8, world.clock.clone()));
    let mut edges = world.edges();
    edges.ibm.cloud = std::sync::Arc::new(other.exchange());
    edges.ibm.metadata = edges.ibm.cloud.clone();
    audited::factory(World::settings("two"))(edges)
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_account_costs_no_claim_and_no_node() {
    for names in [&["a"][..], &["a", "b", "c", "d", "e"]] {
        let world = World::populated(names).await;
        while_working(elsewhere(&world), async {
            world.live_on(names, 6).await;
            assert_eq!(world.all_nodes().await.len(), names.len());
            for name in names {
                assert!(!world.is_deleting(name).await, "{name}");
            }
            let told = world.told("GarbageFound").await;
            let stopped = world.told("CollectionStopped").await;
            match names.len() {
                1 => assert!(told[0].2.contains("but its node is ready"), "{told:?}"),
                _ => assert!(
                    stopped[0]
                        .2
                        .contains("5 of 5 claims have a machine that the cloud does not know, 5 of them"),
                    "{stopped:?}"
                ),
            }
        })
        .await;
        assert_eq!(world.living().len(), names.len(), "and the machines are there");
    }
}

#[tokio::test(start_paused = true)]
async fn claims_of_nodes_that_are_not_heard_of_go_when_they_are_few_and_else_when_somebody_confirms() {
    let names = ["a", "b", "c", "d"];
    for few in [true, false] {
        let names = if few { &names[..3] } else { &names[..] };
        let world = World::populated(names).await;
        for machine in world.living() {
            world.seen().delete(&machine.id).await.unwrap();
        }
        while_working(world.replica_named("two"), async {
            // Their Nodes say that they are ready, and have said so long ago.
            world.clock.sleep(Duration::from_mins(20)).await;
            let left = world.all_claims().await.len();
            assert_eq!(left, if few { 0 } else { names.len() });
            if few {
                assert_eq!(world.told("MachineVanished").await.len(), 3);
                assert!(world.all_nodes().await.is_empty());
                return;
            }
            let told = world.told("CollectionStopped").await;
            let confirm = told[0]
                .2
                .rsplit_once("karpenter-ibm.sh/confirm-collection=")
                .unwrap()
                .1;
            let patch =
                json!({"metadata": {"annotations": {"karpenter-ibm.sh/confirm-collection": confirm}}});
            let classes: kube::Api<karpenter_ibm::api::IBMNodeClass> = kube::Api::all(world.kube.admin());
            let params = PatchParams::default();
            classes
                .patch("default", &params, &Patch::Merge(patch))
                .await
                .unwrap();
            world
                .until("given up", Duration::from_mins(10), async || {
                    world.all_claims().await.is_empty()
                })
                .await;
        })
        .await;
    }
}

/// Rule 3: one 404 proves nothing.
#[tokio::test(start_paused = true)]
async fn a_node_without_a_claim_is_not_let_go_on_one_404() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        world.lose("a").await;
        let lie = Fault::new(FaultKind::Spurious404).on("instances.get").times(1);
        world.cloud.faults().start(lie);
        world.nodes().delete("a", &DeleteParams::default()).await.unwrap();
        world.clock.sleep(Duration::from_secs(14)).await;
        assert!(world.cloud.faults().active().is_empty(), "it was told once");
        world
            .until("gone", Duration::from_mins(10), async || {
                let is_there = world.nodes().get_opt("a").await.unwrap().is_some();
                assert!(
                    is_there || world.cloud.instances().is_empty(),
                    "before its machine"
                );
                !is_there
            })
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_removed_is_an_event_and_counted() {
    let world = World::new();
    let edges = world.edges();
    let registry = edges.registry.clone();
    let collected = |kind: &str| {
        let families = registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == "karpenter_ibm_garbage_collected_total");
        let metrics = family
            .map(|family| family.get_metric().to_vec())
            .unwrap_or_default();
        let of = metrics.iter().filter(|it| it.get_label()[0].value() == kind);
        of.map(|it| it.get_counter().get_value()).sum::<f64>().round()
    };
    while_working(audited::factory(World::settings("one"))(edges), async {
        world.ready_node("a").await;
        world.claim("b").await;
        world.until_launched("b").await;
        let (a, b) = (world.machine_of("a").await, world.machine_of("b").await);
        // A claim without a machine; a Node without a claim, and its machine; a machine without anything.
        world.seen().delete(&b).await.unwrap();
        world.lose("a").await;
        world.nodes().delete("a", &DeleteParams::default()).await.unwrap();
        let orphan = world.orphan(1, CapacityType::OnDemand).await;
        world
            .until("clean", Duration::from_mins(15), async || {
                world.cloud.instances().is_empty()
                    && world.all_claims().await.is_empty()
                    && world.all_nodes().await.is_empty()
            })
            .await;
        let told = world.told("GarbageCollected").await;
        for id in [&a, &orphan] {
            assert!(
                told.iter().any(|(_, _, note)| note.contains(id.as_str())),
                "{told:?}"
            );
        }
        assert!(told.iter().any(|(about, _, _)| about == "Node a"), "{told:?}");
        assert_eq!(world.told("MachineVanished").await.len(), 1);
        assert_eq!(
            (collected("machine"), collected("claim"), collected("node")),
            (2.0, 1.0, 1.0)
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_second_sighting_comes_half_a_minute_after_the_first_and_what_is_young_is_left() {
    for age in [Duration::from_mins(2), Duration::ZERO] {
        let world = World::new();
        world.orphan(1, CapacityType::OnDemand).await;
        world.clock.sleep(age).await;
        while_working(world.replica(), async {
            world.clock.sleep(Duration::from_secs(29)).await;
            assert_eq!(world.living().len(), 1, "it was seen once");
            world.clock.sleep(Duration::from_secs(20)).await;
            assert_eq!(world.living().is_empty(), !age.is_zero(), "{age:?} old at first");
            world
                .until("collected", Duration::from_mins(4), async || {
                    world.living().is_empty()
                })
                .await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_backup_with_new_uids_loses_no_machine_of_a_ready_node() {
    let names = ["a", "b", "c", "d", "e"];
    let world = World::populated(&names).await;
    let machines: Vec<String> = world.living().into_iter().map(|it| it.id).collect();
    for name in names {
        world.lose(name).await;
        world.claim(name).await;
    }
    // All of them are old enough to be collected when they are first seen.
    world.live_on(&names, 2).await;
    while_working(world.replica_named("two"), async {
        world.live_on(&names, 2).await;
        let living: Vec<String> = world.living().into_iter().map(|it| it.id).collect();
        assert!(machines.iter().all(|id| living.contains(id)), "{living:?}");
        assert_eq!(world.all_nodes().await.len(), 5);
        let told = world.told("CollectionStopped").await;
        assert!(
            told[0]
                .2
                .contains("machines belong to no claim, 5 of them with a ready node"),
            "{told:?}"
        );
    })
    .await;
}
