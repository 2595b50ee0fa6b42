//! A snapshot made ready for solving: everything that has a name gets a number.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use super::alike;
use super::catalog;
use super::class::{Class, Meanings, Reader, requirements_of};
use super::dims::Dims;
use super::hosts::{Host, hosts};
use super::labels::Labels;
use super::obtainable::Obtainable;
use super::plan::Why;
use super::space::Space;
use super::template::Template;
use super::tolerance::Tolerance;
use super::topology::{Counted, Counts, Group, GroupId, Groups, Kind, eligible};
use crate::api::names::{CAPACITY_TYPE, HOSTNAME, ZONE, current_label};
use crate::api::{CapacityType, names};
use crate::model::{Node, Pod, Requirements, Snapshot};

/// A snapshot made ready for solving.
#[derive(Debug)]
pub(super) struct Problem<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) options: Options,
    pub(super) space: Space,
    pub(super) dims: Dims,
    pub(super) tolerance: Tolerance,
    pub(super) templates: Vec<Template>,
    pub(super) hosts: Vec<Host>,
    pub(super) groups: Vec<Group>,
    /// What the requirements of classes mean.
    pub(super) meanings: Meanings,
    /// What is counted before anything is placed.
    pub(super) counts: Counts,
    /// The classes, in an order that the order of the snapshot's lists has no part in.
    pub(super) classes: Vec<Class>,
}

impl<'a> Problem<'a> {
    /// Makes a snapshot ready.
    pub(super) fn new(snapshot: &'a Snapshot, options: Options) -> Self {
        let dims = dims(snapshot);
        let mut space = Space::new(labels(snapshot));
        let mut tolerance = Tolerance::default();
        let mut templates = catalog::templates(snapshot, &mut space, &dims, &mut tolerance);
        let hosts = hosts(snapshot, &mut space, &dims, &mut tolerance);
        let mut groups = Groups::default();
        let mut meanings = Meanings::new();
        let mut reader = Reader {
            snapshot,
            space: &mut space,
            tolerance: &mut tolerance,
            groups: &mut groups,
            meanings: &mut meanings,
            preferences: options.preferences,
            templates: &templates,
            hosts: &hosts,
            sold: None,
        };
        let mut classes = classes(snapshot, &dims);
        for class in &mut classes {
            if let Ok(pod) = &snapshot.pending.classes[class.source] {
                reader.read(class, pod);
            }
        }
        let keeps = keeps(snapshot, &space, &mut groups);
        tolerance.settle();
        eligible::settle(&mut groups.all, &mut space, &mut templates, &hosts, &tolerance);
        let mut problem = Self {
            counts: Counts::new(groups.all.len()),
            snapshot,
            options,
            space,
            dims,
            tolerance,
            templates,
            hosts,
            groups: Vec::new(),
            meanings,
            classes,
        };
        problem.settle_counting(groups, &keeps);
        problem.classes = alike::join(problem.classes, snapshot);
        problem
    }

    fn settle_counting(&mut self, groups: Groups, bound_keeps: &[Vec<GroupId>]) {
        let pending: Vec<&Pod> = self.classes.iter().map(|class| self.pod(class)).collect();
        let counting = groups.counting(&pending, &self.snapshot.namespaces);
        let mut kept = vec![false; groups.all.len()];
        let firm = self.classes.iter().flat_map(|class| &class.keeps);
        firm.chain(bound_keeps.iter().flatten())
            .for_each(|group| kept[*group] = true);
        for (class, counted) in self.classes.iter_mut().zip(counting) {
            let far = |group: &&GroupId| groups.all[**group].kind == Kind::Far && kept[**group];
            class.feared = counted.iter().filter(far).copied().collect();
            class.counted = counted;
            class.settle_pins(&groups.all, &self.space, &self.templates);
        }
        self.count_bound(&groups, bound_keeps);
        self.groups = groups.all;
    }

