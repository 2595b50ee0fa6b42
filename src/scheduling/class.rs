//! Classes of pods as the solver sees them, with their preferences in the order in which they are given up.
//!
//! A class is tried with all its preferences taken as requirements, then with one less, and so on: the heaviest preferred
//! affinity, the heaviest preferred anti-affinity, the heaviest preferred node affinity, the first spread that allows
//! exceptions, and at last the dislike of taints that only prefer. What each stage asks is worked out once for the class,
//! so giving up a preference costs a look-up.

use std::collections::BTreeMap;

use super::Preferences;
use super::hosts::Host;
use super::plan::Why;
use super::space::{ANYTHING, ReqId, Space};
use super::template::Template;
use super::tolerance::Tolerance;
use super::topology::{Ask, Asks, CountedOn, Group, GroupId, Groups, Kind, Over};
use super::ways::{Place, Sold, Way};
use crate::api::names::HOSTNAME;
use crate::model::pod::{Firmness, Spread, Term};
use crate::model::storage::VolumeProblem;
use crate::model::taint::Preferring;
use crate::model::{HostPort, Pod, Requirements, Snapshot, Values};

/// What interned requirements of pods mean.
pub(super) type Meanings = BTreeMap<ReqId, Requirements>;

/// More preferences of one kind than this are not looked at: each is a stage, and nobody weighs so many.
const PREFERENCES_MAX: usize = 32;

/// A class of pods.
#[derive(Debug)]
pub(super) struct Class {
    /// Its place among the classes of the snapshot.
    pub(super) source: usize,
    /// Its pods, by their place in the snapshot, oldest first.
    pub(super) members: Vec<usize>,
    /// Those with more come first.
    pub(super) priority: i32,
    /// Whether each pod asks for something that not every machine has.
    pub(super) is_special: bool,
    /// What each pod asks for.
    pub(super) requests: Vec<i64>,
    /// A number that only classes have which ask for as much.
    pub(super) size: usize,
    /// The ports it takes.
    pub(super) ports: Vec<HostPort>,
    /// The volumes it attaches: driver and name.
    pub(super) volumes: Vec<(String, String)>,
    /// What it asks at each stage; empty if it cannot be placed at all.
    pub(super) stages: Vec<StageOf>,
    /// The groups that count it.
    pub(super) counted: Vec<GroupId>,
    /// The groups by which others must be far from it.
    pub(super) feared: Vec<GroupId>,
    /// The groups by which it must be far from others.
    pub(super) keeps: Vec<GroupId>,
    /// Why it cannot be placed at all.
    pub(super) trouble: Option<Why>,
}

/// What a class asks while it holds to certain preferences.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct StageOf {
    /// What labels its node must have: one of these.
    pub(super) nodes: Vec<ReqId>,
    /// The number of its tolerations.
    pub(super) tolerations: u32,
    /// What it asks of where others are.
    pub(super) asks: Asks,
    /// The columns of which a new node's value must be known.
    pub(super) pins: Vec<usize>,
}

/// What is left of a class's preferences.
struct Wishes {
    near: Vec<Ask>,
    far: Vec<Ask>,
    nodes: Vec<Option<(ReqId, Requirements)>>,
    spreads: Vec<Ask>,
    preferring: Preferring,
}

/// What classes are made from.
pub(super) struct Reader<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) space: &'a mut Space,
    pub(super) tolerance: &'a mut Tolerance,
    pub(super) groups: &'a mut Groups,
    pub(super) meanings: &'a mut Meanings,
    pub(super) preferences: Preferences,
    pub(super) templates: &'a [Template],
    pub(super) hosts: &'a [Host],
    /// Worked out for the first pod with too many ways.
    pub(super) sold: Option<Sold>,
}

