//! The binary: picks the allocator and the TLS provider, then hands over to the command line.

use std::process::ExitCode;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // reqwest and kube are built without a provider of their own; a second call only says that one is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    karpenter_ibm::cli::run()
}
