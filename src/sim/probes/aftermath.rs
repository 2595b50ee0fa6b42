//! What the operator made of what others did: that somebody did it proves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::{FINALIZER_STRIPPED, Hits, MACHINE_DELETED, RECREATED};
use crate::api::names::TERMINATION_FINALIZER;
use crate::cloud::InstanceName;
use crate::sim::history::{Edge, Entry, Request, What, Who};
use crate::sim::invariants::{Book, target};
use crate::sim::kube::object;

/// What others did that nobody has reacted to yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Aftermath {
    /// Names of claims that somebody took the finalizers off.
    stripped: BTreeSet<String>,
    /// When claims were replaced by others, by their name.
    recreated: BTreeMap<String, Duration>,
    /// Uids of claims that stayed when somebody deleted their machine.
    bereft: BTreeSet<String>,
}

impl Aftermath {
    pub(super) fn observe(&mut self, entry: &Entry, book: &Book, hits: &mut Hits<'_>) {
        match (&entry.what, &entry.who) {
            (What::Fault { name, detail }, _) => self.struck(name, detail, entry.at, book),
            (What::Request(request), Who::Replica { .. }) => self.gives_back(request, book, hits),
            _ => {}
        }
        for change in &book.changed.claims {
            let bound = |claim: &Value| object::finalizers(claim).contains(&TERMINATION_FINALIZER);
            let was_bound = change.before.as_deref().is_some_and(bound);
            if !was_bound && bound(&change.after) && self.stripped.remove(object::name(&change.after)) {
                hits.hit(FINALIZER_STRIPPED);
            }
            let goes = change.deleted || object::is_deleting(&change.after);
            if goes && self.bereft.remove(object::uid(&change.after)) {
                hits.hit(MACHINE_DELETED);
            }
        }
        for id in &book.new_machines {
            let claim = book.machines.get(id).and_then(|machine| machine.claim.as_ref());
            if let Some(claim) = claim {
                self.bought(claim, book, hits);
            }
        }
    }

    fn struck(&mut self, name: &str, detail: &str, at: Duration, book: &Book) {
        let claim = || detail.strip_prefix("nodeclaims/").map(str::to_owned);
        match name {
            "k14-strip-finalizer" => self.stripped.extend(claim()),
            "k10-recreated" => self.recreated.extend(claim().map(|claim| (claim, at))),
            "k14-delete-machine" => {
                let uid = InstanceName::of_machine(detail).map(|name| name.claim_uid());
                let stays = |uid: &String| book.claims.get(uid).is_some_and(|claim| claim.deleting.is_none());
                self.bereft.extend(uid.filter(stays));
            }
            _ => {}
        }
    }

    fn gives_back(&mut self, request: &Request, book: &Book, hits: &mut Hits<'_>) {
        if request.edge != Edge::Cloud || request.method != Method::DELETE {
            return;
        }
        let machine = target(request).and_then(|id| book.machines.get(id));
        let claim = machine.and_then(|machine| book.claims.get(machine.claim.as_ref()?));
        if claim.is_some_and(|claim| claim.gone.is_some() && self.stripped.remove(&claim.name)) {
            hits.hit(FINALIZER_STRIPPED);
        }
    }

    fn bought(&mut self, uid: &str, book: &Book, hits: &mut Hits<'_>) {
        if self.bereft.remove(uid) {
            hits.hit(MACHINE_DELETED);
        }
        let Some(claim) = book.claims.get(uid) else { return };
        let is_new = |at: &Duration| claim.seen >= *at;
        if self.recreated.get(&claim.name).is_some_and(is_new) {
            self.recreated.remove(&claim.name);
            hits.hit(RECREATED);
        }
    }
}
