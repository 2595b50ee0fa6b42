//! The one place that knows which faults are on now: it turns injections on and off, decides whether one strikes a
//! request, and counts what struck.
//!
//! Every strike becomes an entry of the history through the [`Sink`], before what it does is seen by anybody. What the
//! cloud's faults struck is learnt from the cloud when [`Desk::gather`] is called, and which watches and lists were met by
//! theirs from the API server by [`Desk::gather_met`]: ask before an answer is written down, and the strike stands in
//! front of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use jiff::SignedDuration;
use serde_json::Value;

use super::key::KeyFile;
use super::kube::answers::{Asked, Blow, blow};
use super::kube::{KubeFault, KubeKind, definitions, watches};
use super::names::{FaultName, MachineKind};
use super::plan::{Fault, Injection};
use super::third_parties::{self, Undo};
use crate::clock::Clock;
use crate::sim::actors::kubelet::behavior::{Oddities, Oddity};
use crate::sim::history::{CarriedOut, What};
use crate::sim::ibm::Cloud;
use crate::sim::kube::ApiServer;
use crate::sim::kube::watching::RuleId;

/// Of so many in a hundred machines that begin to run meanwhile something is odd: not always of the first.
const ODD_PERCENT: u8 = 60;

/// Takes what happened into the history.
pub type Sink = Arc<dyn Fn(What) + Send + Sync>;

/// Takes what strangers ask of the account into the history: the request when it is sent, and by what it gives back, its
/// answer.
pub type Witness = Arc<dyn Fn(&http::Request<Bytes>) -> Testimony + Send + Sync>;

/// Takes what became of a request: what was answered, if anything was, and whether it was carried out.
pub type Testimony = Box<dyn FnOnce(Option<(u16, Bytes)>, CarriedOut) + Send>;

/// What a desk works on.
#[derive(Clone)]
pub struct Parts {
    /// The cluster.
    pub server: ApiServer,
    /// The account.
    pub cloud: Cloud,
    /// The user that the operator is, in the cluster.
    pub operator: String,
    /// The wall clocks of the operator's replicas, by their number; nobody else's.
    pub clocks: Vec<Clock>,
    /// What is odd about machines.
    pub oddities: Oddities,
    /// An API key of the account, for what people do there.
    pub api_key: String,
    /// Where the operator reads its own from, if it does not have one for good.
    pub key_file: Option<KeyFile>,
    /// Where strikes are told.
    pub sink: Sink,
    /// Where the requests of strangers to the account are told; those to the cluster are in its audit.
    pub witness: Witness,
}

/// Turns faults on and off. Clones are the same desk.
#[derive(Clone)]
pub struct Desk(Arc<Inner>);

struct Inner {
    parts: Parts,
    on: Mutex<Vec<Active>>,
    struck: Mutex<BTreeMap<FaultName, u64>>,
    /// Whose the rules of the API server are, and what they are about. One may meet somebody after it has ended: a watch
    /// of a replica that stands still.
    rules: Mutex<BTreeMap<RuleId, (FaultName, String)>>,
    /// The definition of NodeClaims before anybody changed it.
    definition: Mutex<Option<Value>>,
}

/// An injection that is on.
struct Active {
    injection: Injection,
    rng: Rng,
    /// How often it may still strike.
    left: Option<u32>,
    rules: Vec<RuleId>,
    /// How it is taken back, if it was done by somebody else.
    undo: Option<Undo>,
}

/// What happens to a request on its way.
#[derive(Debug, Default)]
pub struct Course {
    /// How long it takes, there and back each.
    pub delay: Duration,
    /// What happens to it, if anything does.
    pub blow: Option<Blow>,
}

