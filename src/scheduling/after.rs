//! A cluster as it will be once a plan is carried out.

use std::collections::BTreeMap;

use super::plan::{Destination, NewClaim, Plan};
use crate::api::names::{CAPACITY_TYPE, ZONE};
use crate::model::{Node, NodeKind, Snapshot, Stage, Values};

/// The same cluster with the claims of a plan in flight, and every pod that it places on its node. Whoever is left out still
/// waits, by the same number as before.
pub(super) fn carried_out(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut after = snapshot.clone();
    let there = after.nodes.len();
    let claims = plan.claims.iter().enumerate();
    after
        .nodes
        .extend(claims.map(|(at, claim)| in_flight(snapshot, at, claim)));
    let classes = after.bound.classes.len();
    after
        .bound
        .classes
        .extend(snapshot.pending.classes.iter().cloned());
    for placement in &plan.placements {
        let on = match placement.on {
            Destination::Existing(node) => node,
            Destination::New(claim) => there + claim,
        };
        let mut member = snapshot.pending.members[placement.pod].clone();
        member.class += classes;
        member.node = Some(after.nodes[on].name.clone());
        after.bound.members.push(member);
    }
    after
}

/// A claim as it is planned, under a name that no node can have.
fn in_flight(snapshot: &Snapshot, at: usize, claim: &NewClaim) -> Node {
    let pool = claim.pool(snapshot);
    let kind = &pool.types[claim.cheapest.instance_type];
    let mut labels = BTreeMap::new();
    for (key, values) in kind.requirements.iter().chain(claim.requirements.iter()) {
        labels.extend(only(values).map(|value| (key.clone(), value)));
    }
    let bought = &claim.cheapest;
    labels.insert(ZONE.to_owned(), bought.zone.clone());
    labels.insert(CAPACITY_TYPE.to_owned(), bought.capacity_type.to_string());
    Node {
        name: format!("planned {at}"),
        kind: NodeKind::ClaimInFlight,
        pool: Some(pool.name.clone()),
        labels,
        taints: pool.taints.clone(),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable.clone(),
        stage: Stage::Beginning,
        ..Node::default()
    }
}

/// The one value that is left of a label.
fn only(values: &Values) -> Option<String> {
    let mut listed = values.listed()?.iter();
    let one = listed.next()?;
    listed.next().is_none().then(|| one.clone())
}