impl Reader<'_> {
    /// What a class asks at each stage, or why it cannot be placed at all.
    pub(super) fn read(&mut self, class: &mut Class, pod: &Pod) {
        if let Some(claim) = pod.devices.first() {
            class.trouble = Some(Why::Devices(claim.clone()));
            return;
        }
        let terms = self.own_terms(pod);
        let places = match self.volumes(class, pod) {
            Ok(places) => places,
            Err(problem) => {
                class.trouble = Some(Why::Volume(problem));
                return;
            }
        };
        let ways = self.ways(pod, &terms, &places);
        // Where pods are counted, a taint that only prefers keeps no node out: the scheduler honors the others alone.
        let tolerations = self.tolerance.tolerations(&pod.tolerations, Preferring::Ignored);
        let mut counted_on = CountedOn {
            terms: terms.into_iter().map(|(id, _)| id).collect(),
            labelled: self.labelled(pod),
            tolerations,
        };
        let firm = self.firm(pod, &counted_on);
        class.keeps = firm.far.iter().map(|ask| ask.group).collect();
        // Of what is merely wished for, each label is looked at alone.
        counted_on.labelled = None;
        let mut wishes = self.wishes(pod, &counted_on);
        loop {
            class.stages.push(self.stage(pod, &ways, &firm, &wishes));
            if !wishes.give_up_one(self.tolerance) {
                break;
            }
        }
    }

    /// The nodes that have every label over which a pod must be spread: if there are several, the kube-scheduler counts
    /// pods on those alone.
    fn labelled(&mut self, pod: &Pod) -> Option<ReqId> {
        let mut all = Requirements::new();
        for spread in required(pod).filter(|spread| spread.key != HOSTNAME) {
            all.narrow(&spread.key, &Values::some());
        }
        let one = |key: &str| required(pod).all(|spread| spread.key == key);
        let mut keys = all.iter().map(|(key, _)| key);
        if keys.next().is_none_or(|key| one(key)) {
            return None;
        }
        self.space.id_of(&all)
    }

    fn firm(&mut self, pod: &Pod, on: &CountedOn) -> Asks {
        let mut firm = Asks::default();
        for spread in required(pod) {
            firm.spreads.push(self.groups.spread(self.space, pod, spread, on));
        }
        firm.near = self.groups.near(self.space, pod, &self.snapshot.namespaces);
        firm.near_firm = firm.near.len();
        firm.far = self.terms(pod, pod.anti_affinity.iter(), Kind::Far);
        firm
    }

    fn terms<'t>(&mut self, pod: &Pod, terms: impl Iterator<Item = &'t Term>, kind: Kind) -> Vec<Ask> {
        let namespaces = &self.snapshot.namespaces;
        let mut ask = |term| self.groups.term(self.space, pod, term, kind, namespaces);
        terms.map(&mut ask).collect()
    }

    fn wishes(&mut self, pod: &Pod, on: &CountedOn) -> Wishes {
        let mut wishes = Wishes {
            near: Vec::new(),
            far: Vec::new(),
            nodes: Vec::new(),
            spreads: Vec::new(),
            preferring: Preferring::Counts,
        };
        if self.preferences == Preferences::Ignore {
            return wishes;
        }
        let first = |terms: &[(i32, Term)]| -> Vec<Term> {
            let terms = terms.iter().take(PREFERENCES_MAX);
            terms.map(|(_, term)| term.clone()).collect()
        };
        wishes.near = self.terms(pod, first(&pod.preferred_affinity).iter(), Kind::Near);
        wishes.far = self.terms(pod, first(&pod.preferred_anti_affinity).iter(), Kind::Far);
        let nodes = pod.preferred_nodes.iter().take(PREFERENCES_MAX);
        wishes.nodes = nodes
            .map(|(_, wanted)| Some((self.space.id_of(wanted)?, self.space.meaning(wanted).into_owned())))
            .collect();
        let soft = pod
            .spreads
            .iter()
            .filter(|spread| spread.firmness == Firmness::Preferred);
        for spread in soft.take(PREFERENCES_MAX) {
            wishes
                .spreads
                .push(self.groups.spread(self.space, pod, spread, on));
        }
        wishes
    }

    fn stage(&mut self, pod: &Pod, ways: &[Way<'_>], firm: &Asks, wishes: &Wishes) -> StageOf {
        let joined = |firm: &[Ask], wished: &[Ask]| [firm, wished].concat();
        let anything = Some((ANYTHING, Requirements::new()));
        let preferred = wishes.nodes.first().unwrap_or(&anything);
        let mut nodes = Vec::with_capacity(ways.len());
        if let Some((preferred, wanted)) = preferred {
            for (way, meaning) in ways {
                let Some(both) = self.space.and(*way, *preferred) else {
                    continue;
                };
                self.meanings.entry(both).or_insert_with(|| meaning.and(wanted));
                nodes.push(both);
            }
        }
        nodes.dedup();
        StageOf {
            nodes,
            tolerations: self.tolerance.tolerations(&pod.tolerations, wishes.preferring),
            asks: Asks {
                spreads: joined(&firm.spreads, &wishes.spreads),
                near: joined(&firm.near, &wishes.near),
                near_firm: firm.near_firm,
                far: joined(&firm.far, &wishes.far),
            },
            pins: Vec::new(),
        }
    }

    /// Where the volumes of a class can be, as alternatives. They say nothing about where its pods are counted.
    fn volumes(&mut self, class: &mut Class, pod: &Pod) -> Result<Vec<Place>, VolumeProblem> {
        let mut places = vec![(ANYTHING, Requirements::new())];
        for volume in &pod.volumes {
            let needs = self.snapshot.storage.needs(&pod.namespace, volume)?;
            if let Some(driver) = needs.driver {
                class
                    .volumes
                    .push((driver, format!("{}/{}", pod.namespace, volume.claim)));
            }
            if needs.nodes.is_empty() {
                continue;
            }
            let mut both: Vec<Place> = Vec::new();
            for (place, meaning) in &places {
                for nodes in &needs.nodes {
                    let id = self
                        .space
                        .id_of(nodes)
                        .and_then(|nodes| self.space.and(*place, nodes));
                    both.extend(id.map(|id| (id, meaning.and(nodes))));
                }
            }
            both.sort_by_key(|(id, _)| *id);
            both.dedup_by_key(|(id, _)| *id);
            places = self.few_places(both);
        }
        Ok(places)
    }
}

