//! What is sold: read from the simulated IBM Cloud, as a kubelet would report it, and printed by the binary.

use std::net::Ipv4Addr;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use karpenter_ibm::api::CapacityType;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::endpoints::{Endpoints, Overrides};
use karpenter_ibm::ibm::http::Metrics;
use karpenter_ibm::ibm::iam::{Credentials, KeySource};
use karpenter_ibm::ibm::offerings::Kinds;
use karpenter_ibm::ibm::prices::{Catalog, Prices};
use karpenter_ibm::ibm::secret::Secret;
use karpenter_ibm::ibm::{Client, Config, Transports, builtin};
use karpenter_ibm::model::offerings::{capacity, price};
use karpenter_ibm::model::{ClassFacts, DiscountFactors, Kind, PriceSource, Reservation};
use karpenter_ibm::resources::{EPHEMERAL_STORAGE, MEMORY, Resources};
use karpenter_ibm::sim::actors::kubelet::disk::Disk;
use karpenter_ibm::sim::actors::kubelet::machine::Machine;
use karpenter_ibm::sim::actors::kubelet::node::Capacity;
use karpenter_ibm::sim::actors::kubelet::settings::Settings;
use karpenter_ibm::sim::ibm::{Cloud, Fault, FaultKind, Options};
use karpenter_ibm::sim::kube::write;
use serde_json::json;

use super::cli::{KEY, REGION, Simulator, binary, stderr};

/// A cloud, and what is known of what it sells.
struct World {
    cloud: Cloud,
    clock: Clock,
    prices: Prices,
    kinds: Kinds,
}

impl World {
    fn new() -> Self {
        let clock = Clock::simulated("2026-11-16T00:00:00Z".parse().unwrap());
        let cloud = Cloud::new(Options::new("us-south", 1, clock.clone()));
        let endpoints = Overrides {
            all: Some("http://127.0.0.1:1".to_owned()),
            ..Overrides::default()
        };
        let key = Credentials::ApiKey(KeySource::Given(Secret::new("demo-api-key".to_owned())));
        let config = Config::new(Endpoints::resolve("us-south", &endpoints).unwrap(), key);
        let exchange = Arc::new(cloud.exchange());
        let transports = Transports {
            cloud: exchange.clone(),
            metadata: exchange,
        };
        let metrics = Metrics::register(&prometheus::Registry::new(), "us-south").unwrap();
        let client = Client::new(config, transports, metrics, &clock, Entropy::seeded(1));
        let prices = Prices::new(Catalog::new(client.catalog), "us-south", clock.clone());
        let kinds = Kinds::new(client.vpc, prices.clone(), clock.clone());
        Self {
            cloud,
            clock,
            prices,
            kinds,
        }
    }

