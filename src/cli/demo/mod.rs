//! `karpenter-ibm demo`: see it work, on this machine alone.

#[cfg(feature = "sim")]
mod bridge;
#[cfg(feature = "sim")]
mod pace;
#[cfg(feature = "sim")]
mod panel;
#[cfg(feature = "sim")]
mod screen;
#[cfg(feature = "sim")]
mod show;
#[cfg(feature = "sim")]
mod story;
#[cfg(feature = "sim")]
mod theater;
#[cfg(feature = "sim")]
mod troubles;
#[cfg(feature = "sim")]
mod view;
#[cfg(feature = "sim")]
mod wrap;

use std::net::SocketAddr;
use std::path::PathBuf;

/// Runs the operator between an embedded cluster and a simulated IBM Cloud, and tells what happens.
///
/// Both are served on loopback, so kubectl and `karpenter-ibm cloud` work meanwhile. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Region to play in, in place of the scenario's
    #[arg(long)]
    region: Option<String>,
    /// What chance is drawn from. Which of several things is done first is not: names and seconds differ from run to run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many simulated seconds pass in a second
    #[arg(long, default_value_t = 20.0, conflicts_with = "script")]
    speed: f64,
    /// Where to write the kubeconfig; if not given, a file that is named and that goes away at the end
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Where the Kubernetes API listens; port 0 picks a free one. An address of this machine only
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where the simulated IBM Cloud listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    cloud_listen: SocketAddr,
    /// Tell no story: leave the stage to you, with a NodeClass and NodePools in place
    #[arg(long, conflicts_with = "script")]
    no_story: bool,
    /// Play a scenario as fast as possible and exit; fail if a step of it does not happen
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[expect(
        clippy::option_option,
        reason = "how clap tells an option that is absent, bare, or with a value"
    )]
    script: Option<Option<PathBuf>>,
    /// With --script: draw what was played into this file, as SVG
    #[arg(long, value_name = "FILE", requires = "script")]
    picture: Option<PathBuf>,
}

/// Plays; fails if a step of the scenario does not happen.
#[cfg(feature = "sim")]
pub fn run(args: &Args) -> anyhow::Result<()> {
    theater::perform(show::Show::new(args)?)
}

/// This build has no simulator to play on.
#[cfg(not(feature = "sim"))]
pub fn run(_args: &Args) -> anyhow::Result<()> {
    Err(super::BadInput::new("this build has no simulated cloud to show")
        .hint("build with the default features: `cargo run --release -- demo`")
        .into())
}
