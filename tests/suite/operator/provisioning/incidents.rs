//! What went wrong for others, as regressions: claims made twice, limits that a burst or machines on their way get past,
//! and one bad object that keeps everybody waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use k8s_openapi::api::events::v1::Event;
use karpenter_ibm::ibm::http::{Exchange, ExchangeError};
use karpenter_ibm::operator::Edges;
use karpenter_ibm::sim::kube::watching::{Delivery, Who};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::super::{NAMESPACE, World, audited, while_working};

/// A way to the cloud on which some request ends in a panic, as a mistake of ours would.
struct Poisoned {
    inner: Arc<dyn Exchange>,
    is_poison: fn(&Request<Bytes>) -> bool,
    met: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl Exchange for Poisoned {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        if (self.is_poison)(&request) {
            self.met.fetch_add(1, Ordering::Relaxed);
            panic!("this request is poison");
        }
        self.inner.exchange(request).await
    }
}

impl World {
    /// A replica whose code panics at certain requests, how often it has, and where it counts.
    fn poisoned_replica(
        &self,
        is_poison: fn(&Request<Bytes>) -> bool,
    ) -> (
        futures::future::BoxFuture<'static, ()>,
        Arc<AtomicUsize>,
        prometheus::Registry,
    ) {
        let met = Arc::new(AtomicUsize::new(0));
        let counted = met.clone();
        let poison = move |mut edges: Edges| {
            edges.ibm.cloud = Arc::new(Poisoned {
                inner: edges.ibm.cloud.clone(),
                is_poison,
                met: counted.clone(),
            });
            edges
        };
        let edges = self.edges();
        let registry = edges.registry.clone();
        let factory = audited::factory_of(Self::settings("one"), poison, |context| context);
        (factory(edges), met, registry)
    }

    /// The objects about which an event of that reason was written, once for each event.
    pub(super) async fn objects_told(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::all(self.kube.admin());
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let about = events
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        about.filter_map(|event| event.regarding?.name).collect()
    }
}

/// How often a decision of that kind has panicked.
pub(super) fn panics(registry: &prometheus::Registry, decision: &str) -> f64 {
    let families = registry.gather();
    let of = families
        .iter()
        .filter(|family| family.name() == "karpenter_ibm_decision_panics_total");
    let counted = of
        .flat_map(prometheus::proto::MetricFamily::get_metric)
        .filter(|metric| {
            let mut labels = metric.get_label().iter();
            labels.any(|label| label.value() == decision)
        });
    counted.map(|metric| metric.get_counter().get_value()).sum()
}

/// kubernetes-sigs/karpenter#3121, aws#6355: two claims for the same pods.
///
/// A pod is changed by others and the provisioner is restarted, again and again, while the claim that was made for it
/// comes up: what was promised is written on the claim, so nothing is bought twice.
#[tokio::test(start_paused = true)]
async fn a_pod_that_a_claim_was_made_for_gets_no_other_after_a_restart_or_a_change() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            world.pool("default", json!({})).await;
            world.waiting("a", json!({})).await;
            world.until_claims(1).await;
        }),
    )
    .await;
    for round in 0..4 {
        while_working(
            world.replica_named(&format!("another-{round}")),
            Box::pin(async {
                let seen = json!({"policies.example.com/seen": round.to_string()});
                let touched = Patch::Merge(json!({"metadata": {"annotations": seen}}));
                let params = PatchParams::default();
                world.pods().patch("a", &params, &touched).await.unwrap();
                world.clock.sleep(Duration::from_mins(1)).await;
            }),
        )
        .await;
        assert_eq!(world.all_claims().await.len(), 1, "after {round} restarts");
    }
    assert_eq!(world.living().len(), 1, "one machine was bought");
}

