//! Orders that fail half way: the cloud has made a part of the machine and not the machine. What is left behind holds
//! its name until it is swept; the claim gets its machine all the same, once, and nothing stays behind.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use serde_json::json;

use super::effects::Effects;
use super::{World, audited, chart, joining, while_working};

impl World {
    /// Plays a life whose first order fails half way.
    async fn live_after_a_half(&self) {
        let half = Fault::new(FaultKind::PartialCreate).times(1);
        self.cloud.faults().start(half);
        self.claim("a").await;
        while_working(self.replica(), async {
            self.until("half a machine", Duration::from_mins(1), async || {
                self.cloud.orphans().len() == 1
            })
            .await;
            self.until_launched("a").await;
            assert_eq!(self.living().len(), 1);
            self.until("swept", Duration::from_mins(6), async || {
                self.cloud.orphans().is_empty()
            })
            .await;
            self.delete("a").await;
            self.until_gone("a").await;
            assert!(self.cloud.instances().is_empty() && self.cloud.orphans().is_empty());
        })
        .await;
    }

    /// Of which kinds something was deleted that was no machine.
    fn swept_kinds(&self) -> BTreeSet<String> {
        let requests = self.cloud.requests();
        let deletions = requests.iter().filter(|it| it.method == http::Method::DELETE);
        let kinds = deletions.filter_map(|it| it.path.split('/').nth(2));
        kinds
            .filter(|kind| *kind != "instances")
            .map(str::to_owned)
            .collect()
    }
}

/// The name of the interface or the volume was taken, and that was taken for a refusal of the order for good.
#[tokio::test(start_paused = true)]
async fn what_an_order_left_behind_keeps_no_claim_from_its_machine() {
    let mut met = BTreeSet::new();
    for seed in 1..=4 {
        let world = World::with(|options| options.seed = seed);
        world.live_after_a_half().await;
        met.extend(world.swept_kinds());
    }
    let both = ["virtual_network_interfaces", "volumes"].map(str::to_owned);
    assert_eq!(met, BTreeSet::from(both));
}

/// An order that was carried out half was sent again every few seconds, and the claim written each time.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_asked_for_once_and_the_claim_is_left_alone_meanwhile() {
    for halves in [1, 2] {
        let (world, effects) = (World::new(), Effects::without_end());
        let half = Fault::new(FaultKind::PartialCreate).times(halves);
        world.cloud.faults().start(half);
        world.claim("a").await;
        let replica = audited::factory(World::settings("one"))(effects.around(world.edges()));
        while_working(replica, async {
            world.until_launched("a").await;
            let halves = usize::try_from(halves).unwrap();
            assert_eq!(
                world.orders(),
                2 * halves + 1,
                "each half, its refusal, and the machine"
            );
            let is_claims = |(_, path): &&(Method, String)| path.contains("/nodeclaims/a");
            let writes = effects.log().iter().filter(is_claims).count();
            // The finalizer, the first intent, the machine, its labels and that it runs; and for each half the repeated
            // order, the fault and the next intent.
            assert_eq!(writes, 5 + 3 * halves, "{:?}", effects.log());
        })
        .await;
    }
}

/// An order that is repeated long after its intent was taken for refused by a leftover, when its own machine had the name:
/// the next attempt found that machine, and never let it join.
#[tokio::test(start_paused = true)]
async fn a_machine_that_was_bought_late_and_unseen_joins() {
    let world = World::new();
    let outage = Fault::new(FaultKind::ServerError).on("instances.create");
    world.cloud.faults().start(outage);
    world.claim("a").await;
    while_working(chart::replica(&world), async {
        world.clock.sleep(Duration::from_mins(2)).await;
        world.cloud.faults().clear();
        let refused = world.orders();
        world.cloud.faults().start(Fault::new(FaultKind::ReadLag));
        let lost = Fault::new(FaultKind::LostCreate).times(1);
        world.cloud.faults().start(lost);
        world
            .until("bought", Duration::from_mins(1), async || {
                world.living().len() == 1
            })
            .await;
        joining::until_joined(&world, "a").await;
        let orders = world.orders() - refused;
        assert!(orders <= 2, "{orders}");
        let status = world.read("a").await.unwrap().status.unwrap();
        assert_eq!(status.allocation.unwrap().attempt, 1);
        assert_eq!(world.living().len(), 1);
    })
    .await;
}

/// A class with a data volume that goes with its machine, and one that stays.
async fn with_data_volumes(world: &World) {
    let data = |name: &str, goes: bool| json!({"deviceName": name, "volumeSpec": {"capacity": 20, "deleteOnTermination": goes}});
    let volumes = json!([{"rootVolume": true}, data("scratch", true), data("data", false)]);
    let change = json!({"blockDeviceMappings": volumes});
    world.change_class("default", &change).await;
}

