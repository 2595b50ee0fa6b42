//! Ways in which it becomes known that a machine goes, and what is bought in its place.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use karpenter_ibm::controllers::Notices;
use karpenter_ibm::controllers::context::Batch;
use karpenter_ibm::ibm::http::{Exchange, ExchangeError};
use karpenter_ibm::ibm::secret::Secret;
use karpenter_ibm::operator::{self, push};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::preemption::{pod_on_spot, run_on};
use super::unheard::Unheard;
use super::{World, audited, while_working};

const SECRET: &str = "correct horse battery staple";

#[tokio::test(start_paused = true)]
async fn a_word_pushed_to_the_leader_taints_the_node_and_claims_a_replacement_within_15_seconds() {
    assert!(World::settings("one").push.is_none(), "it is off by default");
    let (world, notices) = (World::new(), Notices::default());
    let router = push::router(
        Secret::new(SECRET.to_owned()),
        notices.clone(),
        world.clock.clone(),
    );
    let elsewhere = Notices::default();
    let standby = push::router(
        Secret::new(SECRET.to_owned()),
        elsewhere.clone(),
        world.clock.clone(),
    );
    let replica = |identity: &str, notices: Notices| {
        let heard = move |mut context: operator::Context| {
            context.notices = notices.clone();
            context
        };
        audited::factory_of(World::settings(identity), |edges| edges, heard)(world.edges())
    };
    let (one, two) = (replica("one", notices), replica("two", elsewhere));
    let replicas = async {
        tokio::join!(biased; one, two);
    };
    while_working(replicas, async {
        let name = pod_on_spot(&world).await;
        let machine = world.machine_of(&name).await;
        world.cloud.preempt(&machine).unwrap();
        let body = json!({
            "id": "1", "time": world.clock.now().to_string(), "specversion": "1.0",
            "data": {"logs": [{"messageID": "instance.00002", "target": format!("crn:v1:::instance:{machine}")}]},
        });
        assert_eq!(push_to(&standby, &body).await, 503);
        assert_eq!(push_to(&router, &body).await, 202);
        world
            .until("tainted and replaced", Duration::from_secs(15), async || {
                world.is_tainted(&name).await && world.all_claims().await.len() == 2
            })
            .await;
    })
    .await;
}

async fn push_to(router: &Router, body: &Value) -> u16 {
    let call = Request::post(push::PATH)
        .header(push::SECRET_HEADER, SECRET)
        .body(Body::from(body.to_string()))
        .unwrap();
    router.clone().oneshot(call).await.unwrap().status().as_u16()
}

#[tokio::test(start_paused = true)]
async fn an_interruption_closes_the_batch_window_at_once() {
    let world = World::new();
    let mut settings = World::settings("one");
    let long = Duration::from_secs(30);
    settings.controllers.batch = Batch {
        idle: long,
        max: long,
    };
    while_working(audited::factory(settings)(world.edges()), async {
        let name = pod_on_spot(&world).await;
        world.preempt(&name).await;
        world.shut_down(&name).await;
        world
            .until("replaced", Duration::from_secs(15), async || {
                world.all_claims().await.len() == 2
            })
            .await;
    })
    .await;
}

/// The offering that a claim was bought as, as it would be withheld.
async fn bought_as(world: &World, name: &str) -> String {
    let allocation = world
        .read(name)
        .await
        .unwrap()
        .status
        .unwrap()
        .allocation
        .unwrap();
    format!(
        "{}.{}.{}",
        allocation.capacity_type, allocation.profile, allocation.zone
    )
}

