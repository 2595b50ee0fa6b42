//! `karpenter-ibm controller`: the process that runs in a cluster.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::BadInput;
use super::access::{Access, Discounts, bad_setting};
use super::planning::Planning;
use crate::allocation::Purchases;
use crate::controllers::context::Collecting;
use crate::controllers::node_class::AllowLists;
use crate::operator::{self, RawSettings, Settings, StartError};

/// Runs the provisioner until it is told to stop.
///
/// Credentials: IBMCLOUD_API_KEY (environment only), IBMCLOUD_API_KEY_FILE, or IBMCLOUD_TRUSTED_PROFILE.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    access: Access,
    /// Where health and metrics are served [default: 0.0.0.0:8080]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Namespace of this process, where its Leases are [default: karpenter-ibm]
    #[arg(long, env = "POD_NAMESPACE")]
    namespace: Option<String>,
    /// Name of this process's pod, by which it holds its Leases [default: karpenter-ibm]
    #[arg(long, env = "POD_NAME")]
    pod: Option<String>,
    /// ServiceAccount in that namespace with whose tokens machines join [default: karpenter-ibm-joiner]
    #[arg(long)]
    joiner_service_account: Option<String>,
    /// Address of the API server as machines reach it, https://host:port [default: the one that this process uses]
    #[arg(long, env = "CLUSTER_ENDPOINT")]
    cluster_endpoint: Option<String>,
    /// Addresses of the cluster's name servers, separated by commas [default: the address of the
    /// Service kube-system/kube-dns]
    #[arg(long, value_delimiter = ',')]
    cluster_dns: Vec<String>,
    /// Most machines at once; more are not bought [default: 2000]
    #[arg(long)]
    max_machines: Option<u64>,
    /// Most machines launched within an hour; more wait [default: 2000]
    #[arg(long)]
    max_launches_per_hour: Option<u64>,
    /// Buys nothing; everything else goes on
    #[arg(long, env = "KARPENTER_STOP_PURCHASES")]
    stop_purchases: bool,
    /// How long a node that has joined may take until it is ready for work [default: 30]
    #[arg(long)]
    initialization_minutes: Option<u64>,
    /// How much later than it was sent an order may be carried out, in seconds; a claim whose order had no answer waits so
    /// long before it is let go [default: 60]
    #[arg(long)]
    late_create_seconds: Option<u64>,
    #[command(flatten)]
    discounts: Discounts,
    /// Security groups that node classes may use, by id, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    allowed_security_groups: Vec<String>,
    /// Subnets that node classes may use, by id, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    allowed_subnets: Vec<String>,
    /// Images that node classes may use, by id or name, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    allowed_images: Vec<String>,
    /// SSH keys that node classes may use, by id, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    allowed_keys: Vec<String>,
    /// Resource groups that node classes may use, by id or name as classes write them, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    allowed_resource_groups: Vec<String>,
    /// Trusted profiles that node classes may give to machines, by id, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    allowed_trusted_profiles: Vec<String>,
    /// How often node classes are resolved anew, and machines compared with them [default: 300]
    #[arg(long)]
    nodeclass_resolve_seconds: Option<u64>,
    /// How long an offering is not bought after one of its machines was preempted [default: 3600]
    #[arg(long)]
    preemption_hold_seconds: Option<u64>,
    #[command(flatten)]
    planning: Planning,
    /// How often all spot machines are looked at, in seconds [default: 60]
    #[arg(long)]
    interruption_poll: Option<u64>,
    /// What is done about machines, interfaces, volumes and claims that nobody answers for
    #[arg(long, value_enum, default_value = "delete")]
    gc: Gc,
    /// Where IBM Event Notifications may tell of preemptions [default: nowhere]
    #[arg(long, requires = "push_secret_file")]
    push_listen: Option<SocketAddr>,
    /// File with the secret that its calls must bear
    #[arg(long, requires = "push_listen")]
    push_secret_file: Option<PathBuf>,
    /// How the log is written; its level comes from RUST_LOG
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Gc {
    /// They are deleted
    Delete,
    /// They are reported, and left where they are
    Report,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// One JSON object per line
    Json,
    /// For people
    Text,
}

/// How long an orderly end may take. Kubernetes gives 30 seconds before it ends the process itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Validates the settings, then runs.
pub fn run(args: Args) -> anyhow::Result<()> {
    start_log(args.log_format);
    let settings = Settings::validate(&raw(args)).map_err(|error| bad_setting(&error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match runtime.block_on(until_told(settings)) {
        Err(StartError::Setting(error)) => Err(bad_setting(&error)),
        Err(StartError::Listen(address, error)) => {
            Err(BadInput::new(format!("--listen: cannot use {address}: {error}"))
                .hint("choose an address of this machine and a free port")
                .into())
        }
        Err(StartError::NoCluster(error)) => {
            Err(BadInput::new(format!("there is no cluster to work for: {error}"))
                .hint("set KUBECONFIG to a kubeconfig, or run this in a pod with a ServiceAccount")
                .into())
        }
        ended => ended.context("the controller stopped"),
    }
}

/// Runs until a signal, and then a little longer, so that leadership is given back and answers are finished.
async fn until_told(settings: Settings) -> Result<(), StartError> {
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut running = std::pin::pin!(operator::run(settings, stop.clone()));
    tokio::select! {
        biased;
        ended = &mut running => return ended,
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(StartError::Serve)?,
    }
    stop.cancel();
    match tokio::time::timeout(PATIENCE, running).await {
        Ok(ended) => ended,
        Err(_) => Ok(()),
    }
}

fn raw(args: Args) -> RawSettings {
    RawSettings {
        listen: args.listen,
        namespace: args.namespace.filter(|name| !name.is_empty()),
        pod: args.pod.filter(|name| !name.is_empty()),
        joiner: args.joiner_service_account,
        cluster_endpoint: args.cluster_endpoint.filter(|text| !text.is_empty()),
        cluster_dns: args
            .cluster_dns
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect(),
        machines_max: args.max_machines,
        launches_per_hour_max: args.max_launches_per_hour,
        purchases: if args.stop_purchases {
            Purchases::Stopped
        } else {
            Purchases::Allowed
        },
        initialization_minutes: args.initialization_minutes,
        late_create_seconds: args.late_create_seconds,
        allowed: AllowLists {
            security_groups: listed(&args.allowed_security_groups),
            subnets: listed(&args.allowed_subnets),
            images: listed(&args.allowed_images),
            keys: listed(&args.allowed_keys),
            resource_groups: listed(&args.allowed_resource_groups),
            trusted_profiles: listed(&args.allowed_trusted_profiles),
        },
        resolve_seconds: args.nodeclass_resolve_seconds,
        preemption_hold_seconds: args.preemption_hold_seconds,
        interruption_poll_seconds: args.interruption_poll,
        collecting: match args.gc {
            Gc::Delete => Collecting::Delete,
            Gc::Report => Collecting::Report,
        },
        push_listen: args.push_listen,
        push_secret_file: args.push_secret_file,
        ..args.planning.over(args.discounts.over(args.access.raw()))
    }
}

/// What was listed; an empty entry lists nothing.
fn listed(entries: &[String]) -> BTreeSet<String> {
    let entries = entries.iter().map(|entry| entry.trim());
    entries
        .filter(|entry| !entry.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The log goes to stderr: as text to a terminal, as JSON to anything else.
fn start_log(format: Option<LogFormat>) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let text = std::io::stderr().is_terminal();
    match format.unwrap_or(if text { LogFormat::Text } else { LogFormat::Json }) {
        LogFormat::Json => log.json().init(),
        LogFormat::Text => log.compact().init(),
    }
}
