//! When a pass begins: pods that come together are planned for together.
//!
//! The first pod opens a window, which closes when none has come for a while, or after a longer while in any case, or at
//! once when somebody is in a hurry. Where no pod waits, nothing opens one.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::doubt::Doubt;
use super::quarantine::Quarantine;
use crate::cluster::{Marks, State};
use crate::controllers::context::Context;

/// Who is in a hurry has written what makes pods wait; the watch shows it a moment later.
const HURRY: Duration = Duration::from_secs(2);

/// How long pods that have just come are left to the scheduler before it is looked whether it has found a node for them.
const LEFT_TO_OTHERS: Duration = Duration::from_secs(1);

/// What a pass is wanted for.
pub(super) struct Wanted<'a> {
    /// What was known when the last one began.
    pub(super) seen: Option<Marks>,
    /// When to look again although nothing has changed.
    pub(super) again_at: Option<Instant>,
    /// What is not looked at for a while: when that is over, a pass is due.
    pub(super) but: &'a Quarantine,
    /// Whether the last one left pods to the scheduler that had just come.
    pub(super) coming: bool,
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
/// too long.
pub(super) async fn gather(context: &Context, wanted: &Wanted<'_>, doubt: &mut Doubt) -> Due {
    let mut state = context.cluster.subscribe();
    let mut hurried: Option<Instant> = None;
    let mut coming = wanted.coming;
    // The sender is the context's own: it does not go while we wait.
    _ = state.wait_for(State::is_whole).await;
    loop {
        let known = state.borrow_and_update().marks;
        let now = context.clock.instant();
        let is_hurried =
            hurried.is_some_and(|at| now.saturating_duration_since(at) < context.clock.real(HURRY));
        let news = wanted.seen != Some(known);
        let is_time = wanted.again_at.is_some_and(|at| at <= now);
        let (wall, but) = (context.clock.now(), wanted.but.at(now));
        let (needy, pending) = context
            .cluster
            .with(|index| (index.has_needy(wall, &but), index.pods.count_waiting()));
        let have_come = coming && needy;
        coming = context.cluster.with(|index| index.expects_needy(wall));
        context.metrics.pending(pending);
        if !needy {
            context.metrics.nothing_to_plan();
        }
        // Before any look: who hurries is told once, and a look would forget it.
        if needy && is_hurried {
            return Due::Pass;
        }
        let look_at = context
            .cluster
            .with(|index| doubt.look_at(index.claims.unconfirmed(), now, &context.clock));
        if look_at.is_some_and(|at| at <= now) {
            doubt.begin_anew();
            return Due::Look;
        }
        if needy && is_time || have_come && !news {
            return Due::Pass;
        }
        if (needy || coming) && news {
            window(context, &mut state).await;
            let (wall, but) = (context.clock.now(), wanted.but.at(context.clock.instant()));
            if context.cluster.with(|index| index.has_needy(wall, &but)) {
                return Due::Pass;
            }
            continue;
        }
        let patience = if coming { LEFT_TO_OTHERS } else { super::AGAIN };
        let next = now + context.clock.real(patience);
        let again = wanted.again_at.filter(|at| *at > now).unwrap_or(next).min(next);
        let again = look_at.unwrap_or(again).min(again);
        tokio::select! {
            biased;
            () = context.hurry.notified() => hurried = Some(context.clock.instant()),
            _ = state.changed() => {}
            () = tokio::time::sleep_until(again) => {}
        }
    }
}

async fn window(context: &Context, state: &mut watch::Receiver<State>) {
    let (clock, settings) = (&context.clock, &context.settings.batch);
    let closes = clock.instant() + clock.real(settings.max);
    let mut demand = state.borrow_and_update().marks.demand;
    let mut quiet = clock.instant() + clock.real(settings.idle);
    loop {
        tokio::select! {
            biased;
            () = context.hurry.notified() => return,
            _ = state.changed() => {
                let now = state.borrow_and_update().marks.demand;
                if now != demand {
                    demand = now;
                    quiet = clock.instant() + clock.real(settings.idle);
                }
            }
            () = tokio::time::sleep_until(quiet.min(closes)) => return,
        }
    }
}
