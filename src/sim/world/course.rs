//! The course of a run: under faults, healing, quiet.
//!
//! While faults are on, only safety is judged. Then everything is put right and nobody touches the workload any more:
//! within a bound the world must be as it should be, and after that nothing may happen for a while. A controller that
//! goes on changing things in a world that is as it should be is caught here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::audit::strangers;
use super::bench::Bench;
use super::cluster::{Cluster, InstallError, PEOPLES_KEY};
use super::edges::{KubeEdge, Way};
use super::logs::Ear;
use super::product::Alarm;
use super::recorder::Recorder;
use super::replica::{Outside, Replica};
use super::steps::{self, Play};
use super::subnets::Untagged;
use super::timeline::{Change, timeline};
use super::{Outcome, QUIET, Setup, Verdict, actors};
use crate::clock::Clock;
use crate::operator::PriceSource;
use crate::sim::actors::kubelet::behavior::Oddities;
use crate::sim::faults::kube::Layer;
use crate::sim::faults::{Desk, Fault, FaultName, Injection, KeyFile, Parts, Plan, Upon};
use crate::sim::history::Who;
use crate::sim::invariants::{ILLEGAL_PLAN, SETTLES_WITHIN};
use crate::sim::scenario::Configuration;

/// More requests than any run has: one that goes round in circles without time passing would never end.
const REQUESTS_MAX: u64 = 5_000_000;
/// How often it is looked whether everything is as it should be.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long nothing was done when everybody is taken to be finished: the longest time between two steps of a claim, a
/// machine that starts slowly and boots.
const STILL: Duration = Duration::from_mins(4);
/// How many times longer the quiet is made at most: a quarter of an hour each.
const ROUNDS_MORE: usize = 3;
/// So many of them follow a machine that moved: for one its move explains whatever is done, in the next nothing does.
const ROUNDS_AFTER_A_MOVE: usize = 2;
/// By when it is felt at the latest that something was put right.
const FELT: Duration = Duration::from_secs(30);

/// A world while it runs.
pub(super) struct World {
    cluster: Cluster,
    recorder: Recorder,
    desk: Desk,
    bench: Bench,
    replicas: Arc<Vec<Replica>>,
    play: JoinHandle<Vec<String>>,
    plan: Plan,
    /// What people tag while search lags.
    untagged: Untagged,
    quiet: Duration,
    /// Steps that did not happen.
    unmet: Vec<String>,
    /// The places in the plan of the injections that are on.
    on: BTreeSet<usize>,
    /// The operator's file, which goes with the world: the story ends sooner.
    _configuration: Option<Configuration>,
}

/// Plays everything.
pub(super) async fn live(setup: Setup, ear: Ear) -> Result<Outcome, InstallError> {
    let lasts = setup.scenario.lasts.max(setup.plan.ends());
    let mut world = World::begin(setup, ear).await?;
    let recorder = world.recorder.clone();
    let verdict = tokio::select! {
        biased;
        () = recorder.overrun() => Verdict::Overrun,
        verdict = world.pass(lasts) => verdict,
    };
    Ok(world.end(verdict))
}

