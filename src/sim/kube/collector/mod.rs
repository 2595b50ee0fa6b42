//! What follows from a deletion: what its owner leaves behind goes, or is let go, as the deletion said; a namespace
//! or definition that is being deleted takes along what is in it.
//!
//! On a real cluster two controllers do this a moment later; here it is done as soon as a write is stored, in a
//! defined order, until nothing is left to do. As there, an object goes when none of its owners exists any more; an
//! owner of a kind that nobody knows keeps it, since nothing can be known about such an owner; and pods get their
//! grace period.

use serde_json::Value;

use super::definitions;
use super::delete::{self, Manner};
use super::kind::{Kind, Scope, TableKey};
use super::object;
use super::ownership::{Owner, Place};
use super::server::State;
use super::store::{ObjectKey, Stored};
use super::write::{commit, is_finished, remove};
use crate::clock::Clock;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Collects what is to be collected; `true` if anything was written.
pub fn collect(state: &mut State, clock: &Clock) -> bool {
    let before = state.store.revision();
    while let Some(place) = state.store.ownership.take_next() {
        look_at(state, clock, &place);
    }
    state.store.revision() != before
}

fn look_at(state: &mut State, clock: &Clock, place: &Place) {
    let Some(stored) = state.store.get(&place.0, &place.1).cloned() else {
        return;
    };
    let Some(kind) = state.registry.by_plural(&place.0.group, &place.0.plural) else {
        return;
    };
    if stored.ties.deleting {
        let object = stored.value();
        if place.0 == TableKey::of("", "namespaces") {
            empty_namespace(state, clock, &kind, object);
            return;
        }
        if object::finalizers(&object).contains(&definitions::CLEANUP) {
            empty_definition(state, clock, &kind, place, object);
            return;
        }
        if object::finalizers(&object).contains(&ORPHAN) {
            let_go(state, &kind, place, &stored, object);
        } else if object::finalizers(&object).contains(&FOREGROUND) {
            wait_for_dependents(state, clock, &kind, place, &stored, object);
        }
        return;
    }
    judge_by_owners(state, clock, &kind, place, &stored);
}

/// What became of an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lives,
    /// It is being deleted, and waits for what it owns.
    Waits,
    Gone,
    /// Its kind is not known, or it cannot be where it should be.
    Unknown,
}

fn fate(state: &State, owner: &Owner, namespace: &str) -> Fate {
    let (group, version) = owner
        .api_version
        .split_once('/')
        .unwrap_or(("", &owner.api_version));
    let kind = state.registry.by_kind(group, &owner.kind);
    let Some(kind) = kind.filter(|kind| kind.version == version) else {
        return Fate::Unknown;
    };
    let key = match kind.scope {
        Scope::Cluster => ObjectKey::new("", &owner.name),
        Scope::Namespaced if namespace.is_empty() => return Fate::Unknown,
        Scope::Namespaced => ObjectKey::new(namespace, &owner.name),
    };
    match state.store.get(&kind.table(), &key) {
        Some(stored) if stored.ties.uid == owner.uid => {
            let waits = stored.ties.deleting && object::finalizers(&stored.value()).contains(&FOREGROUND);
            if waits { Fate::Waits } else { Fate::Lives }
        }
        _ => Fate::Gone,
    }
}

/// Deletes an object whose owners are all gone, and takes gone owners off one that still has another.
fn judge_by_owners(state: &mut State, clock: &Clock, kind: &Kind, place: &Place, stored: &Stored) {
    let fates: Vec<(Fate, &Owner)> = stored
        .ties
        .owners
        .iter()
        .map(|owner| (fate(state, owner, &place.1.namespace), owner))
        .collect();
    let any = |fate: Fate| fates.iter().any(|(its, _)| *its == fate);
    if fates.is_empty() || any(Fate::Unknown) || !(any(Fate::Gone) || any(Fate::Waits)) {
        return;
    }
    if any(Fate::Lives) {
        let leaving: Vec<&str> = fates
            .iter()
            .filter(|(fate, _)| *fate != Fate::Lives)
            .map(|(_, owner)| owner.uid.as_str())
            .collect();
        let object = without_owners(stored.value(), &leaving);
        store(state, kind, place, object);
        return;
    }
    // What is waited for, and owns something itself, waits in turn.
    let waits = any(Fate::Waits) && !state.store.ownership.dependents(&stored.ties.uid).is_empty();
    let manner = if waits {
        Manner::foreground()
    } else {
        Manner::background()
    };
    erase(state, clock, kind, place, stored.value(), &manner);
}

fn without_owners(mut object: Value, leaving: &[&str]) -> Value {
    if let Some(references) = object["metadata"]["ownerReferences"].as_array_mut() {
        references.retain(|reference| !leaving.contains(&reference["uid"].as_str().unwrap_or_default()));
        if references.is_empty() {
            object::metadata_mut(&mut object).remove("ownerReferences");
        }
    }
    object
}

fn without_finalizer(mut object: Value, leaving: &str) -> Value {
    if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|finalizer| finalizer != leaving);
        if finalizers.is_empty() {
            object::metadata_mut(&mut object).remove("finalizers");
        }
    }
    object
}

