//! A snapshot without some of the things in it, and what those are called.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Node as ApiNode, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Resource;

use super::poison::{Kept, Kind, Thing};
use crate::api::{NodeClaim, NodePool};
use crate::cluster::{Situation, named};
use crate::model::pod::Member;
use crate::model::{Node, NodeKind, PodSet, Snapshot, Standing};

/// Everything in a situation but what is called by one of these names.
pub(super) fn all_but(situation: &Situation, out: &BTreeSet<String>) -> Kept {
    let snapshot = &situation.snapshot;
    let counts = [
        (Kind::Pods, snapshot.pending.classes.len()),
        (Kind::Daemon, snapshot.daemons.len()),
        (Kind::Node, snapshot.nodes.len()),
        (Kind::Storage, stored(snapshot)),
        (Kind::Pool, snapshot.pools.len()),
    ];
    let all = counts
        .into_iter()
        .flat_map(|(kind, count)| (0..count).map(move |at| (kind, at)));
    // Pods that are out are not in the snapshot at all.
    let is_out = |thing: &Thing| {
        thing.0 != Kind::Pods && objects(situation, *thing).iter().any(|it| out.contains(&key(it)))
    };
    all.filter(|thing| out.is_empty() || !is_out(thing)).collect()
}

fn stored(snapshot: &Snapshot) -> usize {
    let storage = &snapshot.storage;
    storage.claims.len() + storage.volumes.len() + storage.classes.len()
}

/// The part of a snapshot that is made of these things. Of a node that is not among them nothing is left but what
/// counts against the limits of its pool.
pub(super) fn part(whole: &Snapshot, kept: &Kept) -> Snapshot {
    let has = |kind: Kind, at: usize| kept.contains(&(kind, at));
    let nodes: Vec<Node> = whole
        .nodes
        .iter()
        .enumerate()
        .map(|(at, node)| {
            if has(Kind::Node, at) {
                node.clone()
            } else {
                outline(node)
            }
        })
        .collect();
    let out = whole.nodes.iter().enumerate();
    let out: BTreeSet<&str> = out
        .filter(|(at, _)| !has(Kind::Node, *at))
        .map(|(_, node)| node.name.as_str())
        .collect();
    let mut part = Snapshot {
        pools: some(&whole.pools, |at| has(Kind::Pool, at)),
        closed: whole.closed.clone(),
        nodes,
        pending: pods(&whole.pending, |pod| has(Kind::Pods, pod.class)),
        bound: pods(&whole.bound, |pod| {
            pod.node.as_deref().is_none_or(|node| !out.contains(node))
        }),
        daemons: some(&whole.daemons, |at| has(Kind::Daemon, at)),
        namespaces: whole.namespaces.clone(),
        storage: whole.storage.clone(),
    };
    let mut numbers = 0..;
    let mut is_kept = || numbers.next().is_some_and(|at| has(Kind::Storage, at));
    part.storage.claims.retain(|_, _| is_kept());
    part.storage.volumes.retain(|_, _| is_kept());
    part.storage.classes.retain(|_, _| is_kept());
    part
}

/// Those whose place is kept.
pub(super) fn some<T: Clone>(all: &[T], kept: impl Fn(usize) -> bool) -> Vec<T> {
    let all = all.iter().enumerate();
    all.filter(|(at, _)| kept(*at))
        .map(|(_, one)| one.clone())
        .collect()
}

fn outline(node: &Node) -> Node {
    Node {
        name: node.name.clone(),
        kind: node.kind,
        pool: node.pool.clone(),
        capacity: node.capacity.clone(),
        standing: Standing::Leaving,
        ..Node::default()
    }
}

fn pods(all: &PodSet, kept: impl Fn(&Member) -> bool) -> PodSet {
    let mut places = vec![None; all.classes.len()];
    let mut part = PodSet::default();
    for member in all.members.iter().filter(|member| kept(member)) {
        let class = *places[member.class].get_or_insert_with(|| {
            part.classes.push(all.classes[member.class].clone());
            part.classes.len() - 1
        });
        part.members.push(Member {
            class,
            ..member.clone()
        });
    }
    part
}

/// What a thing is called by when it is left out for a while: a pod by its uid, everything else by kind and name.
pub(super) fn key(object: &ObjectReference) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    if object.kind.as_deref() == Some("Pod") {
        return text(&object.uid);
    }
    let (kind, namespace, name) = (&object.kind, &object.namespace, &object.name);
    format!("{}/{}/{}", text(kind), text(namespace), text(name))
}

/// The objects of the API that a thing stands for.
pub(super) fn objects(situation: &Situation, (kind, at): Thing) -> Vec<ObjectReference> {
    let snapshot = &situation.snapshot;
    match kind {
        Kind::Pods => {
            let pods = snapshot.pending.members.iter();
            pods.filter(|pod| pod.class == at).map(pod).collect()
        }
        Kind::Daemon => {
            let name = situation.daemons.get(at).and_then(|key| key.split_once('/'));
            name.map(|(namespace, name)| named::<DaemonSet>(Some(namespace), name))
                .into_iter()
                .collect()
        }
        Kind::Node => {
            let node = &snapshot.nodes[at];
            vec![match node.kind {
                NodeKind::Node => named::<ApiNode>(None, &node.name),
                NodeKind::ClaimInFlight => named::<NodeClaim>(None, &node.name),
            }]
        }
        Kind::Storage => storage(snapshot, at).into_iter().collect(),
        Kind::Pool => situation
            .pools
            .get(at)
            .map(|pool: &NodePool| pool.object_ref(&()))
            .into_iter()
            .collect(),
    }
}

fn storage(snapshot: &Snapshot, at: usize) -> Option<ObjectReference> {
    let storage = &snapshot.storage;
    let claims = storage.claims.keys();
    let claims = claims.map(|(namespace, name)| named::<PersistentVolumeClaim>(Some(namespace), name));
    let volumes = storage.volumes.keys();
    let volumes = volumes.map(|name| named::<PersistentVolume>(None, name));
    let classes = storage
        .classes
        .keys()
        .map(|name| named::<StorageClass>(None, name));
    claims.chain(volumes).chain(classes).nth(at)
}

/// A pod, as events are about it.
pub(super) fn pod(pod: &Member) -> ObjectReference {
    ObjectReference {
        uid: Some(pod.uid.clone()),
        ..named::<Pod>(Some(&pod.namespace), &pod.name)
    }
}