impl World {
    async fn begin(mut setup: Setup, ear: Ear) -> Result<Self, InstallError> {
        let cluster = Cluster::new(setup.seed, &setup.scenario.region);
        let untagged = Untagged::prepare(&cluster.cloud, &mut setup.scenario, &setup.plan);
        let recorder = Recorder::new(&cluster.clock, setup.keep, REQUESTS_MAX);
        for observer in setup.observers {
            recorder.trace(observer);
        }
        cluster.audit(&recorder);
        let mut surroundings = cluster.install(&setup.scenario.region, alarm(&recorder)).await?;
        surroundings.prices = prices(&setup.plan);
        surroundings.machines_max = setup.machines_max;
        let key_file = KeyFile::new(&surroundings.api_key)?;
        surroundings.api_key_file = Some(key_file.path().to_owned());
        let configuration = steps::configuration(&setup.scenario)?;
        surroundings.config_file = configuration.as_ref().map(|file| file.path().to_owned());
        let bench = Bench::new(&cluster, &recorder, setup.machines_max, ear);
        let clocks: Vec<Clock> = (0..setup.replicas).map(|_| cluster.clock.another()).collect();
        let desk = desk(&cluster, &recorder, clocks.clone(), key_file);
        actors::start(&cluster, setup.seed, desk.parts().oddities.clone());
        let layer = Layer::new(desk.clone());
        let kube = Arc::new(KubeEdge {
            server: cluster.server.clone(),
            user: Cluster::operator(),
            faults: Arc::new(move |way: Way| Way::new(tower::Layer::layer(&layer, way))),
            recorder: recorder.clone(),
            desk: desk.clone(),
        });
        let outside = |number: usize| Outside {
            kube: Arc::clone(&kube),
            cloud: cluster.cloud.clone(),
            clock: clocks[number].clone(),
            recorder: recorder.clone(),
            desk: desk.clone(),
            seed: setup.seed,
        };
        let start = |number| {
            let factory = (setup.product)(&surroundings, number)?;
            Ok(Replica::start(number, factory, outside(number)))
        };
        let replicas: Result<Vec<Replica>, InstallError> = (0..setup.replicas).map(start).collect();
        let replicas = Arc::new(replicas?);
        let play = Play {
            scenario: setup.scenario,
            hands: steps::hands(&cluster, &replicas, configuration.clone()),
            recorder: recorder.clone(),
        };
        Ok(Self {
            cluster,
            recorder,
            desk,
            bench,
            replicas,
            play: tokio::spawn(play.run()),
            plan: setup.plan,
            untagged,
            quiet: setup.quiet,
            unmet: Vec::new(),
            on: BTreeSet::new(),
            _configuration: configuration,
        })
    }

    async fn pass(&mut self, lasts: Duration) -> Verdict {
        self.under_faults(lasts).await;
        self.heal().await;
        self.get_well().await;
        self.stay_quiet().await;
        self.stay_well().await;
        for replica in self.replicas.iter() {
            replica.confess();
        }
        self.verdict().await
    }

    /// What people wanted to happen must have happened where nothing went wrong.
    async fn verdict(&mut self) -> Verdict {
        let finished = self.play.is_finished();
        if finished {
            self.unmet = (&mut self.play).await.unwrap_or_default();
        }
        if let Some(first) = self.bench.findings().0.first() {
            return Verdict::Violated(first.id);
        }
        if !finished {
            self.play.abort();
            return Verdict::Unfinished;
        }
        if self.plan.injections.is_empty() && !self.unmet.is_empty() {
            return Verdict::Unmet;
        }
        Verdict::Passed
    }

    async fn under_faults(&mut self, lasts: Duration) {
        for (at, change) in timeline(&self.plan) {
            self.until(at).await;
            match change {
                Change::Begin(place) => self.begin_injection(place).await,
                Change::End(place) => self.end_injection(place).await,
            }
        }
        self.until(lasts).await;
    }

    /// Faults off, clocks right, replicas running.
    async fn heal(&mut self) {
        for place in self.on.clone() {
            self.end_injection(place).await;
        }
        self.desk.clear().await;
        for replica in self.replicas.iter() {
            replica.spare();
            replica.resume();
            replica.confess();
        }
        self.recorder.turn(Who::World, "healing");
        self.bench.healed(self.recorder.elapsed());
    }

    /// Waits until everything is as it should be, or the time for it is over.
    async fn get_well(&mut self) {
        let healed = self.recorder.elapsed();
        let bound = healed + SETTLES_WITHIN;
        while self.recorder.elapsed() < bound && !self.is_well(healed) {
            self.cluster.clock.sleep(LOOK_EVERY).await;
            self.bench.look(self.recorder.elapsed());
        }
        self.bench.settled(self.recorder.elapsed());
    }

