//! Every object, and what happened to it: one revision for all writes, a history for watchers.
//!
//! Objects are kept as the JSON bytes that are sent, with what selectors look at beside them, so that a get is a
//! clone of a pointer and 50,000 pods fit. Everything is ordered, so that lists and histories are the same each time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::kind::{Kind, TableKey};
use super::object;
use super::ownership::{Ownership, Place, Ties};

/// How many changes of a table are remembered before the oldest are forgotten (and watchers that far behind get a
/// 410). A real server keeps five minutes; at 100 changes a second that is 30,000.
const HISTORY_MAX: usize = 30_000;

/// Where an object stands in its table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Unique in the namespace.
    pub name: String,
}

impl ObjectKey {
    /// The key of `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// An object as it is stored.
#[derive(Debug)]
pub struct Stored {
    /// Where it stands.
    pub key: ObjectKey,
    /// The revision of the write that made it so.
    pub revision: u64,
    /// The whole object as JSON, its type first.
    pub body: Bytes,
    /// Where in `body` the type ends: what follows, after an opening brace, is the object without it.
    type_ends: usize,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The values of its selectable fields.
    pub fields: BTreeMap<String, String>,
    /// Who owns it, and whether it is going.
    pub ties: Ties,
}

impl Stored {
    /// The object, decoded.
    pub fn value(&self) -> Value {
        // What was encoded from a value decodes to it.
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The fields of the object without its type, and the closing brace.
    pub fn untyped(&self) -> &[u8] {
        &self.body[self.type_ends..]
    }

    /// The same object under a later revision: how it looked when it left a watcher's selection.
    pub fn at_revision(&self, kind: &Kind, revision: u64) -> Self {
        encode(kind, self.value(), revision)
    }

    /// The value of a selectable field, empty if it has none.
    pub fn field(&self, name: &str) -> &str {
        match name {
            "metadata.name" => &self.key.name,
            "metadata.namespace" => &self.key.namespace,
            other => self.fields.get(other).map_or("", String::as_str),
        }
    }
}

/// What happened to an object.
#[derive(Clone, Debug)]
pub struct Change {
    /// At which revision.
    pub revision: u64,
    /// What it was before, unless it is new.
    pub before: Option<Arc<Stored>>,
    /// What it is now, or, if it was deleted, what it was last (with the revision of its deletion).
    pub after: Arc<Stored>,
    /// Whether it is gone.
    pub deleted: bool,
}

/// All objects of one kind.
#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<ObjectKey, Arc<Stored>>,
    history: VecDeque<Change>,
    /// Changes up to and including this revision are forgotten.
    floor: u64,
}

/// Every object of the cluster.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    tables: BTreeMap<TableKey, Table>,
    /// Who is owned by whom.
    pub ownership: Ownership,
}

impl Default for Store {
    /// Begins at revision 1: 0 means "any" in a request.
    fn default() -> Self {
        Self {
            revision: 1,
            tables: BTreeMap::new(),
            ownership: Ownership::default(),
        }
    }
}

impl Store {
    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The object, if it is there.
    pub fn get(&self, table: &TableKey, key: &ObjectKey) -> Option<&Arc<Stored>> {
        self.tables.get(table)?.objects.get(key)
    }

    /// All objects of a table in order; of one namespace if one is given.
    pub fn list<'a>(
        &'a self,
        table: &TableKey,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a> {
        let start = ObjectKey::new(namespace.unwrap_or_default(), "");
        let objects = self.tables.get(table).map(|table| table.objects.range(start..));
        objects
            .into_iter()
            .flatten()
            .map(|(_, object)| object)
            .take_while(move |object| namespace.is_none_or(|namespace| object.key.namespace == namespace))
    }

    /// How many objects a table holds.
    pub fn count(&self, table: &TableKey) -> usize {
        self.tables.get(table).map_or(0, |table| table.objects.len())
    }

    /// The revision at which a table last changed.
    pub fn changed_at(&self, table: &TableKey) -> u64 {
        let table = self.tables.get(table);
        table.map_or(0, |table| {
            table.history.back().map_or(table.floor, |change| change.revision)
        })
    }

    /// The names of the tables that were ever written to.
    pub fn tables(&self) -> impl Iterator<Item = &TableKey> {
        self.tables.keys()
    }

