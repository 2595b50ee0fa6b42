//! The kubelet of a machine: its configuration, the credential it asks for its own with, and its unit.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::document::{Access, Document};
use super::{FOLDER, Join, RenderError, labels, legal};
use crate::api::{CapacityType, Taint, names};
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources};

const CONFIGURATION: &str = "/etc/kubernetes/kubelet.yaml";
const BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap-kubeconfig";
const AUTHORITY: &str = "/etc/kubernetes/pki/ca.crt";
const FACTS: &str = "/etc/karpenter-ibm/facts.env";

/// IBM Cloud gives a spot machine thirty seconds.
const SPOT_GRACE: &str = "30s";
/// The last of them are for pods that others rely on while they stop.
const SPOT_GRACE_CRITICAL: &str = "10s";

/// What a kubelet watches besides memory and its own disk. Whoever sets one threshold sets all, so they are repeated.
const OTHER_THRESHOLDS: [(&str, &str); 2] = [("imagefs.available", "15%"), ("nodefs.inodesFree", "5%")];

/// There if neither image nor packages bring one; drop-ins of packages come before ours.
const UNIT: &str = "[Unit]
Description=Kubernetes node agent
Wants=network-online.target
After=network-online.target containerd.service

[Service]
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
";

/// Adds what the kubelet needs, and starts it.
pub(super) fn add(join: &Join, document: &mut Document) -> Result<(), RenderError> {
    document.file(AUTHORITY, Access::Public, &join.authority);
    document.json(BOOTSTRAP_KUBECONFIG, Access::Secret, &kubeconfig(join)?)?;
    document.json(CONFIGURATION, Access::Public, &Configuration::of(join))?;
    document.file("/etc/systemd/system/kubelet.service", Access::Public, UNIT);
    document.file(
        "/etc/systemd/system/kubelet.service.d/99-karpenter-ibm.conf",
        Access::Public,
        &drop_in(join)?,
    );
    let facts = format!("{FOLDER}/facts");
    document.file(&facts, Access::Program, include_str!("scripts/facts.sh"));
    document.run(&["sh", &facts]);
    document.run(&["systemctl", "daemon-reload"]);
    document.run(&["systemctl", "enable", "--now", "containerd"]);
    document.run(&["systemctl", "enable", "kubelet"]);
    // Packages may have started one that knew nothing yet.
    document.run(&["systemctl", "restart", "kubelet"]);
    Ok(())
}

/// The command line. A unit knows `%` and `$`, quotes and blanks; none of them is in what is put here.
fn drop_in(join: &Join) -> Result<String, RenderError> {
    let in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    legal("the name of a node", &join.node_name, in_name)?;
    legal("a region", &join.region, in_name)?;
    let labels = labels::flag(&join.labels)?;
    let (name, region) = (&join.node_name, &join.region);
    let mut command = format!(
        "kubelet --config={CONFIGURATION} --bootstrap-kubeconfig={BOOTSTRAP_KUBECONFIG} \
         --kubeconfig=/var/lib/kubelet/kubeconfig --hostname-override={name} \
         --provider-id=ibm:///{region}/${{INSTANCE_ID}} --resolv-conf=${{RESOLV_CONF}}"
    );
    if !labels.is_empty() {
        command.push_str(" --node-labels=");
        command.push_str(&labels);
    }
    Ok(format!(
        "[Service]\nEnvironmentFile={FACTS}\nExecStart=\nExecStart={command}\n"
    ))
}

fn kubeconfig(join: &Join) -> Result<serde_json::Value, RenderError> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let host = join.endpoint.strip_prefix("https://").unwrap_or_default();
    legal("the address of an API server", host, is_legal).map_err(|_| RenderError::Illegal {
        what: "the address of an API server",
        value: join.endpoint.clone(),
    })?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": {"server": join.endpoint, "certificate-authority": AUTHORITY}}],
        "users": [{"name": "bootstrap", "user": {"token": join.token.expose()}}],
        "contexts": [{"name": "bootstrap", "context": {"cluster": "cluster", "user": "bootstrap"}}],
        "current-context": "bootstrap",
    }))
}

