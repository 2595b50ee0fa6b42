//! The demo's story, in seconds: somebody applies the spot example and a Deployment with a disruption budget. Pods wait,
//! claims are made for them, machines join; IBM takes one back and another comes; nodes are drained as the budget allows;
//! a discount changes, and the choice with it; spot dries up and comes back; in the end everything goes, and what is left
//! is the bill. kubectl shows all of it.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_ibm::api::{NodePool, UnavailableOffering};
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::ibm::Class;
use karpenter_ibm::sim::scenario::Rate;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::place::Place;
use super::stage::{Bought, Stage, until};

const EXAMPLE: &str = "examples/spot-with-on-demand-fallback.yaml";
const EVENTS: &str = "get events --all-namespaces --no-headers";
const HOLDS: &str = "get unavailableofferings --no-headers";
/// How many pods run at first, each on a node of its own, and how many the budget keeps.
const REPLICAS: usize = 3;
const KEPT: usize = 2;
/// What the pods may run on, the cheapest first, and where.
const PROFILES: [&str; 2] = ["cxf-4x8", "bxf-4x16"];
const ZONES: [&str; 2] = ["us-south-1", "us-south-2"];

fn web() -> Value {
    let labels = json!({"app": "web"});
    let apart = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}]);
    let here = json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": PROFILES},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ZONES},
    ]}]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart},
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": here},
                },
                "containers": [{
                    "name": "web", "image": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                }],
                "terminationGracePeriodSeconds": 1,
            },
        }},
    })
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": KEPT, "selector": {"matchLabels": {"app": "web"}}},
    })
}

/// Pods wait, claims are made for them, their machines are bought and join, and kubectl shows it.
async fn pods_get_nodes(stage: &Stage) -> BTreeSet<String> {
    stage.make_class().await;
    let pools: Api<NodePool> = Api::all(stage.place.admin.clone());
    until("NodePools are served", async || {
        pools.list(&ListParams::default()).await.is_ok()
    })
    .await;
    stage.place.kubectl(&format!("apply -f {EXAMPLE}"));
    for object in [budget(), web()] {
        stage.place.apply(&object).await;
    }
    let nodes = stage.until_all_run(REPLICAS).await;
    let table = stage.place.kubectl("get nodeclaims -o wide");
    assert!(
        table[0].starts_with("NAME TYPE CAPACITY ZONE NODE READY AGE"),
        "{table:?}"
    );
    let claims = stage.claims().await;
    assert_eq!(claims.len(), REPLICAS, "none too many");
    for claim in &claims {
        let name = claim.name_any();
        assert_eq!(claim.labels()["karpenter.sh/nodepool"], "spot-first");
        let it = Bought::of(claim);
        assert_eq!(
            (it.profile.as_str(), it.way.as_str()),
            (PROFILES[0], "spot"),
            "the cheapest"
        );
        let Bought {
            profile,
            way,
            zone,
            machine,
        } = it;
        let row = format!("{name} {profile} {way} {zone} {name} True");
        assert!(
            table.iter().any(|line| line.starts_with(&row)),
            "{row}: {table:?}"
        );
        assert!(nodes.contains(&name));
        let allocated = stage.place.kubectl(&format!(
            "get nodeclaim {name} -o jsonpath={{.status.allocation}}"
        ));
        let allocated: Value = serde_json::from_str(&allocated.concat()).unwrap();
        assert_eq!(
            (&allocated["profile"], &allocated["instanceID"]),
            (&json!(profile), &json!(machine))
        );
    }
    nodes
}

/// IBM takes a machine back: it is told once on claim and node, withheld, and replaced by something else.
async fn one_is_preempted(stage: &Stage, nodes: &BTreeSet<String>) -> BTreeSet<String> {
    let lost = nodes.first().unwrap();
    let claims = stage.claims().await;
    let claim = claims.iter().find(|claim| claim.name_any() == *lost).unwrap();
    let taken = Bought::of(claim);
    stage.cloud.preempt(&taken.machine).unwrap();
    until("kubectl shows the preemption", async || {
        stage.lines_with(EVENTS, &["SpotPreemption", &format!("nodeclaim/{lost}")]) == 1
            && stage.lines_with(EVENTS, &["SpotPreemption", &format!("node/{lost}")]) == 1
    })
    .await;
    until("the claim and its machine are gone", async || {
        let claims = stage.claims().await;
        claims.iter().all(|claim| claim.name_any() != *lost) && stage.cloud.instance(&taken.machine).is_none()
    })
    .await;
    assert_eq!(stage.lines_with(HOLDS, &[&taken.offering(), "Preempted"]), 1);
    let now = stage.until_all_run(REPLICAS).await;
    assert!(!now.contains(lost));
    for claim in stage
        .claims()
        .await
        .iter()
        .filter(|claim| !nodes.contains(&claim.name_any()))
    {
        assert_ne!(Bought::of(claim).offering(), taken.offering());
    }
    now
}

/// Two nodes are drained at once, and never are fewer pods healthy than the budget keeps.
async fn two_are_drained(stage: &Stage, nodes: &BTreeSet<String>) {
    let leaving: Vec<&str> = nodes.iter().map(String::as_str).take(2).collect();
    stage
        .place
        .kubectl(&format!("delete nodeclaim {} --wait=false", leaving.join(" ")));
    until("both are drained and gone", async || {
        let healthy = stage.nodes_with_healthy_pods().await;
        assert!(healthy.len() >= KEPT, "the budget keeps {KEPT}: {healthy:?}");
        let claims = stage.claims().await;
        claims
            .iter()
            .all(|claim| !leaving.contains(&claim.name_any().as_str()))
    })
    .await;
    let now = stage.until_all_run(REPLICAS).await;
    assert!(leaving.iter().all(|name| !now.contains(*name)));
}

