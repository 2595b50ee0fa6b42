//! In which ways a pod can have the labels that it and its volumes ask for.
//!
//! Each required term of the pod goes together with each place where its volumes can be. Where that is more than anybody
//! means, few of them are tried: those that can be had now, then those that are sold at all, so that the pod is told what it
//! waits for. They are chosen once for a class, before its preferences multiply them, and of the others nothing is kept: a
//! preference that only one of the others could meet is given up. Nobody means so many ways to be content and weighs them too.
//! Where volumes can be in more places than that, the places are chosen alike.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::bits;
use super::class::Reader;
use super::space::{ReqId, Space};
use super::template::{Template, offer_columns};
use crate::model::{Offering, Pod, Requirements, Snapshot};

/// More ways to combine node terms and places of volumes than this are not tried: volumes that can be in three zones
/// each make three to the power of their number.
const WAYS_MAX: usize = 64;
/// More places than these are not looked at for those that lead somewhere: two volumes make as many that can each be in 64.
const PLACES_MAX: usize = WAYS_MAX * WAYS_MAX;

/// One way, with what it means.
pub(super) type Way<'p> = (ReqId, Cow<'p, Requirements>);
/// Where all volumes of a pod can be, with what it means.
pub(super) type Place = (ReqId, Requirements);
/// A required term together with a place.
type Pair<'p, 'v> = (&'p Requirements, &'v Place);

/// Where the types of each template are sold, as states of zone and capacity type, whether they can be had now or not.
pub(super) struct Sold(Vec<Vec<Vec<(usize, usize)>>>);

/// How far a way leads.
enum Reach {
    /// To something that is there, or that can be bought now.
    Now(ReqId),
    /// To something that is sold.
    Sold(ReqId),
    /// Nowhere.
    Nowhere,
}

impl Reach {
    /// What leads further comes first.
    fn distance(&self) -> u8 {
        match self {
            Self::Now(_) => 0,
            Self::Sold(_) => 1,
            Self::Nowhere => 2,
        }
    }
}

