//! "Sometimes" probes: rare things that a campaign must have met, recognized from the history and the truth.
//!
//! A campaign in which one of [`REGISTERED`] was never hit has not tested what it claims to. Probes judge nothing: what
//! must not happen is for the invariants.

mod aftermath;
mod cluster;
mod doubts;
mod pods;
mod purchases;
mod replicas;
mod swept;

use std::collections::BTreeMap;

use super::history::Entry;
use super::invariants::{Book, Truth};

/// Declares the probes that the features built so far can reach: constant, name, what it stands for.
macro_rules! probes {
    ($($constant:ident = $name:literal, $what:literal;)*) => {
        $(const $constant: &str = $name;)*

        /// Every probe that must be hit, and what it stands for.
        pub const REGISTERED: &[(&str, &str)] = &[$(($name, $what),)*];
    };
}

probes! {
    LOST_THEN_ADOPTED = "create-answer-lost-then-adopted", "an order's answer was lost, and its machine found and kept";
    LATE_CREATE = "late-create-arrived", "a machine appeared seconds after its order was given up for lost";
    DUPLICATE_NAME = "duplicate-name-on-retry", "an order was refused because our own machine had the name already";
    FOREIGN_NAME = "name-conflict-foreign", "somebody else's machine held the name that a claim needs";
    TOKEN_EXPIRED = "token-expired-mid-create", "an order was refused with 401";
    NO_CAPACITY = "async-no-capacity", "a machine was accepted and then could not start for want of capacity";
    OVER_QUOTA = "order-refused-over-quota", "an order was refused because the account has as much as it may";
    NO_ADDRESS = "order-refused-without-address", "an order was refused because its subnet had no address left";
    WITHDRAWN = "ordered-what-is-gone", "an order was refused because its profile or image is gone";
    SECOND_ATTEMPT = "second-attempt-bought", "another machine was bought for a claim after the first came to nothing";
    OTHER_MACHINE = "other-machine-than-ordered", "a machine of another profile or zone than ordered was kept";
    PREEMPTED_LEAVING = "preempted-during-drain", "a spot machine was taken back while its claim was being deleted";
    PREEMPTED_EARLY = "preempted-before-registration", "a spot machine was taken back before it had joined";
    PAGE_FAILED = "list-page-failed", "a list of machines failed after its first page";
    RETRY_AFTER = "retry-after-honored", "a service named a time, and was asked again after it";
    STALE_VIEW = "stale-view-deleted-nothing", "a machine that a claim needs was said to be gone, found by a second look, and nothing deleted";
    DELETE_404 = "delete-answered-404-while-there", "a delete was answered with 404 although the machine is there";
    ORPHAN_SWEPT = "orphan-swept", "a machine of ours without a claim was deleted";
    FOREIGN_SEEN = "foreign-machine-left-alone", "a machine that is not ours was among those listed";
    FINALIZER_STRIPPED = "finalizer-stripped", "a finalizer that somebody took off was put back, or the machine of a claim that went with it given back";
    MACHINE_DELETED = "machine-deleted-by-hand", "a claim whose machine somebody deleted was given up, or another machine bought for it";
    RECREATED = "claim-recreated-under-its-name", "a machine was bought for a claim that had replaced another of its name";
    UNSEEN = "claim-created-and-deleted-unseen", "a claim came and went without any replica being told";
    STALE_CLAIM = "stale-claim-shown-while-deleting", "a replica was shown a claim as it was before its deletion began";
    PRUNED = "allocation-pruned", "an older definition dropped an allocation";
    CONFLICT = "conflict-answered", "a write was refused because the object had changed";
    RELISTED = "watch-expired", "a watch ended with 410";
    CRASH_BEFORE_CREATE = "crash-between-intent-and-create", "a replica died with an intent written and nothing bought";
    CRASH_BEFORE_RECORD = "crash-between-create-and-record", "a replica died with a machine bought and not recorded";
    LEADER_LOST = "leader-lost-mid-create", "a Lease passed on between an order and the record of its machine";
    HANDED_OVER = "handed-over-mid-create", "a leader gave its Lease back between an order and the record of its machine";
    TWO_LEADERS = "two-leaders-overlap", "a replica acted although another held its Lease";
    ON_ITS_WAY = "pod-placed-on-claim-in-flight", "a pod was given a place on a claim that was made for others and is on its way";
    LEFT_OUT = "pod-left-out-with-reason", "a pod for which no node can be found or bought was told why";
    LIMIT_REACHED = "limit-reached-exactly", "a machine was ordered with which its pool has exactly as much as it may";
    BREAKER_HELD = "breaker-held-a-purchase", "a purchase was held back because there are as many machines as there may be in all";
    LIMIT_HELD = "limit-held-pods-back", "a pod was told that a pool has as much as it may";
    PLANNED_AHEAD = "planned-before-evicted", "a claim was made for a pod that was still on a node that goes";
    PREEMPTED_WITH_PODS = "preempted-with-pods", "a spot machine was taken back from under pods";
    UNDISTURBED = "undisturbed-while-node-leaves", "a pod on a node that goes was from then on not to be disturbed";
    EVICTED = "pod-evicted", "a pod left a node that goes because it was asked to";
    BUDGET_BLOCKED = "budget-blocked-eviction", "a pod left a node that goes only after its disruption budget had held it there";
    OFFERED_AGAIN = "ordered-again-after-its-hold", "an offering was ordered again when the time for which it was withheld was over";
    PAUSED = "paused-past-its-lease", "a replica stood still for longer than its Lease lasts, then went on";
}

/// How often each rare thing was seen.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// By name.
    pub hits: BTreeMap<&'static str, u64>,
    places: pods::Places,
    orders: purchases::Orders,
    watchers: cluster::Watchers,
    services: swept::Services,
    doubts: doubts::Doubts,
    leaders: replicas::Leaders,
    aftermath: aftermath::Aftermath,
}

impl Probes {
    /// Looks at what just happened.
    pub(super) fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>) {
        let mut hits = Hits(&mut self.hits);
        self.places.observe(entry, book, truth, &mut hits);
        self.orders.observe(entry, book, truth, &mut hits);
        self.watchers.observe(entry, book, truth, &mut hits);
        self.services.observe(entry, book, &mut hits);
        self.doubts.observe(entry, book, &mut hits);
        self.leaders.observe(entry, book, truth, &mut hits);
        self.aftermath.observe(entry, book, &mut hits);
    }
}

/// Counts.
struct Hits<'a>(&'a mut BTreeMap<&'static str, u64>);

impl Hits<'_> {
    fn hit(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }
}

#[cfg(test)]
mod tests;
