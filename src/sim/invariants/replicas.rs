//! S20: no replica panics or ends by itself.

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::sim::history::{Entry, What, Who};

pub(super) struct Replicas;

impl Check for Replicas {
    fn observe(&mut self, entry: &Entry, _: &Book, _: &Truth<'_>, found: &mut Findings) {
        if let (What::Turn(turn), Who::Replica { .. }) = (&entry.what, &entry.who)
            && (turn.starts_with("panicked") || turn.starts_with("ended by itself"))
        {
            found.blame("S20", entry.at, format!("{} {turn}", entry.who));
        }
    }
}