async fn withheld(world: &World) -> BTreeSet<String> {
    world
        .withheld("Preempted")
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// The claim that is not on its way out, and is not this one.
async fn successor(world: &World, of: &str) -> String {
    let staying = async || {
        let claims = world.all_claims().await;
        let mut staying = claims
            .into_iter()
            .filter(|it| it.metadata.deletion_timestamp.is_none() && it.name_any() != of);
        staying.next().map(|claim| claim.name_any())
    };
    world
        .until("replaced", Duration::from_mins(2), async || {
            staying().await.is_some()
        })
        .await;
    staying().await.unwrap()
}

async fn until_bought(world: &World, name: &str) {
    let is_bought = async || {
        let status = world.read(name).await.unwrap().status;
        status.and_then(|it| it.allocation?.instance_id).is_some()
    };
    world.until("bought", Duration::from_mins(2), is_bought).await;
}

/// A preemption was told on that claim, once, and not as a shortage.
async fn told_once_of(world: &World, claim: &str) {
    let about = format!("NodeClaim {claim}");
    let told = world.told("SpotPreemption").await;
    let told: Vec<_> = told.into_iter().filter(|it| it.0 == about).collect();
    let [(_, kind, note)] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(kind, "Warning");
    assert!(note.starts_with("Spot instance preempted by IBM Cloud"), "{note}");
    assert!(world.told("InsufficientCapacity").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_preempted_while_it_launches_goes_only_when_that_is_told_and_by_what_it_is() {
    let (world, unheard) = (World::new(), Unheard::default());
    let replica = audited::factory(World::settings("one"))(unheard.around(world.edges()));
    while_working(replica, async {
        world.claim("a").await;
        until_bought(&world, "a").await;
        assert!(!world.is_true("a", "Launched").await);
        let machine = world.machine_of("a").await;
        let name = world.cloud.instance(&machine).unwrap().name;
        // What was written down is not what it is.
        let elsewhere = json!({"status": {"allocation": {"zone": "us-south-3"}}});
        let params = PatchParams::default();
        let claims = world.claims();
        claims
            .patch_status("a", &params, &Patch::Merge(elsewhere))
            .await
            .unwrap();
        unheard.begin();
        world.cloud.preempt(&machine).unwrap();
        world.clock.sleep(Duration::from_mins(3)).await;
        assert_eq!(
            world.cloud.instance(&machine).unwrap().name,
            name,
            "it is the proof, and nobody was told yet"
        );
        unheard.end();
        world
            .until("another runs", Duration::from_mins(15), async || {
                world.is_true("a", "Launched").await && world.machine_of("a").await != machine
            })
            .await;
        told_once_of(&world, "a").await;
        assert_eq!(
            withheld(&world).await,
            BTreeSet::from(["spot.bxf-2x8.us-south-1".to_owned()])
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_is_preempted_too_is_replaced_and_never_by_what_is_withheld() {
    let world = World::new();
    while_working(world.replica(), async {
        let first = pod_on_spot(&world).await;
        let mut lost = BTreeSet::from([bought_as(&world, &first).await]);
        world.preempt(&first).await;
        // The replacement, before it was seen to run.
        let second = successor(&world, &first).await;
        until_bought(&world, &second).await;
        let while_launching = bought_as(&world, &second).await;
        assert!(!lost.contains(&while_launching), "{while_launching}");
        let machine = world.machine_of(&second).await;
        assert!(!world.is_true(&second, "Launched").await);
        world.cloud.preempt(&machine).unwrap();
        world
            .until("another runs", Duration::from_mins(15), async || {
                let name = successor(&world, &first).await;
                world.is_true(&name, "Launched").await && world.machine_of(&name).await != machine
            })
            .await;
        lost.insert(while_launching.clone());
        assert!(withheld(&world).await.is_superset(&lost));
        told_once_of(&world, &second).await;
        // The one after that, when it runs.
        let third = successor(&world, &first).await;
        let when_running = bought_as(&world, &third).await;
        assert!(!withheld(&world).await.contains(&when_running), "{when_running}");
        lost.insert(when_running.clone());
        assert_ne!(when_running, while_launching);
        run_on(&world, &third).await;
        world.preempt(&third).await;
        world.until_gone(&third).await;
        let last = successor(&world, &third).await;
        world.until_launched(&last).await;
        let bought = bought_as(&world, &last).await;
        assert!(withheld(&world).await.is_superset(&lost));
        assert!(!withheld(&world).await.contains(&bought), "{bought}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn type_and_zone_are_read_from_the_instance_whatever_labels_say() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        let labels = json!({"metadata": {"labels": {
            "node.kubernetes.io/instance-type": "mxf-4x32", "topology.kubernetes.io/zone": "us-south-3",
        }}});
        let params = PatchParams::default();
        world
            .claims()
            .patch("a", &params, &Patch::Merge(labels.clone()))
            .await
            .unwrap();
        world
            .nodes()
            .patch("a", &params, &Patch::Merge(labels))
            .await
            .unwrap();
        world.preempt("a").await;
        world.until_gone("a").await;
        assert_eq!(
            withheld(&world).await,
            BTreeSet::from(["spot.bxf-2x8.us-south-1".to_owned()])
        );
    })
    .await;
}

/// A cloud whose machines have failed, once they have.
struct Failing {
    inner: Arc<dyn Exchange>,
    failed: Arc<AtomicBool>,
}

#[async_trait]
impl Exchange for Failing {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let answer = self.inner.exchange(request).await?;
        if !self.failed.load(Ordering::Relaxed) {
            return Ok(answer);
        }
        Ok(answer.map(|body| {
            let text = String::from_utf8_lossy(&body).into_owned();
            text.replace("\"status\":\"running\"", "\"status\":\"failed\"")
                .into()
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_fails_after_it_ran_is_given_up_and_called_failed() {
    for ways in [["spot"], ["on-demand"]] {
        let (world, failed) = (World::new(), Arc::new(AtomicBool::new(false)));
        let mut edges = world.edges();
        edges.ibm.cloud = Arc::new(Failing {
            inner: edges.ibm.cloud,
            failed: failed.clone(),
        });
        while_working(audited::factory(World::settings("one"))(edges), async {
            world.ready_node_of("a", &ways).await;
            failed.store(true, Ordering::Relaxed);
            world.until_gone("a").await;
            let told = world.told("MachineFailed").await;
            assert_eq!(told.len(), 1, "{ways:?}");
            assert!(world.told("MachineStopped").await.is_empty(), "{ways:?}");
            assert!(world.cloud.instances().is_empty(), "{ways:?}");
        })
        .await;
    }
}
