//! What a kubelet knows: its command line and its configuration file, and nothing else.
//!
//! Flags win over the file, as they do in a real kubelet. A duration of zero is what Kubernetes takes for unset.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;

use super::disk::Disk;
use super::flags::{pairs, parse};
use crate::api::parse_duration;
use crate::quantity::WrittenQuantity;

/// Everything that decides what a kubelet does.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The name of the Node.
    pub node_name: String,
    /// What it asks for its own credential with.
    pub bootstrap_kubeconfig: String,
    /// Where it keeps the configuration with that credential.
    pub kubeconfig: String,
    /// Where it keeps keys and certificates.
    pub cert_dir: String,
    /// Labels that the Node begins with.
    pub labels: BTreeMap<String, String>,
    /// Taints that the Node begins with.
    pub taints: Vec<Taint>,
    /// The machine as the cloud knows it.
    pub provider_id: Option<String>,
    /// How many pods fit at most.
    pub pods_max: u32,
    /// What is kept from pods.
    pub reserved: Reserved,
    /// How long pods get in all when the machine is switched off; zero if nobody waits for them.
    pub shutdown_grace: Duration,
    /// How much of that is left to critical pods.
    pub shutdown_grace_critical: Duration,
    /// Whether it asks for a new certificate before the old one ends.
    pub rotates_certificates: bool,
    /// How long its Lease holds; it is renewed four times in that time.
    pub lease: Duration,
    /// How often it reports its status when nothing changes.
    pub report_every: Duration,
}

/// What is kept from pods, by resource; an eviction threshold may be a percentage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// For Kubernetes' own processes.
    pub kube: BTreeMap<String, String>,
    /// For those of the system.
    pub system: BTreeMap<String, String>,
    /// What must stay free, by signal.
    pub eviction: BTreeMap<String, String>,
}

/// Why a kubelet exits before it does anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("unknown command {0:?}")]
    UnknownCommand(String),
    #[error("failed to parse kubelet flag: unknown flag: --{0}")]
    UnknownFlag(String),
    #[error("failed to parse kubelet flag: --{0}: {1:?}")]
    Flag(&'static str, String),
    #[error("failed to load kubelet config file, path: {path}: {problem}")]
    Config { path: String, problem: String },
    #[error("invalid configuration: {0}")]
    Invalid(String),
    #[error("neither --kubeconfig nor --bootstrap-kubeconfig is set: a kubelet alone joins nothing")]
    Standalone,
}

/// The fields of a KubeletConfiguration that matter here; others are passed over.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    api_version: String,
    kind: String,
    max_pods: Option<u32>,
    pods_per_core: Option<u32>,
    kube_reserved: Option<BTreeMap<String, WrittenQuantity>>,
    system_reserved: Option<BTreeMap<String, WrittenQuantity>>,
    eviction_hard: Option<BTreeMap<String, String>>,
    shutdown_grace_period: Option<String>,
    shutdown_grace_period_critical_pods: Option<String>,
    register_with_taints: Option<Vec<Taint>>,
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    rotate_certificates: Option<bool>,
    node_lease_duration_seconds: Option<u64>,
    node_status_report_frequency: Option<String>,
}

impl Settings {
    /// What a kubelet on a machine of that name and size learns from its arguments and the files they name.
    pub fn read(arguments: &[String], disk: &Disk, hostname: &str, vcpu: u32) -> Result<Self, SettingsError> {
        let flags = parse(arguments)?;
        let flag = |name: &str| flags.get(name).filter(|value| !value.is_empty());
        let file = match flag("config") {
            Some(path) => Configuration::read(path, disk)?,
            None => Configuration::default(),
        };
        let path = |name: &str, default: &str| flag(name).cloned().unwrap_or_else(|| default.to_owned());
        if flag("kubeconfig").is_none() && flag("bootstrap-kubeconfig").is_none() {
            return Err(SettingsError::Standalone);
        }
        let name = flag("hostname-override").map_or(hostname, String::as_str);
        let settings = Self {
            node_name: name.trim().to_lowercase(),
            bootstrap_kubeconfig: path("bootstrap-kubeconfig", ""),
            kubeconfig: path("kubeconfig", "/var/lib/kubelet/kubeconfig"),
            cert_dir: path("cert-dir", "/var/lib/kubelet/pki"),
            labels: pairs("node-labels", flag("node-labels").map_or("", String::as_str))?,
            taints: taints(
                flag("register-with-taints"),
                &file,
                flag("cloud-provider").is_some_and(|name| name == "external"),
            )?,
            provider_id: flag("provider-id").cloned().or_else(|| file.provider_id.clone()),
            pods_max: pods_max(flag("max-pods"), flag("pods-per-core"), &file, vcpu)?,
            reserved: Reserved {
                kube: reserved(
                    "kube-reserved",
                    flag("kube-reserved"),
                    file.kube_reserved.as_ref(),
                )?,
                system: reserved(
                    "system-reserved",
                    flag("system-reserved"),
                    file.system_reserved.as_ref(),
                )?,
                eviction: eviction(flag("eviction-hard"), &file)?,
            },
            shutdown_grace: duration(file.shutdown_grace_period.as_deref(), Duration::ZERO)?,
            shutdown_grace_critical: duration(
                file.shutdown_grace_period_critical_pods.as_deref(),
                Duration::ZERO,
            )?,
            rotates_certificates: flag("rotate-certificates")
                .map_or(file.rotate_certificates.unwrap_or(false), |value| value == "true"),
            lease: Duration::from_secs(
                file.node_lease_duration_seconds
                    .filter(|seconds| *seconds > 0)
                    .unwrap_or(40),
            ),
            report_every: duration(
                file.node_status_report_frequency.as_deref(),
                Duration::from_mins(5),
            )?,
        };
        settings.checked()
    }