/// How the parts that hang on no machine are named after theirs.
fn parts_left(world: &World) -> BTreeSet<String> {
    let parts = world.cloud.parts_without_instance().into_iter();
    let after_stem = |part: String| part.splitn(4, '-').last().map(str::to_owned);
    parts.filter_map(|part| after_stem(part.name)).collect()
}

#[tokio::test(start_paused = true)]
async fn of_data_volumes_that_an_order_left_behind_only_those_that_go_with_their_machine_are_swept() {
    let mut met = BTreeSet::new();
    for seed in 1..=16 {
        let world = World::with(|options| options.seed = seed);
        with_data_volumes(&world).await;
        let half = Fault::new(FaultKind::PartialCreate).times(1);
        world.cloud.faults().start(half);
        world.claim("a").await;
        while_working(world.replica(), async {
            world
                .until("half a machine", Duration::from_mins(1), async || {
                    !parts_left(&world).is_empty()
                })
                .await;
            let left = parts_left(&world);
            world.until_launched("a").await;
            world.clock.sleep(Duration::from_mins(10)).await;
            let kept: BTreeSet<String> = left
                .iter()
                .filter(|it| it.starts_with("data-"))
                .cloned()
                .collect();
            assert_eq!(parts_left(&world), kept, "of {left:?}");
            assert_eq!(world.living().len(), 1);
            met.extend(left);
        })
        .await;
    }
    let all = ["vni", "boot", "scratch-0", "data-1"].map(str::to_owned);
    assert_eq!(met, BTreeSet::from(all));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_forgets_volumes_costs_no_data_that_was_to_be_kept_whatever_the_class_says_by_then() {
    let world = World::new();
    with_data_volumes(&world).await;
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world
            .cloud
            .faults()
            .start(Fault::new(FaultKind::AutoDeleteIgnored));
        let none = json!({"blockDeviceMappings": null});
        world.change_class("default", &none).await;
        world.delete("a").await;
        world.until_gone("a").await;
        let all = ["vni", "boot", "scratch-0", "data-1"].map(str::to_owned);
        assert_eq!(parts_left(&world), BTreeSet::from(all), "nothing went with it");
        world.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(parts_left(&world), BTreeSet::from(["data-1".to_owned()]));
        let told = world.told("GarbageCollected").await;
        assert!(
            told.iter().any(|(_, _, note)| note.contains("data volume")),
            "{told:?}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_boot_volume_that_was_kept_stays_when_the_class_keeps_them_no_longer() {
    let world = World::new();
    let root = |goes: bool| json!({"blockDeviceMappings": [{"rootVolume": true, "volumeSpec": {"deleteOnTermination": goes}}]});
    world.change_class("default", &root(false)).await;
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.delete("a").await;
        world.until_gone("a").await;
        world.change_class("default", &root(true)).await;
        world.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(parts_left(&world), BTreeSet::from(["boot-kept".to_owned()]));
    })
    .await;
}

/// Somebody detaches a volume from a machine to look at it: it is not left behind before the machine is gone.
#[tokio::test(start_paused = true)]
async fn a_data_volume_that_is_detached_from_a_machine_that_lives_is_left_alone() {
    let world = World::new();
    with_data_volumes(&world).await;
    while_working(world.replica(), async {
        world.ready_node("a").await;
        let machine = world.machine_of("a").await;
        world.cloud.detach_volumes(&machine);
        world.clock.sleep(Duration::from_mins(30)).await;
        let detached = ["scratch-0", "data-1"].map(str::to_owned);
        assert_eq!(parts_left(&world), BTreeSet::from(detached));
        world.delete("a").await;
        world.until_gone("a").await;
        world.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(parts_left(&world), BTreeSet::from(["data-1".to_owned()]));
    })
    .await;
}

/// A volume that is kept on purpose has its name for as long as somebody wants it.
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_kept_refuses_no_later_attempt() {
    let world = World::new();
    let kept = json!({"capacity": 20, "deleteOnTermination": false});
    let root = json!({"deviceName": "root", "rootVolume": true});
    let volumes = json!([root, {"deviceName": "data", "volumeSpec": kept}]);
    world
        .change_class("default", &json!({"blockDeviceMappings": volumes}))
        .await;
    let broken = Fault::new(FaultKind::StartFails).reason("cannot_start_compute");
    world.cloud.faults().start(broken.times(1));
    world.claim("a").await;
    while_working(world.replica(), async {
        world.until_launched("a").await;
        let status = world.read("a").await.unwrap().status.unwrap();
        assert_eq!(status.allocation.unwrap().attempt, 2);
        assert_eq!(world.living().len(), 1);
        assert_eq!(world.orders(), 2, "no order was refused");
    })
    .await;
}
