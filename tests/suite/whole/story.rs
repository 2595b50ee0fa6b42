//! A NodePool, a Deployment and its disruption budget: pods wait, claims are made for them, machines join, IBM takes one
//! back and another comes, nodes are drained as the budget allows, and in the end everything goes. kubectl shows all of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use karpenter_ibm::api::NodeClaim;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::Transports;
use karpenter_ibm::operator::{self, ClusterAccess, Edges, PriceSource};
use karpenter_ibm::sim::actors::machines::{self, MachineOptions};
use karpenter_ibm::sim::actors::network::Tcp;
use karpenter_ibm::sim::ibm::{Cloud, Options, Span};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::world::cluster::{API_KEY, NAMESPACE};
use karpenter_ibm::sim::world::product::{self, Alarm, Surroundings};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::place::{self, Place};

const REGION: &str = "us-south";
/// How long each part of the story may take. Most take seconds; a real control plane gives up the pods of a Node that is
/// gone after a minute.
const SOON: Duration = Duration::from_mins(3);
/// How many pods run, each on a node of its own, and how many the budget keeps.
const REPLICAS: usize = 3;
const KEPT: usize = 2;

/// The place, the cloud, and whoever works in them until this is dropped.
struct Stage {
    place: Place,
    cloud: Cloud,
    _actors: JoinSet<()>,
}

impl Stage {
    async fn set(place: Place) -> Self {
        place::install(&place.admin).await;
        let clock = Clock::system();
        let (cloud, options) = hurried(&clock);
        let exchange = Arc::new(cloud.exchange());
        let edges = Edges {
            kube: place.operator().await,
            ibm: Transports {
                cloud: exchange.clone(),
                metadata: exchange,
            },
            clock: clock.clone(),
            entropy: Entropy::from_system(),
            registry: prometheus::Registry::new(),
            stop: CancellationToken::new(),
        };
        let mut actors = JoinSet::new();
        let replica = operator::factory(settings(&place));
        actors.spawn(machines::run(cloud.clone(), Arc::new(Tcp), clock, options));
        actors.spawn(replica(edges));
        Self {
            place,
            cloud,
            _actors: actors,
        }
    }

    /// What people apply.
    async fn apply_all(&self) {
        let account = self.cloud.account();
        let spec = json!({"region": REGION, "vpc": account.vpc, "image": account.image});
        let class = json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "story"}, "spec": spec,
        });
        for object in [class, pool(), budget(), web()] {
            self.place.apply(&object).await;
        }
    }

    async fn claims(&self) -> Vec<NodeClaim> {
        let claims: Api<NodeClaim> = Api::all(self.place.admin.clone());
        claims.list(&ListParams::default()).await.unwrap().items
    }

    /// The nodes that healthy pods of the Deployment run on, as its budget counts them.
    async fn nodes_with_healthy_pods(&self) -> Vec<String> {
        let pods: Api<Pod> = Api::namespaced(self.place.admin.clone(), "default");
        let pods = pods.list(&ListParams::default().labels("app=web")).await.unwrap();
        let is_healthy = |pod: &Pod| {
            let status = pod.status.as_ref();
            let mut conditions = status.into_iter().flat_map(|it| it.conditions.iter().flatten());
            pod.metadata.deletion_timestamp.is_none()
                && conditions.any(|it| it.type_ == "Ready" && it.status == "True")
        };
        let healthy = pods.items.into_iter().filter(is_healthy);
        healthy.filter_map(|pod| pod.spec?.node_name).collect()
    }

    /// Waits until every pod runs, each on a ready node of its own; the names of these nodes.
    async fn until_all_run(&self) -> BTreeSet<String> {
        until("every pod runs", async || {
            self.nodes_with_healthy_pods().await.len() == REPLICAS
        })
        .await;
        let nodes: BTreeSet<String> = self.nodes_with_healthy_pods().await.into_iter().collect();
        assert_eq!(nodes.len(), REPLICAS, "each on a node of its own");
        for name in &nodes {
            let node = self.place.kubectl(&format!("get node {name} --no-headers"));
            assert!(node[0].starts_with(&format!("{name} Ready ")), "{node:?}");
        }
        nodes
    }

    /// The lines that kubectl prints without headings, and those that hold all of these words.
    fn lines_with(&self, arguments: &str, words: &[&str]) -> usize {
        let lines = self.place.kubectl(arguments);
        let holds = |line: &&String| words.iter().all(|word| line.contains(word));
        lines.iter().filter(holds).count()
    }
}

/// Everything that only makes a spectator wait is short here.
fn settings(place: &Place) -> operator::Settings {
    let surroundings = Surroundings {
        region: REGION.to_owned(),
        namespace: NAMESPACE.to_owned(),
        api_key: API_KEY.to_owned(),
        cluster: ClusterAccess {
            endpoint: place.url.clone(),
            authority: place.authority.clone(),
            dns: vec!["10.96.0.10".to_owned()],
        },
        config_file: None,
        prices: PriceSource::BuiltIn,
        alarm: Alarm::none(),
    };
    let mut settings = product::settings(&surroundings, 0).unwrap();
    let controllers = &mut settings.controllers;
    controllers.interruption_poll = Duration::from_secs(1);
    controllers.limits.poll = Duration::from_millis(300);
    controllers.limits.visibility = Duration::from_secs(1);
    // This cloud carries out at once what it carries out at all.
    controllers.limits.late_create = Duration::from_secs(1);
    settings
}