impl Reader<'_> {
    /// The required terms of a pod. Of too many only those are looked at that make a way, unless pods are counted where they
    /// are met.
    pub(super) fn own_terms<'p>(&mut self, pod: &'p Pod) -> Vec<(ReqId, &'p Requirements)> {
        if pod.node_terms.len() > WAYS_MAX && pod.spreads.is_empty() {
            return Vec::new();
        }
        let terms = pod.node_terms.iter();
        terms
            .filter_map(|term| Some((self.space.id_of(term)?, term)))
            .collect()
    }

    /// Of too many places where volumes can be the ones to try, in the order of their numbers.
    pub(super) fn few_places(&mut self, mut places: Vec<Place>) -> Vec<Place> {
        if places.len() <= WAYS_MAX {
            return places;
        }
        places.truncate(PLACES_MAX);
        places.sort_by_cached_key(|(id, _)| {
            let set = self.space.bits(*id).to_vec();
            self.reach(&set).distance()
        });
        places.truncate(WAYS_MAX);
        places.sort_by_key(|(id, _)| *id);
        places
    }

    /// The ways of a pod with these terms whose volumes can be at these places.
    pub(super) fn ways<'p>(
        &mut self,
        pod: &'p Pod,
        terms: &[(ReqId, &'p Requirements)],
        places: &[Place],
    ) -> Vec<Way<'p>> {
        if pod.node_terms.len().saturating_mul(places.len()) > WAYS_MAX {
            return self.few_of_many_ways(pod, places);
        }
        let mut all = Vec::with_capacity(terms.len() * places.len());
        for &(term, meaning) in terms {
            for (place, around) in places {
                let both = self.space.and(term, *place);
                all.extend(both.map(|both| (both, together(self.space, meaning, around))));
            }
        }
        all
    }

    fn few_of_many_ways<'p>(&mut self, pod: &'p Pod, places: &[Place]) -> Vec<Way<'p>> {
        let terms = pod.node_terms.iter();
        let pairs = terms.flat_map(|term| places.iter().map(move |place| (term, place)));
        let mut known = BTreeSet::new();
        let (mut now, mut sold, mut nowhere) = (Vec::new(), Vec::new(), Vec::new());
        for (at, pair) in pairs.enumerate() {
            let Some(set) = self.set(pair) else { continue };
            match self.reach(&set) {
                Reach::Now(id) if known.insert(id) => now.push((at, pair)),
                Reach::Sold(id) if known.insert(id) => sold.push((at, pair)),
                Reach::Nowhere if nowhere.len() < WAYS_MAX => nowhere.push((at, pair)),
                _ => {}
            }
            if now.len() == WAYS_MAX {
                break;
            }
        }
        sold.truncate(WAYS_MAX - now.len());
        let mut few = [now, sold].concat();
        // So that there is something to name as the reason.
        if few.is_empty() {
            few = nowhere;
        }
        few.sort_by_key(|(at, _)| *at);
        let way = |(_, pair): (usize, Pair<'p, '_>)| {
            let set = self.set(pair)?;
            let (term, (_, around)) = pair;
            Some((self.space.intern(&set), together(self.space, term, around)))
        };
        few.into_iter().filter_map(way).collect()
    }

    /// The bits of a way; nothing comes back if it contradicts itself.
    fn set(&self, (term, (place, _)): Pair<'_, '_>) -> Option<Vec<u64>> {
        let mut set = self.space.wanted(term);
        bits::keep(&mut set, self.space.bits(*place));
        self.space.meet(&set, &set).then_some(set)
    }

    fn reach(&mut self, set: &[u64]) -> Reach {
        let sold = self.is_sold(set);
        if !sold && !self.is_there(set) {
            return Reach::Nowhere;
        }
        let id = self.space.intern(set);
        let mut templates = self.templates.iter();
        let can_be_had = |template: &Template| template.can_meet(self.space, set);
        if !sold || templates.any(can_be_had) || self.is_there(set) {
            Reach::Now(id)
        } else {
            Reach::Sold(id)
        }
    }

    fn is_there(&self, set: &[u64]) -> bool {
        let mut hosts = self.hosts.iter();
        hosts.any(|host| self.space.meet(self.space.bits(host.req), set))
    }

    /// Whether some pool has a type with such labels that is sold where they allow it.
    fn is_sold(&mut self, set: &[u64]) -> bool {
        let space = &*self.space;
        let sold = self
            .sold
            .get_or_insert_with(|| Sold::of(self.snapshot, self.templates, space));
        let (zone, capacity) = offer_columns(space);
        let mut templates = self.templates.iter().zip(&sold.0);
        templates.any(|(template, sold)| {
            let own = space.bits(template.req);
            if !space.meet(own, set) {
                return false;
            }
            let mut both = own.to_vec();
            bits::keep(&mut both, set);
            let (zones, capacity) = (space.part(&both, zone), space.part(&both, capacity));
            let allowed = |(zone, by): &(usize, usize)| bits::has(zones, *zone) && bits::has(capacity, *by);
            let mut kinds = template.types.iter().zip(sold);
            kinds.any(|(kind, sold)| sold.iter().any(allowed) && space.meet(&kind.set, &both))
        })
    }
}

/// What a term and the needs of volumes mean together.
fn together<'p>(space: &Space, term: &'p Requirements, around: &Requirements) -> Cow<'p, Requirements> {
    let meaning = space.meaning(term);
    if around.is_empty() {
        return meaning;
    }
    Cow::Owned(meaning.and(around))
}

impl Sold {
    fn of(snapshot: &Snapshot, templates: &[Template], space: &Space) -> Self {
        let (zone, capacity) = offer_columns(space);
        let states = |offering: &Offering| {
            let by = offering.capacity_type.as_str();
            (
                space.columns()[zone].state_of(&offering.zone),
                space.columns()[capacity].state_of(by),
            )
        };
        let of_template = |template: &Template| {
            let types = &snapshot.pools[template.pool].types;
            let kinds = template.types.iter();
            kinds
                .map(|kind| types[kind.index].offerings.iter().map(states).collect())
                .collect()
        };
        Self(templates.iter().map(of_template).collect())
    }
}
