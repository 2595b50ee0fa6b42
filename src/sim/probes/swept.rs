//! Rare answers of the cloud, and what is swept up.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;

use super::{DELETE_404, FOREIGN_SEEN, Hits, ORPHAN_SWEPT, PAGE_FAILED, RETRY_AFTER};
use crate::sim::history::{Answer, Edge, Entry, Request, What, Who};
use crate::sim::invariants::{Book, Sent, service, target};

/// Until when services wanted to be left alone, by replica.
#[derive(Clone, Debug, Default)]
pub(super) struct Services {
    closed: BTreeMap<(Who, &'static str), Duration>,
}

impl Services {
    pub(super) fn observe(&mut self, entry: &Entry, book: &Book, hits: &mut Hits<'_>) {
        match (&entry.what, &entry.who) {
            (What::Request(request), Who::Replica { .. }) if request.edge == Edge::Cloud => {
                self.asked(entry, request, book, hits);
            }
            (What::Answer(answer), Who::Replica { .. }) => {
                if let Some(sent) = book
                    .answered
                    .as_ref()
                    .filter(|sent| sent.request.edge == Edge::Cloud)
                {
                    self.answered(entry, answer, sent, book, hits);
                }
            }
            _ => {}
        }
    }

    fn asked(&mut self, entry: &Entry, request: &Request, book: &Book, hits: &mut Hits<'_>) {
        let key = (entry.who.clone(), service(&request.path));
        if self.closed.get(&key).is_some_and(|until| *until <= entry.at) {
            self.closed.remove(&key);
            hits.hit(RETRY_AFTER);
        }
        let machine = target(request).and_then(|id| book.machines.get(id));
        let claim = machine.and_then(|machine| machine.claim.as_ref());
        let orphan = claim.is_some_and(|uid| book.claims.get(uid).is_none_or(|claim| claim.gone.is_some()));
        if request.method == Method::DELETE && orphan {
            hits.hit(ORPHAN_SWEPT);
        }
    }

    fn answered(&mut self, entry: &Entry, answer: &Answer, sent: &Sent, book: &Book, hits: &mut Hits<'_>) {
        let request = &sent.request;
        let lists = request.method == Method::GET && request.path == "/v1/instances";
        let refused = answer.status.is_none_or(|status| status >= 400);
        if lists && refused && request.query.contains("start=") {
            hits.hit(PAGE_FAILED);
        }
        if lists && !refused && shows_foreign(answer, book) {
            hits.hit(FOREIGN_SEEN);
        }
        let there = target(request)
            .and_then(|id| book.machines.get(id))
            .is_some_and(|machine| machine.gone.is_none());
        if request.method == Method::DELETE && answer.status == Some(404) && there {
            hits.hit(DELETE_404);
        }
        let seconds: Option<u64> = answer.retry_after.as_deref().and_then(|text| text.parse().ok());
        if let (Some(429), Some(seconds @ 1..=30)) = (answer.status, seconds) {
            let key = (entry.who.clone(), service(&request.path));
            self.closed.insert(key, entry.at + Duration::from_secs(seconds));
        }
    }
}

fn shows_foreign(answer: &Answer, book: &Book) -> bool {
    let foreign = book
        .machines
        .values()
        .filter(|machine| machine.claim.is_none() && machine.gone.is_none());
    let mut ids = foreign.map(|machine| machine.id.as_bytes());
    ids.any(|id| memchr::memmem::find(&answer.body, id).is_some())
}
