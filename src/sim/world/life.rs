//! One life of a replica: from its start with empty memory to its crash, with its effects numbered.
//!
//! The edges of a replica ask its life whether an answer still finds somebody, and tell it of each effect that landed;
//! the life decides that this was the last one.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::sim::faults::Upon;
use crate::sim::history::Who;

/// A life. Clones are the same life.
#[derive(Clone, Debug)]
pub struct Life(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    number: usize,
    life: u64,
    state: Mutex<State>,
    /// Asks it to stop.
    stop: CancellationToken,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    /// Wakes the task that carries the replica.
    waker: Option<Waker>,
    effects: u64,
    /// Dies when so many effects have landed.
    dies_at: Option<u64>,
    /// Dies when the next thing of that kind that it sends has landed.
    dies_upon: Option<Upon>,
    /// Stands still when it next sends something of that kind.
    halts_upon: Option<Upon>,
    /// Is asked to stop when it next sends something of that kind.
    stops_upon: Option<Upon>,
}

/// A death that has not come yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// After so many more effects.
    After(u64),
    /// When the next thing of that kind has landed.
    Upon(Upon),
}

/// What a life is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Its futures are polled.
    Running,
    /// None of its futures is polled; what it sent before still lands.
    Paused,
    /// It is gone, and nothing reaches it any more.
    Over,
}

impl Life {
    /// The `life`-th life, from 0, of replica `number`.
    pub fn new(number: usize, life: u64) -> Self {
        Self(Arc::new(Inner {
            number,
            life,
            state: Mutex::new(State {
                mode: Mode::Running,
                waker: None,
                effects: 0,
                dies_at: None,
                dies_upon: None,
                halts_upon: None,
                stops_upon: None,
            }),
            stop: CancellationToken::new(),
        }))
    }

    /// As the history names it.
    pub fn who(&self) -> Who {
        Who::Replica {
            number: self.0.number,
            life: self.0.life,
        }
    }

    /// Which life of its replica it is, from 0.
    pub fn ordinal(&self) -> u64 {
        self.0.life
    }

    /// What it is like now.
    pub fn mode(&self) -> Mode {
        self.state().mode
    }

    /// How many effects of it have landed.
    pub fn effects(&self) -> u64 {
        self.state().effects
    }

    /// Ends it when `more` further effects have landed: at once for none.
    pub fn die_after(&self, more: u64) {
        if more == 0 {
            return self.crash();
        }
        let mut state = self.state();
        state.dies_at = Some(state.effects + more);
    }

    /// Ends it when the next thing of that kind that it sends has landed, before it is told.
    pub fn die_upon(&self, upon: Upon) {
        self.state().dies_upon = Some(upon);
    }

    /// Something of that kind has landed: if it was to die of it, it is over when this returns, so the answer finds
    /// nobody.
    pub fn has_landed(&self, what: Upon) {
        let dies = {
            let mut state = self.state();
            let dies = state.dies_upon == Some(what);
            if dies {
                state.dies_upon = None;
            }
            dies
        };
        if dies {
            self.crash();
        }
    }

    /// What asks it to stop, from outside.
    pub fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Asks it to stop when it next sends something of that kind.
    pub fn stop_upon(&self, upon: Upon) {
        self.state().stops_upon = Some(upon);
    }

    /// Something of that kind has left it: says whether it is asked to stop now.
    pub fn must_stop(&self, sent: Upon) -> bool {
        let mut state = self.state();
        let stops = state.stops_upon == Some(sent) && state.mode == Mode::Running;
        if stops {
            state.stops_upon = None;
        }
        stops
    }

    /// Takes a death that has not come yet back, and says how far away it was.
    pub fn spare(&self) -> Option<Death> {
        let mut state = self.state();
        state.stops_upon = None;
        let (at, upon) = (state.dies_at.take(), state.dies_upon.take());
        let after = at.map(|at| Death::After(at.saturating_sub(state.effects)));
        after.or(upon.map(Death::Upon))
    }

    /// Ends it now.
    pub fn crash(&self) {
        self.change(Mode::Over);
    }

    /// Stops polling it, unless it is over.
    pub fn pause(&self) {
        self.change(Mode::Paused);
    }

    /// Stops polling it when it next sends something of that kind.
    pub fn pause_upon(&self, upon: Upon) {
        self.state().halts_upon = Some(upon);
    }

    /// Something of that kind has left it, or its last effect of those that were counted has landed: says whether it
    /// stands still from now on.
    pub fn has_sent(&self, what: Upon) -> bool {
        let halts = {
            let mut state = self.state();
            let halts = state.halts_upon == Some(what) && state.mode == Mode::Running;
            if halts {
                state.halts_upon = None;
            }
            halts
        };
        if halts {
            self.pause();
        }
        halts
    }

    /// Polls it again, unless it is over.
    pub fn resume(&self) {
        self.state().halts_upon = None;
        self.change(Mode::Running);
    }

    /// An effect of it landed: numbers it, from 1. If it was to die of it, it is over when this returns, so the
    /// answer finds nobody.
    pub fn landed(&self) -> u64 {
        let (number, dies) = {
            let mut state = self.state();
            state.effects += 1;
            let dies = state.dies_at.is_some_and(|at| state.effects >= at);
            if let Some(Upon::Effects(left)) = &mut state.halts_upon {
                *left = left.saturating_sub(1);
            }
            if dies {
                state.dies_at = None;
            }
            (state.effects, dies)
        };
        if dies {
            self.crash();
        }
        number
    }

