//! What concerns nobody costs nothing, and what waits for long costs no more after a restart.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_ibm::api::names;
use karpenter_ibm::cluster::Cluster;
use karpenter_ibm::controllers::compute::{Compute, Place};
use karpenter_ibm::operator;
use karpenter_ibm::scheduling;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::effects::Effects;
use super::super::{World, audited, while_working};

/// A replica that can be looked into: how often it has planned, what it has written, what it knows.
#[derive(Clone)]
struct Glass {
    plans: Arc<AtomicUsize>,
    effects: Effects,
    cluster: Arc<Mutex<Option<Cluster>>>,
}

impl Glass {
    fn replica(world: &World, identity: &str) -> (Self, BoxFuture<'static, ()>) {
        let glass = Self {
            plans: Arc::default(),
            effects: Effects::without_end(),
            cluster: Arc::default(),
        };
        let (edges, inside) = (glass.effects.around(world.edges()), glass.clone());
        let look = move |context: operator::Context| {
            let plans = inside.plans.clone();
            *inside.cluster.lock().unwrap() = Some(context.cluster.clone());
            let counted = Arc::new(move |snapshot: &_, options, budget: scheduling::Budget<'_>| {
                plans.fetch_add(1, Ordering::Relaxed);
                scheduling::solve(snapshot, options, budget)
            });
            operator::Context {
                compute: Compute::with(Place::Here, counted),
                ..context
            }
        };
        let replica = audited::factory_of(World::settings(identity), |edges| edges, look)(edges);
        (glass, replica)
    }

    /// What must not grow: plans, writes, pods and classes of them that are remembered, and nodes.
    fn counts(&self) -> (usize, usize, (usize, usize, usize), usize) {
        let known = self.cluster.lock().unwrap().clone().unwrap();
        let (pods, nodes) = known.with(|index| (index.pods.size(), index.nodes.len()));
        let plans = self.plans.load(Ordering::Relaxed);
        (plans, self.effects.count(), pods, nodes)
    }
}

fn at(revision: u64, mut object: Value) -> Value {
    object["metadata"]["resourceVersion"] = revision.to_string().into();
    object
}

