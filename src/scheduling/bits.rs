//! Sets of small numbers as words of 64 bits.

/// How many words hold this many bits.
pub(super) fn words(bits: usize) -> usize {
    bits.div_ceil(64)
}

/// A set that holds every number below `bits`.
pub(super) fn full(bits: usize) -> Vec<u64> {
    let mut all = vec![u64::MAX; words(bits)];
    if let Some(last) = all.last_mut()
        && !bits.is_multiple_of(64)
    {
        *last = (1 << (bits % 64)) - 1;
    }
    all
}

/// Whether a number is in a set.
pub(super) fn has(set: &[u64], bit: usize) -> bool {
    set.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
}

/// Puts a number into a set.
pub(super) fn put(set: &mut [u64], bit: usize) {
    set[bit / 64] |= 1 << (bit % 64);
}

/// Puts a number into a set that grows as needed.
pub(super) fn put_growing(set: &mut Vec<u64>, bit: usize) {
    if set.len() <= bit / 64 {
        set.resize(bit / 64 + 1, 0);
    }
    put(set, bit);
}

/// Takes a number out of a set.
pub(super) fn drop(set: &mut [u64], bit: usize) {
    set[bit / 64] &= !(1 << (bit % 64));
}

/// Keeps in `set` what is in `other` as well.
pub(super) fn keep(set: &mut [u64], other: &[u64]) {
    set.iter_mut().zip(other).for_each(|(word, other)| *word &= other);
}

/// Whether a set is empty.
pub(super) fn is_empty(set: &[u64]) -> bool {
    set.iter().all(|word| *word == 0)
}

/// How many numbers are in a set.
pub(super) fn count(set: &[u64]) -> u32 {
    set.iter().map(|word| word.count_ones()).sum()
}

/// The numbers in a set, in order.
pub(super) fn iter(set: &[u64]) -> impl Iterator<Item = usize> {
    set.iter().enumerate().flat_map(|(at, word)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                at * 64 + bit
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_into_it() {
        let mut set = vec![0; words(130)];
        for bit in [0, 63, 64, 129] {
            put(&mut set, bit);
        }
        assert_eq!(iter(&set).collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(has(&set, 129) && !has(&set, 128) && !has(&set, 1000));
        put(&mut set, 77);
        drop(&mut set, 77);
        assert!(!has(&set, 77));
        let mut low = vec![0; words(130)];
        low[0] = u64::MAX;
        keep(&mut set, &low);
        assert_eq!((count(&set), is_empty(&set)), (2, false));
        assert_eq!(count(&full(130)), 130);
    }
}
