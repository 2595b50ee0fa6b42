//! Rare ways of a purchase.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    BREAKER_HELD, DUPLICATE_NAME, FOREIGN_NAME, Hits, LATE_CREATE, LIMIT_REACHED, LOST_THEN_ADOPTED,
    NO_ADDRESS, NO_CAPACITY, OFFERED_AGAIN, OTHER_MACHINE, OVER_QUOTA, PREEMPTED_EARLY, PREEMPTED_LEAVING,
    SECOND_ATTEMPT, TOKEN_EXPIRED, WITHDRAWN,
};
use crate::api::names::{LAUNCHED, REASON_HELD_BACK};
use crate::api::{CapacityType, OfferingKey};
use crate::sim::history::{Answer, Entry, Request, What, Who};
use crate::sim::ibm::Class;
use crate::sim::invariants::{Book, Sent, Truth, bought_for, is_reached_exactly, is_true};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

/// After so long without an answer the operator gives an order up for lost.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(30);

/// What became of orders, by the uid of their claim.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    /// When an order was sent whose answer said nothing, by claim.
    lost: BTreeMap<String, Duration>,
    /// What was ordered last: profile and zone.
    ordered: BTreeMap<String, (String, String)>,
    /// Whose machines were told to have failed already.
    failed: BTreeMap<String, &'static str>,
    /// Spot machines that were seen to go down, by id.
    down: BTreeSet<String>,
    /// Until when things were last withheld, by the names of their objects, which may be gone by then.
    holds: BTreeMap<String, Timestamp>,
    /// How far these objects have been read.
    read: u64,
}

