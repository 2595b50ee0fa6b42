//! What IBM sells in a region: its profiles with their prices, read now and then and kept in between.

mod kind;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::prices::{PriceTable, Prices};
use super::vpc::Vpc;
use super::vpc::types::InstanceProfile;
use crate::clock::Clock;
use crate::cloud::Error;
use crate::model::Kind;

/// How often the profiles are read. They change a few times a year, and one that is withdrawn meanwhile is refused when it
/// is ordered.
const EVERY: Duration = Duration::from_hours(1);

/// How old the list may be for whoever finds nothing in it, or was refused what is in it. Two pages each five minutes are
/// nothing beside ten requests a second, also where a pod can never be placed; and what was withdrawn for some minutes while
/// the list was read is not missed for an hour.
const RECENT: Duration = Duration::from_mins(5);

/// How long the last good list serves while it cannot be read: longer than most outages, and a profile that is
/// withdrawn meanwhile is refused when it is ordered.
const AT_MOST: Duration = Duration::from_hours(6);

/// How soon it is tried again after a failure, so that an outage is not made worse by every claim that asks.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// The kinds of machines of one region.
pub struct Kinds {
    vpc: Vpc,
    prices: Prices,
    clock: Clock,
    shelf: Mutex<Option<Shelf>>,
}

/// What was read last, and what was made of it.
struct Shelf {
    profiles: Vec<InstanceProfile>,
    read_at: Instant,
    /// When it is read again for anybody.
    again_at: Instant,
    /// When it is read again for whoever doubts it.
    recent_until: Instant,
    prices: Arc<PriceTable>,
    kinds: Arc<Vec<Kind>>,
}

impl Kinds {
    /// Those that `vpc` lists, at these prices; nothing is read yet.
    pub fn new(vpc: Vpc, prices: Prices, clock: Clock) -> Self {
        Self {
            vpc,
            prices,
            clock,
            shelf: Mutex::default(),
        }
    }

    /// Every kind of machine of the region, by name. Whoever asks while it is being read waits for the same answer. A
    /// failed read leaves the last good list, for as long as that may be relied upon.
    pub async fn get(&self) -> Result<Arc<Vec<Kind>>, Error> {
        self.read_when(|shelf| shelf.again_at).await
    }

    /// The same for whoever doubts what was read before: it is a few minutes old at most, unless it cannot be read.
    pub async fn recent(&self) -> Result<Arc<Vec<Kind>>, Error> {
        self.read_when(|shelf| shelf.again_at.min(shelf.recent_until))
            .await
    }

    /// What is on the shelf, read anew if it is time to.
    async fn read_when(&self, due: impl Fn(&Shelf) -> Instant + Send) -> Result<Arc<Vec<Kind>>, Error> {
        let mut shelf = self.shelf.lock().await;
        let now = self.clock.instant();
        if shelf.as_ref().is_none_or(|shelf| now >= due(shelf)) {
            match (self.vpc.list_instance_profiles().await, shelf.as_mut()) {
                (Ok(profiles), _) => *shelf = Some(self.shelf(profiles)),
                (Err(error), Some(old)) if now < old.read_at + self.clock.real(AT_MOST) => {
                    tracing::warn!(%error, "the profiles could not be read; the last list serves");
                    old.put_off(now, &self.clock);
                }
                (Err(error), _) => return Err(error),
            }
        }
        match shelf.as_mut() {
            Some(shelf) => Ok(shelf.at(self.prices.table())),
            // Cannot be: it was filled above, or an error returned.
            None => Ok(Arc::default()),
        }
    }

    fn shelf(&self, profiles: Vec<InstanceProfile>) -> Shelf {
        let (now, prices) = (self.clock.instant(), self.prices.table());
        Shelf {
            kinds: Arc::new(kinds(&profiles, &prices)),
            profiles,
            read_at: now,
            again_at: now + self.clock.real(EVERY),
            recent_until: now + self.clock.real(RECENT),
            prices,
        }
    }
}

impl Shelf {
    /// It could not be read. Whoever only doubts it does not make others wait for another try so soon.
    fn put_off(&mut self, now: Instant, clock: &Clock) {
        if now >= self.again_at {
            self.again_at = now + clock.real(AGAIN_AFTER);
        }
        self.recent_until = now + clock.real(RECENT);
    }

    /// What was read, at these prices.
    fn at(&mut self, prices: Arc<PriceTable>) -> Arc<Vec<Kind>> {
        if !Arc::ptr_eq(&self.prices, &prices) {
            self.kinds = Arc::new(kinds(&self.profiles, &prices));
            self.prices = prices;
        }
        Arc::clone(&self.kinds)
    }
}

/// The kinds that these profiles are, by name. What cannot be sized is left out.
fn kinds(profiles: &[InstanceProfile], prices: &PriceTable) -> Vec<Kind> {
    let kind = |profile: &InstanceProfile| {
        let kind = kind::of(profile, prices.quote(&profile.name));
        if kind.is_none() {
            tracing::debug!(
                profile = profile.name,
                "a profile that cannot be sized is not offered"
            );
        }
        kind
    };
    let mut kinds: Vec<Kind> = profiles.iter().filter_map(kind).collect();
    kinds.sort_by(|a, b| a.name.cmp(&b.name));
    kinds
}
