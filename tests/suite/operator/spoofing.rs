//! A kubelet may write its own Node's labels and annotations, NodeRestriction or not: that gains it nothing, since the
//! claim and the machine say what a Node is, and nobody else.

use std::time::Duration;

use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
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

    async fn node_says_the_truth(&self, name: &str) -> bool {
        let node = self.nodes().get(name).await.unwrap();
        let has = |(label, value): &(&str, &str)| node.labels().get(*label).is_some_and(|it| it == value);
        TRUTH.iter().all(has)
    }

    /// The keys of a Node's taints.
    async fn taints(&self, name: &str) -> Vec<String> {
        let node = self.nodes().get(name).await.unwrap();
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        taints.into_iter().map(|taint| taint.key).collect()
    }

    /// The version of a Node: it stays while nobody writes.
    async fn version(&self, name: &str) -> String {
        let node = self.nodes().get(name).await.unwrap();
        node.resource_version().unwrap()
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
        world.until_registered("a").await;
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
        world
            .until("put right", Duration::from_secs(45), async || {
                world.node_says_the_truth("a").await
            })
            .await;
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

/// A claim whose pool wants a taint that lasts, one that goes by itself, and a label of its own.
async fn guarded(world: &World) {
    let claim = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "a", "labels": {"karpenter.sh/nodepool": "default", "team": "shop"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8"]},
            ],
            "taints": [{"key": "shop", "value": "only", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "begin", "effect": "NoSchedule"}],
        },
    }));
    let made = world
        .claims()
        .create(&PostParams::default(), &claim.unwrap())
        .await;
    made.unwrap();
}

impl World {
    async fn change_node(&self, name: &str, change: Value) {
        let params = PatchParams::default();
        self.nodes()
            .patch(name, &params, &Patch::Merge(change))
            .await
            .unwrap();
    }

    async fn guarded_ready_node(&self) {
        guarded(self).await;
        self.until_launched("a").await;
        self.join("a").await;
        self.until_registered("a").await;
        assert!(self.taints("a").await.contains(&"begin".to_owned()));
        self.make_ready("a").await;
        self.until("ready", Duration::from_mins(1), async || {
            self.is_true("a", "Ready").await
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_lasts_comes_back_and_neither_startup_taints_nor_what_others_wrote_are_touched() {
    let world = World::new();
    while_working(world.replica(), async {
        world.guarded_ready_node().await;
        let own = json!({
            "metadata": {"labels": {"people": "ours", "team": "bank"}},
            "spec": {"taints": [
                {"key": "shop", "value": "nobody", "effect": "NoSchedule"},
                {"key": "people", "effect": "NoSchedule"},
            ]},
        });
        world.change_node("a", own).await;
        world.clock.sleep(Duration::from_secs(45)).await;
        let node = world.nodes().get("a").await.unwrap();
        assert_eq!(
            (&*node.labels()["people"], &*node.labels()["team"]),
            ("ours", "shop")
        );
        let taints = node.spec.unwrap().taints.unwrap();
        let shop = taints.iter().find(|taint| taint.key == "shop").unwrap();
        assert_eq!(shop.value.as_deref(), Some("only"));
        assert_eq!(world.taints("a").await, ["shop", "people"]);
        let bare = json!({"spec": {"taints": null}});
        world.change_node("a", bare).await;
        world.clock.sleep(Duration::from_secs(45)).await;
        assert_eq!(world.taints("a").await, ["shop"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_as_its_claim_says_is_not_written_to() {
    let world = World::new();
    while_working(world.replica(), async {
        world.guarded_ready_node().await;
        world.clock.sleep(Duration::from_secs(10)).await;
        let before = world.version("a").await;
        world.clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(world.version("a").await, before);
        // Somebody's own words are no reason to write either.
        world
            .change_node("a", json!({"metadata": {"labels": {"people": "ours"}}}))
            .await;
        let before = world.version("a").await;
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(world.version("a").await, before);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn somebody_who_writes_a_label_again_and_again_is_answered_twice_a_minute_at_most() {
    let world = World::new();
    while_working(world.replica(), async {
        world.guarded_ready_node().await;
        let mut answered = 0;
        for _ in 0..300 {
            let node = world.nodes().get("a").await.unwrap();
            if node.labels()["team"] == "shop" {
                answered += 1;
                world
                    .change_node("a", json!({"metadata": {"labels": {"team": "bank"}}}))
                    .await;
            }
            world.clock.sleep(Duration::from_secs(1)).await;
        }
        assert!((5..=12).contains(&answered), "{answered} within five minutes");
    })
    .await;
}

/// A machine that came up as something else than was ordered: the Node says what it is.
#[tokio::test(start_paused = true)]
async fn the_labels_of_a_node_are_those_of_its_machine_also_where_another_was_ordered() {
    let world = World::new();
    world
        .cloud
        .faults()
        .start(Fault::new(FaultKind::WrongProfile).times(1));
    while_working(world.replica(), async {
        world.ready_node("a").await;
        let [machine] = world.living().try_into().unwrap();
        assert_ne!((machine.profile, &*machine.zone), ("bxf-2x8", "us-south-1"));
        let node = world.nodes().get("a").await.unwrap();
        let says = |label: &str| node.labels()[label].clone();
        assert_eq!(says("node.kubernetes.io/instance-type"), machine.profile);
        assert_eq!(says("topology.kubernetes.io/zone"), machine.zone);
    })
    .await;
}

/// Seed 003, Migration: allocation annotations that another tool wrote are neither read nor written nor removed.
#[tokio::test(start_paused = true)]
async fn allocation_annotations_of_another_tool_stay_as_they_are() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        let theirs = json!({"metadata": {"annotations": {
            "weka.io/drive-claims": "{\"a\": [\"nvme0\"]}", "example.com/allocation": "us-south-3/bx2-128x512",
        }}});
        let params = PatchParams::default();
        let patched = world.claims().patch("a", &params, &Patch::Merge(theirs.clone())).await;
        patched.unwrap();
        world.make_node("a").await;
        world.change_node("a", theirs.clone()).await;
        world.dress_up("a").await;
        world.clock.sleep(Duration::from_mins(6)).await;
        let claim = world.read("a").await.unwrap();
        let node = world.nodes().get("a").await.unwrap();
        for (key, value) in theirs["metadata"]["annotations"].as_object().unwrap() {
            assert_eq!(claim.annotations()[key], *value);
            assert_eq!(node.annotations()[key], *value);
        }
        let allocation = claim.status.unwrap().allocation.unwrap();
        assert_eq!((&*allocation.profile, &*allocation.zone), ("bxf-2x8", "us-south-1"));
    })
    .await;
}
