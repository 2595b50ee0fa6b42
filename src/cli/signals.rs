//! How a server of the command line is told to stop.

use std::sync::{Arc, OnceLock};

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use crate::sim::signals;

/// Cancels `stop` at the first signal from now on that asks for an end: control-C, control-\, a closed terminal, or a service
/// that is stopped. What it gives holds the signal's number by then.
pub(super) fn stop_on_signal(stop: &CancellationToken) -> anyhow::Result<Arc<OnceLock<i32>>> {
    let ending = signals::ending().context("listening for signals")?;
    let (stop, heard) = (stop.clone(), Arc::new(OnceLock::new()));
    let hears = Arc::clone(&heard);
    tokio::spawn(async move {
        let _ = hears.set(ending.await);
        stop.cancel();
    });
    Ok(heard)
}
