//! The judge at his bench: shown every entry together with both servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cluster::{API_KEY, Cluster};
use super::logs::Ear;
use super::recorder::Recorder;
use crate::sim::invariants::{Judge, Settings, Truth, Violation};
use crate::sim::probes::Probes;

/// The judge of a run. Clones are the same judge.
#[derive(Clone)]
pub(super) struct Bench {
    judge: Arc<Mutex<Judge>>,
    cluster: Cluster,
}

impl Bench {
    /// Has every later entry of the recorder judged, and every line of the log that `ear` has heard by then.
    pub(super) fn new(cluster: &Cluster, recorder: &Recorder, machines_max: Option<u64>, ear: Ear) -> Self {
        let mut settings = Settings::new(cluster.cloud.account().resource_group);
        settings.canaries = vec![API_KEY.to_owned()];
        // Where there may be any number a purchase rests all the same on a read that counts it.
        settings.machines_max = Some(machines_max.unwrap_or(u64::MAX));
        let bench = Self {
            judge: Arc::new(Mutex::new(Judge::new(settings))),
            cluster: cluster.clone(),
        };
        let judging = bench.clone();
        recorder.show(Box::new(move |entry| {
            let truth = judging.truth(entry.at);
            let mut judge = judging.judge();
            judge.observe(entry, &truth);
            for line in ear.take() {
                judge.read_log(entry.at, &line);
            }
        }));
        bench
    }

    /// Everything was put right at that time.
    pub(super) fn healed(&self, at: Duration) {
        self.judge().healed(at);
    }

    /// Looks at how things get well.
    pub(super) fn look(&self, at: Duration) {
        self.judge().look(&self.truth(at));
    }

    /// Whether everything is as it should be.
    pub(super) fn is_content(&self, at: Duration) -> bool {
        self.judge().unmet(&self.truth(at)).is_empty()
    }

    /// The time to get well is over.
    pub(super) fn settled(&self, at: Duration) {
        self.judge().settled(&self.truth(at));
    }

    /// The world has come to its end.
    pub(super) fn ended(&self, at: Duration) {
        self.judge().must_be_met(&self.truth(at));
    }

    /// What was found, and what rare things were seen.
    pub(super) fn findings(&self) -> (Vec<Violation>, Probes) {
        let judge = self.judge();
        (judge.violations().to_vec(), judge.probes().clone())
    }

    /// The names of claims to which nothing happened.
    pub(super) fn sound(&self) -> BTreeSet<String> {
        self.judge().sound()
    }

    /// How often each claim lost something, by name.
    pub(super) fn losses(&self) -> BTreeMap<String, u64> {
        self.judge().losses()
    }

    fn truth(&self, since_start: Duration) -> Truth<'_> {
        Truth {
            kube: &self.cluster.server,
            cloud: &self.cluster.cloud,
            now: self.cluster.clock.now(),
            since_start,
        }
    }

    fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
