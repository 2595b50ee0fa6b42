//! Early words that a machine may be about to go: from its kubelet, or pushed by the cloud. A word proves nothing; it
//! makes the machine be looked at.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a machine is looked at after a word about it: the notice is 30 seconds, and reads may lag by 15.
const ATTENTIVE_FOR: Duration = Duration::from_secs(90);
/// The most machines that are remembered: a wave is seen by one list, whoever is missing here.
const MACHINES_MAX: usize = 1000;

/// Machines that somebody gave a word about, by id. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    machines: Arc<Mutex<BTreeMap<String, Instant>>>,
    arrived: Arc<Notify>,
    listeners: Arc<AtomicUsize>,
}

/// Somebody looks at the machines that words are about, for as long as this lives.
#[derive(Debug)]
pub struct Listening(Arc<AtomicUsize>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Notices {
    /// Somebody listens from now on.
    pub fn listen(&self) -> Listening {
        self.listeners.fetch_add(1, Ordering::Relaxed);
        Listening(self.listeners.clone())
    }

    /// Whether anybody listens: a replica that does not lead looks at no machine, and a word to it would be lost.
    pub fn are_heard(&self) -> bool {
        self.listeners.load(Ordering::Relaxed) > 0
    }

    /// There is a word about a machine.
    pub fn tell(&self, machine: &str, now: Instant) {
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        if machines.len() < MACHINES_MAX || machines.contains_key(machine) {
            machines.insert(machine.to_owned(), now + ATTENTIVE_FOR);
        }
        self.arrived.notify_one();
    }

    /// Waits for the next word.
    pub(super) async fn next(&self) {
        self.arrived.notified().await;
    }

    /// Whoever asks for all machines next has heard every word so far: none of them makes for another look.
    pub(super) fn gathered(&self) {
        let _ = self.arrived.notified().now_or_never();
    }

    /// The machines that are to be looked at.
    pub fn machines(&self, now: Instant) -> Vec<String> {
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        machines.retain(|_, until| *until > now);
        machines.keys().cloned().collect()
    }

    /// A machine need not be looked at any more.
    pub(super) fn forget(&self, machine: &str) {
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        machines.remove(machine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_machine_is_looked_at_for_a_while_after_the_last_word_about_it() {
        let (notices, start) = (Notices::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        notices.tell("a", at(0));
        notices.tell("a", at(30));
        notices.tell("b", at(0));
        notices.next().await;
        assert_eq!(notices.machines(at(89)), ["a", "b"]);
        assert_eq!(notices.machines(at(91)), ["a"]);
        notices.forget("a");
        assert!(notices.machines(at(92)).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_words_is_bounded() {
        let notices = Notices::default();
        for number in 0..5000 {
            notices.tell(&number.to_string(), Instant::now());
        }
        assert_eq!(notices.machines(Instant::now()).len(), MACHINES_MAX);
    }
}
