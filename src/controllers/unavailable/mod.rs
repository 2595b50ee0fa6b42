//! What is not to be bought for a while: one `UnavailableOffering` for each hold, written first, and a cache of them that
//! offerings are built from.
//!
//! The object owns the fact. People see it with kubectl, deleting it lifts the hold, and a restart keeps it. The answer
//! of our own write counts at once, before the watch brings it. Nothing is said to be free before the first list was
//! read: an unread hold is a hold.

mod cache;
mod hold;

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::watch;

use super::metrics::Metrics;
use crate::api::{OfferingKey, UnavailableOffering};
use crate::clock::Clock;
use crate::model::{Hold, Withheld};
use cache::{Holdings, Listing};
use hold::Next;
pub use hold::{Cause, Holds};

/// Writers of one object at the same time are the replicas; three rounds settle two of them.
const TRIES_MAX: usize = 5;

/// How often objects are removed whose time is over. Nothing hangs on it: what is over withholds nothing.
const REMOVE_EVERY: Duration = Duration::from_mins(1);

/// The offerings that are withheld. Clones share what they know.
#[derive(Clone)]
pub struct Unavailable {
    client: kube::Client,
    clock: Clock,
    holds: Holds,
    metrics: Metrics,
    holdings: Holdings,
    knowledge: Arc<watch::Sender<Knowledge>>,
}

/// Whether all holds are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    /// The first list was not read yet.
    None,
    /// All that were there when it was read, and what has happened since.
    Whole,
}

/// Why a hold could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Kubernetes API refused or did not answer.
    #[error("withholding {key}: {source}")]
    Kube {
        /// What.
        key: String,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// Others changed the object each time.
    #[error("withholding {0}: others keep changing the object")]
    Contended(String),
}

impl Unavailable {
    /// Kept through `client`; nothing is known yet.
    pub fn new(client: kube::Client, clock: Clock, holds: Holds, metrics: Metrics) -> Self {
        Self {
            client,
            clock,
            holds,
            metrics,
            holdings: Holdings::new(),
            knowledge: Arc::new(watch::Sender::new(Knowledge::None)),
        }
    }

    /// Withholds what `key` covers: the object is written first, and its answer counts here at once. A hold that lasts
    /// as long already is left alone.
    pub async fn withhold(&self, key: &OfferingKey, cause: Cause) -> Result<Hold, Error> {
        let failed = |source: kube::Error| Error::Kube {
            key: key.to_string(),
            source: Box::new(source),
        };
        let (objects, name) = (self.objects(), key.object_name());
        for _ in 0..TRIES_MAX {
            let present = objects.get_opt(&name).await.map_err(failed)?;
            let written = match hold::next(present, key, cause, &self.holds, self.clock.now()) {
                Next::Enough(enough) => return Ok(self.counts(&enough)),
                Next::Create(object) => objects.create(&PostParams::default(), &object).await,
                Next::Replace(object) => objects.replace(&name, &PostParams::default(), &object).await,
            };
            match written {
                Ok(object) => {
                    tracing::info!(%key, until = %object.spec.until, reason = cause.as_str(), "withheld an offering");
                    self.metrics.withheld(cause.as_str());
                    return Ok(self.counts(&object));
                }
                // Somebody else was there first: look again.
                Err(kube::Error::Api(status)) if has_changed(&status) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(Error::Contended(key.to_string()))
    }

    fn counts(&self, object: &UnavailableOffering) -> Hold {
        self.holdings.apply(object);
        Hold {
            until: object.spec.until.0,
            reason: object.spec.reason.clone(),
        }
    }

    /// Lifts every hold of that cause: a machine was given back, so the quota has room again. What cannot be lifted now
    /// ends at its time.
    pub async fn lift(&self, cause: Cause) {
        self.remove(self.holdings.with_reason(cause.as_str())).await;
    }

    /// Waits until all holds are known.
    pub async fn known(&self) {
        let mut knowledge = self.knowledge.subscribe();
        // The sender is ours: it does not go while we wait.
        _ = knowledge.wait_for(|known| *known == Knowledge::Whole).await;
    }

    /// What is withheld at `now`; `None` as long as not all holds are known.
    pub fn snapshot(&self, now: Timestamp) -> Option<Withheld> {
        let known = *self.knowledge.borrow() == Knowledge::Whole;
        known.then(|| self.holdings.at(now))
    }

    /// Follows the objects and removes those whose time is over, for as long as this is polled.
    pub async fn run(&self) {
        // What was known in an earlier leadership may be old.
        self.knowledge.send_replace(Knowledge::None);
        let removal = async {
            loop {
                self.clock.sleep(REMOVE_EVERY).await;
                self.remove(self.holdings.over(self.clock.now())).await;
            }
        };
        tokio::select! {
            biased;
            () = self.follow() => {}
            () = removal => {}
        }
    }

    async fn follow(&self) {
        let events = watcher(self.objects(), watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let mut listing = Listing::default();
        loop {
            match events.try_next().await {
                Ok(Some(event)) => self.take(event, &mut listing),
                Ok(None) => return,
                // The stream goes on: it tries again after a while.
                Err(error) => tracing::warn!(%error, "watching the withheld offerings"),
            }
        }
    }

    fn take(&self, event: Event<UnavailableOffering>, listing: &mut Listing) {
        match event {
            Event::Init => *listing = self.holdings.listing(),
            Event::InitApply(object) => self.holdings.listed(listing, &object),
            Event::InitDone => {
                self.holdings.end(std::mem::take(listing));
                self.knowledge.send_replace(Knowledge::Whole);
            }
            Event::Apply(object) => self.holdings.apply(&object),
            Event::Delete(object) => self.holdings.lift(&object),
        }
    }

    /// Removes objects as they are known here. One that somebody changed meanwhile stays.
    async fn remove(&self, objects: Vec<UnavailableOffering>) {
        for object in objects {
            let as_known = DeleteParams::default().preconditions(Preconditions {
                uid: object.uid(),
                resource_version: object.resource_version(),
            });
            match self.objects().delete(&object.name_any(), &as_known).await {
                Ok(_) => self.holdings.lift(&object),
                Err(kube::Error::Api(status)) if has_changed(&status) => {}
                Err(error) => tracing::warn!(%error, object = object.name_any(), "cannot lift a hold"),
            }
        }
    }

    fn objects(&self) -> Api<UnavailableOffering> {
        Api::all(self.client.clone())
    }
}

fn has_changed(status: &kube::core::Status) -> bool {
    status.is_conflict() || status.is_already_exists() || status.is_not_found()
}
