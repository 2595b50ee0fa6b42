//! Tells in two lines what happens again and again.
//!
//! Whoever is refused asks again, and what is violated stays so: thousands of such lines hide the few that say why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::time;

/// So many lines that are alike are told each.
const TOLD_EACH: usize = 3;
/// What comes again later than this is news.
const AGAIN_WITHIN: Duration = Duration::from_mins(5);

/// Something that is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// When it happened.
    pub at: Duration,
    /// In a sentence.
    pub text: String,
    /// The same for all that is alike.
    pub shape: String,
}

/// One line for each thing; where more than three that are alike follow each other, whatever stands between them, the
/// first is told, and right below it how many more there are, and until when.
pub(super) fn fold(told: &[Told]) -> Vec<String> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for run in runs(told) {
        let first = run[0];
        let each = if run.len() > TOLD_EACH {
            &run[..1]
        } else {
            &run[..]
        };
        let line = |&place: &usize| (place, format!("{}  {}", time(told[place].at), told[place].text));
        lines.extend(each.iter().map(line));
        if run.len() > TOLD_EACH {
            lines.push((first, rest(told, &run)));
        }
    }
    // Stable, so that what sums up a run stays below its first line.
    lines.sort_by_key(|(place, _)| *place);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The places of all that is alike and not far apart, each run in order.
fn runs(told: &[Told]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut open: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    for (place, it) in told.iter().enumerate() {
        let (run, last) = open.entry(it.shape.as_str()).or_insert((runs.len(), it.at));
        if it.at.saturating_sub(*last) > AGAIN_WITHIN {
            *run = runs.len();
        }
        *last = it.at;
        match runs.get_mut(*run) {
            Some(run) => run.push(place),
            None => runs.push(vec![place]),
        }
    }
    runs
}

/// What is said of a run below its first line.
fn rest(told: &[Told], run: &[usize]) -> String {
    let different: BTreeSet<&str> = run.iter().map(|&place| told[place].text.as_str()).collect();
    let (first, last) = (&told[run[0]], &told[run[run.len() - 1]]);
    let more = run.len() - 1;
    let until = time(last.at);
    let until = until.trim_start();
    let what = match different.len() {
        1 => format!("{more} times more until {until}"),
        different => format!("{more} more like it until {until}, {different} different ones in all"),
    };
    format!("{}  … {what}", time(first.at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(seconds: u64, shape: &str, text: &str) -> Told {
        Told {
            at: Duration::from_secs(seconds),
            text: text.to_owned(),
            shape: shape.to_owned(),
        }
    }

    #[test]
    fn what_comes_again_and_again_is_told_once_with_how_often_and_until_when() {
        let pods = ["pods/a", "pods/b"];
        let mut all: Vec<Told> = (0..20)
            .map(|second| told(second * 60, "refused", pods[usize::from(second % 2 == 1)]))
            .collect();
        all.insert(1, told(1, "order", "orders a machine"));
        assert_eq!(
            fold(&all),
            [
                "  0:00.000  pods/a",
                "  0:00.000  … 19 more like it until 19:00.000, 2 different ones in all",
                "  0:01.000  orders a machine",
            ]
        );
        let same: Vec<Told> = (0..4).map(|second| told(second, "x", "x")).collect();
        assert_eq!(
            fold(&same),
            ["  0:00.000  x", "  0:00.000  … 3 times more until 0:03.000"]
        );
    }

    #[test]
    fn a_few_are_told_each_and_what_comes_again_much_later_is_news() {
        let few: Vec<Told> = (0..3).map(|second| told(second, "x", "x")).collect();
        assert_eq!(fold(&few).len(), 3);
        let later = [0, 1, 1000, 1001].map(|second| told(second, "x", "x"));
        assert_eq!(fold(&later).len(), 4);
    }

    proptest! {
        #[test]
        fn nothing_goes_untold(steps in prop::collection::vec((0_u64..400, 0_usize..4), 0..60)) {
            let mut now = 0;
            let all: Vec<Told> = steps.iter().map(|(pause, shape)| {
                now += pause;
                told(now, &shape.to_string(), "x")
            }).collect();
            let lines = fold(&all);
            let more = |line: &String| line.split("… ").nth(1).and_then(|it| it.split(' ').next()?.parse::<usize>().ok());
            let counted: usize = lines.iter().map(|line| more(line).unwrap_or(1)).sum();
            prop_assert_eq!(counted, all.len());
            prop_assert!(lines.iter().is_sorted_by_key(|line| line[..10].to_owned()), "{:?}", lines);
        }
    }
}
