//! `karpenter-ibm controller`: the process that runs in a cluster.

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
    /// Cloud-init document for machines whose class has none; NODE_NAME in it stands for the node's name
    #[arg(long)]
    user_data_file: Option<PathBuf>,
    #[command(flatten)]
    discounts: Discounts,
    /// How long an offering is not bought after one of its machines was preempted [default: 3600]
    #[arg(long)]
    preemption_hold_seconds: Option<u64>,
    /// How the log is written; its level comes from RUST_LOG
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
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
        user_data_file: args.user_data_file,
        preemption_hold_seconds: args.preemption_hold_seconds,
        ..args.discounts.over(args.access.raw())
    }
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
