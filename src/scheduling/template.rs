//! A NodePool and its instance types, as tables.
//!
//! Types are numbered by their cheapest price. For each resource they are sorted by what they have room for, with the least
//! that any from each place on costs, so that a few look-ups say below which price nothing fits. Which types requirements
//! leave, and for how much, is computed and sorted once for each interned set of requirements, and kept once for all that
//! leave the same.

use std::collections::BTreeSet;

use super::bits;
use super::dims::Dims;
use super::limits::{self, Limits};
use super::memo::{Memo, hash};
use super::space::{ReqId, Space};
use crate::api::names::{CAPACITY_TYPE, ZONE};
use crate::model::{HostPort, InstanceType, Pool, host_port};

/// What an offering without a known price counts as, in nano-dollars: 70,000 dollars an hour are more than any machine costs,
/// and as many as 262,143 of them can be added up, which is more than there are pods in a plan.
pub(super) const UNPRICED: u64 = 1 << 46;
/// No offering at all.
pub(super) const UNSOLD: u64 = u64::MAX;

/// A NodePool and its instance types.
#[derive(Debug)]
pub(super) struct Template {
    /// Its place among the pools of the snapshot.
    pub(super) pool: usize,
    /// What the labels of its nodes can be.
    pub(super) req: ReqId,
    /// The number of its set of taints.
    pub(super) taints: u32,
    /// The types, cheapest first.
    pub(super) types: Vec<Kind>,
    /// What its nodes may have together.
    pub(super) limits: Option<Limits>,
    /// The most that any of its types counts against each limit.
    pub(super) counted_most: Vec<i64>,
    /// By how much the type that counts most differs from the one that counts least.
    pub(super) counted_range: Vec<i64>,
    /// Ports that daemons take, and the types on which they do.
    pub(super) daemon_ports: Vec<(Vec<HostPort>, Vec<u64>)>,
    /// The drivers of which types can attach so many volumes only, and how many each can.
    pub(super) attachable: Vec<(String, Vec<u32>)>,
    /// How many values of labels must stay possible: column and number.
    pub(super) min_values: Vec<(usize, u32)>,
    width: usize,
    rooms: Vec<i64>,
    /// Whether daemons take something of some type.
    pub(super) expects_daemons: bool,
    by_room: Vec<Ladder>,
    /// What requirements leave, by their number: the place of a row.
    row_of: Memo,
    rows: Vec<Row>,
    /// The places of rows, by their hash.
    row_like: Memo,
}

/// One instance type.
#[derive(Debug)]
pub(super) struct Kind {
    /// Its place among the types of the pool.
    pub(super) index: usize,
    /// What its labels can be.
    pub(super) set: Vec<u64>,
    /// Where it can be bought now: the states of zone and capacity type, and the price.
    pub(super) offers: Vec<Offer>,
    /// The least that it costs anywhere.
    pub(super) floor: u64,
    /// What it counts against the limits of its pool.
    pub(super) counted: Vec<i64>,
    /// What daemons will take of it.
    pub(super) daemons: Vec<i64>,
}

/// One way to buy a type now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    zone: usize,
    capacity_type: usize,
    pub(super) price: u64,
    /// Its place among the offerings of the type.
    pub(super) index: usize,
}

/// The types sorted by how much of one resource they have room for.
#[derive(Debug)]
struct Ladder {
    amounts: Vec<i64>,
    /// The type at each place.
    kinds: Vec<usize>,
    /// By how many bits an amount is shifted to get its step.
    shift: u32,
    /// Where the amounts of each step begin; one more, where they end.
    steps: Vec<usize>,
    /// The least that any type from each place on costs anywhere; one more, [`UNSOLD`].
    floors: Vec<u64>,
}

/// What certain requirements leave of the types.
#[derive(Debug)]
pub(super) struct Row {
    /// The types.
    pub(super) types: Vec<u64>,
    /// Their prices; [`UNSOLD`] for those that are not left.
    pub(super) prices: Vec<u64>,
    /// Prices and types, cheapest first.
    pub(super) by_price: Vec<(u64, usize)>,
    /// The most that any of them has room for, by resource.
    pub(super) most: Vec<i64>,
    /// The most volumes that any of them attaches, in the order of [`Template::attachable`].
    attaches: Vec<u32>,
}

