//! Bad input, incidents that others had, and crashes: each keeps to itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_ibm::api::{NodePool, names};
use karpenter_ibm::controllers::compute::{Compute, Place};
use karpenter_ibm::model::Snapshot;
use karpenter_ibm::{operator, scheduling};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::super::effects::Effects;
use super::super::{World, audited, while_working};
use super::SOON;

fn asks(amounts: &Value) -> Value {
    json!({"containers": [{"name": "a", "image": "a", "resources": {"requests": amounts}}]})
}

/// Pods that nobody can place: name and specification.
fn hopeless() -> Vec<(String, Value)> {
    let label = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            label("zone", "In", json!(["a"])), label("zone", "NotIn", json!(["a"])),
        ]}],
    }}}});
    let spreads: Vec<Value> = (0..1000)
        .map(|number| {
            json!({
                "topologyKey": format!("example.com/key-{number}"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            })
        })
        .collect();
    let near_nobody = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nobody"}}}]}}});
    // Each wants to be where the other is, and neither is anywhere.
    let near = |ring: &str| {
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"ring": ring}}}]}}})
    };
    // Two names of the greatest length that differ in their last letter only.
    let long = |end: &str| format!("{}{end}", "n".repeat(252));
    vec![
        ("enormous".to_owned(), asks(&json!({"cpu": "1000000000000000"}))),
        (
            "unknown".to_owned(),
            json!({"containers": [{"name": "a", "image": "a", "resources": {"limits": {"example.com/unicorn": "1"}}}]}),
        ),
        ("contradiction".to_owned(), affinity),
        (
            "spreads".to_owned(),
            json!({"topologySpreadConstraints": spreads}),
        ),
        ("company".to_owned(), near_nobody),
        ("ring-a".to_owned(), near("b")),
        ("ring-b".to_owned(), near("a")),
        (long("x"), asks(&json!({"cpu": "1000000"}))),
        (long("y"), asks(&json!({"cpu": "1000000"}))),
    ]
}