    /// Writes an object: the caller has checked everything. Its `resourceVersion` is set here.
    pub fn put(&mut self, kind: &Kind, object: Value) -> Arc<Stored> {
        self.revision += 1;
        let stored = Arc::new(encode(kind, object, self.revision));
        let table = self.tables.entry(kind.table()).or_default();
        let before = table.objects.insert(stored.key.clone(), Arc::clone(&stored));
        let ties = before.as_ref().map(|before| &before.ties);
        self.ownership
            .written(&kind.table(), &stored.key, ties, &stored.ties);
        table.remember(Change {
            revision: self.revision,
            before,
            after: Arc::clone(&stored),
            deleted: false,
        });
        stored
    }

    /// Removes an object; what its watchers see last carries the revision of the removal. Its `owners` may have waited
    /// for it.
    pub fn remove(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        last: Value,
        owners: &[Place],
    ) -> Option<Arc<Stored>> {
        let table = self.tables.get_mut(&kind.table())?;
        let before = table.objects.remove(key)?;
        self.ownership.removed(&kind.table(), key, &before.ties, owners);
        self.revision += 1;
        let after = Arc::new(encode(kind, last, self.revision));
        let change = Change {
            revision: self.revision,
            before: Some(before),
            after: Arc::clone(&after),
            deleted: true,
        };
        table.remember(change);
        Some(after)
    }

    /// What happened in a table after a revision, or `None` if that is no longer known.
    pub fn since(&self, table: &TableKey, revision: u64) -> Option<Vec<Change>> {
        let Some(table) = self.tables.get(table) else {
            return Some(Vec::new());
        };
        if revision < table.floor {
            return None;
        }
        let first = table
            .history
            .partition_point(|change| change.revision <= revision);
        Some(table.history.range(first..).cloned().collect())
    }

    /// The objects of a table as they were at a revision, or `None` if that is no longer known.
    pub fn at(&self, table: &TableKey, revision: u64) -> Option<BTreeMap<ObjectKey, Arc<Stored>>> {
        let mut objects = self
            .tables
            .get(table)
            .map(|table| table.objects.clone())
            .unwrap_or_default();
        for change in self.since(table, revision)?.into_iter().rev() {
            let key = change.after.key.clone();
            match change.before {
                Some(before) => objects.insert(key, before),
                None => objects.remove(&key),
            };
        }
        Some(objects)
    }

    /// Forgets the history of all tables up to a revision, as etcd's compaction does.
    pub fn compact(&mut self, revision: u64) {
        for table in self.tables.values_mut() {
            table.forget_until(revision);
        }
    }
}

impl Table {
    fn remember(&mut self, change: Change) {
        self.history.push_back(change);
        if self.history.len() > HISTORY_MAX
            && let Some(oldest) = self.history.pop_front()
        {
            self.floor = oldest.revision;
        }
    }

    fn forget_until(&mut self, revision: u64) {
        while self
            .history
            .front()
            .is_some_and(|change| change.revision <= revision)
        {
            self.history.pop_front();
        }
        self.floor = self.floor.max(revision);
    }
}

fn encode(kind: &Kind, mut object: Value, revision: u64) -> Stored {
    object::metadata_mut(&mut object).insert("resourceVersion".to_owned(), revision.to_string().into());
    let fields = kind
        .selectable
        .iter()
        .map(|field| (field.clone(), selectable(kind, &object, field)))
        .collect();
    let (body, type_ends) = written(&object);
    Stored {
        key: ObjectKey::new(object::namespace(&object), object::name(&object)),
        revision,
        labels: object::labels(&object),
        fields,
        ties: Ties::of(&object),
        body,
        type_ends,
    }
}

/// What a field selector compares a field with.
fn selectable(kind: &Kind, object: &Value, field: &str) -> String {
    let value = object::scalar(object::at(object, field));
    // A truth that is left out is a falsehood.
    if kind.custom().is_none()
        && value.is_empty()
        && matches!(field, "spec.hostNetwork" | "spec.unschedulable")
    {
        return "false".to_owned();
    }
    value
}

/// An object as JSON that begins with its type, and how long that beginning is: lists of built-in kinds leave it out.
fn written(object: &Value) -> (Bytes, usize) {
    let mut body = format!(
        "{{\"apiVersion\":{},\"kind\":{}",
        object["apiVersion"], object["kind"]
    );
    let type_ends = body.len() + 1;
    for (field, value) in object.as_object().into_iter().flatten() {
        if field != "apiVersion" && field != "kind" {
            body.push(',');
            body.push_str(&Value::from(field.as_str()).to_string());
            body.push(':');
            body.push_str(&value.to_string());
        }
    }
    body.push('}');
    (body.into(), type_ends)
}
