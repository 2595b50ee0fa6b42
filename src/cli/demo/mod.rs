//! `karpenter-ibm demo`: see it work, on this machine alone.

#[cfg(feature = "sim")]
mod story;

/// Shows the parts at work against a simulated IBM Cloud: prices, a spot machine bought, preempted and cleaned up.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Region to play in
    #[arg(long, default_value = "us-south")]
    region: String,
    /// What chance is drawn from: the same seed tells the same story
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Tells the story; fails if a step of it does not happen.
#[cfg(feature = "sim")]
pub fn run(args: &Args) -> anyhow::Result<()> {
    use crate::ibm::builtin;
    if builtin::find_region(&args.region).is_none() {
        let known = builtin::REGIONS.map(|region| region.name).join(", ");
        return Err(
            super::BadInput::new(format!("`{}` is not a region of IBM Cloud VPC", args.region))
                .hint(format!("--region may be one of {known}"))
                .into(),
        );
    }
    // Time is the story's own: it passes as fast as things can happen.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()?;
    runtime.block_on(story::tell(&args.region, args.seed))
}

/// This build has no simulator to play on.
#[cfg(not(feature = "sim"))]
pub fn run(_args: &Args) -> anyhow::Result<()> {
    Err(super::BadInput::new("this build has no simulated cloud to show")
        .hint("build with the default features: `cargo run --release -- demo`")
        .into())
}
