//! Rare moments of replicas: crashes at the worst time, Leases that pass on, two that think they lead.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::Value;

use super::{CRASH_BEFORE_CREATE, CRASH_BEFORE_RECORD, HANDED_OVER, Hits, LEADER_LOST, PAUSED, TWO_LEADERS};
use crate::api::names::LEADER_LEASE;
use crate::sim::history::{Edge, Entry, What, Who};
use crate::sim::invariants::{Book, Sent, Truth, bought_for};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::world::effects::effect;

/// Who leads, as far as the history tells.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaders {
    /// The holder of each Lease that somebody has held, by its name: the record of launches is a Lease that nobody ever
    /// holds.
    holders: BTreeMap<String, String>,
    /// As whom a replica took a Lease.
    identities: BTreeMap<usize, String>,
    /// The uids of claims for which an order was sent and no machine recorded yet.
    ordering: BTreeSet<String>,
}

impl Leaders {
    pub(super) fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, hits: &mut Hits<'_>) {
        self.follow(book, hits);
        let Who::Replica { number, .. } = entry.who else {
            return;
        };
        if let What::Request(request) = &entry.what {
            self.ordering.extend(bought_for(request));
        }
        match &entry.what {
            What::Request(request)
                if self.was_deposed(number)
                    && effect(request.edge, &request.method, &request.path).is_some() =>
            {
                hits.hit(TWO_LEADERS);
            }
            What::Answer(answer) => {
                if let Some(sent) = book.answered.as_ref().filter(|_| answer.status == Some(200)) {
                    self.learn(number, sent, &answer.body);
                }
            }
            What::Turn(turn) if turn.starts_with("crashed") => crashed(book, truth, hits),
            What::Turn(turn) if turn == "resumed" => {
                let paused = book.replicas.get(&number).and_then(|turns| turns.paused);
                let stood = paused.map(|paused| entry.at.saturating_sub(paused));
                if stood.is_some_and(|stood| stood > book.settings.lease) {
                    hits.hit(PAUSED);
                }
            }
            _ => {}
        }
    }

    fn follow(&mut self, book: &Book, hits: &mut Hits<'_>) {
        for change in &book.changed.claims {
            if change.deleted || change.after["status"]["allocation"]["instanceID"].is_string() {
                self.ordering.remove(object::uid(&change.after));
            }
        }
        for change in &book.changed.leases {
            let name = object::name(&change.after).to_owned();
            let holder = holder(&change.after).to_owned();
            if holder.is_empty() && !self.holders.contains_key(&name) {
                continue;
            }
            let before = self.holders.insert(name, holder.clone());
            let passed = before.is_some_and(|before| before != holder);
            if passed && !self.ordering.is_empty() {
                hits.hit(LEADER_LOST);
                if holder.is_empty() {
                    hits.hit(HANDED_OVER);
                }
            }
        }
    }

    fn learn(&mut self, number: usize, sent: &Sent, body: &[u8]) {
        let renews = matches!(sent.request.method, Method::PUT | Method::PATCH | Method::POST);
        if sent.request.edge != Edge::Kube || !renews || !sent.request.path.contains("/leases") {
            return;
        }
        // A replica has the same name in all its lives.
        if self.identities.contains_key(&number) {
            return;
        }
        let lease: Value = serde_json::from_slice(body).unwrap_or_default();
        if !holder(&lease).is_empty() {
            self.identities.insert(number, holder(&lease).to_owned());
        }
    }

    /// Whether somebody else leads by now.
    fn was_deposed(&self, number: usize) -> bool {
        let leads = self.holders.get(LEADER_LEASE).filter(|holder| !holder.is_empty());
        let own = self.identities.get(&number);
        leads.is_some() && own.is_some() && leads != own
    }
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// What the replica had begun when it died.
fn crashed(book: &Book, truth: &Truth<'_>, hits: &mut Hits<'_>) {
    let state = truth.kube.state();
    for stored in state
        .store
        .list(&TableKey::of("karpenter.sh", "nodeclaims"), None)
    {
        let claim = stored.value();
        let allocation = &claim["status"]["allocation"];
        if !allocation.is_object() || allocation["instanceID"].is_string() {
            continue;
        }
        let there = book
            .machines_of(object::uid(&claim))
            .any(|machine| machine.gone.is_none());
        hits.hit(if there {
            CRASH_BEFORE_RECORD
        } else {
            CRASH_BEFORE_CREATE
        });
    }
}
