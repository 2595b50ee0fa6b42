//! One consistent list of all claims and of the pools whose limits they count against, which serves every purchase that waits for one.
//!
//! A purchase rests on a read that began after its intent was written. Lists are numbered in the order in which they
//! begin; whoever has written takes the number of the last that has begun, and is served by any later one. So a hundred
//! claims at once cost a few lists, not a hundred.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::api::{NodeClaim, NodePool};
use crate::controllers::context::Context;
use crate::lifecycle::facts::Facts;

/// How old a list may be from which is chosen. The check rests on a younger one.
const RECENT: Duration = Duration::from_secs(5);

/// How many lists had begun at some moment: what was written before it is in every later list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

/// All claims, as they were at one moment.
#[derive(Clone, Debug)]
pub(super) struct Census {
    /// When it was asked for, on the monotonic clock.
    pub(super) asked_at: Instant,
    /// Every claim.
    pub(super) claims: Arc<Vec<NodeClaim>>,
    /// Every pool.
    pub(super) pools: Arc<Vec<NodePool>>,
    number: u64,
}

impl Census {
    /// Whether everything is in it that was written before `moment`.
    pub(super) fn is_after(&self, moment: Moment) -> bool {
        self.number > moment.0
    }

    /// Whether the intent of `claim` is in it as it is known here.
    pub(super) fn counts(&self, claim: &NodeClaim) -> bool {
        let uid = claim.metadata.uid.as_ref();
        let mut listed = self.claims.iter().filter(|it| it.metadata.uid.as_ref() == uid);
        listed.any(|it| it.allocation() == claim.allocation())
    }
}

/// The last list, and the way to the next.
#[derive(Debug, Default)]
pub(super) struct Censuses {
    begun: AtomicU64,
    last: Mutex<Option<Census>>,
}

impl Censuses {
    /// Now.
    pub(super) fn moment(&self) -> Moment {
        Moment(self.begun.load(Ordering::Relaxed))
    }

    /// A moment from which on a list still counts as recent, for whoever needs no more than that.
    pub(super) async fn before(&self, context: &Context) -> Moment {
        let last = self.last.lock().await;
        let fresh = context.clock.real(RECENT);
        let is_recent =
            |census: &&Census| context.clock.instant().saturating_duration_since(census.asked_at) < fresh;
        let recent = last.as_ref().filter(is_recent);
        recent.map_or_else(|| self.moment(), |census| Moment(census.number - 1))
    }

    /// A list that began after `moment`. Those who wait for the same one are served together.
    pub(super) async fn after(&self, context: &Context, moment: Moment) -> Result<Census, kube::Error> {
        let mut last = self.last.lock().await;
        if let Some(census) = last.as_ref().filter(|census| census.is_after(moment)) {
            return Ok(census.clone());
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let asked_at = context.clock.instant();
        let claims: Api<NodeClaim> = Api::all(context.client.clone());
        // No resourceVersion: answered from the latest state, not from a cache.
        let list = claims.list(&ListParams::default()).await?;
        let pools: Api<NodePool> = Api::all(context.client.clone());
        let pools = pools.list(&ListParams::default()).await?;
        let census = Census {
            asked_at,
            claims: Arc::new(list.items),
            pools: Arc::new(pools.items),
            number,
        };
        *last = Some(census.clone());
        Ok(census)
    }
}
