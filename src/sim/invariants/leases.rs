//! S11, of Leases: one passes to another holder only after it has run out on a clock that does not jump, or was given up.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::clock::between;
use crate::sim::history::Entry;
use crate::sim::kube::object;

/// Timestamps in metadata are whole seconds, on either end.
const SLACK: Duration = Duration::from_secs(2);

pub(super) struct Leases;

impl Check for Leases {
    fn observe(&mut self, entry: &Entry, book: &Book, _: &Truth<'_>, found: &mut Findings) {
        for change in book.changed.leases.iter().filter(|change| !change.deleted) {
            let Some(before) = &change.before else { continue };
            let (was, is) = (holder(before), holder(&change.after));
            if was.is_empty() || is.is_empty() || was == is {
                continue;
            }
            let lasts = before["spec"]["leaseDurationSeconds"]
                .as_u64()
                .unwrap_or_default();
            let held = written(before).zip(written(&change.after));
            let held = held.map(|(then, now)| between(then, now));
            if held.is_some_and(|held| held + SLACK < Duration::from_secs(lasts)) {
                let name = object::name(&change.after);
                let message =
                    format!("Lease {name} of {was} was taken by {is} {held:?} after it was renewed");
                found.blame("S11", entry.at, message);
            }
        }
    }
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// When it was last written, on the server's clock: what its holder says may be wrong.
fn written(lease: &Value) -> Option<Timestamp> {
    let managers = lease["metadata"]["managedFields"].as_array()?;
    let times = managers.iter().filter_map(|manager| manager["time"].as_str());
    times.filter_map(|time| time.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;

    /// Somebody holds the Lease, or nobody.
    async fn held(stage: &mut Stage, holder: Option<&str>) {
        stage.hold("leader", holder).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_not_taken_before_it_has_run_out() {
        let mut stage = Stage::new().await;
        held(&mut stage, Some("a")).await;
        stage.pass(5).await;
        held(&mut stage, Some("b")).await;
        assert_eq!(stage.blamed(), ["S11"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_has_run_out_or_was_given_up_may_be_taken() {
        let mut stage = Stage::new().await;
        held(&mut stage, Some("a")).await;
        stage.pass(15).await;
        held(&mut stage, Some("b")).await;
        stage.pass(2).await;
        held(&mut stage, Some("")).await;
        held(&mut stage, Some("a")).await;
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }
}
