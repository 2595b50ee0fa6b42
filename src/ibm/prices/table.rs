//! The prices of a region: what is known of each profile, and how.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::select::Published;
use crate::clock;
use crate::ibm::builtin::{self, Certainty};
use crate::model::{PriceSource, Priced};
use crate::money::Price;

/// What a spot machine costs of the on-demand price. Measured on eight flex profiles and the H100 one: 0.2499 to
/// 0.2512, where the on-demand price is itself rounded to three places.
const SPOT_SHARE: f64 = 0.25;

/// Where a price comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The Global Catalog, read at that time.
    Catalogue {
        /// When it was read.
        at: Timestamp,
    },
    /// The table built into this program, or computed from it.
    BuiltIn {
        /// How the figure is known.
        certainty: Certainty,
    },
}

/// A price and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub price: Price,
    pub source: Source,
}

impl From<Known> for Priced {
    fn from(known: Known) -> Self {
        let source = match known.source {
            Source::Catalogue { at } => PriceSource::Catalogue { at },
            Source::BuiltIn { certainty } => PriceSource::BuiltIn {
                certainty: certainty.as_str(),
            },
        };
        Self {
            price: known.price,
            source,
        }
    }
}

/// What is known of one profile's prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quote {
    pub on_demand: Option<Known>,
    /// The price if it were sold as spot; whether it is, the profile says.
    pub spot: Option<Known>,
}

/// The prices of one region. They are the same in all its zones.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceTable {
    region: String,
    /// The last that the catalogue said of each price; nothing is ever taken out.
    catalogue: BTreeMap<String, Quote>,
    complete_at: Option<Timestamp>,
}

impl PriceTable {
    /// What is known of `region` before the catalogue was read: the built-in prices.
    pub fn built_in(region: &str) -> Self {
        Self {
            region: region.to_owned(),
            catalogue: BTreeMap::new(),
            complete_at: None,
        }
    }

    /// The region it is about.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The prices of `profile`: the catalogue's, else built-in ones.
    pub fn quote(&self, profile: &str) -> Quote {
        let published = self.catalogue.get(profile).copied().unwrap_or_default();
        let built_in = builtin::find_profile(profile);
        let on_demand = published
            .on_demand
            .or_else(|| built_in.and_then(|p| self.built_in_price(p)));
        let spot = published.spot.or_else(|| {
            built_in
                .filter(|profile| profile.spot)
                .and(on_demand)
                .and_then(share_for_spot)
        });
        Quote { on_demand, spot }
    }

    /// Every profile of which a price is known, by name.
    pub fn quotes(&self) -> BTreeMap<&str, Quote> {
        let built_in = builtin::profiles().iter().map(|profile| profile.name);
        built_in
            .chain(self.catalogue.keys().map(String::as_str))
            .map(|name| (name, self.quote(name)))
            .collect()
    }

    /// When the catalogue was last read without a gap.
    pub fn complete_at(&self) -> Option<Timestamp> {
        self.complete_at
    }

    /// How old the last complete reading is.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        self.complete_at.map(|at| clock::between(at, now))
    }

    /// Takes in what the catalogue said at `at`. A price that it did not give this time keeps its old value and time.
    pub fn learn(&mut self, published: &BTreeMap<String, Published>, at: Timestamp, extent: Extent) {
        let known = |price: Price| Known {
            price,
            source: Source::Catalogue { at },
        };
        for (profile, said) in published {
            let quote = self.catalogue.entry(profile.clone()).or_default();
            quote.on_demand = said.on_demand.map(known).or(quote.on_demand);
            quote.spot = said.spot.map(known).or(quote.spot);
        }
        if extent == Extent::Complete {
            self.complete_at = Some(at);
        }
    }

    fn built_in_price(&self, profile: &builtin::Profile) -> Option<Known> {
        // A region we know nothing of is taken as us-south, in the order of magnitude.
        let (factor, factor_certainty) = builtin::find_region(&self.region)
            .map_or((1.0, Certainty::Low), |region| {
                (region.price_factor, region.factor_certainty)
            });
        let certainty = profile.certainty.max(factor_certainty);
        let price = profile.on_demand.times(factor)?;
        Some(Known {
            price,
            source: Source::BuiltIn { certainty },
        })
    }
}

/// How much of the catalogue was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every look-up was answered.
    Complete,
    /// Some were not.
    Partial,
}