impl Orders {
    pub(super) fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, hits: &mut Hits<'_>) {
        self.read_holds(truth);
        // Strangers take names of ours, too.
        if let (What::Request(request), Who::Replica { .. }) = (&entry.what, &entry.who)
            && let Some(claim) = bought_for(request)
        {
            if is_reached_exactly(&claim, truth) {
                hits.hit(LIMIT_REACHED);
            }
            if self.was_withheld(request, truth) {
                hits.hit(OFFERED_AGAIN);
            }
        }
        if let (What::Answer(answer), Some(sent)) = (&entry.what, &book.answered) {
            if let Some(claim) = bought_for(&sent.request) {
                self.answered(&claim, answer, sent, book, hits);
            }
            self.look_at_failures(book, hits);
        }
        Self::look_at_new(book, hits);
        for change in &book.changed.claims {
            self.look_at_claim(change.before.as_deref(), &change.after, book, hits);
        }
        for event in &book.changed.events {
            if event["reason"] == "NameTaken" {
                hits.hit(FOREIGN_NAME);
            }
        }
    }

    fn read_holds(&mut self, truth: &Truth<'_>) {
        let state = truth.kube.state();
        let table = TableKey::of("karpenter-ibm.sh", "unavailableofferings");
        let changed = state.store.changed_at(&table);
        if changed == self.read {
            return;
        }
        self.read = changed;
        for hold in state.store.list(&table, None).map(|stored| stored.shared()) {
            let until = hold["spec"]["until"].as_str().and_then(|text| text.parse().ok());
            if let Some(until) = until {
                self.holds.insert(object::name(&hold).to_owned(), until);
            }
        }
    }

    /// Whether what is ordered was withheld by itself until a time that is over.
    fn was_withheld(&self, request: &Request, truth: &Truth<'_>) -> bool {
        let order: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let text = |place: &str| order.pointer(place).and_then(Value::as_str).unwrap_or_default();
        let capacity = match text("/availability/class") {
            "spot" => CapacityType::Spot,
            _ => CapacityType::OnDemand,
        };
        let key = OfferingKey::one(capacity, text("/profile/name"), text("/zone/name")).ok();
        let until = key.and_then(|key| self.holds.get(&key.object_name()));
        until.is_some_and(|until| *until <= truth.now)
    }

    fn answered(&mut self, claim: &str, answer: &Answer, sent: &Sent, book: &Book, hits: &mut Hits<'_>) {
        let order: Value = serde_json::from_slice(&sent.request.body).unwrap_or_default();
        let text = |place: &str| {
            let value = order.pointer(place).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        self.ordered
            .insert(claim.to_owned(), (text("/profile/name"), text("/zone/name")));
        match answer.status {
            Some(201) if !answer.body.is_empty() => {
                self.lost.remove(claim);
            }
            Some(401) => hits.hit(TOKEN_EXPIRED),
            Some(400) if says(answer, "validation_unique_failed") => {
                let ours = book.machines_of(claim).any(|machine| machine.gone.is_none());
                hits.hit(if ours { DUPLICATE_NAME } else { FOREIGN_NAME });
            }
            Some(400) if says(answer, "over_quota") => hits.hit(OVER_QUOTA),
            Some(400) if says(answer, "subnet_out_of_ip_addresses") => hits.hit(NO_ADDRESS),
            Some(404) => hits.hit(WITHDRAWN),
            None | Some(500..) => {
                self.lost.insert(claim.to_owned(), sent.at);
                // Nobody listens any more when it becomes known that this was carried out.
                let is_late = |seen: Duration| seen.saturating_sub(sent.at) > GIVEN_UP_AFTER;
                let mut machines = book.machines_of(claim);
                if book.strikes("c1-late-create") > 0 && machines.any(|machine| is_late(machine.seen)) {
                    hits.hit(LATE_CREATE);
                }
            }
            _ => {}
        }
    }

    fn look_at_new(book: &Book, hits: &mut Hits<'_>) {
        for id in &book.new_machines {
            let Some(claim) = book.machines.get(id).and_then(|machine| machine.claim.as_ref()) else {
                continue;
            };
            if book.machines_of(claim).count() > 1 {
                hits.hit(SECOND_ATTEMPT);
            }
        }
    }

    fn look_at_failures(&mut self, book: &Book, hits: &mut Hits<'_>) {
        self.look_at_leaving(book, hits);
        for machine in book.machines.values() {
            let (Some(claim), Some(reason)) = (&machine.claim, machine.reason.as_deref()) else {
                continue;
            };
            let name = match reason {
                "cannot_start_capacity" => NO_CAPACITY,
                "stopped_by_preemption" => PREEMPTED_EARLY,
                _ => continue,
            };
            let registered = book.registered.contains(claim);
            if name == PREEMPTED_EARLY && registered {
                continue;
            }
            if self.failed.insert(machine.id.clone(), name).is_none() {
                hits.hit(name);
            }
        }
    }

    /// Spot machines that go down by themselves, the first time that this shows: a machine that is deleted does not stop.
    fn look_at_leaving(&mut self, book: &Book, hits: &mut Hits<'_>) {
        let stops = |status: &str, reason: Option<&str>| {
            status == "stopping" || reason == Some("stopped_by_preemption")
        };
        for machine in book.machines.values().filter(|it| it.class == Class::Spot) {
            let down = machine.gone.is_none() && stops(machine.status, machine.reason.as_deref());
            if !down || !self.down.insert(machine.id.clone()) {
                continue;
            }
            let claim = machine.claim.as_ref().and_then(|uid| book.claims.get(uid));
            if claim.is_some_and(|claim| claim.deleting.is_some()) {
                hits.hit(PREEMPTED_LEAVING);
            }
        }
    }

    fn look_at_claim(&mut self, before: Option<&Value>, after: &Value, book: &Book, hits: &mut Hits<'_>) {
        let uid = object::uid(after);
        let id = |claim: &Value| {
            claim["status"]["allocation"]["instanceID"]
                .as_str()
                .map(str::to_owned)
        };
        if id(after).is_some() && before.and_then(id).is_none() && self.lost.remove(uid).is_some() {
            hits.hit(LOST_THEN_ADOPTED);
        }
        if is_held(after) && !before.is_some_and(is_held) {
            hits.hit(BREAKER_HELD);
        }
        let newly = |kind| is_true(after, kind) && !before.is_some_and(|before| is_true(before, kind));
        if newly(LAUNCHED) {
            let ordered = self.ordered.get(uid);
            let kept = id(after).and_then(|id| book.machines.get(&id));
            if let (Some((profile, zone)), Some(machine)) = (ordered, kept)
                && (profile != machine.profile || *zone != machine.zone)
            {
                hits.hit(OTHER_MACHINE);
            }
        }
    }
}

/// Whether nothing is bought for a claim since there are as many machines as there may be.
fn is_held(claim: &Value) -> bool {
    let mut conditions = claim["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|it| {
        let says = it["message"].as_str().unwrap_or_default();
        it["reason"] == REASON_HELD_BACK && says.contains(" machines, and the limit is ")
    })
}

fn says(answer: &Answer, word: &str) -> bool {
    String::from_utf8_lossy(&answer.body).contains(word)
}