/// Our contract makes spot of the cheapest family dearer. Nobody restarts anything, and the next machine is of the other.
async fn a_discount_changes(stage: &Stage) {
    stage.configure("spotDiscountFactor: [cxf=0.6]").await;
    let before = stage.scale(REPLICAS + 1).await;
    let it = Bought::of(&stage.grown(&before, REPLICAS + 1).await);
    assert_eq!((it.profile.as_str(), it.way.as_str()), (PROFILES[1], "spot"));
}

/// There is no spot to be had any more: all of it is withheld, and a machine on demand takes over.
async fn spot_dries_up(stage: &Stage) {
    for (profile, zone) in offerings() {
        stage.cloud.drain(profile, zone, Some(Class::Spot)).unwrap();
    }
    let before = stage.scale(REPLICAS + 2).await;
    let held = |reason: &str| {
        let offerings = offerings().map(|(profile, zone)| format!("spot.{profile}.{zone}"));
        let held = offerings.filter(|name| stage.lines_with(HOLDS, &[name, reason]) == 1);
        held.count()
    };
    until("all spot is withheld", async || {
        (held("Preempted"), held("Shortage")) == (1, 3)
    })
    .await;
    let claim = stage.grown(&before, REPLICAS + 2).await;
    assert_eq!(claim.labels()["karpenter.sh/nodepool"], "on-demand-fallback");
    assert_eq!(Bought::of(&claim).way, "on-demand");
}

/// There is spot again: as soon as it is no longer withheld, the next pods go there.
async fn spot_comes_back(stage: &Stage) {
    for (profile, zone) in offerings() {
        stage.cloud.refill(profile, zone, Some(Class::Spot)).unwrap();
    }
    let holds: Api<UnavailableOffering> = Api::all(stage.place.admin.clone());
    until("nothing is withheld for a shortage", async || {
        let now = Clock::system().now();
        let holds = holds.list(&ListParams::default()).await.unwrap();
        let is_over = |it: &UnavailableOffering| it.spec.reason != "Shortage" || it.spec.until.0 < now;
        holds.iter().all(is_over)
    })
    .await;
    let before = stage.scale(REPLICAS + 3).await;
    let claim = stage.grown(&before, REPLICAS + 3).await;
    assert_eq!(claim.labels()["karpenter.sh/nodepool"], "spot-first");
    assert_eq!(Bought::of(&claim).way, "spot");
}

/// The workload is removed, then its pools: nothing stays behind.
async fn everything_goes(stage: &Stage) {
    stage.place.kubectl("delete deployment web --namespace default");
    stage
        .place
        .kubectl("delete poddisruptionbudget web --namespace default");
    stage.place.kubectl(&format!("delete -f {EXAMPLE} --wait=false"));
    until("everything is gone", async || {
        let claims = stage.place.kubectl("get nodeclaims --no-headers");
        // Others have nodes in the same control plane.
        let nodes = stage
            .place
            .kubectl("get nodes --selector karpenter.sh/nodepool --no-headers");
        claims.is_empty() && nodes.is_empty() && stage.cloud.instances().is_empty()
    })
    .await;
    assert!(stage.cloud.orphans().is_empty());
    // What was taken back is withheld for an hour, and the next story may want it.
    stage.place.kubectl("delete unavailableofferings --all");
    stage
        .place
        .kubectl("delete ibmnodeclass default --wait=true --timeout=30s");
}

/// What is left is the bill, at the prices of the cloud: most ran as spot, and that is what was saved.
fn the_bill_is_made(stage: &Stage) {
    let (ledger, until) = stage.ledger();
    let bill = ledger.bill(until);
    eprintln!("{}\n{bill}", ledger.lines(until).join("\n"));
    let rates: Vec<Rate> = ledger.entries().iter().map(|(_, rate)| *rate).collect();
    let ran = |spot: usize, on_demand: usize| {
        rates
            .iter()
            .any(|it| (it.spot as usize, it.on_demand as usize) == (spot, on_demand))
    };
    assert!(ran(REPLICAS, 0), "before spot dried up");
    assert!(ran(REPLICAS + 1, 1), "after it did");
    assert!(ran(REPLICAS + 2, 1), "after it came back");
    assert_eq!(
        rates.last(),
        Some(&Rate::default()),
        "nothing is paid for any more"
    );
    for rate in &rates {
        // Spot costs a quarter, to the rounding of a nano-dollar for each machine.
        let saved = rate.undiscounted_nanos - rate.nanos();
        assert!(
            saved.abs_diff(3 * rate.spot_nanos) <= 4 * u64::from(rate.spot),
            "{rate:?}"
        );
    }
    assert!(bill.on_demand > Duration::ZERO && bill.spot > 3 * bill.on_demand);
    assert!((50..75).contains(&bill.saved_percent()), "{bill}");
}

/// All that the pods may run on.
fn offerings() -> impl Iterator<Item = (&'static str, &'static str)> {
    PROFILES
        .into_iter()
        .flat_map(|profile| ZONES.map(|zone| (profile, zone)))
}

async fn play(place: Place) {
    let stage = Stage::set(place).await;
    let nodes = pods_get_nodes(&stage).await;
    let nodes = one_is_preempted(&stage, &nodes).await;
    two_are_drained(&stage, &nodes).await;
    a_discount_changes(&stage).await;
    spot_dries_up(&stage).await;
    spot_comes_back(&stage).await;
    everything_goes(&stage).await;
    the_bill_is_made(&stage);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_gets_nodes_loses_some_and_all_go_in_the_end_on_the_embedded_cluster() {
    play(Place::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_gets_nodes_loses_some_and_all_go_in_the_end_on_a_real_control_plane() {
    let Some(place) = Place::real().await else {
        return;
    };
    play(place).await;
}
