//! Looks that show the past, and decisions that are not taken because of the next one.

use std::collections::BTreeSet;

use http::Method;

use super::{Hits, STALE_VIEW};
use crate::sim::history::{Answer, Edge, Entry, Request, What, Who};
use crate::sim::invariants::{Book, Sent, target};

/// The ids of machines that were said to be gone although they are there and a claim needs them.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubts(BTreeSet<String>);

impl Doubts {
    pub(super) fn observe(&mut self, entry: &Entry, book: &Book, hits: &mut Hits<'_>) {
        if self.0.is_empty() && !matches!(entry.what, What::Answer(_)) {
            return;
        }
        self.0.retain(|id| is_needed(id, book));
        match (&entry.what, &entry.who) {
            (What::Request(request), Who::Replica { .. }) if request.method == Method::DELETE => {
                self.gave_in(request, book);
            }
            (What::Answer(answer), Who::Replica { .. }) => {
                let sent = book.answered.as_ref();
                if let Some(sent) = sent.filter(|sent| looks(&sent.request)) {
                    self.looked(sent, answer, book, hits);
                }
            }
            _ => {}
        }
    }

    /// Somebody deletes a machine, or its claim or Node: he believed it.
    fn gave_in(&mut self, request: &Request, book: &Book) {
        let last = request.path.rsplit('/').next().unwrap_or_default();
        self.0.retain(|id| {
            let machine = book.machines.get(id);
            let claim = machine.and_then(|machine| book.claims.get(machine.claim.as_ref()?));
            id != last && claim.is_none_or(|claim| claim.name != last)
        });
    }

    fn looked(&mut self, sent: &Sent, answer: &Answer, book: &Book, hits: &mut Hits<'_>) {
        match (answer.status, target(&sent.request)) {
            (Some(404), Some(id)) if is_needed(id, book) => {
                self.0.insert(id.to_owned());
            }
            (Some(200), _) => {
                let shown: Vec<String> = self.0.iter().filter(|id| shows(answer, id)).cloned().collect();
                for id in shown {
                    self.0.remove(&id);
                    hits.hit(STALE_VIEW);
                }
            }
            _ => {}
        }
    }
}

/// Whether a request reads machines: one by its id, or several.
fn looks(request: &Request) -> bool {
    request.edge == Edge::Cloud && request.method == Method::GET && request.path.starts_with("/v1/instances")
}

/// Whether a machine is there, for a claim that nobody wants gone.
fn is_needed(id: &str, book: &Book) -> bool {
    let machine = book.machines.get(id).filter(|machine| machine.is_live());
    let claim = machine.and_then(|machine| book.claims.get(machine.claim.as_ref()?));
    claim.is_some_and(|claim| claim.deleting.is_none() && claim.gone.is_none())
}

fn shows(answer: &Answer, id: &str) -> bool {
    memchr::memmem::find(&answer.body, id.as_bytes()).is_some()
}
