//! The pods on one machine, as a value: told what the API server says and what time it is, it answers what to tell.
//!
//! A pod that fits waits for its volumes, is pulled and created, runs, and becomes ready after the delay of its
//! readiness probe. All its containers do the same. Two annotations say what a program would: how long it runs before it
//! exits, and how long it takes to stop when it is asked to.

mod admission;
mod stage;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::node::Amounts;
use super::shutdown::{Grace, REJECTED_MESSAGE, REJECTED_REASON, Wish};
use super::volumes::claims;
use crate::api::parse_duration;
use crate::clock::later;
use crate::sim::ibm::Span;
use admission::{Rejection, add, check, requests};
use stage::{Stage, Why};

/// Annotation: how long the containers run before they exit, `30s`.
pub const RUNS_FOR: &str = "sim.karpenter-ibm.sh/runs-for";
/// Annotation: the code that they then exit with; 0 if it is not set.
pub const EXITS_WITH: &str = "sim.karpenter-ibm.sh/exits-with";
/// Annotation: how long the containers take to stop when they are asked to; one second if it is not set.
pub const STOPS_AFTER: &str = "sim.karpenter-ibm.sh/stops-after";

/// What a container exits with that is killed, or that nobody can say anything about.
const KILLED: i32 = 137;
/// What a program exits with that `SIGTERM` ends.
const TERMINATED: i32 = 143;

/// How soon something is tried again that did not work.
const AGAIN: Duration = Duration::from_secs(2);

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Something to tell the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum PodAct {
    /// How a pod is.
    Status { key: PodKey, uid: String, status: Value },
    /// That nothing is left of a pod that was to go.
    Delete { key: PodKey, uid: String },
}

/// How long things take on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// To pull an image that is not there yet.
    pub pull: Span,
    /// To create and start the containers of a pod.
    pub start: Span,
}

impl Default for Pace {
    /// A second or two in all, as with small images from a registry nearby.
    fn default() -> Self {
        let millis = |min, max| Span {
            min: Duration::from_millis(min),
            max: Duration::from_millis(max),
        };
        Self {
            pull: millis(1000, 8000),
            start: millis(300, 1500),
        }
    }
}

/// The pods on one machine.
pub struct Pods {
    host: String,
    allocatable: Amounts,
    pace: Pace,
    rng: Rng,
    images: BTreeSet<String>,
    entries: BTreeMap<PodKey, Entry>,
    addresses: u32,
    is_closing: bool,
}

/// One pod and what has become of it.
struct Entry {
    pod: Arc<Pod>,
    stage: Stage,
    restarts: i32,
    begun: Timestamp,
    address: String,
    volumes: Vec<String>,
    /// When each condition last turned, and to what.
    turned: BTreeMap<&'static str, (&'static str, Timestamp)>,
    told: Option<Value>,
    /// Whether somebody else has said something else since.
    is_contradicted: bool,
    is_given_up: bool,
    retry_at: Option<Timestamp>,
    /// All has been told until then, unless somebody does something about the pod.
    rests_until: Option<Timestamp>,
}

impl Pods {
    /// A machine at `host` without pods.
    pub fn new(host: &str, allocatable: Amounts, pace: Pace, rng: Rng) -> Self {
        Self {
            host: host.to_owned(),
            allocatable,
            pace,
            rng,
            images: BTreeSet::new(),
            entries: BTreeMap::new(),
            addresses: 0,
            is_closing: false,
        }
    }

    /// All pods that are bound to the node, after which any other is forgotten. The oldest are taken in first.
    pub fn replace(&mut self, pods: Vec<Pod>, now: Timestamp) {
        let keys: BTreeSet<PodKey> = pods.iter().map(key_of).collect();
        self.entries.retain(|key, _| keys.contains(key));
        let mut pods = pods;
        pods.sort_by_cached_key(|pod| {
            let made = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (made, key_of(pod))
        });
        for pod in pods {
            self.observe(pod, now);
        }
    }