    /// Nobody does anything for as long as that was asked for, and longer where a machine moved by itself.
    async fn stay_quiet(&self) {
        self.recorder.turn(Who::World, "quiet");
        let count = || self.cluster.cloud.moved();
        let mut moved = count();
        self.cluster.clock.sleep(self.quiet).await;
        let mut due = 0;
        for _ in 0..ROUNDS_MORE {
            if count() != moved {
                (moved, due) = (count(), ROUNDS_AFTER_A_MOVE);
            }
            // Who asked for no quiet gets none.
            if due == 0 || self.quiet.is_zero() {
                break;
            }
            due -= 1;
            self.cluster.clock.sleep(QUIET).await;
        }
    }

    /// What was well must be so in the end. A machine that went down by itself a moment ago has the same time as any.
    async fn stay_well(&mut self) {
        let bound = self.recorder.elapsed() + SETTLES_WITHIN;
        let is_sound = self.bench.findings().0.is_empty();
        while is_sound && self.recorder.elapsed() < bound && !self.bench.is_content(self.recorder.elapsed()) {
            self.cluster.clock.sleep(LOOK_EVERY).await;
        }
        self.bench.ended(self.recorder.elapsed());
    }

    /// Everything is as it should be, and nobody is in the middle of something, or about to begin it since something was
    /// put right a moment ago: a limit, say.
    fn is_well(&self, healed: Duration) -> bool {
        let now = self.recorder.elapsed();
        let is_still = now.saturating_sub(self.recorder.last_effect()) >= STILL;
        is_still && now.saturating_sub(healed) >= FELT && self.bench.is_content(now)
    }

    async fn until(&self, at: Duration) {
        let wait = at.saturating_sub(self.recorder.elapsed());
        self.cluster.clock.sleep(wait).await;
    }

    async fn begin_injection(&mut self, place: usize) {
        let injection = self.plan.injections[place].clone();
        match injection.fault {
            Fault::Crash {
                replica,
                after_effects,
                upon,
            } => {
                if let Some(replica) = self.replicas.get(replica) {
                    match upon {
                        Upon::Order => replica.crash_upon(upon),
                        Upon::Now | Upon::Renewal | Upon::Effects(_) => replica.crash_after(after_effects),
                    }
                }
            }
            Fault::Pause { replica, upon } => {
                if let Some(paused) = self.replicas.get(replica) {
                    match upon {
                        Upon::Now => {
                            self.desk.strike(FaultName::Pause, &format!("replica {replica}"));
                            paused.pause();
                        }
                        Upon::Order | Upon::Renewal | Upon::Effects(_) => paused.pause_upon(upon),
                    }
                }
            }
            Fault::Handover { replica, upon } => {
                if let Some(asked) = self.replicas.get(replica) {
                    asked.stop_upon(upon);
                }
            }
            _ => self.desk.start(&injection).await,
        }
        if let Some(subnet) = self.untagged.tag_for(place, &self.cluster.cloud) {
            self.recorder.turn(Who::User, format!("tags subnet {subnet}"));
        }
        self.on.insert(place);
    }

    async fn end_injection(&mut self, place: usize) {
        self.on.remove(&place);
        let injection = self.plan.injections[place].clone();
        match injection.fault {
            Fault::Pause { replica, .. } => {
                let pauses = |other: &usize| {
                    let fault = &self.plan.injections[*other].fault;
                    matches!(fault, Fault::Pause { replica: other, .. } if *other == replica)
                };
                if !self.on.iter().any(pauses)
                    && let Some(paused) = self.replicas.get(replica)
                {
                    paused.resume();
                }
            }
            _ => self.desk.stop(&injection).await,
        }
    }

    fn end(self, verdict: Verdict) -> Outcome {
        self.recorder.turn(Who::World, "ended");
        let history = self.recorder.history();
        let tally = self.recorder.tally();
        let (violations, probes) = self.bench.findings();
        Outcome {
            verdict,
            violations,
            unmet: self.unmet,
            probes,
            faults: self.desk.struck(),
            requests: tally.requests,
            effects: tally.effects,
            events: tally.events,
            simulated: self.recorder.elapsed(),
            trace: history.hash(),
            counts: tally.deeds,
            sound: self.bench.sound(),
            losses: self.bench.losses(),
            history,
        }
    }
}

