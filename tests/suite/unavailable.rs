//! Offerings that are withheld, on an embedded cluster and a paused clock.

use std::time::Duration;

use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::api::{CapacityType, OfferingKey, UnavailableOffering};
use karpenter_ibm::clock::Clock;
use karpenter_ibm::controllers::Unavailable;
use karpenter_ibm::controllers::metrics::Metrics;
use karpenter_ibm::controllers::unavailable::{Cause, Holds};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::watching::{Ending, Hold, Reads, Who};
use karpenter_ibm::sim::kube::{ApiServer, Options, write};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

struct World {
    kube: ApiServer,
    clock: Clock,
}

impl World {
    fn new() -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let kube = ApiServer::new(Options {
            clock: clock.clone(),
            seed: 1,
            keys: Keys::Fixed,
        });
        for definition in definitions().unwrap() {
            write::insert(&kube, definition.object);
        }
        Self { kube, clock }
    }

    /// A process with an empty memory.
    fn process(&self) -> Unavailable {
        let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
        Unavailable::new(self.kube.admin(), self.clock.clone(), Holds::default(), metrics)
    }

    fn objects(&self) -> Api<UnavailableOffering> {
        Api::all(self.kube.admin())
    }

    /// `name reason until`, as `kubectl get` would show them.
    async fn shown(&self) -> Vec<String> {
        let objects = self.objects().list(&ListParams::default()).await.unwrap().items;
        let line = |object: &UnavailableOffering| {
            let (name, spec) = (object.metadata.name.as_deref().unwrap(), &object.spec);
            format!("{name} {} {}", spec.reason, spec.until)
        };
        objects.iter().map(line).collect()
    }

    /// `key reason`, as a process knows them now.
    fn known(&self, process: &Unavailable) -> Option<Vec<String>> {
        let withheld = process.snapshot(self.clock.now())?;
        Some(
            withheld
                .iter()
                .map(|(key, hold)| format!("{key} {}", hold.reason))
                .collect(),
        )
    }

    async fn wait(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    async fn wait_a_little(&self) {
        self.wait(Duration::from_secs(2)).await;
    }
}

fn key() -> OfferingKey {
    OfferingKey::one(CapacityType::Spot, "bxf-4x16", "us-south-1").unwrap()
}