    fn count_bound(&mut self, groups: &Groups, keeps: &[Vec<GroupId>]) {
        let nobody = Pod::default();
        let bound = &self.snapshot.bound;
        let pods: Vec<&Pod> = bound
            .classes
            .iter()
            .map(|pod| pod.as_ref().unwrap_or(&nobody))
            .collect();
        let counting = groups.counting(&pods, &self.snapshot.namespaces);
        let by_name: BTreeMap<&str, usize> = self
            .hosts
            .iter()
            .enumerate()
            .map(|(at, host)| (self.snapshot.nodes[host.node].name.as_str(), at))
            .collect();
        for member in &bound.members {
            let host = member.node.as_deref().and_then(|node| by_name.get(node));
            let Some(at) = host.copied() else { continue };
            let host = &self.hosts[at];
            for group in &counting[member.class] {
                let asked = &groups.all[*group];
                if asked
                    .filter
                    .includes(&mut self.space, &self.tolerance, (host.req, host.taints))
                {
                    let place = (host.bin, host.req);
                    self.counts
                        .add(&self.space, (*group, asked), place, Counted::Selected);
                }
            }
            for group in &keeps[member.class] {
                let place = (host.bin, host.req);
                self.counts
                    .add(&self.space, (*group, &groups.all[*group]), place, Counted::Keeper);
            }
        }
    }

    /// What a class of pods asks for.
    pub(super) fn pod(&self, class: &Class) -> &'a Pod {
        static NOBODY: std::sync::LazyLock<Pod> = std::sync::LazyLock::new(Pod::default);
        self.snapshot.pending.classes[class.source]
            .as_ref()
            .unwrap_or(&NOBODY)
    }
}

fn dims(snapshot: &Snapshot) -> Dims {
    let pending = snapshot
        .pending
        .classes
        .iter()
        .filter_map(|pod| pod.as_ref().ok());
    let daemons = snapshot.daemons.iter().map(AsRef::as_ref);
    Dims::of(pending.chain(daemons).map(|pod| &pod.requests))
}

/// The labels that somebody asks about, and the values that must be told apart.
fn labels(snapshot: &Snapshot) -> Labels {
    let mut labels = Labels::default();
    labels.mention_key(ZONE);
    labels.mention_key(CAPACITY_TYPE);
    labels.mention_key(names::INSTANCE_TYPE);
    let pending = snapshot
        .pending
        .classes
        .iter()
        .filter_map(|pod| pod.as_ref().ok());
    let daemons = snapshot.daemons.iter().map(AsRef::as_ref);
    let asking = pending.clone().chain(daemons);
    let bound = snapshot.bound.classes.iter().filter_map(|pod| pod.as_ref().ok());
    let counted = topology_keys(pending.chain(bound));
    let own = asking
        .clone()
        .flat_map(own_requirements)
        .flat_map(Requirements::iter);
    let asked = own.map(|(key, _)| key.as_str());
    let obtainable = Obtainable::of(snapshot, asked.chain(counted.iter().copied()));
    for pod in asking {
        let (own, volumes) = requirements_of(pod, snapshot);
        for requirements in own {
            obtainable.mention(&mut labels, requirements);
        }
        for requirements in &volumes {
            labels.mention(requirements);
        }
    }
    for key in &counted {
        obtainable.mention_key(&mut labels, key);
    }
    catalog::mention(&mut labels, snapshot);
    for capacity_type in [CapacityType::Spot, CapacityType::OnDemand] {
        labels.mention_value(CAPACITY_TYPE, capacity_type.as_str());
    }
    for offering in snapshot
        .pools
        .iter()
        .flat_map(|pool| pool.types.iter())
        .flat_map(|kind| &kind.offerings)
    {
        labels.mention_value(ZONE, &offering.zone);
    }
    mention_nodes(&mut labels, &snapshot.nodes, &counted);
    labels
}

/// Takes note of what nodes have of labels over which pods are counted, and of those that are compared with numbers. That
/// comes last, when all comparisons are known.
fn mention_nodes(labels: &mut Labels, nodes: &[Node], counted: &BTreeSet<&str>) {
    let compare_numbers = labels.compare_numbers();
    for node in nodes {
        for (key, value) in &node.labels {
            let key = current_label(key);
            if counted.contains(key) {
                labels.mention_value(key, value);
            }
        }
        if compare_numbers {
            for (key, value) in node.label_states() {
                labels.mention_number(&key, &value);
            }
        }
    }
}

