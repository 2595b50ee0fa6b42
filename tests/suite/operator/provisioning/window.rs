//! When a plan is made: one second after the last pod, ten after the first, or at once for who is in a hurry.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use karpenter_ibm::api::{NodeClaim, names};
use karpenter_ibm::operator;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::{World, audited, while_working};

/// A moment of the story: steps are made so far apart, and what is looked for is looked for as often.
const MOMENT: Duration = Duration::from_millis(100);

/// Plays `step` every `every` from the first pod's arrival on, and says after how long the first claim was there and
/// for how many pods.
async fn first_claim(world: &World, every: Duration, step: impl AsyncFnMut(usize)) -> (Duration, usize) {
    ready(world).await;
    world.waiting("first", json!({})).await;
    until_claim(world, every, step).await
}

/// There is a pool, its class is resolved, and what is sold was read.
async fn ready(world: &World) {
    world.pool("default", json!({})).await;
    world.clock.sleep(Duration::from_secs(30)).await;
}

/// After how long there is another claim than those there are, and for how many pods.
async fn until_claim(world: &World, every: Duration, mut step: impl AsyncFnMut(usize)) -> (Duration, usize) {
    let (began, mut steps) = (world.clock.instant(), 0);
    let old: Vec<String> = world
        .all_claims()
        .await
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    loop {
        world.clock.sleep(MOMENT).await;
        let passed = world.clock.instant() - began;
        let mut claims = world.all_claims().await;
        claims.retain(|claim| !old.contains(&claim.name_any()));
        if !claims.is_empty() {
            let named = |claim: &NodeClaim| claim.annotations()[names::NOMINATED_PODS].split(',').count();
            return (passed, claims.iter().map(named).sum());
        }
        assert!(passed < Duration::from_secs(30), "no claim");
        if passed >= every * u32::try_from(steps + 1).unwrap() {
            steps += 1;
            step(steps).await;
        }
    }
}

/// Within the moment after it.
fn assert_about(took: Duration, expected: Duration) {
    assert!(
        (expected..=expected + 3 * MOMENT).contains(&took),
        "{took:?} instead of {expected:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn one_pod_is_planned_for_after_a_second() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let (took, _) = first_claim(&world, Duration::from_mins(1), async |_| ()).await;
            assert_about(took, Duration::from_secs(1));
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_meanwhile_is_waited_for_and_planned_for_together() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let (took, pods) = first_claim(&world, Duration::from_millis(600), async |step| {
                if step <= 2 {
                    world.waiting(&format!("more-{step}"), json!({})).await;
                }
            })
            .await;
            assert_about(took, Duration::from_millis(2200));
            assert_eq!(pods, 3);
        }),
    )
    .await;
}

/// Long after the last plan nobody is planned for alone either.
#[tokio::test(start_paused = true)]
async fn pods_that_come_after_a_quiet_time_are_planned_for_together() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            first_claim(&world, Duration::from_mins(1), async |_| ()).await;
            world.clock.sleep(Duration::from_mins(1)).await;
            world.waiting("second", json!({})).await;
            let (took, pods) = until_claim(&world, Duration::from_millis(600), async |step| {
                if step == 1 {
                    world.waiting("third", json!({})).await;
                }
            })
            .await;
            assert_about(took, Duration::from_millis(1600));
            assert_eq!(pods, 2);
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn more_news_of_the_same_pod_is_not_waited_for() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let (took, _) = first_claim(&world, Duration::from_millis(300), async |step| {
                let again = json!({"status": {"conditions": [{
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": format!("0/{step} nodes are available"),
                }]}});
                world
                    .pods()
                    .patch_status("first", &PatchParams::default(), &Patch::Merge(again))
                    .await
                    .unwrap();
            })
            .await;
            assert_about(took, Duration::from_secs(1));
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_get_a_node_at_once_keep_nobody_waiting() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let (took, pods) = first_claim(&world, Duration::from_millis(300), async |step| {
                let name = format!("job-{step}");
                world.coming(&name, json!({})).await;
                world.bind(&name, "elsewhere").await;
            })
            .await;
            assert_about(took, Duration::from_secs(1));
            assert_eq!(pods, 1);
        }),
    )
    .await;
}

/// The window that was opened for pods that got a node after all is closed when they have: it would be full when others come.
#[tokio::test(start_paused = true)]
async fn a_window_that_everybody_has_left_is_closed() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            ready(&world).await;
            world.coming("early", json!({})).await;
            world.clock.sleep(6 * MOMENT).await;
            world.coming("later", json!({})).await;
            world.clock.sleep(5 * MOMENT).await;
            world.bind("early", "elsewhere").await;
            world.bind("later", "elsewhere").await;
            world.clock.sleep(Duration::from_millis(9600)).await;
            world.waiting("first", json!({})).await;
            let (took, pods) = until_claim(&world, 6 * MOMENT, async |step| {
                if step == 1 {
                    world.waiting("second", json!({})).await;
                }
            })
            .await;
            assert_about(took, 16 * MOMENT);
            assert_eq!(pods, 2);
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_scheduler_does_not_come_to_is_planned_for_as_soon_as_one_that_it_refuses() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            ready(&world).await;
            world.coming("first", json!({})).await;
            let (took, _) = until_claim(&world, Duration::from_mins(1), async |_| ()).await;
            assert_about(took, Duration::from_secs(1));
        }),
    )
    .await;
}

