//! What hours do: tokens expire, limits bind, days pass.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response};
use jiff::Timestamp;
use karpenter_ibm::ibm::Config;
use karpenter_ibm::ibm::http::{Exchange, ExchangeError};
use karpenter_ibm::ibm::prices::{Catalog, Prices};
use karpenter_ibm::ibm::vpc::instances::InstanceFilter;
use karpenter_ibm::ibm::vpc::types::{AvailabilityClass, InstancePatch, InstanceStatus, StatusReasonCode};
use karpenter_ibm::sim::ibm::{Cloud, Fault, FaultKind, InProcess};

use super::World;

/// What happens before each page of the list of instances is fetched.
#[derive(Clone, Copy)]
enum Before {
    /// The page is this slow in coming.
    Passes(Duration),
    /// The server forgets all tokens.
    Revocation,
}

struct Disturbed {
    cloud: Cloud,
    inner: InProcess,
    before: Before,
}

#[async_trait]
impl Exchange for Disturbed {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let page = request.method() == Method::GET && request.uri().path().ends_with("/instances");
        match self.before {
            Before::Passes(time) if page => tokio::time::sleep(time).await,
            // Only the first try of a page meets a revoked token: the second one carries a new one.
            Before::Revocation if page && !fresh(&self.cloud) => self.cloud.revoke_tokens(),
            _ => {}
        }
        self.inner.exchange(request).await
    }
}

/// Whether the last thing that the cloud saw was a request for a token.
fn fresh(cloud: &Cloud) -> bool {
    cloud
        .requests()
        .iter()
        .last()
        .is_some_and(|seen| seen.path.contains("/identity/token"))
}

fn disturbed(before: Before) -> World {
    World::with("demo-api-key", move |cloud| {
        Arc::new(Disturbed {
            cloud: cloud.clone(),
            inner: cloud.exchange(),
            before,
        })
    })
}

async fn spot_names(world: &World) -> BTreeSet<String> {
    let filter = InstanceFilter {
        class: Some(AvailabilityClass::Spot),
        ..InstanceFilter::default()
    };
    let listed = world.client.vpc.list_instances(&filter).await.unwrap();
    listed.into_iter().map(|instance| instance.name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_token_that_expires_between_two_pages_costs_nothing_but_a_new_one() {
    // Five small pages at 25 s each, with a token whose last minute has begun.
    let world = disturbed(Before::Passes(Duration::from_secs(25)));
    world.fleet(60).await;
    world.cloud.faults().start(Fault::new(FaultKind::SmallPages));
    world.client.tokens.token().await.unwrap();
    world.clock.sleep(Duration::from_mins(59)).await;
    let before = world.sent("/identity/token");
    assert_eq!(spot_names(&world).await.len(), 60);
    assert!(world.sent("/identity/token") > before);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_revoked_between_two_pages_is_replaced_and_the_list_is_whole() {
    let world = disturbed(Before::Revocation);
    world.fleet(80).await;
    world.cloud.faults().start(Fault::new(FaultKind::SmallPages));
    assert_eq!(spot_names(&world).await.len(), 80);
    assert!(world.sent("/identity/token") > 1);
}

#[tokio::test(start_paused = true)]
async fn in_a_storm_of_429_the_requests_sent_stay_within_the_budget() {
    let world = World::new();
    let storm = Duration::from_mins(3);
    let end = karpenter_ibm::clock::later(world.clock.now(), storm);
    world
        .cloud
        .faults()
        .start(Fault::new(FaultKind::RateLimit).until(end));
    let callers = (0..200).map(|_| {
        let (client, clock) = (world.client.clone(), world.clock.clone());
        tokio::spawn(async move {
            // Each caller insists until it succeeds.
            while client.vpc.list_vpcs().await.is_err() {
                clock.sleep(Duration::from_secs(1)).await;
            }
        })
    });
    for caller in futures::future::join_all(callers).await {
        caller.unwrap();
    }
    let times: Vec<Timestamp> = world.cloud.requests().iter().map(|seen| seen.at).collect();
    assert!(times.len() > 200, "only {} requests were sent", times.len());
    let (rate, burst) = (Config::REQUESTS_PER_SECOND.get(), Config::BURST.get());
    for (first, start) in times.iter().enumerate() {
        for window_seconds in [1, 10, 60] {
            let until = karpenter_ibm::clock::later(*start, Duration::from_secs(window_seconds));
            let sent = times[first..].iter().take_while(|at| **at < until).count() as u64;
            let budget = u64::from(burst) + u64::from(rate) * window_seconds;
            assert!(
                sent <= budget,
                "{sent} requests in {window_seconds} s from {start}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_day_passes_with_one_token_an_hour_and_prices_twice() {
    let world = World::new();
    world.fleet(20).await;
    let prices = Prices::new(
        Catalog::new(world.client.catalog.clone()),
        "us-south",
        world.clock.clone(),
    );
    let refresh = {
        let prices = prices.clone();
        tokio::spawn(async move { prices.run().await })
    };
    let before = world.cloud.requests().count();
    for _ in 0..24 * 12 {
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(spot_names(&world).await.len(), 20);
    }
    refresh.abort();
    let tokens = world.sent("/identity/token");
    assert!((24..=32).contains(&tokens), "{tokens} tokens");
    assert!(prices.table().complete_at().is_some());
    let catalogue = world.sent("/api/v1");
    let sent = world.cloud.requests().count() - before;
    assert_eq!(sent, 288 + (tokens as u64 - 1) + catalogue as u64);
}

#[tokio::test(start_paused = true)]
async fn a_spot_machine_lives_is_preempted_and_leaves_nothing() {
    let world = World::new();
    let vpc = &world.client.vpc;
    let bought = vpc
        .create_instance(&world.order("kib-1", AvailabilityClass::Spot))
        .await
        .unwrap();
    assert_eq!(bought.status, Some(InstanceStatus::Pending));
    assert_eq!(bought.address(), None);
    world.clock.sleep(Duration::from_mins(4)).await;
    let running = vpc.get_instance(&bought.id).await.unwrap();
    assert_eq!(running.status, Some(InstanceStatus::Running));
    assert!(running.address().is_some());

    world.cloud.preempt("kib-1").unwrap();
    assert_eq!(
        vpc.get_instance(&bought.id).await.unwrap().status,
        Some(InstanceStatus::Stopping)
    );
    world.clock.sleep(Duration::from_mins(2)).await;
    let stopped = vpc.get_instance(&bought.id).await.unwrap();
    assert_eq!(stopped.status, Some(InstanceStatus::Stopped));
    assert!(stopped.has_reason(&StatusReasonCode::StoppedByPreemption));

    let away = InstancePatch {
        name: Some("kib-1-x1".to_owned()),
        ..InstancePatch::default()
    };
    vpc.patch_instance(&bought.id, &away).await.unwrap();
    vpc.delete_instance(&bought.id).await.unwrap();
    world.clock.sleep(Duration::from_mins(5)).await;
    assert!(vpc.get_instance(&bought.id).await.unwrap_err().is_not_found());
    assert!(world.cloud.orphans().is_empty());
}
