//! Claims that end by age or ill health.

use std::time::Duration;

use jiff::SignedDuration;
use karpenter_ibm::api::NodeClaim;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{World, while_working};

impl World {
    pub(super) async fn claim_that_expires(&self, name: &str, expire_after: &str) -> NodeClaim {
        self.claim_with(name, json!({"expireAfter": expire_after})).await
    }

    /// A claim that says this besides what every claim says.
    pub(super) async fn claim_with(&self, name: &str, spec: Value) -> NodeClaim {
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8"]},
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-south-1"]},
                ],
            },
        });
        json_patch::merge(&mut claim["spec"], &spec);
        let claim = serde_json::from_value(claim).unwrap();
        self.claims()
            .create(&PostParams::default(), &claim)
            .await
            .unwrap()
    }

    pub(super) async fn unhealthy(&self, name: &str) {
        let now = self.clock.now().to_string();
        let status = json!({"status": {"conditions": [{
            "type": "Ready", "status": "Unknown", "lastTransitionTime": now, "message": "no word from its kubelet",
        }]}});
        let params = PatchParams::default();
        self.nodes()
            .patch_status(name, &params, &Patch::Merge(status))
            .await
            .unwrap();
    }

    async fn leaving(&self) -> usize {
        let claims = self.claims().list(&ListParams::default()).await.unwrap();
        claims
            .items
            .iter()
            .filter(|it| it.metadata.deletion_timestamp.is_some())
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_goes_when_it_has_lived_as_long_as_it_may() {
    let world = World::new();
    while_working(world.replica(), async {
        let born = world.clock.now();
        world.claim_that_expires("a", "1h").await;
        world.claim_that_expires("b", "Never").await;
        world.make_node("a").await;
        world.make_node("b").await;
        world
            .until("leaving", Duration::from_mins(62), async || {
                world.leaving().await == 1
            })
            .await;
        let age = (world.clock.now() - born).get_seconds();
        assert!((3600..=3605).contains(&age), "{age}");
        world.until_gone("a").await;
        assert_eq!(world.told("Expired").await[0].0, "NodeClaim a");
        world.clock.sleep(Duration::from_hours(2)).await;
        assert!(world.read("b").await.is_some());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_whose_clock_is_ten_years_ahead_expires_nobody() {
    let world = World::new();
    while_working(world.replica(), async {
        for name in ["a", "b", "c"] {
            world.claim_that_expires(name, "3h").await;
            world.until_launched(name).await;
            world.make_node(name).await;
        }
    })
    .await;
    // The next to lead never saw the clock right; it is set right in the end.
    let (clock, replica) = world.replica_astray("two", SignedDuration::from_hours(24 * 3650));
    while_working(replica, async {
        clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(world.leaving().await, 0);
        clock.set_skew(SignedDuration::ZERO);
        clock.sleep(Duration::from_mins(110)).await;
        assert_eq!((world.leaving().await, world.living().len()), (0, 3));
        clock.sleep(Duration::from_hours(1)).await;
        assert!(!world.told("Expired").await.is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_unhealthy_is_repaired_and_never_more_than_a_fifth_of_its_pool() {
    let world = World::new();
    while_working(world.replica(), async {
        for name in ["a", "b", "c", "d"] {
            world.ready_node_of(name, &["on-demand"]).await;
        }
        for name in ["a", "b"] {
            world.unhealthy(name).await;
        }
        world.clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(world.leaving().await, 0, "half of the pool: it is not the nodes");
        assert_eq!(world.told("NodeRepairBlocked").await.len(), 2);
        world.make_ready("b").await;
        world.unhealthy("a").await;
        world.clock.sleep(Duration::from_mins(29)).await;
        assert_eq!(world.leaving().await, 0, "it is tolerated for half an hour");
        world.until_gone("a").await;
        assert_eq!(world.told("Unhealthy").await.len(), 1);
    })
    .await;
}