#[tokio::test(start_paused = true)]
async fn pods_that_nobody_can_place_are_told_why_once_and_keep_nobody_waiting() {
    let world = World::new();
    let many: Vec<Value> = (0..5000)
        .map(|number| json!({"name": format!("c{number}"), "image": "a", "resources": {"requests": {"cpu": "1m"}}}))
        .collect();
    let bad = hopeless();
    let (plans, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (planned, turned) = (plans.clone(), turns.clone());
    let counted = move |context: operator::Context| {
        let (planned, turned) = (planned.clone(), turned.clone());
        let solve = move |snapshot: &Snapshot, options, budget: scheduling::Budget<'_>| {
            planned.fetch_add(1, Ordering::Relaxed);
            scheduling::solve(snapshot, options, &|| {
                turned.fetch_add(1, Ordering::Relaxed);
                budget()
            })
        };
        operator::Context {
            compute: Compute::with(Place::Here, Arc::new(solve)),
            ..context
        }
    };
    let replica = audited::factory_of(World::settings("one"), |edges| edges, counted)(world.edges());
    while_working(
        replica,
        Box::pin(async {
            world.pool("default", json!({})).await;
            for (name, spec) in &bad {
                world.waiting(name, spec.clone()).await;
            }
            for ring in ["a", "b"] {
                let label =
                    json!({"metadata": {"labels": {"ring": ring, "empty": "", "longest": "l".repeat(63)}}});
                let params = PatchParams::default();
                let name = format!("ring-{ring}");
                world
                    .pods()
                    .patch(&name, &params, &Patch::Merge(label))
                    .await
                    .unwrap();
            }
            world.waiting("zero", asks(&json!({"cpu": "0"}))).await;
            world.waiting("many", json!({"containers": many})).await;
            world.waiting("good", json!({})).await;
            world
                .until("everybody is told", SOON, async || {
                    world.notes("FailedScheduling").await.len() == bad.len()
                })
                .await;
            let named: usize = world
                .all_claims()
                .await
                .iter()
                .map(|claim| claim.annotations()[names::NOMINATED_PODS].split(',').count())
                .sum();
            assert_eq!(named, 3, "the others are served");
            world.clock.sleep(Duration::from_mins(5)).await;
            assert_eq!(world.notes("FailedScheduling").await.len(), bad.len());
            let (plans, turns) = (plans.load(Ordering::Relaxed), turns.load(Ordering::Relaxed));
            // Four a minute while somebody waits, and a few when they came.
            assert!(plans <= 30, "{plans} plans in five minutes");
            // A dozen classes, in each pass of a plan once, and once more where others may have made a place.
            assert!(turns <= plans * 200, "{turns} turns in {plans} plans");
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn limits_that_allow_nothing_make_nothing_and_delete_nothing() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let claim = world.launched_for_a_pod().await;
            let pools: Api<NodePool> = Api::all(world.kube.admin());
            let limit = async |limits: &Value| {
                let patch = Patch::Merge(json!({"spec": {"limits": limits}}));
                let params = PatchParams::default();
                pools.patch("default", &params, &patch).await.unwrap();
            };
            let within = async || {
                let status = pools.get("default").await.unwrap().status.unwrap();
                let mut conditions = status.conditions.unwrap().into_iter();
                let it = conditions.find(|it| it.type_ == names::WITHIN_LIMITS).unwrap();
                (it.status, it.message.unwrap_or_default())
            };
            assert_eq!(within().await, ("True".to_owned(), String::new()));
            let all = [
                (json!({"cpu": "0"}), "cpu", "0"),
                (json!({"cpu": "1"}), "cpu", "1"),
                (
                    json!({"cpu": null, "example.com/unicorn": "0"}),
                    "example.com/unicorn",
                    "0",
                ),
            ];
            for (number, (limits, reached, most)) in all.into_iter().enumerate() {
                limit(&limits).await;
                world
                    .waiting(
                        &format!("b{number}"),
                        json!({"nodeSelector": {"topology.kubernetes.io/zone": "us-south-3"}}),
                    )
                    .await;
                world.clock.sleep(Duration::from_mins(1)).await;
                let claims = world.all_claims().await;
                let expected = if limits["cpu"].is_null() { 2 } else { 1 };
                assert_eq!(claims.len(), expected, "{limits}");
                assert!(
                    claims.iter().any(|it| it.name_any() == claim.name_any()),
                    "{limits}"
                );
                let (status, message) = within().await;
                assert_eq!(status, "False", "{limits}");
                let begin = format!("nothing more is bought that has {reached}: ");
                let whole = message.starts_with(&begin) && message.ends_with(&format!(" of {most} is used"));
                assert!(whole, "{limits}: {message}");
            }
            limit(&Value::Null).await;
            world.clock.sleep(Duration::from_mins(1)).await;
            assert_eq!(within().await.0, "True", "nothing is limited any more");
        }),
    )
    .await;
}

/// kubernetes-sigs/karpenter#3176: a claim is made and deleted by others before any watch shows it; once that left a provisioner waiting for a day.
#[tokio::test(start_paused = true)]
async fn a_claim_that_came_and_went_unseen_blocks_nobody() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            world.pool("default", json!({})).await;
            for number in 0..20 {
                let name = format!("ghost-{number}");
                world.claim(&name).await;
                world.delete(&name).await;
            }
            world.waiting("a", json!({})).await;
            world
                .until("a claim for the pod", SOON, async || {
                    let claims = world.all_claims().await;
                    claims
                        .iter()
                        .any(|claim| claim.annotations().contains_key(names::NOMINATED_PODS))
                })
                .await;
        }),
    )
    .await;
}

/// In each plan there is time for so many kinds of pods.
#[tokio::test(start_paused = true)]
async fn pods_that_there_was_no_time_for_are_planned_for_again_and_not_without_a_pause() {
    const TOO_MANY: usize = 1000;
    let world = World::new();
    let (plans, time) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (planned, given) = (plans.clone(), time.clone());
    let hasty = move |context: operator::Context| {
        let (planned, given) = (planned.clone(), given.clone());
        let solve = move |snapshot: &Snapshot, options, _: scheduling::Budget<'_>| {
            // Where plans follow each other without a pause, no time passes here, and the test would never end.
            let is_endless = planned.fetch_add(1, Ordering::Relaxed) > TOO_MANY;
            let (given, taken) = (given.load(Ordering::Relaxed), AtomicUsize::new(0));
            scheduling::solve(snapshot, options, &|| {
                is_endless || taken.fetch_add(1, Ordering::Relaxed) < given
            })
        };
        operator::Context {
            compute: Compute::with(Place::Here, Arc::new(solve)),
            ..context
        }
    };
    let replica = audited::factory_of(World::settings("one"), |edges| edges, hasty)(world.edges());
    while_working(
        replica,
        Box::pin(async {
            world.pool("default", json!({})).await;
            world.clock.sleep(Duration::from_secs(30)).await;
            for cpu in ["1", "2", "3"] {
                world
                    .waiting(&format!("p{cpu}"), asks(&json!({"cpu": cpu})))
                    .await;
            }
            world.clock.sleep(Duration::from_mins(2)).await;
            let in_vain = plans.load(Ordering::Relaxed);
            assert!((4..30).contains(&in_vain), "{in_vain} plans in two minutes");
            assert!(world.all_claims().await.is_empty());
            time.store(1, Ordering::Relaxed);
            world
                .until("all are nominated", Duration::from_mins(1), async || {
                    let mut told = world.objects_told("Nominated").await;
                    told.sort();
                    told == ["p1", "p2", "p3"]
                })
                .await;
            assert!(!world.all_claims().await.is_empty());
        }),
    )
    .await;
}

