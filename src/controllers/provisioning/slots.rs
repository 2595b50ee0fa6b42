//! What is to be said about each of many things, the first that was named first, and about none of them more than once:
//! what is newer takes the place of what it replaces. Pure.

use std::collections::BTreeMap;

/// One slot for each key.
#[derive(Debug)]
pub(super) struct Slots<T> {
    /// The turn of each key.
    turns: BTreeMap<String, u64>,
    /// What is in the slots, by turn.
    filled: BTreeMap<u64, (String, T)>,
    next: u64,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            turns: BTreeMap::new(),
            filled: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<T> Slots<T> {
    /// Fills the slot of a key, whose turn it keeps if it had one.
    pub(super) fn put(&mut self, key: &str, what: T) {
        let turn = *self.turns.entry(key.to_owned()).or_insert(self.next);
        self.next += 1;
        self.filled.insert(turn, (key.to_owned(), what));
    }

    /// Empties the slot whose turn it is.
    pub(super) fn take(&mut self) -> Option<T> {
        let (_, (key, what)) = self.filled.pop_first()?;
        self.turns.remove(&key);
        Some(what)
    }

    /// Empties the slot of a key.
    pub(super) fn remove(&mut self, key: &str) {
        if let Some(turn) = self.turns.remove(key) {
            self.filled.remove(&turn);
        }
    }

    /// Empties the slots of all others.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.filled.retain(|_, (key, _)| is_kept(key));
        self.turns.retain(|key, _| is_kept(key));
    }

    /// Whether the slot of a key is filled.
    pub(super) fn has(&self, key: &str) -> bool {
        self.turns.contains_key(key)
    }

    /// How many are filled.
    pub(super) fn len(&self) -> usize {
        self.filled.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_newer_replaces_what_was_to_be_said_and_keeps_its_turn() {
        let mut slots = Slots::default();
        for (key, what) in [("b", 1), ("a", 2), ("c", 3), ("b", 4)] {
            slots.put(key, what);
        }
        assert_eq!((slots.len(), slots.take()), (3, Some(4)));
        slots.put("b", 5);
        let rest: Vec<i32> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(rest, [2, 3, 5]);
    }

    #[test]
    fn nothing_is_left_of_what_was_taken_removed_or_not_kept() {
        let mut slots = Slots::default();
        for key in ["a", "b", "c", "d"] {
            slots.put(key, key);
        }
        slots.take();
        slots.remove("b");
        slots.remove("b");
        slots.keep(|key| key == "d");
        assert_eq!((slots.turns.len(), slots.filled.len()), (1, 1));
        assert!(slots.has("d") && !slots.has("c"));
    }
}
