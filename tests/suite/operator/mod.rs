//! The operator between an embedded cluster and a simulated IBM Cloud, in one process, on a paused clock.

mod admission;
mod allocation;
mod allowed;
pub(crate) mod audited;
mod bad_input;
mod capacity;
mod chart;
mod classes;
mod clocks;
mod collecting;
mod contradictions;
mod crashes;
mod crowds;
mod definitions;
mod draining;
mod drift;
mod effects;
mod endings;
mod examples;
mod families;
mod groups;
mod halves;
mod harm;
mod incidents;
mod joining;
mod leaks;
mod life;
mod limits;
mod load;
mod losses;
mod mutants;
mod outages;
mod patience;
mod permissions;
mod pools;
mod preemption;
mod provisioning;
mod recreated;
mod refusals;
mod replicas;
mod shortage;
mod signals;
mod spoofing;
mod taken_back;
mod twins;
mod unheard;
mod withdrawals;
mod words;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use karpenter_ibm::api::NodeClaim;
use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::cloud;
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::Transports;
use karpenter_ibm::ibm::endpoints::Overrides;
use karpenter_ibm::ibm::secret::Secret;
use karpenter_ibm::operator::{self, ClusterAccess, Edges, PriceSource, RawSettings, Settings};
use karpenter_ibm::sim::ibm::{self, Cloud, InstanceTruth};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{ApiServer, Options, write};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "karpenter-ibm";
/// What machines that nobody boots know the cluster by. Those that are booted are told the real one.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

/// A cluster and a cloud, and the clock of both.
#[derive(Clone)]
struct World {
    kube: ApiServer,
    cloud: Cloud,
    clock: Clock,
}

impl World {
    /// With our definitions, the release namespace with the chart's accounts and roles, and a class for everything.
    fn new() -> Self {
        Self::with(|_| ())
    }

