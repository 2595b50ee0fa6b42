//! The whole price look-up, through the real client, against the simulated catalogue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_ibm::clock::Clock;
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::endpoints::{Endpoints, Overrides};
use karpenter_ibm::ibm::http::Metrics;
use karpenter_ibm::ibm::iam::{Credentials, KeySource};
use karpenter_ibm::ibm::prices::{Catalog, Prices, Quote, Source};
use karpenter_ibm::ibm::secret::Secret;
use karpenter_ibm::ibm::{Client, Config, Transports, builtin};
use karpenter_ibm::money::Price;
use karpenter_ibm::sim::ibm::{Cloud, Fault, FaultKind, Options};

fn world(region: &str, seed: u64) -> (Cloud, Prices) {
    let clock = Clock::simulated("2026-11-16T00:00:00Z".parse().unwrap());
    let cloud = Cloud::new(Options::new(region, seed, clock.clone()));
    let endpoints = Overrides {
        all: Some("http://127.0.0.1:1".to_owned()),
        ..Overrides::default()
    };
    let key = Credentials::ApiKey(KeySource::Given(Secret::new("demo-api-key".to_owned())));
    let config = Config::new(Endpoints::resolve(region, &endpoints).unwrap(), key);
    let exchange = Arc::new(cloud.exchange());
    let transports = Transports {
        cloud: exchange.clone(),
        metadata: exchange,
    };
    let metrics = Metrics::register(&prometheus::Registry::new(), region).unwrap();
    let client = Client::new(config, transports, metrics, &clock, Entropy::seeded(seed));
    (cloud, Prices::new(Catalog::new(client.catalog), region, clock))
}

/// What the simulated catalogue says, as it says it: built from the same table, times the region's factor.
fn truth(region: &str) -> BTreeMap<&'static str, (Price, Option<Price>)> {
    let factor = builtin::find_region(region).unwrap().price_factor;
    let both = |profile: &builtin::Profile| {
        let on_demand = profile.on_demand.times(factor).unwrap();
        (on_demand, on_demand.times(0.25).filter(|_| profile.spot))
    };
    builtin::profiles()
        .iter()
        .map(|profile| (profile.name, both(profile)))
        .collect()
}

fn from_catalogue(quote: &Quote) -> bool {
    quote
        .on_demand
        .is_some_and(|known| matches!(known.source, Source::Catalogue { .. }))
}

/// Every price that claims to be the catalogue's is the right one; how many claim it.
fn right_prices(prices: &Prices) -> usize {
    let table = prices.table();
    let truth = truth(table.region());
    let mut read = 0;
    for (profile, quote) in table.quotes() {
        let (on_demand, spot) = truth[profile];
        for (known, right) in [(quote.on_demand, Some(on_demand)), (quote.spot, spot)] {
            if let Some(known) = known.filter(|known| matches!(known.source, Source::Catalogue { .. })) {
                assert_eq!(Some(known.price), right, "{profile}");
            }
        }
        read += usize::from(from_catalogue(&quote));
    }
    read
}

#[tokio::test(start_paused = true)]
async fn every_profile_sold_in_a_region_gets_its_price_from_the_catalogue() {
    for (region, sold, not_sold) in [
        ("us-south", "bx4-4x16", "bx2a-2x8"),
        ("ca-tor", "bx2a-2x8", "bx4-4x16"),
        ("br-sao", "bxf-4x16", "bx4-4x16"),
    ] {
        let (_cloud, prices) = world(region, 1);
        let outcome = prices.refresh().await.unwrap();
        assert_eq!(outcome.failures, 0);
        assert_eq!(outcome.priced, right_prices(&prices), "{region}");
        assert!(outcome.priced > 100, "{region}: {outcome:?}");
        let table = prices.table();
        let flex = table.quote("bxf-4x16");
        assert!(
            matches!(flex.spot.unwrap().source, Source::Catalogue { .. }),
            "{region}"
        );
        // Twice in the catalogue, with one price.
        assert!(from_catalogue(&table.quote("bx2-2x8")), "{region}");
        assert!(from_catalogue(&table.quote(sold)), "{sold} in {region}");
        assert!(!from_catalogue(&table.quote(not_sold)), "{not_sold} in {region}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reading_takes_no_more_requests_than_its_budget_is_made_for() {
    let (cloud, prices) = world("us-south", 1);
    let before = tokio::time::Instant::now();
    prices.refresh().await.unwrap();
    let requests = cloud.requests().count();
    assert!((200..=500).contains(&requests), "{requests}");
    // Ten a second after a burst of fifty.
    assert!(
        before.elapsed() < Duration::from_mins(1),
        "{:?}",
        before.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_catalogue_that_lies_or_falls_silent_changes_no_price() {
    let (cloud, prices) = world("us-south", 2);
    prices.refresh().await.unwrap();
    let before = prices.table();
    for lie in [
        FaultKind::PriceZero,
        FaultKind::PriceNegative,
        FaultKind::PriceNotANumber,
        FaultKind::PriceMissing,
        FaultKind::ServerError,
    ] {
        cloud.faults().start(Fault::new(lie));
        let outcome = prices.refresh().await;
        assert!(outcome.is_err() || outcome.unwrap().priced == 0, "{lie:?}");
        assert_eq!(prices.table().quotes(), before.quotes(), "{lie:?}");
        cloud.faults().clear();
    }
    assert!(prices.refresh().await.unwrap().priced > 100);
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_a_price_from_the_catalogue_is_the_right_one() {
    let kinds = [
        FaultKind::RateLimit,
        FaultKind::ServerError,
        FaultKind::HtmlError,
        FaultKind::TruncatedJson,
        FaultKind::EmptyBody,
        FaultKind::Slow,
        FaultKind::PageFails,
        FaultKind::PageMisses,
        FaultKind::PageRepeats,
        FaultKind::SmallPages,
        FaultKind::ExtraFields,
        FaultKind::PriceMissing,
        FaultKind::PriceZero,
        FaultKind::PriceNegative,
        FaultKind::PriceNotANumber,
    ];
    let mut read = 0;
    for seed in 0..3 {
        let (cloud, prices) = world("eu-de", seed);
        for kind in kinds {
            cloud.faults().start(Fault::new(kind).probability(0.03));
        }
        for _ in 0..2 {
            let _ = prices.refresh().await;
            read += right_prices(&prices);
        }
    }
    assert!(read > 400, "the faults left nothing to check: {read}");
}
