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

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;

    #[tokio::test(start_paused = true)]
    async fn a_replica_dies_only_when_it_is_killed() {
        let mut stage = Stage::new().await;
        for turn in ["started", "crashed after effect 3", "paused", "resumed"] {
            stage.turns(0, turn);
        }
        assert!(stage.blamed().is_empty());
        stage.turns(0, "panicked");
        stage.turns(1, "ended by itself");
        assert_eq!(stage.blamed(), ["S20"; 2]);
    }
}
