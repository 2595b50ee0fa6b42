//! What is judged on one state of the cluster is not done to another, and one that cannot leave holds up nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use karpenter_ibm::sim::kube::write;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use serde_json::json;
use tower::{BoxError, service_fn};

use super::{World, audited, while_working};

/// Somebody protects a pod in the very moment in which its eviction is sent.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_protected_between_the_look_and_the_eviction_stays() {
    let world = World::new();
    let mut edges = world.edges();
    let (inner, moment, sent) = (edges.kube.clone(), world.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = sent.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (inner, world, sent) = (inner.clone(), moment.clone(), counted.clone());
        async move {
            if request.uri().path().ends_with("/shop-1/eviction") && sent.fetch_add(1, Ordering::Relaxed) == 0
            {
                let protect = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
                let params = PatchParams::default();
                world
                    .pods()
                    .patch("shop-1", &params, &Patch::Merge(protect))
                    .await
                    .unwrap();
            }
            inner.send(request).await.map_err(BoxError::from)
        }
    });
    edges.kube = kube::Client::new(service, "default");
    while_working(audited::factory(World::settings("one"))(edges), async {
        world.ready_node("a").await;
        world.pod("shop-1", "a", |_| ()).await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(sent.load(Ordering::Relaxed), 1, "it was tried, and refused");
        let pod = world.pods().get("shop-1").await.unwrap();
        assert!(pod.metadata.deletion_timestamp.is_none());
        assert_eq!(world.living().len(), 1);
    })
    .await;
}

/// kubernetes-sigs/karpenter#2361: a pod that two budgets select cannot be evicted; it was tried again and again, and
/// nothing else got on.
#[tokio::test(start_paused = true)]
async fn a_pod_with_two_budgets_kept_everything_else_from_going_on() {
    let world = World::new();
    while_working(world.replica(), async {
        world.guarded_node("a").await;
        write::insert(
            &world.kube,
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "shop-too", "namespace": "default"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "shop"}}},
            }),
        );
        world.ready_node("b").await;
        world
            .pod("other-1", "b", |pod| {
                pod["metadata"]["labels"] = json!({"app": "other"});
            })
            .await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(1)).await;
        world.delete("b").await;
        let gone = world.until_emptied("b", Duration::from_mins(6)).await;
        assert_eq!(gone, ["other-1"]);
        assert!(world.read("a").await.is_some());
        let note = world.note("FailedDraining").await.unwrap();
        assert!(
            note.contains("more than one disruption budget selects it (shop, shop-too)"),
            "{note}"
        );
        world.claim("c").await;
        world.until_launched("c").await;
    })
    .await;
}

/// aws#2734: an address and a name were used again; the Node of the old machine stood in the way, and the machine of another
/// was deleted.
#[tokio::test(start_paused = true)]
async fn the_node_of_an_older_machine_stood_in_the_way_and_another_machine_was_deleted() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        world.ready_node("b").await;
        let kept = world.machine_of("b").await;
        // A Node by the name of the claim to come, that says it is the machine of another.
        let impostor = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"},
            "spec": {"providerID": format!("ibm:///us-south/{kept}")},
        });
        write::insert(&world.kube, impostor);
        world.claim("c").await;
        world.until_launched("c").await;
        let own = world.machine_of("c").await;
        world.delete("c").await;
        world.until_gone("c").await;
        world.clock.sleep(Duration::from_mins(6)).await;
        let living: Vec<String> = world.living().into_iter().map(|it| it.id).collect();
        assert!(living.contains(&kept) && !living.contains(&own), "{living:?}");
        assert_eq!(living.len(), 2);
        assert!(!world.is_deleting("b").await);
    })
    .await;
}