/// Writes into the history what is wrong with a plan.
fn alarm(recorder: &Recorder) -> Alarm {
    let told = recorder.clone();
    Alarm(Arc::new(move |finding| {
        told.turn(Who::World, format!("{ILLEGAL_PLAN}{finding}"));
    }))
}

/// The catalogue is read only where something is wrong with it: a reading takes as long as a tenth of the world.
fn prices(plan: &Plan) -> PriceSource {
    let is_wrong = |injection: &Injection| match &injection.fault {
        Fault::Cloud(fault) => fault.kind.is_about_prices(),
        _ => false,
    };
    if plan.injections.iter().any(is_wrong) {
        PriceSource::Catalog
    } else {
        PriceSource::BuiltIn
    }
}

fn desk(cluster: &Cluster, recorder: &Recorder, clocks: Vec<Clock>, key_file: KeyFile) -> Desk {
    let told = recorder.clone();
    Desk::new(Parts {
        server: cluster.server.clone(),
        cloud: cluster.cloud.clone(),
        operator: Cluster::operator().name,
        clocks,
        oddities: Oddities::default(),
        api_key: PEOPLES_KEY.to_owned(),
        key_file: Some(key_file),
        sink: Arc::new(move |what| told.add(Who::World, what)),
        witness: strangers(recorder),
    })
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::{Value, json};

    use super::*;
    use crate::sim::faults::{Meddling, MeddlingKind};
    use crate::sim::history::{Keep, What};
    use crate::sim::scenario::Scenario;
    use crate::sim::world::{product, run};

    /// In which others do something after two minutes for one, and nobody else anything for six. There is no operator.
    fn world(kind: MeddlingKind, objects: Vec<Value>) -> Setup {
        let injection = Injection {
            at: Duration::from_mins(2),
            lasts: Duration::from_mins(1),
            stream: 1,
            fault: Fault::ThirdParty(Meddling::new(kind)),
        };
        Setup {
            seed: 1,
            scenario: Scenario {
                name: "alone".to_owned(),
                about: String::new(),
                region: "us-south".to_owned(),
                objects,
                steps: Vec::new(),
                lasts: Duration::from_mins(6),
            },
            plan: Plan {
                injections: vec![injection],
            },
            product: product::product(),
            replicas: 0,
            machines_max: None,
            quiet: Duration::ZERO,
            keep: Keep::All,
            observers: Vec::new(),
        }
    }

    /// The minute of each such request that somebody sent when others had begun.
    fn asked(setup: Setup, method: &Method, plural: &str) -> Vec<u64> {
        let outcome = run(setup).unwrap();
        let is_it = |what: &What| matches!(what, What::Request(it) if it.method == *method && it.path.contains(plural));
        let entries = outcome.history.entries().filter(|entry| is_it(&entry.what));
        let minutes = entries.map(|entry| entry.at.as_secs() / 60);
        minutes.filter(|minute| *minute >= 2).collect()
    }

    #[test]
    fn a_budget_of_others_goes_when_its_time_is_over_and_not_only_when_all_is_put_right() {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        });
        let setup = world(MeddlingKind::SecondBudget, vec![budget]);
        assert_eq!(asked(setup, &Method::DELETE, "poddisruptionbudgets"), [3]);
    }

    #[test]
    fn a_class_that_somebody_deleted_is_there_again_when_its_time_is_over() {
        let class = json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "spec": {"region": "${region}", "vpc": "${vpc}", "image": "${image}"},
        });
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
            "spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": [],
            },
        });
        let setup = world(MeddlingKind::ClassDeleted, vec![class, claim]);
        assert_eq!(asked(setup, &Method::POST, "ibmnodeclasses"), [3]);
    }
}
