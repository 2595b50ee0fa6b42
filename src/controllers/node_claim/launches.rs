//! How many machines were ordered within the last hour, by this process and by those before it. An order that was refused
//! is none.
//!
//! Claims that are gone have launched too, so what claims hold does not tell. The orders are counted on the monotonic
//! clock, and kept by the minute in an annotation of a Lease that nobody holds: read before the first purchase, written
//! every half a minute in which something was ordered. What is forgotten is what was ordered in the last half a minute
//! before a crash and whose claim is gone besides.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::allocation::HOUR;
use crate::api::names;
use crate::clock::{between, later};
use crate::controllers::context::Context;

/// How often the record is written at most.
const KEPT_EVERY: Duration = Duration::from_secs(30);

/// The orders of the last hour.
#[derive(Debug, Default)]
pub(super) struct Launches {
    /// Those that count, the oldest first.
    sent: Mutex<VecDeque<Launch>>,
    /// Whether the record of earlier processes was read.
    read: OnceCell<()>,
}

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    /// When it was sent, by the wall clock of then: for the record.
    at: Timestamp,
    /// Until when it counts, which no wall clock moves.
    until: Instant,
}

impl Launches {
    /// Counts what processes before this one have ordered, once.
    pub(super) async fn recall(&self, context: &Context) -> Result<(), kube::Error> {
        let read = || async {
            let lease = leases(context).get_opt(names::LAUNCHES_LEASE).await?;
            let record = lease.map(|lease| record_of(&lease)).unwrap_or_default();
            let launches = recalled(&record, context.clock.now());
            let now = context.clock.instant();
            let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            for (at, left) in launches.into_iter().rev() {
                let until = now + context.clock.real(left);
                sent.push_front(Launch { at, until });
            }
            Ok(())
        };
        self.read.get_or_try_init(read).await.copied()
    }

    /// An order is sent. It counts until it is known that nothing was bought on it.
    pub(super) fn note(&self, context: &Context) -> Launch {
        let launch = Launch {
            at: context.clock.now(),
            until: context.clock.instant() + context.clock.real(HOUR),
        };
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.push_back(launch);
        launch
    }

    /// An order was refused, so it was no launch.
    pub(super) fn take_back(&self, launch: Launch) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(position) = sent.iter().rposition(|it| *it == launch) {
            sent.remove(position);
        }
    }

    /// How many were sent within the last hour.
    pub(super) fn lately(&self, context: &Context) -> u64 {
        let now = context.clock.instant();
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        while sent.front().is_some_and(|launch| launch.until <= now) {
            sent.pop_front();
        }
        u64::try_from(sent.len()).unwrap_or(u64::MAX)
    }

    /// Keeps the record, for as long as this is polled.
    pub(super) async fn keep(&self, context: &Context) {
        let mut kept = None;
        loop {
            context.clock.sleep(KEPT_EVERY).await;
            let last = self.last();
            if last.is_none() || last == kept {
                continue;
            }
            match self.write(context).await {
                Ok(()) => kept = last,
                Err(error) => tracing::warn!(%error, "what was launched lately is not written down"),
            }
        }
    }

    fn last(&self) -> Option<Launch> {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.back().copied()
    }

    async fn write(&self, context: &Context) -> Result<(), kube::Error> {
        self.recall(context).await?;
        self.lately(context);
        let record = {
            let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            written(sent.iter().map(|launch| launch.at))
        };
        let (leases, params) = (leases(context), PostParams::default());
        let found = leases.get_opt(names::LAUNCHES_LEASE).await?;
        let is_new = found.is_none();
        let mut lease = found.unwrap_or_default();
        // As recalled by a process that has just begun, and has ordered nothing yet.
        if record_of(&lease) == record {
            return Ok(());
        }
        lease.metadata.name = Some(names::LAUNCHES_LEASE.to_owned());
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(names::LAUNCHES.to_owned(), record);
        if is_new {
            leases.create(&params, &lease).await?;
        } else {
            leases.replace(names::LAUNCHES_LEASE, &params, &lease).await?;
        }
        Ok(())
    }
}

fn leases(context: &Context) -> Api<Lease> {
    Api::namespaced(context.client.clone(), &context.settings.namespace)
}

fn record_of(lease: &Lease) -> String {
    let annotations = lease.metadata.annotations.as_ref();
    let record = annotations.and_then(|annotations| annotations.get(names::LAUNCHES));
    record.cloned().unwrap_or_default()
}

/// The record: for each minute in which something was ordered, its start and how many.
fn written(sent: impl Iterator<Item = Timestamp>) -> String {
    let mut minutes: BTreeMap<i64, u32> = BTreeMap::new();
    for second in sent.map(Timestamp::as_second) {
        *minutes.entry(second - second.rem_euclid(60)).or_default() += 1;
    }
    let words = minutes.iter().filter_map(|(second, count)| {
        let minute = Timestamp::from_second(*second).ok()?;
        Some(format!("{minute}={count}"))
    });
    words.collect::<Vec<_>>().join(",")
}

/// The orders of a record, the oldest first, and for how long each still counts. What is older than an hour, from a clock
/// that was ahead, or no record at all does not count; nor does more than anybody could have ordered.
fn recalled(record: &str, now: Timestamp) -> Vec<(Timestamp, Duration)> {
    const MOST: usize = 100_000;
    let minutes = record.split(',').filter_map(|word| {
        let (minute, count) = word.split_once('=')?;
        let begun: Timestamp = minute.parse().ok().filter(|begun| *begun <= now)?;
        // As if sent when the minute ended: nothing is forgotten too soon.
        let sent = later(begun, Duration::from_mins(1)).min(now);
        let left = HOUR
            .checked_sub(between(sent, now))
            .filter(|left| !left.is_zero())?;
        Some(std::iter::repeat_n((begun, left), count.parse().ok()?))
    });
    let mut launches: Vec<(Timestamp, Duration)> = minutes.flatten().take(MOST).collect();
    launches.sort_unstable();
    launches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn what_was_written_is_recalled_to_the_minute_and_for_an_hour() {
        let sent = ["09:10:00", "09:58:30", "09:58:59", "09:59:55"];
        let record = written(sent.iter().map(|time| at(&format!("2026-11-16T{time}Z"))));
        assert_eq!(
            record,
            "2026-11-16T09:10:00Z=1,2026-11-16T09:58:00Z=2,2026-11-16T09:59:00Z=1"
        );
        let recalled = |now: &str| recalled(&record, at(now)).len();
        assert_eq!(recalled("2026-11-16T10:00:00Z"), 4);
        assert_eq!(recalled("2026-11-16T10:10:59Z"), 4);
        assert_eq!(recalled("2026-11-16T10:11:00Z"), 3);
        assert_eq!(recalled("2026-11-16T11:30:00Z"), 0);
        assert_eq!(recalled("2026-11-16T09:00:00Z"), 0, "a clock that was ahead");
    }

    #[test]
    fn what_is_no_record_counts_for_nothing() {
        for record in [
            "",
            "x",
            "2026-11-16T09:58:00Z",
            "2026-11-16T09:58:00Z=-1",
            "a=b,=,",
        ] {
            assert!(
                recalled(record, at("2026-11-16T10:00:00Z")).is_empty(),
                "{record}"
            );
        }
    }
}
