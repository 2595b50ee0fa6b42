//! What people do in a run: the steps of its scenario, each when its time has come.
//!
//! Under faults a step may be refused and an expectation unmet; the story goes on all the same, and what did not happen
//! is remembered. Between steps nobody looks, so that waiting costs nothing.

use std::sync::Arc;
use std::time::Duration;

use super::cluster::Cluster;
use super::product::Findings;
use super::recorder::Recorder;
use super::replica::Replica;
use crate::sim::history::Who;
use crate::sim::scenario::player::{Audience, Hands, Line, Player, Voice};
use crate::sim::scenario::{Action, Crash, Scenario, Step};

/// Somebody who plays a scenario.
pub(super) struct Play {
    pub(super) scenario: Scenario,
    pub(super) hands: Hands,
    pub(super) recorder: Recorder,
}

impl Play {
    /// Plays everything, and says what did not happen.
    pub(super) async fn run(self) -> Vec<String> {
        let mut failed = Vec::new();
        let objects = Scenario {
            steps: Vec::new(),
            ..self.scenario.clone()
        };
        failed.extend(self.play(&objects).await);
        for (number, step) in (1..).zip(&self.scenario.steps) {
            let wait = step.at.saturating_sub(self.recorder.elapsed());
            self.hands.clock.sleep(wait).await;
            if let Some(failure) = self.play(&self.alone(step)).await
                && !may_be_in_vain(step)
            {
                failed.push(format!("step {number} (line {}): {failure}", step.line));
            }
        }
        failed
    }

    /// A scenario of one step that happens now.
    fn alone(&self, step: &Step) -> Scenario {
        let mut step = step.clone();
        step.at = Duration::ZERO;
        Scenario {
            objects: Vec::new(),
            steps: vec![step],
            ..self.scenario.clone()
        }
    }

    async fn play(&self, scenario: &Scenario) -> Option<String> {
        let mut writer = Writer(self.recorder.clone());
        let played = Player::new(&self.hands, &mut writer).play(scenario).await;
        let failure = played.err()?.to_string();
        self.recorder.turn(Who::User, failure.clone());
        Some(failure)
    }
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
pub(super) fn hands(cluster: &Cluster, replicas: &Arc<Vec<Replica>>) -> Hands {
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
        configuration: None,
        // Here they are in the history, where an invariant reads them.
        findings: Findings::default(),
    }
}
