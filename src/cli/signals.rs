//! How a server of the command line is told to stop.

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use crate::sim::signals;

/// Cancels `stop` at the first signal from now on that asks for an end: control-C, control-\, a closed terminal, or a service
/// that is stopped.
pub(super) fn stop_on_signal(stop: &CancellationToken) -> anyhow::Result<()> {
    let ending = signals::ending().context("listening for signals")?;
    let stop = stop.clone();
    tokio::spawn(async move {
        ending.await;
        stop.cancel();
    });
    Ok(())
}