/// Plays `story` while `process` follows the objects.
async fn while_running<T>(process: &Unavailable, story: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        told = story => told,
        () = Box::pin(process.run()) => panic!("the process ended"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_an_object_that_people_see_and_counts_at_once() {
    let world = World::new();
    let process = world.process();
    while_running(&process, async {
        world.wait_a_little().await;
        assert_eq!(world.known(&process), Some(vec![]));
        // Nothing is heard of the watch any more.
        let silence = Hold {
            revision: 0,
            reads: Reads::Live,
        };
        world.kube.watching().hold_back(Who::everyone(), silence);
        process.withhold(&key(), Cause::Preempted).await.unwrap();
        assert_eq!(
            world.known(&process),
            Some(vec!["spot:bxf-4x16:us-south-1 Preempted".to_owned()])
        );
        assert_eq!(
            world.shown().await,
            ["spot.bxf-4x16.us-south-1 Preempted 2026-11-16T11:00:02Z"]
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn deleting_the_object_lifts_the_hold() {
    let world = World::new();
    let process = world.process();
    while_running(&process, async {
        world.wait_a_little().await;
        process.withhold(&key(), Cause::Shortage).await.unwrap();
        let name = key().object_name();
        world
            .objects()
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        world.wait_a_little().await;
        assert_eq!(world.known(&process), Some(vec![]));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_a_person_writes_counts() {
    let world = World::new();
    let process = world.process();
    while_running(&process, async {
        world.wait_a_little().await;
        write::insert(
            &world.kube,
            json!({
                "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
                "metadata": {"name": "on-demand.gpu"},
                "spec": {"key": "on-demand:gpu:*", "reason": "TooDear", "until": "2026-11-17T00:00:00Z"},
            }),
        );
        world.wait_a_little().await;
        assert_eq!(
            world.known(&process),
            Some(vec!["on-demand:gpu:* TooDear".to_owned()])
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_holds_and_says_nothing_is_free_before_it_has_read_them() {
    let world = World::new();
    let first = world.process();
    first.withhold(&key(), Cause::Preempted).await.unwrap();
    drop(first);
    let second = world.process();
    assert_eq!(world.known(&second), None);
    while_running(&second, async {
        world.wait_a_little().await;
        assert_eq!(
            world.known(&second),
            Some(vec!["spot:bxf-4x16:us-south-1 Preempted".to_owned()])
        );
    })
    .await;
    // Led again after another one led: what was known is old.
    while_running(&second, async {
        tokio::task::yield_now().await;
        assert_eq!(world.known(&second), None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_shortage_that_comes_back_doubles_also_after_a_restart() {
    let world = World::new();
    let mut lengths = Vec::new();
    for _ in 0..6 {
        let before = world.clock.now();
        let hold = world.process().withhold(&key(), Cause::Shortage).await.unwrap();
        let length = Duration::try_from(hold.until.duration_since(before)).unwrap();
        lengths.push(length.as_secs() / 60);
        world.wait(length).await;
    }
    assert_eq!(lengths, [3, 6, 12, 24, 48, 60]);
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_at_its_time_and_its_object_goes_when_it_is_forgotten() {
    let world = World::new();
    let process = world.process();
    while_running(&process, async {
        process.withhold(&key(), Cause::Shortage).await.unwrap();
        world.wait_a_little().await;
        assert_eq!(world.known(&process).map(|known| known.len()), Some(1));
        world.wait(Duration::from_mins(3)).await;
        assert_eq!(world.known(&process), Some(vec![]));
        assert_eq!(world.shown().await.len(), 1, "it is remembered for as long again");
        world.wait(Duration::from_mins(5)).await;
        assert!(world.shown().await.is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_that_meet_one_shortage_write_one_hold() {
    let world = World::new();
    let (one, other) = (world.process(), world.process());
    let key = key();
    let holds =
        futures::future::join_all([&one, &other, &one, &other].map(|it| it.withhold(&key, Cause::Shortage)))
            .await;
    let until = holds[0].as_ref().unwrap().until;
    assert!(holds.iter().all(|hold| hold.as_ref().unwrap().until == until));
    let object = world.objects().get(&key.object_name()).await.unwrap();
    assert_eq!(object.metadata.generation, Some(1), "written once");
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_lifts_the_hold_for_quota_alone() {
    let world = World::new();
    let process = world.process();
    while_running(&process, async {
        world.wait_a_little().await;
        process
            .withhold(&OfferingKey::all(CapacityType::Spot), Cause::Quota)
            .await
            .unwrap();
        process.withhold(&key(), Cause::Preempted).await.unwrap();
        process.lift(Cause::Quota).await;
        let left = ["spot:bxf-4x16:us-south-1 Preempted".to_owned()];
        assert_eq!(world.known(&process), Some(left.to_vec()));
        assert_eq!(world.shown().await.len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_and_lists_again_loses_nothing_and_keeps_nothing_that_is_gone() {
    let world = World::new();
    let process = world.process();
    while_running(&process, async {
        world.wait_a_little().await;
        process.withhold(&key(), Cause::Preempted).await.unwrap();
        let all = OfferingKey::all(CapacityType::OnDemand);
        process.withhold(&all, Cause::Quota).await.unwrap();
        world.kube.watching().end(Who::everyone(), Ending::Expired);
        world
            .objects()
            .delete(&all.object_name(), &DeleteParams::default())
            .await
            .unwrap();
        world.wait(Duration::from_mins(1)).await;
        assert_eq!(
            world.known(&process),
            Some(vec!["spot:bxf-4x16:us-south-1 Preempted".to_owned()])
        );
    })
    .await;
}
