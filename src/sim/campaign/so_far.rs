//! What is known of work that somebody ends before it is done.

use std::cell::RefCell;
use std::time::Duration;

use super::line::Line;
use super::report::Report;

/// Outlives the work, which is dropped where it stands when a signal comes.
#[derive(Debug, Default)]
pub(super) struct SoFar(RefCell<Known>);

#[derive(Debug, Default)]
enum Known {
    #[default]
    Nothing,
    Campaign(Report),
    Shrunk(String),
}

impl SoFar {
    /// A seed of a campaign has ended, so long after its beginning.
    pub(super) fn add(&self, line: Line, real: Duration) {
        let mut report = self.report();
        report.real = real;
        report.add(line);
        *self.0.borrow_mut() = Known::Campaign(report);
    }

    /// The report of the campaign, which it is given back with.
    pub(super) fn report(&self) -> Report {
        match self.0.take() {
            Known::Campaign(report) => report,
            Known::Nothing | Known::Shrunk(_) => Report::default(),
        }
    }

    /// There is a shorter plan: the page about it.
    pub(super) fn shrunk(&self, page: String) {
        *self.0.borrow_mut() = Known::Shrunk(page);
    }

    /// What is to be told of it, if anything came of it.
    pub(super) fn page(&self) -> Option<String> {
        match &*self.0.borrow() {
            Known::Nothing => None,
            Known::Campaign(report) => Some(report.to_string()),
            Known::Shrunk(page) => Some(page.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::campaign::line::Verdict;
    use crate::sim::campaign::line::tests::fine;

    #[test]
    fn a_campaign_that_is_ended_tells_of_the_seeds_that_were_through() {
        let so_far = SoFar::default();
        assert_eq!(so_far.page(), None);
        so_far.add(fine(1), Duration::from_secs(1));
        let failing = Line {
            verdict: Verdict::Crash,
            ..fine(2)
        };
        so_far.add(failing, Duration::from_secs(2));
        let page = so_far.page().unwrap();
        assert!(
            page.starts_with("2 seeds, ") && page.contains(" in 2.0 s\n"),
            "{page}"
        );
        assert!(page.contains("--replay 2\n"), "{page}");
        assert_eq!(page.lines().last(), Some("1 passed, 1 failed"));
    }

    #[test]
    fn the_shortest_plan_so_far_is_told() {
        let so_far = SoFar::default();
        so_far.shrunk("long".to_owned());
        so_far.shrunk("short".to_owned());
        assert_eq!(so_far.page().as_deref(), Some("short"));
    }
}
