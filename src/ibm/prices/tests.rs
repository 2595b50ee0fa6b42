//! The look-up and its refresh against a catalogue of a few entries that can be made to fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};

use super::*;
use crate::clock::Clock;
use crate::ibm::endpoints::Endpoint;
use crate::ibm::http::{Api, Exchange, ExchangeError};
use crate::money::Price;

/// Each call takes this long, so that calls overlap.
const CALL: Duration = Duration::from_millis(300);

#[derive(Default)]
struct Fake {
    bodies: Mutex<BTreeMap<String, (u16, Value)>>,
    asked: Mutex<Vec<String>>,
    in_flight: AtomicUsize,
    in_flight_peak: AtomicUsize,
}

#[async_trait]
impl Exchange for Fake {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let path = request.uri().path().trim_start_matches("/api/v1").to_owned();
        self.asked.lock().unwrap().push(path.clone());
        self.in_flight_peak.fetch_max(
            self.in_flight.fetch_add(1, Ordering::Relaxed) + 1,
            Ordering::Relaxed,
        );
        tokio::time::sleep(CALL).await;
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let found = self.bodies.lock().unwrap().get(&path).cloned();
        let (status, body) = found.unwrap_or((404, json!({"message": "no such entry"})));
        let body = page_of(body, request.uri().query().unwrap_or_default());
        let mut answer = Response::new(Bytes::from(body.to_string()));
        *answer.status_mut() = status.try_into().unwrap();
        Ok(answer)
    }
}

/// One entry per page, so that every list has several.
fn page_of(body: Value, query: &str) -> Value {
    let Some(all) = body["resources"].as_array() else {
        return body;
    };
    let offset = form_urlencoded::parse(query.as_bytes())
        .find(|(key, _)| key == "_offset")
        .unwrap()
        .1
        .into_owned();
    let page: Vec<&Value> = all.iter().skip(offset.parse().unwrap()).take(1).collect();
    json!({"offset": 0, "limit": 1, "count": all.len(), "resource_count": page.len(), "resources": page})
}

impl Fake {
    fn answers(&self, path: &str, status: u16, body: Value) {
        self.bodies
            .lock()
            .unwrap()
            .insert(path.to_owned(), (status, body));
    }

    fn add(&self, path: &str, entry: Value) {
        let mut bodies = self.bodies.lock().unwrap();
        let (_, list) = bodies
            .entry(path.to_owned())
            .or_insert((200, json!({"resources": []})));
        list["resources"].as_array_mut().unwrap().push(entry);
    }

    fn profile(&self, name: &str, plan: &str, meters: &Value) {
        let deployments = json!([{"type": "multi-tenant", "plan": plan, "meters": meters}]);
        let measures = json!([{"component": "instance", "deployments": deployments}]);
        let other = json!({"profile": {"measures": measures}});
        self.add(
            "/",
            json!({"id": name, "name": name, "kind": "instance.profile", "metadata": {"other": other}}),
        );
    }

    fn deployment(&self, plan: &str, id: &str, entry: Value) {
        let mut entry = entry;
        entry["id"] = json!(id);
        self.add(&format!("/{plan}/deployment"), entry);
    }

    fn priced(&self, id: &str, metrics: &[(&str, f64)]) {
        let metric = |(unit, price): &(&str, f64)| {
            let prices = json!([{"quantity_tier": 1, "price": price}]);
            json!({"charge_unit_name": unit, "amounts": [{"country": "USA", "currency": "USD", "prices": prices}]})
        };
        let metrics: Vec<Value> = metrics.iter().map(metric).collect();
        let body = json!({"deployment_region": "us-south", "metrics": metrics});
        self.answers(&format!("/{}/pricing", id.replace(':', "%3A")), 200, body);
    }