/// What a pod itself asks of nodes.
fn own_requirements(pod: &Pod) -> impl Iterator<Item = &Requirements> {
    let preferred = pod.preferred_nodes.iter().map(|(_, wanted)| wanted);
    pod.node_terms.iter().chain(preferred)
}

/// The labels over which pods are counted, but for the node's own name.
fn topology_keys<'p>(pods: impl Iterator<Item = &'p Pod>) -> BTreeSet<&'p str> {
    let mut keys = BTreeSet::new();
    for pod in pods {
        let spreads = pod.spreads.iter().map(|spread| &spread.key);
        let firm = pod
            .affinity
            .iter()
            .chain(&pod.anti_affinity)
            .map(|term| &term.key);
        let soft = pod.preferred_affinity.iter().chain(&pod.preferred_anti_affinity);
        let soft = soft.map(|(_, term)| &term.key);
        for key in spreads.chain(firm).chain(soft).filter(|key| *key != HOSTNAME) {
            keys.insert(key.as_str());
        }
    }
    keys
}

/// The groups by which each class of bound pods must be far from others.
fn keeps(snapshot: &Snapshot, space: &Space, groups: &mut Groups) -> Vec<Vec<GroupId>> {
    let of = |pod: &Result<Pod, _>| match pod {
        Ok(pod) => {
            let terms = pod.anti_affinity.iter();
            terms
                .map(|term| {
                    groups
                        .term(space, pod, term, Kind::Far, &snapshot.namespaces)
                        .group
                })
                .collect()
        }
        Err(_) => Vec::new(),
    };
    snapshot.bound.classes.iter().map(of).collect()
}

/// The classes without what they ask: by priority, those that ask for what few machines have before others fill these up, by
/// size, and by their first pod.
fn classes(snapshot: &Snapshot, dims: &Dims) -> Vec<Class> {
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); snapshot.pending.classes.len()];
    for (at, member) in snapshot.pending.members.iter().enumerate() {
        members[member.class].push(at);
    }
    let name = |at: &usize| snapshot.pending.members[*at].place_in_line();
    let mut all: Vec<Class> = Vec::with_capacity(members.len());
    for (source, mut members) in members.into_iter().enumerate() {
        if members.is_empty() {
            continue;
        }
        members.sort_by(|one, two| name(one).cmp(&name(two)));
        let pod = &snapshot.pending.classes[source];
        // Who cannot be read asks for nothing. Without any amounts it would be as large as everybody else.
        let requests = pod
            .as_ref()
            .map_or_else(|_| vec![0; dims.len()], |pod| dims.amounts(&pod.requests));
        all.push(Class {
            source,
            members,
            priority: pod.as_ref().map_or(0, |pod| pod.priority),
            is_special: dims.is_special(&requests),
            requests,
            size: 0,
            ports: pod.as_ref().map_or(Vec::new(), |pod| pod.ports.clone()),
            volumes: Vec::new(),
            stages: Vec::new(),
            counted: Vec::new(),
            feared: Vec::new(),
            keeps: Vec::new(),
            trouble: pod.as_ref().err().map(|invalid| Why::Invalid(invalid.clone())),
        });
    }
    all.sort_by(|one, two| {
        let (a, b) = (&one.requests, &two.requests);
        let first = |class: &Class| class.members.first().map(name);
        let size = b.iter().zip(a).map(|(b, a)| b.cmp(a)).find(|order| order.is_ne());
        (two.priority.cmp(&one.priority))
            .then(two.is_special.cmp(&one.is_special))
            .then(size.unwrap_or(std::cmp::Ordering::Equal))
            .then_with(|| first(one).cmp(&first(two)))
    });
    for at in 1..all.len() {
        let differs = all[at].requests != all[at - 1].requests;
        all[at].size = all[at - 1].size + usize::from(differs);
    }
    all
}
