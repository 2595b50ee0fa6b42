//! What people do in a run: the steps of its scenario, each when its time has come.
//!
//! Under faults a step may be refused and an expectation unmet; the story goes on all the same, and what did not happen
//! is remembered. Between steps nobody looks, so that waiting costs nothing; only whoever is told a bill in the end has to
//! keep it all the while.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::cluster::Cluster;
use super::product::Findings;
use super::recorder::Recorder;
use super::replica::Replica;
use crate::sim::history::Who;
use crate::sim::scenario::player::{Audience, Failure, Hands, Line, Player, Voice};
use crate::sim::scenario::{Action, Configuration, Crash, Scenario, Step};

/// How often it is written down what runs, in a story with a bill: a machine runs for minutes.
const NOTED_EVERY: Duration = Duration::from_secs(10);

/// Somebody who plays a scenario.
pub(super) struct Play {
    pub(super) scenario: Scenario,
    pub(super) hands: Hands,
    pub(super) recorder: Recorder,
}

impl Play {
    /// Plays everything, and says what did not happen.
    pub(super) async fn run(self) -> Vec<String> {
        let mut writer = Writer(self.recorder.clone());
        let mut player = Player::new(&self.hands, &mut writer);
        let prepared = player.prepare(&self.scenario).await;
        let mut failed: Vec<String> = self.failure(prepared).into_iter().collect();
        for (number, step) in (1..).zip(&self.scenario.steps) {
            self.wait(&mut player, step.at).await;
            let taken = player.take(number, step).await;
            if let Some(failure) = self.failure(taken)
                && !may_be_in_vain(step)
            {
                failed.push(failure);
            }
        }
        failed
    }

    /// Waits for the time of a step.
    async fn wait(&self, player: &mut Player<'_>, at: Duration) {
        let left = || at.saturating_sub(self.recorder.elapsed());
        if has(&self.scenario, |action| *action == Action::Bill) {
            while left() > NOTED_EVERY {
                // What cannot be looked at now is looked at the next time.
                let _ = player.look().await;
                self.hands.clock.sleep(NOTED_EVERY).await;
            }
        }
        self.hands.clock.sleep(left()).await;
    }

    /// What did not happen, in words that are in the history too.
    fn failure(&self, happened: Result<(), Failure>) -> Option<String> {
        let failure = happened.err()?.to_string();
        self.recorder.turn(Who::User, failure.clone());
        Some(failure)
    }
}

fn has(scenario: &Scenario, is_meant: impl Fn(&Action) -> bool) -> bool {
    scenario.steps.iter().any(|step| is_meant(&step.action))
}

/// The configuration file of the operator in a story in which somebody writes it. In others it has none: to look at one
/// every few seconds is work.
pub(super) fn configuration(scenario: &Scenario) -> io::Result<Option<Configuration>> {
    let is_written = has(scenario, |action| matches!(action, Action::Configure(_)));
    is_written.then(Configuration::new).transpose()
}

/// Whether nothing is wrong where a step finds nothing to do: what was drawn, and not written by somebody, may delete a
/// claim that has ended by itself, as where its pool has reached a limit, and may take a machine where none runs.
fn may_be_in_vain(step: &Step) -> bool {
    step.line == 0 && matches!(step.action, Action::Delete(_) | Action::Preempt(_))
}

/// Writes what people do and say into the history. What happens by itself is there already.
struct Writer(Recorder);

impl Audience for Writer {
    fn hear(&mut self, line: Line) {
        if line.voice != Voice::Stage {
            self.0.turn(Who::User, line.text);
        }
    }
}

/// The hands of whoever plays in this cluster.
pub(super) fn hands(
    cluster: &Cluster,
    replicas: &Arc<Vec<Replica>>,
    configuration: Option<Configuration>,
) -> Hands {
    let replicas = Arc::clone(replicas);
    Hands {
        client: cluster.server.admin(),
        cloud: cluster.cloud.clone(),
        clock: cluster.clock.clone(),
        crash: Arc::new(move |crash: Crash| {
            if let Some(replica) = replicas.get(crash.replica) {
                replica.crash_after(crash.after_effects);
            }
        }),
        configuration,
        // Here they are in the history, where an invariant reads them.
        findings: Findings::default(),
    }
}
