//! Why no node and no claim in flight took a pod.

use std::collections::BTreeMap;

use super::super::bins::Left;
use super::super::plan::{Refusal, Where, Why};
use super::super::run::{Known, Run};
use super::obstacle_why;
use super::pool::{lacks, part_missing, scarcest};
use crate::model::Requirements;
use crate::model::host_port;
use crate::model::requirements::Conflict;
use crate::model::taint::{Preferring, untolerated};
use crate::resources::Shortage;

/// More nodes than this are not compared: the first ones tell enough.
const NODES_MAX: usize = 2000;

/// The node that came nearest.
pub(super) fn nearest(run: &mut Run<'_, '_>, class: usize) -> Option<Refusal> {
    let nodes = run.nodes();
    let best = (0..nodes.min(NODES_MAX))
        .map(|bin| (rank(run, class, bin), bin))
        .max_by_key(|(rank, bin)| (*rank, std::cmp::Reverse(*bin)));
    let (_, bin) = best?;
    let why = refusal(run, class, bin);
    let name = run.problem.snapshot.nodes[run.problem.hosts[bin].node]
        .name
        .clone();
    Some(Refusal {
        place: Where::Existing {
            nearest: name,
            of: nodes,
        },
        why,
    })
}

/// How far a pod gets on a node, and then how little is missing, as a number that is larger for less.
fn rank(run: &mut Run<'_, '_>, class: usize, bin: usize) -> (u8, i64) {
    let problem = &mut *run.problem;
    let of = &problem.classes[class];
    let Some(stage) = of.stages.last() else {
        return (0, 0);
    };
    if !problem.tolerance.covers(stage.tolerations, run.bins.taints[bin]) {
        return (1, 0);
    }
    let req = run.bins.req[bin];
    if !stage
        .nodes
        .iter()
        .any(|nodes| problem.space.and(req, *nodes).is_some())
    {
        return (2, 0);
    }
    let left = run.bins.left(Left::Slack, bin).zip(&of.requests);
    let lacking = left.filter(|(left, wanted)| lacks(**wanted, *left));
    let short = lacking
        .map(|(left, wanted)| part_missing(*wanted, left))
        .fold(0, i64::saturating_add);
    if short > 0 { (3, -short) } else { (4, 0) }
}

fn refusal(run: &mut Run<'_, '_>, class: usize, bin: usize) -> Why {
    let of = &run.problem.classes[class];
    let pod = run.problem.pod(of);
    let node = &run.problem.snapshot.nodes[run.problem.hosts[bin].node];
    if let Some(taint) = untolerated(&node.taints, &pod.tolerations, Preferring::Ignored) {
        return Why::Taint(taint.clone());
    }
    let labels = node.label_states();
    let mut unmet = pod.node_terms.iter().map(|term| term.unmet_by(&labels));
    if let Some(Some(conflict)) = unmet.next()
        && unmet.all(|unmet| unmet.is_some())
    {
        return Why::Requirement(conflict);
    }
    if let Some(conflict) = misplaced(run, class, &labels) {
        return Why::VolumePlace(conflict);
    }
    if let Some(port) = host_port::conflict(&of.ports, &run.bins.ports[bin]) {
        return Why::Port(port.clone());
    }
    if let Some((driver, limit)) = run.volume_limit_hit(class, bin) {
        return Why::VolumeLimit { driver, limit };
    }
    let left: Vec<i64> = run.bins.left(Left::Slack, bin).collect();
    if let Some(dim) = scarcest(&of.requests, &left) {
        let resource = run.problem.dims.names()[dim].clone();
        let free = node.allocatable.get(&resource) - node.used.get(&resource);
        return Why::Resource {
            shortage: Shortage {
                resource,
                wanted: of.requests[dim],
                available: left[dim].max(0),
            },
            nearest: node.name.clone(),
            daemons: free - run.problem.hosts[bin].room[dim],
        };
    }
    others(run, class, bin)
}

/// The label that one of the pod's volumes needs otherwise, wherever that can be, if these labels meet no alternative.
fn misplaced(run: &Run<'_, '_>, class: usize, labels: &BTreeMap<String, String>) -> Option<Conflict> {
    let of = &run.problem.classes[class];
    let meanings = &run.problem.meanings;
    let is_unmet = |meaning: &Requirements| meaning.unmet_by(labels).is_some();
    let mut alternatives = of.stages.last()?.nodes.iter();
    if !alternatives.all(|nodes| meanings.get(nodes).is_some_and(is_unmet)) {
        return None;
    }
    let (pod, storage) = (run.problem.pod(of), &run.problem.snapshot.storage);
    let mut volumes = pod.volumes.iter();
    volumes.find_map(|volume| {
        let places = storage.needs(&pod.namespace, volume).ok()?.nodes;
        let conflicts: Option<Vec<Conflict>> = places.iter().map(|place| place.unmet_by(labels)).collect();
        conflicts?.into_iter().next()
    })
}

/// What remains: where other pods are, or where the pod's volumes are.
fn others(run: &mut Run<'_, '_>, class: usize, bin: usize) -> Why {
    let mut known = Known::default();
    let Some(stage) = run.problem.classes[class].stages.len().checked_sub(1) else {
        return Why::Taken;
    };
    let (wanted, hosts) = match run.turn(class, stage, &mut known) {
        Ok(turn) => (turn.wanted, turn.hosts),
        Err(obstacle) => return obstacle_why(run, obstacle),
    };
    if let Some(obstacle) = hosts
        .refuse(&run.counts, bin)
        .or_else(|| hosts.lonely(&run.counts, bin))
    {
        return obstacle_why(run, obstacle);
    }
    let req = run.bins.req[bin];
    let asked = run.problem.classes[class].stages[stage].nodes.clone();
    for nodes in &asked {
        let space = &mut run.problem.space;
        let met = wanted.iter().any(|(both, _)| space.and(req, *both).is_some());
        if space.and(req, *nodes).is_some() && !met {
            return super::pool::masked(run, class, stage, req);
        }
    }
    Why::Taken
}
