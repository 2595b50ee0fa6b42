//! What happened to others, as stories that end well here. Each names the thread it was told in.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::StatusCode;
use jiff::Timestamp;
use karpenter_ibm::sim::ibm::{Fault, FaultKind, RetryAfter};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::effects::{Answered, Effects};
use super::{World, audited, chart, joining, while_working};

impl World {
    /// A kubelet says that its machine has less than half of the disk that was ordered.
    async fn has_little_disk(&self, node: &str) {
        let amounts = json!({"cpu": "2", "memory": "7Gi", "pods": "110", "ephemeral-storage": "40Gi"});
        let status = Patch::Merge(json!({"status": {"capacity": amounts, "allocatable": amounts}}));
        let told = self
            .nodes()
            .patch_status(node, &PatchParams::default(), &status)
            .await;
        told.unwrap();
    }

    /// For so long, every machine that was bought joins and says that it has less than half of the disk.
    async fn serve_with_little_disk(&self, lasts: Duration) {
        let end = self.clock.instant() + lasts;
        while self.clock.instant() < end {
            for claim in self.all_claims().await {
                let name = claim.name_any();
                if self.is_true(&name, "Launched").await && !self.is_true(&name, "Registered").await {
                    self.join(&name).await;
                    self.make_ready(&name).await;
                    self.has_little_disk(&name).await;
                }
            }
            self.clock.sleep(Duration::from_secs(10)).await;
        }
    }

    /// The machine of a claim joins, and its kubelet is ready and says what it has.
    async fn make_node_with(&self, name: &str, amounts: &Value) {
        // Machines with GPUs take longer to start.
        self.until("launched", Duration::from_mins(15), async || {
            self.is_true(name, "Launched").await
        })
        .await;
        self.join(name).await;
        self.until_registered(name).await;
        let status = Patch::Merge(json!({"status": {"capacity": amounts, "allocatable": amounts}}));
        let (nodes, params) = (self.nodes(), PatchParams::default());
        nodes.patch_status(name, &params, &status).await.unwrap();
        self.make_ready(name).await;
    }

    /// A life that ends after the first effect with which there is a machine.
    async fn crash_once_bought(&self) {
        for last in 1..40 {
            let effects = Effects::up_to(last);
            let replica = audited::factory(Self::settings("first"))(effects.around(self.edges()));
            tokio::select! {
                biased;
                () = effects.crash.cancelled() => {}
                () = replica => panic!("the replica ended"),
            }
            if !self.cloud.instances().is_empty() {
                return;
            }
        }
        panic!("nothing was bought");
    }

    async fn until_swept(&self) {
        self.until("swept", Duration::from_mins(5), async || {
            self.cloud.instances().is_empty()
        })
        .await;
    }
}

/// kubernetes-sigs/karpenter#1448: what was launched was known in memory only, so a restart launched again.
#[tokio::test(start_paused = true)]
async fn one_claim_got_two_machines_after_a_restart() {
    let world = World::new();
    world.claim("a").await;
    world.crash_once_bought().await;
    while_working(world.replica(), async {
        world.until_launched("a").await;
        assert_eq!(world.cloud.instances().len(), 1);
        assert_eq!(world.orders(), 1);
    })
    .await;
}

