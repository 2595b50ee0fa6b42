//! What a NodePool may have in all holds at each purchase, whoever made the claims.

use std::time::Duration;

use karpenter_ibm::api::NodePool;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{World, while_working};

impl World {
    /// The pool of all claims here, with these limits.
    pub(super) async fn limited_pool(&self, limits: &Value) {
        let pools: Api<NodePool> = Api::all(self.kube.admin());
        let pool = serde_json::from_value(json!({
            "metadata": {"name": "default"},
            "spec": {"limits": limits, "template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            }}},
        }));
        pools
            .create(&PostParams::default(), &pool.unwrap())
            .await
            .unwrap();
    }

    async fn limit(&self, limits: &Value) {
        let pools: Api<NodePool> = Api::all(self.kube.admin());
        let patch = Patch::Merge(json!({"spec": {"limits": limits}}));
        let patched = pools.patch("default", &PatchParams::default(), &patch).await;
        patched.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_is_bought_for_a_pool_than_it_may_have_of_any_resource() {
    // A bxf-2x8 has two processors and less than 8 GiB.
    for limits in [
        json!({"nodes": 2}),
        json!({"cpu": "5"}),
        json!({"memory": "16Gi"}),
    ] {
        let world = World::new();
        world.limited_pool(&limits).await;
        while_working(world.replica(), async {
            for name in ["a", "b", "c"] {
                world.claim(name).await;
            }
            world.clock.sleep(Duration::from_mins(3)).await;
            assert_eq!((world.living().len(), world.orders()), (2, 2), "{limits}");
            assert_eq!(world.reasons().await, ["InsufficientCapacity"]);
            let note = world.note("InsufficientCapacity").await.unwrap();
            assert!(note.contains("NodePool default would have"), "{note}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_may_have_nothing_gets_nothing_and_a_lowered_limit_takes_nothing_away() {
    let world = World::new();
    world.limited_pool(&json!({"nodes": 5})).await;
    while_working(world.replica(), async {
        for name in ["a", "b"] {
            world.claim(name).await;
            world.until_launched(name).await;
        }
        world.limit(&json!({"cpu": "0", "nodes": null})).await;
        world.claim("c").await;
        world.until_gone("c").await;
        world.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!((world.living().len(), world.orders()), (2, 2));
        world.limit(&json!({"cpu": "100"})).await;
        world.claim("d").await;
        world.until_launched("d").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_two_leaders_promise_at_once_is_caught_before_it_is_bought() {
    let world = World::new();
    world.limited_pool(&json!({"nodes": 2})).await;
    while_working(world.two_leaders().await, async {
        for name in ["a", "b", "c", "d"] {
            world.claim(name).await;
        }
        let end = world.clock.instant() + Duration::from_mins(10);
        while world.clock.instant() < end {
            assert!(world.cloud.instances().len() <= 2, "more than the pool may have");
            world.clock.sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
}
