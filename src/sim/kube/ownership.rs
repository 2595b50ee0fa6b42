//! Who is owned by whom, and what the collector has yet to look at.
//!
//! Kept by the store with every write, so that the collector never has to search.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::kind::TableKey;
use super::object;
use super::store::ObjectKey;

/// Where an object stands in the store.
pub type Place = (TableKey, ObjectKey);

/// An owner reference, as far as the collector reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `apps/v1`
    pub api_version: String,
    /// `ReplicaSet`
    pub kind: String,
    /// Its name, in the namespace of what it owns or in none.
    pub name: String,
    /// Which of those that had the name.
    pub uid: String,
    /// Whether it waits for what it owns when it is deleted in the foreground.
    pub blocks: bool,
}

/// What the collector reads of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// Its own uid.
    pub uid: String,
    /// Who owns it.
    pub owners: Vec<Owner>,
    /// Whether its deletion was asked for.
    pub deleting: bool,
}

impl Ties {
    /// Reads them off an object.
    pub fn of(object: &Value) -> Self {
        let references = object["metadata"]["ownerReferences"].as_array();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            uid: object::uid(object).to_owned(),
            owners: references
                .into_iter()
                .flatten()
                .map(|reference| Owner {
                    api_version: text(&reference["apiVersion"]),
                    kind: text(&reference["kind"]),
                    name: text(&reference["name"]),
                    uid: text(&reference["uid"]),
                    blocks: reference["blockOwnerDeletion"] == true,
                })
                .collect(),
            deleting: object::is_deleting(object),
        }
    }
}

/// The index.
#[derive(Debug, Default)]
pub struct Ownership {
    /// What is owned, by the uid of the owner.
    dependents: BTreeMap<String, BTreeSet<Place>>,
    /// What is being deleted, by its uid: it may wait for what it owns.
    going: BTreeMap<String, Place>,
    pending: BTreeSet<Place>,
}

impl Ownership {
    /// Takes note of an object that was written. One that is as it was, and stays, was judged when its ties last changed:
    /// heartbeats, of which there are more than of all other writes, need no second look.
    pub fn written(&mut self, table: &TableKey, key: &ObjectKey, before: Option<&Ties>, after: &Ties) {
        if before == Some(after) && !after.deleting {
            return;
        }
        self.untie(table, key, before);
        for owner in &after.owners {
            let place = (table.clone(), key.clone());
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(place);
        }
        if after.deleting {
            self.going.insert(after.uid.clone(), (table.clone(), key.clone()));
        }
        if after.deleting || !after.owners.is_empty() {
            self.pending.insert((table.clone(), key.clone()));
        }
    }

    /// Takes note of an object that is gone: what it owned, what waited for it and its namespace are to be looked at.
    pub fn removed(&mut self, table: &TableKey, key: &ObjectKey, last: &Ties) {
        self.untie(table, key, Some(last));
        self.going.remove(&last.uid);
        self.pending.remove(&(table.clone(), key.clone()));
        let dependents = self.dependents.get(&last.uid).cloned().unwrap_or_default();
        self.pending.extend(dependents);
        if !key.namespace.is_empty() {
            let namespace = ObjectKey::new("", &key.namespace);
            self.pending.insert((TableKey::of("", "namespaces"), namespace));
        }
    }

    fn untie(&mut self, table: &TableKey, key: &ObjectKey, ties: Option<&Ties>) {
        for owner in ties.into_iter().flat_map(|ties| &ties.owners) {
            if let Some(places) = self.dependents.get_mut(&owner.uid) {
                places.remove(&(table.clone(), key.clone()));
                if places.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
            self.pending.extend(self.going.get(&owner.uid).cloned());
        }
    }

    /// What an object owns, by its uid.
    pub fn dependents(&self, uid: &str) -> Vec<Place> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Asks the collector to look at an object.
    pub fn look_at(&mut self, place: Place) {
        self.pending.insert(place);
    }

    /// What to look at next.
    pub fn take_next(&mut self) -> Option<Place> {
        self.pending.pop_first()
    }
}