    fn change(&self, mode: Mode) {
        let waker = {
            let mut state = self.state();
            if state.mode == Mode::Over {
                return;
            }
            state.mode = mode;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers whom to wake, and says what the life is like.
    fn attend(&self, waker: &Waker) -> Mode {
        let mut state = self.state();
        state.waker = Some(waker.clone());
        state.mode
    }
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was ended.
    Crashed,
    /// Its future returned: a program that stops by itself.
    Returned,
}

/// A future that obeys a life: dropped when it is over, not polled while it is paused.
pub struct Living {
    life: Life,
    future: BoxFuture<'static, ()>,
}

impl Living {
    /// Puts a future under a life.
    pub fn new(life: Life, future: BoxFuture<'static, ()>) -> Self {
        Self { life, future }
    }
}

impl Future for Living {
    type Output = Ending;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ending> {
        match self.life.attend(context.waker()) {
            Mode::Over => {
                // Its memory goes now, not when somebody drops the task.
                self.future = Box::pin(std::future::pending());
                Poll::Ready(Ending::Crashed)
            }
            Mode::Paused => Poll::Pending,
            Mode::Running => match self.future.as_mut().poll(context) {
                Poll::Ready(()) => {
                    self.life.crash();
                    Poll::Ready(Ending::Returned)
                }
                Poll::Pending if self.life.mode() == Mode::Over => {
                    self.future = Box::pin(std::future::pending());
                    Poll::Ready(Ending::Crashed)
                }
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    /// Counts the seconds that it lives.
    fn counting(life: &Life) -> (Arc<AtomicU64>, tokio::task::JoinHandle<Ending>) {
        let seconds = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&seconds);
        let future = async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        };
        let living = Living::new(life.clone(), Box::pin(future));
        (seconds, tokio::spawn(living))
    }

    async fn seconds(seconds: u64) {
        tokio::time::sleep(Duration::from_millis(seconds * 1000 + 500)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_life_is_not_polled_and_goes_on_where_it_was() {
        let life = Life::new(0, 0);
        let (count, _task) = counting(&life);
        seconds(3).await;
        assert_eq!(count.load(Ordering::Relaxed), 3);
        life.pause();
        seconds(10).await;
        assert_eq!(count.load(Ordering::Relaxed), 3);
        life.resume();
        seconds(3).await;
        assert!((6..=7).contains(&count.load(Ordering::Relaxed)));
    }

    #[test]
    fn it_stands_still_from_its_next_order_on_and_only_once() {
        let life = Life::new(0, 0);
        assert!(!life.has_sent(Upon::Order));
        life.pause_upon(Upon::Order);
        assert!(!life.has_sent(Upon::Renewal));
        assert!(life.has_sent(Upon::Order));
        assert_eq!(life.mode(), Mode::Paused);
        life.resume();
        assert!(!life.has_sent(Upon::Order));
    }

    #[tokio::test(start_paused = true)]
    async fn a_crash_ends_it_also_while_it_is_paused_and_drops_its_memory() {
        let life = Life::new(0, 0);
        let (count, task) = counting(&life);
        life.pause();
        seconds(1).await;
        life.crash();
        life.resume();
        assert_eq!(task.await.unwrap(), Ending::Crashed);
        assert_eq!(Arc::strong_count(&count), 1, "what the future held is dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn it_dies_of_the_effect_that_it_was_to_die_of() {
        let life = Life::new(1, 2);
        assert_eq!(life.landed(), 1);
        life.die_after(2);
        assert_eq!(life.landed(), 2);
        assert_eq!(life.mode(), Mode::Running);
        assert_eq!(life.landed(), 3);
        assert_eq!(life.mode(), Mode::Over);
    }

    #[test]
    fn it_stands_still_after_the_effect_that_was_counted_for_it() {
        let life = Life::new(0, 0);
        life.pause_upon(Upon::Effects(2));
        life.landed();
        assert!(!life.has_sent(Upon::Effects(0)));
        life.landed();
        assert!(life.has_sent(Upon::Effects(0)));
        assert_eq!(life.mode(), Mode::Paused);
        life.resume();
        assert!(!life.has_sent(Upon::Effects(0)), "once");
    }

    #[test]
    fn it_is_asked_to_stop_upon_its_next_order_and_only_once() {
        let life = Life::new(0, 0);
        life.stop_upon(Upon::Order);
        assert!(!life.must_stop(Upon::Renewal));
        assert!(life.must_stop(Upon::Order));
        assert!(!life.must_stop(Upon::Order));
        assert_eq!(
            life.mode(),
            Mode::Running,
            "it has a while to put its things in order"
        );
    }

    #[test]
    fn a_death_that_was_taken_back_does_not_come() {
        let life = Life::new(0, 0);
        life.die_after(1);
        assert_eq!(life.spare(), Some(Death::After(1)));
        life.landed();
        assert_eq!(life.mode(), Mode::Running);
        assert_eq!(life.spare(), None);
        life.die_upon(Upon::Order);
        assert_eq!(life.spare(), Some(Death::Upon(Upon::Order)));
        life.has_landed(Upon::Order);
        assert_eq!(life.mode(), Mode::Running);
    }

    #[test]
    fn it_dies_of_its_next_order_when_that_has_landed_and_of_nothing_else() {
        let life = Life::new(0, 0);
        life.has_landed(Upon::Order);
        life.die_upon(Upon::Order);
        life.landed();
        life.has_landed(Upon::Renewal);
        assert_eq!(life.mode(), Mode::Running);
        life.has_landed(Upon::Order);
        assert_eq!(life.mode(), Mode::Over);
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_that_returns_is_a_program_that_stopped() {
        let life = Life::new(0, 0);
        let living = Living::new(life.clone(), Box::pin(async {}));
        assert_eq!(living.await, Ending::Returned);
        assert_eq!(life.mode(), Mode::Over);
    }
}
