//! How machines misbehave, when they are told to: what no cloud promises and every fleet has seen.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Something that is odd about a machine, for as long as it lives.
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
}

/// A behavior and how many machines in a hundred have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Oddity {
    /// What is odd.
    pub behavior: Behavior,
    /// In how many of a hundred.
    pub percent: u8,
}

/// What may be odd about machines that come up from now on. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Oddities(Arc<Mutex<Vec<Oddity>>>);

impl Oddities {
    /// Replaces the list. Machines that are up stay as they are.
    pub fn set(&self, oddities: Vec<Oddity>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = oddities;
    }

    /// What one machine has of it.
    pub fn draw(&self, rng: &mut Rng) -> Vec<Behavior> {
        let oddities = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut drawn = Vec::new();
        for oddity in oddities.iter() {
            // Drawn for each, so that one less in the list changes nothing about those before it.
            if rng.u8(..100) < oddity.percent {
                drawn.push(oddity.behavior);
            }
        }
        drawn
    }
}

/// How long a machine keeps its kubelet from starting; `None` for ever.
pub fn joins_after(behaviors: &[Behavior]) -> Option<Duration> {
    let mut wait = Duration::ZERO;
    for behavior in behaviors {
        match behavior {
            Behavior::NeverJoins => return None,
            Behavior::JoinsLate { seconds } => wait = Duration::from_secs(*seconds),
            Behavior::LessMemory { .. } | Behavior::Flaps { .. } => {}
        }
    }
    Some(wait)
}

/// How many percent of the memory are missing.
pub fn memory_missing(behaviors: &[Behavior]) -> u8 {
    let missing = behaviors.iter().map(|behavior| match behavior {
        Behavior::LessMemory { percent } => *percent,
        _ => 0,
    });
    missing.max().unwrap_or(0).min(100)
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

    #[test]
    fn machines_draw_what_they_have_and_nothing_is_odd_by_default() {
        let oddities = Oddities::default();
        assert_eq!(oddities.draw(&mut Rng::with_seed(1)), []);
        let late = Behavior::JoinsLate { seconds: 60 };
        let less = Behavior::LessMemory { percent: 10 };
        oddities.set(vec![
            Oddity {
                behavior: late,
                percent: 100,
            },
            Oddity {
                behavior: less,
                percent: 0,
            },
        ]);
        assert_eq!(oddities.draw(&mut Rng::with_seed(1)), [late]);
    }

    #[test]
    fn never_is_later_than_late() {
        let late = Behavior::JoinsLate { seconds: 60 };
        assert_eq!(joins_after(&[late]), Some(Duration::from_mins(1)));
        assert_eq!(joins_after(&[late, Behavior::NeverJoins]), None);
        assert_eq!(joins_after(&[]), Some(Duration::ZERO));
        assert_eq!(memory_missing(&[Behavior::LessMemory { percent: 7 }, late]), 7);
    }
}