impl Offer {
    /// Whether it is in one of these zones, as one of these capacity types.
    fn is_among(&self, zones: &[u64], capacity: &[u64]) -> bool {
        bits::has(zones, self.zone) && bits::has(capacity, self.capacity_type)
    }
}

impl Kind {
    /// The cheapest offer that requirements leave, spot before on-demand at the same price.
    pub(super) fn cheapest(&self, space: &Space, columns: (usize, usize), req: ReqId) -> Option<Offer> {
        let (zones, capacity) = (space.states(req, columns.0), space.states(req, columns.1));
        self.offers
            .iter()
            .filter(|offer| offer.is_among(zones, capacity))
            .min_by_key(|offer| offer.price)
            .copied()
    }

    /// Whether it can be had now in one of these zones, as one of these capacity types.
    fn is_sold(&self, zones: &[u64], capacity: &[u64]) -> bool {
        self.offers.iter().any(|offer| offer.is_among(zones, capacity))
    }
}

impl Kind {
    /// The value of a label that a node of this type will have if it is bought where it is cheapest; of several that nothing
    /// decides, the first. Nothing comes back if it will not have the label.
    pub(super) fn planned_state(&self, space: &Space, (req, column): (ReqId, usize)) -> Option<usize> {
        let columns = offer_columns(space);
        let offer = self.cheapest(space, columns, req)?;
        if column == columns.0 {
            return Some(offer.zone);
        }
        if column == columns.1 {
            return Some(offer.capacity_type);
        }
        let both = space
            .part(&self.set, column)
            .iter()
            .zip(space.states(req, column));
        let both: Vec<u64> = both.map(|(own, asked)| own & asked).collect();
        let values = space.columns()[column].values.len();
        bits::iter(&both).find(|state| *state < values)
    }

    /// Adds the zones or capacity types in which it can be had.
    pub(super) fn states_sold(
        &self,
        space: &Space,
        columns: (usize, usize),
        (req, column): (ReqId, usize),
        found: &mut [u64],
    ) {
        let (zones, capacity) = (space.states(req, columns.0), space.states(req, columns.1));
        for offer in &self.offers {
            if offer.is_among(zones, capacity) {
                let state = if column == columns.0 {
                    offer.zone
                } else {
                    offer.capacity_type
                };
                bits::put(found, state);
            }
        }
    }
}

/// The offers of a type that can be had now, in an order in which the first of the cheapest is the one to take.
pub(super) fn offers(space: &Space, columns: (usize, usize), kind: &InstanceType) -> Vec<Offer> {
    let mut sorted: Vec<(usize, &crate::model::Offering)> = kind
        .offerings
        .iter()
        .enumerate()
        .filter(|(_, offering)| offering.is_available())
        .collect();
    sorted.sort_by(|(_, one), (_, two)| {
        (one.capacity_type, &one.zone, one.price).cmp(&(two.capacity_type, &two.zone, two.price))
    });
    let offer = |(index, offering): (usize, &crate::model::Offering)| Offer {
        zone: space.columns()[columns.0].state_of(&offering.zone),
        capacity_type: space.columns()[columns.1].state_of(offering.capacity_type.as_str()),
        price: offering
            .price
            .map_or(UNPRICED, |price| price.nanos().min(UNPRICED)),
        index,
    };
    sorted.into_iter().map(offer).collect()
}

/// The columns of zone and capacity type, which every space has.
pub(super) fn offer_columns(space: &Space) -> (usize, usize) {
    let of = |key: &str| space.column(key).unwrap_or_default();
    (of(ZONE), of(CAPACITY_TYPE))
}