/// The kubelet's configuration file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    api_version: &'static str,
    kind: &'static str,
    authentication: serde_json::Value,
    authorization: serde_json::Value,
    cgroup_driver: &'static str,
    #[serde(rename = "clusterDNS")]
    cluster_dns: Vec<String>,
    cluster_domain: &'static str,
    container_runtime_endpoint: &'static str,
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    cpu_cfs_quota: Option<bool>,
    eviction_hard: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eviction_soft: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eviction_soft_grace_period: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eviction_max_pod_grace_period: Option<i64>,
    #[serde(
        rename = "imageGCHighThresholdPercent",
        skip_serializing_if = "Option::is_none"
    )]
    image_gc_high_threshold_percent: Option<i64>,
    #[serde(
        rename = "imageGCLowThresholdPercent",
        skip_serializing_if = "Option::is_none"
    )]
    image_gc_low_threshold_percent: Option<i64>,
    kube_reserved: BTreeMap<String, String>,
    system_reserved: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_pods: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods_per_core: Option<i64>,
    register_with_taints: Vec<Taint>,
    rotate_certificates: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    shutdown_grace_period: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shutdown_grace_period_critical_pods: Option<&'static str>,
}

impl Configuration {
    fn of(join: &Join) -> Self {
        let kubelet = join.kubelet.clone();
        let is_spot = join.capacity_type == CapacityType::Spot;
        Self {
            api_version: "kubelet.config.k8s.io/v1beta1",
            kind: "KubeletConfiguration",
            authentication: json!({
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": AUTHORITY},
            }),
            authorization: json!({"mode": "Webhook"}),
            cgroup_driver: "systemd",
            cluster_dns: kubelet.cluster_dns.unwrap_or_else(|| join.dns.clone()),
            cluster_domain: "cluster.local",
            container_runtime_endpoint: "unix:///run/containerd/containerd.sock",
            cpu_cfs_quota: kubelet.cpu_cfs_quota,
            eviction_hard: thresholds(&join.reservation.eviction, kubelet.eviction_hard),
            eviction_soft: kubelet.eviction_soft,
            eviction_soft_grace_period: kubelet.eviction_soft_grace_period,
            eviction_max_pod_grace_period: kubelet.eviction_max_pod_grace_period,
            image_gc_high_threshold_percent: kubelet.image_gc_high_threshold_percent,
            image_gc_low_threshold_percent: kubelet.image_gc_low_threshold_percent,
            kube_reserved: amounts(&join.reservation.kube),
            system_reserved: amounts(&join.reservation.system),
            max_pods: kubelet.max_pods,
            pods_per_core: kubelet.pods_per_core,
            register_with_taints: taints(&join.taints),
            rotate_certificates: true,
            shutdown_grace_period: is_spot.then_some(SPOT_GRACE),
            shutdown_grace_period_critical_pods: is_spot.then_some(SPOT_GRACE_CRITICAL),
        }
    }
}

/// The amounts that the reservation counts with are written as amounts, so that what the node reports is what was
/// reckoned with; what else the class asks for is added as it is.
fn thresholds(eviction: &Resources, written: Option<BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let others = || {
        let others = OTHER_THRESHOLDS.map(|(signal, share)| (signal.to_owned(), share.to_owned()));
        BTreeMap::from(others)
    };
    let mut thresholds = written.unwrap_or_else(others);
    for (resource, signal) in [
        (MEMORY, "memory.available"),
        (EPHEMERAL_STORAGE, "nodefs.available"),
    ] {
        let amount = eviction.get(resource);
        if amount > 0 {
            thresholds.insert(signal.to_owned(), amount.to_string());
        }
    }
    thresholds
}

fn amounts(resources: &Resources) -> BTreeMap<String, String> {
    let written = |(name, amount): (&String, &i64)| {
        let unit = if name == CPU { "m" } else { "" };
        (name.clone(), format!("{amount}{unit}"))
    };
    resources.iter().map(written).collect()
}

/// The taints of the Node, and the one that keeps pods away until it is registered.
fn taints(of_claim: &[Taint]) -> Vec<Taint> {
    let unregistered = Taint {
        key: names::UNREGISTERED_TAINT.to_owned(),
        value: None,
        effect: "NoExecute".to_owned(),
        time_added: None,
    };
    let mut taints: Vec<Taint> = of_claim
        .iter()
        .filter(|taint| taint.key != unregistered.key)
        .map(|taint| Taint {
            time_added: None,
            ..taint.clone()
        })
        .collect();
    taints.push(unregistered);
    taints
}
