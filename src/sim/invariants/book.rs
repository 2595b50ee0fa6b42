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

use super::changes::{Changed, Tables, Versions};
use super::claims::is_true;
use super::machine::Machine;
use super::ownership::target;
use super::release::is_ours;
use super::{Settings, Truth};
use crate::api::names::NODE_REGISTERED;
use crate::api::parse_duration;
use crate::cloud::{ClusterId, InstanceName};
use crate::sim::history::{Answer, Edge, Entry, Request, What, Who};
use crate::sim::ibm::InstanceTruth;
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

/// What became of a claim.
#[derive(Clone, Debug)]
pub struct ClaimFacts {
    /// Its name.
    pub name: String,
    /// When it was first seen.
    pub seen: Duration,
    /// Since when it is being deleted.
    pub deleting: Option<Duration>,
    /// Since when our finalizer is off because a replica took it off, or the claim gone without anybody else having done so.
    pub released: Option<Duration>,
    /// Whether somebody else took our finalizer off, and no replica has put it back.
    pub stripped: bool,
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
    /// How often others forced claims or deleted their Nodes, by name.
    forcings: BTreeMap<String, u64>,
    /// How often each fault struck, and when last.
    pub struck: BTreeMap<&'static str, (u64, Duration)>,
    /// By number.
    pub replicas: BTreeMap<usize, Turns>,
    /// By how much the clock of a replica was wrong at the most, by its number. That it is right again is not told.
    skews: BTreeMap<usize, Duration>,
    /// What changed in the cluster since the last entry.
    pub changed: Changed,
    /// Machines that were first seen with this entry.
    pub new_machines: Vec<String>,
    /// Machines that were down and came back with this entry.
    pub revived: Vec<String>,
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
            forcings: BTreeMap::new(),
            struck: BTreeMap::new(),
            replicas: BTreeMap::new(),
            skews: BTreeMap::new(),
            changed: Changed::default(),
            new_machines: Vec::new(),
            revived: Vec::new(),
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
        self.revived.clear();
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
        if let Some((replica, skew)) = skew(detail).filter(|_| name == "k15-skew") {
            let most = self.skews.entry(replica).or_default();
            *most = skew.max(*most);
        }
        // A claim goes with its Node, whoever deleted that.
        if let Some(claim) = detail
            .strip_prefix("nodes/")
            .filter(|_| name == "k14-delete-node")
        {
            *self.forcings.entry(claim.to_owned()).or_default() += 1;
        }
        let forces = matches!(name, "k14-strip-finalizer" | "k10-recreated");
        let Some(claim) = detail.strip_prefix("nodeclaims/").filter(|_| forces) else {
            return;
        };
        *self.forcings.entry(claim.to_owned()).or_default() += 1;
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
                let was_live = known.is_live();
                known.update(&truth, now);
                if known.is_live() && !was_live {
                    self.revived.push(known.id.clone());
                }
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
                stripped: false,
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
            if change.is_held() {
                (facts.released, facts.stripped) = (None, false);
            } else if change.releases() {
                facts.stripped = !is_ours(change, &self.open);
            }
            let released = change.releases() || change.deleted;
            if released && !facts.stripped {
                facts.released.get_or_insert(at);
            }
            if change.deleted {
                facts.deleting.get_or_insert(at);
                facts.gone.get_or_insert(at);
            }
        }
    }

    /// Whether it is a replica that takes our finalizer off a claim.
    pub fn releases_itself(&self, change: &Versions) -> bool {
        change.releases() && is_ours(change, &self.open)
    }

    /// How often each claim lost something for which it is bought or given back for again, by name: what others forced, and
    /// machines that broke, went by themselves or were odd. One that is made again for the same pods has the name of the first:
    /// so there is no more to it than that either, where the first was given up before there was a machine, or with one that
    /// had had its time and never joined.
    pub fn losses(&self) -> BTreeMap<String, u64> {
        let mut losses = self.forcings.clone();
        for (uid, facts) in &self.claims {
            let is_lost = |machine: &&Machine| machine.lost || self.meddled.contains_key(&machine.name);
            let lost = self.machines_of(uid).filter(is_lost).count();
            let in_vain = u64::from(self.came_to_nothing(uid, facts));
            let lost = u64::try_from(lost).unwrap_or(u64::MAX).max(in_vain);
            if lost > 0 {
                *losses.entry(facts.name.clone()).or_default() += lost;
            }
        }
        losses
    }

    fn came_to_nothing(&self, uid: &str, facts: &ClaimFacts) -> bool {
        let had_its_time = |machine: &Machine| {
            let given_up = facts.deleting.unwrap_or_default();
            given_up >= machine.seen + self.settings.launch_limit
        };
        facts.deleting.is_some() && !self.registered.contains(uid) && self.machines_of(uid).all(had_its_time)
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

    /// By how much the clock of a replica may be wrong, ahead or behind.
    pub fn skew_of(&self, who: &Who) -> Duration {
        match who {
            Who::Replica { number, .. } if self.healed_at.is_none() => {
                self.skews.get(number).copied().unwrap_or_default()
            }
            _ => Duration::ZERO,
        }
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

/// Whose clock is wrong by how much: `-30 s for replica 1`.
fn skew(detail: &str) -> Option<(usize, Duration)> {
    let (seconds, replica) = detail.split_once(" s for replica ")?;
    let seconds: i64 = seconds.parse().ok()?;
    Some((replica.parse().ok()?, Duration::from_secs(seconds.unsigned_abs())))
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
    async fn a_claim_loses_machines_that_go_by_themselves_are_odd_or_never_come_or_join() {
        let mut stage = Stage::new().await;
        for name in ["kept", "broken", "odd", "unbought", "late", "hasty", "wanted"] {
            let uid = stage.claim(name).await;
            let machine = stage.name_of(&uid);
            if !["unbought", "wanted"].contains(&name) {
                stage.machine(&machine).await;
            }
            match name {
                "odd" => stage.struck("n1-never-joins", &machine),
                "broken" => {
                    stage.pass(200).await;
                    stage.cloud.stop(&machine).unwrap();
                    stage.pass(60).await;
                }
                "unbought" | "hasty" => stage.delete(name).await,
                "late" => {
                    stage.pass(300).await;
                    stage.delete(name).await;
                }
                _ => {}
            }
        }
        stage.struck("k14-strip-finalizer", "nodeclaims/kept");
        stage.struck("k14-delete-node", "nodes/wanted");
        let losses = ["broken", "kept", "late", "odd", "unbought", "wanted"].map(|name| (name.to_owned(), 1));
        assert_eq!(stage.judge.losses(), losses.into());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_is_wrong_until_healing_and_no_other_with_it() {
        let mut stage = Stage::new().await;
        stage.struck("k15-skew", "-30 s for replica 1");
        stage.struck("k15-skew", "+7 s for replica 1");
        let skew_of = |stage: &Stage, replica| stage.judge.book.skew_of(&Stage::replica(replica)).as_secs();
        assert_eq!((skew_of(&stage, 0), skew_of(&stage, 1)), (0, 30));
        stage.judge.healed(Duration::ZERO);
        assert_eq!(skew_of(&stage, 1), 0);
    }

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
