//! Two claims become ready Nodes; IBM takes one of the machines back, somebody deletes the other; kubectl shows all of it.

use std::sync::Arc;
use std::time::Duration;

use karpenter_ibm::api::NodeClaim;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::Transports;
use karpenter_ibm::operator::{self, ClusterAccess, Edges};
use karpenter_ibm::sim::actors::machines::{self, MachineOptions};
use karpenter_ibm::sim::actors::network::Tcp;
use karpenter_ibm::sim::ibm::{Cloud, Options, Span};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::world::cluster::{API_KEY, NAMESPACE};
use karpenter_ibm::sim::world::product::{self, Alarm, Surroundings};
use kube::Api;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::place::Place;

const REGION: &str = "us-south";
/// How long each part of the story may take; it takes a few seconds.
const SOON: Duration = Duration::from_mins(1);

/// The place, the cloud, and whoever works in them until this is dropped.
struct Stage {
    place: Place,
    cloud: Cloud,
    _actors: JoinSet<()>,
}

impl Stage {
    async fn set(place: Place) -> Self {
        place.install().await;
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

    /// What people apply: a class, and a claim for each way to buy.
    async fn apply_all(&self) {
        let account = self.cloud.account();
        let spec = json!({"region": REGION, "vpc": account.vpc, "image": account.image});
        let class = json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "story"}, "spec": spec,
        });
        self.place.apply(&class).await;
        for (name, way) in [("taken", "spot"), ("given", "on-demand")] {
            self.place.apply(&claim(name, way)).await;
        }
    }

    async fn is_ready(&self, name: &str) -> bool {
        let claims: Api<NodeClaim> = Api::all(self.place.admin.clone());
        let status = claims.get(name).await.unwrap().status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter().flatten();
        conditions.any(|it| it.type_ == "Ready" && it.status == "True")
    }

    /// The id of a claim's machine.
    async fn machine(&self, name: &str) -> String {
        let claims: Api<NodeClaim> = Api::all(self.place.admin.clone());
        let status = claims.get(name).await.unwrap().status.unwrap();
        status.allocation.unwrap().instance_id.unwrap()
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

fn claim(name: &str, way: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
        "spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "story"},
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-south-2"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [way]},
            ],
        },
    })
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

/// Bought, joined, and shown by kubectl.
async fn both_become_nodes(stage: &Stage) {
    stage.apply_all().await;
    for name in ["taken", "given"] {
        until("the claim is ready", async || stage.is_ready(name).await).await;
    }
    let table = stage.place.kubectl("get nodeclaims -o wide");
    assert!(
        table[0].starts_with("NAME TYPE CAPACITY ZONE NODE READY AGE"),
        "{table:?}"
    );
    let shows = |row: &str| table.iter().any(|line| line.starts_with(row));
    assert!(shows("taken bxf-2x8 spot us-south-2 taken True"), "{table:?}");
    assert!(
        shows("given bxf-2x8 on-demand us-south-2 given True"),
        "{table:?}"
    );
    for name in ["taken", "given"] {
        let node = stage.place.kubectl(&format!("get node {name} --no-headers"));
        assert!(node[0].starts_with(&format!("{name} Ready ")), "{node:?}");
        let allocated = stage.place.kubectl(&format!(
            "get nodeclaim {name} -o jsonpath={{.status.allocation}}"
        ));
        let allocated: Value = serde_json::from_str(&allocated.concat()).unwrap();
        assert_eq!(allocated["profile"], "bxf-2x8");
        assert_eq!(allocated["instanceID"], stage.machine(name).await.as_str());
    }
}

/// Taken back and given back: told, and gone without a trace.
async fn both_go(stage: &Stage) {
    let machine = stage.machine("taken").await;
    stage.cloud.preempt(&machine).unwrap();
    stage.place.kubectl("delete nodeclaim given --wait=false");
    let told = "get events --all-namespaces --no-headers";
    until("kubectl shows the preemption", async || {
        stage.lines_with(told, &["SpotPreemption", "nodeclaim/taken"]) == 1
            && stage.lines_with(told, &["SpotPreemption", "node/taken"]) == 1
    })
    .await;
    until("both are gone", async || {
        let claims = stage.place.kubectl("get nodeclaims --no-headers");
        claims.is_empty() && stage.cloud.instances().is_empty()
    })
    .await;
    assert!(stage.cloud.orphans().is_empty());
    let held = "get unavailableofferings --no-headers";
    assert_eq!(stage.lines_with(held, &["spot.bxf-2x8.us-south-2"]), 1);
    stage
        .place
        .kubectl("delete ibmnodeclass story --wait=true --timeout=30s");
}

async fn play(place: Place) {
    let stage = Stage::set(place).await;
    both_become_nodes(&stage).await;
    both_go(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_become_ready_nodes_and_go_on_the_embedded_cluster() {
    play(Place::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_become_ready_nodes_and_go_on_a_real_control_plane() {
    let Some(place) = Place::real() else {
        return;
    };
    play(place).await;
}