/// kubernetes/autoscaler#2386: failed nodes were deleted twice on a cache that was old, and the whole group went.
#[tokio::test(start_paused = true)]
async fn machines_that_had_failed_were_deleted_twice_and_others_went_instead() {
    let world = World::new();
    while_working(world.replica(), async {
        for name in ["a", "b", "c", "d"] {
            world.ready_node(name).await;
        }
        let lost = world.machine_of("a").await;
        world.cloud.faults().start(karpenter_ibm::sim::ibm::Fault::new(
            karpenter_ibm::sim::ibm::FaultKind::ReadLag,
        ));
        world.cloud.preempt(&lost).unwrap();
        world
            .until("gone", Duration::from_mins(15), async || {
                world.read("a").await.is_none()
            })
            .await;
    })
    .await;
    // A process that knows nothing of what was done, on reads that are old.
    while_working(world.replica_named("two"), async {
        world.clock.sleep(Duration::from_mins(15)).await;
        assert_eq!(world.living().len(), 3);
        for name in ["b", "c", "d"] {
            assert!(!world.is_deleting(name).await, "{name}");
        }
        let deletes = world.cloud.requests();
        let deletes = deletes.iter().filter(|it| it.method == http::Method::DELETE);
        let ids: std::collections::BTreeSet<String> = deletes.map(|it| it.path.clone()).collect();
        assert!(
            ids.iter().filter(|path| path.contains("/v1/instances/")).count() == 1,
            "{ids:?}"
        );
    })
    .await;
}

/// Nodes are repaired on what lists say, and a list that failed says nothing; and only such as claims answer for.
#[tokio::test(start_paused = true)]
async fn no_node_is_repaired_on_a_read_that_failed_nor_one_that_is_not_ours() {
    let world = World::new();
    let mut edges = world.edges();
    let (inner, fails) = (edges.kube.clone(), Arc::new(AtomicBool::new(false)));
    let broken = fails.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (inner, broken) = (inner.clone(), broken.clone());
        async move {
            let lists = request.uri().path() == "/apis/karpenter.sh/v1/nodeclaims"
                && !request.uri().query().unwrap_or_default().contains("watch");
            if lists && broken.load(Ordering::Relaxed) {
                return Ok(Response::builder().status(500).body(Body::empty()).unwrap());
            }
            inner.send(request).await.map_err(BoxError::from)
        }
    });
    edges.kube = kube::Client::new(service, "default");
    while_working(audited::factory(World::settings("one"))(edges), async {
        for name in ["a", "b", "c", "d", "e", "f"] {
            world.ready_node_of(name, &["on-demand"]).await;
        }
        write::insert(
            &world.kube,
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "foreign", "labels": {"karpenter.sh/registered": "true"}},
                "spec": {"providerID": "aws:///us-east-1a/i-0123"},
            }),
        );
        world.unhealthy("a").await;
        world.unhealthy("foreign").await;
        fails.store(true, Ordering::Relaxed);
        world.clock.sleep(Duration::from_hours(2)).await;
        assert!(!world.is_deleting("a").await, "nobody knows whose it is");
        fails.store(false, Ordering::Relaxed);
        world
            .until("repaired", Duration::from_mins(15), async || {
                world.read("a").await.is_none()
            })
            .await;
        world.clock.sleep(Duration::from_hours(1)).await;
        let foreign = world.nodes().get("foreign").await.unwrap();
        assert!(foreign.metadata.deletion_timestamp.is_none());
        assert!(!world.is_tainted("foreign").await);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_wish_nobody_can_read_leaves_like_any_other_and_is_told_so_once() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        world
            .pod("shop-1", "a", |pod| {
                pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "soon"});
            })
            .await;
        world.delete("a").await;
        world
            .until("told to go", Duration::from_mins(1), async || {
                world.is_told_to_go("shop-1").await
            })
            .await;
        world.clock.sleep(Duration::from_secs(20)).await;
        let told = world.told("DoNotDisruptUnreadable").await;
        assert!(
            told.len() == 1 && told[0].0 == "Pod shop-1" && told[0].2.contains("soon"),
            "{told:?}"
        );
    })
    .await;
}