impl Template {
    /// A template with these types, which are sorted by price already.
    pub(super) fn new(at: (usize, &Pool), req: ReqId, taints: u32, types: Vec<Kind>, dims: &Dims) -> Self {
        let (pool, source) = at;
        let mut template = Self {
            pool,
            req,
            taints,
            limits: None,
            counted_most: Vec::new(),
            counted_range: Vec::new(),
            daemon_ports: Vec::new(),
            attachable: attachable(source, &types),
            min_values: Vec::new(),
            width: dims.len(),
            rooms: Vec::new(),
            expects_daemons: false,
            by_room: Vec::new(),
            row_of: Memo::whole(),
            rows: Vec::new(),
            row_like: Memo::whole(),
            types,
        };
        template.set_rooms(source, dims);
        template
    }

    /// Computes what the types have room for beside daemons.
    pub(super) fn set_rooms(&mut self, pool: &Pool, dims: &Dims) {
        self.rooms.clear();
        for kind in &self.types {
            let has = dims.amounts(&pool.types[kind.index].allocatable);
            self.rooms
                .extend(has.iter().zip(&kind.daemons).map(|(has, daemons)| has - daemons));
        }
        self.expects_daemons = self
            .types
            .iter()
            .flat_map(|kind| &kind.daemons)
            .any(|taken| *taken != 0);
        self.by_room = (0..self.width).map(|dim| self.ladder(dim)).collect();
        self.forget_rows();
    }

    fn forget_rows(&mut self) {
        self.rows.clear();
        (self.row_of, self.row_like) = (Memo::whole(), Memo::whole());
    }

    fn ladder(&self, dim: usize) -> Ladder {
        let mut sorted: Vec<(i64, usize)> = (0..self.types.len())
            .map(|kind| (self.rooms[kind * self.width + dim], kind))
            .collect();
        sorted.sort_unstable();
        let mut floors = vec![UNSOLD; sorted.len() + 1];
        for at in (0..sorted.len()).rev() {
            floors[at] = floors[at + 1].min(self.types[sorted[at].1].floor);
        }
        let (amounts, kinds) = sorted.into_iter().unzip();
        Ladder::new(amounts, kinds, floors)
    }

    /// What a type has room for.
    pub(super) fn room(&self, kind: usize) -> &[i64] {
        &self.rooms[kind * self.width..(kind + 1) * self.width]
    }

    /// Whether a type has room for these amounts. Who asks for nothing has room even where daemons take more than there is.
    fn holds(&self, kind: usize, wanted: &[i64]) -> bool {
        let mut pairs = wanted.iter().zip(self.room(kind));
        pairs.all(|(wanted, room)| *wanted <= 0 || wanted <= room)
    }

    /// Leaves only types that have room for these amounts.
    pub(super) fn keep_fitting(&self, types: &mut [u64], wanted: &[i64]) {
        for (ladder, wanted) in self.by_room.iter().zip(wanted) {
            let lacking = &ladder.kinds[..ladder.place(*wanted)];
            for kind in lacking {
                bits::drop(types, *kind);
            }
        }
    }

    /// What any type that has room for these amounts costs at least, as far as one resource after the other says.
    pub(super) fn floor_for(&self, wanted: impl Iterator<Item = i64>) -> u64 {
        let ladders = self.by_room.iter().zip(wanted);
        let floors = ladders.map(|(ladder, wanted)| ladder.floors[ladder.place(wanted)]);
        floors.fold(0, u64::max)
    }

    /// Leaves only types whose daemons take none of these ports.
    pub(super) fn keep_without_ports(&self, types: &mut [u64], ports: &[HostPort]) {
        for (taken, on) in &self.daemon_ports {
            if host_port::conflict(ports, taken).is_some() {
                types.iter_mut().zip(on).for_each(|(word, on)| *word &= !on);
            }
        }
    }

    /// Leaves only types that can attach so many volumes of each driver.
    pub(super) fn keep_attaching(&self, types: &mut [u64], volumes: &[(&str, u32)]) {
        for (driver, wanted) in volumes {
            let limits = self.attachable.iter().filter(|(of, _)| of == driver);
            for (kind, limit) in limits.flat_map(|(_, limits)| limits.iter().enumerate()) {
                if wanted > limit {
                    bits::drop(types, kind);
                }
            }
        }
    }

