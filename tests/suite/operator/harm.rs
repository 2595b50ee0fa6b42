//! Mutants of losing a machine: each does its harm in a story that the product lives through without any.

use std::time::Duration;

use karpenter_ibm::sim::ibm::{Class, Fault, FaultKind};
use karpenter_ibm::sim::kube::write;
use karpenter_ibm::sim::mutants::Mutant;
use kube::ResourceExt;
use serde_json::json;

use super::effects::Effects;
use super::mutants::each;
use super::{World, audited, while_working};

impl World {
    /// Whether a pod was told to go.
    pub(super) async fn is_told_to_go(&self, pod: &str) -> bool {
        let pod = self.pods().get_opt(pod).await.unwrap();
        pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_deletes_pods_asks_no_disruption_budget() {
    let went = each(Mutant::RawDeletes, async |world: World| {
        world.guarded_node("a").await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(1)).await;
        world.is_told_to_go("shop-1").await
    });
    assert_eq!(went.await, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn one_that_reads_no_wishes_evicts_who_is_not_to_be_disturbed() {
    let went = each(Mutant::WishesUnread, async |world: World| {
        world.ready_node("a").await;
        world
            .pod("shop-1", "a", |pod| {
                pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
            })
            .await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(1)).await;
        world.is_told_to_go("shop-1").await
    });
    assert_eq!(went.await, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn one_that_sees_no_pods_gives_their_machine_back_under_them() {
    let left = each(Mutant::PodsUnseen, async |world: World| {
        world.guarded_node("a").await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(3)).await;
        world.living().len()
    });
    assert_eq!(left.await, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn one_that_sees_no_volumes_gives_a_machine_back_that_they_are_attached_to() {
    let left = each(Mutant::VolumesUnseen, async |world: World| {
        world.ready_node("a").await;
        world.attach("one", "a", "pv-1");
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(3)).await;
        world.living().len()
    });
    assert_eq!(left.await, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn one_that_withholds_for_ever_never_buys_again_what_was_short_once() {
    let bought = each(Mutant::EndlessHolds, async |world: World| {
        let spot = Some(Class::Spot);
        world.cloud.drain("bxf-2x8", "us-south-1", spot).unwrap();
        world.claim_of("a", "us-south-1", &["spot"]).await;
        world.until_gone("a").await;
        world.cloud.refill("bxf-2x8", "us-south-1", spot).unwrap();
        world.clock.sleep(Duration::from_mins(5)).await;
        world.claim_of("b", "us-south-1", &["spot"]).await;
        world.clock.sleep(Duration::from_mins(3)).await;
        world.is_true("b", "Launched").await
    });
    assert_eq!(bought.await, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_that_keeps_a_diary_writes_while_nothing_changes() {
    let mut quiet = Vec::new();
    for mutant in [None, Some(Mutant::Diarist)] {
        let (world, effects) = (World::new(), Effects::without_end());
        let (edges, settings) = (effects.around(world.edges()), World::settings("one"));
        let replica = match mutant {
            Some(mutant) => mutant.factory(settings)(edges),
            None => audited::factory(settings)(edges),
        };
        while_working(replica, async {
            world.ready_node("a").await;
            world.clock.sleep(Duration::from_mins(2)).await;
            let before = effects.count();
            world.clock.sleep(Duration::from_mins(15)).await;
            quiet.push(effects.count() == before);
        })
        .await;
    }
    assert_eq!(quiet, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_that_a_bad_claim_poisons_buys_for_no_other() {
    let bought = each(Mutant::Poisoned, async |world: World| {
        write::insert(
            &world.kube,
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "stray"},
                "spec": {
                    "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "nowhere"},
                    "requirements": [],
                },
            }),
        );
        world.claim("a").await;
        world.clock.sleep(Duration::from_mins(3)).await;
        world.is_true("a", "Launched").await
    });
    assert_eq!(bought.await, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deaf_does_not_hear_of_a_new_claim() {
    let bought = each(Mutant::Deaf, async |world: World| {
        world.clock.sleep(Duration::from_secs(30)).await;
        world.claim("a").await;
        world.clock.sleep(Duration::from_mins(2)).await;
        world.is_true("a", "Launched").await
    });
    assert_eq!(bought.await, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_talkative_writes_its_token_where_everybody_reads() {
    let kept = each(Mutant::Talkative, async |world: World| {
        world.ready_node("a").await;
        let claim = world.read("a").await.unwrap();
        !claim.annotations().contains_key("karpenter-ibm.sh/token")
    });
    assert_eq!(kept.await, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_for_which_nothing_stops_misses_a_preemption() {
    let seen = each(Mutant::NeverStops, async |world: World| {
        world.ready_node("a").await;
        world.preempt("a").await;
        world.clock.sleep(Duration::from_mins(3)).await;
        world.is_deleting("a").await
    });
    assert_eq!(seen.await, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_for_which_nothing_is_ever_gone_keeps_its_claims() {
    let gone = each(Mutant::NeverGone, async |world: World| {
        world.ready_node("a").await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(6)).await;
        assert!(world.cloud.instances().is_empty());
        world.read("a").await.is_none()
    });
    assert_eq!(gone.await, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_that_unwraps_what_it_reads_panics_over_a_bad_answer() {
    let panics = each(Mutant::Unwrapped, async |world: World| {
        world.claim("a").await;
        world.until_launched("a").await;
        world.cloud.faults().start(Fault::new(FaultKind::ServerError));
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(2)).await;
        !world.told("InternalError").await.is_empty()
    });
    assert_eq!(panics.await, [false, true]);
}
