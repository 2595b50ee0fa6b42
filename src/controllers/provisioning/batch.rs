//! When a pass begins: pods that come together are planned for together.
//!
//! The first pod without a place opens a window, which closes when none has come for a while that waits still, or after a
//! longer while in any case, or at once when somebody is in a hurry. Where no pod waits, nothing opens one; and whoever gets
//! a node at once holds up nobody.

use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::watch;
use tokio::time::Instant;

use super::doubt::Doubt;
use super::quarantine::Quarantine;
use crate::cluster::{Marks, State};
use crate::controllers::context::Context;

/// Who is in a hurry has written what makes pods wait; the watch shows it a moment later.
const HURRY: Duration = Duration::from_secs(2);

/// Pods that are left to the scheduler are looked at again after this at the latest, however wrong a clock is.
const LEFT_TO_OTHERS: Duration = Duration::from_secs(1);

/// So many arrivals are told apart; those before count as the oldest of these.
const ARRIVALS_MAX: usize = 1024;

/// What is known of the need for a pass.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    /// What was known when the last one began, or when nobody needed anything.
    seen: Option<Marks>,
    /// When to look again although nothing has changed.
    again_at: Option<Instant>,
    /// Whether there was a moment since at which nobody needed anything: whoever does now has come later.
    was_idle: bool,
}

impl Outlook {
    /// A pass begins, and this is known.
    pub(super) fn begin(&mut self, known: Marks) {
        *self = Self {
            seen: Some(known),
            ..Self::default()
        };
    }

    /// It is over, and what it could not do is looked at again then.
    pub(super) fn end(&mut self, again_at: Instant) {
        self.again_at = Some(again_at);
    }

    /// Nobody needs anything, and this is known.
    fn rest(&mut self, known: Marks) {
        *self = Self {
            seen: Some(known),
            again_at: None,
            was_idle: true,
        };
    }
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A pass: pods wait.
    Pass,
    /// A look at the claims themselves: nobody has told of one that we made.
    Look,
}

/// Waits until pods wait for which a pass is due, and for those that come with them, or a claim has been in doubt for
/// too long. What is in `but` is not looked at for a while: when that is over, a pass is due.
pub(super) async fn gather(
    context: &Context,
    outlook: &mut Outlook,
    but: &Quarantine,
    doubt: &mut Doubt,
) -> Due {
    let mut state = context.cluster.subscribe();
    let mut hurried: Option<Instant> = None;
    let mut arrivals = Arrivals::default();
    // The sender is the context's own: it does not go while we wait.
    _ = state.wait_for(State::is_whole).await;
    loop {
        let known = state.borrow_and_update().marks;
        let now = context.clock.instant();
        arrivals.note(known.last_arrival, now);
        let is_hurried =
            hurried.is_some_and(|at| now.saturating_duration_since(at) < context.clock.real(HURRY));
        let need = need(context, but);
        context.metrics.pending(need.pending);
        if !need.is_there {
            context.metrics.nothing_to_plan();
            outlook.rest(known);
        }
        let is_changed = outlook.seen.is_none_or(|seen| known.are_news_to(seen));
        let is_time = outlook.again_at.is_some_and(|at| at <= now);
        // Before any look: who hurries is told once, and a look would forget it.
        if need.is_there && is_hurried {
            return Due::Pass;
        }
        let look_at = context
            .cluster
            .with(|index| doubt.look_at(index.claims.unconfirmed(), now, &context.clock));
        if look_at.is_some_and(|at| at <= now) {
            doubt.begin_anew();
            return Due::Look;
        }
        if need.is_there && is_time {
            return Due::Pass;
        }
        if need.is_there && (is_changed || need.is_new || outlook.was_idle) {
            let opened = (is_changed || !need.is_new).then_some(now);
            match window(context, &mut state, &mut arrivals, opened).await {
                Closed::Hurried => hurried = Some(context.clock.instant()),
                Closed::Quiet if self::need(context, but).is_there => return Due::Pass,
                Closed::Quiet | Closed::Empty => {}
            }
            continue;
        }
        let next = now + context.clock.real(need.next_in.unwrap_or(super::AGAIN));
        let again = outlook.again_at.filter(|at| *at > now).unwrap_or(next).min(next);
        let again = look_at.unwrap_or(again).min(again);
        if rest(context, &mut state, &mut arrivals, again).await == Woken::Hurried {
            hurried = Some(context.clock.instant());
        }
    }
}

/// Why there is something to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    /// A plan may be another.
    Changed,
    /// It is time.
    Late,
    /// Somebody is in a hurry.
    Hurried,
}

