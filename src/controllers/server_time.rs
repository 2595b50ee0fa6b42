//! What the API server's clock says.
//!
//! Our wall clock may be wrong, by years if a machine lost its battery. What is reckoned from the server's own stamps (when
//! a claim was made, when a pod was told to go) is therefore judged by the server's clock. It is asked by whoever has such a
//! decision before it, at most once a minute; in between the monotonic clock goes on from its answer, so a wall clock that
//! jumps changes nothing.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::clock::{Clock, between, later};

/// For how long an answer is gone on from: the server's own clock may be set right meanwhile.
const FRESH: Duration = Duration::from_mins(1);
/// Clocks that are further apart than this are worth a warning.
const APART_MAX: Duration = Duration::from_mins(1);

/// The API server's clock. Clones share what it said last.
#[derive(Clone)]
pub struct ServerTime {
    client: kube::Client,
    clock: Clock,
    last: Arc<Mutex<Option<Reading>>>,
}

/// What the server's clock said, and when that was heard.
#[derive(Clone, Copy, Debug)]
struct Reading {
    stamp: Timestamp,
    heard_at: Instant,
}

impl ServerTime {
    /// The clock of the server that `client` talks to.
    pub fn new(client: kube::Client, clock: Clock) -> Self {
        Self {
            client,
            clock,
            last: Arc::default(),
        }
    }

    /// The time there, never ahead of it: stamps are whole seconds, and an answer is on its way for a while.
    pub async fn now(&self) -> kube::Result<Timestamp> {
        // Held while the server is asked: one answer serves all who wait.
        let mut last = self.last.lock().await;
        let is_fresh = |reading: &Reading| self.passed_since(reading) < FRESH;
        let reading = match last.filter(is_fresh) {
            Some(reading) => reading,
            None => *last.insert(self.ask().await?),
        };
        Ok(later(reading.stamp, self.passed_since(&reading)))
    }

    fn passed_since(&self, reading: &Reading) -> Duration {
        let now = self.clock.instant();
        self.clock.own(now.saturating_duration_since(reading.heard_at))
    }

    /// Asks the server who we are, which it stamps with its time.
    async fn ask(&self) -> kube::Result<Reading> {
        let reviews: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let review = reviews
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await?;
        let ours = self.clock.now();
        // Without a stamp there is but our own clock; every server since 1.28 sends one.
        let stamp = review.metadata.creation_timestamp.map_or(ours, |stamp| stamp.0);
        if between(stamp, ours).max(between(ours, stamp)) > APART_MAX {
            tracing::warn!(
                %ours, servers = %stamp,
                "our clock and the API server's are apart: the server's decides; set the clock of this machine"
            );
        }
        Ok(Reading {
            stamp,
            heard_at: self.clock.instant(),
        })
    }
}
