//! What a claim says while it waits.

use std::time::Duration;

use karpenter_ibm::allocation::Purchases;
use kube::ResourceExt;

use super::{World, audited, while_working};

impl World {
    async fn until_said(&self, claim: &str, type_: &str, within: Duration) -> (String, String) {
        self.until(&format!("{type_} is told"), within, async || {
            let condition = self.condition(claim, type_).await;
            condition.is_some_and(|it| it.status == "Unknown")
        })
        .await;
        let said = self.condition(claim, type_).await.unwrap();
        (said.reason.unwrap(), said.message.unwrap())
    }

    async fn claim_version(&self, claim: &str) -> Option<String> {
        self.read(claim).await.unwrap().resource_version()
    }
}

fn minutes(count: u64) -> Duration {
    Duration::from_mins(count)
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_join_is_told_of_after_two_minutes_and_once() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.clock.sleep(Duration::from_secs(110)).await;
        assert_eq!(
            world.condition("a", "Registered").await,
            None,
            "it takes its usual way"
        );
        let (reason, message) = world.until_said("a", "Registered", minutes(1)).await;
        assert_eq!(reason, "NodeNotFound");
        assert!(message.starts_with("the machine runs; "), "{message}");
        let before = world.claim_version("a").await;
        world.clock.sleep(minutes(11)).await;
        assert_eq!(world.claim_version("a").await, before, "nothing new");
        world.join("a").await;
        world.until_registered("a").await;
        let (reason, _) = world.until_said("a", "Initialized", minutes(3)).await;
        assert_eq!(reason, "NodeNotReady");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_class_says_so_and_is_launched_when_there_is_one() {
    let world = World::new();
    world.unclassed().await;
    while_working(world.replica(), async {
        world.claim("a").await;
        let (reason, message) = world.until_said("a", "Launched", minutes(1)).await;
        assert_eq!(reason, "LaunchBlocked");
        assert!(message.contains("there is no IBMNodeClass default"), "{message}");
        world.clock.sleep(minutes(5)).await;
        world.add_class("default", &serde_json::json!({})).await;
        world.until_launched("a").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_held_back_says_so_once() {
    let world = World::new();
    let mut settings = World::settings("one");
    settings.controllers.breakers.purchases = Purchases::Stopped;
    while_working(audited::factory(settings)(world.edges()), async {
        world.claim("a").await;
        let (reason, message) = world.until_said("a", "Launched", minutes(2)).await;
        assert_eq!(reason, "LaunchHeldBack");
        assert!(message.contains("kill switch"), "{message}");
        let before = world.claim_version("a").await;
        world.clock.sleep(minutes(10)).await;
        assert_eq!(world.claim_version("a").await, before);
    })
    .await;
}
