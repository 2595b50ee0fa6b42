//! A kubelet may write its own Node's labels and annotations, NodeRestriction or not: that gains it nothing, since the
//! claim and the machine say what a Node is, and nobody else.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{World, while_working};

/// What a machine bought as spot in us-south-1 would rather be.
fn finery() -> Value {
    json!({"metadata": {
        "labels": {
            "karpenter.sh/nodepool": "other", "karpenter.sh/capacity-type": "on-demand",
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
            "node.kubernetes.io/instance-type": "bx2-128x512", "topology.kubernetes.io/zone": "us-south-3",
        },
        "annotations": {
            "karpenter.sh/do-not-disrupt": "true", "karpenter.sh/nodeclaim-termination-timestamp": "2036-01-01T00:00:00Z",
        },
    }})
}

/// What of it counts, and what is true.
const TRUTH: [(&str, &str); 4] = [
    ("karpenter.sh/nodepool", "default"),
    ("karpenter.sh/capacity-type", "spot"),
    ("node.kubernetes.io/instance-type", "bxf-2x8"),
    ("topology.kubernetes.io/zone", "us-south-1"),
];

impl World {
    /// The kubelet dresses up, and takes off what keeps pods away from a Node that is not registered.
    async fn dress_up(&self, name: &str) {
        let params = PatchParams::default();
        let nodes = self.nodes();
        nodes.patch(name, &params, &Patch::Merge(finery())).await.unwrap();
        let bare = json!({"spec": {"taints": null}});
        nodes.patch(name, &params, &Patch::Merge(bare)).await.unwrap();
    }

    async fn claim_says_the_truth(&self, name: &str) {
        let claim = self.read(name).await.unwrap();
        for (label, value) in TRUTH {
            assert_eq!(claim.labels()[label], value);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_dresses_up_before_it_is_registered_becomes_what_its_claim_says() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.join("a").await;
        world.dress_up("a").await;
        world
            .until("registered", Duration::from_mins(1), async || {
                world.is_true("a", "Registered").await
            })
            .await;
        let node = world.nodes().get("a").await.unwrap();
        for (label, value) in TRUTH {
            assert_eq!(node.labels()[label], value);
        }
        world.claim_says_the_truth("a").await;
        world.clock.sleep(Duration::from_mins(2)).await;
        assert!(
            !world.is_true("a", "Initialized").await,
            "a label makes no node ready for work"
        );
        world.delete("a").await;
        world.until_gone("a").await;
        assert!(
            world.cloud.instances().is_empty(),
            "no annotation keeps a machine"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_dresses_up_later_is_treated_as_the_spot_machine_it_is() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        world.dress_up("a").await;
        world.clock.sleep(Duration::from_mins(10)).await;
        world.claim_says_the_truth("a").await;
        let [machine] = world.living().try_into().unwrap();
        world.cloud.preempt(&machine.id).unwrap();
        world.until_gone("a").await;
        assert!(world.note("SpotPreemption").await.is_some());
        assert_eq!(world.holds().await, ["spot.bxf-2x8.us-south-1"]);
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}
