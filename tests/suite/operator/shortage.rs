//! What is not to be had: it is withheld, the claim goes on with something else, and ends with a reason when nothing is
//! left.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::events::v1::Event;
use karpenter_ibm::api::{NodeClaim, UnavailableOffering};
use karpenter_ibm::sim::ibm::{Fault, FaultKind, START_FAILURES};
use karpenter_ibm::sim::kube::write;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::effects::Answered;
use super::refusals::{held_back, replica};
use super::{World, audited, joining, while_working};

impl World {
    /// A claim that leaves everything open but what `requirements` say.
    pub(super) async fn wish(&self, name: &str, requirements: Value) -> NodeClaim {
        let claim = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": requirements,
                "resources": {"requests": {"cpu": "1500m", "memory": "4Gi", "pods": "5"}},
            },
        }));
        let created = self
            .claims()
            .create(&PostParams::default(), &claim.unwrap())
            .await;
        created.unwrap()
    }

    /// The names of all holds.
    pub(super) async fn holds(&self) -> Vec<String> {
        let holds: Api<UnavailableOffering> = Api::all(self.kube.admin());
        let holds = holds.list(&ListParams::default()).await.unwrap();
        holds.iter().map(ResourceExt::name_any).collect()
    }

    /// The note of the event with that reason.
    pub(super) async fn note(&self, reason: &str) -> Option<String> {
        let events: Api<Event> = Api::all(self.kube.admin());
        let events = events.list(&ListParams::default()).await.unwrap();
        let told = events
            .items
            .into_iter()
            .find(|it| it.reason.as_deref() == Some(reason));
        told.and_then(|event| event.note)
    }

    async fn attempt(&self, name: &str) -> i64 {
        let status = self.read(name).await.unwrap().status.unwrap();
        status.allocation.unwrap().attempt
    }
}

/// Spot machines of two kinds.
fn two_kinds() -> Value {
    json!([
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8", "bxf-4x16"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-south-1"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
    ])
}

