//! The loop that runs the controllers of a cluster: watches into a view, the view into decisions, decisions into writes.
//!
//! One task and no threads. Everything that is ready is taken in before an actor is asked, its writes are carried out in
//! order, and their answers are applied at once, so that nobody decides on a view that lacks what it wrote itself. A
//! refused write is dropped, and its actor asked again when what it sees has changed or a second later. Given the same
//! requests, clock and answers, the history is the same.
//!
//! On a real control plane none of this runs: kube-controller-manager and kube-scheduler do the work there.

mod act;
mod agenda;
mod next;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;

pub use next::{Act, Actor, Next, Preconditions, Target};

use super::view::{Change, Kind, View};
use crate::clock::{Clock, between, later};
use act::Writer;
use agenda::{AFTER_REFUSAL, Agenda};
use watch::{Update, Watches};

/// Runs actors until it is dropped.
pub async fn run(client: Client, clock: Clock, actors: &[Actor]) {
    let mut plane = ControlPlane {
        watches: Watches::new(&client, &clock, &kinds_of(actors)),
        view: View::default(),
        agenda: Agenda::new(actors),
        bindings: Bindings::Changed,
        client,
        clock,
    };
    loop {
        plane.listen().await;
        if plane.watches.are_complete() {
            plane.settle().await;
        }
    }
}

fn kinds_of(actors: &[Actor]) -> BTreeSet<Kind> {
    actors
        .iter()
        .flat_map(|actor| actor.reads.iter().chain(actor.glances))
        .copied()
        .collect()
}

struct ControlPlane<'a> {
    client: Client,
    clock: Clock,
    watches: Watches,
    view: View,
    agenda: Agenda<'a>,
    bindings: Bindings,
}

/// Whether pods or nodes changed since it was last noted which nodes are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bindings {
    Noted,
    Changed,
}

impl ControlPlane<'_> {
    /// Waits until something is learnt or somebody's time has come.
    async fn listen(&mut self) {
        let due = self.agenda.due().map(|at| between(self.clock.now(), at));
        let alarm = async {
            match due {
                // Never less than a moment: an alarm that rings at once, again and again, would stop time.
                Some(wait) => self.clock.sleep(wait.max(Duration::from_millis(1))).await,
                None => std::future::pending().await,
            }
        };
        let updates = tokio::select! {
            biased;
            updates = self.watches.updates() => updates,
            () = alarm => Vec::new(),
        };
        self.learn(updates);
        // Whoever else is awake in this moment may write too; one decision on all of it is cheaper than one on each.
        tokio::task::yield_now().await;
    }

    /// Asks everybody who is to be asked, until nobody is.
    async fn settle(&mut self) {
        loop {
            let updates = self.watches.ready().await;
            self.learn(updates);
            let now = self.clock.now();
            if std::mem::replace(&mut self.bindings, Bindings::Noted) == Bindings::Changed {
                self.view.note_absence(now);
            }
            let Some((index, actor)) = self.agenda.take(now) else {
                return;
            };
            let next = (actor.next)(&self.view, now);
            self.agenda.again(index, next.again_at);
            self.carry_out(index, actor, next.acts).await;
        }
    }

    fn learn(&mut self, updates: Vec<Update>) {
        for update in updates {
            let change = (update.apply)(&mut self.view);
            self.note(update.kind, change);
        }
    }

    fn note(&mut self, kind: Kind, change: Change) {
        self.agenda.note(kind, change);
        if change == Change::Content && matches!(kind, Kind::Node | Kind::Pod) {
            self.bindings = Bindings::Changed;
        }
    }

    async fn carry_out(&mut self, index: usize, actor: &Actor, acts: Vec<Act>) {
        for act in acts {
            let writer = Writer {
                client: &self.client,
                actor: actor.name,
            };
            match writer.carry_out(act, &mut self.view).await {
                Ok((kind, change)) => self.note(kind, change),
                Err(error) => {
                    tracing::debug!(actor = actor.name, %error, "write refused");
                    let at = later(self.clock.now(), AFTER_REFUSAL);
                    self.agenda.again(index, Some(at));
                }
            }
        }
    }
}