/// paperclipinc hetzner#61, PR#53: the lease was lost while the create was under way; its name was taken then, which
/// was taken for an error, and the claim, without a provider id, was let go while its machine ran on.
#[tokio::test(start_paused = true)]
async fn a_machine_outlived_its_claim_because_its_name_was_taken() {
    // Reads show the machine only after the second leader has ordered.
    let world = World::with(|options| {
        options.timings.late_create_max = Duration::from_secs(10);
        options.timings.read_lag = Duration::from_secs(40);
    });
    let late = Fault::new(FaultKind::LateCreate).times(1);
    world.cloud.faults().start(late);
    world.cloud.faults().start(Fault::new(FaultKind::ReadLag));
    // The first leader is gone half a minute later, with an order under way; nobody knows of the machine.
    while_working(world.replica_named("one"), async {
        world.clock.sleep(Duration::from_secs(20)).await;
        world.claim("a").await;
        world.clock.sleep(Duration::from_secs(7)).await;
        assert!(world.orders() >= 1);
    })
    .await;
    let answered = Answered::default();
    let second = audited::factory(World::settings("two"))(answered.around(world.edges()));
    while_working(second, async {
        world.clock.sleep(Duration::from_secs(40)).await;
        assert!(
            answered.all().contains(&StatusCode::BAD_REQUEST),
            "its name is taken"
        );
        let mut ever = BTreeSet::new();
        let deleted_at = world.clock.instant() + Duration::from_mins(4);
        while world.clock.instant() < deleted_at {
            ever.extend(world.cloud.instances().into_iter().map(|it| it.id));
            world.clock.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(ever.len(), 1);
        world.delete("a").await;
        world.until_gone("a").await;
        assert!(world.cloud.instances().is_empty(), "nothing bills for ever");
    })
    .await;
}

/// oracle oci#97: the machine's id was recorded once it ran, so a restart before that bought another; orphans were
/// looked for once an hour.
#[tokio::test(start_paused = true)]
async fn a_machine_that_did_not_run_yet_was_bought_again_and_orphans_stayed_for_an_hour() {
    let world = World::with(|options| {
        options.timings.starting = karpenter_ibm::sim::ibm::Span::seconds(120, 120);
    });
    world.claim("a").await;
    let starting = async {
        world
            .until("recorded", Duration::from_mins(1), async || {
                let status = world.read("a").await.unwrap().status;
                let allocation = status.and_then(|status| status.allocation);
                allocation.is_some_and(|it| it.instance_id.is_some())
            })
            .await;
    };
    while_working(world.replica_named("one"), starting).await;
    assert!(!world.is_true("a", "Launched").await);
    while_working(world.replica_named("two"), async {
        world.until_launched("a").await;
        assert_eq!((world.cloud.instances().len(), world.orders()), (1, 1));
        let machine = world.living().remove(0);
        world.force_out(&machine.id).await;
        world.until_swept().await;
    })
    .await;
}

/// gcp#334: a claim for which nothing could be bought had no provider id, and its deletion failed for that for ever.
#[tokio::test(start_paused = true)]
async fn a_claim_without_a_machine_could_not_be_deleted() {
    for kind in [FaultKind::CapacityRefused, FaultKind::Forbidden] {
        let world = World::new();
        let fault = Fault::new(kind).on("instances.create");
        world.cloud.faults().start(fault);
        while_working(world.replica(), async {
            world.claim("a").await;
            world.clock.sleep(Duration::from_secs(20)).await;
            world.delete("a").await;
            world.until_gone("a").await;
            assert!(world.cloud.instances().is_empty());
        })
        .await;
    }
}

/// aws#1905: more was promised of a profile than its nodes had, so the pod never fit and node after node was bought:
/// 235 in twelve hours. What a node reports corrects the promise.
#[tokio::test(start_paused = true)]
async fn node_after_node_was_bought_for_a_pod_that_never_fit() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        world.reports("a", "7000Mi").await;
        world.clock.sleep(Duration::from_mins(6)).await;
        // As much as is promised of a bxf-2x8 before one was seen, and more than the one that was seen has.
        let claim = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "b"},
            "spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter-ibm.sh/instance-family", "operator": "In", "values": ["bxf"]},
                ],
                "resources": {"requests": {"memory": "5600Mi"}},
            },
        }));
        let made = world
            .claims()
            .create(&PostParams::default(), &claim.unwrap())
            .await;
        made.unwrap();
        world.until_launched("b").await;
        let claim = world.read("b").await.unwrap();
        assert_ne!(claim.labels()["node.kubernetes.io/instance-type"], "bxf-2x8");
    })
    .await;
}

