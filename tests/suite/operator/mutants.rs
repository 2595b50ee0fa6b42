//! Each mutant does the harm it is made for, in a story that the product lives through without any.

use std::time::Duration;

use futures::future::BoxFuture;
use karpenter_ibm::api::NodeClaim;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use karpenter_ibm::sim::kube::identity::User;
use karpenter_ibm::sim::mutants::Mutant;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::effects::Effects;
use super::{World, while_working};

impl World {
    /// Takes the claim of a machine away without anybody hearing that it goes.
    async fn force_out(&self, machine: &str) {
        let claims = self.claims().list(&ListParams::default()).await.unwrap().items;
        let holds = |claim: &&NodeClaim| {
            let allocation = claim
                .status
                .as_ref()
                .and_then(|status| status.allocation.as_ref());
            allocation.is_some_and(|allocation| allocation.instance_id.as_deref() == Some(machine))
        };
        let name = claims.iter().find(holds).unwrap().name_any();
        let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let claims = self.claims();
        claims.patch(&name, &PatchParams::default(), &bare).await.unwrap();
        self.delete(&name).await;
    }

    fn mutant(&self, mutant: Mutant) -> BoxFuture<'static, ()> {
        mutant.factory(Self::settings("one"))(self.edges(User::admin()))
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_errors_for_absences_gives_up_a_healthy_machine() {
    let world = World::new();
    while_working(world.mutant(Mutant::ErrorAsAbsence), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.cloud.faults().start(Fault::new(FaultKind::ServerError));
        world.until_gone("a").await;
        assert_eq!(world.living().len(), 1, "the machine runs on");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_looks_up_no_names_forgets_what_it_bought() {
    let world = World::new();
    world
        .cloud
        .faults()
        .start(Fault::new(FaultKind::LostCreate).times(1));
    while_working(world.mutant(Mutant::NoNameLookUp), async {
        world.claim("a").await;
        world.clock.sleep(Duration::from_mins(2)).await;
        assert!(!world.is_true("a", "Launched").await);
        world.delete("a").await;
        world.until_gone("a").await;
        assert_eq!(
            world.living().len(),
            1,
            "and the claim is gone before its machine"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_an_accepted_deletion_for_done_lets_go_too_early() {
    let world = World::new();
    while_working(world.mutant(Mutant::FinalizerFirst), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.cloud.faults().start(Fault::new(FaultKind::DeleteStuck));
        world.delete("a").await;
        world.until_gone("a").await;
        assert_eq!(world.cloud.instances().len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_reads_old_lists_deletes_the_machine_of_a_living_claim() {
    let world = World::new();
    while_working(world.mutant(Mutant::StaleList), async {
        world.clock.sleep(Duration::from_secs(10)).await;
        world.claim("a").await;
        world.until_launched("a").await;
        world
            .until("the harm", Duration::from_mins(6), async || {
                world.living().is_empty()
            })
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_reads_first_pages_only_leaves_a_machine_of_nobody_where_it_is() {
    for (mutant, left) in [(None, 0), (Some(Mutant::FirstPageOnly), 1)] {
        let world = World::new();
        while_working(world.replica(), async {
            for name in ["a", "b", "c", "d"] {
                world.claim(name).await;
                world.until_launched(name).await;
            }
        })
        .await;
        // Lists are in the order of ids, and two machines stand on a page.
        let last = world
            .living()
            .into_iter()
            .max_by(|one, other| one.id.cmp(&other.id));
        let last = last.unwrap();
        world.force_out(&last.id).await;
        let replica = mutant.map_or_else(|| world.replica(), |mutant| world.mutant(mutant));
        while_working(replica, world.clock.sleep(Duration::from_mins(10))).await;
        let kept = world.living().into_iter().filter(|machine| machine.id == last.id);
        assert_eq!(kept.count(), left, "{mutant:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_names_machines_after_its_life_buys_twice() {
    let mutant = Mutant::CreateTwiceAfterCrash;
    let mut world = World::new();
    // The effect after which there is a machine, and nobody knows of it yet: the order.
    for last in 1..30 {
        world = World::new();
        let effects = Effects::up_to(last);
        let first = mutant.factory(World::settings("first"))(effects.around(world.edges(User::admin())));
        world.claim("a").await;
        tokio::select! {
            biased;
            () = effects.crash.cancelled() => {}
            () = first => panic!("the replica ended"),
        }
        if !world.living().is_empty() {
            break;
        }
    }
    assert_eq!(world.living().len(), 1);
    // No life begins at the same time as another.
    world.clock.sleep(Duration::from_secs(1)).await;
    while_working(world.mutant(mutant), async {
        world.until_launched("a").await;
        assert_eq!(world.living().len(), 2);
    })
    .await;
}
