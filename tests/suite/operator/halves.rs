//! Orders that fail half way: the cloud has made a part of the machine and not the machine. What is left behind holds
//! its name until it is swept; the claim gets its machine all the same, once, and nothing stays behind.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use serde_json::json;

use super::{World, while_working};

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