#[tokio::test(start_paused = true)]
async fn the_cheapest_machine_that_fits_is_bought_whatever_the_operators_of_the_requirements() {
    let world = World::new();
    while_working(world.replica(), async {
        let wish = json!([
            {"key": "karpenter-ibm.sh/instance-family", "operator": "In", "values": ["bxf", "bx2"]},
            {"key": "karpenter-ibm.sh/instance-cpu", "operator": "Gt", "values": ["2"]},
            {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["us-south-1"]},
            {"key": "karpenter.sh/capacity-type", "operator": "Exists"},
        ]);
        world.wish("a", wish).await;
        world.until_launched("a").await;
        let claim = world.read("a").await.unwrap();
        let labels = claim.labels();
        assert_eq!(labels["node.kubernetes.io/instance-type"], "bxf-4x16");
        assert_eq!(labels["karpenter.sh/capacity-type"], "spot");
        assert_eq!(labels["topology.kubernetes.io/zone"], "us-south-2");
        assert_eq!(labels["karpenter-ibm.sh/instance-cpu"], "4");
        let allocation = claim.status.unwrap().allocation.unwrap();
        assert!(allocation.price.is_some());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_shortage_at_once_withholds_the_offering_and_another_is_bought_in_the_same_attempt() {
    let world = World::new();
    world
        .cloud
        .faults()
        .start(Fault::new(FaultKind::CapacityRefused).times(1));
    while_working(world.replica(), async {
        world.wish("a", two_kinds()).await;
        world.until_launched("a").await;
        assert_eq!(world.holds().await, ["spot.bxf-2x8.us-south-1"]);
        let claim = world.read("a").await.unwrap();
        assert_eq!(claim.labels()["node.kubernetes.io/instance-type"], "bxf-4x16");
        assert_eq!(world.attempt("a").await, 1);
        assert_eq!(world.reasons().await, ["InsufficientCapacity"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_shortage_after_the_order_was_accepted_withholds_the_offering_and_frees_the_name() {
    let world = World::new();
    let fails = Fault::new(FaultKind::StartFails).reason("cannot_start_capacity");
    world.cloud.faults().start(fails.times(1));
    while_working(world.replica(), async {
        world.wish("a", two_kinds()).await;
        let begun = world.clock.instant();
        world.until_launched("a").await;
        assert!(
            world.clock.instant() - begun < Duration::from_mins(2),
            "nobody waits while another offering is left"
        );
        assert_eq!(world.holds().await, ["spot.bxf-2x8.us-south-1"]);
        assert_eq!(world.attempt("a").await, 2);
        let [machine] = world.living().try_into().unwrap();
        assert_eq!(machine.profile, "bxf-4x16");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_subnet_without_addresses_is_avoided_and_nothing_is_withheld() {
    let world = World::new();
    let fails = Fault::new(FaultKind::StartFails).reason("cannot_start_ip_address");
    world.cloud.faults().start(fails.times(1));
    while_working(world.replica(), async {
        let anywhere = json!([
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8"]},
        ]);
        world.wish("a", anywhere).await;
        world.until_launched("a").await;
        assert!(world.holds().await.is_empty());
        assert_eq!(world.reasons().await, ["NoAddress"]);
        assert_eq!(world.attempt("a").await, 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_order_that_finds_no_address_concerns_the_subnet_and_not_the_offering() {
    let world = World::new();
    world
        .cloud
        .faults()
        .start(Fault::new(FaultKind::NoAddresses).times(1));
    while_working(world.replica(), async {
        let anywhere = json!([
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8"]},
        ]);
        world.wish("a", anywhere).await;
        world.until_launched("a").await;
        assert_eq!(world.holds().await, [""; 0]);
        assert_eq!(world.reasons().await, ["NoAddress"]);
        let [machine] = world.living().try_into().unwrap();
        let note = world.note("NoAddress").await.unwrap();
        assert!(note.ends_with("has no address left"), "{note}");
        assert!(!note.contains(&machine.subnet), "{note}");
        assert_eq!((world.orders(), world.attempt("a").await), (2, 1));
    })
    .await;
}

/// But for a shortage and for a lack of addresses, which are no faults.
#[tokio::test(start_paused = true)]
async fn other_faults_are_told_and_end_the_claim_after_three_machines() {
    let faults = START_FAILURES.map(|(code, _)| code).into_iter();
    let faults = faults.filter(|code| !["cannot_start_capacity", "cannot_start_ip_address"].contains(code));
    for code in faults {
        let world = World::new();
        let fails = Fault::new(FaultKind::StartFails).reason(code);
        world.cloud.faults().start(fails);
        while_working(world.replica(), async {
            world.claim("a").await;
            world
                .until("gone", Duration::from_mins(10), async || {
                    world.read("a").await.is_none()
                })
                .await;
            let note = world.note("LaunchFailed").await.unwrap();
            assert_eq!(note, format!("attempt 3: the machine failed: {code}"));
            assert_eq!(world.orders(), 3, "{code}");
            assert!(world.cloud.instances().is_empty(), "{code}");
            assert!(world.holds().await.is_empty(), "{code}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn when_nothing_is_left_the_claim_waits_half_a_minute_and_ends_with_the_reason() {
    let world = World::new();
    world.cloud.faults().start(Fault::new(FaultKind::CapacityRefused));
    while_working(world.replica(), async {
        world.wish("a", two_kinds()).await;
        world
            .until("short", Duration::from_mins(1), async || {
                world.holds().await.len() == 2
            })
            .await;
        let begun = world.clock.instant();
        world.until_gone("a").await;
        assert!(world.clock.instant() - begun >= Duration::from_secs(30));
        let events: Api<Event> = Api::all(world.kube.admin());
        let events = events.list(&ListParams::default()).await.unwrap();
        let told = events
            .iter()
            .filter(|it| it.action.as_deref() == Some("Delete"))
            .filter_map(|it| it.note.clone());
        let told: Vec<String> = told.collect();
        assert_eq!(told.len(), 1);
        assert!(
            told[0].contains("2 offerings are withheld (Shortage)"),
            "{told:?}"
        );
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_no_offering_can_be_is_bought_nowhere() {
    let world = World::new();
    while_working(world.replica(), async {
        let impossible = json!([
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            {"key": "karpenter-ibm.sh/instance-family", "operator": "In", "values": ["bx2"]},
        ]);
        world.wish("a", impossible).await;
        world.until_gone("a").await;
        assert_eq!(world.reasons().await, ["InsufficientCapacity"]);
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_breaker_holds_back_what_goes_beyond_it_and_says_so_and_lets_it_pass_when_there_is_room() {
    let world = World::new();
    let (replica, registry) = replica(&world, |settings| settings.controllers.breakers.machines_max = 1);
    while_working(replica, async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.claim("b").await;
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(world.living().len(), 1);
        let note = world.note("LaunchHeldBack").await.unwrap();
        assert_eq!(note, "there would be 2 machines, and the limit is 1");
        assert_eq!(world.reasons().await, ["LaunchHeldBack"], "once");
        assert!(held_back(&registry, "machines") >= 1.0);
        assert!(held_back(&registry, "launches").abs() < 0.5);
        world.delete("a").await;
        world.until_gone("a").await;
        world.until_launched("b").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_more_machines_are_bought_than_a_subnet_has_addresses() {
    // Eight addresses, of which IBM keeps five.
    let world = World::with(|options| options.subnet_prefix = 29);
    while_working(world.replica(), async {
        let here = json!([
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-south-1"]},
        ]);
        for name in ["a", "b", "c", "d"] {
            world.wish(name, here.clone()).await;
        }
        world.clock.sleep(Duration::from_mins(3)).await;
        assert_eq!(world.living().len(), 3);
        let claims = world.claims().list(&ListParams::default()).await.unwrap();
        assert_eq!(claims.items.len(), 3, "the fourth has ended");
        assert_eq!(
            world.reasons().await,
            ["InsufficientCapacity"],
            "and no order was refused"
        );
        let note = world.note("InsufficientCapacity").await.unwrap();
        assert!(
            note.contains("no subnet has an address left in us-south-1"),
            "{note}"
        );
    })
    .await;
}

/// The order of the first choice was carried out and its answer lost; reads show the machine only once another choice was
/// made and ordered under the same name.
#[tokio::test(start_paused = true)]
async fn a_machine_of_an_earlier_choice_is_adopted_as_what_it_is() {
    let world = World::with(|options| options.timings.read_lag = Duration::from_secs(40));
    let faults = world.cloud.faults();
    faults.start(Fault::new(FaultKind::LostCreate).times(1));
    faults.start(Fault::new(FaultKind::ReadLag));
    let answered = Answered::default();
    let replica = audited::factory(World::settings("one"))(answered.around(world.edges()));
    while_working(replica, async {
        world.wish("a", two_kinds()).await;
        world
            .until("ordered", Duration::from_mins(1), async || world.orders() > 0)
            .await;
        // The same as if another claim had found that it is not to be had.
        write::insert(
            &world.kube,
            json!({
                "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
                "metadata": {"name": "spot.bxf-2x8.us-south-1"},
                "spec": {
                    "key": "spot:bxf-2x8:us-south-1", "reason": "Shortage",
                    "since": "2026-11-16T10:00:00Z", "until": "2026-11-16T11:00:00Z",
                },
            }),
        );
        let chosen = async || world.read("a").await.unwrap().status.unwrap().allocation.unwrap();
        world
            .until("chosen anew", Duration::from_secs(30), async || {
                chosen().await.profile == "bxf-4x16"
            })
            .await;
        let name = chosen().await.instance_name;
        world.until_launched("a").await;
        assert!(
            answered.all().contains(&StatusCode::BAD_REQUEST),
            "the name was taken"
        );
        let [machine] = world.living().try_into().unwrap();
        assert_eq!(
            (machine.name.as_str(), machine.profile),
            (name.as_str(), "bxf-2x8")
        );
        let allocation = chosen().await;
        assert_eq!((allocation.profile.as_str(), allocation.attempt), ("bxf-2x8", 1));
        let expected = |labels: &BTreeMap<String, String>| {
            assert_eq!(labels["node.kubernetes.io/instance-type"], "bxf-2x8");
            assert_eq!(labels["karpenter-ibm.sh/instance-cpu"], "2");
            assert_eq!(labels["karpenter-ibm.sh/instance-memory"], "8192");
        };
        expected(world.read("a").await.unwrap().labels());
        world.join("a").await;
        world.until_registered("a").await;
        expected(joining::node(&world, "a").await.unwrap().labels());
    })
    .await;
}
