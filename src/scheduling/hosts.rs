//! The nodes and claims in flight of a snapshot, as places for pods.

use std::sync::Arc;

use super::dims::Dims;
use super::space::{ReqId, Space};
use super::tolerance::Tolerance;
use crate::model::node::Arrived;
use crate::model::taint::{Preferring, untolerated};
use crate::model::{HostPort, Node, Pod, Snapshot, Standing};
use crate::resources::Resources;

/// A node or a claim in flight.
#[derive(Debug)]
pub(super) struct Host {
    /// Its place among the nodes of the snapshot.
    pub(super) node: usize,
    /// Its place among bins, if it takes pods.
    pub(super) bin: Option<usize>,
    /// Its labels.
    pub(super) req: ReqId,
    /// The number of its set of taints.
    pub(super) taints: u32,
    /// What it has room for beside the daemons that will come.
    pub(super) room: Vec<i64>,
    /// The ports that pods there take, and those that daemons which will come do.
    pub(super) ports: Vec<HostPort>,
}

/// All nodes: those that take pods first, then nodes before claims, those ready for work before the others, then by name.
pub(super) fn hosts(
    snapshot: &Snapshot,
    space: &mut Space,
    dims: &Dims,
    tolerance: &mut Tolerance,
) -> Vec<Host> {
    let mut order: Vec<(usize, &Node)> = snapshot.nodes.iter().enumerate().collect();
    order.sort_by_key(|(_, node)| (node.standing, node.kind, node.stage, &node.name));
    let daemons = daemons(&snapshot.daemons, space);
    let mut all = Vec::with_capacity(order.len());
    for (at, (index, node)) in order.into_iter().enumerate() {
        let req = labels(space, node);
        let (missing, ports) = to_come(&daemons, node, req, space);
        let mut taken = node.used.clone();
        taken.add(&missing);
        let has = dims.amounts(&node.allocatable);
        let taken = dims.amounts(&taken);
        all.push(Host {
            node: index,
            bin: (node.standing == Standing::Open).then_some(at),
            req,
            taints: tolerance.taints(&node.taints),
            room: has.iter().zip(taken).map(|(has, taken)| has - taken).collect(),
            ports,
        });
    }
    all
}

fn labels(space: &mut Space, node: &Node) -> ReqId {
    let states = node.label_states();
    let mut set = space.anything();
    for (at, column) in space.told_apart().iter().enumerate() {
        let state = states
            .get(&column.key)
            .map_or(column.absent(), |value| column.state_of(value));
        space.pin(&mut set, at, state);
    }
    space.intern(&set)
}

/// A daemon with the labels of the nodes that it runs on: any of these.
type Daemon<'a> = (&'a Arc<Pod>, Vec<ReqId>);

fn daemons<'a>(all: &'a [Arc<Pod>], space: &mut Space) -> Vec<Daemon<'a>> {
    let read = |daemon: &'a Arc<Pod>| {
        let terms = daemon.node_terms.iter();
        let terms: Vec<ReqId> = terms.filter_map(|term| space.id_of(term)).collect();
        (daemon, terms)
    };
    all.iter().map(read).collect()
}

/// What daemons will still ask of a node: of each that runs there, what its own pods there do not ask for already. A daemon
/// that nobody expects, or one that asks for more than it will when it is made anew, leaves no more room for the others.
/// With it the ports that are taken there, or will be: those that a daemon takes when it is made anew are its own too.
fn to_come(daemons: &[Daemon<'_>], node: &Node, req: ReqId, space: &mut Space) -> (Resources, Vec<HostPort>) {
    // Each counts once: DaemonSets that ask for the same are not told apart, and come one by one.
    let mut there: Vec<&Arrived> = node.daemons.iter().collect();
    let mut missing = Resources::new();
    let mut ports = node.ports.clone();
    for (daemon, terms) in daemons {
        let tolerated = untolerated(&node.taints, &daemon.tolerations, Preferring::Ignored).is_none();
        if !tolerated || !terms.iter().any(|term| space.and(req, *term).is_some()) {
            continue;
        }
        match position(&there, daemon) {
            Some(at) => missing.add(&daemon.requests.minus(&there.remove(at).requests)),
            None => missing.add(&daemon.requests),
        }
        let own = daemon.ports.iter().filter(|port| !node.ports.contains(port));
        ports.extend(own.cloned());
    }
    (missing, ports)
}

/// Where a DaemonSet is among those that are there. Mostly it is the very same one: only if it is not, everything that it
/// says is looked at.
fn position(there: &[&Arrived], daemon: &Arc<Pod>) -> Option<usize> {
    let same = there.iter().position(|arrived| Arc::ptr_eq(&arrived.of, daemon));
    same.or_else(|| there.iter().position(|arrived| arrived.of == *daemon))
}