/// A cloud and machines that take no time.
fn hurried(clock: &Clock) -> (Cloud, MachineOptions) {
    let mut options = Options::new(REGION, 1, clock.clone());
    let at_once = Span::seconds(0, 0);
    (options.timings.pending, options.timings.starting) = (at_once, at_once);
    (options.timings.starting_tail, options.timings.deleting) = (at_once, at_once);
    options.timings.interface_deleting = at_once;
    options.timings.preemption_notice = Duration::from_secs(2);
    options.api_keys = vec![API_KEY.to_owned()];
    let mut machines = MachineOptions::new(1, Keys::Fresh);
    (machines.boot, machines.ready_after) = (at_once, at_once);
    (Cloud::new(options), machines)
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "story"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "story"},
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8", "bxf-4x16"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
            ],
        }}},
    })
}

fn web() -> Value {
    let labels = json!({"app": "web"});
    let apart = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
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

/// How a claim was bought.
fn bought(claim: &NodeClaim) -> (String, String, String, String) {
    let allocation = claim.status.clone().unwrap().allocation.unwrap();
    (
        allocation.profile,
        allocation.capacity_type,
        allocation.zone,
        allocation.instance_id.unwrap(),
    )
}

async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let waited = tokio::time::timeout(SOON, waited).await;
    waited.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"));
}

/// Pods wait, claims are made for them, their machines are bought and join, and kubectl shows it.
async fn pods_get_nodes(stage: &Stage) -> BTreeSet<String> {
    stage.apply_all().await;
    let nodes = stage.until_all_run().await;
    let table = stage.place.kubectl("get nodeclaims -o wide");
    assert!(
        table[0].starts_with("NAME TYPE CAPACITY ZONE NODE READY AGE"),
        "{table:?}"
    );
    let claims = stage.claims().await;
    assert_eq!(claims.len(), REPLICAS, "none too many");
    for claim in &claims {
        let name = claim.name_any();
        assert_eq!(claim.labels()["karpenter.sh/nodepool"], "story");
        let (profile, way, zone, id) = bought(claim);
        assert_eq!(way, "spot", "it is cheaper");
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
            (&json!(profile), &json!(id))
        );
    }
    nodes
}

/// IBM takes a machine back: it is told once on claim and node, withheld, and replaced by something else.
async fn one_is_preempted(stage: &Stage, nodes: &BTreeSet<String>) -> BTreeSet<String> {
    let lost = nodes.first().unwrap();
    let claims = stage.claims().await;
    let claim = claims.iter().find(|claim| claim.name_any() == *lost).unwrap();
    let (profile, way, zone, machine) = bought(claim);
    stage.cloud.preempt(&machine).unwrap();
    let told = "get events --all-namespaces --no-headers";
    until("kubectl shows the preemption", async || {
        stage.lines_with(told, &["SpotPreemption", &format!("nodeclaim/{lost}")]) == 1
            && stage.lines_with(told, &["SpotPreemption", &format!("node/{lost}")]) == 1
    })
    .await;
    until("the claim and its machine are gone", async || {
        let claims = stage.claims().await;
        claims.iter().all(|claim| claim.name_any() != *lost) && stage.cloud.instance(&machine).is_none()
    })
    .await;
    let held = "get unavailableofferings --no-headers";
    assert_eq!(stage.lines_with(held, &[&format!("spot.{profile}.{zone}")]), 1);
    let now = stage.until_all_run().await;
    assert!(!now.contains(lost));
    for claim in stage
        .claims()
        .await
        .iter()
        .filter(|claim| !nodes.contains(&claim.name_any()))
    {
        let (new_profile, new_way, new_zone, _) = bought(claim);
        assert_ne!(
            (new_profile, new_way, new_zone),
            (profile.clone(), way.clone(), zone.clone())
        );
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
    let now = stage.until_all_run().await;
    assert!(leaving.iter().all(|name| !now.contains(*name)));
}

/// The workload is removed, then the pool: nothing stays behind.
async fn everything_goes(stage: &Stage) {
    stage.place.kubectl("delete deployment web --namespace default");
    stage
        .place
        .kubectl("delete poddisruptionbudget web --namespace default");
    stage.place.kubectl("delete nodepool story --wait=false");
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
    stage
        .place
        .kubectl("delete ibmnodeclass story --wait=true --timeout=30s");
}

async fn play(place: Place) {
    let stage = Stage::set(place).await;
    let nodes = pods_get_nodes(&stage).await;
    let nodes = one_is_preempted(&stage, &nodes).await;
    two_are_drained(&stage, &nodes).await;
    everything_goes(&stage).await;
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
