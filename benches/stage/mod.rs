//! What benchmarks of the operator have in common: a cluster, an account, and a replica between them, in one process.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::audit;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::Transports;
use karpenter_ibm::ibm::secret::Secret;
use karpenter_ibm::model::Snapshot;
use karpenter_ibm::operator::{self, ClusterAccess, Edges, Factory, PriceSource, RawSettings, Settings};
use karpenter_ibm::scheduling::{MinValuesPolicy, Plan};
use karpenter_ibm::sim::ibm::Cloud;
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{ApiServer, Options, write};
use karpenter_ibm::sim::world::chart;
use karpenter_ibm::sim::world::cluster::{ACCOUNT, Cluster, JOINER, NAMESPACE, URL};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A cluster with our definitions and the chart's accounts and rights, and a class for everything that the account sells.
pub(crate) fn cluster(clock: &Clock, cloud: &Cloud) -> Result<ApiServer> {
    let kube = ApiServer::new(Options {
        clock: clock.clone(),
        seed: 1,
        keys: Keys::Fixed,
    });
    for definition in definitions()? {
        write::insert(&kube, definition.object);
    }
    let account = cloud.account();
    let of_release = |name: &str| {
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    };
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        of_release(ACCOUNT),
        of_release(JOINER),
        json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "spec": {"region": "us-south", "vpc": account.vpc, "image": account.image},
        }),
    ];
    for object in objects {
        write::insert(&kube, object);
    }
    chart::install(&kube)?;
    Ok(kube)
}

/// A replica whose machines are told where this cluster is; none of them boots.
pub(crate) fn settings(kube: &ApiServer) -> Result<Settings> {
    let mut settings = Settings::validate(&RawSettings {
        api_key: Some(Secret::new("demo-api-key".to_owned())),
        region: Some("us-south".to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        pod: Some("one".to_owned()),
        ..RawSettings::default()
    })?;
    settings.prices = PriceSource::BuiltIn;
    settings.controllers.cluster = Some(ClusterAccess {
        endpoint: URL.to_owned(),
        authority: kube.identity().root_certificate(),
        dns: Vec::new(),
    });
    Ok(settings)
}

/// Where that replica works: with the rights that the chart gives it, and no others.
pub(crate) fn edges(kube: &ApiServer, cloud: &Cloud, clock: &Clock) -> Edges {
    let exchange = Arc::new(cloud.exchange());
    Edges {
        kube: kube.retrying_client_as(Cluster::operator()),
        ibm: Transports {
            cloud: exchange.clone(),
            metadata: exchange,
        },
        clock: clock.clone(),
        entropy: Entropy::seeded(1),
        registry: prometheus::Registry::new(),
        stop: CancellationToken::new(),
    }
}

/// The plans that a replica makes, and under which policy. They are looked at when nothing is measured any more.
#[derive(Clone, Default)]
pub(crate) struct Plans(Arc<Mutex<Vec<(MinValuesPolicy, Snapshot, Plan)>>>);

impl Plans {
    /// A replica whose plans are kept.
    pub(crate) fn factory(&self, settings: Settings) -> Factory {
        let plans = self.clone();
        operator::factory_of(
            settings,
            |edges| edges,
            move |mut context| {
                let (plans, policy) = (plans.clone(), context.settings.planning.min_values);
                context.compute = context.compute.then(move |snapshot, plan| {
                    if let Ok(mut kept) = plans.0.lock() {
                        kept.push((policy, snapshot.clone(), plan.clone()));
                    }
                    plan
                });
                context
            },
        )
    }

    /// Audits every plan; how many there were.
    pub(crate) fn look_again(&self) -> Result<usize> {
        let plans = self.0.lock().map_err(|_| anyhow::anyhow!("a plan was lost"))?;
        for (policy, snapshot, plan) in plans.iter() {
            let findings = audit::plan_under(*policy, snapshot, plan);
            ensure!(findings.is_empty(), "a plan is not legal: {findings:?}");
        }
        Ok(plans.len())
    }
}

/// The most memory that this process ever had.
pub(crate) fn peak_memory_mb() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line
        .and_then(|line| line.split_whitespace().next())
        .context("no VmHWM")?;
    Ok(kib.parse::<u64>()? / 1000)
}
