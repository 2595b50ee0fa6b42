//! What the judge remembers: requests under way, every machine that was ever ours, what became of claims, whom others
//! touched.
//!
//! The book is brought up to date with each entry before any check looks: the cluster's changes since the last entry are
//! read from its store, so that none is missed, and the machines are looked at whenever one has moved or the cloud was
//! asked something.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::changes::{Changed, Tables};
use super::claims::is_true;
use super::ownership::target;
use super::{Settings, Truth};
use crate::api::names::NODE_REGISTERED;
use crate::api::parse_duration;
use crate::cloud::{ClusterId, InstanceName};
use crate::sim::history::{Answer, Edge, Entry, Request, What, Who};
use crate::sim::ibm::{Class, InstanceTruth};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::stored::ObjectKey;

/// No world lasts so long.
const LONG: Duration = Duration::from_hours(12);

/// A request that has no answer yet.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Whose it is.
    pub who: Who,
    /// When it was sent.
    pub at: Duration,
    /// What it is.
    pub request: Request,
    /// The revision of the cluster when it was sent.
    pub revision: u64,
    /// When a machine that bears a name of ours had last changed by then.
    pub machine_changed: Duration,
}

/// A machine, as it is or was last.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its id.
    pub id: String,
    /// Its name now.
    pub name: String,
    /// The uid of the claim that it was bought for, if it is ours.
    pub claim: Option<String>,
    /// `running` and the like.
    pub status: &'static str,
    /// Why it is so.
    pub reason: Option<String>,
    /// What it really is.
    pub profile: &'static str,
    /// Where it really is.
    pub zone: String,
    /// How it was really bought.
    pub class: Class,
    /// Its address, once it has one.
    pub address: Option<String>,
    /// When it was first seen.
    pub seen: Duration,
    /// When it was last seen stopped or failed, or to run no longer.
    pub broken: Option<Duration>,
    /// Whether it broke or went although no replica had asked for that.
    pub lost: bool,
    /// Since when it is gone.
    pub gone: Option<Duration>,
}

impl Machine {
    /// Whether it runs or may yet.
    pub fn is_live(&self) -> bool {
        self.gone.is_none() && matches!(self.status, "pending" | "starting" | "running" | "restarting")
    }

    /// Whether it is named as it was bought: the machine of a failed attempt is renamed.
    pub fn has_its_own_name(&self) -> bool {
        self.name.parse::<InstanceName>().is_ok()
    }
}

/// What became of a claim.
#[derive(Clone, Debug)]
pub struct ClaimFacts {
    /// Its name.
    pub name: String,
    /// When it was first seen.
    pub seen: Duration,
    /// Since when it is being deleted.
    pub deleting: Option<Duration>,
    /// Since when our finalizer is off, after it was on, or the claim gone.
    pub released: Option<Duration>,
    /// When somebody else last forced it.
    pub forced: Option<Duration>,
    /// Whether it lives for a time only.
    pub expires: bool,
    /// Since when it is gone.
    pub gone: Option<Duration>,
}

/// A replica's last turns.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// When it last began.
    pub started: Option<Duration>,
    /// When it last crashed.
    pub crashed: Option<Duration>,
    /// When it was last paused.
    pub paused: Option<Duration>,
    /// When it last went on after a pause.
    pub resumed: Option<Duration>,
}

impl Turns {
    /// Whether it stands still now.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some() && self.resumed < self.paused && self.crashed < self.paused
    }
}

