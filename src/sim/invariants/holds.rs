//! L8: what is withheld is offered again: no hold is longer than an hour, and after healing none lasts beyond that.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::clock::{between, later};
use crate::sim::history::Entry;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

/// The longest that anything is withheld for.
const LONGEST: Duration = Duration::from_hours(1);
/// Clocks may differ by a minute before anybody calls one wrong, and what is over is looked for every minute.
const SLACK: Duration = Duration::from_mins(2);

/// How far the objects have been read.
#[derive(Default)]
pub(super) struct Holds {
    read: u64,
}

impl Check for Holds {
    fn observe(&mut self, entry: &Entry, _: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let changed = truth.kube.state().store.changed_at(&table());
        if changed == self.read {
            return;
        }
        self.read = changed;
        for hold in holds(truth) {
            let length = time(&hold, "since")
                .zip(time(&hold, "until"))
                .map(|(since, until)| between(since, until));
            if length.is_some_and(|length| length > LONGEST + SLACK) {
                let message = format!("{} is withheld for {length:?}", object::name(&hold));
                found.blame("L8", entry.at, message);
            }
        }
    }

    fn settled(&self, _: &Book, truth: &Truth<'_>, found: &mut Findings) {
        for hold in holds(truth) {
            let until = time(&hold, "until");
            if until.is_some_and(|until| until > later(truth.now, LONGEST + SLACK)) {
                let name = object::name(&hold);
                let message = format!("{name} is still to be withheld for more than an hour");
                found.blame("L8", truth.since_start, message);
            }
        }
    }
}

fn table() -> TableKey {
    TableKey::of("karpenter-ibm.sh", "unavailableofferings")
}

fn holds(truth: &Truth<'_>) -> Vec<Value> {
    let state = truth.kube.state();
    let listed = state.store.list(&table(), None);
    listed.map(|stored| stored.value()).collect()
}

fn time(hold: &Value, field: &str) -> Option<Timestamp> {
    hold["spec"][field].as_str().and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage::Stage;
    use crate::sim::kube::write;

    /// A hold of that time; the stage's day begins at ten o'clock.
    fn withhold(stage: &mut Stage, since: &str, until: &str) {
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
                "metadata": {"name": "spot.all"},
                "spec": {"key": "spot:*:*", "reason": "Quota", "since": since, "until": until},
            }),
        );
        stage.look();
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_withheld_for_longer_than_an_hour() {
        let mut stage = Stage::new().await;
        withhold(&mut stage, "2026-11-16T10:00:00Z", "2026-11-16T11:00:00Z");
        assert!(stage.blamed().is_empty());
        withhold(&mut stage, "2026-11-16T10:00:00Z", "2126-01-01T00:00:00Z");
        assert_eq!(stage.blamed(), ["L8"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_that_was_dated_by_a_wrong_clock_does_not_outlast_it() {
        let mut stage = Stage::new().await;
        withhold(&mut stage, "2036-11-16T10:00:00Z", "2036-11-16T10:03:00Z");
        assert!(stage.blamed().is_empty());
        let unmet: Vec<_> = stage.unmet().iter().map(|unmet| unmet.id).collect();
        assert_eq!(unmet, ["L8"]);
    }
}
