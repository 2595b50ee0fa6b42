//! `karpenter-ibm cloud`: a simulated IBM Cloud on this machine, and commands to one that runs.

#[cfg(feature = "sim")]
mod remote;
#[cfg(feature = "sim")]
pub(super) mod running;
#[cfg(feature = "sim")]
mod serve;

#[cfg(feature = "sim")]
pub use simulated::{Args, run};
#[cfg(not(feature = "sim"))]
pub use without::{Args, run};

#[cfg(feature = "sim")]
mod simulated {
    use clap::Subcommand;

    use crate::cli::cloud::{remote, serve};

    /// Serves a simulated IBM Cloud on this machine, or commands one that runs.
    #[derive(Debug, clap::Args)]
    pub struct Args {
        #[command(subcommand)]
        command: Command,
    }

    #[derive(Debug, Subcommand)]
    enum Command {
        Serve(serve::Args),
        Ls(remote::Ls),
        Preempt(remote::Preempt),
        HostFailure(remote::HostFailure),
        FailStart(remote::FailStart),
        Drain(remote::Drain),
        Refill(remote::Refill),
        Remove(remote::Remove),
        Fault(remote::FaultArgs),
    }

    /// Runs the subcommand.
    pub fn run(args: Args) -> anyhow::Result<()> {
        match args.command {
            Command::Serve(args) => serve::run(&args),
            Command::Ls(args) => remote::ls(&args),
            Command::Preempt(args) => remote::preempt(&args),
            Command::HostFailure(args) => remote::host_failure(&args),
            Command::FailStart(args) => remote::fail_start(&args),
            Command::Drain(args) => remote::drain(&args),
            Command::Refill(args) => remote::refill(&args),
            Command::Remove(args) => remote::remove(&args),
            Command::Fault(args) => remote::fault(&args),
        }
    }
}

#[cfg(not(feature = "sim"))]
mod without {
    use std::ffi::OsString;

    use crate::cli::BadInput;

    /// Serves a simulated IBM Cloud (not in this binary).
    #[derive(Debug, clap::Args)]
    pub struct Args {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<OsString>,
    }

    /// Says how to get the simulator.
    pub fn run(_args: Args) -> anyhow::Result<()> {
        let problem = BadInput::new("this binary was built without the simulated IBM Cloud");
        Err(problem
            .hint("build it with the default features: cargo build --release")
            .into())
    }
}
