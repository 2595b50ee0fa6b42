//! Every object, and what happened to it: one revision for all writes, a history for watchers.
//!
//! Everything is ordered, so that lists and histories are the same each time. The past is not copied: a view of it is
//! the present with the changes since then undone.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::kind::{Kind, TableKey};
use super::object;
use super::ownership::Ownership;

pub use super::stored::{Event, ObjectKey, Stored};

/// How many changes of a table are remembered before the oldest are forgotten (and watchers that far behind get a
/// 410). A real server keeps five minutes; at 100 changes a second that is 30,000.
const HISTORY_MAX: usize = 30_000;

/// How many objects of a table that were written last are kept decoded as well, as they are now. Of pods, at some 40 KB, that
/// is 10 MB; and it is more than all Nodes and claims of a small cluster. Each table has its own: Leases, of which most writes are,
/// would drive out everything else.
const DECODED_MAX: usize = 256;

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
    /// Whether nothing is new but the time at which the holder of a Lease says that it is still there.
    pub renewal: bool,
}

/// All objects of one kind.
#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<ObjectKey, Arc<Stored>>,
    history: VecDeque<Change>,
    /// The last change that is forgotten, and with it all before.
    floor: u64,
    /// The last change; watchers wait for it to move.
    changed: watch::Sender<u64>,
    /// What is kept decoded, in the order in which it was written.
    decoded: VecDeque<Arc<Stored>>,
}

/// Every object of the cluster.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    tables: BTreeMap<TableKey, Table>,
    /// Nobody is told any more how things were before this revision.
    compacted: u64,
    /// The tables whose watchers have yet to be told of a change.
    untold: Vec<TableKey>,
    /// Who is owned by whom.
    pub ownership: Ownership,
}

impl Default for Store {
    /// Begins at revision 1: 0 means "any" in a request.
    fn default() -> Self {
        Self {
            revision: 1,
            tables: BTreeMap::new(),
            compacted: 0,
            untold: Vec::new(),
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
        self.write(kind, object, false)
    }

    /// Writes a Lease of which nothing is new but the time of its renewal.
    pub fn renew(&mut self, kind: &Kind, lease: Value) -> Arc<Stored> {
        self.write(kind, lease, true)
    }

    fn write(&mut self, kind: &Kind, object: Value, renewal: bool) -> Arc<Stored> {
        self.revision += 1;
        let place = kind.table();
        let table = self.tables.entry(place.clone()).or_default();
        let key = ObjectKey::new(object::namespace(&object), object::name(&object));
        let event = if table.objects.contains_key(&key) {
            Event::Modified
        } else {
            Event::Added
        };
        let stored = Arc::new(Stored::encode(kind, object, self.revision, event));
        let before = table.objects.insert(key, Arc::clone(&stored));
        if let Some(before) = &before {
            // Nobody changes what it was; whoever looks back at it reads the bytes.
            before.forget();
        }
        let ties = before.as_ref().map(|before| &before.ties);
        self.ownership.written(&place, &stored.key, ties, &stored.ties);
        table.remember(Change {
            revision: self.revision,
            before,
            after: Arc::clone(&stored),
            deleted: false,
            renewal,
        });
        table.keep_decoded(&stored);
        self.untold.push(place);
        stored
    }

    /// Removes an object; what its watchers see last carries the revision of the removal.
    pub fn remove(&mut self, kind: &Kind, key: &ObjectKey, last: Value) -> Option<Arc<Stored>> {
        let place = kind.table();
        let table = self.tables.get_mut(&place)?;
        let before = table.objects.remove(key)?;
        before.forget();
        self.ownership.removed(&place, key, &before.ties);
        if kind.custom().is_some() {
            // Its definition may wait for it.
            let table = TableKey::of("apiextensions.k8s.io", "customresourcedefinitions");
            let name = format!("{}.{}", kind.plural, kind.group);
            self.ownership.look_at((table, ObjectKey::new("", &name)));
        }
        self.revision += 1;
        let after = Arc::new(Stored::encode(kind, last, self.revision, Event::Deleted));
        let change = Change {
            revision: self.revision,
            before: Some(before),
            after: Arc::clone(&after),
            deleted: true,
            renewal: false,
        };
        table.remember(change);
        table.keep_decoded(&after);
        self.untold.push(place);
        Some(after)
    }

    /// Tells watchers what was written.
    pub fn announce(&mut self) {
        for table in self.untold.drain(..) {
            if let Some(table) = self.tables.get(&table) {
                table.changed.send_replace(self.revision);
            }
        }
    }

    /// Follows the changes of a table: moves when another one is announced.
    pub fn follow(&mut self, table: &TableKey) -> watch::Receiver<u64> {
        let table = self.tables.entry(table.clone()).or_default();
        table.changed.subscribe()
    }

    /// Whether it can be told how a table was at a revision, and what happened since.
    pub fn remembers(&self, table: &TableKey, revision: u64) -> bool {
        let floor = self.tables.get(table).map_or(0, |table| table.floor);
        revision >= floor.max(self.compacted)
    }

    /// What happened in a table after a revision, or `None` if that is no longer known. Somebody who has seen
    /// everything so far misses nothing by a compaction.
    pub fn since(&self, table: &TableKey, revision: u64) -> Option<impl Iterator<Item = &Change>> {
        let table = self.tables.get(table);
        if revision < table.map_or(0, |table| table.floor) {
            return None;
        }
        let changes = table.map(|table| {
            let first = table
                .history
                .partition_point(|change| change.revision <= revision);
            table.history.range(first..)
        });
        Some(changes.into_iter().flatten())
    }

    /// The objects of a table as they were at a revision, or `None` if that is no longer known.
    pub fn at(&self, table: &TableKey, revision: u64) -> Option<View<'_>> {
        if !self.remembers(table, revision) {
            return None;
        }
        let mut undone = BTreeMap::new();
        for change in self.since(table, revision)? {
            // Of several changes of an object the first knows what it was.
            undone.entry(&change.after.key).or_insert(change.before.as_ref());
        }
        Some(View {
            objects: self.tables.get(table).map(|table| &table.objects),
            undone,
        })
    }

