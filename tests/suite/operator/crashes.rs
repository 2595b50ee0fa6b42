//! A process that is killed after any effect, events and tokens included, before it hears the answer, is followed by one
//! that finishes the work. With lost and late answers, and two leaders: `simulate --crashes`.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use kube::Api;

use super::effects::Effects;
use super::{World, allocation, audited, while_working};

/// The machines that were ever seen for the one claim of a world, but for the one that could not start.
#[derive(Default)]
struct Ever(BTreeSet<String>);

impl Ever {
    /// Waits until the claim is launched (or is to go already), or until it is gone.
    async fn watch(&mut self, world: &World, goal: Goal) {
        let end = world.clock.instant() + Duration::from_mins(10);
        while !goal.is_reached(world).await {
            assert!(world.clock.instant() < end, "{goal:?} is not reached");
            let living = world.living();
            let healthy = living
                .iter()
                .filter(|it| it.status != "failed" && it.status != "stopped");
            assert!(healthy.count() <= 1, "two machines at once");
            let running = living.into_iter().filter(|it| it.status == "running");
            self.0.extend(running.map(|it| it.id));
            assert!(self.0.len() <= 1, "a second machine was bought");
            world.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    /// Buys a machine and gives it back, from wherever things stand.
    async fn live(&mut self, world: &World) {
        self.watch(world, Goal::Launched).await;
        let claim = world.read("a").await;
        let stays = claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none());
        if stays {
            let nodes: Api<Node> = Api::all(world.kube.admin());
            if nodes.get_opt("a").await.unwrap().is_none() {
                world.join("a").await;
            }
            self.watch(world, Goal::Registered).await;
            world.make_ready("a").await;
            self.watch(world, Goal::Ready).await;
        }
        if world.read("a").await.is_some() {
            world.delete("a").await;
        }
        self.watch(world, Goal::Gone).await;
        assert!(world.cloud.instances().is_empty(), "a machine is left behind");
    }
}

#[derive(Clone, Copy, Debug)]
enum Goal {
    Launched,
    Registered,
    Ready,
    Gone,
}

impl Goal {
    async fn is_reached(self, world: &World) -> bool {
        let claim = world.read("a").await;
        let is_going = claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some());
        match self {
            Self::Launched => is_going || world.is_true("a", "Launched").await,
            Self::Registered => is_going || world.is_true("a", "Registered").await,
            Self::Ready => is_going || world.is_true("a", "Ready").await,
            Self::Gone => world.read("a").await.is_none(),
        }
    }
}

/// Every kind of effect that the story has: a method, and what the path has in it and how it ends.
const KINDS: [(&str, &str, &str); 11] = [
    ("PATCH", "/nodeclaims/", "a"),
    ("POST", "/serviceaccounts/", "/token"),
    ("PATCH", "/nodeclaims/", "/status"),
    ("POST", "/v1/", "/instances"),
    ("POST", "/tags/", "/attach"),
    ("PATCH", "/nodes/", "a"),
    ("DELETE", "/v1/instances/", ""),
    ("DELETE", "/nodes/", "a"),
    ("PATCH", "/ibmnodeclasses/", "default"),
    ("PATCH", "/ibmnodeclasses/", "/status"),
    ("POST", "/unavailableofferings", ""),
];

/// The first offering is short, which shows after the order was accepted.
fn run_short(world: &World) {
    let short = Fault::new(FaultKind::StartFails).reason("cannot_start_capacity");
    world.cloud.faults().start(short.times(1));
}

/// Crashes after every single effect of the whole story, one world for each; how many effects there were.
async fn crash_everywhere() -> usize {
    for last in 1.. {
        let (world, effects, mut ever) = (World::new(), Effects::up_to(last), Ever::default());
        run_short(&world);
        let factory = |name: &str| audited::factory(allocation::settings(&world, name));
        let first = factory("first")(effects.around(world.edges()));
        world.claim("a").await;
        let finished = tokio::select! {
            biased;
            () = effects.crash.cancelled() => false,
            () = first => panic!("the replica ended"),
            () = ever.live(&world) => true,
        };
        if finished {
            check_kinds(&effects);
            return last - 1;
        }
        let next = factory("second")(world.edges());
        while_working(next, ever.live(&world)).await;
    }
    unreachable!("the numbers do not end");
}

fn check_kinds(effects: &Effects) {
    let log = effects.log();
    for (method, part, end) in KINDS {
        let is_there = log
            .iter()
            .any(|(did, path)| did == method && path.contains(part) && path.ends_with(end));
        assert!(is_there, "the story lacks {method} {part}…{end}: {log:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect_costs_no_second_machine_and_leaves_none_behind() {
    let effects = crash_everywhere().await;
    eprintln!("{effects} effects, and a crash after each");
    assert!(effects >= 20, "only {effects} effects");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_once_nothing_changes() {
    let (world, effects) = (World::new(), Effects::without_end());
    let edges = effects.around(world.edges());
    let replica = audited::factory(World::settings("one"))(edges);
    while_working(replica, async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.join("a").await;
        world.until_registered("a").await;
        world.make_ready("a").await;
        world
            .until("initialized", Duration::from_mins(1), async || {
                world.is_true("a", "Ready").await
            })
            .await;
        let before = effects.count();
        world.clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(effects.count(), before);
    })
    .await;
}
