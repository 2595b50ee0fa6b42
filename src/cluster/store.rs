//! Objects of one kind, as far as they matter, by key.
//!
//! Fed by a watch, and by the answers of our own writes, which come by another way and may come late. The newer revision
//! wins; an answer that is not newer than what the watch has told already is known, or of something that is gone. What
//! only an answer has told of may be gone again without the watch ever telling: it is unconfirmed until a watch or a
//! consistent list has shown it.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::ObjectMeta;

/// A point in the history of the cluster, which is one sequence for all objects of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(u64);

impl Revision {
    /// When an object was last written. What is no number is older than everything.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::parse(metadata.resource_version.as_deref())
    }

    /// As it is written.
    pub fn parse(written: Option<&str>) -> Self {
        Self(written.and_then(|text| text.parse().ok()).unwrap_or_default())
    }
}

/// What became of something that was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told<T> {
    /// It was known, or older than what is known.
    Nothing,
    /// It is new or different; this was there before.
    New(Option<T>),
}

/// Objects by key, each with the revision that it is of.
#[derive(Debug)]
pub struct Store<T> {
    objects: BTreeMap<String, (Revision, T)>,
    /// The newest that the watch has told.
    told: Revision,
    /// While a list is read: what it has not shown yet.
    unseen: Option<BTreeSet<String>>,
    /// What is known from an answer of ours and from nowhere else.
    unconfirmed: BTreeSet<String>,
    /// How often anything became different.
    changes: u64,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            told: Revision::default(),
            unseen: None,
            unconfirmed: BTreeSet::new(),
            changes: 0,
        }
    }
}

impl<T: PartialEq> Store<T> {
    /// A list begins, which will show everything that is there.
    pub fn begin(&mut self) {
        self.unseen = Some(self.objects.keys().cloned().collect());
    }

    /// The list is over: what it has not shown is gone, unless an answer told of it meanwhile.
    pub fn finish(&mut self) -> Vec<(String, T)> {
        let unseen = self.unseen.take().unwrap_or_default();
        let gone = unseen.into_iter().filter_map(|key| {
            let (_, value) = self.objects.remove(&key)?;
            self.unconfirmed.remove(&key);
            Some((key, value))
        });
        let gone: Vec<(String, T)> = gone.collect();
        self.changes += u64::from(!gone.is_empty());
        gone
    }

    /// The watch tells of an object.
    pub fn apply(&mut self, key: &str, revision: Revision, value: T) -> Told<T> {
        self.told = self.told.max(revision);
        self.spare(key);
        self.set(key, revision, value)
    }

    /// The watch tells that an object is there, of which nothing more can be said. What is known of it stands.
    pub fn spare(&mut self, key: &str) {
        if let Some(unseen) = &mut self.unseen {
            unseen.remove(key);
        }
        self.unconfirmed.remove(key);
    }

    /// The watch tells that an object is gone, or has become one that does not matter.
    pub fn remove(&mut self, key: &str, revision: Revision) -> Option<T> {
        self.told = self.told.max(revision);
        let is_newer = self.objects.get(key).is_some_and(|(known, _)| *known > revision);
        if is_newer {
            return None;
        }
        if let Some(unseen) = &mut self.unseen {
            unseen.remove(key);
        }
        self.unconfirmed.remove(key);
        let (_, gone) = self.objects.remove(key)?;
        self.changes += 1;
        Some(gone)
    }

    /// A write of ours was answered with this.
    pub fn note(&mut self, key: &str, revision: Revision, value: T) -> Told<T> {
        if revision <= self.told {
            return Told::Nothing;
        }
        let spared = self.unseen.as_mut().is_some_and(|unseen| unseen.remove(key));
        if spared || !self.objects.contains_key(key) {
            self.unconfirmed.insert(key.to_owned());
        }
        self.set(key, revision, value)
    }

    /// Everything that was there at `revision`, read from the API server itself: what is not among it is gone, unless it
    /// is younger. Whether anything is different.
    pub fn settle(&mut self, revision: Revision, all: Vec<(String, Revision, T)>) -> bool {
        let listed: BTreeSet<&String> = all.iter().map(|(key, _, _)| key).collect();
        let before = self.objects.len();
        self.objects
            .retain(|key, (known, _)| listed.contains(key) || *known > revision);
        self.unconfirmed
            .retain(|key| self.objects.get(key).is_some_and(|(known, _)| *known > revision));
        let mut changed = self.objects.len() != before;
        self.changes += u64::from(changed);
        for (key, revision, value) in all {
            changed |= self.set(&key, revision, value) != Told::Nothing;
        }
        self.told = self.told.max(revision);
        changed
    }

    fn set(&mut self, key: &str, revision: Revision, value: T) -> Told<T> {
        let Some((known, before)) = self.objects.get_mut(key) else {
            self.objects.insert(key.to_owned(), (revision, value));
            self.changes += 1;
            return Told::New(None);
        };
        if *known > revision {
            return Told::Nothing;
        }
        *known = revision;
        if *before == value {
            return Told::Nothing;
        }
        self.changes += 1;
        Told::New(Some(std::mem::replace(before, value)))
    }
}