    /// Forgets the history of all tables up to a revision, as etcd's compaction does.
    pub fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
        for table in self.tables.values_mut() {
            table.forget_until(revision);
        }
    }
}

impl Table {
    fn keep_decoded(&mut self, stored: &Arc<Stored>) {
        self.decoded.push_back(Arc::clone(stored));
        if self.decoded.len() > DECODED_MAX
            && let Some(oldest) = self.decoded.pop_front()
        {
            oldest.forget();
        }
    }

    fn remember(&mut self, change: Change) {
        self.history.push_back(change);
        if self.history.len() > HISTORY_MAX
            && let Some(oldest) = self.history.pop_front()
        {
            self.floor = oldest.revision;
        }
    }

    fn forget_until(&mut self, revision: u64) {
        while let Some(oldest) = self.history.front()
            && oldest.revision <= revision
        {
            self.floor = oldest.revision;
            self.history.pop_front();
        }
    }
}

/// A table at some revision.
pub struct View<'a> {
    objects: Option<&'a BTreeMap<ObjectKey, Arc<Stored>>>,
    /// What stood at these places then, if anything.
    undone: BTreeMap<&'a ObjectKey, Option<&'a Arc<Stored>>>,
}

impl<'a> View<'a> {
    /// The object, if it was there.
    pub fn get(&self, key: &ObjectKey) -> Option<&'a Arc<Stored>> {
        match self.undone.get(key) {
            Some(then) => *then,
            None => self.objects?.get(key),
        }
    }

    /// The objects after a place, in order; of one namespace if one is given.
    pub fn after(
        &self,
        place: Option<&ObjectKey>,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> {
        let first = ObjectKey::new(namespace.unwrap_or_default(), "");
        let from = match place {
            Some(place) if *place >= first => Bound::Excluded(place),
            _ => Bound::Included(&first),
        };
        let range = (from, Bound::Unbounded);
        let mut now = self
            .objects
            .map(|objects| objects.range(range))
            .into_iter()
            .flatten()
            .filter(|(key, _)| !self.undone.contains_key(key))
            .map(|(_, stored)| stored)
            .peekable();
        let mut then = self
            .undone
            .range::<ObjectKey, _>(range)
            .filter_map(|(_, stored)| *stored)
            .peekable();
        std::iter::from_fn(move || match (now.peek(), then.peek()) {
            (Some(present), Some(past)) if past.key < present.key => then.next(),
            (Some(_), _) => now.next(),
            (None, _) => then.next(),
        })
        .take_while(move |stored| namespace.is_none_or(|namespace| stored.key.namespace == namespace))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::sim::kube::registry::Registry;

    /// What is done to one of a few objects.
    #[derive(Clone, Debug)]
    enum Deed {
        Put(&'static str, &'static str, u8),
        Remove(&'static str, &'static str),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        let place = (
            prop::sample::select(vec!["m", "n"]),
            prop::sample::select(vec!["a", "b", "c"]),
        );
        (place, any::<Option<u8>>()).prop_map(|((namespace, name), value)| match value {
            Some(value) => Deed::Put(namespace, name, value),
            None => Deed::Remove(namespace, name),
        })
    }

    fn configs() -> Arc<Kind> {
        Registry::default().find("", "v1", "configmaps").unwrap()
    }

    fn config(namespace: &str, name: &str, value: u8) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name}, "data": {"value": value.to_string()}})
    }

    fn carry_out(store: &mut Store, deed: &Deed) {
        let kind = configs();
        match *deed {
            Deed::Put(namespace, name, value) => {
                store.put(&kind, config(namespace, name, value));
            }
            Deed::Remove(namespace, name) => {
                let key = ObjectKey::new(namespace, name);
                store.remove(&kind, &key, config(namespace, name, 0));
            }
        }
    }

    fn bodies<'a>(objects: impl Iterator<Item = &'a Arc<Stored>>) -> Vec<(ObjectKey, u64)> {
        objects
            .map(|stored| (stored.key.clone(), stored.revision))
            .collect()
    }

    proptest! {
        #[test]
        fn a_view_shows_every_revision_as_it_was(deeds in prop::collection::vec(deed(), 0..30), place in deed()) {
            let (mut store, table) = (Store::default(), configs().table());
            let mut past = BTreeMap::new();
            let (Deed::Put(namespace, name, _) | Deed::Remove(namespace, name)) = place;
            let after = ObjectKey::new(namespace, name);
            for deed in &deeds {
                let now = bodies(store.list(&table, None));
                past.insert(store.revision(), now);
                carry_out(&mut store, deed);
            }
            for (revision, then) in past {
                let view = store.at(&table, revision).unwrap();
                prop_assert_eq!(&bodies(view.after(None, None)), &then);
                let mut rest = then.clone();
                rest.retain(|(key, _)| *key > after && key.namespace == "n");
                prop_assert_eq!(bodies(view.after(Some(&after), Some("n"))), rest);
                let got = view.get(&after).map(|stored| stored.revision);
                prop_assert_eq!(got, then.iter().find(|(key, _)| *key == after).map(|(_, revision)| *revision));
            }
        }

        #[test]
        fn replaying_what_happened_since_a_view_leads_to_the_present(deeds in prop::collection::vec(deed(), 1..30), at in 0_usize..30) {
            let (mut store, table) = (Store::default(), configs().table());
            let mut start = 1;
            for (index, deed) in deeds.iter().enumerate() {
                if index == at {
                    start = store.revision();
                }
                carry_out(&mut store, deed);
            }
            let view = store.at(&table, start).unwrap();
            let mut replica: BTreeMap<ObjectKey, u64> = bodies(view.after(None, None)).into_iter().collect();
            for change in store.since(&table, start).unwrap() {
                if change.deleted {
                    replica.remove(&change.after.key);
                } else {
                    replica.insert(change.after.key.clone(), change.revision);
                }
            }
            prop_assert_eq!(replica.into_iter().collect::<Vec<_>>(), bodies(store.list(&table, None)));
        }
    }

    #[test]
    fn the_oldest_changes_are_forgotten_when_there_are_too_many() {
        let kind = configs();
        let (mut store, table) = (Store::default(), kind.table());
        for _ in 0..=HISTORY_MAX {
            store.put(&kind, config("n", "a", 1));
        }
        assert!(store.since(&table, 1).is_none() && store.at(&table, 1).is_none());
        assert_eq!(store.since(&table, 2).unwrap().count(), HISTORY_MAX);
    }
}