    async fn kind(&self, name: &str) -> Kind {
        let kinds = self.kinds.get().await.unwrap();
        kinds.iter().find(|kind| kind.name == name).unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn every_profile_of_the_region_is_a_kind_of_its_documented_size() {
    let world = World::new();
    let kinds = world.kinds.get().await.unwrap();
    assert!(kinds.len() > 150, "{}", kinds.len());
    assert!(kinds.is_sorted_by(|a, b| a.name < b.name));
    for kind in kinds.iter() {
        let known = builtin::find_profile(&kind.name).unwrap();
        assert_eq!(
            (kind.vcpu, kind.memory_bytes >> 30),
            (known.vcpu.into(), known.memory_gib.into())
        );
        assert_eq!(kind.is_sold(CapacityType::Spot), known.spot, "{}", kind.name);
        assert!(kind.is_sold(CapacityType::OnDemand), "{}", kind.name);
        let cards = |kind: &Kind| kind.gpus.as_ref().map(|cards| cards.count);
        assert_eq!(
            cards(kind),
            known.gpu.as_ref().map(|gpu| gpu.count.into()),
            "{}",
            kind.name
        );
        assert!(!kind.zones.is_empty() && kind.zones.iter().all(|zone| zone.starts_with("us-south-")));
    }
    let h100 = world.kind("gx3d-160x1792x8h100").await;
    assert_eq!(h100.zones.len(), 1, "it stands in one data center");
}

#[tokio::test(start_paused = true)]
async fn kinds_are_read_now_and_then_and_the_last_list_serves_in_between() {
    let world = World::new();
    let first = world.kinds.get().await.unwrap();
    let requests = world.cloud.requests().count();
    world.clock.sleep(Duration::from_mins(59)).await;
    assert!(Arc::ptr_eq(&first, &world.kinds.get().await.unwrap()));
    assert_eq!(world.cloud.requests().count(), requests);
    world.cloud.remove_profile("bxf-4x16").unwrap();
    world.clock.sleep(Duration::from_mins(1)).await;
    let second = world.kinds.get().await.unwrap();
    assert_eq!(second.len(), first.len() - 1);
    world.cloud.faults().start(Fault::new(FaultKind::ServerError));
    world.clock.sleep(Duration::from_hours(5)).await;
    assert_eq!(
        world.kinds.get().await.unwrap(),
        second,
        "an error is not an absence"
    );
    world.clock.sleep(Duration::from_hours(2)).await;
    assert!(
        world.kinds.get().await.is_err(),
        "nor is a list of yesterday the truth"
    );
}

#[tokio::test(start_paused = true)]
async fn a_spot_price_comes_from_the_catalogue_once_it_was_read() {
    let world = World::new();
    let nothing = DiscountFactors::default();
    let spot = |kind: &Kind, factors| price(kind, CapacityType::Spot, factors).unwrap();
    let before = spot(&world.kind("bxf-4x16").await, &nothing);
    assert!(matches!(before.source, PriceSource::UsualFactor(_)), "{before:?}");
    world.prices.refresh().await.unwrap();
    let kind = world.kind("bxf-4x16").await;
    let after = spot(&kind, &nothing);
    assert!(matches!(after.source, PriceSource::Catalogue { .. }), "{after:?}");
    let set = spot(&kind, &DiscountFactors::parse(["bxf=0.5"]).unwrap());
    assert!(matches!(set.source, PriceSource::SetFactor(_)), "{set:?}");
    assert_eq!(set.price.nanos() * 2, kind.on_demand_price.unwrap().price.nanos());
}

/// What the simulated kubelet of such a machine reports when it is told to keep `kept` from pods.
fn reported(kind: &Kind, pods: i64, kept: &Reservation) -> (Resources, Resources) {
    let machine = Machine {
        id: "0717_a-b".to_owned(),
        name: "kib-1".to_owned(),
        zone: "us-south-1".to_owned(),
        profile: builtin::find_profile(&kind.name).unwrap(),
        address: Ipv4Addr::LOCALHOST,
        storage_gb: 100,
        user_data: String::new(),
        metadata_service: true,
        boots: 0,
    };
    let list = |kept: &Resources| {
        let shown = kept.iter().map(|(name, amount)| match name.as_str() {
            "cpu" => format!("cpu={amount}m"),
            name => format!("{name}={amount}"),
        });
        shown.collect::<Vec<_>>().join(",")
    };
    let (memory, disk) = (kept.eviction.get(MEMORY), kept.eviction.get(EPHEMERAL_STORAGE));
    let arguments = [
        "--kubeconfig=/k".to_owned(),
        "--hostname-override=a".to_owned(),
        format!("--max-pods={pods}"),
        format!("--kube-reserved={}", list(&kept.kube)),
        format!("--system-reserved={}", list(&kept.system)),
        format!("--eviction-hard=memory.available<{memory},nodefs.available<{disk}"),
    ];
    let settings = Settings::read(&arguments, &Disk::default(), "vm", 2).unwrap();
    let capacity = Capacity::of(&machine, &settings, 0);
    let amounts = |all: &std::collections::BTreeMap<String, i64>| {
        all.iter()
            .fold(Resources::new(), |sum, (name, amount)| sum.with(name, *amount))
    };
    (amounts(&capacity.total), amounts(&capacity.allocatable))
}

#[tokio::test(start_paused = true)]
async fn what_is_planned_with_is_what_the_kubelet_reports_and_never_more() {
    let world = World::new();
    let mut class = ClassFacts {
        boot_volume_bytes: 100_000_000_000,
        ..ClassFacts::default()
    };
    for kind in world.kinds.get().await.unwrap().iter() {
        let planned = capacity(kind, &class);
        let kept = Reservation::of(&planned, &class.kubelet);
        let (total, left) = reported(kind, planned.get("pods"), &kept);
        assert_eq!(planned.shortage(&total), None, "{}", kind.name);
        assert_eq!(kept.allocatable(&planned).shortage(&left), None, "{}", kind.name);
        // Once a node was seen, it is exact.
        class.observed.insert(kind.name.clone(), total.clone());
        let seen = capacity(kind, &class);
        let kept = Reservation::of(&seen, &class.kubelet);
        let (_, left) = reported(kind, seen.get("pods"), &kept);
        for (name, amount) in &kept.allocatable(&seen) {
            assert_eq!(left.get(name), *amount, "{name} of {}", kind.name);
        }
    }
}

fn offerings(simulator: &Simulator, args: &[&str], kubeconfig: &str) -> Output {
    let all: Vec<&str> = ["offerings"].iter().chain(args).copied().collect();
    let env = [
        KEY,
        REGION,
        ("IBMCLOUD_ENDPOINT", &simulator.url),
        ("KUBECONFIG", kubeconfig),
    ];
    binary(&all, &env).output().unwrap()
}

/// The rows of a table, each as its words joined by one space.
fn table(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).collect()
}

#[test]
fn the_table_shows_prices_their_source_and_what_is_withheld() {
    let simulator = Simulator::start();
    write::insert(
        &simulator.cluster,
        json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
            "metadata": {"name": "spot.bxf-4x16.us-south-1"},
            "spec": {"key": "spot:bxf-4x16:us-south-1", "reason": "Preempted", "until": "2999-01-01T00:00:00Z"},
        }),
    );
    let kubeconfig = simulator.kubeconfig.to_str().unwrap();
    let output = offerings(&simulator, &[], kubeconfig);
    let rows = table(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        rows[0],
        "PROFILE ZONE CAPACITY VCPU GIB GPUS PRICE/H PRICE FROM AVAILABILITY"
    );
    for row in [
        "bxf-4x16 us-south-1 spot 4 16 - $0.0483 catalogue withheld until 2999-01-01T00:00:00Z (Preempted)",
        "bxf-4x16 us-south-2 spot 4 16 - $0.0483 catalogue available",
        "bxf-4x16 us-south-1 on-demand 4 16 - $0.1930 catalogue available",
        "bx2-4x16 us-south-1 on-demand 4 16 - $0.2010 catalogue available",
        "gx3-32x160x2l4 us-south-1 spot 32 160 2 l4 $0.9250 catalogue available",
    ] {
        assert!(rows.iter().any(|it| it == row), "no {row:?}");
    }
    assert!(!rows.iter().any(|row| row.starts_with("bx2-4x16 us-south-1 spot")));
    let prices: Vec<f64> = rows[1..]
        .iter()
        .filter_map(|row| row.split('$').nth(1)?.split(' ').next()?.parse().ok())
        .collect();
    assert!(
        prices.len() == rows.len() - 1 && prices.is_sorted(),
        "the cheapest first"
    );
}