impl Desk {
    /// Nothing goes wrong yet.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            parts,
            on: Mutex::default(),
            struck: Mutex::default(),
            rules: Mutex::default(),
            definition: Mutex::default(),
        }))
    }

    /// Begins an injection. A crash, a pause or a handover is the world's to carry out; it says so with [`Desk::strike`].
    pub async fn start(&self, injection: &Injection) {
        let mut active = Active {
            injection: injection.clone(),
            rng: Rng::with_seed(injection.stream),
            left: None,
            rules: Vec::new(),
            undo: None,
        };
        match &injection.fault {
            Fault::Kube(fault) => {
                active.left = fault.times;
                if let Some(rules) = watches::start(
                    &self.parts().server,
                    &self.parts().operator,
                    fault,
                    &mut active.rng,
                ) {
                    let about = fault.resource.as_deref().unwrap_or("all watches");
                    let whose = |rule: &RuleId| (*rule, (injection.fault.name(), about.to_owned()));
                    lock(&self.0.rules).extend(rules.iter().map(whose));
                    active.rules = rules;
                }
            }
            Fault::ThirdParty(meddling) => {
                active.undo = third_parties::meddle(self, meddling, &mut active.rng).await;
                // What is done for good is over.
                if active.undo.is_none() {
                    return;
                }
            }
            Fault::Crash { .. } | Fault::Pause { .. } | Fault::Handover { .. } => return,
            Fault::Machine { behavior, machines } => {
                let oddity = Oddity {
                    behavior: *behavior,
                    percent: ODD_PERCENT,
                    left: Some(*machines),
                };
                self.parts().oddities.add(injection.stream, oddity);
            }
            Fault::Cloud(fault) => {
                let faults = self.parts().cloud.faults();
                faults.start_with(fault.clone(), injection.stream);
            }
            Fault::Skew { .. } => {}
        }
        self.on().push(active);
        self.apply(&injection.fault).await;
    }

    /// Ends an injection; unknown ones have ended already.
    pub async fn stop(&self, injection: &Injection) {
        let ended = {
            let mut on = self.on();
            let place = on.iter().position(|active| active.injection == *injection);
            place.map(|place| on.remove(place))
        };
        let Some(ended) = ended else { return };
        for rule in ended.rules {
            self.parts().server.watching().lift(rule);
        }
        if let Some(undo) = &ended.undo {
            third_parties::take_back(self, undo).await;
        }
        match &injection.fault {
            Fault::Cloud(fault) => {
                let faults = self.parts().cloud.faults();
                faults.stop_with(fault.kind, injection.stream);
            }
            Fault::Machine { .. } => self.parts().oddities.remove(injection.stream),
            _ => {}
        }
        self.apply(&injection.fault).await;
    }

    /// Ends everything: faults off, clocks right, definitions as they were.
    pub async fn clear(&self) {
        let all: Vec<Injection> = self.on().iter().map(|active| active.injection.clone()).collect();
        for injection in all {
            self.stop(&injection).await;
        }
        self.parts().cloud.faults().clear();
        self.gather();
    }

    /// How often each fault really struck, by name.
    pub fn struck(&self) -> BTreeMap<&'static str, u64> {
        self.gather();
        let struck = lock(&self.0.struck);
        struck
            .iter()
            .map(|(name, times)| (name.as_str(), *times))
            .collect()
    }

    /// Tells what the cloud's faults struck since this was last asked, and which machines came up odd.
    pub fn gather(&self) {
        for (behavior, machine) in self.parts().oddities.take_strikes() {
            self.strike(FaultName::Machine(MachineKind::of(behavior)), &machine);
        }
        for strike in self.parts().cloud.faults().take_strikes() {
            self.strike(FaultName::Cloud(strike.kind), &strike.operation);
        }
        self.gather_met();
    }

    /// Tells which faults of watches and lists met somebody since this was last asked.
    pub fn gather_met(&self) {
        for rule in self.parts().server.watching().take_met() {
            let whose = lock(&self.0.rules).get(&rule).cloned();
            if let Some((name, about)) = whose {
                self.strike(name, &about);
            }
        }
    }

    /// Counts and tells a strike.
    pub fn strike(&self, name: FaultName, detail: &str) {
        *lock(&self.0.struck).entry(name).or_default() += 1;
        (self.parts().sink)(What::Fault {
            name: name.as_str(),
            detail: detail.to_owned(),
        });
    }

    /// What it works on.
    pub fn parts(&self) -> &Parts {
        &self.0.parts
    }

    /// The clock of the servers and of the network.
    pub(super) fn clock(&self) -> &Clock {
        self.parts().server.clock()
    }

    /// Whether anything can happen to a request of the operator now.
    pub(super) fn is_in_the_way(&self) -> bool {
        let is_of_kube = |active: &Active| matches!(active.injection.fault, Fault::Kube(_));
        self.on().iter().any(is_of_kube)
    }

    /// What happens to a request of the operator. Every fault that is on draws, whichever strikes: so none depends on
    /// whether another is in the plan.
    pub(super) fn course(&self, asked: &Asked) -> Course {
        let mut course = Course::default();
        let mut struck = Vec::new();
        for active in self.on().iter_mut() {
            let Fault::Kube(fault) = &active.injection.fault else {
                continue;
            };
            if !covers(fault, asked) || active.left == Some(0) || active.rng.u8(..100) >= fault.percent {
                continue;
            }
            let name = FaultName::Kube(fault.kind);
            if fault.kind == KubeKind::Slow {
                course.delay = course.delay.max(fault.delay);
                struck.push(name);
            } else if let Some(drawn) = blow(fault.kind, asked, &mut active.rng) {
                // The first of several wins.
                if course.blow.is_some() {
                    continue;
                }
                // Whether a write is carried out, so that an error after it is one, shows later.
                if !matches!(drawn, Blow::After(_)) {
                    struck.push(name);
                }
                course.blow = Some(drawn);
            } else {
                continue;
            }
            active.left = active.left.map(|left| left - 1);
        }
        for name in struck {
            self.strike(name, &asked.told());
        }
        course
    }

    /// Brings about what follows from all that is on of a kind.
    async fn apply(&self, changed: &Fault) {
        match changed {
            Fault::Skew { .. } => self.apply_skew(),
            Fault::Kube(fault) if changes_definitions(fault.kind) => self.apply_definitions().await,
            _ => {}
        }
    }

    /// Of several that are wrong for a replica the latest holds.
    fn apply_skew(&self) {
        for (number, clock) in self.parts().clocks.iter().enumerate() {
            let its_own = |fault: &Fault| matches!(fault, Fault::Skew { replica, .. } if replica.is_none_or(|whose| whose == number));
            let seconds = match self.latest(its_own).map(|injection| injection.fault) {
                Some(Fault::Skew { seconds, .. }) => seconds,
                _ => 0,
            };
            if seconds != 0 {
                self.strike(FaultName::Skew, &format!("{seconds:+} s for replica {number}"));
            }
            clock.set_skew(SignedDuration::from_secs(seconds));
        }
    }

    async fn apply_definitions(&self) {
        let client = self.parts().server.admin();
        let known = lock(&self.0.definition).clone();
        let original = match known {
            Some(original) => original,
            // No such definition: nothing to change.
            None => match definitions::current(&client).await {
                Some(current) => current,
                None => return,
            },
        };
        *lock(&self.0.definition) = Some(original.clone());
        let latest =
            self.latest(|fault| matches!(fault, Fault::Kube(fault) if changes_definitions(fault.kind)));
        let wanted = match latest.map(|injection| injection.fault) {
            Some(Fault::Kube(fault)) => {
                self.strike(FaultName::Kube(fault.kind), "nodeclaims.karpenter.sh");
                definitions::changed(fault.kind, &original)
            }
            _ => Some(original),
        };
        if let Some(wanted) = wanted
            && let Err(error) = definitions::put(&client, wanted).await
        {
            tracing::warn!(%error, "the definition of NodeClaims could not be changed");
        }
    }

    fn latest(&self, fits: impl Fn(&Fault) -> bool) -> Option<Injection> {
        let on = self.on();
        let latest = on.iter().rev().find(|active| fits(&active.injection.fault));
        latest.map(|active| active.injection.clone())
    }

    fn on(&self) -> MutexGuard<'_, Vec<Active>> {
        lock(&self.0.on)
    }
}

fn covers(fault: &KubeFault, asked: &Asked) -> bool {
    fault
        .resource
        .as_deref()
        .is_none_or(|plural| plural == asked.target.plural)
}

fn changes_definitions(kind: KubeKind) -> bool {
    matches!(kind, KubeKind::OldDefinition | KubeKind::NewDefinition)
}

/// A panic elsewhere is reported elsewhere; the lists stay whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
