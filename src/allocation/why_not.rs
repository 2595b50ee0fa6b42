//! Why nothing can be bought, for people and for whoever decides whether to wait.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;

use super::limits::OverLimit;
use crate::model::{InstanceType, Unsold, Values};
use crate::resources::{Shortage, quantity_of};

/// Every offering that was passed over, summed up by what stood in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhyNot {
    /// Types and offerings that do not have a label as it is wanted, by label: what is wanted, and how many.
    pub labels: BTreeMap<String, (Values, usize)>,
    /// The type that comes closest to having enough, where labels are right.
    pub too_small: Option<Missing>,
    /// Offerings that are not sold for this class.
    pub unsold: BTreeMap<Unsold, usize>,
    /// Offerings that are withheld, by reason: how many, and until when the first of them is.
    pub withheld: BTreeMap<String, (usize, Timestamp)>,
    /// Zones in which something fits and no subnet has an address left.
    pub no_address: BTreeSet<String>,
    /// Types with which the pool would have more than it may, by resource: the nearest of them, and how many.
    pub over_limit: BTreeMap<String, (OverLimit, usize)>,
}

/// How much the largest type that comes into question lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The type.
    pub instance_type: String,
    /// What it lacks.
    pub shortage: Shortage,
    /// How many types are too small.
    pub types: usize,
}

/// Whether waiting can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hope {
    /// Not before somebody changes the claim, the class or what is sold.
    None,
    /// A hold ends then.
    At(Timestamp),
    /// When others give something back.
    Sometime,
}

/// What stands in the way of one type or offering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    Label { key: String, wanted: Values },
    TooSmall(Shortage),
    Limit(OverLimit),
    Unsold(Unsold),
    Withheld { until: Timestamp, reason: String },
    NoAddress(String),
}

impl WhyNot {
    pub(super) fn add(&mut self, instance_type: &InstanceType, obstacle: Obstacle) {
        match obstacle {
            Obstacle::Label { key, wanted } => self.labels.entry(key).or_insert((wanted, 0)).1 += 1,
            Obstacle::TooSmall(shortage) => self.add_too_small(&instance_type.name, shortage),
            Obstacle::Limit(over) => self.add_over_limit(over),
            Obstacle::Unsold(unsold) => *self.unsold.entry(unsold).or_default() += 1,
            Obstacle::Withheld { until, reason } => {
                let (count, first) = self.withheld.entry(reason).or_insert((0, until));
                *count += 1;
                *first = until.min(*first);
            }
            Obstacle::NoAddress(zone) => drop(self.no_address.insert(zone)),
        }
    }

    fn add_over_limit(&mut self, over: OverLimit) {
        let known = self.over_limit.entry(over.resource.clone());
        let (nearest, count) = known.or_insert_with(|| (over.clone(), 0));
        *count += 1;
        if over.amount < nearest.amount {
            *nearest = over;
        }
    }

    fn add_too_small(&mut self, instance_type: &str, shortage: Shortage) {
        let types = self.too_small.as_ref().map_or(0, |missing| missing.types) + 1;
        let this = Missing {
            instance_type: instance_type.to_owned(),
            shortage,
            types,
        };
        self.too_small = Some(match self.too_small.take() {
            Some(nearest) if nearest.is_nearer_than(&this) => Missing { types, ..nearest },
            _ => this,
        });
    }

    /// Whether waiting can help, and how long: what fits must be withheld, without an address, or over a limit.
    pub fn hope(&self) -> Hope {
        if !self.no_address.is_empty() || !self.over_limit.is_empty() {
            return Hope::Sometime;
        }
        let first = self.withheld.values().map(|(_, until)| *until).min();
        first.map_or(Hope::None, Hope::At)
    }

    /// What stood in the way, the nearest miss first.
    fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        for (reason, (count, until)) in &self.withheld {
            said.push(format!(
                "{count} offerings are withheld ({reason}), the first until {until}"
            ));
        }
        if !self.no_address.is_empty() {
            let zones: Vec<&str> = self.no_address.iter().map(String::as_str).collect();
            said.push(format!("no subnet has an address left in {}", zones.join(", ")));
        }
        for (over, count) in self.over_limit.values() {
            said.push(format!("{over} ({count} types)"));
        }
        for (unsold, count) in &self.unsold {
            said.push(format!("{unsold} ({count} offerings)"));
        }
        said.extend(self.too_small.as_ref().map(ToString::to_string));
        for (key, (wanted, count)) in &self.labels {
            said.push(format!("label {key} must be {wanted}, which {count} are not"));
        }
        said
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.sentences();
        if said.is_empty() {
            return f.write_str("nothing is sold");
        }
        write!(f, "nothing that is sold fits: {}", said.join("; "))
    }
}

impl std::error::Error for WhyNot {}

impl Missing {
    /// Whether it lacks a smaller share of what is wanted; names settle a tie.
    fn is_nearer_than(&self, other: &Self) -> bool {
        let lacks = |it: &Self| i128::from(it.shortage.wanted) - i128::from(it.shortage.available);
        let wanted = |it: &Self| i128::from(it.shortage.wanted);
        let (this, that) = (lacks(self) * wanted(other), lacks(other) * wanted(self));
        let name = |it: &Self| (it.instance_type.clone(), it.shortage.resource.clone());
        (this, name(self)) < (that, name(other))
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage {
            resource,
            wanted,
            available,
        } = &self.shortage;
        write!(
            f,
            "{} types are too small, of which {} comes closest with {} of {} {resource}",
            self.types,
            self.instance_type,
            quantity_of(resource, *available),
            quantity_of(resource, *wanted),
        )
    }
}
