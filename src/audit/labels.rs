//! The labels of a place: those of a node that is there, or all that a claim leaves open.

use std::collections::{BTreeMap, BTreeSet};

use super::meaning::{allows, telling_states};
use crate::api::names::{CAPACITY_TYPE, HOSTNAME, INITIALIZED, REGISTERED, ZONE, current_label};
use crate::model::pod::NODE_NAME;
use crate::model::{InstanceType, Node, Offering, Pool, Requirements, Values};
use crate::scheduling::NewClaim;

/// Labels that a new node gets before pods arrive.
pub(super) const GIVEN: [&str; 2] = [REGISTERED, INITIALIZED];

/// The labels of a place.
pub(super) enum Labels<'a> {
    /// They are these.
    Known(BTreeMap<String, String>),
    /// They are what one of the claim's types, bought in one of the ways that the claim allows, will have.
    Planned {
        name: String,
        claim: &'a NewClaim,
        pool: &'a Pool,
    },
}

/// Where a place is by some label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Position {
    /// At this value.
    At(String),
    /// Nowhere: it does not have the label.
    Nowhere,
    /// At one of several values, which launch will decide.
    Open,
}

/// Whether an offering can be bought for a claim.
pub(super) fn for_sale(claim: &NewClaim, offering: &Offering) -> bool {
    let allowed = |key: &str, value: &str| {
        let asked = claim.requirements.get(key);
        asked.is_none_or(|values| allows(values, Some(value)))
    };
    offering.is_available()
        && allowed(ZONE, &offering.zone)
        && allowed(CAPACITY_TYPE, offering.capacity_type.as_str())
}

impl<'a> Labels<'a> {
    /// Those of a node, older names of labels by their current ones.
    pub(super) fn of_node(node: &Node) -> Self {
        let mut known = BTreeMap::new();
        let (current, older): (Vec<_>, Vec<_>) = node
            .labels
            .iter()
            .partition(|(key, _)| current_label(key) == key.as_str());
        for (key, value) in older.into_iter().chain(current) {
            known.insert(current_label(key).to_owned(), value.clone());
        }
        known
            .entry(HOSTNAME.to_owned())
            .or_insert_with(|| node.name.clone());
        known.insert(NODE_NAME.to_owned(), node.name.clone());
        Self::Known(known)
    }

    /// Those of a claim.
    pub(super) fn of_claim(name: String, claim: &'a NewClaim, pool: &'a Pool) -> Self {
        Self::Planned { name, claim, pool }
    }

    /// Whether the labels meet a term, whatever launch chooses.
    pub(super) fn meet(&self, term: &Requirements) -> bool {
        term.iter().all(|(key, wanted)| {
            let states = self.states(key, Some(wanted));
            states.iter().all(|state| allows(wanted, state.as_deref()))
        })
    }

    /// Whether the labels may come to meet a term, but for labels that are `given` to it in any case.
    pub(super) fn may_meet(&self, term: &Requirements, given: &[&str]) -> bool {
        let mut asked = term.iter().filter(|(key, _)| !given.contains(&key.as_str()));
        asked.all(|(key, wanted)| {
            let states = self.states(key, Some(wanted));
            states.iter().any(|state| allows(wanted, state.as_deref()))
        })
    }

    /// Where the place is by a label.
    pub(super) fn position(&self, key: &str) -> Position {
        let mut states = self.states(key, None).into_iter();
        match (states.next(), states.next()) {
            (Some(Some(value)), None) => Position::At(value),
            (Some(None) | None, None) => Position::Nowhere,
            _ => Position::Open,
        }
    }

    /// What a label can be, as far as that tells anything beside what is `asked` for.
    fn states(&self, key: &str, asked: Option<&Values>) -> BTreeSet<Option<String>> {
        match self {
            Self::Known(labels) => [labels.get(key).cloned()].into(),
            Self::Planned { name, claim, pool } => match key {
                HOSTNAME | NODE_NAME => [Some(name.clone())].into(),
                ZONE | CAPACITY_TYPE => sold(claim, pool, key),
                _ => planned(claim, pool, key, asked),
            },
        }
    }
}

/// The types that a claim names.
pub(super) fn options<'a>(claim: &'a NewClaim, pool: &'a Pool) -> impl Iterator<Item = &'a InstanceType> {
    claim
        .options
        .iter()
        .filter_map(|option| pool.types.get(*option as usize))
}

fn sold(claim: &NewClaim, pool: &Pool, key: &str) -> BTreeSet<Option<String>> {
    let offerings = options(claim, pool).flat_map(|kind| &kind.offerings);
    let mut all: BTreeSet<&str> = BTreeSet::new();
    for offering in offerings.filter(|offering| for_sale(claim, offering)) {
        all.insert(if key == ZONE {
            &offering.zone
        } else {
            offering.capacity_type.as_str()
        });
    }
    all.into_iter().map(|value| Some(value.to_owned())).collect()
}

/// A label that the type does not have is absent, unless the pool gives it to all its nodes, or every new node gets it: what
/// a pod asks for makes nobody write it.
fn planned(claim: &NewClaim, pool: &Pool, key: &str, asked: Option<&Values>) -> BTreeSet<Option<String>> {
    let claimed = claim.requirements.get(key);
    let given = pool.requirements.get(key).is_some() || GIVEN.contains(&key);
    let kinds: BTreeSet<Option<&Values>> = options(claim, pool)
        .map(|kind| kind.requirements.get(key))
        .collect();
    let mentioned = kinds.iter().copied().flatten().chain(claimed).chain(asked);
    let telling = telling_states(mentioned);
    let mut all = BTreeSet::new();
    for kind in kinds {
        let may = |state: &&Option<String>| {
            let allowed =
                |values: Option<&Values>| values.is_none_or(|values| allows(values, state.as_deref()));
            allowed(kind) && allowed(claimed)
        };
        if kind.is_none() && !(given && claimed.is_some()) {
            all.insert(None);
        } else {
            all.extend(telling.iter().filter(may).cloned());
        }
    }
    all
}