/// What the judge remembers.
#[derive(Debug)]
pub struct Book {
    /// What it knows of the operator.
    pub settings: Settings,
    /// Which cluster this is, once it is there.
    pub cluster: Option<ClusterId>,
    /// Requests of replicas without an answer, by number.
    pub open: BTreeMap<u64, Sent>,
    /// Every machine that was ever seen, by id.
    pub machines: BTreeMap<String, Machine>,
    /// Machines that replicas asked to be deleted, by id.
    pub given_back: BTreeSet<String>,
    /// Every claim that was ever seen, by uid.
    pub claims: BTreeMap<String, ClaimFacts>,
    /// Claims whose Node has joined, by uid.
    pub registered: BTreeSet<String>,
    /// Names of Nodes that were ever there.
    pub nodes: BTreeSet<String>,
    /// What others touched, like `nodeclaims/a`, and when last.
    pub meddled: BTreeMap<String, Duration>,
    /// How often each fault struck, and when last.
    pub struck: BTreeMap<&'static str, (u64, Duration)>,
    /// By number.
    pub replicas: BTreeMap<usize, Turns>,
    /// What changed in the cluster since the last entry.
    pub changed: Changed,
    /// Machines that were first seen with this entry.
    pub new_machines: Vec<String>,
    /// The answered request, if this entry is an answer.
    pub answered: Option<Sent>,
    /// Since when nothing goes wrong any more.
    pub healed_at: Option<Duration>,
    /// Since when nothing may change any more.
    pub quiet_since: Option<Duration>,
    /// When a machine that bears a name of ours last came, went or changed its status. Those of others are no reason to act.
    machine_changed: Duration,
    tables: Tables,
    /// How often machines had moved when they were last looked at.
    moved: u64,
}

