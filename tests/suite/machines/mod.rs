//! Machines that boot from their user data and join a cluster: in this process under a clock that is moved, and over
//! TCP with the embedded cluster and with a real one.

#![cfg(feature = "sim")]

mod certificate;
mod life;
mod release;
mod story;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_ibm::api::CapacityType;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::controllers::approver;
use karpenter_ibm::ibm::http::Exchange;
use karpenter_ibm::sim::actors::kubelet::machine::Consoles;
use karpenter_ibm::sim::actors::machines::{self, MachineOptions};
use karpenter_ibm::sim::actors::network::{InProcess, Network};
use karpenter_ibm::sim::ibm::{Cloud, Options, Span};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{self as api_server, ApiServer};
use karpenter_ibm::sim::world::cluster::Cluster;
use kube::api::{Api, PostParams};
use release::Release;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const REGION: &str = "us-south";
const URL: &str = "https://cluster.example:6443";

/// A cloud, a cluster, and the machines between them.
pub(super) struct World {
    pub(super) cloud: Cloud,
    pub(super) client: kube::Client,
    pub(super) clock: Clock,
    pub(super) consoles: Consoles,
    release: Release,
    _actors: JoinSet<()>,
}

/// Where a cluster is, whom it trusts, and who is known there.
pub(super) struct Reached {
    pub(super) admin: kube::Client,
    /// The operator's own.
    pub(super) operator: Option<kube::Client>,
    pub(super) url: String,
    pub(super) authority: String,
    pub(super) network: Arc<dyn Network>,
}

fn epoch() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().unwrap()
}

/// An embedded cluster under a clock that stands still unless it is moved.
fn embedded(seed: u64) -> (ApiServer, Clock) {
    let clock = Clock::simulated(epoch());
    let server = ApiServer::new(api_server::Options {
        clock: clock.clone(),
        seed,
        keys: Keys::Fixed,
    });
    (server, clock)
}

/// A world in this process.
async fn world(seed: u64) -> (World, ApiServer) {
    let (server, clock) = embedded(seed);
    let options = Options::new(REGION, seed, clock.clone());
    let machines = MachineOptions::new(seed, Keys::Fixed);
    (World::new(within(&server), options, machines).await, server)
}

/// How a cluster in this process is reached.
fn within(server: &ApiServer) -> Reached {
    Reached {
        admin: server.admin(),
        operator: Some(server.retrying_client_as(Cluster::operator())),
        url: URL.to_owned(),
        authority: server.identity().root_certificate(),
        network: Arc::new(InProcess::new(server.clone(), URL)),
    }
}

impl World {
    async fn new(reached: Reached, options: Options, machines: MachineOptions) -> Self {
        let clock = options.clock.clone();
        let cloud = Cloud::new(options);
        let release = Release::install(&reached, &cloud, &clock).await;
        let mut actors = JoinSet::new();
        actors.spawn(approver::run(release.context.clone()));
        let consoles = machines.consoles.clone();
        let network = reached.network;
        actors.spawn(machines::run(cloud.clone(), network, clock.clone(), machines));
        Self {
            cloud,
            client: reached.admin,
            clock,
            consoles,
            release,
            _actors: actors,
        }
    }

    /// The document of a node, and a claim that waits for it.
    async fn user_data(&self, node: &str) -> String {
        self.release.user_data(node, CapacityType::Spot).await
    }

    /// Creates the spot instance of a node through the cloud's API; its id.
    async fn create_node(&self, node: &str) -> String {
        self.create(node, &self.user_data(node).await).await
    }

