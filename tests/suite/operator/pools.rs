//! NodePools and claims that nobody can have meant as they are written: nothing is bought for them again and again.

use std::time::Duration;

use karpenter_ibm::api::NodePool;
use karpenter_ibm::sim::kube::watching::{Hold, Reads, Who};
use kube::Api;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::unheard::Unheard;
use super::{World, audited, while_working};

impl World {
    async fn change_pool(&self, name: &str, spec: &Value) {
        let pools: Api<NodePool> = Api::all(self.kube.admin());
        let patch = Patch::Merge(json!({"spec": spec}));
        pools.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Until the pods that wait have their claim: they are looked at every quarter of a minute.
    async fn until_bought_for(&self) {
        self.until("claimed", Duration::from_mins(1), async || {
            self.all_claims().await.len() == 1
        })
        .await;
    }

    /// What is wrong with a pool, in its own words; nothing if it is valid.
    async fn invalid(&self, name: &str) -> Option<String> {
        let pools: Api<NodePool> = Api::all(self.kube.admin());
        let conditions = pools.get(name).await.unwrap().status?.conditions?;
        let mut verdicts = conditions
            .into_iter()
            .filter(|it| it.type_ == "ValidationSucceeded");
        let verdict = verdicts.find(|it| it.status == "False")?;
        verdict.message
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_nodes_would_expire_before_they_work_buys_nothing_and_is_told_of_once() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            let lives = |length: &str| json!({"template": {"spec": {"expireAfter": length}}});
            world.pool("hasty", lives("0s")).await;
            world.waiting("a", json!({})).await;
            world.clock.sleep(Duration::from_mins(10)).await;
            assert!(world.all_claims().await.is_empty());
            assert_eq!(world.orders(), 0);
            let why = world.invalid("hasty").await.unwrap();
            assert!(why.contains("less than 5m"), "{why}");
            let told = world.told("NodePoolValidationFailed").await;
            assert_eq!(
                told,
                [("NodePool hasty".to_owned(), "Warning".to_owned(), why.clone())]
            );
            world.change_pool("hasty", &lives("4m")).await;
            world.clock.sleep(Duration::from_mins(6)).await;
            let again = world.told("NodePoolValidationFailed").await;
            assert_eq!(again.len(), 1, "the same is told once: {again:?}");
            world.change_pool("hasty", &lives("5m")).await;
            world.until_bought_for().await;
            world
                .until("valid", Duration::from_mins(1), async || {
                    world.invalid("hasty").await.is_none()
                })
                .await;
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_no_node_can_be_and_what_no_cron_can_read_is_told_of_on_the_pool() {
    let world = World::new();
    while_working(world.replica(), Box::pin(async {
        let zone =
            |zone: &str| json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
        let both = json!([zone("us-south-1"), zone("us-south-2")]);
        world
            .pool("torn", json!({"template": {"spec": {"requirements": both}}}))
            .await;
        world.waiting("a", json!({})).await;
        world.clock.sleep(Duration::from_mins(2)).await;
        assert!(world.all_claims().await.is_empty());
        let budgets = json!([{"nodes": "1", "schedule": "99 99 * * *", "duration": "1h"}]);
        let disruption = json!({"consolidateAfter": "0s", "budgets": budgets});
        world.pool("unread", json!({"disruption": disruption})).await;
        world.until_bought_for().await;
        world
            .until("told", Duration::from_mins(1), async || {
                world.invalid("unread").await.is_some()
            })
            .await;
        let told = world.told("NodePoolValidationFailed").await;
        let [(torn, _, two), (unread, _, schedule)] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert_eq!(
            (torn.as_str(), unread.as_str()),
            ("NodePool torn", "NodePool unread")
        );
        assert!(
            two.contains("topology.kubernetes.io/zone")
                && two.contains("us-south-1")
                && two.contains("us-south-2"),
            "{two}"
        );
        assert!(schedule.contains("budgets[0].schedule"), "{schedule}");
        world
            .change_pool(
                "torn",
                &json!({"template": {"spec": {"requirements": [zone("us-south-2")]}}}),
            )
            .await;
        world
            .until("valid", Duration::from_mins(1), async || {
                world.invalid("torn").await.is_none()
            })
            .await;
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_may_not_live_at_all_goes_only_when_its_node_was_ready_for_work_for_some_minutes() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim_that_expires("a", "0s").await;
        world.until_launched("a").await;
        world.clock.sleep(Duration::from_mins(5)).await;
        let claim = world.read("a").await.unwrap();
        assert_eq!(claim.metadata.deletion_timestamp, None);
        assert!(world.told("Expired").await.is_empty());
        world.join("a").await;
        world.until_registered("a").await;
        world.make_ready("a").await;
        world.clock.sleep(Duration::from_mins(4)).await;
        assert!(world.told("Expired").await.is_empty(), "it works");
        world.until_gone("a").await;
        assert_eq!(world.told("Expired").await.len(), 1);
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

/// Another replica leads, has heard of more replicas and has made their claims; this one still believes that it leads.
#[tokio::test(start_paused = true)]
async fn whoever_has_not_heard_that_a_static_pool_was_scaled_up_deletes_none_of_its_claims() {
    let world = World::new();
    while_working(
        world.replica(),
        Box::pin(async {
            world.pool("default", json!({"replicas": 2})).await;
            world.until_claims(2).await;
            for claim in world.all_claims().await {
                world.until_launched(&claim.name_any()).await;
            }
            world.clock.sleep(Duration::from_mins(1)).await;
            let hold = Hold {
                revision: world.kube.state().store.revision(),
                reads: Reads::Live,
            };
            let pools = Who::kind("karpenter.sh", "nodepools");
            let rule = world.kube.watching().hold_back(pools, hold);
            world.change_pool("default", &json!({"replicas": 4})).await;
            let made = ["x", "y"];
            for name in made {
                world.claim(name).await;
            }
            world.clock.sleep(Duration::from_mins(4)).await;
            for claim in world.all_claims().await {
                assert!(
                    claim.metadata.deletion_timestamp.is_none(),
                    "{}",
                    claim.name_any()
                );
            }
            assert_eq!(world.all_claims().await.len(), 4);
            world.change_pool("default", &json!({"replicas": 3})).await;
            world.kube.watching().lift(rule);
            world
                .until("one fewer", Duration::from_mins(6), async || {
                    world.all_claims().await.len() == 3
                })
                .await;
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn that_a_pool_is_not_valid_is_told_although_events_are_refused_when_it_is_found() {
    let (world, unheard) = (World::new(), Unheard::default());
    let replica = audited::factory(World::settings("one"))(unheard.around(world.edges()));
    let hasty = json!({"template": {"spec": {"expireAfter": "0s"}}});
    while_working(
        replica,
        Box::pin(async {
            unheard.begin();
            world.pool("hasty", hasty.clone()).await;
            world.clock.sleep(Duration::from_secs(10)).await;
            unheard.end();
            world
                .until("told", Duration::from_mins(1), async || {
                    world.told("NodePoolValidationFailed").await.len() == 1
                })
                .await;
            unheard.begin();
            world.pool("other", hasty.clone()).await;
            world
                .until("written all the same", Duration::from_mins(2), async || {
                    world.invalid("other").await.is_some()
                })
                .await;
        }),
    )
    .await;
}

/// Each change is a reason to look at all pools again, and so to try again.
#[tokio::test(start_paused = true)]
async fn that_a_pool_is_not_valid_is_told_however_much_changes_while_events_are_refused() {
    let (world, unheard) = (World::new(), Unheard::default());
    let replica = audited::factory(World::settings("one"))(unheard.around(world.edges()));
    while_working(
        replica,
        Box::pin(async {
            world.pool("other", json!({})).await;
            unheard.begin();
            let hasty = json!({"template": {"spec": {"expireAfter": "0s"}}});
            world.pool("hasty", hasty).await;
            for weight in 1..=20 {
                world.change_pool("other", &json!({"weight": weight})).await;
                world.clock.sleep(Duration::from_secs(1)).await;
            }
            assert_eq!(world.invalid("hasty").await, None, "it would be no news");
            unheard.end();
            world
                .until("told", Duration::from_mins(1), async || {
                    world.told("NodePoolValidationFailed").await.len() == 1
                })
                .await;
        }),
    )
    .await;
}
