//! Amounts of resources by name, as decisions compare them.
//!
//! Processors count in thousandths and everything else in whole units, both rounded up, so that a sum never claims less
//! than what was asked for.

use std::collections::BTreeMap;
use std::collections::btree_map;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;

use crate::quantity::{Notation, Quantity, QuantityError, WrittenQuantity};

/// Processors.
pub const CPU: &str = "cpu";
/// Memory, in bytes.
pub const MEMORY: &str = "memory";
/// Scratch space, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// How many pods.
pub const PODS: &str = "pods";

/// Amounts by name; a name that is not there is an amount of zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resources(BTreeMap<String, i64>);

/// More was wanted of a resource than there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Its name.
    pub resource: String,
    /// What was wanted.
    pub wanted: i64,
    /// What there is.
    pub available: i64,
}

impl Resources {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is written in an object of Kubernetes.
    pub fn parse(written: &BTreeMap<String, Written>) -> Result<Self, QuantityError> {
        let mut all = Self::new();
        for (name, amount) in written {
            let amount: Quantity = amount.0.parse()?;
            all.set(name, amount_of(name, amount));
        }
        Ok(all)
    }

    /// As it is written in an object of ours.
    pub fn written(&self) -> BTreeMap<String, WrittenQuantity> {
        let written = |(name, amount): (&String, &i64)| (name.clone(), quantity_of(name, *amount).into());
        self.0.iter().map(written).collect()
    }

    /// The amount of one resource.
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, name: &str, amount: i64) {
        self.0.insert(name.to_owned(), amount);
    }

    /// The same with one more resource.
    #[must_use]
    pub fn with(mut self, name: &str, amount: i64) -> Self {
        self.set(name, amount);
        self
    }

    /// Names and amounts, by name.
    pub fn iter(&self) -> btree_map::Iter<'_, String, i64> {
        self.0.iter()
    }

    /// Whether nothing is mentioned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds amounts; a sum stays at the largest number.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let known = self.0.entry(name.clone()).or_default();
            *known = known.saturating_add(*amount);
        }
    }

    /// What remains when `other` is taken away, never less than nothing. Only resources of `self` remain.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let rest =
            |(name, amount): (&String, &i64)| (name.clone(), amount.saturating_sub(other.get(name)).max(0));
        Self(self.0.iter().map(rest).collect())
    }

    /// The larger amount of each resource.
    #[must_use]
    pub fn larger(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (name, amount) in &other.0 {
            let known = all.0.entry(name.clone()).or_default();
            *known = (*known).max(*amount);
        }
        all
    }

    /// The first resource of which `available` has too little, by name.
    pub fn shortage(&self, available: &Self) -> Option<Shortage> {
        self.0
            .iter()
            .map(|(name, wanted)| Shortage {
                resource: name.clone(),
                wanted: *wanted,
                available: available.get(name),
            })
            .find(|one| one.wanted > one.available)
    }
}

impl<'a> IntoIterator for &'a Resources {
    type Item = (&'a String, &'a i64);
    type IntoIter = btree_map::Iter<'a, String, i64>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// An amount in the unit in which its resource is counted.
pub fn amount_of(name: &str, quantity: Quantity) -> i64 {
    if name == CPU {
        quantity.millis_ceil()
    } else {
        quantity.units_ceil()
    }
}

/// An amount as it is written in an object of Kubernetes, in the notation of that resource: `1500m`, `16Gi`.
pub fn quantity_of(name: &str, amount: i64) -> Quantity {
    let (nanos, notation) = match name {
        CPU => (1_000_000, Notation::Decimal),
        MEMORY | EPHEMERAL_STORAGE => (1_000_000_000, Notation::Binary),
        _ => (1_000_000_000, Notation::Decimal),
    };
    Quantity::from_nanos(i128::from(amount) * nanos, notation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pairs: &[(&str, &str)]) -> BTreeMap<String, Written> {
        pairs
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), Written((*amount).to_owned())))
            .collect()
    }

    #[test]
    fn processors_count_in_thousandths_and_the_rest_in_whole_units() {
        let all = Resources::parse(&written(&[("cpu", "1.5"), ("memory", "1Ki"), ("pods", "3")])).unwrap();
        assert_eq!((all.get(CPU), all.get(MEMORY), all.get(PODS)), (1500, 1024, 3));
        assert_eq!(all.get("nvidia.com/gpu"), 0);
    }

    #[test]
    fn fractions_are_rounded_up() {
        let all = Resources::parse(&written(&[("cpu", "100u"), ("memory", "100m")])).unwrap();
        assert_eq!((all.get(CPU), all.get(MEMORY)), (1, 1));
    }

    #[test]
    fn a_shortage_names_the_first_resource_that_does_not_suffice() {
        let wanted = Resources::new().with(CPU, 2000).with(MEMORY, 10);
        let there = Resources::new().with(CPU, 2000).with(MEMORY, 9);
        let short = wanted.shortage(&there).unwrap();
        assert_eq!(
            (short.resource.as_str(), short.wanted, short.available),
            (MEMORY, 10, 9)
        );
        assert_eq!(there.shortage(&wanted), None);
    }

    #[test]
    fn a_difference_never_falls_below_nothing() {
        let rest = Resources::new()
            .with(CPU, 5)
            .minus(&Resources::new().with(CPU, 7).with(MEMORY, 1));
        assert_eq!(rest, Resources::new().with(CPU, 0));
    }
}