    fn checked(self) -> Result<Self, SettingsError> {
        let invalid = |problem: &str| Err(SettingsError::Invalid(problem.to_owned()));
        if self.shutdown_grace_critical > self.shutdown_grace {
            return invalid("shutdownGracePeriodCriticalPods must be <= shutdownGracePeriod");
        }
        if self.node_name.is_empty() {
            return invalid("the node has no name");
        }
        Ok(self)
    }
}

impl Configuration {
    fn read(path: &str, disk: &Disk) -> Result<Self, SettingsError> {
        let failed = |problem: String| SettingsError::Config {
            path: path.to_owned(),
            problem,
        };
        let text = disk
            .text(path)
            .ok_or_else(|| failed("no such file or directory".to_owned()))?;
        let read: Self = serde_saphyr::from_str(&text).map_err(|error| failed(error.to_string()))?;
        if (read.api_version.as_str(), read.kind.as_str())
            != ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration")
        {
            let problem = format!(
                "no kind {:?} is registered for version {:?}",
                read.kind, read.api_version
            );
            return Err(failed(problem));
        }
        Ok(read)
    }
}

fn duration(text: Option<&str>, default: Duration) -> Result<Duration, SettingsError> {
    let Some(text) = text.filter(|text| !text.is_empty() && *text != "0") else {
        return Ok(default);
    };
    let read =
        parse_duration(text).ok_or_else(|| SettingsError::Invalid(format!("{text:?} is no duration")))?;
    Ok(if read.is_zero() { default } else { read })
}

fn pods_max(
    max_pods: Option<&String>,
    per_core: Option<&String>,
    file: &Configuration,
    vcpu: u32,
) -> Result<u32, SettingsError> {
    let number = |flag: &'static str, text: &String| {
        text.parse::<u32>()
            .map_err(|_| SettingsError::Flag(flag, text.clone()))
    };
    let max_pods = max_pods.map(|text| number("max-pods", text)).transpose()?;
    let per_core = per_core.map(|text| number("pods-per-core", text)).transpose()?;
    let max_pods = max_pods.or(file.max_pods).unwrap_or(110);
    let per_core = per_core.or(file.pods_per_core).filter(|per_core| *per_core > 0);
    Ok(per_core.map_or(max_pods, |per_core| max_pods.min(per_core.saturating_mul(vcpu))))
}

fn reserved(
    flag: &'static str,
    text: Option<&String>,
    file: Option<&BTreeMap<String, WrittenQuantity>>,
) -> Result<BTreeMap<String, String>, SettingsError> {
    if let Some(text) = text {
        return pairs(flag, text);
    }
    let mut amounts = BTreeMap::new();
    for (resource, amount) in file.into_iter().flatten() {
        let amount = amount
            .parse()
            .map_err(|error| SettingsError::Invalid(format!("{flag}: {resource}: {error}")))?;
        amounts.insert(resource.clone(), amount.to_string());
    }
    Ok(amounts)
}

/// Whoever sets one threshold sets all: the defaults hold only where none is set.
fn eviction(text: Option<&String>, file: &Configuration) -> Result<BTreeMap<String, String>, SettingsError> {
    if let Some(text) = text {
        return pairs("eviction-hard", text);
    }
    let defaults = || {
        let defaults = [
            ("memory.available", "100Mi"),
            ("nodefs.available", "10%"),
            ("imagefs.available", "15%"),
        ];
        defaults
            .map(|(signal, amount)| (signal.to_owned(), amount.to_owned()))
            .into()
    };
    Ok(file.eviction_hard.clone().unwrap_or_else(defaults))
}

fn taints(flag: Option<&String>, file: &Configuration, external: bool) -> Result<Vec<Taint>, SettingsError> {
    let mut taints = match flag {
        Some(text) => text
            .split(',')
            .filter(|taint| !taint.is_empty())
            .map(taint)
            .collect::<Result<_, _>>()?,
        None => file.register_with_taints.clone().unwrap_or_default(),
    };
    if external {
        taints.push(taint(
            "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
        )?);
    }
    Ok(taints)
}

