//! The nodes and claims in flight of a snapshot, as places for pods.

use super::dims::Dims;
use super::space::{ReqId, Space};
use super::tolerance::Tolerance;
use crate::model::taint::{Preferring, untolerated};
use crate::model::{Node, Pod, Snapshot, Standing};
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
    let mut all = Vec::with_capacity(order.len());
    for (at, (index, node)) in order.into_iter().enumerate() {
        let req = labels(space, node);
        let daemons = daemons_to_come(&snapshot.daemons, node, req, space);
        let mut taken = node.used.clone();
        taken.add(&daemons);
        let has = dims.amounts(&node.allocatable);
        let taken = dims.amounts(&taken);
        all.push(Host {
            node: index,
            bin: (node.standing == Standing::Open).then_some(at),
            req,
            taints: tolerance.taints(&node.taints),
            room: has.iter().zip(taken).map(|(has, taken)| has - taken).collect(),
        });
    }
    all
}

fn labels(space: &mut Space, node: &Node) -> ReqId {
    let states = node.label_states();
    let mut set = space.anything();
    for (at, column) in space.columns().iter().enumerate() {
        let state = states
            .get(&column.key)
            .map_or(column.absent(), |value| column.state_of(value));
        space.pin(&mut set, at, state);
    }
    space.intern(&set)
}

/// What daemons will still ask of a node. Some are there already, and some that nobody expected.
fn daemons_to_come(daemons: &[Pod], node: &Node, req: ReqId, space: &mut Space) -> Resources {
    let mut expected = Resources::new();
    for daemon in daemons {
        let tolerated = untolerated(&node.taints, &daemon.tolerations, Preferring::Ignored).is_none();
        let mut wanted = daemon.node_terms.iter();
        let here = wanted.any(|term| {
            space
                .id_of(term)
                .is_some_and(|term| space.and(req, term).is_some())
        });
        if tolerated && here {
            expected.add(&daemon.requests);
        }
    }
    expected.minus(&node.daemons)
}