    /// A pod as the API server has it now.
    pub fn observe(&mut self, pod: Pod, now: Timestamp) {
        let key = key_of(&pod);
        let is_known = self
            .entries
            .get(&key)
            .is_some_and(|entry| entry.pod.metadata.uid == pod.metadata.uid);
        if !is_known {
            let entry = self.take_in(pod, now);
            self.entries.insert(key.clone(), entry);
        } else if let Some(entry) = self.entries.get_mut(&key) {
            entry.is_contradicted = entry.told.as_ref().is_some_and(|told| contradicts(&pod, told));
            entry.pod = Arc::new(pod);
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.heed_deletion(now);
            entry.rests_until = None;
        }
    }

    /// A pod is gone.
    pub fn forget(&mut self, pod: &Pod) {
        self.entries.remove(&key_of(pod));
    }

    fn take_in(&mut self, pod: Pod, now: Timestamp) -> Entry {
        self.addresses += 1;
        let before = pod
            .status
            .as_ref()
            .and_then(|status| status.container_statuses.as_ref());
        let before = before.and_then(|statuses| statuses.first()).cloned();
        let has_run = before.as_ref().is_some_and(|status| status.started == Some(true));
        let restarts = before.map_or(0, |status| status.restart_count) + i32::from(has_run);
        let stage = self.first_stage(&pod, has_run, now);
        Entry {
            address: self.address(&pod),
            pod: Arc::new(pod),
            stage,
            restarts,
            begun: now,
            volumes: Vec::new(),
            turned: BTreeMap::new(),
            told: None,
            is_contradicted: false,
            is_given_up: false,
            retry_at: None,
            rests_until: None,
        }
    }

    fn first_stage(&mut self, pod: &Pod, has_run: bool, now: Timestamp) -> Stage {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return Stage::Past;
        }
        if has_run && policy(pod) == "Never" {
            // The machine was off meanwhile, and its containers with it.
            return Stage::ended(Why::Exited(KILLED), None, now);
        }
        if let Err(rejection) = self.admit(pod) {
            return Stage::Rejected(rejection);
        }
        if claims(pod).is_empty() {
            self.create(pod, now)
        } else {
            Stage::Mounting { retry_at: now }
        }
    }

    fn admit(&self, pod: &Pod) -> Result<(), Rejection> {
        if self.is_closing {
            return Err(Rejection {
                reason: REJECTED_REASON.to_owned(),
                message: REJECTED_MESSAGE.to_owned(),
            });
        }
        let mut used = Amounts::new();
        for entry in self.entries.values().filter(|entry| entry.stage.takes_room()) {
            if key_of(&entry.pod) != key_of(pod) {
                add(&mut used, &requests(&entry.pod));
            }
        }
        check(&requests(pod), &used, &self.allocatable)
    }

    fn create(&mut self, pod: &Pod, now: Timestamp) -> Stage {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let images = containers.filter_map(|container| container.image.clone());
        let mut takes = draw(self.pace.start, &mut self.rng);
        for image in images {
            let pull = draw(self.pace.pull, &mut self.rng);
            if self.images.insert(image) {
                takes += pull;
            }
        }
        Stage::Creating {
            until: later(now, takes),
        }
    }

    /// Pods share the machine's address if they ask for it. The others have one of their own, unique on the machine.
    fn address(&self, pod: &Pod) -> String {
        let shares = pod.spec.as_ref().and_then(|spec| spec.host_network);
        if shares == Some(true) {
            return self.host.clone();
        }
        let place = crate::hash::fnv1a(self.host.as_bytes());
        let (low, high) = (self.addresses & 0xff, (self.addresses >> 8) & 0xf);
        format!(
            "100.{}.{}.{}",
            64 + place % 64,
            u64::from(high) + ((place >> 8) & 0xf0),
            low
        )
    }

    /// Pods that wait for their volumes and are due for a look.
    pub fn mounting(&mut self, now: Timestamp) -> Vec<(PodKey, Arc<Pod>)> {
        let mut waiting = Vec::new();
        for (key, entry) in &mut self.entries {
            if let Stage::Mounting { retry_at } = &mut entry.stage
                && *retry_at <= now
            {
                *retry_at = later(now, AGAIN);
                waiting.push((key.clone(), Arc::clone(&entry.pod)));
            }
        }
        waiting
    }

    /// The volumes of a pod are at hand.
    pub fn mounted(&mut self, key: &PodKey, volumes: Vec<String>, now: Timestamp) {
        let Some(pod) = self.entries.get(key).map(|entry| Arc::clone(&entry.pod)) else {
            return;
        };
        let stage = self.create(&pod, now);
        if let Some(entry) = self.entries.get_mut(key) {
            (entry.volumes, entry.stage) = (volumes, stage);
            entry.rests_until = None;
        }
    }

    /// The volumes that pods use, by the names that a node reports.
    pub fn volumes(&self) -> Vec<String> {
        let used = self.entries.values().filter(|entry| entry.stage.takes_room());
        let used: BTreeSet<&String> = used.flat_map(|entry| &entry.volumes).collect();
        used.into_iter().cloned().collect()
    }

    /// The machine is being switched off.
    pub fn shut_down(&mut self, grace: Grace, now: Timestamp) {
        self.is_closing = true;
        let active: Vec<&mut Entry> = self
            .entries
            .values_mut()
            .filter(|entry| entry.stage.takes_room() && !entry.stage.is_stopping())
            .collect();
        let wishes: Vec<Wish> = active.iter().map(|entry| entry.wish()).collect();
        let ends = grace.ends(&wishes, now);
        for (entry, until) in active.into_iter().zip(ends) {
            entry.stage = entry.stage.stopping(until, Why::NodeShutdown, now);
            entry.rests_until = None;
        }
    }

    /// Lets happen what is due, and says what is to be told.
    pub fn next(&mut self, now: Timestamp) -> Vec<PodAct> {
        let mut acts = Vec::new();
        for (key, entry) in &mut self.entries {
            if entry.rests_until.is_some_and(|until| now < until) {
                continue;
            }
            while let Some(stage) = entry.due_stage(now) {
                entry.restarts += i32::from(matches!(entry.stage, Stage::BackingOff { .. }));
                entry.stage = stage;
            }
            if entry.retry_at.is_some_and(|retry_at| now < retry_at) {
                continue;
            }
            entry.retry_at = None;
            acts.extend(entry.tell(key, &self.host, now));
            entry.rests_until = Some(entry.stage.due(now).unwrap_or(Timestamp::MAX));
        }
        acts
    }

    /// Tells once more what somebody else has changed. What was changed because nobody heard of this machine would be
    /// changed again, so this is for one that is heard of.
    pub fn insist(&mut self, now: Timestamp) -> Vec<PodAct> {
        for entry in self.entries.values_mut() {
            if std::mem::take(&mut entry.is_contradicted) {
                (entry.told, entry.rests_until) = (None, None);
            }
        }
        self.next(now)
    }

    /// What was to be told about a pod did not get through.
    pub fn untold(&mut self, key: &PodKey, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.told = None;
            entry.is_given_up = false;
            entry.retry_at = Some(later(now, AGAIN));
            entry.rests_until = None;
        }
    }

    /// When something happens next by itself.
    pub fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.entries.values().flat_map(|entry| {
            let stage = entry.stage.due(now);
            let retry = entry.retry_at;
            stage.into_iter().chain(retry)
        });
        due.min()
    }
}

