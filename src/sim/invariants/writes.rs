//! S14: no write without a change. A write that changes nothing is answered with the version that was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::book::{Book, Sent};
use super::{Check, Findings, Truth};
use crate::sim::history::{Answer, Edge, Entry, What, Who};

/// Replicas that overlap write the same at about the same time.
const OVERLAP: Duration = Duration::from_mins(2);

#[derive(Default)]
pub(super) struct Writes {
    /// Objects of which the last writer did not learn whether the write was carried out: it has to write again.
    unsure: BTreeSet<String>,
    /// Who wrote an object last, and when.
    last: BTreeMap<String, (Who, Duration)>,
}

impl Check for Writes {
    fn observe(&mut self, entry: &Entry, book: &Book, _: &Truth<'_>, found: &mut Findings) {
        let (What::Answer(answer), Some(sent)) = (&entry.what, &book.answered) else {
            return;
        };
        let writes = matches!(sent.request.method, Method::PUT | Method::PATCH);
        if sent.request.edge != Edge::Kube || !writes || sent.request.query.contains("dryRun") {
            return;
        }
        let path = &sent.request.path;
        let others = self
            .last
            .get(path)
            .is_some_and(|(who, at)| *who != sent.who && entry.at.saturating_sub(*at) < OVERLAP);
        if changed_nothing(answer, sent) && !self.unsure.contains(path) && !others {
            let message = format!("{} {path} changed nothing", sent.request.method);
            found.blame("S14", entry.at, message);
        }
        match answer.status {
            // Requests that were refused, or never sent on, left everything as it was.
            Some(status) if status < 500 => self.unsure.remove(path),
            _ => self.unsure.insert(path.clone()),
        };
        self.last.insert(path.clone(), (sent.who.clone(), entry.at));
    }
}

fn changed_nothing(answer: &Answer, sent: &Sent) -> bool {
    let object: Value = match answer.status {
        Some(200) => serde_json::from_slice(&answer.body).unwrap_or_default(),
        _ => return false,
    };
    let version = object["metadata"]["resourceVersion"].as_str();
    // Deleting the last finalizer answers with the version of the removal.
    let version: Option<u64> = version.and_then(|version| version.parse().ok());
    version.is_some_and(|version| version <= sent.revision)
}
