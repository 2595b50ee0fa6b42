//! A1: every plan that is made for pods is legal in the eyes of somebody who does not know how it was made.

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::sim::history::{Entry, What};

/// What a turn begins with that tells of a plan that is not.
pub const ILLEGAL_PLAN: &str = "illegal plan: ";

pub(super) struct Plans;

impl Check for Plans {
    fn observe(&mut self, entry: &Entry, _: &Book, _: &Truth<'_>, found: &mut Findings) {
        if let What::Turn(turn) = &entry.what
            && let Some(finding) = turn.strip_prefix(ILLEGAL_PLAN)
        {
            found.blame("A1", entry.at, finding);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;
    use super::*;
    use crate::sim::history::Who;

    #[tokio::test(start_paused = true)]
    async fn a_plan_that_is_not_legal_fails_the_run() {
        let mut stage = Stage::new().await;
        stage.happens(Who::World, What::Turn("healing".to_owned()));
        assert!(stage.blamed().is_empty());
        stage.happens(Who::World, What::Turn(format!("{ILLEGAL_PLAN}Room: too much")));
        assert_eq!(stage.blamed(), ["A1"]);
    }
}
