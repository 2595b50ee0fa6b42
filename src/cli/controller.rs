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
use crate::controllers::node_class::AllowLists;
use crate::ibm::endpoints::Overrides;
use crate::ibm::secret::Secret;
use crate::operator::{self, RawSettings, SettingError, Settings, StartError};

/// Runs the provisioner until it is told to stop.
///
/// Credentials: IBMCLOUD_API_KEY (environment only), IBMCLOUD_API_KEY_FILE, or IBMCLOUD_TRUSTED_PROFILE.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Region to work in, e.g. us-south
    #[arg(long, env = "IBMCLOUD_REGION")]
    region: Option<String>,
    /// File that holds the API key; it is read again for every token, so the key can be rotated
    #[arg(long, env = "IBMCLOUD_API_KEY_FILE")]
    api_key_file: Option<PathBuf>,
    /// Trusted profile to assume, by id (`Profile-…`) or name
    #[arg(long, env = "IBMCLOUD_TRUSTED_PROFILE")]
    trusted_profile: Option<String>,
    /// Projected ServiceAccount token that may assume the profile; without it the machine's own identity is used
    #[arg(long, env = "IBMCLOUD_CR_TOKEN_FILE")]
    service_account_token_file: Option<PathBuf>,
    /// One address for all IBM services: a simulator (`karpenter-ibm cloud serve`)
    #[arg(long, env = "IBMCLOUD_ENDPOINT")]
    endpoint: Option<String>,
    /// VPC infrastructure service, e.g. the region's private endpoint
    #[arg(long, env = "IBMCLOUD_IS_NG_API_ENDPOINT")]
    vpc_endpoint: Option<String>,
    /// Identity service
    #[arg(long, env = "IBMCLOUD_IAM_API_ENDPOINT")]
    iam_endpoint: Option<String>,
    /// Global Catalog
    #[arg(long, env = "IBMCLOUD_RESOURCE_CATALOG_API_ENDPOINT")]
    catalog_endpoint: Option<String>,
    /// Global Tagging
    #[arg(long, env = "IBMCLOUD_GT_API_ENDPOINT")]
    tagging_endpoint: Option<String>,
    /// Global Search
    #[arg(long, env = "IBMCLOUD_GS_API_ENDPOINT")]
    search_endpoint: Option<String>,
    /// Resource Manager
    #[arg(long, env = "IBMCLOUD_RESOURCE_MANAGEMENT_API_ENDPOINT")]
    resource_manager_endpoint: Option<String>,
    /// Requests to IBM Cloud per second, on average, of the whole process [default: 10]
    #[arg(long)]
    ibm_requests_per_second: Option<u32>,
    /// Requests to IBM Cloud at once [default: 50]
    #[arg(long)]
    ibm_burst: Option<u32>,
    /// How long one request to IBM Cloud may take [default: 30]
    #[arg(long)]
    ibm_deadline_seconds: Option<u64>,
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

fn bad_setting(error: &SettingError) -> anyhow::Error {
    BadInput::new(error.to_string()).hint(error.may_be.clone()).into()
}

fn raw(args: Args) -> RawSettings {
    RawSettings {
        // Never a flag: arguments can be read by every process of the machine.
        api_key: std::env::var("IBMCLOUD_API_KEY")
            .ok()
            .filter(|key| !key.is_empty())
            .map(Secret::new),
        api_key_file: args.api_key_file.filter(|path| !path.as_os_str().is_empty()),
        trusted_profile: args.trusted_profile.filter(|profile| !profile.is_empty()),
        service_account_token_file: args
            .service_account_token_file
            .filter(|path| !path.as_os_str().is_empty()),
        region: args.region.filter(|region| !region.is_empty()),
        endpoints: Overrides {
            all: args.endpoint,
            vpc: args.vpc_endpoint,
            iam: args.iam_endpoint,
            catalog: args.catalog_endpoint,
            tagging: args.tagging_endpoint,
            search: args.search_endpoint,
            resource_manager: args.resource_manager_endpoint,
        },
        requests_per_second: args.ibm_requests_per_second,
        burst: args.ibm_burst,
        deadline_seconds: args.ibm_deadline_seconds,
        listen: args.listen,
        namespace: args.namespace.filter(|name| !name.is_empty()),
        pod: args.pod.filter(|name| !name.is_empty()),
        user_data_file: args.user_data_file,
        allowed: AllowLists {
            security_groups: listed(&args.allowed_security_groups),
            subnets: listed(&args.allowed_subnets),
            images: listed(&args.allowed_images),
            keys: listed(&args.allowed_keys),
            resource_groups: listed(&args.allowed_resource_groups),
            trusted_profiles: listed(&args.allowed_trusted_profiles),
        },
        resolve_seconds: args.nodeclass_resolve_seconds,
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