/// The same incident, word for word: it was the disk of which more was promised. The first node teaches what every machine
/// of its class has, since the volume is the class's; so no second one is bought, of that profile or of any other.
#[tokio::test(start_paused = true)]
async fn node_after_node_was_bought_for_a_pod_whose_disk_never_sufficed() {
    let world = World::new();
    while_working(world.replica(), async {
        world.pool("default", json!({})).await;
        // A boot volume has 100 GB, and these nodes report 40 Gi.
        let asks = |disk: &str| {
            json!({"containers": [{"name": "a", "image": "a",
                "resources": {"requests": {"cpu": "100m", "memory": "5Gi", "ephemeral-storage": disk}}}]})
        };
        world.waiting("a", asks("60Gi")).await;
        world.serve_with_little_disk(Duration::from_hours(1)).await;
        assert_eq!(world.orders(), 1, "where it was one every three minutes");
        let told = world.notes("FailedScheduling").await;
        assert!(
            told.iter().any(|note| note.contains("ephemeral-storage")),
            "{told:?}"
        );
        // A class with a larger volume makes other nodes, so what was learnt does not hold for it.
        world
            .change_class(
                "default",
                &json!({"blockDeviceMappings": [
            {"rootVolume": true, "volumeSpec": {"capacity": 200}}]}),
            )
            .await;
        world.serve_with_little_disk(Duration::from_mins(20)).await;
        assert_eq!(world.orders(), 2, "one of the new volume, which teaches the same");
    })
    .await;
}

/// aws#6890, #7011, #8286, karpenter#1185: the formula for what nodes have and the kubelet's own disagreed. Here the
/// reservation that is planned with is the one that is written into the kubelet's configuration.
#[tokio::test(start_paused = true)]
async fn two_formulas_for_what_a_node_has_disagreed() {
    let world = World::new();
    let pods = json!({"kubelet": {"maxPods": 37, "systemReserved": {"memory": "300Mi"}}});
    world.change_class("default", &pods).await;
    let replica = chart::replica(&world);
    while_working(replica, async {
        world.claim("a").await;
        world.until_launched("a").await;
        joining::until_joined(&world, "a").await;
        let status = world.read("a").await.unwrap().status.unwrap();
        let node = joining::node(&world, "a").await.unwrap().status.unwrap();
        let kept = |capacity: i128, allocatable: i128| capacity - allocatable;
        let planned = |resource: &str| {
            let capacity = status.capacity.as_ref().unwrap()[resource].parse().unwrap();
            let allocatable = status.allocatable.as_ref().unwrap()[resource].parse().unwrap();
            kept(capacity.nanos(), allocatable.nanos())
        };
        let reported = |resource: &str| {
            let read = |it: &k8s_openapi::apimachinery::pkg::api::resource::Quantity| {
                it.0.parse::<karpenter_ibm::quantity::Quantity>().unwrap().nanos()
            };
            let capacity = read(&node.capacity.as_ref().unwrap()[resource]);
            kept(capacity, read(&node.allocatable.as_ref().unwrap()[resource]))
        };
        for resource in ["cpu", "memory"] {
            assert_eq!(planned(resource), reported(resource), "{resource}");
        }
        assert_eq!(node.capacity.unwrap()["pods"].0, "37");
        assert_eq!(status.capacity.unwrap()["pods"].parse().unwrap().units_ceil(), 37);
    })
    .await;
}

/// Azure#649: machines never joined, since the token in their user data had expired before they booted.
#[tokio::test(start_paused = true)]
async fn machines_booted_with_a_token_that_had_expired() {
    let world = World::new();
    let replica = chart::replica(&world);
    let outage = Fault::new(FaultKind::ServerError).on("instances.create");
    world.cloud.faults().start(outage);
    while_working(replica, async {
        world.claim("a").await;
        world.clock.sleep(Duration::from_mins(45)).await;
        world.cloud.faults().clear();
        world.until_launched("a").await;
        let document = world.living().remove(0).user_data.unwrap();
        let left = expires_at(&document).duration_since(world.clock.now());
        assert!(left.as_secs() >= 15 * 60, "as long as joining may take: {left}");
        joining::until_joined(&world, "a").await;
    })
    .await;
}

/// When the token in a machine's document expires.
fn expires_at(document: &str) -> Timestamp {
    let start = document.find("eyJ").unwrap();
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let token: String = document[start..].chars().take_while(|c| legal(*c)).collect();
    let payload = token.split('.').nth(1).unwrap();
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap();
    let payload: Value = serde_json::from_slice(&payload).unwrap();
    Timestamp::from_second(payload["exp"].as_i64().unwrap()).unwrap()
}

