//! When injections begin and end, in order.

use std::time::Duration;

use crate::sim::faults::{Fault, Plan};

/// Something that is done to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The injection at this place of the plan ends.
    End(usize),
    /// The injection at this place of the plan begins.
    Begin(usize),
}

/// Everything that a plan does, by time; what ends goes before what begins. What happens once has no end.
pub fn timeline(plan: &Plan) -> Vec<(Duration, Change)> {
    let changes = plan.injections.iter().enumerate().flat_map(|(place, injection)| {
        let end = ends(&injection.fault).then_some((injection.at + injection.lasts, Change::End(place)));
        [Some((injection.at, Change::Begin(place))), end]
            .into_iter()
            .flatten()
    });
    let mut changes: Vec<(Duration, Change)> = changes.collect();
    changes.sort();
    // What lasts no time begins before it ends all the same.
    let momentary = |place: usize| plan.injections[place].lasts.is_zero();
    changes.sort_by_key(|(at, change)| {
        let late = matches!(change, Change::End(place) if momentary(*place));
        (*at, late)
    });
    changes
}

/// Whether it is over when its time is: of what others do, only that which they take back.
fn ends(fault: &Fault) -> bool {
    match fault {
        Fault::Crash { .. } | Fault::Handover { .. } => false,
        Fault::ThirdParty(meddling) => meddling.kind.lasts(),
        Fault::Kube(_)
        | Fault::Cloud(_)
        | Fault::Pause { .. }
        | Fault::Skew { .. }
        | Fault::Machine { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::faults::{Injection, Meddling, MeddlingKind, Upon};

    fn injection(at: u64, lasts: u64, fault: Fault) -> Injection {
        Injection {
            at: Duration::from_secs(at),
            lasts: Duration::from_secs(lasts),
            stream: at,
            fault,
        }
    }

    #[test]
    fn ends_go_before_beginnings_and_crashes_have_none() {
        let pause = || Fault::Pause {
            replica: 0,
            upon: Upon::Now,
        };
        let crash = Fault::Crash {
            replica: 0,
            after_effects: 0,
            upon: Upon::Now,
        };
        let plan = Plan {
            injections: vec![
                injection(10, 5, pause()),
                injection(15, 5, pause()),
                injection(3, 0, crash),
                injection(12, 0, pause()),
            ],
        };
        let order: Vec<(u64, Change)> = timeline(&plan)
            .into_iter()
            .map(|(at, change)| (at.as_secs(), change))
            .collect();
        let expected = [
            (3, Change::Begin(2)),
            (10, Change::Begin(0)),
            (12, Change::Begin(3)),
            (12, Change::End(3)),
            (15, Change::End(0)),
            (15, Change::Begin(1)),
            (20, Change::End(1)),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn what_others_do_ends_if_they_take_it_back() {
        for &kind in MeddlingKind::ALL {
            let plan = Plan {
                injections: vec![injection(10, 5, Fault::ThirdParty(Meddling::new(kind)))],
            };
            let begins = (Duration::from_secs(10), Change::Begin(0));
            let ends = kind.lasts().then_some((Duration::from_secs(15), Change::End(0)));
            let expected: Vec<_> = [Some(begins), ends].into_iter().flatten().collect();
            assert_eq!(timeline(&plan), expected, "{kind:?}");
        }
    }
}