impl<T> Store<T> {
    /// What is known of one object.
    pub fn get(&self, key: &str) -> Option<&T> {
        self.objects.get(key).map(|(_, value)| value)
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &T)> {
        self.objects.iter().map(|(key, (_, value))| (key, value))
    }

    /// The keys of what an answer of ours has told of, and no watch and no list yet.
    pub fn unconfirmed(&self) -> &BTreeSet<String> {
        &self.unconfirmed
    }

    /// How often anything became different: what was worked out from all of them holds until this grows.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(revision: u64) -> Revision {
        Revision(revision)
    }

    #[test]
    fn the_newer_revision_wins_whichever_way_it_comes() {
        let mut store = Store::default();
        assert_eq!(store.apply("a", at(1), "one"), Told::New(None));
        assert_eq!(store.note("a", at(3), "three"), Told::New(Some("one")));
        assert_eq!(
            store.apply("a", at(2), "two"),
            Told::Nothing,
            "the watch lags behind our write"
        );
        assert_eq!(store.get("a"), Some(&"three"));
        assert_eq!(
            store.apply("a", at(4), "three"),
            Told::Nothing,
            "newer, and the same"
        );
    }

    #[test]
    fn an_answer_that_comes_after_the_deletion_brings_nothing_back() {
        let mut store = Store::default();
        store.apply("a", at(5), "a");
        store.remove("a", at(6));
        assert_eq!(store.note("a", at(5), "a"), Told::Nothing);
        assert!(store.is_empty());
    }

    #[test]
    fn what_a_list_does_not_show_is_gone_unless_it_was_written_meanwhile() {
        let mut store = Store::default();
        store.apply("old", at(1), ());
        store.apply("stays", at(2), ());
        store.begin();
        store.apply("stays", at(2), ());
        store.note("new", at(9), ());
        assert_eq!(store.finish(), [("old".to_owned(), ())]);
        assert_eq!(
            store.iter().map(|(key, ())| key.as_str()).collect::<Vec<_>>(),
            ["new", "stays"]
        );
    }

    #[test]
    fn what_a_list_shows_and_nobody_can_read_stays_as_it_was_known() {
        let mut store = Store::default();
        store.apply("known", at(1), "x");
        store.note("written", at(2), "x");
        store.begin();
        store.spare("known");
        store.spare("written");
        store.spare("never read");
        assert!(store.finish().is_empty());
        assert_eq!(
            (store.get("known"), store.get("written")),
            (Some(&"x"), Some(&"x"))
        );
        assert!(store.unconfirmed().is_empty(), "it was shown");
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn a_consistent_list_removes_what_is_not_in_it_and_no_younger_write() {
        let mut store = Store::default();
        store.apply("ghost", at(1), "x");
        store.note("younger", at(20), "x");
        assert!(store.settle(at(10), vec![("made".to_owned(), at(8), "x")]));
        assert_eq!(
            store.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
            ["made", "younger"]
        );
        assert!(!store.settle(at(11), vec![("made".to_owned(), at(8), "x")]));
    }

    #[test]
    fn whatever_becomes_different_is_counted_and_nothing_else() {
        let mut store = Store::default();
        let mut last = store.changes();
        let mut is_counted =
            |store: &Store<&str>| std::mem::replace(&mut last, store.changes()) != store.changes();
        store.apply("a", at(1), "x");
        assert!(is_counted(&store));
        store.apply("a", at(2), "x");
        store.apply("a", at(1), "y");
        store.remove("b", at(3));
        assert!(!is_counted(&store), "it is as it was");
        store.note("a", at(4), "y");
        assert!(is_counted(&store));
        store.begin();
        store.apply("a", at(4), "y");
        store.finish();
        store.settle(at(5), vec![("a".to_owned(), at(4), "y")]);
        assert!(!is_counted(&store), "the list shows what was known");
        store.settle(at(6), vec![("b".to_owned(), at(6), "z")]);
        assert!(is_counted(&store));
        store.begin();
        store.finish();
        assert!(is_counted(&store), "a list without it");
        store.apply("c", at(7), "z");
        assert!(is_counted(&store));
        store.remove("c", at(8));
        assert!(is_counted(&store));
    }

    #[test]
    fn what_only_an_answer_told_of_is_unconfirmed_until_a_watch_or_a_list_tells() {
        let mut store = Store::default();
        let unconfirmed = |store: &Store<&str>| store.unconfirmed().iter().cloned().collect::<Vec<_>>();
        for (key, revision) in [("watched", 1), ("gone", 2), ("listed", 3), ("ghost", 4)] {
            store.note(key, at(revision), "x");
        }
        store.apply("watched", at(1), "x");
        store.remove("gone", at(6));
        assert_eq!(unconfirmed(&store), ["ghost", "listed"]);
        store.begin();
        store.apply("listed", at(3), "x");
        store.note("during", at(7), "x");
        store.note("watched", at(8), "y");
        store.finish();
        assert_eq!(
            unconfirmed(&store),
            ["during", "watched"],
            "spared by the list for our word alone"
        );
        store.note("younger", at(20), "x");
        store.settle(at(10), vec![("watched".to_owned(), at(8), "y")]);
        assert_eq!(unconfirmed(&store), ["younger"], "what is younger may come yet");
    }
}