/// The scheduler may give up what it prefers, and put it on a node that is there.
#[tokio::test(start_paused = true)]
async fn a_pod_that_prefers_something_is_planned_for_once_the_scheduler_has_refused_it() {
    let world = World::new();
    let alone = json!({"weight": 1, "podAffinityTerm": {
        "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}});
    let picky = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [alone]}}});
    while_working(
        world.replica(),
        Box::pin(async {
            ready(&world).await;
            world.coming("first", picky.clone()).await;
            world.clock.sleep(Duration::from_secs(20)).await;
            assert_eq!(world.all_claims().await.len(), 0);
            world.waiting("second", picky).await;
            let (took, pods) = until_claim(&world, Duration::from_mins(1), async |_| ()).await;
            assert_about(took, Duration::from_secs(1));
            assert_eq!(pods, 1);
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_never_cease_to_come_are_planned_for_after_ten_seconds() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let (took, pods) = first_claim(&world, Duration::from_millis(500), async |step| {
                world.waiting(&format!("more-{step}"), json!({})).await;
            })
            .await;
            assert_about(took, Duration::from_secs(10));
            assert!(pods >= 2, "{pods} pods");
        }),
    )
    .await;
}

/// A claim that can be one machine only, which is not to be had: its end is the beginning of the next.
#[tokio::test(start_paused = true)]
async fn pods_whose_claim_ends_for_shortage_are_planned_for_a_second_later() {
    let world = World::new();
    let only = |kind: &str, weight: u32| {
        let requirements = json!([
            {"key": names::INSTANCE_TYPE, "operator": "In", "values": [kind]},
            {"key": names::ZONE, "operator": "In", "values": ["us-south-1"]},
            {"key": names::CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
        ]);
        json!({"weight": weight, "template": {"spec": {"requirements": requirements}}})
    };
    let refused = Fault::new(FaultKind::CapacityRefused).times(1);
    world.cloud.faults().start(refused);
    while_working(
        world.replica(),
        Box::pin(async {
            world.pool("first", only("bxf-2x8", 10)).await;
            world.pool("second", only("bxf-4x16", 1)).await;
            world.waiting("a", json!({})).await;
            let of = async |pool: &str| {
                let claims = world.all_claims().await;
                claims
                    .into_iter()
                    .find(|claim| claim.labels()[names::NODE_POOL] == pool)
            };
            world
                .until("a claim", Duration::from_secs(30), async || {
                    of("first").await.is_some()
                })
                .await;
            let has_ended = async || {
                let claim = of("first").await;
                claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some() || is_short(&claim))
            };
            let latest = world.clock.instant() + Duration::from_mins(10);
            while !has_ended().await {
                assert!(world.clock.instant() < latest, "the claim never ends");
                world.clock.sleep(MOMENT).await;
            }
            let ended = world.clock.instant();
            while of("second").await.is_none() {
                assert!(world.clock.instant() < latest, "nothing is made in its place");
                world.clock.sleep(MOMENT).await;
            }
            let took = world.clock.instant() - ended;
            assert!(took <= Duration::from_secs(2), "{took:?}");
        }),
    )
    .await;
}

fn is_short(claim: &NodeClaim) -> bool {
    let conditions = claim
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|it| {
        let is_launch = it.type_ == "Launched" && it.status == "False";
        is_launch && it.reason.as_deref() == Some(names::REASON_INSUFFICIENT_CAPACITY)
    })
}

#[tokio::test(start_paused = true)]
async fn who_is_in_a_hurry_closes_the_window_at_once() {
    let world = World::new();
    let (replica, hurry) = replica_in_a_hurry(&world);
    while_working(
        replica,
        Box::pin(async {
            let (took, _) = first_claim(&world, 4 * MOMENT, async |step| {
                if step == 1 {
                    hurry();
                }
            })
            .await;
            assert_about(took, 5 * MOMENT);
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_is_in_a_hurry_is_heard_also_while_pods_come_that_may_get_a_node() {
    let world = World::new();
    let (replica, hurry) = replica_in_a_hurry(&world);
    while_working(
        replica,
        Box::pin(async {
            ready(&world).await;
            world.coming("first", json!({})).await;
            let (took, _) = until_claim(&world, MOMENT, async |step| match step {
                2 => hurry(),
                3 => world.waiting("second", json!({})).await,
                _ => (),
            })
            .await;
            assert_about(took, 4 * MOMENT);
        }),
    )
    .await;
}

/// A replica, and what somebody in it does who is in a hurry.
fn replica_in_a_hurry(world: &World) -> (BoxFuture<'static, ()>, impl Fn()) {
    let hurry = Arc::new(Mutex::new(None));
    let kept = hurry.clone();
    let keep = move |context: operator::Context| {
        *kept.lock().unwrap() = Some(context.hurry.clone());
        context
    };
    let replica = audited::factory_of(World::settings("one"), |edges| edges, keep)(world.edges());
    let notify = move || {
        let hurry = hurry.lock().unwrap().clone();
        hurry.unwrap().notify_one();
    };
    (replica, notify)
}