/// A replica has come to rest, beside a node `a` with a pod `shop` on it: what then goes on leads to nothing.
async fn leads_to_nothing(world: &World, glass: &Glass, noise: impl AsyncFnOnce()) {
    world.pool("default", json!({})).await;
    world.ready_node("a").await;
    world.pod("shop", "a", |_| ()).await;
    world.clock.sleep(Duration::from_mins(3)).await;
    let before = glass.counts();
    noise().await;
    world.clock.sleep(Duration::from_secs(30)).await;
    assert_eq!(glass.counts(), before);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_irrelevant_events_cause_no_plan_no_write_and_no_growth() {
    const ROUNDS: u64 = 25_000;
    let world = World::new();
    let (glass, replica) = Glass::replica(&world, "one");
    let noise = async || {
        let cluster = glass.cluster.lock().unwrap().clone().unwrap();
        let woken = cluster.subscribe();
        let node = serde_json::to_value(world.nodes().get("a").await.unwrap()).unwrap();
        let pod = serde_json::to_value(world.pods().get("shop").await.unwrap()).unwrap();
        for round in 0..ROUNDS {
            let revision = 1_000_000 + 4 * round;
            let mut beat = at(revision, node.clone());
            beat["status"]["conditions"][0]["lastHeartbeatTime"] =
                format!("2026-11-16T12:00:{:02}Z", round % 60).into();
            let mut noise = at(revision + 1, pod.clone());
            noise["status"]["message"] = round.to_string().into();
            let mut job = at(revision + 2, pod.clone());
            job["metadata"]["name"] = format!("job-{round}").into();
            job["metadata"]["uid"] = format!("job-{round}").into();
            job["status"]["phase"] = "Succeeded".into();
            let (beat, noise, job): (Node, Pod, Pod) = (typed(beat), typed(noise), typed(job));
            cluster.with(|index| index.apply(&beat));
            for pod in [&noise, &job] {
                cluster.with(|index| index.apply_pod(pod));
            }
            cluster.with(|index| index.remove_pod(&job));
        }
        assert!(!woken.has_changed().unwrap(), "nobody is woken");
    };
    while_working(replica, Box::pin(leads_to_nothing(&world, &glass, noise))).await;
}

/// The same as a replica hears it: written to the API server, and told by its watches. A hundred thousand such writes reach
/// the released binary in `hack/memory`.
#[tokio::test(start_paused = true)]
async fn two_thousand_irrelevant_writes_cause_no_plan_and_no_write_and_the_next_pod_is_planned_for() {
    const ROUNDS: u64 = 1000;
    let world = World::new();
    let (glass, replica) = Glass::replica(&world, "one");
    let noise = async || {
        let params = PatchParams::default();
        for round in 0..ROUNDS {
            let mut node = serde_json::to_value(world.nodes().get("a").await.unwrap()).unwrap();
            node["status"]["conditions"][0]["lastHeartbeatTime"] =
                format!("2026-11-16T12:{:02}:{:02}Z", round / 60 % 60, round % 60).into();
            let beat = Patch::Merge(json!({"status": {"conditions": node["status"]["conditions"]}}));
            world.nodes().patch_status("a", &params, &beat).await.unwrap();
            let noise = Patch::Merge(json!({"status": {"message": round.to_string()}}));
            world.pods().patch_status("shop", &params, &noise).await.unwrap();
        }
    };
    while_working(
        replica,
        Box::pin(async {
            leads_to_nothing(&world, &glass, noise).await;
            let (before, ..) = glass.counts();
            world.waiting("late", json!({})).await;
            world
                .until("planned for", Duration::from_secs(10), async || {
                    glass.counts().0 > before
                })
                .await;
        }),
    )
    .await;
}

fn typed<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

/// METR/hawk PR 1370: what a process held in memory grew with what waited for it, and each restart read all of it again,
/// until no start succeeded any more.
#[tokio::test(start_paused = true)]
async fn a_backlog_is_one_class_of_pods_and_one_plan_in_every_life() {
    const PODS: usize = 400;
    let world = World::new();
    // No pool takes them: they wait, life after life.
    for number in 0..PODS {
        world.waiting(&format!("web-{number}"), json!({})).await;
    }
    let mut lives = Vec::new();
    for life in 0..3 {
        let (glass, replica) = Glass::replica(&world, &format!("life-{life}"));
        while_working(replica, world.clock.sleep(Duration::from_secs(50))).await;
        let (plans, _, pods, _) = glass.counts();
        assert_eq!(pods, (PODS, 1, PODS), "one specification for all of them");
        lives.push(plans);
    }
    assert!(
        lives[0] > 0 && lives[1..].iter().all(|plans| *plans <= lives[0]),
        "{lives:?}"
    );
    assert_eq!(
        world.notes("FailedScheduling").await.len(),
        PODS,
        "each is told once"
    );
    world.pool("default", json!({})).await;
    let (_, replica) = Glass::replica(&world, "last");
    while_working(
        replica,
        Box::pin(async {
            let nominated = async || {
                let claims = world.all_claims().await;
                let pods = claims.iter().map(|claim| {
                    let named = &claim.annotations()[names::NOMINATED_PODS];
                    named.split(',').count()
                });
                pods.sum::<usize>()
            };
            world
                .until("served", Duration::from_mins(1), async || {
                    nominated().await == PODS
                })
                .await;
        }),
    )
    .await;
}

/// The same, as it happened: two replicas, a backlog of jobs that no two of are alike, and both killed in the midst of
/// reading it, again and again. How much memory 20,000 pods take is measured by `hack/memory`.
#[tokio::test(start_paused = true)]
async fn a_backlog_is_served_however_often_both_replicas_are_killed_while_they_read_it() {
    const PODS: usize = 300;
    let world = World::new();
    for number in 0..PODS {
        let requests = json!({"cpu": format!("{}m", 100 + number), "memory": "256Mi"});
        let job = json!({"containers": [{"name": "a", "image": "a", "resources": {"requests": requests}}]});
        world.waiting(&format!("job-{number}"), job).await;
    }
    world.pool("default", json!({})).await;
    for life in 0..58 {
        let replica = |name: &str| Glass::replica(&world, &format!("{name}-{life}")).1;
        let both = futures::future::join(replica("one"), replica("two"));
        let killed = world.clock.sleep(Duration::from_millis(100 * (life % 20)));
        while_working(futures::FutureExt::map(both, |_| ()), killed).await;
    }
    let (glass, replica) = Glass::replica(&world, "last");
    while_working(
        replica,
        Box::pin(async {
            let served = async || {
                let claims = world.all_claims().await;
                let named = claims
                    .iter()
                    .filter_map(|claim| claim.annotations().get(names::NOMINATED_PODS));
                let pods: BTreeSet<String> = named
                    .flat_map(|pods| pods.split(','))
                    .map(str::to_owned)
                    .collect();
                pods.len() == PODS
            };
            world
                .until("everybody is served", Duration::from_mins(2), served)
                .await;
        }),
    )
    .await;
    let (_, _, pods, _) = glass.counts();
    assert_eq!(pods, (PODS, PODS, PODS), "each of them is remembered once");
}