impl Wishes {
    /// Gives up the next preference; false if none is left.
    fn give_up_one(&mut self, tolerance: &Tolerance) -> bool {
        if !self.near.is_empty() {
            self.near.remove(0);
        } else if !self.far.is_empty() {
            self.far.remove(0);
        } else if !self.nodes.is_empty() {
            self.nodes.remove(0);
        } else if !self.spreads.is_empty() {
            self.spreads.swap_remove(0);
        } else if tolerance.some_prefer() && self.preferring == Preferring::Counts {
            self.preferring = Preferring::Ignored;
        } else {
            return false;
        }
        true
    }
}

impl Class {
    /// Works out the columns of which a node's value must be known once a pod of the class is there: those that it is counted
    /// by, and those that say whether it counts at all.
    pub(super) fn settle_pins(&mut self, groups: &[Group], space: &Space, templates: &[Template]) {
        for stage in &mut self.stages {
            let asks = stage
                .asks
                .spreads
                .iter()
                .chain(&stage.asks.near)
                .chain(&stage.asks.far);
            let asked = asks.map(|ask| ask.group).chain(self.counted.iter().copied());
            let column = |group: GroupId| match groups[group].over {
                Over::Label(column) => Some(column),
                Over::Hosts => None,
            };
            stage.pins = asked.filter_map(column).collect();
            for group in &self.counted {
                let open = groups[*group].filter.open(space, templates, &stage.nodes);
                stage.pins.extend(open);
            }
            stage.pins.sort_unstable();
            stage.pins.dedup();
        }
    }

    /// What keeps pods of the class from each other's nodes while all preferences are held to, and how many of those that it
    /// counts, with them themselves, may be on one.
    pub(super) fn crowds(&self, groups: &[Group]) -> impl Iterator<Item = (GroupId, i64)> {
        let stages = self.stages.first().into_iter();
        let asks = stages.flat_map(|stage| stage.asks.spreads.iter().chain(&stage.asks.far));
        let own = asks.filter(move |ask| ask.itself > 0 && groups[ask.group].over == Over::Hosts);
        own.map(move |ask| match groups[ask.group].kind {
            Kind::Spread { max_skew, .. } => (ask.group, max_skew),
            Kind::Near | Kind::Far => (ask.group, 1),
        })
    }

    /// How many pods of the class may be on one node at most, while all preferences are held to.
    pub(super) fn most_on_a_node(&self, groups: &[Group]) -> i64 {
        let most = self.crowds(groups).map(|(_, most)| most).min();
        most.unwrap_or(i64::MAX)
    }

    /// Whether a pod that finds no place now may find one after others have.
    pub(super) fn may_improve(&self) -> bool {
        self.stages.iter().any(|stage| stage.asks.may_improve())
    }
}

fn required(pod: &Pod) -> impl Iterator<Item = &Spread> {
    let spreads = pod.spreads.iter();
    spreads.filter(|spread| spread.firmness == Firmness::Required)
}

/// Every requirement on nodes that a pod mentions, with its volumes'.
pub(super) fn requirements_of<'a>(
    pod: &'a Pod,
    snapshot: &Snapshot,
) -> (Vec<&'a Requirements>, Vec<Requirements>) {
    let own = pod.node_terms.iter();
    let preferred = pod.preferred_nodes.iter().map(|(_, wanted)| wanted);
    let volumes = pod.volumes.iter();
    let needs = volumes.filter_map(|volume| snapshot.storage.needs(&pod.namespace, volume).ok());
    (
        own.chain(preferred).collect(),
        needs.flat_map(|needs| needs.nodes).collect(),
    )
}