#[test]
fn zone_spot_and_factor_narrow_the_table_and_a_missing_cluster_is_said() {
    let simulator = Simulator::start();
    let args = [
        "--zone",
        "us-south-2",
        "--spot",
        "--spot-discount-factor",
        "bxf=0.5",
    ];
    let output = offerings(&simulator, &args, "/nonexistent/kubeconfig");
    let (rows, said) = (table(&output), stderr(&output));
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("what is withheld is not known: there is no cluster to ask"),
        "{said}"
    );
    assert!(rows.len() > 10 && rows[1..].iter().all(|row| row.contains(" us-south-2 spot ")));
    let row = "bxf-4x16 us-south-2 spot 4 16 - $0.0965 on-demand x 0.5, set -";
    assert!(rows.iter().any(|it| it == row), "no {row:?}");
}

#[test]
fn a_catalogue_that_does_not_answer_leaves_built_in_prices() {
    let simulator = Simulator::start();
    for lie in [FaultKind::PriceZero, FaultKind::PriceMissing] {
        simulator.cloud.faults().start(Fault::new(lie));
        let output = offerings(&simulator, &["--zone", "us-south-1"], "/nonexistent/kubeconfig");
        let rows = table(&output);
        for row in [
            "bxf-4x16 us-south-1 on-demand 4 16 - $0.1930 built-in, captured -",
            "bxf-4x16 us-south-1 spot 4 16 - $0.0483 on-demand x 0.25, usual -",
        ] {
            assert!(rows.iter().any(|it| it == row), "no {row:?}");
        }
        simulator.cloud.faults().clear();
    }
}

#[test]
fn wrong_arguments_are_bad_input() {
    let simulator = Simulator::start();
    for (args, words) in [
        (
            ["--zone", "us-south-9"],
            ["nothing is sold in `us-south-9`", "hint: one of us-south-1"],
        ),
        (
            ["--spot-discount-factor", "60"],
            ["--spot-discount-factor", "hint: the share"],
        ),
        (
            ["--config-file", "/nonexistent"],
            ["--config-file: /nonexistent", "hint: the path"],
        ),
    ] {
        let output = offerings(&simulator, &args, "/nonexistent/kubeconfig");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            words.iter().all(|word| said.contains(word)),
            "{words:?} not all in: {said}"
        );
        assert!(output.stdout.is_empty());
    }
}
