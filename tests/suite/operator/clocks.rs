//! The operator's wall clock is wrong, the API server's is right: pods that leave have their time all the same, and no more
//! than that; and what nobody answers for goes when it has an age.

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::SignedDuration;
use karpenter_ibm::api::CapacityType;
use karpenter_ibm::clock::Clock;
use serde_json::{Value, json};

use super::effects::Effects;
use super::{World, audited, while_working};

/// By how much the clock is wrong.
const SKEWS: [SignedDuration; 3] = [
    SignedDuration::from_mins(2),
    SignedDuration::from_hours(24 * 3650),
    SignedDuration::from_hours(-1),
];

impl World {
    /// A replica with a wall clock of its own, wrong by that much; and that clock.
    pub(super) fn replica_astray(
        &self,
        identity: &str,
        skew: SignedDuration,
    ) -> (Clock, BoxFuture<'static, ()>) {
        let clock = Clock::simulated(self.clock.now());
        clock.set_skew(skew);
        let mut edges = self.edges();
        edges.clock = clock.clone();
        (clock, audited::factory(Self::settings(identity))(edges))
    }

    /// A claim with a Node and a pod on it, and nobody at work.
    async fn inhabited(spec: Value, pod: impl FnOnce(&mut Value)) -> Self {
        let world = Self::new();
        while_working(world.replica(), async {
            world.claim_with("a", spec).await;
            world.make_node("a").await;
        })
        .await;
        world.pod("shop-1", "a", pod).await;
        world
    }

    /// Deletes the claim as soon as a replica can have taken over.
    async fn take_over_and_delete(&self) {
        self.clock.sleep(Duration::from_secs(40)).await;
        self.delete("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_is_as_long_as_it_says_by_whichever_clock_of_ours() {
    for skew in SKEWS {
        let world = World::inhabited(json!({"terminationGracePeriod": "5m"}), |pod| {
            pod["spec"]["terminationGracePeriodSeconds"] = 60.into();
        })
        .await;
        world.budget(0).await;
        let (_, replica) = world.replica_astray("two", skew);
        while_working(replica, async {
            world.take_over_and_delete().await;
            let asked = world.clock.now();
            world
                .until("told to go", Duration::from_mins(6), async || {
                    world.is_told_to_go("shop-1").await
                })
                .await;
            let after = (world.clock.now() - asked).get_seconds();
            assert!((238..=247).contains(&after), "{after} s, clock wrong by {skew}");
            world.until_emptied("a", Duration::from_mins(3)).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_protected_for_a_time_has_that_time_by_whichever_clock_of_ours() {
    for skew in SKEWS {
        let world = World::inhabited(json!({}), |pod| {
            pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "30m"});
        })
        .await;
        let (_, replica) = world.replica_astray("two", skew);
        while_working(replica, async {
            world.take_over_and_delete().await;
            let until = "2026-11-16T10:30:00Z".parse::<jiff::Timestamp>().unwrap();
            world
                .until("told to go", Duration::from_mins(35), async || {
                    world.is_told_to_go("shop-1").await
                })
                .await;
            let late = (world.clock.now() - until).get_seconds();
            assert!((0..=10).contains(&late), "{late} s late, clock wrong by {skew}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_takes_its_time_is_waited_for_and_one_that_hangs_is_not_by_whichever_clock_of_ours() {
    for skew in SKEWS {
        let world = World::inhabited(json!({}), |_| ()).await;
        let (_, replica) = world.replica_astray("two", skew);
        while_working(replica, async {
            world.take_over_and_delete().await;
            world
                .until("told to go", Duration::from_mins(1), async || {
                    world.is_told_to_go("shop-1").await
                })
                .await;
            // Its own 30 s, and a minute in which it is late.
            world.clock.sleep(Duration::from_secs(88)).await;
            assert_eq!(world.living().len(), 1, "clock wrong by {skew}");
            assert!(!world.is_true("a", "Drained").await, "clock wrong by {skew}");
            world.until_gone("a").await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_nobody_is_collected_when_it_has_an_age_by_whichever_clock_of_ours() {
    for skew in SKEWS {
        let world = World::new();
        let (_, replica) = world.replica_astray("two", skew);
        while_working(replica, async {
            // The sweep that begins with the process looks, and looks again half a minute later.
            world.orphan(1, CapacityType::OnDemand).await;
            world.clock.sleep(Duration::from_secs(74)).await;
            assert_eq!(world.living().len(), 1, "clock wrong by {skew}");
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
async fn the_api_server_is_asked_for_the_time_once_a_minute_at_most_and_not_at_all_at_rest() {
    let world = World::inhabited(json!({"terminationGracePeriod": "1h"}), |_| ()).await;
    world.budget(0).await;
    let effects = Effects::without_end();
    let edges = effects.around(world.edges());
    let asked = || {
        let log = effects.log();
        log.iter()
            .filter(|(_, path)| path.ends_with("/selfsubjectreviews"))
            .count()
    };
    while_working(audited::factory(World::settings("two"))(edges), async {
        world.clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(asked(), 0, "at rest");
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(30)).await;
        assert!((1..=31).contains(&asked()), "{} times", asked());
    })
    .await;
}
