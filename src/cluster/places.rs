//! Nodes and claims in flight as plans see them, with what is on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node as ApiNode;
use kube::ResourceExt;

use super::index::Index;
use super::pods::{Keeper, Seen};
use super::situation::unharmed::{Unfit, unharmed};
use crate::api::{NodeClaim, names};
use crate::lifecycle::facts::Facts;
use crate::model::node::Arrived;
use crate::model::storage::Storage;
use crate::model::{InstanceType, Node, Pod, Requirements, Stage, Standing, Values};
use crate::resources::{CPU, MEMORY, Resources};

/// The types that machines of a pool can be of, by pool.
pub type Types = BTreeMap<String, Arc<Vec<InstanceType>>>;

/// One pod of every DaemonSet that can be read, by its namespace and name.
type Daemons<'a> = BTreeMap<(&'a str, &'a str), Arc<Pod>>;

/// Every node and every claim in flight. Of those that cannot be looked at nothing is left but what counts against the limits
/// of their pools, and `unfit` hears of them.
pub(super) fn places(index: &Index, types: &Types, storage: &Storage, unfit: &mut Vec<Unfit>) -> Vec<Node> {
    let daemons = daemons(index);
    let mut all = Vec::new();
    for (name, claim) in index.claims.iter() {
        let look = || laden(index, storage, &daemons, claimed(index, types, name, claim));
        all.push(unharmed(name, look).unwrap_or_else(|panicked| {
            unfit.push(Unfit::claim(name, panicked));
            outline(name, claim.labels(), || Node::from_api(None, Some(claim)))
        }));
    }
    for (name, node) in index.nodes.iter() {
        if index.claims.get(name).is_none() {
            let look = || laden(index, storage, &daemons, unclaimed(node));
            all.push(unharmed(name, look).unwrap_or_else(|panicked| {
                unfit.push(Unfit::node(name, panicked));
                outline(name, node.labels(), || Node::from_api(Some(node), None))
            }));
        }
    }
    all
}

/// What a claim is, or will be.
fn claimed(index: &Index, types: &Types, name: &str, claim: &NodeClaim) -> Node {
    // A Node is believed to be the claim's once it was matched with its machine, and not because it says so.
    let node = index.nodes.get(name);
    let joined = node.filter(|_| claim.is(names::NODE_REGISTERED));
    let mut place = Node::from_api(joined, Some(claim));
    let types = place.pool.as_ref().and_then(|pool| types.get(pool));
    let types = types.map_or(&[][..], |types| types.as_slice());
    foresee_volumes(&mut place, claim, types);
    if joined.is_none() {
        foresee(&mut place, claim, types);
        if is_limited(index, &place) {
            place.capacity = place.capacity.larger(&least(claim, &place.allocatable, types));
        }
    }
    if leaves(Some(claim), node) {
        place.standing = Standing::Leaving;
    }
    place
}

/// What a node is that no claim is known of.
fn unclaimed(node: &ApiNode) -> Node {
    let mut place = Node::from_api(Some(node), None);
    if leaves(None, Some(node)) {
        place.standing = Standing::Leaving;
    }
    place
}

/// What can be told of what cannot be looked at: as much as it says itself, if that can be read.
fn outline(name: &str, labels: &BTreeMap<String, String>, says: impl FnOnce() -> Node) -> Node {
    let said = unharmed(name, says).unwrap_or_default();
    Node {
        name: name.to_owned(),
        kind: said.kind,
        pool: labels.get(names::NODE_POOL).cloned(),
        capacity: said.capacity,
        standing: Standing::Leaving,
        ..Node::default()
    }
}

/// The names of the nodes and claims that go.
pub(super) fn leaving(index: &Index) -> impl Iterator<Item = &String> {
    let claims = index.claims.iter();
    let claims = claims.filter(|(name, claim)| leaves(Some(claim), index.nodes.get(name)));
    let nodes = index.nodes.iter();
    let nodes = nodes.filter(|(name, node)| index.claims.get(name).is_none() && leaves(None, Some(node)));
    claims.map(|(name, _)| name).chain(nodes.map(|(name, _)| name))
}

fn leaves(claim: Option<&NodeClaim>, node: Option<&ApiNode>) -> bool {
    let is_tainted = |node: &ApiNode| {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints
            .into_iter()
            .any(|taint| taint.key == names::DISRUPTED_TAINT)
    };
    // A node of ours whose claim is gone is about to go, or was never ours.
    let is_orphan = |node: &ApiNode| claim.is_none() && node.labels().contains_key(names::NODE_CLASS);
    claim.is_some_and(|claim| claim.is_deleting() || claim.end().is_some())
        || node.is_some_and(|node| {
            node.metadata.deletion_timestamp.is_some() || is_tainted(node) || is_orphan(node)
        })
}

/// The type that was chosen for a claim, if any was.
fn chosen<'a>(claim: &NodeClaim, types: &'a [InstanceType]) -> Option<&'a InstanceType> {
    let profile = &claim.allocation()?.profile;
    types.iter().find(|kind| kind.name == *profile)
}

/// How many volumes a machine will attach. Drivers register one after the other, so until its Node is ready for work the
/// type says it of those that have not yet.
fn foresee_volumes(place: &mut Node, claim: &NodeClaim, types: &[InstanceType]) {
    if place.stage == Stage::Beginning
        && let Some(chosen) = chosen(claim, types)
    {
        place.volume_limits = chosen.volume_limits.clone();
    }
}

