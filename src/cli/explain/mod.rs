//! `karpenter-ibm explain`: why a pod of a live cluster has no node yet, and what would give it one.

mod answer;
mod live;

use clap::Subcommand;

use super::planning::Policies;
use super::{BadInput, output};
use crate::clock::Clock;

/// Says why something is as it is, in plain words.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Pod(PodArgs),
}

/// Says which node or claim a pod waits for and since when; or which NodePool came nearest, and the smallest change that
/// would let the pod in.
///
/// The cluster is the one that KUBECONFIG names. It is read once, and the same decision is made as the controller makes;
/// nothing is written. Machines and prices are built in, what is withheld is read from the cluster. How the controller was
/// started is not known here: where it was told other policies than the usual ones, tell them here as well.
#[derive(Debug, clap::Args)]
struct PodArgs {
    /// The pod
    name: String,
    /// Its namespace
    #[arg(short, long, default_value = "default")]
    namespace: String,
    #[command(flatten)]
    policies: Policies,
}

/// Prints the answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let What::Pod(pod) = &args.what;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(explain(pod))
}

async fn explain(asked: &PodArgs) -> anyhow::Result<()> {
    let live = live::read(&asked.namespace).await?;
    let pod = live.objects.pods.iter().find(|pod| {
        pod.metadata.name.as_ref() == Some(&asked.name)
            && pod.metadata.namespace.as_ref() == Some(&asked.namespace)
    });
    let Some(pod) = pod else {
        let problem = format!("there is no pod {} in namespace {}", asked.name, asked.namespace);
        return Err(BadInput::new(problem).hint("-n names another namespace").into());
    };
    let answer = answer::of(&live, pod, asked.policies.options(), Clock::system().now())?;
    Ok(output::data(answer.trim_end())?)
}
