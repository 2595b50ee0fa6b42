//! S1: at most one live machine per claim, and another only after the first was seen to fail. L11: nothing is bought that
//! is there already.

use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::book::{Book, own_name};
use super::{Check, Findings, Truth};
use crate::cloud::InstanceName;
use crate::sim::history::{Edge, Entry, Request, What, Who};

/// A machine that has been there for so long is found by whoever looks: the API shows a new one after 10 seconds at the
/// latest, a look-up and its purchase may lie 90 seconds apart (queues for permits, slow networks).
const VISIBLE_AFTER: Duration = Duration::from_mins(2);
/// A replica that stood still goes on with what it knew before; it must look again from then on.
const AWAKE_AFTER: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Purchases;

impl Check for Purchases {
    fn observe(&mut self, entry: &Entry, book: &Book, _: &Truth<'_>, found: &mut Findings) {
        for id in &book.new_machines {
            one_at_a_time(id, entry.at, book, found);
        }
        if let What::Request(request) = &entry.what
            && let Some(claim) = bought_for(request)
        {
            needed(&claim, entry, book, found);
        }
    }
}

fn one_at_a_time(id: &str, at: Duration, book: &Book, found: &mut Findings) {
    let Some(claim) = book.machines.get(id).and_then(|machine| machine.claim.as_deref()) else {
        return;
    };
    for other in book.machines_of(claim) {
        if other.id != id && other.is_live() {
            let (name, status) = (&other.name, other.status);
            found.blame(
                "S1",
                at,
                format!("machine {id} was made for claim {claim} while its machine {name} is {status}"),
            );
        }
    }
}

/// The uid of the claim that a create is for.
pub(super) fn bought_for(request: &Request) -> Option<String> {
    let creates =
        request.edge == Edge::Cloud && request.method == Method::POST && request.path == "/v1/instances";
    let body: Value = serde_json::from_slice(&request.body).ok().filter(|_| creates)?;
    let name: InstanceName = own_name(body["name"].as_str()?).parse().ok()?;
    Some(name.claim_uid())
}

fn needed(claim: &str, entry: &Entry, book: &Book, found: &mut Findings) {
    let Who::Replica { number, .. } = entry.who else {
        return;
    };
    let turns = book.replicas.get(&number);
    let resumed = turns.and_then(|turns| turns.resumed);
    if resumed.is_some_and(|resumed| entry.at.saturating_sub(resumed) < AWAKE_AFTER) {
        return;
    }
    for machine in book.machines_of(claim) {
        let age = entry.at.saturating_sub(machine.seen);
        if machine.is_live() && machine.has_its_own_name() && age > VISIBLE_AFTER {
            let message =
                format!("a machine is bought for claim {claim}, whose machine has been there for {age:?}");
            found.blame("L11", entry.at, message);
        }
    }
}
