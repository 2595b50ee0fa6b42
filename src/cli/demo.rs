//! stub

/// stub
#[derive(Debug, clap::Args)]
pub struct Args {}

/// stub
pub fn run(_args: Args) -> anyhow::Result<()> {
    Ok(())
}