/// Orphans: the owner goes, what it owned stays and forgets it.
fn let_go(state: &mut State, kind: &Kind, place: &Place, stored: &Stored, owner: Value) {
    for dependent in state.store.ownership.dependents(&stored.ties.uid) {
        let its_kind = state.registry.by_plural(&dependent.0.group, &dependent.0.plural);
        let object = state
            .store
            .get(&dependent.0, &dependent.1)
            .map(|stored| stored.value());
        if let (Some(its_kind), Some(object)) = (its_kind, object) {
            store(
                state,
                &its_kind,
                &dependent,
                without_owners(object, &[&stored.ties.uid]),
            );
        }
    }
    store(state, kind, place, without_finalizer(owner, ORPHAN));
}

/// Foreground: what blocks the owner's deletion goes first.
fn wait_for_dependents(
    state: &mut State,
    clock: &Clock,
    kind: &Kind,
    place: &Place,
    stored: &Stored,
    owner: Value,
) {
    let uid = stored.ties.uid.clone();
    for dependent in state.store.ownership.dependents(&uid) {
        let its_kind = state.registry.by_plural(&dependent.0.group, &dependent.0.plural);
        let current = state.store.get(&dependent.0, &dependent.1).cloned();
        if let (Some(its_kind), Some(current)) = (its_kind, current)
            && !current.ties.deleting
        {
            judge_by_owners(state, clock, &its_kind, &dependent, &current);
        }
    }
    let blocked = state.store.ownership.dependents(&uid).iter().any(|dependent| {
        let current = state.store.get(&dependent.0, &dependent.1);
        let mut owners = current.into_iter().flat_map(|stored| &stored.ties.owners);
        owners.any(|owner| owner.uid == uid && owner.blocks)
    });
    if !blocked {
        store(state, kind, place, without_finalizer(owner, FOREGROUND));
    }
}

/// Deletes everything that a definition defines, and then lets the definition go.
fn empty_definition(state: &mut State, clock: &Clock, kind: &Kind, place: &Place, definition: Value) {
    let text = |path: &str| {
        object::at(&definition, path)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let table = TableKey::of(&text("spec.group"), &text("spec.names.plural"));
    if !erase_all(state, clock, &table, None) {
        store(
            state,
            kind,
            place,
            without_finalizer(definition, definitions::CLEANUP),
        );
    }
}

/// Deletes everything in a table, or what is in one namespace; whether anything stays.
fn erase_all(state: &mut State, clock: &Clock, table: &TableKey, namespace: Option<&str>) -> bool {
    let Some(kind) = state.registry.by_plural(&table.group, &table.plural) else {
        return false;
    };
    let listed = state.store.list(table, namespace);
    let keys: Vec<ObjectKey> = listed.map(|stored| stored.key.clone()).collect();
    let mut left = false;
    for key in keys {
        let place = (table.clone(), key);
        if let Some(stored) = state.store.get(&place.0, &place.1).cloned()
            && !stored.ties.deleting
        {
            erase(state, clock, &kind, &place, stored.value(), &Manner::background());
        }
        left |= state.store.get(&place.0, &place.1).is_some();
    }
    left
}

/// Deletes everything in a namespace, and then lets the namespace go.
fn empty_namespace(state: &mut State, clock: &Clock, kind: &Kind, namespace: Value) {
    let name = object::name(&namespace).to_owned();
    let tables: Vec<TableKey> = state.store.tables().cloned().collect();
    let mut left = false;
    for table in tables {
        let kind = state.registry.by_plural(&table.group, &table.plural);
        if kind.is_some_and(|kind| kind.scope == Scope::Namespaced) {
            left |= erase_all(state, clock, &table, Some(&name));
        }
    }
    if left {
        return;
    }
    let mut namespace = namespace;
    if let Some(finalizers) = namespace["spec"]["finalizers"].as_array_mut() {
        finalizers.retain(|finalizer| finalizer != "kubernetes");
        if finalizers.is_empty() {
            object::object_mut(&mut namespace["spec"]).remove("finalizers");
        }
    }
    let place = (kind.table(), ObjectKey::new("", &name));
    store(state, kind, &place, namespace);
}

/// Deletes an object as the server itself: nobody is asked for permission.
fn erase(state: &mut State, clock: &Clock, kind: &Kind, place: &Place, object: Value, manner: &Manner) {
    let marked = delete::marked(clock, kind, object, manner);
    store(state, kind, place, marked);
}

/// Writes a changed object, or removes it if nothing keeps it.
fn store(state: &mut State, kind: &Kind, place: &Place, object: Value) {
    let unchanged = state
        .store
        .get(&place.0, &place.1)
        .is_none_or(|stored| stored.value() == object);
    if is_finished(&object) {
        remove(state, kind, &place.1, object);
    } else if !unchanged {
        // Only a definition can be refused here, and one that is stored was accepted before.
        let _ = commit(state, kind, object);
    }
}

#[cfg(test)]
mod tests;
