//! Classes that differ in nothing that a plan depends on become one.
//!
//! Each pod of an indexed Job or a StatefulSet has a label of its own, and so has each small Deployment, but hardly ever
//! does anybody select by it. A plan is the better for it where pods that are alike to it are placed as one class: what
//! is learnt from one of them serves the next.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::class::{Class, StageOf, requirements_of};
use super::topology::GroupId;
use crate::model::{HostPort, Pod, Requirements, Snapshot, Toleration};

/// What the solver reads of a class, but for its pods.
#[derive(PartialEq, Eq, Hash)]
struct Looks<'a> {
    priority: i32,
    size: usize,
    groups: [&'a [GroupId]; 3],
    stages: &'a [StageOf],
    ports: &'a [HostPort],
    volumes: &'a [(String, String)],
}

/// Joins classes that are alike. The first of them, by their order, is the one that stays.
pub(super) fn join(classes: Vec<Class>, snapshot: &Snapshot) -> Vec<Class> {
    let into = joined_into(&classes, snapshot);
    let mut joined: Vec<Option<Class>> = Vec::with_capacity(classes.len());
    for (class, into) in classes.into_iter().zip(into) {
        match joined.get_mut(into) {
            Some(Some(first)) => {
                first.members.extend(class.members);
                joined.push(None);
            }
            _ => joined.push(Some(class)),
        }
    }
    let mut all: Vec<Class> = joined.into_iter().flatten().collect();
    let name = |at: &usize| snapshot.pending.members[*at].place_in_line();
    for class in &mut all {
        class.members.sort_by(|one, two| name(one).cmp(&name(two)));
    }
    all
}

/// For each class the first that is like it: itself, if no other is. A hash finds it, and a comparison confirms it: to keep
/// all looks in order would take longer.
fn joined_into(classes: &[Class], snapshot: &Snapshot) -> Vec<usize> {
    // Always begins with the same state, so there is no chance in it.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut firsts: BTreeMap<u64, BTreeMap<Words<'_>, Vec<usize>>> = BTreeMap::new();
    let mut into = Vec::with_capacity(classes.len());
    for (at, class) in classes.iter().enumerate() {
        let (None, Ok(pod)) = (&class.trouble, &snapshot.pending.classes[class.source]) else {
            into.push(at);
            continue;
        };
        let looks = Looks::of(class);
        let as_told = firsts.entry(hasher.hash_one(&looks)).or_default();
        let known = as_told.entry(words(pod, snapshot)).or_default();
        let first = known
            .iter()
            .find(|first| Looks::of(&classes[**first]) == looks)
            .copied();
        into.push(first.unwrap_or_else(|| {
            known.push(at);
            at
        }));
    }
    into
}

impl<'a> Looks<'a> {
    fn of(class: &'a Class) -> Self {
        Self {
            priority: class.priority,
            size: class.size,
            groups: [&class.counted, &class.feared, &class.keeps],
            stages: &class.stages,
            ports: &class.ports,
            volumes: &class.volumes,
        }
    }
}

/// What the words hang on in which pods are told what stands in their way.
type Words<'a> = (&'a [Requirements], &'a [Toleration], Vec<Requirements>);

fn words<'a>(pod: &'a Pod, snapshot: &Snapshot) -> Words<'a> {
    // What volumes need may go without saying beside the terms of the pod, and is told all the same.
    let volumes = (!pod.volumes.is_empty()).then(|| requirements_of(pod, snapshot).1);
    (&pod.node_terms, &pod.tolerations, volumes.unwrap_or_default())
}