/// aws#8066: a webhook changed what pods ask for, and each change was bought another node.
///
/// A pod comes back as another that asks for more, again and again, while the machine that was bought for the first is on
/// its way: what fits onto it is left to it.
#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_back_changed_is_left_to_the_machine_on_its_way() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let first = world.launched_for_a_pod().await;
            for round in 1..=4 {
                let at_once = DeleteParams::default().grace_period(0);
                world.pods().delete("a", &at_once).await.unwrap();
                let requests = json!({"cpu": format!("{}m", 1000 + 100 * round), "memory": "1Gi"});
                let asks = json!([{"name": "a", "image": "a", "resources": {"requests": requests}}]);
                world.waiting("a", json!({"containers": asks})).await;
                world.clock.sleep(Duration::from_mins(1)).await;
                let claims = world.all_claims().await;
                let [only] = claims.as_slice() else {
                    panic!("{} claims after {round} changes", claims.len());
                };
                assert_eq!(only.name_any(), first.name_any());
            }
            // What it cannot hold is bought another for, so the claim was not merely taken for all pods.
            world
                .pods()
                .delete("a", &DeleteParams::default().grace_period(0))
                .await
                .unwrap();
            let asks = json!([{"name": "a", "image": "a", "resources": {"requests": {"cpu": "6"}}}]);
            world.waiting("a", json!({"containers": asks})).await;
            world.until_claims(2).await;
        }),
    )
    .await;
}

/// kubernetes-sigs/karpenter#3176: a claim was made and deleted unseen, and nothing was provisioned for most of a day.
///
/// The provisioner's own claim is deleted by somebody before its watch tells of it, and what came and went is never told:
/// its pod is left to it no longer than it takes to find out.
#[tokio::test(start_paused = true)]
async fn a_claim_of_our_own_that_came_and_went_unseen_is_made_anew() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            world.pool("default", json!({})).await;
            world.clock.sleep(Duration::from_secs(30)).await;
            let unseen = Delivery::Coalesced(Duration::from_hours(1));
            world
                .kube
                .watching()
                .deliver(Who::kind("karpenter.sh", "nodeclaims"), unseen);
            world.waiting("a", json!({})).await;
            let [first] = world.until_claims(1).await.try_into().unwrap();
            world.delete(&first.name_any()).await;
            assert!(
                world.all_claims().await.is_empty(),
                "nobody has looked after it yet"
            );
            let another = async || {
                let claims = world.all_claims().await;
                claims.first().is_some_and(|claim| claim.uid() != first.uid())
            };
            world
                .until("another claim", Duration::from_mins(1), another)
                .await;
            world.clock.sleep(Duration::from_mins(5)).await;
            assert_eq!(world.all_claims().await.len(), 1);
        }),
    )
    .await;
}

/// kubernetes-sigs/karpenter#2915, #2657: parallel creates read no usage, and the limit on nodes was ignored.
///
/// Many pods at once, each of which needs a node of its own, under two replicas that both believe to lead.
#[tokio::test(start_paused = true)]
async fn a_burst_gets_no_more_nodes_than_the_limit_says() {
    let world = World::new();
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
    // Each with a Lease of its own, so that both lead.
    let replica = |name: &str, namespace: &str| {
        let mut settings = World::settings(name);
        settings.controllers.namespace = namespace.to_owned();
        audited::factory(settings)(world.edges())
    };
    let two = futures::future::join(replica("one", NAMESPACE), replica("two", "default"));
    while_working(
        async {
            two.await;
        },
        Box::pin(async {
            world.pool("default", json!({"limits": {"nodes": "3"}})).await;
            for number in 0..12 {
                world.waiting(&format!("p{number}"), apart.clone()).await;
            }
            for _ in 0..60 {
                world.clock.sleep(Duration::from_secs(2)).await;
                assert!(world.living().len() <= 3, "{} machines", world.living().len());
            }
            assert_eq!(
                world.all_claims().await.len(),
                3,
                "as many as the limit allows, and no more"
            );
        }),
    )
    .await;
}