/// What a machine that is not there yet will have and be called: what was chosen for it says so before it runs. Until then
/// it has what it asks for, which is room for the pods that it is made for and for daemons, and the labels on which
/// everything agrees that it can become: else daemons that ask for them would not be expected there.
fn foresee(place: &mut Node, claim: &NodeClaim, types: &[InstanceType]) {
    let chosen = chosen(claim, types);
    let labels = match chosen {
        Some(chosen) => certain(chosen),
        None if claim.allocation().is_none() => agreed(claim, types),
        None => BTreeMap::new(),
    };
    for (key, value) in labels {
        let label = place.labels.entry(key.clone());
        label.or_insert_with(|| value.clone());
    }
    let Some(chosen) = chosen else { return };
    let is_reported = claim
        .status
        .as_ref()
        .is_some_and(|status| status.allocatable.is_some());
    if !is_reported {
        place.allocatable = chosen.allocatable.clone();
        place.capacity = chosen.capacity.clone();
    }
}

/// The labels of which a type leaves no choice.
fn certain(kind: &InstanceType) -> BTreeMap<&String, &String> {
    let all = kind.requirements.iter();
    all.filter_map(|(key, values)| Some((key, only(values)?)))
        .collect()
}

/// The value of a label, if it can be no other.
fn only(values: &Values) -> Option<&String> {
    let listed = values.listed().filter(|listed| listed.len() == 1)?;
    listed.first()
}

/// The labels on which all types agree that a claim names.
fn agreed<'a>(claim: &NodeClaim, types: &'a [InstanceType]) -> BTreeMap<&'a String, &'a String> {
    let requirements = Requirements::from_api(&claim.spec.requirements).unwrap_or_default();
    let mut named = types.iter().filter(|kind| is_named(&requirements, kind));
    let mut labels = named.next().map(certain).unwrap_or_default();
    for kind in named {
        labels.retain(|key, value| kind.requirements.get(key).and_then(only) == Some(*value));
    }
    labels
}

/// Whether a claim that requires this can become of a type, as far as it says so by name.
fn is_named(requirements: &Requirements, kind: &InstanceType) -> bool {
    let named = requirements.get(names::INSTANCE_TYPE);
    named.is_none_or(|named| named.allows(&kind.name))
}

/// Whether the pool of a place has limits that it counts against.
fn is_limited(index: &Index, place: &Node) -> bool {
    let pool = place.pool.as_ref().and_then(|pool| index.pools.get(pool));
    pool.is_some_and(|pool| pool.spec.limits.as_ref().is_some_and(|limits| !limits.is_empty()))
}

/// What a machine has at least, whatever is chosen for its claim: the capacity of the smallest type that it names and that
/// has room for what it asks for. Until something is chosen, limits are counted with that.
fn least(claim: &NodeClaim, asked: &Resources, types: &[InstanceType]) -> Resources {
    if claim.allocation().is_some() {
        return Resources::new();
    }
    let requirements = Requirements::from_api(&claim.spec.requirements).unwrap_or_default();
    let can_be =
        |kind: &&InstanceType| is_named(&requirements, kind) && asked.shortage(&kind.allocatable).is_none();
    let size = |kind: &&InstanceType| {
        (
            kind.capacity.get(CPU),
            kind.capacity.get(MEMORY),
            kind.name.clone(),
        )
    };
    let smallest = types.iter().filter(can_be).min_by_key(size);
    smallest.map(|kind| kind.capacity.clone()).unwrap_or_default()
}

fn daemons(index: &Index) -> Daemons<'_> {
    let read = index.daemons.iter().filter_map(|(key, daemon)| {
        let daemon = daemon.as_ref().ok()?;
        Some((key.split_once('/')?, daemon.clone()))
    });
    read.collect()
}

/// With the pods that are on it.
fn laden(index: &Index, storage: &Storage, daemons: &Daemons<'_>, mut place: Node) -> Node {
    let name = place.name.clone();
    for (_, seen) in index.pods.on(&name) {
        if let Some(Ok(pod)) = index.pods.class(seen.class) {
            load(&mut place, seen, pod, storage);
            note_daemon(&mut place, seen, pod, daemons);
        }
    }
    if let Some(limits) = index.volume_limits.get(&name) {
        let limits = limits.iter().map(|(driver, limit)| (driver.clone(), *limit));
        place.volume_limits.extend(limits);
    }
    place
}

/// Puts a pod on a place.
pub(super) fn load(place: &mut Node, seen: &Seen, pod: &Pod, storage: &Storage) {
    let attached = pod.volumes.iter().filter_map(|volume| {
        let driver = storage.needs(&seen.namespace, volume).ok()?.driver?;
        Some((driver, format!("{}/{}", seen.namespace, volume.claim)))
    });
    // Before anything is changed: what panics leaves nothing half done.
    let attached: Vec<(String, String)> = attached.collect();
    place.used.add(&pod.requests);
    place.ports.extend(pod.ports.iter().cloned());
    for (driver, name) in attached {
        place.volumes.entry(driver).or_default().insert(name);
    }
}

/// Counts a pod to its DaemonSet: while an update surges, a node has two of one. A pod whose DaemonSet is not known is
/// nobody's whom a plan expects.
fn note_daemon(place: &mut Node, seen: &Seen, pod: &Pod, daemons: &Daemons<'_>) {
    let Keeper::DaemonSet(name) = &seen.keeper else {
        return;
    };
    let Some(of) = daemons.get(&(seen.namespace.as_str(), name.as_str())) else {
        return;
    };
    let mut known = place.daemons.iter_mut();
    match known.find(|known| Arc::ptr_eq(&known.of, of)) {
        Some(known) => known.requests.add(&pod.requests),
        None => place.daemons.push(Arrived {
            of: of.clone(),
            requests: pod.requests.clone(),
        }),
    }
}