    /// How many volumes of a driver any type of a row attaches at most.
    pub(super) fn attaches_at_most(&self, row: &Row, driver: &str) -> u32 {
        let at = self.attachable.iter().position(|(of, _)| of == driver);
        let most = at.and_then(|at| row.attaches.get(at));
        most.copied().unwrap_or(u32::MAX)
    }

    /// Leaves only types with which limits hold, where what a claim is planned to be is counted already.
    pub(super) fn keep_allowed(&self, types: &mut [u64], left: &[i64], planned: Option<usize>) {
        let counted = |kind: usize| &self.types[kind].counted[..];
        let planned = planned.map(counted);
        let fits = |counted: &[i64]| limits::allow(left, planned, counted);
        if left.is_empty() || fits(&self.counted_most) {
            return;
        }
        for kind in 0..self.types.len() {
            if bits::has(types, kind) && !fits(counted(kind)) {
                bits::drop(types, kind);
            }
        }
    }

    /// Drops types that are cheaper than the planned one, where it is not sure to be the cheapest: as one of those a claim
    /// would leave others too little of the limits.
    pub(super) fn drop_cheaper(&self, types: &mut [u64], req: ReqId, (kind, price): (usize, u64)) {
        if self.limits.is_none() || self.min_values.is_empty() {
            return;
        }
        let sold = self.known_row(req).by_price.iter();
        for (_, cheaper) in sold.take_while(|sold| **sold < (price, kind)) {
            bits::drop(types, *cheaper);
        }
    }

    /// Whether any type can be had now where the pool and these requirements together allow it, and has labels that meet both.
    pub(super) fn can_meet(&self, space: &Space, wanted: &[u64]) -> bool {
        let columns = offer_columns(space);
        let mut both = space.bits(self.req).to_vec();
        bits::keep(&mut both, wanted);
        let (zones, capacity) = (space.part(&both, columns.0), space.part(&both, columns.1));
        let has = |kind: &Kind| kind.is_sold(zones, capacity) && space.meet(&kind.set, &both);
        space.meet(&both, &both) && self.types.iter().any(has)
    }

    /// What requirements leave of the types.
    pub(super) fn row(&mut self, space: &Space, req: ReqId) -> &Row {
        let at = match self.row_of.get(u64::from(req)) {
            Some(at) => at,
            None => self.keep_row(space, req),
        };
        &self.rows[at as usize]
    }

    /// Computes a row; where there is one like it already, that one serves.
    fn keep_row(&mut self, space: &Space, req: ReqId) -> u32 {
        let row = self.compute_row(space, req);
        let next = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let words = row.types.iter().chain(&row.prices).copied();
        let rows = &self.rows;
        let at = self
            .row_like
            .number(hash(words), next, |at| rows[at as usize].says(&row));
        if at == next {
            self.rows.push(row);
        }
        self.row_of.put(u64::from(req), at);
        at
    }

    /// How many rows are kept.
    #[cfg(test)]
    pub(super) fn rows_kept(&self) -> usize {
        self.rows.len()
    }

    /// A row that was computed before.
    pub(super) fn known_row(&self, req: ReqId) -> &Row {
        static NONE: Row = Row {
            types: Vec::new(),
            prices: Vec::new(),
            by_price: Vec::new(),
            most: Vec::new(),
            attaches: Vec::new(),
        };
        let at = self.row_of.get(u64::from(req));
        at.and_then(|at| self.rows.get(at as usize)).unwrap_or(&NONE)
    }

    fn compute_row(&self, space: &Space, req: ReqId) -> Row {
        let columns = offer_columns(space);
        let mut row = Row {
            types: vec![0; bits::words(self.types.len())],
            prices: vec![UNSOLD; self.types.len()],
            by_price: Vec::new(),
            most: vec![0; self.width],
            attaches: vec![0; self.attachable.len()],
        };
        for (at, kind) in self.types.iter().enumerate() {
            if !space.meet(&kind.set, space.bits(req)) {
                continue;
            }
            if let Some(offer) = kind.cheapest(space, columns, req) {
                bits::put(&mut row.types, at);
                row.prices[at] = offer.price;
                row.by_price.push((offer.price, at));
                let room = self.room(at);
                row.most
                    .iter_mut()
                    .zip(room)
                    .for_each(|(most, room)| *most = (*most).max(*room));
                for (most, (_, limits)) in row.attaches.iter_mut().zip(&self.attachable) {
                    *most = (*most).max(limits[at]);
                }
            }
        }
        row.by_price.sort_unstable();
        row
    }