/// aws#9175: one request that was throttled failed the claims of a whole batch, 43 of them, and all asked again.
#[tokio::test(start_paused = true)]
async fn one_throttled_request_failed_a_whole_batch() {
    const CLAIMS: usize = 43;
    let world = World::new();
    let throttled = Fault::new(FaultKind::RateLimit).on("instances.create").times(1);
    world
        .cloud
        .faults()
        .start(throttled.retry_after(RetryAfter::Seconds));
    while_working(world.replica(), async {
        for number in 0..CLAIMS {
            world.claim(&format!("claim-{number}")).await;
        }
        for number in 0..CLAIMS {
            world.until_launched(&format!("claim-{number}")).await;
        }
        assert_eq!(world.living().len(), CLAIMS);
        assert_eq!(
            world.orders(),
            CLAIMS + 1,
            "only the one that was refused is sent again"
        );
    })
    .await;
}

/// karpenter#2579: creates were carried out and reads failed during an outage, so that more and more was made until
/// the account's quota was used up.
#[tokio::test(start_paused = true)]
async fn creates_went_on_while_reads_failed() {
    let world = World::new();
    for (kind, operation) in [
        (FaultKind::ServerErrorAfter, "instances.create"),
        (FaultKind::ServerError, "instances.list"),
        (FaultKind::HtmlError, "instances.get"),
    ] {
        world.cloud.faults().start(Fault::new(kind).on(operation));
    }
    while_working(world.replica(), async {
        world.claim("a").await;
        world.clock.sleep(Duration::from_hours(1)).await;
        assert!(world.cloud.instances().len() <= 1);
        world.cloud.faults().clear();
        world.until_launched("a").await;
        assert_eq!(world.cloud.instances().len(), 1);
        world.delete("a").await;
        world.until_gone("a").await;
        assert!(world.cloud.instances().is_empty());
        assert!(world.cloud.orphans().is_empty(), "{:?}", world.cloud.orphans());
    })
    .await;
}

/// Waits until all claims and machines are gone; none of the machines may outlive the claims.
async fn until_given_back(world: &World) {
    world
        .until("given back", Duration::from_mins(10), async || {
            // In this order: whoever is let go meanwhile has no machine any more.
            let (machines, claims) = (world.cloud.instances().len(), world.all_claims().await.len());
            assert!(
                machines <= claims || world.cloud.instances().len() <= claims,
                "{machines} machines and {claims} claims"
            );
            claims == 0 && machines == 0
        })
        .await;
}

/// gcp#242, PR#243: of deletes at the same time some were answered with 403 or 404; a 404 was read as "gone", and claims
/// were let go while machine and node lived on.
#[tokio::test(start_paused = true)]
async fn claims_that_were_deleted_at_the_same_time_were_let_go_while_their_machines_lived() {
    for kind in [FaultKind::Spurious404, FaultKind::Forbidden] {
        let world = World::new();
        while_working(world.replica(), async {
            for name in ["a", "b", "c"] {
                world.ready_node(name).await;
            }
            for operation in ["instances.get", "instances.delete"] {
                world
                    .cloud
                    .faults()
                    .start(Fault::new(kind).on(operation).times(12));
            }
            for name in ["a", "b", "c"] {
                world.delete(name).await;
            }
            until_given_back(&world).await;
            assert!(world.all_nodes().await.is_empty());
        })
        .await;
    }
}

/// aws PR#7684, karpenter PR#1944: a delete was accepted, and the machine was there still, for a while or because it had
/// come to nothing; nobody asked again.
#[tokio::test(start_paused = true)]
async fn a_machine_was_there_still_after_one_delete() {
    for (kind, lasts) in [
        (FaultKind::DeleteStuck, Duration::from_mins(5)),
        (FaultKind::DeleteConflict, Duration::from_mins(1)),
        (FaultKind::ServerError, Duration::from_mins(1)),
        (FaultKind::ReadLag, Duration::from_mins(1)),
    ] {
        let world = World::new();
        while_working(world.replica(), async {
            world.ready_node("a").await;
            world.cloud.faults().start(Fault::new(kind));
            world.delete("a").await;
            world
                .until("the fault is over", lasts + Duration::from_secs(1), {
                    let end = world.clock.instant() + lasts;
                    let world = &world;
                    async move || {
                        let there = world.cloud.instances().len();
                        assert!(there == 0 || world.read("a").await.is_some(), "{kind:?}");
                        world.clock.instant() >= end
                    }
                })
                .await;
            world.cloud.faults().clear();
            until_given_back(&world).await;
        })
        .await;
    }
}

