//! Places as they fill up: the nodes that are there, and the claims of a plan.

use std::collections::{BTreeMap, BTreeSet};

use super::labels::{GIVEN, Labels, options};
use super::meaning::repelled;
use super::{Finding, Rule, finding};
use crate::model::{HostPort, Node, Pod, Pool, Snapshot, Standing, Taint};
use crate::resources::Resources;
use crate::scheduling::{NewClaim, Plan};

/// A place as it fills up.
pub(super) struct Place<'a> {
    pub(super) name: String,
    pub(super) standing: Standing,
    pub(super) labels: Labels<'a>,
    pub(super) taints: &'a [Taint],
    /// What pods may ask for together: of a claim, on each of its types.
    rooms: Vec<Resources>,
    pub(super) used: Resources,
    /// What the pods that the plan has put there so far ask for.
    pub(super) added: Resources,
    pub(super) ports: Vec<HostPort>,
    /// How many volumes of each driver can be attached: of a claim, on each of its types.
    pub(super) volume_limits: Vec<&'a BTreeMap<String, u32>>,
    /// By driver.
    pub(super) volumes: BTreeMap<String, BTreeSet<String>>,
}

/// The nodes of a snapshot, then the claims of a plan.
pub(super) fn all<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> Vec<Place<'a>> {
    let nodes = snapshot.nodes.iter().map(|node| of_node(snapshot, node));
    let claims = plan
        .claims
        .iter()
        .enumerate()
        .map(|(at, claim)| of_claim(snapshot, format!("new-{at}"), claim, &snapshot.pools[claim.pool]));
    nodes.chain(claims).collect()
}

fn of_node<'a>(snapshot: &'a Snapshot, node: &'a Node) -> Place<'a> {
    let labels = Labels::of_node(node);
    let expected = daemons(snapshot, &labels, &node.taints, &[]);
    let mut used = node.used.clone();
    let mut ports = node.ports.clone();
    for (at, daemon) in expected.iter().enumerate() {
        // The second of two DaemonSets that ask for the same is there if two are.
        let before = expected[..at].iter().filter(|other| *other == daemon).count();
        let mut alike = node.daemons.iter().filter(|there| *there.of == **daemon);
        let there = alike.nth(before);
        for (name, amount) in &daemon.requests {
            let taken = there.map_or(0, |there| there.requests.get(name));
            used.add(&Resources::new().with(name, (amount - taken).max(0)));
        }
        ports.extend(daemon.ports.iter().cloned());
    }
    Place {
        name: node.name.clone(),
        standing: node.standing,
        labels,
        taints: &node.taints,
        rooms: vec![node.allocatable.clone()],
        used,
        added: Resources::new(),
        ports,
        volume_limits: vec![&node.volume_limits],
        volumes: node.volumes.clone(),
    }
}

/// A claim; daemons that come to any of its types take their ports and their share of that type.
fn of_claim<'a>(snapshot: &'a Snapshot, name: String, claim: &'a NewClaim, pool: &'a Pool) -> Place<'a> {
    let labels = Labels::of_claim(name.clone(), claim, pool);
    let mut rooms: Vec<Resources> = Vec::new();
    let mut ports = Vec::new();
    if snapshot.daemons.is_empty() {
        rooms.extend(options(claim, pool).map(|kind| kind.allocatable.clone()));
    } else {
        for option in &claim.options {
            let one = NewClaim {
                options: vec![*option],
                ..claim.clone()
            };
            let labels = Labels::of_claim(name.clone(), &one, pool);
            let mut room = pool.types[*option as usize].allocatable.clone();
            for daemon in daemons(snapshot, &labels, &pool.taints, &GIVEN) {
                for (name, amount) in &daemon.requests {
                    room.set(name, room.get(name).saturating_sub(*amount));
                }
                ports.extend(daemon.ports.iter().cloned());
            }
            rooms.push(room);
        }
    }
    Place {
        name,
        standing: Standing::Open,
        labels,
        taints: &pool.taints,
        rooms,
        used: Resources::new(),
        added: Resources::new(),
        ports,
        volume_limits: options(claim, pool).map(|kind| &kind.volume_limits).collect(),
        volumes: BTreeMap::new(),
    }
}

/// The daemons that will run at a place, whatever they ask of labels that are `given` to it.
fn daemons<'a>(
    snapshot: &'a Snapshot,
    labels: &Labels<'_>,
    taints: &[Taint],
    given: &[&str],
) -> Vec<&'a Pod> {
    let here = |daemon: &&'a Pod| {
        let mut terms = daemon.node_terms.iter();
        repelled(taints, &daemon.tolerations).is_none() && terms.any(|term| labels.may_meet(term, given))
    };
    let all = snapshot.daemons.iter().map(AsRef::as_ref);
    all.filter(here).collect()
}

impl Place<'_> {
    /// What pods ask for beyond what is there, on the node or on any of the types that the claim names.
    pub(super) fn overfull(&self) -> Option<Finding> {
        // A node may be overfull without the plan's doing: then nobody was added who asks for that.
        let short = |room: &Resources| {
            let mut amounts = self.used.iter().filter(|(name, _)| self.added.get(name) > 0);
            amounts
                .find(|(name, used)| **used > room.get(name).max(0))
                .map(|(name, used)| format!("{used} of {name} is asked for, and {} is there", room.get(name)))
        };
        let found = self.rooms.iter().find_map(short)?;
        Some(finding(Rule::Room, &self.name, found))
    }
}
