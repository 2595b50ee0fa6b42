//! Orders that the cloud refuses, and purchases that we hold back ourselves: what becomes of the claim, and who is told.

use std::time::Duration;

use karpenter_ibm::api::{Condition, NodePool};
use karpenter_ibm::operator::Settings;
use karpenter_ibm::sim::ibm::{Fault, FaultKind, Options};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{World, audited, while_working};

impl World {
    /// A condition of a claim.
    pub(super) async fn condition(&self, claim: &str, type_: &str) -> Option<Condition> {
        let status = self.read(claim).await?.status?;
        status.conditions?.into_iter().find(|it| it.type_ == type_)
    }

    /// By how many bytes the user data of the class is too long, when it is judged.
    async fn user_data_over(&self) -> Option<usize> {
        let read = async || self.classes().get("default").await.unwrap();
        self.until("judged", Duration::from_mins(1), async || {
            read().await.readiness().is_some()
        })
        .await;
        let ready = read().await.readiness().unwrap().clone();
        let why = ready.message.filter(|_| ready.status == "False")?;
        let over = why.split_once("bytes, ").unwrap().1.split_once(' ').unwrap().0;
        Some(over.parse().unwrap())
    }

    /// What a NodePool says of the machines that were bought for it.
    async fn health(&self, pool: &str) -> Condition {
        let pools: Api<NodePool> = Api::all(self.kube.admin());
        let status = pools.get(pool).await.unwrap().status.unwrap();
        let mut conditions = status.conditions.unwrap().into_iter();
        conditions
            .find(|it| it.type_ == "NodeRegistrationHealthy")
            .unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_refused_for_good_ends_its_claim_and_is_not_sent_again_and_again() {
    let world = World::new();
    world.cloud.faults().start(Fault::new(FaultKind::OrderRefused));
    while_working(world.replica(), async {
        world.pool("default", json!({})).await;
        world.waiting("a", json!({})).await;
        let [first] = world.until_claims(1).await.try_into().unwrap();
        world
            .until("refused", Duration::from_mins(1), async || {
                let launched = world.condition(&first.name_any(), "Launched").await;
                launched.is_some_and(|it| it.reason.as_deref() == Some("LaunchRefused"))
            })
            .await;
        world.clock.sleep(Duration::from_mins(4)).await;
        assert_eq!(world.orders(), 1, "the same would be refused again");
        world
            .until("ended", Duration::from_mins(3), async || {
                world.note("LaunchRefused").await.is_some()
            })
            .await;
        let note = world.note("LaunchRefused").await.unwrap();
        assert!(note.contains("image cannot be used"), "{note}");
        world.clock.sleep(Duration::from_hours(1)).await;
        let orders = world.orders();
        assert!(
            (8..=15).contains(&orders),
            "{orders} orders in little more than an hour"
        );
        let health = world.health("default").await;
        assert_eq!(health.status, "False");
        let why = health.message.unwrap();
        assert!(
            why.contains("LaunchRefused") && why.contains("image cannot be used"),
            "{why}"
        );
        assert!(world.cloud.instances().is_empty());
        world.cloud.faults().clear();
        world
            .until("served", Duration::from_mins(8), async || {
                world.living().len() == 1
            })
            .await;
    })
    .await;
}

/// What fits for a claim without taints may not for one with many: nobody but the claim can tell.
#[tokio::test(start_paused = true)]
async fn user_data_that_its_taints_make_too_long_ends_the_claim_and_tells_why() {
    let world = World::new();
    while_working(world.replica(), async {
        let script = |bytes: usize| json!({"userDataAppend": format!("#!/bin/sh\n# {}", "x".repeat(bytes))});
        let mut bytes = 60_000;
        world.change_class("default", &script(bytes)).await;
        while let Some(over) = world.user_data_over().await {
            bytes -= over * 3 / 4 + 1;
            world.change_class("default", &script(bytes)).await;
        }
        // Room for what every claim brings: its labels and its own name.
        world.change_class("default", &script(bytes - 1500)).await;
        assert_eq!(world.user_data_over().await, None);
        let domain = ["d"; 3].map(|letter| letter.repeat(60)).join(".");
        let taint = |number| json!({"key": format!("{domain}/n{number}"), "value": "v".repeat(63), "effect": "NoSchedule"});
        let taints: Vec<_> = (0..30).map(taint).collect();
        world.claim_with("a", json!({"taints": taints})).await;
        world
            .until("refused", Duration::from_mins(1), async || {
                let launched = world.condition("a", "Launched").await;
                launched.is_some_and(|it| it.reason.as_deref() == Some("LaunchRefused"))
            })
            .await;
        world.claim("b").await;
        world.until_launched("b").await;
        world.until_gone("a").await;
        let note = world.note("LaunchRefused").await.unwrap();
        assert!(note.contains("more than the 65536"), "{note}");
        assert_eq!(world.orders(), 1, "for the claim without taints");
    })
    .await;
}

/// A replica with other settings, and the registry of its metrics.
pub(super) fn replica(
    world: &World,
    change: impl FnOnce(&mut Settings),
) -> (impl Future<Output = ()>, prometheus::Registry) {
    let mut settings = World::settings("one");
    change(&mut settings);
    let edges = world.edges();
    let registry = edges.registry.clone();
    (audited::factory(settings)(edges), registry)
}

/// How often a breaker has held a purchase back, by the metric.
pub(super) fn held_back(registry: &prometheus::Registry, breaker: &str) -> f64 {
    let families = registry.gather();
    let family = families
        .iter()
        .find(|family| family.name() == "karpenter_ibm_purchases_held_back_total");
    let counters = family
        .map(|family| family.get_metric().to_vec())
        .unwrap_or_default();
    let of = counters.iter().filter(|it| {
        let mut labels = it.get_label().iter();
        labels.any(|label| label.value() == breaker)
    });
    of.map(|it| it.get_counter().get_value()).sum()
}

#[tokio::test(start_paused = true)]
async fn no_more_is_launched_within_an_hour_than_may_be_also_for_claims_that_are_gone() {
    let world = World::new();
    let (replica, registry) = replica(&world, |settings| {
        settings.controllers.breakers.launches_per_hour_max = 2;
    });
    while_working(replica, async {
        for name in ["a", "b"] {
            world.claim(name).await;
            world.until_launched(name).await;
            world.delete(name).await;
            world.until_gone(name).await;
        }
        world.claim("c").await;
        world.clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(world.orders(), 2);
        let note = world.note("LaunchHeldBack").await.unwrap();
        assert_eq!(
            note,
            "there would be 3 launches within an hour, and the limit is 2"
        );
        assert!(held_back(&registry, "launches") >= 1.0);
        assert!(held_back(&registry, "machines").abs() < 0.5);
        world
            .until("launched an hour after", Duration::from_mins(35), async || {
                world.is_true("c", "Launched").await
            })
            .await;
    })
    .await;
}

/// Of an order that was carried out half, each repetition was refused and counted.
#[tokio::test(start_paused = true)]
async fn an_order_that_is_refused_is_no_launch() {
    let world = World::new();
    let (replica, registry) = replica(&world, |settings| {
        settings.controllers.breakers.launches_per_hour_max = 2;
    });
    let half = Fault::new(FaultKind::PartialCreate).times(1);
    world.cloud.faults().start(half);
    while_working(replica, async {
        world.claim("a").await;
        world.until_launched("a").await;
        assert_eq!(
            world.orders(),
            3,
            "the half, which may have been one, and its refusal"
        );
        assert!(held_back(&registry, "launches").abs() < 0.5);
        world.claim("b").await;
        world
            .until("two are all", Duration::from_mins(2), async || {
                held_back(&registry, "launches") >= 1.0
            })
            .await;
        assert_eq!(world.orders(), 3);
    })
    .await;
}

/// A process that starts anew reads what those before it have launched, also for claims that are gone.
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_forget_what_was_launched_within_the_hour() {
    let world = World::new();
    let two = |settings: &mut Settings| settings.controllers.breakers.launches_per_hour_max = 2;
    while_working(replica(&world, two).0, async {
        for name in ["a", "b"] {
            world.claim(name).await;
            world.until_launched(name).await;
            world.delete(name).await;
            world.until_gone(name).await;
        }
        world.clock.sleep(Duration::from_secs(31)).await;
    })
    .await;
    let (replica, registry) = replica(&world, two);
    while_working(replica, async {
        world.claim("c").await;
        world.clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(world.orders(), 2);
        assert!(held_back(&registry, "launches") >= 1.0);
        world
            .until("launched an hour after", Duration::from_mins(35), async || {
                world.is_true("c", "Launched").await
            })
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_kill_switch_stops_all_purchases_and_nothing_else() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("before").await;
        world.until_launched("before").await;
    })
    .await;
    let (replica, registry) = replica(&world, |settings| {
        settings.controllers.breakers.purchases = karpenter_ibm::allocation::Purchases::Stopped;
    });
    while_working(replica, async {
        world.clock.sleep(Duration::from_secs(30)).await;
        world.claim("a").await;
        world.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(world.orders(), 1);
        let note = world.note("LaunchHeldBack").await.unwrap();
        assert_eq!(note, "nothing is bought while the kill switch is on");
        assert!(held_back(&registry, "kill-switch") >= 1.0);
        world.delete("before").await;
        world.until_gone("before").await;
        assert!(world.cloud.instances().is_empty());
    })
    .await;
    while_working(world.replica(), world.until_launched("a")).await;
}

/// A way to buy, the machine that is bought so, and the room that the account has: for one such machine.
struct Quota {
    way: &'static str,
    profile: &'static str,
    narrow: fn(&mut Options),
    /// What is withheld when there is no more room, and what is bought then by whoever may.
    hold: &'static str,
    instead: (&'static str, &'static str),
}

const QUOTAS: [Quota; 3] = [
    Quota {
        way: "spot",
        profile: "bxf-2x8",
        narrow: |options| options.quotas.spot_instances = 1,
        hold: "spot.all",
        instead: ("on-demand", "bxf-2x8"),
    },
    Quota {
        way: "on-demand",
        profile: "bxf-2x8",
        narrow: |options| options.quotas.vcpu = 2,
        hold: "on-demand.all",
        instead: ("spot", "bxf-2x8"),
    },
    Quota {
        way: "on-demand",
        profile: "gx3-16x80x1l4",
        narrow: |options| options.quotas.gpu = 1,
        hold: "on-demand.gpu",
        instead: ("on-demand", "bxf-2x8"),
    },
];

#[tokio::test(start_paused = true)]
async fn a_quota_that_is_used_up_withholds_what_it_counts_in_the_whole_region_until_one_of_our_machines_goes()
{
    for quota in &QUOTAS {
        let world = World::with(quota.narrow);
        let only = |way: &str, profile: &str| {
            json!([
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [profile]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [way]},
            ])
        };
        while_working(world.replica(), async {
            world.wish("a", only(quota.way, quota.profile)).await;
            world.until_launched("a").await;
            world.wish("b", only(quota.way, quota.profile)).await;
            world.until_gone("b").await;
            assert_eq!(world.holds().await, [quota.hold]);
            let orders = world.orders();
            world.wish("c", only(quota.way, quota.profile)).await;
            world.until_gone("c").await;
            assert_eq!(world.orders(), orders, "nobody asks again: {}", quota.hold);
            world.wish("d", only(quota.instead.0, quota.instead.1)).await;
            world.until_launched("d").await;
            world.delete("a").await;
            world.until_gone("a").await;
            assert!(
                world.holds().await.is_empty(),
                "there is room again: {}",
                quota.hold
            );
            world.wish("e", only(quota.way, quota.profile)).await;
            world.until_launched("e").await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_buy_on_demand_does_so_while_the_quota_of_spot_is_used_up() {
    let world = World::with(|options| options.quotas.spot_instances = 1);
    while_working(world.replica(), async {
        for (name, way) in [("a", "spot"), ("b", "on-demand")] {
            world.claim(name).await;
            world.until_launched(name).await;
            let claim = world.read(name).await.unwrap();
            assert_eq!(claim.labels()["karpenter.sh/capacity-type"], way);
        }
    })
    .await;
}
