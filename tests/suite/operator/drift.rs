//! Machines that are no longer what their class asks for.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use karpenter_ibm::api::Condition;
use karpenter_ibm::sim::ibm::{ImageStatus, SubnetCondition};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{World, while_working};

/// Two rounds: one to resolve the class, one to compare.
const SOON: Duration = Duration::from_mins(12);

impl World {
    async fn drifted(&self, name: &str) -> Option<Condition> {
        let conditions = self.read(name).await?.status?.conditions?;
        conditions.into_iter().find(|it| it.type_ == "Drifted")
    }

    async fn until_drifted(&self, name: &str) -> (String, String) {
        self.until("drifted", SOON, async || self.drifted(name).await.is_some())
            .await;
        let found = self.drifted(name).await.unwrap();
        assert_eq!(found.status, "True");
        (found.reason.unwrap(), found.message.unwrap())
    }

    async fn until_not_drifted(&self, name: &str) {
        self.until("not drifted", SOON, async || self.drifted(name).await.is_none())
            .await;
    }

    /// A world's class after a change, and what becomes of the machine that was made before it.
    async fn after(&self, change: &Value) -> (String, String) {
        self.claim("a").await;
        self.until_launched("a").await;
        self.clock.sleep(SOON).await;
        assert_eq!(self.drifted("a").await, None, "nothing has changed yet");
        self.change_class("default", change).await;
        self.until_drifted("a").await
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_class_is_drift_and_a_change_taken_back_is_none() {
    let world = World::new();
    while_working(world.replica(), async {
        let key = world.cloud.account().key;
        let (reason, message) = world.after(&json!({"sshKeys": [key]})).await;
        assert_eq!(reason, "NodeClassDrift");
        assert_eq!(message, format!(r#"sshKeys: was absent, is ["{key}"]"#));
        world.change_class("default", &json!({"sshKeys": null})).await;
        world.until_not_drifted("a").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_newer_image_is_drift() {
    let world = World::new();
    let before = world.cloud.add_image("team-1", ImageStatus::Available);
    let selector = json!({"os": "ubuntu", "majorVersion": "24", "variant": "team"});
    let own = json!({"image": null, "imageSelector": selector, "imageOwner": "account"});
    world.change_class("default", &own).await;
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        assert_eq!(world.living()[0].image, before);
        let now = world.cloud.add_image("team-2", ImageStatus::Available);
        let (reason, message) = world.until_drifted("a").await;
        assert_eq!(reason, "ImageDrift");
        assert_eq!(message, format!("image: was {before}, is {now}"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_subnet_that_the_class_leaves_is_drift() {
    let world = World::new();
    let vpc = world.cloud.account().vpc;
    let network = Ipv4Addr::new(10, 250, 0, 0);
    let other = world.cloud.add_subnet("other", &vpc, "us-south-1", network, 28);
    while_working(world.replica(), async {
        let (reason, message) = world.after(&json!({"subnet": other})).await;
        let before = &world.living()[0].subnet;
        assert_eq!(reason, "SubnetDrift");
        assert_eq!(message, format!("subnet: was {before}, is one of {other}"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_subnet_that_fails_or_is_deleted_under_a_machine_is_drift_and_one_that_recovers_is_none() {
    for condition in [SubnetCondition::Failed, SubnetCondition::Deleted] {
        let world = World::new();
        while_working(world.replica(), async {
            world.ready_node("a").await;
            world.clock.sleep(SOON).await;
            assert_eq!(world.drifted("a").await, None, "nothing has changed yet");
            let before = world.living()[0].subnet.clone();
            world.cloud.set_subnet(&before, condition);
            let (reason, message) = world.until_drifted("a").await;
            assert_eq!(reason, "SubnetDrift");
            let (was, now) = message.split_once(", is one of ").unwrap();
            assert_eq!(was, format!("subnet: was {before}"));
            let others = world.cloud.account().subnets;
            let others: BTreeSet<&str> = others
                .iter()
                .map(String::as_str)
                .filter(|id| *id != before)
                .collect();
            assert_eq!(now.split(", ").collect::<BTreeSet<_>>(), others, "{condition:?}");
            world.cloud.set_subnet(&before, SubnetCondition::Available);
            world.until_not_drifted("a").await;
            assert_eq!(world.living().len(), 1);
        })
        .await;
    }
}

/// Such a class cannot be used any more, so nothing is resolved to compare with.
#[tokio::test(start_paused = true)]
async fn the_only_subnet_of_a_class_that_fails_or_is_deleted_is_drift() {
    for condition in [SubnetCondition::Failed, SubnetCondition::Deleted] {
        let world = World::new();
        let vpc = world.cloud.account().vpc;
        let network = Ipv4Addr::new(10, 250, 0, 0);
        let only = world.cloud.add_subnet("only", &vpc, "us-south-1", network, 28);
        world.change_class("default", &json!({"subnet": only})).await;
        while_working(world.replica(), async {
            world.ready_node("a").await;
            world.cloud.set_subnet(&only, condition);
            let (reason, message) = world.until_drifted("a").await;
            assert_eq!(reason, "SubnetDrift");
            let gone = format!("subnet: was {only}, no subnet of the class can be used");
            assert_eq!(message, gone, "{condition:?}");
            world.cloud.set_subnet(&only, SubnetCondition::Available);
            world.until_not_drifted("a").await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_found_stays_while_the_class_cannot_be_used() {
    let world = World::new();
    let account = world.cloud.account();
    let other = world.cloud.add_security_group("other", &account.vpc);
    let keys = json!({"sshKeys": [account.key]});
    world.change_class("default", &keys).await;
    while_working(world.replica(), async {
        let (reason, _) = world.after(&json!({"securityGroups": [other]})).await;
        assert_eq!(reason, "SecurityGroupDrift");
        // A claim without a Node would not last that long.
        world.make_node("a").await;
        let found = world.drifted("a").await;
        world.cloud.remove_key(&account.key);
        world.until_judged("default", "False", SOON).await;
        world.clock.sleep(SOON).await;
        assert_eq!(world.drifted("a").await, found);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn other_security_groups_are_drift() {
    let world = World::new();
    let account = world.cloud.account();
    let other = world.cloud.add_security_group("other", &account.vpc);
    while_working(world.replica(), async {
        let (reason, message) = world.after(&json!({"securityGroups": [other]})).await;
        assert_eq!(reason, "SecurityGroupDrift");
        let expected = format!("securityGroups: was {}, is {other}", account.security_group);
        assert_eq!(message, expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_hash_that_was_computed_in_another_way_is_written_anew_and_no_drift() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let hash = "karpenter-ibm.sh/nodeclass-hash";
        let version = "karpenter-ibm.sh/nodeclass-hash-version";
        let stamped = world.read("a").await.unwrap();
        let old = json!({"metadata": {"annotations": {hash: "1", version: "v0"}}});
        let params = PatchParams::default();
        world
            .claims()
            .patch("a", &params, &Patch::Merge(old))
            .await
            .unwrap();
        world.clock.sleep(SOON).await;
        let claim = world.read("a").await.unwrap();
        assert_eq!(claim.annotations()[hash], stamped.annotations()[hash]);
        assert_eq!(claim.annotations()[version], "v1");
        assert_eq!(world.drifted("a").await, None);
    })
    .await;
}
