//! A process that is killed after any effect, before it hears the answer, is followed by one that finishes the work.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_ibm::operator;
use karpenter_ibm::sim::kube::identity::User;

use super::effects::Effects;
use super::{World, while_working};

/// The machines that were ever seen for the one claim of a world.
#[derive(Default)]
struct Ever(BTreeSet<String>);

impl Ever {
    /// Waits until the claim is launched (or is to go already), or until it is gone.
    async fn watch(&mut self, world: &World, goal: Goal) {
        let end = world.clock.instant() + Duration::from_mins(10);
        while !goal.is_reached(world).await {
            assert!(world.clock.instant() < end, "{goal:?} is not reached");
            self.0.extend(world.cloud.instances().into_iter().map(|it| it.id));
            assert!(self.0.len() <= 1, "a second machine was bought");
            world.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    /// Buys a machine and gives it back, from wherever things stand.
    async fn live(&mut self, world: &World) {
        self.watch(world, Goal::Launched).await;
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
    Gone,
}

impl Goal {
    async fn is_reached(self, world: &World) -> bool {
        let claim = world.read("a").await;
        let is_going = claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some());
        match self {
            Self::Launched => is_going || world.is_true("a", "Launched").await,
            Self::Gone => world.read("a").await.is_none(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_effect_costs_no_second_machine_and_leaves_none_behind() {
    let mut crashes = 0;
    for last in 1.. {
        let (world, effects, mut ever) = (World::new(), Effects::up_to(last), Ever::default());
        let edges = effects.around(world.edges(User::admin()));
        let first = operator::factory(World::settings("first"))(edges);
        world.claim("a").await;
        let finished = tokio::select! {
            biased;
            () = effects.crash.cancelled() => false,
            () = first => panic!("the replica ended"),
            () = ever.live(&world) => true,
        };
        if finished {
            break;
        }
        crashes += 1;
        while_working(world.replica_named("second"), ever.live(&world)).await;
    }
    // Finalizer, allocation, order, id, labels, launched; deletion, absence, finalizer.
    assert!(crashes >= 9, "only {crashes} effects");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_once_nothing_changes() {
    let (world, effects) = (World::new(), Effects::without_end());
    let edges = effects.around(world.edges(User::admin()));
    let replica = operator::factory(World::settings("one"))(edges);
    while_working(replica, async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.join("a").await;
        world
            .until("registered", Duration::from_mins(1), async || {
                world.is_true("a", "Registered").await
            })
            .await;
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
