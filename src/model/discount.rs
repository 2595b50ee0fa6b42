//! What share of the price on demand a spot machine costs, where the user says so or nobody publishes it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::money::Price;

const MILLION: u32 = 1_000_000;

/// The share paid: more than nothing and at most all of it, exact to a millionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u32);

/// The text is no factor, or no factor for a series.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a share of the on-demand price above 0 and up to 1, nor one for a series like `bxf=0.3`"
)]
pub struct NotAFactor(String);

impl Factor {
    /// What IBM asks of the price on demand for spot: measured on eight flex profiles and the H100 one, 0.2499 to
    /// 0.2512, where the price on demand is itself rounded.
    pub const USUAL: Self = Self(MILLION / 4);

    /// A share; `None` unless it is at least a millionth and at most one.
    pub fn new(share: f64) -> Option<Self> {
        if !(share > 0.0 && share <= 1.0) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked: 0 < share <= 1"
        )]
        let millionths = (share * f64::from(MILLION)).round() as u32;
        (millionths > 0).then_some(Self(millionths))
    }

    /// A share in percent, from 1 to 100.
    pub fn from_percent(percent: u32) -> Option<Self> {
        (1..=100)
            .contains(&percent)
            .then(|| Self(percent * (MILLION / 100)))
    }

    /// This share of a price, rounded to the nearest nano-dollar; `None` if nothing is left of it.
    pub fn of(self, price: Price) -> Option<Price> {
        let share = u128::from(price.nanos()) * u128::from(self.0) + u128::from(MILLION / 2);
        Price::from_nanos(u64::try_from(share / u128::from(MILLION)).ok()?)
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&(f64::from(self.0) / f64::from(MILLION)).to_string())
    }
}

impl FromStr for Factor {
    type Err = NotAFactor;

    fn from_str(text: &str) -> Result<Self, NotAFactor> {
        let share = text.trim().parse().ok();
        share
            .and_then(Self::new)
            .ok_or_else(|| NotAFactor(text.to_owned()))
    }
}

/// The factors that the user set. One for a series wins over the one for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscountFactors {
    /// For every series that has none of its own.
    pub all: Option<Factor>,
    /// By series, like `bxf`.
    pub families: BTreeMap<String, Factor>,
}

impl DiscountFactors {
    /// Those that these texts say, each `0.3` or `bxf=0.3`. Of several for the same the last counts.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, NotAFactor> {
        let mut factors = Self::default();
        for text in texts {
            let text = text.as_ref();
            let wrong = |_| NotAFactor(text.to_owned());
            match text.split_once('=') {
                None => factors.all = Some(text.parse()?),
                Some((family, share)) if is_family(family) => {
                    let factor = share.parse().map_err(wrong)?;
                    factors.families.insert(family.to_owned(), factor);
                }
                Some(_) => return Err(NotAFactor(text.to_owned())),
            }
        }
        Ok(factors)
    }

    /// The factor that was set for a series, if any was.
    pub fn of(&self, family: &str) -> Option<Factor> {
        self.families.get(family).copied().or(self.all)
    }

    /// These, and those of `weaker` for what these do not say.
    #[must_use]
    pub fn over(&self, weaker: &Self) -> Self {
        let mut both = weaker.clone();
        both.all = self.all.or(both.all);
        both.families.extend(
            self.families
                .iter()
                .map(|(family, factor)| (family.clone(), *factor)),
        );
        both
    }
}

/// What stands before the dash in a profile's name.
fn is_family(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn factor(text: &str) -> Factor {
        text.parse().unwrap()
    }

    #[test]
    fn a_factor_is_the_share_paid_above_nothing_and_up_to_all() {
        assert_eq!(factor("0.25"), Factor::USUAL);
        assert_eq!(factor("1").to_string(), "1");
        assert_eq!(factor("0.6").to_string(), "0.6");
        for wrong in [
            "0",
            "-0.1",
            "1.1",
            "NaN",
            "inf",
            "60",
            "60%",
            "",
            "x",
            "0.0000001",
        ] {
            assert!(wrong.parse::<Factor>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sixty_percent_are_a_factor_of_six_tenths() {
        assert_eq!(Factor::from_percent(60), Some(factor("0.6")));
        assert_eq!((Factor::from_percent(0), Factor::from_percent(101)), (None, None));
    }

    #[test]
    fn a_series_has_its_own_factor_or_that_of_all() {
        let factors = DiscountFactors::parse(["0.5", "bxf=0.3", "bxf=0.2"]).unwrap();
        assert_eq!(factors.of("bxf"), Some(factor("0.2")));
        assert_eq!(factors.of("cxf"), Some(factor("0.5")));
        assert_eq!(DiscountFactors::default().of("cxf"), None);
        for wrong in ["=0.3", "Bxf=0.3", "bxf-4x16=0.3", "bxf=", "bxf=0", "0.3=bxf"] {
            let error = DiscountFactors::parse([wrong]).unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }

    #[test]
    fn what_the_stronger_does_not_say_the_weaker_says() {
        let strong = DiscountFactors::parse(["bxf=0.3"]).unwrap();
        let weak = DiscountFactors::parse(["0.6", "bxf=0.9", "gx3=0.7"]).unwrap();
        let both = strong.over(&weak);
        assert_eq!(
            both,
            DiscountFactors::parse(["0.6", "bxf=0.3", "gx3=0.7"]).unwrap()
        );
    }

    proptest! {
        #[test]
        fn a_share_is_never_more_than_the_whole(nanos in 1u64..u64::MAX / 2, millionths in 1u32..=MILLION) {
            let price = Price::from_nanos(nanos).unwrap();
            let share = Factor(millionths).of(price);
            prop_assert!(share.is_none_or(|share| share <= price));
            prop_assert_eq!(Factor(MILLION).of(price), Some(price));
        }

        #[test]
        fn a_factor_reads_back(millionths in 1u32..=MILLION) {
            let factor = Factor(millionths);
            prop_assert_eq!(factor.to_string().parse(), Ok(factor));
        }
    }
}
