//! Money as integers: a price is a positive number of nano-dollars per hour.
//!
//! There is no zero price. The catalogue answers 0 where it means "not here" (plan level, bring-your-own-license),
//! and a provisioner that believes it buys the most expensive machine as if it were free. So what is not a positive
//! number is not a [`Price`], and callers hold an `Option`.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

const NANOS_PER_DOLLAR: f64 = 1e9;

/// US dollars per hour, exact to a billionth, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(NonZeroU64);

impl Price {
    /// A price from a decimal number of dollars; `None` for anything that is not a positive, finite amount of at
    /// least a nano-dollar and at most a million dollars an hour (a larger one is a mistake in a unit).
    pub fn from_usd(dollars: f64) -> Option<Self> {
        const DOLLARS_MAX: f64 = 1e6;
        if !(dollars > 0.0 && dollars <= DOLLARS_MAX) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked: 0 < dollars <= 1e6"
        )]
        let nanos = (dollars * NANOS_PER_DOLLAR).round() as u64;
        NonZeroU64::new(nanos).map(Self)
    }

    /// The same price as a number of nano-dollars.
    pub fn nanos(self) -> u64 {
        self.0.get()
    }

    /// A price from a number of nano-dollars.
    pub fn from_nanos(nanos: u64) -> Option<Self> {
        NonZeroU64::new(nanos).map(Self)
    }

    /// This price times `share`, rounded to the nearest nano-dollar; `None` unless the result is a price.
    pub fn times(self, share: f64) -> Option<Self> {
        Self::from_usd(self.usd() * share)
    }

    /// The sum of two prices, as of the parts of one machine.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.nanos()))
    }

    /// For display and metrics only; decisions compare [`Price`]s.
    pub fn usd(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "at most 1e15 nano-dollars, below 2^53")]
        let nanos = self.nanos() as f64;
        nanos / NANOS_PER_DOLLAR
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("${:.4}", self.usd()))
    }
}

impl Serialize for Price {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.usd().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(from)?;
        Self::from_usd(dollars)
            .ok_or_else(|| serde::de::Error::custom(format!("{dollars} is not a positive price")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_a_positive_amount_is_not_a_price() {
        for not_a_price in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, 1e-12, 2e6] {
            assert_eq!(Price::from_usd(not_a_price), None, "{not_a_price}");
        }
    }

    #[test]
    fn a_price_reads_like_the_catalogue() {
        assert_eq!(Price::from_usd(0.06647).unwrap().to_string(), "$0.0665");
    }

    proptest! {
        #[test]
        fn nine_decimals_survive(nanos in 1u64..1_000_000_000_000) {
            let price = Price::from_nanos(nanos).unwrap();
            prop_assert_eq!(Price::from_usd(price.usd()), Some(price));
            let json = serde_json::to_string(&price).unwrap();
            prop_assert_eq!(serde_json::from_str::<Price>(&json).unwrap(), price);
        }

        #[test]
        fn order_is_the_order_of_dollars(a in 1u64..1_000_000_000_000, b in 1u64..1_000_000_000_000) {
            let (a, b) = (Price::from_nanos(a).unwrap(), Price::from_nanos(b).unwrap());
            prop_assert_eq!(a.cmp(&b), a.usd().total_cmp(&b.usd()));
        }
    }
}
