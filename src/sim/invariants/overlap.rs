//! S12: two leaders that overlap break nothing of S1 to S4. What is broken while two act is blamed under this number as
//! well.
//!
//! Two act from when one stands still, which its Lease outlasts for a while only, until a little after it went on, if
//! another does something in that time: what the first had sent still lands, and it goes on with what it knew.

use std::collections::BTreeMap;
use std::time::Duration;

use super::book::{Book, Turns};
use super::{Findings, Violation};
use crate::sim::history::{Entry, What, Who};
use crate::sim::world::effects::effect;

/// What must hold whoever leads. S5 comes with voluntary disruption.
const WHOEVER_LEADS: [&str; 4] = ["S1", "S2", "S3", "S4"];
/// So long after it went on, what a replica does may rest on what it knew before.
const AFTERMATH: Duration = Duration::from_mins(2);

/// When each replica last did something, by its number.
#[derive(Default)]
pub(super) struct Overlap(BTreeMap<usize, Duration>);

impl Overlap {
    /// Takes note of what happened, and blames what it broke where two replicas act.
    pub(super) fn judge(&mut self, entry: &Entry, book: &Book, broken: &[Violation], found: &mut Findings) {
        if let (What::Request(request), Who::Replica { number, .. }) = (&entry.what, &entry.who)
            && effect(request.edge, &request.method, &request.path).is_some()
        {
            self.0.insert(*number, entry.at);
        }
        let by_any = broken.iter().filter(|it| WHOEVER_LEADS.contains(&it.id));
        for broken in by_any.filter(|_| self.two_act(entry.at, book)) {
            let message = format!("while two replicas act, {}: {}", broken.id, broken.message);
            found.blame("S12", entry.at, message);
        }
    }

    fn two_act(&self, now: Duration, book: &Book) -> bool {
        book.replicas.iter().any(|(number, turns)| {
            let since = turns.paused.filter(|_| is_or_was_lately_paused(turns, now));
            let mut others = self.0.iter().filter(|(other, _)| *other != number);
            since.is_some_and(|since| others.any(|(_, at)| *at >= since))
        })
    }
}

fn is_or_was_lately_paused(turns: &Turns, now: Duration) -> bool {
    let resumed = turns
        .resumed
        .filter(|_| turns.resumed >= turns.paused && turns.crashed < turns.paused);
    turns.is_paused() || resumed.is_some_and(|resumed| now.saturating_sub(resumed) < AFTERMATH)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::stage::Stage;
    use crate::sim::history::Edge;

    /// A healthy machine is deleted by replica 1.
    fn breaks_something(stage: &mut Stage, path: &str) {
        stage.sends(1, Edge::Cloud, &Method::DELETE, path, "");
    }

    async fn running(stage: &mut Stage) -> String {
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.pass(200).await;
        format!("/v1/instances/{id}")
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_broken_while_another_stands_still_is_the_fault_of_two() {
        let mut stage = Stage::new().await;
        let path = running(&mut stage).await;
        stage.turns(0, "paused");
        stage.pass(20).await;
        breaks_something(&mut stage, &path);
        assert_eq!(stage.blamed(), ["S3", "S12"]);
    }

    #[tokio::test(start_paused = true)]
    async fn and_shortly_after_it_went_on_but_not_much_later() {
        for (later, blamed) in [(100, &["S3", "S12"][..]), (121, &["S3"])] {
            let mut stage = Stage::new().await;
            let path = running(&mut stage).await;
            stage.turns(0, "paused");
            stage.pass(20).await;
            stage.turns(0, "resumed");
            stage.pass(later).await;
            breaks_something(&mut stage, &path);
            assert_eq!(stage.blamed(), blamed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_alone_or_after_a_crash_is_not_two() {
        let mut stage = Stage::new().await;
        let path = running(&mut stage).await;
        stage.turns(0, "paused");
        stage.turns(0, "crashed after effect 1");
        stage.pass(20).await;
        breaks_something(&mut stage, &path);
        assert_eq!(stage.blamed(), ["S3"]);
    }
}
