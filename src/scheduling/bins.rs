//! Places that can take pods, as columns of numbers: nodes first, then new claims.
//!
//! Bins come in blocks of 64. For each block the most that any of its bins has left is known, as an upper bound that is
//! mended when a look into the block finds it too high, so most blocks are passed over by one comparison. Within a block
//! one resource is compared after the other, the next only where there was enough of those before.

use super::dims::fit;
use super::space::ReqId;
use crate::model::HostPort;

/// How many bins share one upper bound: one word of a set of bins.
pub(super) const BLOCK: usize = 64;

/// Bins.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    width: usize,
    /// What the labels of each can be.
    pub(super) req: Vec<ReqId>,
    /// The number of its set of taints.
    pub(super) taints: Vec<u32>,
    /// The ports that are taken.
    pub(super) ports: Vec<Vec<HostPort>>,
    slack: Room,
    reach: Room,
}

/// Which room is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// What is left without paying more.
    Slack,
    /// What would be left if the largest type that is still possible were bought.
    Reach,
}

/// What is left of each resource, for each bin and at most for each block. Where daemons take more than there is nothing is
/// left, and not less: whoever asks for nothing has room there, as for the kube-scheduler.
#[derive(Clone, Debug, Default)]
struct Room {
    /// By block, then resource, then bin; where a block has no bin yet, less than anybody asks for.
    of_bin: Vec<[i64; BLOCK]>,
    of_block: Vec<i64>,
    /// Whether the bound of each block may be too high.
    loose: Vec<bool>,
}

impl Bins {
    /// No bins.
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            req: Vec::new(),
            taints: Vec::new(),
            ports: Vec::new(),
            slack: Room::default(),
            reach: Room::default(),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.req.len()
    }

    /// Adds one.
    pub(super) fn push(&mut self, req: ReqId, taints: u32, slack: &[i64], reach: &[i64]) {
        let bin = self.len();
        self.req.push(req);
        self.taints.push(taints);
        self.ports.push(Vec::new());
        for (room, left) in [(&mut self.slack, slack), (&mut self.reach, reach)] {
            if bin.is_multiple_of(BLOCK) {
                room.of_bin.extend(left.iter().map(|_| [i64::MIN; BLOCK]));
                room.of_block.extend(left.iter().map(|left| (*left).max(0)));
                room.loose.push(false);
            }
            room.put(self.width, bin, left);
        }
    }

    /// Says what is left of one.
    pub(super) fn set(&mut self, bin: usize, slack: &[i64], reach: &[i64]) {
        let width = self.width;
        for (room, left) in [(&mut self.slack, slack), (&mut self.reach, reach)] {
            room.loose[bin / BLOCK] = true;
            room.put(width, bin, left);
        }
    }

    fn room(&self, left: Left) -> &Room {
        match left {
            Left::Slack => &self.slack,
            Left::Reach => &self.reach,
        }
    }

    /// What is left of one.
    pub(super) fn left(&self, left: Left, bin: usize) -> impl Iterator<Item = i64> {
        let columns = self.room(left).columns(self.width, bin / BLOCK).iter();
        columns.map(move |column| column[bin % BLOCK])
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        self.len().div_ceil(BLOCK)
    }

    /// Whether some bin of a block may have room for these amounts.
    pub(super) fn block_may_fit(&self, left: Left, block: usize, wanted: &[i64]) -> bool {
        fit(
            wanted,
            &self.room(left).of_block[block * self.width..(block + 1) * self.width],
        )
    }

    /// Those of a block's bins in `among` that have room for these amounts.
    pub(super) fn fitting(&self, left: Left, block: usize, among: u64, wanted: &[i64]) -> u64 {
        let mut found = among;
        for (column, wanted) in self.room(left).columns(self.width, block).iter().zip(wanted) {
            let mut rest = found;
            while rest != 0 {
                let at = rest.trailing_zeros() as usize % BLOCK;
                found &= !(u64::from(column[at] < *wanted) << at);
                rest &= rest - 1;
            }
        }
        found
    }

    /// Makes the upper bound of a block exact.
    pub(super) fn mend(&mut self, left: Left, block: usize) {
        let width = self.width;
        let room = match left {
            Left::Slack => &mut self.slack,
            Left::Reach => &mut self.reach,
        };
        if !std::mem::replace(&mut room.loose[block], false) {
            return;
        }
        let most = room.of_bin[block * width..(block + 1) * width].iter();
        let most = most.map(|column| column.iter().fold(i64::MIN, |most, left| most.max(*left)));
        let bounds = &mut room.of_block[block * width..(block + 1) * width];
        bounds
            .iter_mut()
            .zip(most)
            .for_each(|(bound, most)| *bound = most);
    }
}

impl Room {
    fn columns(&self, width: usize, block: usize) -> &[[i64; BLOCK]] {
        &self.of_bin[block * width..(block + 1) * width]
    }

    /// Writes what is left of a bin; a block has at least as much.
    fn put(&mut self, width: usize, bin: usize, left: &[i64]) {
        let of_block = bin / BLOCK * width..(bin / BLOCK + 1) * width;
        let columns = self.of_bin[of_block.clone()].iter_mut();
        for ((column, most), left) in columns.zip(&mut self.of_block[of_block]).zip(left) {
            let left = (*left).max(0);
            column[bin % BLOCK] = left;
            *most = (*most).max(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_knows_at_most_how_much_its_bins_have() {
        let mut bins = Bins::new(1);
        (0..70).for_each(|bin| bins.push(0, 0, &[bin], &[bin]));
        assert_eq!(bins.blocks(), 2);
        assert!(bins.block_may_fit(Left::Slack, 0, &[63]) && !bins.block_may_fit(Left::Slack, 0, &[64]));
        bins.set(63, &[0], &[0]);
        assert!(
            bins.block_may_fit(Left::Slack, 0, &[63]),
            "an upper bound, not exact"
        );
        bins.mend(Left::Slack, 0);
        assert!(!bins.block_may_fit(Left::Slack, 0, &[63]));
        bins.set(2, &[99], &[99]);
        assert!(bins.block_may_fit(Left::Reach, 0, &[99]));
    }

    #[test]
    fn whoever_asks_for_nothing_of_what_is_overdrawn_has_room_where_there_is_a_bin() {
        let mut bins = Bins::new(2);
        bins.push(0, 0, &[-5, 9], &[-5, 9]);
        bins.push(0, 0, &[3, 9], &[3, 9]);
        bins.set(1, &[-1, 2], &[-1, 2]);
        bins.mend(Left::Slack, 0);
        for (wanted, there) in [([0, 2], 0b11), ([0, 3], 0b01), ([1, 2], 0b00)] {
            let found = bins.fitting(Left::Slack, 0, u64::MAX, &wanted);
            assert_eq!(found, there, "{wanted:?}");
            assert_eq!(
                bins.block_may_fit(Left::Slack, 0, &wanted),
                there != 0,
                "{wanted:?}"
            );
        }
    }
}
