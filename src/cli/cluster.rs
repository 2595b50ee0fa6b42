//! `karpenter-ibm cluster serve`: the embedded Kubernetes API on a socket, for `kubectl` and every other client.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The embedded Kubernetes API server: a cluster without nodes that starts in milliseconds and forgets everything.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Serve(ServeArgs),
}

/// Serves the API until it is told to stop, and writes a kubeconfig to use it.
///
/// Prints `listening on https://ADDRESS` once it can be used.
#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// Where to listen; port 0 picks a free one. An address of this machine only
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where to write the kubeconfig
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// Install the custom resource definitions first
    #[arg(long)]
    crds: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    let Command::Serve(args) = args.command;
    serving::run(&args)
}

#[cfg(not(feature = "sim"))]
mod serving {
    use super::ServeArgs;
    use crate::cli::BadInput;

    pub(super) fn run(_args: &ServeArgs) -> anyhow::Result<()> {
        Err(
            BadInput::new("this build has no embedded Kubernetes API: it was made without the feature `sim`")
                .hint("build it with `cargo build --release`, which has the feature on")
                .into(),
        )
    }
}

#[cfg(feature = "sim")]
mod serving {
    use anyhow::Context;
    use tokio_util::sync::CancellationToken;

    use super::ServeArgs;
    use crate::api::crd::definitions;
    use crate::cli::signals::stop_on_signal;
    use crate::cli::{BadInput, kubeconfig, output};
    use crate::clock::Clock;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::serve::{self, ServeError};
    use crate::sim::kube::{ApiServer, Options, write};

    pub(super) fn run(args: &ServeArgs) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(serve(args))
    }

    async fn serve(args: &ServeArgs) -> anyhow::Result<()> {
        let stop = CancellationToken::new();
        stop_on_signal(&stop)?;
        let listener = serve::listen(args.listen).await.map_err(unusable_address)?;
        let url = format!("https://{}", listener.local_addr()?);
        let server = ApiServer::new(Options {
            clock: Clock::system(),
            seed: fastrand::u64(..),
            keys: Keys::Fresh,
        });
        if args.crds {
            install_crds(&server)?;
        }
        kubeconfig::write(
            "cluster serve",
            &args.kubeconfig,
            &serve::kubeconfig(&server, &url),
        )?;
        output::data(format_args!("listening on {url}"))?;
        serve::serve(&server, listener, stop).await?;
        Ok(())
    }

    fn install_crds(server: &ApiServer) -> anyhow::Result<()> {
        let definitions = definitions().context("generating the custom resource definitions")?;
        for definition in definitions {
            write::insert(server, definition.object);
        }
        Ok(())
    }

    fn unusable_address(error: ServeError) -> anyhow::Error {
        let hint = match error {
            ServeError::NotLoopback(_) => {
                "listen on 127.0.0.1 or [::1]; nobody else may reach a test cluster"
            }
            _ => "choose another port, or 0 for any that is free",
        };
        let problem = format!("--listen: {:#}", anyhow::Error::new(error));
        BadInput::new(problem).hint(hint).into()
    }
}