    /// Creates a spot instance through the cloud's API; its id. A claim of that name is told.
    async fn create(&self, name: &str, user_data: &str) -> String {
        let account = self.cloud.account();
        let prototype = json!({
            "name": name,
            "profile": {"name": "bxf-2x8"},
            "image": {"id": account.image},
            "zone": {"name": "us-south-1"},
            "vpc": {"id": account.vpc},
            "user_data": user_data,
            "metadata_service": {"enabled": true},
            "availability": {"class": "spot"},
            "availability_policy": {"preemption": "stop", "host_failure": "restart"},
            "primary_network_attachment": {
                "name": "eth0",
                "virtual_network_interface": {"subnet": {"id": account.subnets[0]}, "auto_delete": true},
            },
        });
        let said = self.call("POST", "/v1/instances", &prototype).await;
        let id = said["id"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
        if self.release.awaits(name).await {
            self.release.launched(name, &id).await;
        }
        id
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let exchange = self.cloud.exchange();
        let form = "grant_type=urn:ibm:params:oauth:grant-type:apikey&apikey=demo-api-key";
        let login = Request::post("https://iam.cloud.ibm.com/identity/token")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Bytes::from(form))
            .unwrap();
        let answer = exchange.exchange(login).await.unwrap();
        let token: Value = serde_json::from_slice(answer.body()).unwrap();
        let uri = format!("https://us-south.iaas.cloud.ibm.com{path}?version=2026-10-06&generation=2");
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(
                "authorization",
                format!("Bearer {}", token["access_token"].as_str().unwrap()),
            )
            .header("content-type", "application/json")
            .body(Bytes::from(body.to_string()))
            .unwrap();
        let answer = exchange.exchange(request).await.unwrap();
        serde_json::from_slice(answer.body()).unwrap_or_default()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Status and message of the condition `Ready` of a node.
    async fn ready(&self, node: &str) -> Option<(String, String)> {
        let status = self.nodes().get_opt(node).await.unwrap()?.status?;
        let ready = status
            .conditions?
            .into_iter()
            .find(|condition| condition.type_ == "Ready")?;
        Some((ready.status, ready.message.unwrap_or_default()))
    }

    async fn renewed(&self, node: &str) -> Option<Timestamp> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let lease = leases.get_opt(node).await.unwrap()?;
        lease.spec?.renew_time.map(|time| time.0)
    }

    /// A pod that is bound already, as a DaemonSet's once were.
    async fn bind_pod(&self, name: &str, node: &str, more: Value) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": {}},
            "spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}],
                     "containers": [{"name": "main", "image": "app"}]},
        });
        pod["metadata"]["annotations"] = more;
        let pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    async fn phase(&self, pod: &str) -> Option<(String, String)> {
        let status = self.pods().get_opt(pod).await.unwrap()?.status?;
        Some((status.phase?, status.reason.unwrap_or_default()))
    }

    /// Waits, by the world's own clock, until something holds.
    async fn until(&self, what: &str, limit: Duration, mut holds: impl AsyncFnMut() -> bool) {
        let step = Duration::from_millis(250);
        for _ in 0..limit.as_millis() / step.as_millis() {
            if holds().await {
                return;
            }
            self.clock.sleep(step).await;
        }
        let said: Vec<String> = self
            .cloud
            .instances()
            .iter()
            .flat_map(|instance| self.consoles.read(&instance.id))
            .map(|line| format!("{} {}", line.at, line.text))
            .collect();
        panic!("not within {limit:?}: {what}\n{}", said.join("\n"));
    }

    async fn until_ready(&self, node: &str) {
        self.until("the node is ready", Duration::from_mins(5), async || {
            self.ready(node).await.is_some_and(|(status, _)| status == "True")
        })
        .await;
    }
}

/// Machines and a cloud in a hurry, for real time.
fn hurried() -> (Options, MachineOptions) {
    let mut options = Options::new(REGION, 1, Clock::system());
    let at_once = Span::seconds(0, 0);
    (options.timings.pending, options.timings.starting) = (at_once, at_once);
    (options.timings.starting_tail, options.timings.stopping) = (at_once, at_once);
    options.timings.preemption_notice = Duration::from_secs(5);
    let mut machines = MachineOptions::new(1, Keys::Fresh);
    (machines.boot, machines.ready_after) = (at_once, at_once);
    (options, machines)
}