impl Book {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            cluster: None,
            open: BTreeMap::new(),
            machines: BTreeMap::new(),
            given_back: BTreeSet::new(),
            claims: BTreeMap::new(),
            registered: BTreeSet::new(),
            nodes: BTreeSet::new(),
            meddled: BTreeMap::new(),
            struck: BTreeMap::new(),
            replicas: BTreeMap::new(),
            changed: Changed::default(),
            new_machines: Vec::new(),
            answered: None,
            healed_at: None,
            quiet_since: None,
            machine_changed: Duration::ZERO,
            tables: Tables::default(),
            moved: 0,
        }
    }

    /// Takes in an entry and what changed since the last one.
    pub(super) fn take_in(&mut self, entry: &Entry, truth: &Truth<'_>) {
        if self.cluster.is_none() {
            self.cluster = cluster(truth);
        }
        self.changed = self.tables.read(truth);
        if truth.cloud.moved() != self.moved {
            self.look_at_machines(truth);
        }
        match &entry.what {
            What::Request(request) => self.sent(entry, request, truth),
            What::Answer(answer) => self.answered(answer, truth),
            What::Fault { name, detail } => self.struck(name, detail, entry.at),
            What::Turn(turn) => self.turned(entry, turn),
            What::Event { .. } => {}
        }
        self.follow_claims(entry.at);
        self.nodes.extend(self.changed.nodes.iter().cloned());
    }

    /// Forgets what concerned one entry only.
    pub(super) fn turn_page(&mut self, entry: &Entry) {
        self.new_machines.clear();
        if let What::Answer(answer) = &entry.what {
            self.open.remove(&answer.number);
            self.answered = None;
        }
    }

    fn sent(&mut self, entry: &Entry, request: &Request, truth: &Truth<'_>) {
        if !matches!(entry.who, Who::Replica { .. }) {
            return;
        }
        if request.edge == Edge::Cloud && request.method != Method::GET {
            self.look_at_machines(truth);
            if request.method == Method::DELETE {
                self.given_back.extend(target(request).map(str::to_owned));
            }
        }
        let sent = Sent {
            who: entry.who.clone(),
            at: entry.at,
            request: request.clone(),
            revision: self.tables.revision(),
            machine_changed: self.machine_changed,
        };
        self.open.insert(request.number, sent);
    }

    fn answered(&mut self, answer: &Answer, truth: &Truth<'_>) {
        self.answered = self.open.get(&answer.number).cloned();
        if self
            .answered
            .as_ref()
            .is_some_and(|sent| sent.request.edge == Edge::Cloud)
        {
            self.look_at_machines(truth);
        }
    }

    fn struck(&mut self, name: &'static str, detail: &str, at: Duration) {
        let (times, last) = self.struck.entry(name).or_insert((0, at));
        (*times, *last) = (*times + 1, at);
        self.meddled.insert(detail.to_owned(), at);
        let forces = matches!(name, "k14-strip-finalizer" | "k10-recreated");
        let Some(claim) = detail.strip_prefix("nodeclaims/").filter(|_| forces) else {
            return;
        };
        for facts in self.claims.values_mut() {
            if facts.name == claim && facts.gone.is_none() {
                facts.forced = Some(at);
            }
        }
    }

    fn turned(&mut self, entry: &Entry, turn: &str) {
        let Who::Replica { number, .. } = entry.who else {
            return;
        };
        let turns = self.replicas.entry(number).or_default();
        let now = Some(entry.at);
        match turn {
            "started" => turns.started = now,
            "paused" => turns.paused = now,
            "resumed" => turns.resumed = now,
            other if other.starts_with("crashed") => turns.crashed = now,
            _ => {}
        }
    }

    /// Looks at all machines as they are now.
    fn look_at_machines(&mut self, truth: &Truth<'_>) {
        let (now, there) = (truth.since_start, truth.cloud.instances());
        self.moved = truth.cloud.moved();
        let ids: BTreeSet<&str> = there.iter().map(|machine| machine.id.as_str()).collect();
        for machine in self.machines.values_mut() {
            if machine.gone.is_none() && !ids.contains(machine.id.as_str()) {
                machine.gone = Some(now);
                machine.lost |= !self.given_back.contains(&machine.id);
                if is_named_for(&machine.name, self.cluster) {
                    self.machine_changed = now;
                }
            }
        }
        for truth in there {
            let claim = self.claim_of(&truth);
            let known = self.machines.get_mut(&truth.id);
            let changed = known.as_ref().is_none_or(|known| known.status != truth.status);
            if changed && is_named_for(&truth.name, self.cluster) {
                self.machine_changed = now;
            }
            if let Some(known) = known {
                known.update(&truth, now);
                known.lost |= !known.is_live() && !self.given_back.contains(&known.id);
            } else {
                self.new_machines.push(truth.id.clone());
                self.machines
                    .insert(truth.id.clone(), Machine::new(&truth, claim, now));
            }
        }
    }

    /// The uid of the claim that a machine belongs to, if it is ours: by name and resource group, as both are atomic at
    /// create.
    fn claim_of(&self, machine: &InstanceTruth) -> Option<String> {
        if machine.resource_group != self.settings.resource_group {
            return None;
        }
        let name: InstanceName = own_name(&machine.name).parse().ok()?;
        (Some(name.cluster()) == self.cluster).then(|| name.claim_uid())
    }

    fn follow_claims(&mut self, at: Duration) {
        for change in &self.changed.claims {
            let uid = object::uid(&change.after).to_owned();
            let facts = self.claims.entry(uid).or_insert_with(|| ClaimFacts {
                name: object::name(&change.after).to_owned(),
                seen: at,
                deleting: None,
                released: None,
                forced: None,
                expires: expires(&change.after),
                gone: None,
            });
            if object::is_deleting(&change.after) {
                facts.deleting.get_or_insert(at);
            }
            if is_true(&change.after, NODE_REGISTERED) {
                self.registered.insert(object::uid(&change.after).to_owned());
            }
            if change.releases() {
                facts.released.get_or_insert(at);
            }
            if change.deleted {
                facts.released.get_or_insert(at);
                facts.deleting.get_or_insert(at);
                facts.gone.get_or_insert(at);
            }
        }
    }

    /// The machines that were bought for a claim, oldest first.
    pub fn machines_of<'a>(&'a self, claim: &'a str) -> impl Iterator<Item = &'a Machine> {
        self.machines
            .values()
            .filter(move |machine| machine.claim.as_deref() == Some(claim))
    }

    /// The names of claims that joined and of which nothing was taken: no machine of theirs broke or went by itself, nobody
    /// else touched them or their Node, and they live for good. There is no reason to buy or give back for them but that
    /// people do so without faults.
    pub fn sound(&self) -> BTreeSet<String> {
        let is_touched = |name: &str| {
            let mut kinds = ["nodeclaims", "nodes"].into_iter();
            kinds.any(|kind| self.meddled.contains_key(&format!("{kind}/{name}")))
        };
        let is_sound = |uid: &String, facts: &ClaimFacts| {
            let mut machines = self.machines_of(uid);
            let lost = |it: &Machine| it.lost || self.meddled.contains_key(&it.name);
            self.registered.contains(uid)
                && facts.forced.is_none()
                && !facts.expires
                && !is_touched(&facts.name)
                && !machines.any(lost)
        };
        let (mut sound, mut others) = (BTreeSet::new(), BTreeSet::new());
        for (uid, facts) in &self.claims {
            let names = if is_sound(uid, facts) {
                &mut sound
            } else {
                &mut others
            };
            names.insert(facts.name.clone());
        }
        // A name that was given twice is as good as the worst of those who had it.
        &sound - &others
    }

    /// How often a fault struck.
    pub fn strikes(&self, name: &str) -> u64 {
        self.struck.get(name).map_or(0, |(times, _)| *times)
    }

    /// Whether a fault struck within `span` before `now`.
    pub fn struck_within(&self, name: &str, now: Duration, span: Duration) -> bool {
        self.struck
            .get(name)
            .is_some_and(|(_, last)| now.saturating_sub(*last) <= span)
    }
}

