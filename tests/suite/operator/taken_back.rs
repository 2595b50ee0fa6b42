//! IBM takes the machine of a claim back that goes anyway, or whose loss cannot be told at once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use karpenter_ibm::ibm::http::{Exchange, ExchangeError};
use karpenter_ibm::sim::mutants::Mutant;
use serde_json::{Value, json};

use super::preemption::{looks, pod_on_spot};
use super::unheard::Unheard;
use super::{World, audited, metric, while_working};

/// From the notice of a preemption until the machine is off.
const NOTICE: i64 = 30;

/// What is known of a preemption when all is over: how often it was told, and for how many minutes what is withheld.
async fn known(world: &World) -> (usize, Vec<i64>) {
    let withheld = world.withheld("Preempted").await;
    let lengths = withheld.into_iter().map(|(_, minutes)| minutes).collect();
    (world.told("SpotPreemption").await.len(), lengths)
}

/// A claim is deleted so many seconds after its machine's notice; its kubelet may say so too.
async fn deleted_after(world: &World, seconds: i64, says_so: bool) {
    world.ready_node("a").await;
    world.preempt("a").await;
    if says_so {
        world.shut_down("a").await;
    }
    let wait = Duration::from_secs(seconds.unsigned_abs());
    world.clock.sleep(wait).await;
    world.delete("a").await;
    world.until_gone("a").await;
    assert!(world.cloud.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_deleted_around_the_stop_of_its_machine_tells_of_it_once_and_withholds_it_for_an_hour()
 {
    for says_so in [false, true] {
        for around in std::iter::once(-28).chain(-10..=10) {
            let world = World::new();
            let edges = world.edges();
            let registry = edges.registry.clone();
            while_working(audited::factory(World::settings("one"))(edges), async {
                deleted_after(&world, NOTICE + around, says_so).await;
                let counted = metric(&registry, "karpenter_ibm_interruptions_total", "preempted");
                assert_eq!(
                    (known(&world).await, counted),
                    ((2, vec![60]), 1),
                    "{around} s after the stop, with the word of its kubelet: {says_so}"
                );
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_goes_before_its_node_joins_tells_of_it_too() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.preempt("a").await;
        world.clock.sleep(Duration::from_secs(20)).await;
        world.delete("a").await;
        world.until_gone("a").await;
        assert_eq!(known(&world).await, (1, vec![60]));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_was_only_switched_off_meanwhile_is_given_back_without_a_word() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        world.cloud.stop(&world.machine_of("a").await).unwrap();
        world.delete("a").await;
        world.until_gone("a").await;
        assert!(world.cloud.instances().is_empty());
        assert_eq!(known(&world).await, (0, Vec::new()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_machine_of_a_claim_that_goes_stays_as_the_proof_until_it_is_told() {
    let (world, unheard) = (World::new(), Unheard::default());
    let replica = audited::factory(World::settings("one"))(unheard.around(world.edges()));
    while_working(replica, async {
        world.ready_node("a").await;
        unheard.begin();
        world.preempt("a").await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(world.cloud.instances().len(), 1);
        unheard.end();
        world.until_gone("a").await;
        assert_eq!(known(&world).await, (2, vec![60]));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_mutant_that_tells_nobody_is_seen_by_its_silence() {
    let world = World::new();
    while_working(world.mutant(Mutant::Hushed), async {
        deleted_after(&world, NOTICE + 5, false).await;
        assert_eq!(known(&world).await, (0, vec![60]));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn where_events_are_refused_the_replacement_is_claimed_all_the_same() {
    let (world, unheard) = (World::new(), Unheard::default());
    let replica = audited::factory(World::settings("one"))(unheard.around(world.edges()));
    while_working(replica, async {
        let name = pod_on_spot(&world).await;
        let machine = world.machine_of(&name).await;
        unheard.begin();
        // Right after a poll, so that it is off before the next one sees it.
        let before = world.cloud.requests().count();
        world
            .until("polled", Duration::from_secs(62), async || {
                looks(&world, before).0 > 0
            })
            .await;
        world.preempt(&name).await;
        world
            .until("replaced", Duration::from_secs(90), async || {
                world.all_claims().await.len() == 2
            })
            .await;
        world
            .until("set aside", Duration::from_secs(90), async || {
                world.is_tainted(&name).await
            })
            .await;
        world.clock.sleep(Duration::from_mins(3)).await;
        assert!(!world.is_deleting(&name).await, "nobody was told yet");
        assert!(world.cloud.instance(&machine).is_some(), "it is the proof");
        unheard.end();
        world.until_gone(&name).await;
        assert_eq!(known(&world).await.0, 2);
        assert_eq!(world.all_claims().await.len(), 1, "one replacement is enough");
    })
    .await;
}

/// A cloud whose list of spot machines is not what reads by id show.
struct Listed {
    inner: Arc<dyn Exchange>,
    change: fn(&mut Value),
}

#[async_trait]
impl Exchange for Listed {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let query = request.uri().query().unwrap_or_default();
        let is_list = query.contains("availability.class=spot");
        let answer = self.inner.exchange(request).await?;
        if !is_list {
            return Ok(answer);
        }
        Ok(answer.map(|body| {
            let mut body: Value = serde_json::from_slice(&body).unwrap();
            for instance in body["instances"].as_array_mut().into_iter().flatten() {
                (self.change)(instance);
            }
            body.to_string().into()
        }))
    }
}

impl World {
    fn replica_that_lists(&self, change: fn(&mut Value)) -> impl Future<Output = ()> + use<> {
        let mut edges = self.edges();
        edges.ibm.cloud = Arc::new(Listed {
            inner: edges.ibm.cloud,
            change,
        });
        audited::factory(Self::settings("one"))(edges)
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_nobody_that_was_started_again_since_it_was_listed_counts_for_nothing() {
    let world = World::new();
    world.running_orphan().await;
    let replica = world.replica_that_lists(|instance| {
        instance["status"] = json!("stopped");
        instance["status_reasons"] = json!([{"code": "stopped_by_preemption", "message": "x"}]);
    });
    while_working(replica, async {
        world.clock.sleep(Duration::from_secs(20)).await;
        assert_eq!(world.living().len(), 1, "only the sweep may take it");
        world
            .until("swept", Duration::from_mins(5), async || {
                world.cloud.instances().is_empty()
            })
            .await;
        assert!(world.withheld("Preempted").await.is_empty());
        let told = world.told("GarbageCollected").await;
        assert!(told.len() == 1 && !told[0].2.contains("took it back"), "{told:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_machine_on_the_list_that_cannot_be_read_keeps_no_other_from_being_looked_after() {
    let world = World::new();
    let replica = world.replica_that_lists(|instance| {
        if instance["zone"]["name"] == "us-south-2" {
            instance["profile"] = Value::Null;
        }
    });
    while_working(replica, async {
        world.claim_in("broken", "us-south-2").await;
        world.claim_in("a", "us-south-1").await;
        world.until_launched("broken").await;
        world.make_node("a").await;
        world.preempt("a").await;
        world.until_gone("a").await;
        assert_eq!(known(&world).await, (2, vec![60]));
        assert!(!world.is_deleting("broken").await);
    })
    .await;
}