impl Entry {
    fn heed_deletion(&mut self, now: Timestamp) {
        let Some(due) = &self.pod.metadata.deletion_timestamp else {
            return;
        };
        // The timestamp is when the grace period ends; what counts here is how long the containers take.
        let grace = self.pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let takes = self.stops_after();
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        let ends = later(now, takes.min(grace)).min(due.0.max(now));
        match &self.stage {
            Stage::Stopping { until, .. } if *until <= ends => {}
            stage if !stage.takes_room() => {}
            stage => {
                let why = Why::Exited(self.last_code(takes > grace));
                self.stage = stage.stopping(ends, why, now);
            }
        }
    }

    /// What the containers of a pod that is deleted exit with. One that never started counts as killed. A program that
    /// would have ended by itself has not done its work when it is stopped: the signal is its end. A service that is
    /// told to stop, and may take the time that it needs, stops well.
    fn last_code(&self, is_killed: bool) -> i32 {
        let ends_by_itself = policy(&self.pod) != "Always" || self.annotation(RUNS_FOR).is_some();
        match &self.stage {
            Stage::BackingOff { code, .. } => *code,
            stage if is_killed || !stage.has_containers() => KILLED,
            _ if ends_by_itself => TERMINATED,
            _ => 0,
        }
    }

    /// The next stage, if it is its time.
    fn due_stage(&self, now: Timestamp) -> Option<Stage> {
        match &self.stage {
            Stage::Creating { until } | Stage::BackingOff { until, .. } if *until <= now => {
                Some(self.running(*until))
            }
            Stage::Running {
                since,
                exits_at: Some(exits_at),
                ..
            } if *exits_at <= now => Some(self.exited(*since, *exits_at)),
            Stage::Stopping { until, why, ran, .. } if *until <= now => {
                Some(Stage::ended(*why, *ran, *until))
            }
            _ => None,
        }
    }

