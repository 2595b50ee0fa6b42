//! How machines misbehave, when they are told to: what no cloud promises and every fleet has seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Something that is odd about a machine, for as long as it lives; one that flaps does so while flapping is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behavior {
    /// Its kubelet never starts.
    NeverJoins,
    /// Its kubelet starts this many seconds late.
    JoinsLate { seconds: u64 },
    /// It has this many percent less memory than usual.
    LessMemory { percent: u8 },
    /// It is ready for `every` seconds, then not ready for `lasts` seconds, and so on.
    Flaps { every: u64, lasts: u64 },
    /// It has this many percent less disk than usual.
    LessDisk { percent: u8 },
    /// It takes this many percent fewer pods than it was told to.
    FewerPods { percent: u8 },
}

/// How many percent are missing of what a machine was to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Of its memory.
    pub memory: u8,
    /// Of its disk.
    pub disk: u8,
    /// Of the pods that it takes.
    pub pods: u8,
}

/// A behavior, how many machines in a hundred have it, and how many at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Oddity {
    /// What is odd.
    pub behavior: Behavior,
    /// In how many of a hundred.
    pub percent: u8,
    /// In how many more, if not in any number.
    pub left: Option<u32>,
}

/// What may be odd about machines that come up from now on. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Oddities(Arc<Mutex<Listed>>);

#[derive(Debug, Default)]
struct Listed {
    /// By whoever put them on the list.
    oddities: BTreeMap<u64, Oddity>,
    /// What came up odd since somebody asked last: how, and which machine.
    struck: Vec<(Behavior, String)>,
}

impl Oddities {
    /// Puts something on the list, under a number of the caller's.
    pub fn add(&self, number: u64, oddity: Oddity) {
        self.listed().oddities.insert(number, oddity);
    }

    /// Takes it off again. Machines that are up stay as they are, except that none flaps when nothing on the list does.
    pub fn remove(&self, number: u64) {
        self.listed().oddities.remove(&number);
    }

    /// What one machine has of it.
    pub fn draw(&self, machine: &str, rng: &mut Rng) -> Vec<Behavior> {
        let mut listed = self.listed();
        let mut drawn = Vec::new();
        for oddity in listed.oddities.values_mut() {
            // Drawn for each, so that one less in the list changes nothing about those before it.
            let strikes = rng.u8(..100) < oddity.percent;
            if strikes && oddity.left != Some(0) {
                oddity.left = oddity.left.map(|left| left - 1);
                drawn.push(oddity.behavior);
            }
        }
        let struck = drawn.iter().map(|behavior| (*behavior, machine.to_owned()));
        listed.struck.extend(struck);
        drawn
    }

    /// What came up odd since this was last asked: how, and which machine.
    pub fn take_strikes(&self) -> Vec<(Behavior, String)> {
        std::mem::take(&mut self.listed().struck)
    }

    /// Whether machines that flap do so now.
    pub fn is_flapping_on(&self) -> bool {
        let flaps = |oddity: &Oddity| matches!(oddity.behavior, Behavior::Flaps { .. });
        self.listed().oddities.values().any(flaps)
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a machine keeps its kubelet from starting; `None` for ever.
pub fn joins_after(behaviors: &[Behavior]) -> Option<Duration> {
    let mut wait = Duration::ZERO;
    for behavior in behaviors {
        match behavior {
            Behavior::NeverJoins => return None,
            Behavior::JoinsLate { seconds } => wait = Duration::from_secs(*seconds),
            Behavior::LessMemory { .. }
            | Behavior::Flaps { .. }
            | Behavior::LessDisk { .. }
            | Behavior::FewerPods { .. } => {}
        }
    }
    Some(wait)
}

/// What is missing of a machine.
pub fn missing(behaviors: &[Behavior]) -> Missing {
    let mut missing = Missing::default();
    for behavior in behaviors {
        match behavior {
            Behavior::LessMemory { percent } => missing.memory = missing.memory.max(*percent),
            Behavior::LessDisk { percent } => missing.disk = missing.disk.max(*percent),
            Behavior::FewerPods { percent } => missing.pods = missing.pods.max(*percent),
            Behavior::NeverJoins | Behavior::JoinsLate { .. } | Behavior::Flaps { .. } => {}
        }
    }
    missing
}

/// For how long a node is ready and then not.
pub fn flapping(behaviors: &[Behavior]) -> Option<(Duration, Duration)> {
    behaviors.iter().find_map(|behavior| match behavior {
        Behavior::Flaps { every, lasts } => {
            let at_least_one = |seconds: &u64| Duration::from_secs((*seconds).max(1));
            Some((at_least_one(every), at_least_one(lasts)))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn always(behavior: Behavior) -> Oddity {
        Oddity {
            behavior,
            percent: 100,
            left: None,
        }
    }

    #[test]
    fn machines_draw_what_they_have_and_nothing_is_odd_by_default() {
        let oddities = Oddities::default();
        let draw = || oddities.draw("a", &mut Rng::with_seed(1));
        assert_eq!(draw(), []);
        let late = Behavior::JoinsLate { seconds: 60 };
        let less = Behavior::LessMemory { percent: 10 };
        oddities.add(1, always(late));
        oddities.add(
            2,
            Oddity {
                percent: 0,
                ..always(less)
            },
        );
        assert_eq!(draw(), [late]);
        assert_eq!(oddities.take_strikes(), [(late, "a".to_owned())]);
        assert_eq!(oddities.take_strikes(), [], "told once");
        oddities.remove(1);
        assert_eq!(draw(), []);
    }

    #[test]
    fn no_more_machines_are_odd_than_were_to_be() {
        let oddities = Oddities::default();
        let once = Oddity {
            left: Some(1),
            ..always(Behavior::NeverJoins)
        };
        oddities.add(1, once);
        let mut rng = Rng::with_seed(1);
        assert_eq!(oddities.draw("a", &mut rng), [Behavior::NeverJoins]);
        assert_eq!(oddities.draw("b", &mut rng), []);
    }

    #[test]
    fn flapping_ends_when_it_is_taken_off_the_list_and_not_when_no_more_machines_get_it() {
        let oddities = Oddities::default();
        let once = Oddity {
            left: Some(1),
            ..always(Behavior::Flaps { every: 60, lasts: 9 })
        };
        oddities.add(1, once);
        oddities.draw("a", &mut Rng::with_seed(1));
        assert!(oddities.is_flapping_on());
        oddities.remove(1);
        assert!(!oddities.is_flapping_on());
    }

    #[test]
    fn never_is_later_than_late() {
        let late = Behavior::JoinsLate { seconds: 60 };
        assert_eq!(joins_after(&[late]), Some(Duration::from_mins(1)));
        assert_eq!(joins_after(&[late, Behavior::NeverJoins]), None);
        assert_eq!(joins_after(&[]), Some(Duration::ZERO));
    }

    #[test]
    fn what_is_missing_most_counts() {
        let (late, less) = (
            Behavior::JoinsLate { seconds: 60 },
            Behavior::LessMemory { percent: 7 },
        );
        assert_eq!(missing(&[late]), Missing::default());
        let memory = Missing {
            memory: 7,
            ..Missing::default()
        };
        assert_eq!(
            missing(&[less, late, Behavior::LessMemory { percent: 3 }]),
            memory
        );
        let all = Missing {
            memory: 7,
            disk: 30,
            pods: 50,
        };
        let others = [
            Behavior::LessDisk { percent: 30 },
            Behavior::FewerPods { percent: 50 },
        ];
        assert_eq!(missing(&[others[0], less, others[1]]), all);
    }
}
