//! What the story is played on: the operator at work, a cloud and machines that take no time, and a hand for kubectl.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
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
use karpenter_ibm::sim::scenario::{Configuration, Ledger, Scene};
use karpenter_ibm::sim::world::cluster::{API_KEY, NAMESPACE};
use karpenter_ibm::sim::world::product::{self, Alarm, Surroundings};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::place::{self, Place};
use crate::operator::audited;

const REGION: &str = "us-south";
/// How long each part of the story may take. Most take seconds; a real control plane gives up the pods of a Node that is
/// gone after a minute.
const SOON: Duration = Duration::from_mins(3);
/// How often the operator looks at its configuration file, and the ledger at the cloud.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The place, the cloud, and whoever works in them until this is dropped.
pub(super) struct Stage {
    pub(super) place: Place,
    pub(super) cloud: Cloud,
    configuration: Configuration,
    /// What was paid for, and since when it is kept.
    ledger: Arc<Mutex<Ledger>>,
    began: Instant,
    _actors: JoinSet<()>,
}

/// How a claim was bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bought {
    pub(super) profile: String,
    pub(super) way: String,
    pub(super) zone: String,
    pub(super) machine: String,
}

impl Bought {
    pub(super) fn of(claim: &NodeClaim) -> Self {
        let allocation = claim.status.clone().unwrap().allocation.unwrap();
        Self {
            profile: allocation.profile,
            way: allocation.capacity_type,
            zone: allocation.zone,
            machine: allocation.instance_id.unwrap(),
        }
    }

    /// What is withheld when it is not to be had.
    pub(super) fn offering(&self) -> String {
        format!("{}.{}.{}", self.way, self.profile, self.zone)
    }
}

impl Stage {
    pub(super) async fn set(place: Place) -> Self {
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
        let configuration = Configuration::new().unwrap();
        let (ledger, began) = (Arc::default(), Instant::now());
        let mut actors = JoinSet::new();
        // A plan that is not legal ends the replica, and so the story.
        let replica = audited::factory(settings(&place, &configuration));
        actors.spawn(machines::run(cloud.clone(), Arc::new(Tcp), clock, options));
        actors.spawn(replica(edges));
        actors.spawn(keep(Arc::clone(&ledger), cloud.clone(), began));
        Self {
            place,
            cloud,
            configuration,
            ledger,
            began,
            _actors: actors,
        }
    }

    /// Makes the class that the examples name.
    pub(super) async fn make_class(&self) {
        let account = self.cloud.account();
        let spec = json!({"region": REGION, "vpc": account.vpc, "image": account.image});
        let class = json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "spec": spec,
        });
        self.place.apply(&class).await;
    }

    pub(super) async fn claims(&self) -> Vec<NodeClaim> {
        let claims: Api<NodeClaim> = Api::all(self.place.admin.clone());
        claims.list(&ListParams::default()).await.unwrap().items
    }

    /// The nodes that healthy pods of the Deployment run on, as its budget counts them.
    pub(super) async fn nodes_with_healthy_pods(&self) -> Vec<String> {
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

    /// Waits until so many pods run, each on a ready node of its own; the names of these nodes.
    pub(super) async fn until_all_run(&self, replicas: usize) -> BTreeSet<String> {
        until("every pod runs", async || {
            self.nodes_with_healthy_pods().await.len() == replicas
        })
        .await;
        let nodes: BTreeSet<String> = self.nodes_with_healthy_pods().await.into_iter().collect();
        assert_eq!(nodes.len(), replicas, "each on a node of its own");
        for name in &nodes {
            let node = self.place.kubectl(&format!("get node {name} --no-headers"));
            assert!(node[0].starts_with(&format!("{name} Ready ")), "{node:?}");
        }
        nodes
    }

    /// Scales the Deployment to one pod more than it has; the nodes of those that it has.
    pub(super) async fn scale(&self, replicas: usize) -> BTreeSet<String> {
        let before = self.until_all_run(replicas - 1).await;
        self.place.kubectl(&format!(
            "scale deployment web --namespace default --replicas {replicas}"
        ));
        before
    }

    /// The claim whose node the pod that was added runs on, once all run and no claim is left that came to nothing.
    pub(super) async fn grown(&self, before: &BTreeSet<String>, replicas: usize) -> NodeClaim {
        let now = self.until_all_run(replicas).await;
        assert!(now.is_superset(before), "nobody had to move: {before:?} {now:?}");
        until("no claim too many", async || {
            self.claims().await.len() == replicas
        })
        .await;
        let mut claims = self.claims().await.into_iter();
        claims.find(|claim| !before.contains(&claim.name_any())).unwrap()
    }

    /// Puts `text` in place of what the operator was configured with, and gives it the time to notice.
    pub(super) async fn configure(&self, text: &str) {
        self.configuration.write(text).unwrap();
        tokio::time::sleep(20 * LOOK_EVERY).await;
    }

    /// What was paid for since the start, and for how long.
    pub(super) fn ledger(&self) -> (Ledger, Duration) {
        (self.ledger.lock().unwrap().clone(), self.began.elapsed())
    }

    /// The lines that kubectl prints without headings, and those that hold all of these words.
    pub(super) fn lines_with(&self, arguments: &str, words: &[&str]) -> usize {
        let lines = self.place.kubectl(arguments);
        let holds = |line: &&String| words.iter().all(|word| line.contains(word));
        lines.iter().filter(holds).count()
    }
}

/// Everything that only makes a spectator wait is short here.
fn settings(place: &Place, configuration: &Configuration) -> operator::Settings {
    let surroundings = Surroundings {
        region: REGION.to_owned(),
        namespace: NAMESPACE.to_owned(),
        api_key: API_KEY.to_owned(),
        api_key_file: None,
        cluster: ClusterAccess {
            endpoint: place.url.clone(),
            authority: place.authority.clone(),
            dns: vec!["10.96.0.10".to_owned()],
        },
        config_file: Some(configuration.path().to_owned()),
        prices: PriceSource::BuiltIn,
        machines_max: None,
        alarm: Alarm::none(),
    };
    let mut settings = product::settings(&surroundings, 0).unwrap();
    settings.discounts.look_every = LOOK_EVERY;
    let controllers = &mut settings.controllers;
    controllers.interruption_poll = Duration::from_secs(1);
    controllers.limits.poll = Duration::from_millis(300);
    controllers.limits.visibility = Duration::from_secs(1);
    // This cloud carries out at once what it carries out at all.
    controllers.limits.late_create = Duration::from_secs(1);
    controllers.limits.between_attempts = Duration::from_secs(1);
    // Longer than a claim takes to find out that there is no spot at all: three attempts of about two seconds.
    controllers.holds.shortage = Duration::from_secs(15);
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

/// Keeps the ledger by the cloud's own truth, as the demo does.
async fn keep(ledger: Arc<Mutex<Ledger>>, cloud: Cloud, began: Instant) {
    loop {
        let machines = cloud.instances().into_iter();
        let machines: BTreeMap<_, _> = machines.map(|it| (it.id.clone(), it)).collect();
        let scene = Scene {
            machines,
            ..Scene::default()
        };
        ledger.lock().unwrap().note(began.elapsed(), &scene);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

pub(super) async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let waited = tokio::time::timeout(SOON, waited).await;
    waited.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"));
}