    /// Whether a type still is what certain amounts cost at these requirements: it is left, for this price, and has room.
    pub(super) fn still_is(&self, row: &Row, (kind, price): (usize, u64), wanted: &[i64]) -> bool {
        row.prices[kind] == price && self.holds(kind, wanted)
    }

    /// The cheapest type of a row that costs no less than `least`, has room for these amounts and is allowed; of several
    /// the one with the lowest number. What is cheaper than `least` is passed over by one search.
    pub(super) fn cheapest(
        &self,
        row: &Row,
        wanted: &[i64],
        least: u64,
        allowed: impl Fn(usize) -> bool,
    ) -> Option<(usize, u64)> {
        let begin = row.by_price.partition_point(|(price, _)| *price < least);
        let mut dearer = row.by_price[begin..].iter();
        let found = dearer.find(|(_, kind)| self.holds(*kind, wanted) && allowed(*kind));
        found.map(|(price, kind)| (*kind, *price))
    }
}

impl Row {
    /// Whether another says the same: the rest of it follows from these.
    fn says(&self, other: &Self) -> bool {
        self.types == other.types && self.prices == other.prices
    }
}

/// The limits of drivers that any of these types of a pool has, by type.
fn attachable(pool: &Pool, types: &[Kind]) -> Vec<(String, Vec<u32>)> {
    let limits = |kind: &Kind| &pool.types[kind.index].volume_limits;
    let drivers: BTreeSet<&String> = types.iter().flat_map(|kind| limits(kind).keys()).collect();
    let of = |driver: &String, kind: &Kind| limits(kind).get(driver).copied().unwrap_or(u32::MAX);
    let each = |driver: &String| types.iter().map(|kind| of(driver, kind)).collect();
    drivers
        .into_iter()
        .map(|driver| (driver.clone(), each(driver)))
        .collect()
}

impl Ladder {
    /// How many bits number the steps: with 256 of them hardly more than one type of a catalogue is on one.
    const STEP_BITS: u32 = 8;

    fn new(amounts: Vec<i64>, kinds: Vec<usize>, floors: Vec<u64>) -> Self {
        let most = amounts.last().copied().unwrap_or_default().max(0);
        let shift = (i64::BITS - most.leading_zeros()).saturating_sub(Self::STEP_BITS);
        let below = |step: i64| amounts.partition_point(|amount| *amount < step << shift);
        Self {
            steps: (0..=most >> shift).map(below).chain([amounts.len()]).collect(),
            shift,
            amounts,
            kinds,
            floors,
        }
    }

    /// The place of the first type that has room for an amount. Who asks for nothing fits everywhere.
    fn place(&self, wanted: i64) -> usize {
        if wanted <= 0 {
            return 0;
        }
        let step = usize::try_from(wanted >> self.shift).unwrap_or(usize::MAX - 1);
        let (Some(begin), Some(end)) = (self.steps.get(step), self.steps.get(step + 1)) else {
            return self.amounts.len();
        };
        begin + self.amounts[*begin..*end].partition_point(|amount| *amount < wanted)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn steps_find_the_first_type_with_enough(
            amounts in prop::collection::vec(prop_oneof![-5_i64..2000, 0_i64..(1 << 45)], 0..40),
            wanted in prop_oneof![-5_i64..2000, 0_i64..(1 << 45), Just(i64::MAX)],
        ) {
            let mut amounts = amounts;
            amounts.sort_unstable();
            let ladder = Ladder::new(amounts.clone(), Vec::new(), Vec::new());
            for wanted in amounts.iter().copied().chain([wanted]) {
                let first = amounts.partition_point(|amount| *amount < wanted);
                prop_assert_eq!(ladder.place(wanted), if wanted <= 0 { 0 } else { first });
            }
        }
    }
}