/// kubernetes/autoscaler PR 1516: a cluster grew beyond its greatest size, since nodes on their way were not counted.
///
/// A claim whose machine has not joined counts against the limit as it will once it has.
#[tokio::test(start_paused = true)]
async fn machines_on_their_way_count_against_limits() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            world.pool("default", json!({"limits": {"cpu": "2"}})).await;
            world.waiting("a", json!({})).await;
            let [claim] = world.until_claims(1).await.try_into().unwrap();
            let elsewhere = json!({"nodeSelector": {"topology.kubernetes.io/zone": "us-south-3"}});
            world.waiting("b", elsewhere.clone()).await;
            world.until_told("FailedScheduling", "limit").await;
            world.until_launched(&claim.name_any()).await;
            world.waiting("c", elsewhere).await;
            world.clock.sleep(Duration::from_mins(1)).await;
            assert_eq!(world.all_claims().await.len(), 1);
            assert_eq!(world.living().len(), 1);
        }),
    )
    .await;
}

/// kubernetes-sigs/karpenter#1120, aws#7578: one bad claim or pod kept all others waiting.
///
/// A claim that nothing can be bought for, and pods that nobody can place, come first; those behind them do not wait.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_had_keeps_no_other_waiting() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            world.pool("default", json!({})).await;
            for number in 0..12 {
                world.claim_in(&format!("bad-{number}"), "no-such-zone").await;
            }
            world
                .waiting("nowhere", json!({"nodeSelector": {"example.com/unicorn": "yes"}}))
                .await;
            world.waiting("good", json!({})).await;
            world
                .until(
                    "the good pod's claim is launched",
                    Duration::from_mins(2),
                    async || {
                        let claims = world.all_claims().await;
                        let good = claims.iter().find(|claim| !claim.name_any().starts_with("bad-"));
                        match good {
                            Some(claim) => world.is_true(&claim.name_any(), "Launched").await,
                            None => false,
                        }
                    },
                )
                .await;
        }),
    )
    .await;
}

/// A mistake of ours about one claim is an event on it and a count, is tried again ever later, and is nobody else's.
#[tokio::test(start_paused = true)]
async fn a_claim_at_which_we_panic_is_told_so_and_keeps_no_other_waiting() {
    let world = World::new();
    let (replica, met, registry) = world.poisoned_replica(|request| {
        let order = request.method() == Method::POST && request.uri().path() == "/v1/instances";
        order && String::from_utf8_lossy(request.body()).contains("us-south-2")
    });
    while_working(
        replica,
        Box::pin(async {
            world.claim_in("poisoned", "us-south-2").await;
            world.clock.sleep(Duration::from_secs(20)).await;
            world.claim_in("healthy", "us-south-1").await;
            world.until_launched("healthy").await;
            world.clock.sleep(Duration::from_mins(5)).await;
            assert_eq!(
                world.objects_told("InternalError").await,
                ["poisoned"],
                "told once"
            );
            let tries = met.load(Ordering::Relaxed);
            // Without waits that grow it would be hundreds.
            assert!((3..=60).contains(&tries), "{tries} tries in some six minutes");
            assert_eq!(panics(&registry, "nodeclaim").to_string(), tries.to_string());
        }),
    )
    .await;
}

/// A loop over many objects that panics begins anew after a while, and the others go on.
#[tokio::test(start_paused = true)]
async fn a_loop_that_panics_begins_anew_and_stops_no_other() {
    let world = World::new();
    let (replica, met, registry) =
        world.poisoned_replica(|request| request.uri().path().contains("virtual_network_interfaces"));
    while_working(
        replica,
        Box::pin(async {
            world.claim_in("first", "us-south-1").await;
            world.until_launched("first").await;
            world
                .until(
                    "the comparison panics twice",
                    Duration::from_mins(15),
                    async || panics(&registry, "drift") >= 2.0,
                )
                .await;
            assert!(met.load(Ordering::Relaxed) >= 2);
            world.claim_in("second", "us-south-3").await;
            world.until_launched("second").await;
        }),
    )
    .await;
}