/// aws#2011, aws#2821: a node every twenty seconds, without end, for a pod that never ran on the node made for it.
///
/// Each node says that it has less than was promised.
#[tokio::test(start_paused = true)]
async fn a_pod_that_its_node_has_no_room_for_does_not_buy_one_node_after_another() {
    let world = World::new();
    let amounts = json!({"cpu": "500m", "memory": "512Mi", "pods": "1"});
    let less = json!({"status": {"capacity": amounts, "allocatable": amounts}});
    let bought = bought_in_vain(&world, async |nodes, name| {
        let params = PatchParams::default();
        nodes
            .patch_status(name, &params, &Patch::Merge(&less))
            .await
            .unwrap();
    });
    let bought = bought.await;
    assert!((2..=4).contains(&bought), "{bought} nodes in six hours");
}

/// The same, where somebody else's controller taints every node that joins, and nobody ever takes that away.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_nodes_others_taint_does_not_buy_one_node_after_another() {
    let world = World::new();
    let bought = bought_in_vain(&world, async |nodes, name| {
        let taints = json!([{"key": "agent.example.com/not-there", "effect": "NoSchedule"}]);
        let tainted = json!({"spec": {"taints": taints}});
        let params = PatchParams::default();
        nodes.patch(name, &params, &Patch::Merge(&tainted)).await.unwrap();
        world.report(name).await;
    });
    let bought = bought.await;
    assert_eq!(bought, 4, "nodes in six hours");
    let told = world.notes("Nominated").await;
    let last = told.iter().filter(|note| note.contains("this is the last"));
    assert_eq!(last.count(), 1, "{told:?}");
}

/// How many claims there are after six hours for a pod that is bound to none of its nodes, each of which is spoiled
/// once it has registered.
async fn bought_in_vain(world: &World, spoil: impl AsyncFn(&Api<Node>, &str)) -> usize {
    let nodes: Api<Node> = Api::all(world.kube.admin());
    while_working(
        world.replica(),
        Box::pin(async {
            world.pool("default", json!({})).await;
            world.waiting("a", json!({})).await;
            let soon = std::iter::repeat_n(Duration::from_secs(30), 40);
            let later = std::iter::repeat_n(Duration::from_mins(30), 12);
            for wait in soon.chain(later) {
                for claim in world.all_claims().await {
                    let name = claim.name_any();
                    let is_there = nodes.get_opt(&name).await.unwrap().is_some();
                    if world.is_true(&name, "Launched").await && !is_there {
                        world.join(&name).await;
                    } else if world.is_true(&name, "Registered").await && !world.is_true(&name, "Ready").await
                    {
                        world.make_ready(&name).await;
                        spoil(&nodes, &name).await;
                    }
                }
                world.clock.sleep(wait).await;
            }
        }),
    )
    .await;
    world.all_claims().await.len()
}

