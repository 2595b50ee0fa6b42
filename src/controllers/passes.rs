//! What came of the passes of a loop over objects, for the log.

use std::fmt;

use futures::{Stream, StreamExt};
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::{Lookup, ObjectRef};

/// Tells of every pass, for as long as there are any. `what` names the kind in the singular.
pub(super) async fn tell<K, E, Q>(
    what: &'static str,
    passes: impl Stream<Item = Result<(ObjectRef<K>, Action), controller::Error<E, Q>>>,
) where
    K: Lookup,
    K::DynamicType: Eq + std::hash::Hash + Clone,
    ObjectRef<K>: fmt::Display,
    E: std::error::Error + 'static,
    Q: std::error::Error + 'static,
{
    let mut passes = std::pin::pin!(passes);
    while let Some(pass) = passes.next().await {
        match pass {
            Ok((object, action)) => tracing::debug!(what, %object, ?action, "looked after"),
            // A Node without a claim, or an object that is gone.
            Err(controller::Error::ObjectNotFound(_)) => {}
            Err(controller::Error::ReconcilerFailed(error, object)) => {
                tracing::warn!(what, %object, %error, "does not get on for now");
            }
            Err(error) => tracing::warn!(what, %error, "watching"),
        }
    }
}