/// `key=value:Effect` or `key:Effect`
fn taint(text: &str) -> Result<Taint, SettingsError> {
    let malformed = || SettingsError::Flag("register-with-taints", text.to_owned());
    let (pair, effect) = text.rsplit_once(':').ok_or_else(malformed)?;
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        return Err(malformed());
    }
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    Ok(Taint {
        key: key.to_owned(),
        value: Some(value.to_owned()).filter(|value| !value.is_empty()),
        effect: effect.to_owned(),
        time_added: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 58
podsPerCore: 10
kubeReserved: {cpu: 100m, memory: 1Gi}
systemReserved: {memory: 256Mi}
evictionHard: {memory.available: 5%}
shutdownGracePeriod: 30s
shutdownGracePeriodCriticalPods: 10s
rotateCertificates: true
clusterDNS: [10.96.0.10]
authentication: {anonymous: {enabled: false}}
registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]
providerID: ibm:///r/file
";

    fn read(line: &str, config: &str) -> Result<Settings, SettingsError> {
        let disk = Disk::default();
        disk.write("/c", config);
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Settings::read(&arguments, &disk, "VM-1", 4)
    }

    #[test]
    fn the_file_says_how_much_is_kept_and_how_the_node_begins() {
        let settings = read("--kubeconfig=/k --config=/c", CONFIG).unwrap();
        assert_eq!(settings.node_name, "vm-1");
        assert_eq!(settings.pods_max, 40);
        assert_eq!(settings.reserved.kube["memory"], "1Gi");
        assert_eq!(settings.reserved.eviction.len(), 1);
        assert_eq!(settings.shutdown_grace, Duration::from_secs(30));
        assert_eq!(settings.taints[0].key, "karpenter.sh/unregistered");
        assert_eq!(settings.provider_id.as_deref(), Some("ibm:///r/file"));
        assert!(settings.rotates_certificates);
    }

    #[test]
    fn flags_win_over_the_file() {
        let line = "--kubeconfig=/k --config=/c --hostname-override=Node-A --node-labels=a=b,c=d --provider-id=ibm:///r/flag \
                    --register-with-taints=x=y:NoSchedule,z:NoExecute --max-pods=20 --kube-reserved=cpu=1";
        let settings = read(line, CONFIG).unwrap();
        assert_eq!(settings.node_name, "node-a");
        assert_eq!(settings.labels["c"], "d");
        assert_eq!(settings.provider_id.as_deref(), Some("ibm:///r/flag"));
        assert_eq!(settings.taints.len(), 2);
        assert_eq!(settings.taints[0].value.as_deref(), Some("y"));
        assert_eq!(settings.pods_max, 20);
        assert_eq!(
            settings.reserved.kube,
            [("cpu".to_owned(), "1".to_owned())].into()
        );
    }

    #[test]
    fn without_a_file_the_defaults_hold() {
        let settings = read("--kubeconfig=/k", "").unwrap();
        assert_eq!(settings.pods_max, 110);
        assert_eq!(settings.reserved.eviction["memory.available"], "100Mi");
        assert_eq!(settings.shutdown_grace, Duration::ZERO);
        assert_eq!(settings.lease, Duration::from_secs(40));
        assert_eq!(settings.report_every, Duration::from_mins(5));
    }

    #[test]
    fn what_a_real_kubelet_exits_on_is_refused() {
        let config = |line: &str| format!("{CONFIG}{line}\n").replace("shutdownGracePeriod: 30s\n", "");
        let table = [
            ("--config=/c", CONFIG.to_owned(), "joins nothing"),
            ("--kubeconfig=/k --config=/d", CONFIG.to_owned(), "no such file"),
            (
                "--kubeconfig=/k --config=/c",
                "kind: Pod".to_owned(),
                "no kind \"Pod\"",
            ),
            (
                "--kubeconfig=/k --config=/c",
                "maxPods: [".to_owned(),
                "failed to load kubelet config",
            ),
            (
                "--kubeconfig=/k --config=/c",
                config("shutdownGracePeriod: 5s"),
                "must be <=",
            ),
            (
                "--kubeconfig=/k --config=/c",
                config("shutdownGracePeriod: soon"),
                "no duration",
            ),
            (
                "--kubeconfig=/k --register-with-taints=a=b",
                String::new(),
                "register-with-taints",
            ),
        ];
        for (line, config, expected) in table {
            let said = read(line, &config).unwrap_err().to_string();
            assert!(said.contains(expected), "{line}: {said}");
        }
    }

    #[test]
    fn an_external_cloud_provider_means_a_taint() {
        let settings = read("--kubeconfig=/k --cloud-provider=external", "").unwrap();
        assert_eq!(
            settings.taints[0].key,
            "node.cloudprovider.kubernetes.io/uninitialized"
        );
        let value: serde_json::Value = serde_json::to_value(&settings.taints[0]).unwrap();
        assert_eq!(value["effect"], "NoSchedule");
    }
}