/// What such pods ask of labels a claim could not say: it would be refused, and with it everybody else in it.
#[tokio::test(start_paused = true)]
async fn pods_that_ask_for_what_no_claim_can_say_keep_nobody_waiting() {
    let affinity = |how: &str, terms: Value| json!({"affinity": {"nodeAffinity": {how: terms}}});
    let expression = |key: &str, operator: &str, values: &[&str]| {
        let values: Vec<&str> = values.to_vec();
        json!({"key": key, "operator": operator, "values": values})
    };
    let required = |expressions: Vec<Value>| {
        affinity(
            "requiredDuringSchedulingIgnoredDuringExecution",
            json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]}),
        )
    };
    let absent =
        (0..101).map(|number| json!({"key": format!("example.com/k{number}"), "operator": "DoesNotExist"}));
    let registered = expression("karpenter.sh/registered", "In", &["true"]);
    let odd = [
        (
            "selects",
            json!({"nodeSelector": {"karpenter.sh/initialized": "true"}}),
        ),
        (
            "excludes",
            required(vec![expression("karpenter.sh/foo", "NotIn", &["x"])]),
        ),
        ("lacks", required(absent.collect())),
        (
            "wishes",
            affinity(
                "preferredDuringSchedulingIgnoredDuringExecution",
                json!([{"weight": 1, "preference": {"matchExpressions": [registered]}}]),
            ),
        ),
    ];
    for (name, spec) in odd {
        let world = World::new();
        while_working(
            world.replica(),
            Box::pin(async {
                world.pool("default", json!({})).await;
                world.waiting(name, spec).await;
                world.waiting("plain", json!({})).await;
                world
                    .until(&format!("both are planned for beside {name}"), SOON, async || {
                        world.notes("Nominated").await.len() == 2
                    })
                    .await;
                assert!(!world.all_claims().await.is_empty());
            }),
        )
        .await;
    }
}

/// A pod that claims devices is bought nothing: which node has them nobody can say before it is there.
#[tokio::test(start_paused = true)]
async fn a_pod_that_claims_devices_is_told_so_and_buys_nothing() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            world.pool("default", json!({})).await;
            let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]});
            world.waiting("a", claims).await;
            world.until_told("FailedScheduling", "it claims devices").await;
            world.clock.sleep(Duration::from_mins(2)).await;
            assert!(world.all_claims().await.is_empty());
            assert_eq!(world.notes("FailedScheduling").await.len(), 1);
            world.waiting("b", json!({})).await;
            world.until_claims(1).await;
        }),
    )
    .await;
}

/// Who waits for a pool that cannot be used is told what is wrong with it.
#[tokio::test(start_paused = true)]
async fn a_pool_that_is_not_ready_is_among_the_reasons() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let elsewhere = json!({"template": {"spec": {"nodeClassRef": {"name": "nobody"}}}});
            world.pool("broken", elsewhere).await;
            world.waiting("a", json!({})).await;
            world
                .until_told(
                    "FailedScheduling",
                    "NodePool broken: there is no IBMNodeClass nobody",
                )
                .await;
        }),
    )
    .await;
}

/// Crashes after every effect between the pod's arrival and its claim's launch; each time another replica finishes.
#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect_buys_no_more_than_the_calm_run() {
    for last in 1.. {
        let (world, effects) = (World::new(), Effects::up_to(last));
        world.pool("default", json!({})).await;
        for (pod, zone) in [("a", "us-south-1"), ("b", "us-south-2")] {
            world
                .waiting(
                    pod,
                    json!({"nodeSelector": {"topology.kubernetes.io/zone": zone}}),
                )
                .await;
        }
        let done = async || {
            world
                .until("two launched", Duration::from_mins(10), async || {
                    let claims = world.all_claims().await;
                    let launched = claims.iter().filter(|claim| {
                        let status = claim.status.as_ref();
                        status.is_some_and(|status| status.provider_id.is_some())
                    });
                    launched.count() == 2
                })
                .await;
        };
        let first = audited::factory(World::settings("first"))(effects.around(world.edges()));
        let finished = tokio::select! {
            biased;
            () = effects.crash.cancelled() => false,
            () = first => panic!("the replica ended"),
            () = done() => true,
        };
        if finished {
            let made = effects
                .log()
                .iter()
                .filter(|(method, path)| method == "POST" && path.ends_with("/nodeclaims"))
                .count();
            assert_eq!(made, 2, "{:#?}", effects.log());
            assert!(last > 8, "only {last} effects");
            return;
        }
        while_working(world.replica_named("second"), async {
            done().await;
            world.clock.sleep(Duration::from_secs(40)).await;
        })
        .await;
        let claims: Vec<String> = world
            .all_claims()
            .await
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        let log = effects.log();
        assert_eq!(
            claims.len(),
            2,
            "after a crash upon effect {last} of {log:#?}: {claims:?}"
        );
        assert_eq!(world.living().len(), 2, "after a crash upon effect {last}");
    }
}
