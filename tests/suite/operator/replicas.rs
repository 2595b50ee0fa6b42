//! More than one replica: one leads, another follows it, and two that both believe they lead do no harm.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use karpenter_ibm::controllers;
use karpenter_ibm::lifecycle::facts::Facts;
use karpenter_ibm::operator;
use karpenter_ibm::sim::ibm::Answers;
use kube::Api;
use tokio_util::sync::CancellationToken;

use super::{NAMESPACE, World, audited, while_working};

impl World {
    async fn leader(&self) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.kube.admin(), NAMESPACE);
        let lease = leases.get_opt("karpenter-ibm-leader").await.unwrap()?;
        lease.spec?.holder_identity
    }

    async fn until_led_by(&self, replica: &str, within: Duration) {
        let identity = format!("{NAMESPACE}/{replica}");
        self.until("another leader", within, async || {
            self.leader().await.as_deref() == Some(&identity)
        })
        .await;
    }

    /// Two replicas that both believe they lead.
    pub(super) async fn two_leaders(&self) -> impl Future<Output = ()> + use<> {
        let cluster = self.cluster_id().await;
        let leader = |name: &str| {
            let context = operator::context(&Self::settings(name), self.edges()).unwrap();
            Box::pin(controllers::run(context, cluster))
        };
        let (one, two) = (leader("one"), leader("two"));
        async {
            tokio::join!(biased; one, two);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_another_replica_leads_within_twenty_seconds() {
    let world = World::new();
    while_working(
        world.replica_named("one"),
        world.until_led_by("one", Duration::from_secs(5)),
    )
    .await;
    let both = async {
        world.clock.sleep(Duration::from_secs(1)).await;
        world.until_led_by("two", Duration::from_secs(20)).await;
    };
    while_working(world.replica_named("two"), both).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_in_order_makes_room_at_once() {
    let world = World::new();
    let context = operator::context(&World::settings("one"), world.edges()).unwrap();
    let stop = CancellationToken::new();
    let story = async {
        world.until_led_by("one", Duration::from_secs(5)).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(biased; operator::control(context, stop.clone()), story);
    ended.unwrap();
    while_working(
        world.replica_named("two"),
        world.until_led_by("two", Duration::from_secs(3)),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_asked_to_stop_between_order_and_record_leaves_its_machine_to_the_next() {
    let world = World::with(|options| options.answers = Answers::Realistic);
    let edges = world.edges();
    let stop = edges.stop.clone();
    let first = audited::factory(World::settings("one"))(edges);
    let story = async {
        world.until_led_by("one", Duration::from_secs(5)).await;
        world.claim("a").await;
        while world.orders() == 0 {
            world.clock.sleep(Duration::from_millis(10)).await;
        }
        // The answer is still on its way: it takes seconds.
        stop.cancel();
    };
    tokio::join!(biased; first, story);
    let recorded = world.read("a").await.unwrap();
    assert!(recorded.allocation().is_some_and(|it| it.instance_id.is_none()));
    while_working(world.replica_named("two"), async {
        world.until_led_by("two", Duration::from_secs(3)).await;
        world.until_launched("a").await;
    })
    .await;
    // The next leader may ask once more while the first order is under way; the name admits one machine.
    let [bought] = world.cloud.instances().try_into().unwrap();
    let recorded = world.read("a").await.unwrap();
    assert_eq!(recorded.allocation().unwrap().instance_id, Some(bought.id));
}

#[tokio::test(start_paused = true)]
async fn two_replicas_that_both_lead_buy_one_machine_for_each_claim() {
    let world = World::new();
    while_working(world.two_leaders().await, async {
        for name in ["a", "b", "c"] {
            world.claim(name).await;
        }
        for name in ["a", "b", "c"] {
            world.until_launched(name).await;
        }
        assert_eq!(world.cloud.instances().len(), 3);
        for name in ["a", "b", "c"] {
            world.delete(name).await;
        }
        for name in ["a", "b", "c"] {
            world.until_gone(name).await;
        }
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}
