//! L8: what is withheld is offered again: no hold is longer than an hour, and after healing none lasts beyond that. Nor is
//! anybody told then that something is withheld until a time that is over, or further away than any hold is long; nor left
//! waiting for what is not withheld by any hold that is in force, which `deadlines` asks.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::api::names::{REASON_FAILED_SCHEDULING, REASON_NOMINATED};
use crate::clock::{between, earlier, later};
use crate::sim::history::Entry;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

/// The longest that anything is withheld for.
const LONGEST: Duration = Duration::from_hours(1);
/// Clocks may differ by a minute before anybody calls one wrong, and what is over is looked for every minute.
const SLACK: Duration = Duration::from_mins(2);

/// How old a word may be when it is written down: what a plan found out is said as soon as events are taken.
const OLD_WORD: Duration = Duration::from_mins(5);
/// How a pod is told of what is withheld: what stands before the time, in words of the scheduler's.
const TOLD: &str = " is withheld until ";
/// The operator, as its events name it.
const REPORTER: &str = "karpenter";

/// How far the objects have been read.
#[derive(Default)]
pub(super) struct Holds {
    read: u64,
}

impl Check for Holds {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let events = book.changed.events.iter().filter(|event| is_by_us(event));
        for until in events.filter_map(|event| told_until(event)) {
            // Under faults words may be under way for long.
            let is_well = book.healed_at.is_some_and(|healed| entry.at > healed + OLD_WORD);
            let is_over = is_well && until < earlier(truth.now, OLD_WORD);
            let is_endless = clocks_are_right(book) && until > later(truth.now, LONGEST + SLACK);
            if is_over || is_endless {
                let message = format!("somebody is told that something is withheld until {until}");
                found.blame("L8", entry.at, message);
            }
        }
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

/// Whether the last word to a pod was that something is withheld, although nothing is any more: of the holds that are there
/// none has been in force for two minutes.
pub(super) fn waits_for_nothing(pod: &str, book: &Book, truth: &Truth<'_>) -> bool {
    let in_force = |hold: &Value| {
        let over = later(time(hold, "until").unwrap_or(Timestamp::MAX), SLACK);
        over > truth.now
    };
    clocks_are_right(book)
        && last_word(pod, truth).is_some_and(|event| told_until(&event).is_some())
        && !holds(truth).iter().any(in_force)
}

/// Whether no hold can have been dated, and no word written, by a wrong clock. One that was dated before healing may last
/// until then: `settled` judges it.
fn clocks_are_right(book: &Book) -> bool {
    book.strikes("k15-skew") == 0
}

/// What the operator said last to a pod that waits.
fn last_word(pod: &str, truth: &Truth<'_>) -> Option<Arc<Value>> {
    let state = truth.kube.state();
    let events = state.store.list(&TableKey::of("", "events"), None);
    let words = events.map(|stored| stored.shared()).filter(|event| {
        let is_word = event["reason"] == REASON_FAILED_SCHEDULING || event["reason"] == REASON_NOMINATED;
        is_word && is_by_us(event) && event["involvedObject"]["uid"] == pod
    });
    let version = |event: &Arc<Value>| {
        let version = event["metadata"]["resourceVersion"].as_str();
        version.and_then(|it| it.parse::<u64>().ok())
    };
    words.max_by_key(version)
}

fn is_by_us(event: &Value) -> bool {
    let by = [&event["reportingComponent"], &event["source"]["component"]];
    by.iter()
        .any(|by| by.as_str().is_some_and(|by| by.contains(REPORTER)))
}

/// Until when an event says that something is withheld.
fn told_until(event: &Value) -> Option<Timestamp> {
    let (_, rest) = event["message"].as_str()?.split_once(TOLD)?;
    let written = rest.split_whitespace().next()?;
    written.trim_end_matches([':', ';', ',']).parse().ok()
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
    async fn nobody_is_told_that_something_is_withheld_for_ever_or_still_when_that_is_over() {
        for (until, when_healed, before) in [
            ("2026-11-16T10:00:30Z", true, false),
            ("2026-11-16T10:04:00Z", false, false),
            ("2026-11-16T11:00:00Z", false, false),
            ("2126-01-01T00:00:00Z", true, true),
        ] {
            for (healed, skewed) in [(true, false), (false, false), (false, true)] {
                let mut stage = Stage::new().await;
                if healed {
                    stage.judge.healed(std::time::Duration::ZERO);
                }
                if skewed {
                    stage.struck("k15-skew", "+60 s for replica 0");
                }
                stage.pass(400).await;
                let message = format!("bxf-2x8 in us-south-1 as spot is withheld until {until}: Shortage");
                write::insert(
                    &stage.server,
                    json!({
                        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
                        "involvedObject": {"uid": "u"}, "reason": "FailedScheduling", "message": message,
                        "reportingComponent": "karpenter-ibm",
                    }),
                );
                stage.look();
                let blamed = if healed { when_healed } else { before && !skewed };
                assert_eq!(stage.blamed() == ["L8"], blamed, "{until}");
            }
        }
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
