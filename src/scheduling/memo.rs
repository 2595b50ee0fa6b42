//! What was worked out for a number, so that it need not be again.
//!
//! A table of open addresses. A look-up is a multiplication and mostly one comparison, and memory grows with what is held,
//! whatever the numbers are: rows that reach up to the largest number would take the square of how many there are.

/// No key: two numbers of interned things, of which none has the highest number, make none like this.
const NOTHING: u64 = u64::MAX;
/// Odd, with its bits evenly spread: the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const SLOTS_MIN: usize = 64;

/// Numbers by keys.
#[derive(Debug)]
pub(super) struct Memo {
    /// A power of two of them, or none; at least every other one is free.
    slots: Vec<(u64, u32)>,
    held: usize,
    most: usize,
}

impl Memo {
    /// Keeps everything.
    pub(super) fn whole() -> Self {
        Self::of(usize::MAX)
    }

    /// Forgets everything once it would hold more than this, so nobody may rely on finding what was put.
    pub(super) fn of(most: usize) -> Self {
        Self {
            slots: Vec::new(),
            held: 0,
            most,
        }
    }

    /// What was put for a key.
    pub(super) fn get(&self, key: u64) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let (known, value) = self.slots[self.place(key)];
        (known == key).then_some(value)
    }

    /// Keeps a value for a key.
    pub(super) fn put(&mut self, key: u64, value: u32) {
        if self.held >= self.most {
            self.slots.fill((NOTHING, 0));
            self.held = 0;
        }
        if 2 * (self.held + 1) > self.slots.len() {
            self.grow();
        }
        let at = self.place(key);
        self.held += usize::from(self.slots[at].0 == NOTHING);
        self.slots[at] = (key, value);
    }

    /// The number of a thing with this hash that is known; `next`, which is its number from then on, if none is.
    pub(super) fn number(&mut self, hash: u64, next: u32, is_it: impl Fn(u32) -> bool) -> u32 {
        // Different things may have the same hash: the next keys are tried for the others.
        let mut key = hash >> 1;
        while let Some(number) = self.get(key) {
            if is_it(number) {
                return number;
            }
            key = (key + 1) & (NOTHING >> 1);
        }
        self.put(key, next);
        next
    }

    /// How many are held.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.held
    }

    /// Where a key is, or would be.
    fn place(&self, key: u64) -> usize {
        let bits = self.slots.len().trailing_zeros();
        let spread = key.wrapping_mul(SPREAD).wrapping_shr(u64::BITS - bits);
        let mut at = usize::try_from(spread).unwrap_or_default();
        while self.slots[at].0 != key && self.slots[at].0 != NOTHING {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(SLOTS_MIN);
        let before = std::mem::replace(&mut self.slots, vec![(NOTHING, 0); slots]);
        for (key, value) in before.into_iter().filter(|(key, _)| *key != NOTHING) {
            let at = self.place(key);
            self.slots[at] = (key, value);
        }
    }
}

/// A hash of words, to tell different lists of them apart.
pub(super) fn hash(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(SPREAD))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_is_found(all in prop::collection::vec((0_u64..400, 0_u32..9), 0..600)) {
            let (mut memo, mut naive) = (Memo::whole(), BTreeMap::new());
            for (key, value) in all {
                memo.put(key << 32 | key, value);
                naive.insert(key, value);
            }
            prop_assert_eq!(memo.len(), naive.len());
            for key in 0..400 {
                prop_assert_eq!(memo.get(key << 32 | key), naive.get(&key).copied());
            }
        }

        #[test]
        fn equal_things_have_one_number_whatever_they_hash_to(all in prop::collection::vec(0_u32..40, 0..200)) {
            let (mut memo, mut known) = (Memo::whole(), Vec::new());
            for thing in all {
                let next = u32::try_from(known.len()).unwrap();
                let number = memo.number(u64::from(thing % 3), next, |at| known[at as usize] == thing);
                if number == next {
                    known.push(thing);
                }
                prop_assert_eq!(known[number as usize], thing);
            }
            let mut once = known.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), known.len());
        }
    }

    #[test]
    fn a_memo_never_holds_more_than_it_may() {
        let mut memo = Memo::of(1000);
        for key in 0..10_000 {
            memo.put(key, 7);
            assert!(memo.len() <= 1000 && memo.slots.len() <= 2048);
            assert_eq!(memo.get(key), Some(7));
        }
    }
}
