//! A process that is killed after any effect of losing a machine is followed by one that finishes the work, and tells of it,
//! once. That no invariant is broken then, with bad reads or two leaders either, is shown by `simulate --crashes`.

use std::time::Duration;

use karpenter_ibm::api::CapacityType;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::effects::Effects;
use super::{World, audited, while_working};

/// How the machine of claim `a` is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// IBM takes it back.
    Preempted,
    /// IBM takes the machine back of a claim that somebody deletes.
    PreemptedAsItGoes,
    /// Somebody deletes the claim of a Node with pods.
    Drained,
    /// Its time is over.
    Expired,
    /// Its claim was forced away, and something was left behind.
    Forgotten,
}

impl Loss {
    async fn begin(self, world: &World) {
        match self {
            Self::Preempted => {
                let machine = world.machine_of("a").await;
                world.cloud.preempt(&machine).unwrap();
            }
            Self::PreemptedAsItGoes => {
                let machine = world.machine_of("a").await;
                world.cloud.preempt(&machine).unwrap();
                world.clock.sleep(Duration::from_secs(25)).await;
                world.delete("a").await;
            }
            Self::Drained => world.delete("a").await,
            Self::Expired => world.clock.sleep(Duration::from_mins(8)).await,
            Self::Forgotten => {
                let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                world
                    .claims()
                    .patch("a", &PatchParams::default(), &bare)
                    .await
                    .unwrap();
                world.delete("a").await;
                let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
                let params = PatchParams::default();
                world
                    .nodes()
                    .patch_status("a", &params, &Patch::Merge(unready))
                    .await
                    .unwrap();
                world.orphan(7, CapacityType::OnDemand).await;
            }
        }
    }

    /// Waits until nothing is left, and looks whether everything was done once.
    async fn finish(self, world: &World) {
        let mut gone = Vec::new();
        world
            .until("nothing is left", Duration::from_mins(30), async || {
                world.end_pods(&mut gone).await;
                let claims = world.claims().list(&ListParams::default()).await.unwrap().items;
                let pods = world.pods().list(&ListParams::default()).await.unwrap().items;
                assert!(
                    pods.is_empty() || world.living().len() == 1,
                    "the machine went before its pods"
                );
                claims.is_empty() && world.cloud.instances().is_empty() && world.cloud.orphans().is_empty()
            })
            .await;
        match self {
            Self::Preempted | Self::PreemptedAsItGoes => {
                assert_eq!(
                    world.told("SpotPreemption").await.len(),
                    2,
                    "on claim and node, once"
                );
                assert_eq!(world.withheld("Preempted").await.len(), 1);
            }
            Self::Expired => assert_eq!(world.told("Expired").await.len(), 1),
            Self::Drained => assert!(gone.iter().all(|pod| pod.starts_with("shop-")), "{gone:?}"),
            Self::Forgotten => assert_eq!(world.told("GarbageCollected").await.len(), 2),
        }
        if self != Self::Forgotten {
            let nodes: Api<k8s_openapi::api::core::v1::Node> = world.nodes();
            assert!(
                nodes.get_opt("a").await.unwrap().is_none(),
                "its node is left behind"
            );
        }
    }
}

/// A world with a claim whose Node takes pods, and nobody at work.
async fn prepared(loss: Loss) -> World {
    let world = World::new();
    while_working(world.replica_named("zero"), async {
        let lives = if loss == Loss::Expired { "12m" } else { "Never" };
        world.claim_that_expires("a", lives).await;
        world.make_node("a").await;
        if loss == Loss::Drained {
            world.pod("shop-1", "a", |_| ()).await;
            world.pod("shop-2", "a", |_| ()).await;
        }
        // What the first life had under way is done.
        world.clock.sleep(Duration::from_mins(1)).await;
    })
    .await;
    world
}

/// Crashes after every single effect of the story, one world for each; how many effects there were.
async fn crash_everywhere(loss: Loss) -> usize {
    for last in 1.. {
        let (world, effects) = (prepared(loss).await, Effects::up_to(last));
        let factory = |name: &str| audited::factory(World::settings(name));
        let first = factory("first")(effects.around(world.edges()));
        let story = async {
            loss.begin(&world).await;
            loss.finish(&world).await;
        };
        let finished = tokio::select! {
            biased;
            () = effects.crash.cancelled() => false,
            () = first => panic!("the replica ended"),
            () = story => true,
        };
        if finished {
            return last - 1;
        }
        while_working(world.replica_named("second"), loss.finish(&world)).await;
    }
    unreachable!("the numbers do not end");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect_of_a_preemption_loses_nothing_and_tells_nothing_twice() {
    let effects = crash_everywhere(Loss::Preempted).await;
    assert!(effects >= 8, "only {effects} effects");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect_of_a_preemption_that_meets_a_deletion_tells_of_it_once_all_the_same() {
    let effects = crash_everywhere(Loss::PreemptedAsItGoes).await;
    assert!(effects >= 8, "only {effects} effects");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect_of_a_drain_lets_no_pod_die_with_its_machine() {
    let effects = crash_everywhere(Loss::Drained).await;
    assert!(effects >= 9, "only {effects} effects");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect_of_an_expiry_leaves_nothing_behind() {
    let effects = crash_everywhere(Loss::Expired).await;
    assert!(effects >= 8, "only {effects} effects");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect_of_a_sweep_leaves_nothing_behind() {
    let effects = crash_everywhere(Loss::Forgotten).await;
    assert!(effects >= 4, "only {effects} effects");
}