    /// A flex profile, sold by a plan of its own.
    fn flex(&self, name: &str, on_demand: f64, spot: f64) {
        let plan = format!("plan-{name}");
        self.profile(name, &plan, &json!([{"unit": "PROFILE", "quantity": "1"}]));
        for region in ["eu-de", "us-south"] {
            let location = json!({"metadata": {"deployment": {"location": region}}});
            self.deployment(&plan, &format!("{plan}:{region}"), location);
        }
        self.answers(&format!("/{plan}/pricing"), 200, json!({"metrics": null}));
        let metrics = [
            ("INSTANCE_HOURS_MULTI_TENANT", on_demand),
            ("INSTANCE_MULTI_TENANT_SPOT", spot),
        ];
        self.priced(&format!("{plan}:us-south"), &metrics);
    }

    /// A gen2 profile, sold by the one plan of them all.
    fn gen2(&self, name: &str, deployments: &[(&str, f64, f64)]) {
        self.profile(
            name,
            "gen2",
            &json!([{"unit": "VCPU", "quantity": "4"}, {"unit": "MEMORY", "quantity": "16"}]),
        );
        for (id, vcpu, memory) in deployments {
            let composite = json!({"name": format!("{name}-us-south"), "tags": ["is.composite"]});
            self.deployment("gen2", id, composite);
            self.priced(
                id,
                &[
                    ("WINDOWS_VCPU_HOURS", 0.046),
                    ("VCPU_HOURS", *vcpu),
                    ("MEMORY_HOURS", *memory),
                ],
            );
        }
    }

    fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn prices(fake: &Arc<Fake>) -> Prices {
    let clock = Clock::simulated("2026-11-16T00:00:00Z".parse().unwrap());
    let endpoint = Endpoint::parse("http://127.0.0.1:1/api/v1").unwrap();
    Prices::new(
        Catalog::new(Api::new(endpoint, fake.clone(), clock.clone())),
        "us-south",
        clock,
    )
}

fn shown(known: Option<Known>) -> String {
    known.unwrap().price.to_string()
}

fn is_built_in(known: Option<Known>) -> bool {
    matches!(known.unwrap().source, Source::BuiltIn { .. })
}

#[tokio::test(start_paused = true)]
async fn the_look_up_finds_whole_and_composite_prices_over_many_pages() {
    let fake = Arc::new(Fake::default());
    fake.flex("bxf-4x16", 0.2, 0.04);
    fake.flex("cxf-2x4", 0.09, 0.02);
    fake.gen2("bx2-4x16", &[("gen2:1", 0.112, 0.09)]);
    fake.gen2("bx2-8x32", &[("gen2:2", 0.224, 0.18)]);
    let prices = prices(&fake);
    assert_eq!(
        prices.refresh().await.unwrap(),
        Outcome {
            priced: 4,
            unknown: 0,
            failures: 0
        }
    );
    let table = prices.table();
    assert_eq!(
        table.quote("bxf-4x16").spot.unwrap().price,
        Price::from_usd(0.04).unwrap()
    );
    for (profile, dollars) in [
        ("bxf-4x16", 0.2),
        ("cxf-2x4", 0.09),
        ("bx2-4x16", 0.202),
        ("bx2-8x32", 0.404),
    ] {
        let known = table.quote(profile).on_demand.unwrap();
        assert_eq!(known.price, Price::from_usd(dollars).unwrap(), "{profile}");
        assert!(matches!(known.source, Source::Catalogue { .. }), "{profile}");
    }
    assert!(is_built_in(table.quote("mxf-2x16").on_demand));
}

#[tokio::test(start_paused = true)]
async fn neither_a_plan_nor_another_region_is_asked_for_its_price() {
    let fake = Arc::new(Fake::default());
    fake.flex("bxf-4x16", 0.2, 0.04);
    prices(&fake).refresh().await.unwrap();
    let asked = fake.asked.lock().unwrap().clone();
    let priced: Vec<&String> = asked.iter().filter(|path| path.ends_with("/pricing")).collect();
    assert_eq!(priced, ["/plan-bxf-4x16%3Aus-south/pricing"]);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_of_the_gen2_plan_that_is_not_composite_is_not_read() {
    let fake = Arc::new(Fake::default());
    fake.gen2("bx2-4x16", &[("gen2:1", 0.112, 0.09)]);
    fake.gen2("bx2-8x32", &[]);
    let of_the_plan = json!({"metadata": {"deployment": {"location": "us-south"}}});
    fake.deployment("gen2", "gen2:us-south", of_the_plan);
    fake.priced("gen2:us-south", &[("INSTANCE_HOURS_MULTI_TENANT", 63.0)]);
    fake.deployment("gen2", "gen2:untagged", json!({"name": "bx2-8x32-us-south"}));
    fake.priced("gen2:untagged", &[("VCPU_HOURS", 63.0), ("MEMORY_HOURS", 63.0)]);
    let prices = prices(&fake);
    assert_eq!(
        prices.refresh().await.unwrap(),
        Outcome {
            priced: 1,
            unknown: 1,
            failures: 0
        }
    );
    assert!(is_built_in(prices.table().quote("bx2-8x32").on_demand));
}

#[tokio::test(start_paused = true)]
async fn duplicates_that_disagree_are_unknown_and_those_that_agree_are_one() {
    let fake = Arc::new(Fake::default());
    fake.gen2("bx2-4x16", &[("gen2:1", 0.112, 0.09), ("gen2:2", 0.112, 0.08)]);
    fake.gen2("bx2-8x32", &[("gen2:3", 0.224, 0.18), ("gen2:4", 0.224, 0.18)]);
    let prices = prices(&fake);
    assert_eq!(
        prices.refresh().await.unwrap(),
        Outcome {
            priced: 1,
            unknown: 1,
            failures: 0
        }
    );
    assert!(is_built_in(prices.table().quote("bx2-4x16").on_demand));
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_that_cannot_be_read_fails_its_profile_instead_of_half_deciding_it() {
    let fake = Arc::new(Fake::default());
    fake.gen2("bx2-4x16", &[("gen2:1", 0.112, 0.09), ("gen2:2", 0.5, 0.5)]);
    fake.answers("/gen2%3A2/pricing", 503, json!({}));
    let prices = prices(&fake);
    assert_eq!(
        prices.refresh().await.unwrap(),
        Outcome {
            priced: 0,
            unknown: 0,
            failures: 1
        }
    );
    assert!(is_built_in(prices.table().quote("bx2-4x16").on_demand));
}

#[tokio::test(start_paused = true)]
async fn a_partial_reading_brings_what_it_has_and_takes_nothing() {
    let fake = Arc::new(Fake::default());
    fake.flex("bxf-4x16", 0.2, 0.04);
    fake.flex("cxf-2x4", 0.09, 0.02);
    let prices = prices(&fake);
    prices.refresh().await.unwrap();
    let complete_at = prices.table().complete_at();

    fake.priced("plan-bxf-4x16:us-south", &[("INSTANCE_HOURS_MULTI_TENANT", 0.3)]);
    fake.answers("/plan-cxf-2x4%3Aus-south/pricing", 500, json!({}));
    assert_eq!(prices.refresh().await.unwrap().failures, 1);
    let table = prices.table();
    let (changed, kept) = (table.quote("bxf-4x16"), table.quote("cxf-2x4"));
    assert_eq!(
        [changed.on_demand, changed.spot, kept.on_demand].map(shown),
        ["$0.3000", "$0.0400", "$0.0900"]
    );
    assert_eq!(table.complete_at(), complete_at);
}

#[tokio::test(start_paused = true)]
async fn zeros_and_absences_take_nothing_either() {
    let fake = Arc::new(Fake::default());
    fake.flex("bxf-4x16", 0.2, 0.04);
    fake.flex("cxf-2x4", 0.09, 0.02);
    let prices = prices(&fake);
    prices.refresh().await.unwrap();
    fake.priced("plan-bxf-4x16:us-south", &[("INSTANCE_HOURS_MULTI_TENANT", 0.0)]);
    fake.bodies.lock().unwrap().remove("/plan-cxf-2x4/deployment");
    assert_eq!(
        prices.refresh().await.unwrap(),
        Outcome {
            priced: 0,
            unknown: 2,
            failures: 0
        }
    );
    let table = prices.table();
    assert_eq!(
        [table.quote("bxf-4x16").on_demand, table.quote("cxf-2x4").spot].map(shown),
        ["$0.2000", "$0.0200"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_profiles_is_an_error_and_no_reading() {
    let fake = Arc::new(Fake::default());
    fake.answers("/", 200, json!({"message": "try again later"}));
    assert_eq!(prices(&fake).refresh().await.unwrap_err().kind(), "undecodable");
}

#[tokio::test(start_paused = true)]
async fn look_ups_run_side_by_side_up_to_the_bound() {
    let fake = Arc::new(Fake::default());
    for n in 0..20 {
        fake.flex(&format!("bxf-{n}x1"), 0.2, 0.04);
    }
    prices(&fake).refresh().await.unwrap();
    assert_eq!(fake.in_flight_peak.load(Ordering::Relaxed), 8);
}

#[tokio::test(start_paused = true)]
async fn a_catalogue_that_is_down_is_left_alone() {
    let fake = Arc::new(Fake::default());
    for n in 0..100 {
        fake.flex(&format!("bxf-{n}x1"), 0.2, 0.04);
        fake.answers(&format!("/plan-bxf-{n}x1/deployment"), 503, json!({}));
    }
    let outcome = prices(&fake).refresh().await.unwrap();
    assert_eq!(outcome.failures, 10);
    let pages_of_profiles = 100;
    assert!(fake.calls() - pages_of_profiles <= 10 + 8, "{}", fake.calls());
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_out() {
    let fake = Arc::new(Fake::default());
    fake.flex("bxf-4x16", 0.2, 0.04);
    let allowed = fake.bodies.lock().unwrap().clone();
    fake.answers("/plan-bxf-4x16/deployment", 429, json!({"message": "slow down"}));
    let prices = prices(&fake);
    let again = async {
        tokio::time::sleep(Duration::from_secs(8)).await;
        *fake.bodies.lock().unwrap() = allowed;
    };
    let (outcome, ()) = tokio::join!(prices.refresh(), again);
    assert_eq!(
        outcome.unwrap(),
        Outcome {
            priced: 1,
            unknown: 0,
            failures: 0
        }
    );
}

#[tokio::test(start_paused = true)]
async fn failures_among_answers_do_not_end_a_reading() {
    let fake = Arc::new(Fake::default());
    for n in 0..60 {
        fake.flex(&format!("bxf-{n}x1"), 0.2, 0.04);
        if n % 3 == 0 {
            fake.answers(&format!("/plan-bxf-{n}x1/deployment"), 503, json!({}));
        }
    }
    let outcome = prices(&fake).refresh().await.unwrap();
    assert_eq!((outcome.priced, outcome.failures), (40, 20));
}

#[tokio::test(start_paused = true)]
async fn prices_are_read_twice_a_day_and_sooner_after_a_failure_with_the_old_ones_kept() {
    let fake = Arc::new(Fake::default());
    fake.flex("bxf-4x16", 0.2, 0.04);
    let prices = prices(&fake);
    let refreshing = prices.clone();
    let task = tokio::spawn(async move { refreshing.run().await });
    let after = |minutes: u64| tokio::time::sleep(Duration::from_mins(minutes));

    after(1).await;
    let calls = fake.calls();
    assert_eq!(shown(prices.table().quote("bxf-4x16").on_demand), "$0.2000");

    fake.answers("/", 503, json!({}));
    after(11 * 60).await;
    assert_eq!(fake.calls(), calls, "read before its time");
    after(60).await;
    assert!(fake.calls() > calls, "not read in time");
    let table = prices.table();
    assert_eq!(shown(table.quote("bxf-4x16").on_demand), "$0.2000");
    let age = table.age("2026-11-16T12:01:00Z".parse().unwrap());
    assert_eq!(age, Some(Duration::from_mins(12 * 60 + 1)));

    fake.bodies.lock().unwrap().remove("/");
    fake.flex("bxf-4x16", 0.3, 0.04);
    after(11).await;
    assert_eq!(shown(prices.table().quote("bxf-4x16").on_demand), "$0.3000");
    task.abort();
}