    fn running(&self, since: Timestamp) -> Stage {
        let containers = self.pod.spec.iter().flat_map(|spec| &spec.containers);
        let delays =
            containers.filter_map(|container| container.readiness_probe.as_ref()?.initial_delay_seconds);
        let delay = delays.max().and_then(|seconds| u64::try_from(seconds).ok());
        Stage::Running {
            since,
            ready_at: later(since, Duration::from_secs(delay.unwrap_or(0))),
            exits_at: self.span(RUNS_FOR).map(|runs| later(since, runs)),
        }
    }

    /// What an exit leads to, by restart policy; restarts come later and later, up to five minutes.
    fn exited(&self, since: Timestamp, at: Timestamp) -> Stage {
        let code = self
            .annotation(EXITS_WITH)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0);
        let restarts = match policy(&self.pod) {
            "Always" => true,
            "OnFailure" => code != 0,
            _ => false,
        };
        if !restarts {
            return Stage::ended(Why::Exited(code), Some(since), at);
        }
        let doubled =
            Duration::from_secs(10) * 2_u32.saturating_pow(self.restarts.clamp(0, 5).unsigned_abs());
        Stage::BackingOff {
            until: later(at, doubled.min(Duration::from_mins(5))),
            code,
            ran: since,
            at,
        }
    }

    fn tell(&mut self, key: &PodKey, host: &str, now: Timestamp) -> Vec<PodAct> {
        let uid = self.pod.metadata.uid.clone().unwrap_or_default();
        let mut acts = Vec::new();
        if let Some(status) = status::render(self, host, now)
            && self.told.as_ref() != Some(&status)
        {
            self.told = Some(status.clone());
            self.is_contradicted = false;
            acts.push(PodAct::Status {
                key: key.clone(),
                uid: uid.clone(),
                status,
            });
        }
        let is_over = !self.stage.takes_room();
        if is_over && self.pod.metadata.deletion_timestamp.is_some() && !self.is_given_up {
            self.is_given_up = true;
            acts.push(PodAct::Delete {
                key: key.clone(),
                uid,
            });
        }
        acts
    }

    fn wish(&self) -> Wish {
        let spec = self.pod.spec.as_ref();
        let grace = spec
            .and_then(|spec| spec.termination_grace_period_seconds)
            .unwrap_or(30);
        Wish {
            priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
            grace: Duration::from_secs(u64::try_from(grace).unwrap_or(0)),
            takes: self.stops_after(),
        }
    }

    fn stops_after(&self) -> Duration {
        self.span(STOPS_AFTER).unwrap_or(Duration::from_secs(1))
    }

    fn span(&self, annotation: &str) -> Option<Duration> {
        self.annotation(annotation).and_then(parse_duration)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.pod.metadata.annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }
}

/// Whether a pod shows another phase or readiness than was told. That a pod has ended is nobody's to take back.
fn contradicts(pod: &Pod, told: &Value) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return false;
    }
    let shown = status.and_then(|status| status.conditions.as_deref());
    let mut shown = shown.unwrap_or_default().iter();
    let shown = shown.find(|condition| condition.type_ == "Ready");
    let mut said = told["conditions"].as_array().into_iter().flatten();
    let said = said.find(|condition| condition["type"] == "Ready");
    phase != told["phase"].as_str()
        || said.is_some_and(|said| said["status"].as_str() != shown.map(|shown| shown.status.as_str()))
}

fn policy(pod: &Pod) -> &str {
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    policy.unwrap_or("Always")
}

fn key_of(pod: &Pod) -> PodKey {
    PodKey {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
    }
}

/// A time within a span.
pub fn draw(span: Span, rng: &mut Rng) -> Duration {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (min, max) = (millis(span.min), millis(span.max));
    Duration::from_millis(if max > min { rng.u64(min..=max) } else { min })
}

#[cfg(test)]
mod tests;