/// Azure#1790, aws#4737: a node registered and never became ready for work, and counted as capacity for ever.
#[tokio::test(start_paused = true)]
async fn a_node_that_never_became_ready_counted_as_capacity_for_ever() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.join("a").await;
        world
            .until("given up", Duration::from_mins(40), async || {
                world.read("a").await.is_none()
            })
            .await;
        let note = world.note("InitializationTimeout").await.unwrap();
        assert!(note.contains("not ready"), "{note}");
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

/// Azure#1790: the driver never came up, so the node had no GPU to offer, and the pod that it was bought for waited for ever.
#[tokio::test(start_paused = true)]
async fn a_node_that_never_reported_its_gpu_kept_a_pod_waiting_for_ever() {
    const GPU: &str = "nvidia.com/gpu";
    let world = World::new();
    let asks = json!({"cpu": "1", "memory": "1Gi", GPU: "1"});
    let has = json!({"cpu": "8", "memory": "60Gi", "pods": "110", "ephemeral-storage": "80Gi"});
    while_working(world.replica(), async {
        world.pool("default", json!({})).await;
        let container =
            json!({"name": "a", "image": "a", "resources": {"requests": asks, "limits": {GPU: "1"}}});
        world.waiting("web", json!({"containers": [container]})).await;
        let name = world.until_claims(1).await[0].name_any();
        world.make_node_with(&name, &has).await;
        let bought = world.orders();
        world
            .until("given up", Duration::from_mins(40), async || {
                let over = world.is_deleting(&name).await;
                assert!(over || world.orders() == bought, "it is waited for");
                over
            })
            .await;
        assert!(!world.is_true(&name, "Initialized").await);
        let note = world.note("InitializationTimeout").await.unwrap();
        assert!(note.contains(GPU), "{note}");
        world.until_gone(&name).await;
        world
            .until("another", Duration::from_mins(1), async || {
                world.all_claims().await.len() == 1
            })
            .await;
        let next = world.all_claims().await[0].name_any();
        assert_ne!(next, name);
        let mut has = has.clone();
        has[GPU] = "1".into();
        world.make_node_with(&next, &has).await;
        world
            .until("ready", Duration::from_mins(1), async || {
                world.is_true(&next, "Ready").await
            })
            .await;
        world.bind("web", &next).await;
        world.clock.sleep(Duration::from_mins(40)).await;
        assert!(!world.is_deleting(&next).await, "the pod is served");
        assert_eq!(world.all_claims().await.len(), 1);
        assert_eq!(world.living().len(), 1);
    })
    .await;
}

/// gcp#176: a machine was accepted and then found no address, and its claim stayed "unknown" for ever.
#[tokio::test(start_paused = true)]
async fn a_claim_stayed_unknown_when_its_machine_found_no_address() {
    let world = World::new();
    let fails = Fault::new(FaultKind::StartFails).reason("cannot_start_ip_address");
    world.cloud.faults().start(fails);
    while_working(world.replica(), async {
        world.claim("a").await;
        world
            .until("ended", Duration::from_mins(10), async || {
                world.read("a").await.is_none()
            })
            .await;
        let reasons = world.reasons().await;
        assert!(reasons.contains(&"NoAddress".to_owned()), "{reasons:?}");
        assert!(
            reasons.contains(&"InsufficientCapacity".to_owned()),
            "{reasons:?}"
        );
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

/// A claim was forced out, its finalizer taken off by hand, and the Node that stayed kept the next claim of that name from
/// joining.
#[tokio::test(start_paused = true)]
async fn a_node_left_behind_kept_its_successor_from_joining() {
    let world = World::new();
    let replica = chart::replica(&world);
    while_working(replica, async {
        world.ready_node("a").await;
        let first = world.living().remove(0);
        world.force_out(&first.id).await;
        world.silence("a").await;
        world.clock.sleep(Duration::from_secs(1)).await;
        world.claim("a").await;
        joining::until_joined(&world, "a").await;
        let [machine] = world.living().try_into().unwrap();
        assert_ne!(machine.id, first.id);
        let node = joining::node(&world, "a").await.unwrap();
        let provider_id = node.spec.unwrap().provider_id.unwrap();
        assert!(provider_id.ends_with(&machine.id));
    })
    .await;
}
