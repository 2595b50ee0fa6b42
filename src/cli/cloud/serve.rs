//! `karpenter-ibm cloud serve`: all services of the simulated cloud on one loopback port.

use std::net::SocketAddr;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::running::Announcement;
use crate::cli::signals::stop_on_signal;
use crate::cli::{BadInput, output};
use crate::clock::Clock;
use crate::ibm::builtin;
use crate::sim::ibm::{Answers, Cloud, Options, ServeError, Server};

/// Beyond this an hour passes in a second, and no client keeps up.
const SPEED_MAX: f64 = 3600.0;

/// Serves a simulated IBM Cloud until it is told to stop.
///
/// VPC, IAM, Global Catalog, Tagging, Search and Resource Manager share one port and are told apart by path. The API
/// key is demo-api-key.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Loopback address to listen on; port 0 takes any that is free
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Region that is simulated
    #[arg(long, default_value = "us-south")]
    region: String,
    /// What everything random is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many simulated seconds pass in a second
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// An account with room for thousands of machines, instead of IBM's usual quotas
    #[arg(long)]
    roomy: bool,
}

/// Serves until SIGINT or SIGTERM.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if builtin::find_region(&args.region).is_none() {
        let names: Vec<&str> = builtin::REGIONS.iter().map(|region| region.name).collect();
        let problem = BadInput::new(format!("there is no region {:?}", args.region));
        return Err(problem.hint(format!("one of: {}", names.join(", "))).into());
    }
    if !(args.speed > 0.0 && args.speed <= SPEED_MAX) {
        return Err(BadInput::new(format!("--speed must be above 0 and at most {SPEED_MAX}")).into());
    }
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    runtime.block_on(serve(args))
}

async fn serve(args: &Args) -> anyhow::Result<()> {
    let clock = Clock::simulated_at_speed(Clock::system().now(), args.speed);
    let mut options = Options::new(&args.region, args.seed, clock);
    options.answers = Answers::Realistic;
    if args.roomy {
        options.make_roomy();
    }
    let cloud = Cloud::new(options);
    let server = Server::bind(cloud.clone(), args.listen)
        .await
        .map_err(|error| refusal(&error))?;
    let stop = CancellationToken::new();
    stop_on_signal(&stop)?;
    let url = format!("http://{}", server.address());
    let _announcement = Announcement::publish(&url);
    let account = cloud.account();
    output::talk(format_args!(
        "simulating {}: API key demo-api-key, VPC {}, image {}, subnets {}",
        args.region,
        account.vpc,
        account.image,
        account.subnets.join(" "),
    ));
    output::data(format_args!("listening on {url}"))?;
    server.run(stop).await;
    Ok(())
}

/// A port that cannot be had is the user's to change.
fn refusal(error: &ServeError) -> anyhow::Error {
    match error {
        ServeError::NotLoopback(_) => BadInput::new(error.to_string())
            .hint("whoever reaches the simulator commands it, so it listens on 127.0.0.1 or [::1] only")
            .into(),
        ServeError::Listen { source, .. } => BadInput::new(format!("{error}: {source}"))
            .hint("--listen 127.0.0.1:0 takes any port that is free")
            .into(),
    }
}
