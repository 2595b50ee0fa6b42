//! The command line: one file per subcommand.
//!
//! Data goes to stdout, talk to stderr. Exit status 0 is success, 1 a failure, 2 bad input: nothing was touched.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod access;
pub mod bad_input;
pub mod cloud;
pub mod cluster;
pub mod controller;
pub mod crds;
pub mod demo;
#[cfg(feature = "sim")]
mod draft;
pub mod explain;
#[cfg(feature = "sim")]
mod kubeconfig;
mod objects;
pub mod offerings;
pub mod output;
mod planning;
#[cfg(feature = "sim")]
mod signals;
pub mod solve;

pub use bad_input::{BadInput, Interrupted};

/// A node provisioner for IBM Cloud VPC.
#[derive(Debug, Parser)]
#[command(
    name = "karpenter-ibm",
    version,
    propagate_version = true,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Controller(Box<controller::Args>),
    Crds(crds::Args),
    Offerings(Box<offerings::Args>),
    Solve(solve::Args),
    Explain(explain::Args),
    Cloud(cloud::Args),
    Cluster(cluster::Args),
    Demo(demo::Args),
}

/// Parses the arguments, runs the command and says how it ended.
pub fn run() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Controller(args) => controller::run(*args),
        Command::Crds(args) => crds::run(&args),
        Command::Offerings(args) => offerings::run(*args),
        Command::Solve(args) => solve::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Cloud(args) => cloud::run(args),
        Command::Cluster(args) => cluster::run(args),
        Command::Demo(args) => demo::run(&args),
    };
    outcome.map_or_else(|error| bad_input::report(&error), |()| ExitCode::SUCCESS)
}
