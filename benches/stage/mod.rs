//! What benchmarks of the operator have in common: a cluster, an account, and a replica between them, in one process.

use std::sync::Arc;

use anyhow::{Context, Result};
use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::Transports;
use karpenter_ibm::ibm::secret::Secret;
use karpenter_ibm::operator::{Edges, PriceSource, RawSettings, Settings};
use karpenter_ibm::sim::ibm::Cloud;
use karpenter_ibm::sim::kube::identity::{Keys, User};
use karpenter_ibm::sim::kube::{ApiServer, Options, write};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "karpenter-ibm";

/// A cluster with our definitions, and a class for everything that the account sells.
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
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "spec": {"region": "us-south", "vpc": account.vpc, "image": account.image},
        }),
    ];
    for object in objects {
        write::insert(&kube, object);
    }
    Ok(kube)
}

/// A replica whose machines are told nothing: none of them boots.
pub(crate) fn settings() -> Result<Settings> {
    let mut settings = Settings::validate(&RawSettings {
        api_key: Some(Secret::new("demo-api-key".to_owned())),
        region: Some("us-south".to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        pod: Some("one".to_owned()),
        ..RawSettings::default()
    })?;
    settings.prices = PriceSource::BuiltIn;
    settings.controllers.user_data = Some("#cloud-config\nhostname: NODE_NAME\n".to_owned());
    Ok(settings)
}

/// Where that replica works.
pub(crate) fn edges(kube: &ApiServer, cloud: &Cloud, clock: &Clock) -> Edges {
    let exchange = Arc::new(cloud.exchange());
    Edges {
        kube: kube.retrying_client_as(User::admin()),
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

/// The most memory that this process ever had.
pub(crate) fn peak_memory_mb() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line
        .and_then(|line| line.split_whitespace().next())
        .context("no VmHWM")?;
    Ok(kib.parse::<u64>()? / 1000)
}