/// Waits until then, or until something changes. Who comes, and who gets a node, is noted and not looked at for as long as
/// newcomers are left to the scheduler: a look goes over everybody who waits.
async fn rest(
    context: &Context,
    state: &mut watch::Receiver<State>,
    arrivals: &mut Arrivals,
    until: Instant,
) -> Woken {
    let (known, mut until) = (state.borrow().marks, until);
    loop {
        tokio::select! {
            biased;
            () = context.hurry.notified() => return Woken::Hurried,
            _ = state.changed() => {
                let (marks, now) = (state.borrow_and_update().marks, context.clock.instant());
                arrivals.note(marks.last_arrival, now);
                if marks.are_news_to(known) {
                    return Woken::Changed;
                }
                until = until.min(now + context.clock.real(LEFT_TO_OTHERS));
            }
            () = tokio::time::sleep_until(until) => return Woken::Late,
        }
    }
}

/// What pods need now.
struct Need {
    /// Whether any needs a place.
    is_there: bool,
    /// Whether any has come to need one without a word of the scheduler.
    is_new: bool,
    /// After how long the next might.
    next_in: Option<Duration>,
    /// How many wait, those included that have a claim on its way.
    pending: usize,
}

fn need(context: &Context, but: &Quarantine) -> Need {
    let (wall, but) = (context.clock.now(), but.at(context.clock.instant()));
    let left_to_others =
        |left: SignedDuration| Duration::try_from(left).unwrap_or_default().min(LEFT_TO_OTHERS);
    context.cluster.with(|index| Need {
        is_there: index.has_needy(wall, &but),
        is_new: index.has_newly_needy(wall, &but),
        next_in: index.pods.next_due(wall).map(left_to_others),
        pending: index.pods.count_due(wall),
    })
}

/// When those came who wait still. The last is what counts; when it finds a place, the one before it.
#[derive(Debug, Default)]
struct Arrivals {
    /// The how manieth pod, and when it had come at the latest; both only grow.
    came: Vec<(u64, Instant)>,
}

impl Arrivals {
    fn note(&mut self, last: u64, now: Instant) {
        let mut at = now;
        while let Some((_, came_at)) = self.came.pop_if(|(number, _)| *number > last) {
            at = came_at;
        }
        if self.came.last().map_or(0, |(number, _)| *number) < last {
            self.came.push((last, at));
        }
        if self.came.len() > ARRIVALS_MAX {
            self.came.remove(0);
        }
    }

    fn last_at(&self) -> Option<Instant> {
        self.came.last().map(|(_, at)| *at)
    }
}

/// Why a window is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    /// Nobody came for a while, or it was open for long enough.
    Quiet,
    /// Everybody who came has a place, and nothing else had opened it.
    Empty,
    /// Somebody is in a hurry.
    Hurried,
}

/// Waits for whoever comes along. Where something has changed, which may be the first of many changes, the window opens then;
/// else it is as old as the last arrival.
async fn window(
    context: &Context,
    state: &mut watch::Receiver<State>,
    arrivals: &mut Arrivals,
    opened: Option<Instant>,
) -> Closed {
    let (clock, settings) = (&context.clock, &context.settings.batch);
    let closes = clock.instant() + clock.real(settings.max);
    loop {
        let Some(last) = arrivals.last_at().max(opened) else {
            return Closed::Empty;
        };
        let quiet = last + clock.real(settings.idle);
        tokio::select! {
            biased;
            () = context.hurry.notified() => return Closed::Hurried,
            _ = state.changed() => {
                let known = state.borrow_and_update().marks;
                arrivals.note(known.last_arrival, clock.instant());
            }
            () = tokio::time::sleep_until(quiet.min(closes)) => return Closed::Quiet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn of_many_arrivals_the_last_are_told_apart() {
        let began = Instant::now();
        let mut arrivals = Arrivals::default();
        let at = |number: u64| began + Duration::from_secs(number);
        for number in 1..=5_000 {
            arrivals.note(number, at(number));
        }
        assert_eq!(arrivals.came.len(), ARRIVALS_MAX);
        arrivals.note(4_500, at(6_000));
        assert_eq!(arrivals.last_at(), Some(at(4_500)));
        arrivals.note(1, at(6_001));
        let oldest = 5_000 + 1 - u64::try_from(ARRIVALS_MAX).unwrap();
        assert_eq!(arrivals.last_at(), Some(at(oldest)), "no later than that");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_finds_a_place_is_no_arrival_any_more() {
        let began = Instant::now();
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.last_at(), None);
        let story = [
            // (after so many seconds, the last that waits, came after so many seconds)
            (1, 3, Some(1)),
            (2, 3, Some(1)),
            (3, 5, Some(3)),
            (4, 3, Some(1)),
            (5, 9, Some(5)),
            // The eighth came with the ninth at the latest.
            (6, 8, Some(5)),
            (7, 2, Some(1)),
            (8, 0, None),
            (9, 10, Some(9)),
        ];
        for (after, last, at) in story {
            arrivals.note(last, began + Duration::from_secs(after));
            let at = at.map(|seconds| began + Duration::from_secs(seconds));
            assert_eq!(arrivals.last_at(), at, "after {after} s");
        }
    }
}