fn share_for_spot(on_demand: Known) -> Option<Known> {
    let certainty = match on_demand.source {
        Source::Catalogue { .. } => Certainty::Derived,
        Source::BuiltIn { certainty } => certainty.max(Certainty::Derived),
    };
    let price = on_demand.price.times(SPOT_SHARE)?;
    Some(Known {
        price,
        source: Source::BuiltIn { certainty },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn price(dollars: f64) -> Price {
        Price::from_usd(dollars).unwrap()
    }

    fn said(profile: &str, on_demand: Option<f64>, spot: Option<f64>) -> BTreeMap<String, Published> {
        let published = Published {
            on_demand: on_demand.map(price),
            spot: spot.map(price),
        };
        BTreeMap::from([(profile.to_owned(), published)])
    }

    fn table(region: &str, said: &BTreeMap<String, Published>) -> PriceTable {
        let mut table = PriceTable::built_in(region);
        table.learn(said, at(100), Extent::Complete);
        table
    }

    fn built_in(dollars: f64, certainty: Certainty) -> Option<Known> {
        let source = Source::BuiltIn { certainty };
        Price::from_usd(dollars).map(|price| Known { price, source })
    }

    #[test]
    fn before_the_catalogue_was_read_prices_are_built_in_and_say_so() {
        let quote = PriceTable::built_in("us-south").quote("bxf-4x16");
        assert_eq!(quote.on_demand, built_in(0.193, Certainty::Captured));
        assert_eq!(quote.spot, built_in(0.04825, Certainty::Derived));
    }

    #[test]
    fn a_built_in_price_is_no_more_certain_than_its_region() {
        let quote = PriceTable::built_in("br-sao").quote("bxf-4x16");
        assert_eq!(quote.on_demand, built_in(0.193 * 1.38, Certainty::Captured));
        let quote = PriceTable::built_in("jp-osa").quote("bxf-4x16");
        assert_eq!(quote.on_demand, built_in(0.193, Certainty::Low));
        let quote = PriceTable::built_in("mars-1").quote("bxf-4x16");
        assert_eq!(quote.on_demand, built_in(0.193, Certainty::Low));
    }

    #[test]
    fn the_catalogue_beats_what_is_built_in() {
        let quote = table("us-south", &said("bxf-4x16", Some(0.2), Some(0.04))).quote("bxf-4x16");
        let source = Source::Catalogue { at: at(100) };
        assert_eq!(
            quote.on_demand,
            Some(Known {
                price: price(0.2),
                source
            })
        );
        assert_eq!(
            quote.spot,
            Some(Known {
                price: price(0.04),
                source
            })
        );
    }

    #[test]
    fn a_missing_spot_price_is_a_share_of_the_price_in_the_catalogue() {
        let quote = table("us-south", &said("bxf-4x16", Some(0.2), None)).quote("bxf-4x16");
        assert_eq!(quote.spot, built_in(0.05, Certainty::Derived));
    }

    #[test]
    fn a_profile_never_sold_as_spot_has_no_built_in_spot_price() {
        assert_eq!(PriceTable::built_in("us-south").quote("bx2-4x16").spot, None);
    }

    #[test]
    fn a_profile_nobody_knows_has_no_price() {
        assert_eq!(
            PriceTable::built_in("us-south").quote("zz9-1x1"),
            Quote::default()
        );
    }

    #[test]
    fn a_later_reading_keeps_what_it_does_not_mention_with_its_old_time() {
        let mut table = table("us-south", &said("bxf-4x16", Some(0.2), Some(0.04)));
        table.learn(&said("bxf-4x16", None, Some(0.05)), at(200), Extent::Partial);
        table.learn(&said("cxf-2x4", Some(0.1), None), at(300), Extent::Partial);
        let quote = table.quote("bxf-4x16");
        assert_eq!(quote.on_demand.unwrap().source, Source::Catalogue { at: at(100) });
        assert_eq!(quote.spot.unwrap().source, Source::Catalogue { at: at(200) });
        assert_eq!(table.complete_at(), Some(at(100)));
        assert_eq!(table.age(at(400)), Some(Duration::from_mins(5)));
    }

    fn any_reading() -> impl Strategy<Value = BTreeMap<String, Published>> {
        let figure =
            || prop::option::of((1u64..1_000_000).prop_map(|nanos| Price::from_nanos(nanos).unwrap()));
        let published = (figure(), figure()).prop_map(|(on_demand, spot)| Published { on_demand, spot });
        let name = prop::sample::select(vec!["bxf-4x16", "bx2-4x16", "zz9-1x1"]).prop_map(str::to_owned);
        prop::collection::btree_map(name, published, 0..3)
    }

    proptest! {
        #[test]
        fn no_reading_takes_a_price_away(readings in prop::collection::vec(any_reading(), 0..6)) {
            let mut table = PriceTable::built_in("us-south");
            for (n, reading) in readings.iter().enumerate() {
                let before = table.clone();
                table.learn(reading, at(i64::try_from(n).unwrap()), Extent::Partial);
                for (profile, quote) in before.quotes() {
                    let now = table.quote(profile);
                    prop_assert!(quote.on_demand.is_none() || now.on_demand.is_some());
                    prop_assert!(quote.spot.is_none() || now.spot.is_some());
                }
                for (profile, published) in reading {
                    let now = table.quote(profile);
                    prop_assert!(published.on_demand.is_none_or(|price| now.on_demand.unwrap().price == price));
                    prop_assert!(published.spot.is_none_or(|price| now.spot.unwrap().price == price));
                }
            }
        }
    }
}