    /// The same in an account that is different.
    fn with(change: impl FnOnce(&mut ibm::Options)) -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let mut options = ibm::Options::new("us-south", 7, clock.clone());
        change(&mut options);
        Self::around(Cloud::new(options), clock, 1)
    }

    /// Another cluster in the same account.
    fn twin(&self) -> Self {
        Self::around(self.cloud.clone(), self.clock.clone(), 2)
    }

    fn around(cloud: Cloud, clock: Clock, seed: u64) -> Self {
        let kube = ApiServer::new(Options {
            clock: clock.clone(),
            seed,
            keys: Keys::Fixed,
        });
        for definition in definitions().unwrap() {
            write::insert(&kube, definition.object);
        }
        write::insert(
            &kube,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        );
        let world = Self { kube, cloud, clock };
        chart::install(&world);
        write::insert(&world.kube, world.class());
        world
    }

    fn class(&self) -> serde_json::Value {
        let account = self.cloud.account();
        json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "spec": {"region": "us-south", "vpc": account.vpc, "image": account.image},
        })
    }

    fn settings(identity: &str) -> Settings {
        let raw = RawSettings {
            api_key: Some(Secret::new("demo-api-key".to_owned())),
            region: Some("us-south".to_owned()),
            endpoints: Overrides {
                all: Some("http://127.0.0.1:9".to_owned()),
                ..Overrides::default()
            },
            namespace: Some(NAMESPACE.to_owned()),
            pod: Some(identity.to_owned()),
            ..RawSettings::default()
        };
        let mut settings = Settings::validate(&raw).unwrap();
        settings.prices = PriceSource::BuiltIn;
        settings.controllers.cluster = Some(ClusterAccess {
            endpoint: "https://cluster.example:6443".to_owned(),
            authority: AUTHORITY.to_owned(),
            dns: Vec::new(),
        });
        settings
    }

    /// Where a replica works: with the rights that the chart gives it, and no others.
    fn edges(&self) -> Edges {
        let exchange = Arc::new(self.cloud.exchange());
        Edges {
            kube: self.kube.retrying_client_as(chart::user()),
            ibm: Transports {
                cloud: exchange.clone(),
                metadata: exchange,
            },
            clock: self.clock.clone(),
            entropy: Entropy::seeded(1),
            registry: prometheus::Registry::new(),
            stop: CancellationToken::new(),
        }
    }

    /// A replica that goes on until it is dropped.
    fn replica(&self) -> BoxFuture<'static, ()> {
        self.replica_named("one")
    }

    fn replica_named(&self, identity: &str) -> BoxFuture<'static, ()> {
        audited::factory(Self::settings(identity))(self.edges())
    }

    /// The cloud as controllers see it.
    fn seen(&self) -> Arc<dyn cloud::Cloud> {
        let context = operator::context(&Self::settings("spectator"), self.edges());
        context.unwrap().cloud
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.kube.admin())
    }

    async fn claim(&self, name: &str) -> NodeClaim {
        self.claim_in(name, "us-south-1").await
    }

    async fn claim_in(&self, name: &str, zone: &str) -> NodeClaim {
        self.claim_of(name, zone, &["spot", "on-demand"]).await
    }

    /// A claim in a zone, bought in the first of these ways.
    async fn claim_of(&self, name: &str, zone: &str, ways: &[&str]) -> NodeClaim {
        let claim = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8"]},
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ways},
                ],
            },
        }));
        let claim = claim.unwrap();
        self.claims()
            .create(&PostParams::default(), &claim)
            .await
            .unwrap()
    }

    async fn all_nodes(&self) -> Vec<Node> {
        let nodes: Api<Node> = Api::all(self.kube.admin());
        nodes.list(&ListParams::default()).await.unwrap().items
    }

    async fn read(&self, name: &str) -> Option<NodeClaim> {
        self.claims().get_opt(name).await.unwrap()
    }

    async fn delete(&self, name: &str) {
        self.claims()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// How many machines were asked for so far.
    fn orders(&self) -> usize {
        let requests = self.cloud.requests();
        let orders = requests
            .iter()
            .filter(|seen| seen.method == http::Method::POST && seen.path == "/v1/instances");
        orders.count()
    }

    /// Every instance that is not on its way out.
    fn living(&self) -> Vec<InstanceTruth> {
        let instances = self.cloud.instances();
        instances
            .into_iter()
            .filter(|instance| instance.status != "deleting")
            .collect()
    }

    /// Waits, a second at a time, until `done`.
    async fn until(&self, what: &str, within: Duration, mut done: impl AsyncFnMut() -> bool) {
        let end = self.clock.instant() + within;
        while !done().await {
            assert!(self.clock.instant() < end, "not within {within:?}: {what}");
            self.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    async fn is_true(&self, name: &str, condition: &str) -> bool {
        let claim = self.read(name).await;
        let conditions = claim
            .and_then(|claim| claim.status?.conditions)
            .unwrap_or_default();
        conditions
            .iter()
            .any(|it| it.type_ == condition && it.status == "True")
    }

    async fn until_launched(&self, name: &str) {
        self.until("launched", Duration::from_mins(6), async || {
            self.is_true(name, "Launched").await
        })
        .await;
    }

    /// Until the Node of a machine that has joined is taken for its own.
    async fn until_registered(&self, name: &str) {
        self.until("registered", Duration::from_mins(1), async || {
            self.is_true(name, "Registered").await
        })
        .await;
    }

    async fn until_gone(&self, name: &str) {
        self.until("gone", Duration::from_mins(6), async || {
            self.read(name).await.is_none()
        })
        .await;
    }
}

/// What a metric says, of all that bear that label. One that nothing was counted by is not shown.
fn metric(registry: &prometheus::Registry, name: &str, label: &str) -> i64 {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == name);
    let metrics = family.map(|family| family.get_metric().to_vec());
    let metrics = metrics.unwrap_or_default();
    let bears = |it: &&prometheus::proto::Metric| {
        let mut labels = it.get_label().iter();
        label.is_empty() || labels.any(|it| it.value() == label)
    };
    let values = metrics
        .iter()
        .filter(bears)
        .map(|it| it.get_counter().get_value() + it.get_gauge().get_value());
    #[expect(clippy::cast_possible_truncation, reason = "they count a few things")]
    let sum = values.sum::<f64>().round() as i64;
    sum
}

/// Plays `story` while `replica` works. On the heap: stories are long.
fn while_working<'a, T>(
    replica: impl Future<Output = ()> + 'a,
    story: impl Future<Output = T> + 'a,
) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(async {
        tokio::select! {
            biased;
            told = story => told,
            () = replica => panic!("the replica ended"),
        }
    })
}
