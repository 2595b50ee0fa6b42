//! L4: when all is well nothing is done any more. L10: soon after its credentials are valid again, the operator works
//! with them.

use std::time::Duration;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::sim::history::{Edge, Entry, What, Who};
use crate::sim::world::effects::effect;

/// How soon after healing nobody is refused for want of rights any more.
const WORKS_AGAIN: Duration = Duration::from_secs(60);

pub(super) struct Quiet;

impl Check for Quiet {
    fn observe(&mut self, entry: &Entry, book: &Book, _: &Truth<'_>, found: &mut Findings) {
        let (What::Answer(answer), Some(sent), Who::Replica { .. }) =
            (&entry.what, &book.answered, &entry.who)
        else {
            return;
        };
        let (request, status) = (&sent.request, answer.status);
        let deed = effect(request.edge, &request.method, &request.path);
        // A machine that goes down by itself is a reason to act at any time.
        let quiet = book
            .quiet_since
            .is_some_and(|since| since <= sent.at && book.machine_changed < since);
        if quiet && deed.is_some() && status.is_some_and(|status| status < 300) {
            let message = format!("{} {} although nothing happened", request.method, request.path);
            found.blame("L4", entry.at, message);
        }
        let refused = request.edge == Edge::Cloud && matches!(status, Some(401 | 403));
        let late = book
            .healed_at
            .is_some_and(|healed| sent.at > healed + WORKS_AGAIN);
        if refused && late {
            let message = format!("{} {} is still refused", request.method, request.path);
            found.blame("L10", entry.at, message);
        }
    }
}