impl Machine {
    fn new(truth: &InstanceTruth, claim: Option<String>, now: Duration) -> Self {
        let mut machine = Self {
            id: truth.id.clone(),
            name: truth.name.clone(),
            claim,
            status: truth.status,
            reason: truth.reason.clone(),
            profile: truth.profile,
            zone: truth.zone.clone(),
            class: truth.class,
            address: None,
            seen: now,
            broken: None,
            lost: false,
            gone: None,
        };
        machine.update(truth, now);
        machine
    }

    fn update(&mut self, truth: &InstanceTruth, now: Duration) {
        if self.name != truth.name {
            self.name.clone_from(&truth.name);
        }
        if self.address.is_none() {
            self.address = truth.address.map(|address| address.to_string());
        }
        let fell = self.status == "running" && truth.status != "running";
        (self.status, self.reason) = (truth.status, truth.reason.clone());
        // A machine with another profile than asked for shows it when it runs.
        (self.profile, self.class) = (truth.profile, truth.class);
        if fell || !self.is_live() {
            self.broken = Some(now);
        }
    }
}

/// The name that a machine was bought under: that of a failed attempt without its suffix.
pub(super) fn own_name(name: &str) -> &str {
    match name.rsplit_once("-x") {
        Some((own, attempt)) if attempt.bytes().all(|byte| byte.is_ascii_digit()) => own,
        _ => name,
    }
}

/// Whether a machine bears a name of this cluster's, whosever it is: a stranger's may stand in the way of ours.
fn is_named_for(machine: &str, cluster: Option<ClusterId>) -> bool {
    let name = own_name(machine).parse::<InstanceName>();
    name.is_ok_and(|name| Some(name.cluster()) == cluster)
}

/// Whether a claim's time may be over before the world's is.
fn expires(claim: &Value) -> bool {
    let lives = claim["spec"]["expireAfter"].as_str().and_then(parse_duration);
    lives.is_some_and(|lives| lives < LONG)
}

fn cluster(truth: &Truth<'_>) -> Option<ClusterId> {
    let state = truth.kube.state();
    let key = ObjectKey::new("", "kube-system");
    let namespace: Value = state.store.get(&TableKey::of("", "namespaces"), &key)?.value();
    Some(ClusterId::from_kube_system_uid(object::uid(&namespace)))
}

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_goes_is_seen_to_go_though_no_replica_asks_the_cloud() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.pass(200).await;
        stage
            .cloud_says(Method::DELETE, &format!("/v1/instances/{id}"), "")
            .await;
        stage.look();
        assert_eq!(stage.judge.book.machines[&id].status, "deleting");
        tokio::time::sleep(Duration::from_secs(200)).await;
        stage.cloud.advance();
        stage.look();
        assert!(stage.judge.book.machines[&id].gone.is_some());
    }
}
