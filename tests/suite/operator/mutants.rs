//! Each mutant does the harm it is made for, in a story that the product lives through without any.

use std::time::Duration;

use futures::future::BoxFuture;
use karpenter_ibm::api::NodeClaim;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use karpenter_ibm::sim::mutants::Mutant;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::effects::Effects;
use super::{World, audited, while_working};

impl World {
    /// Takes the claim of a machine away without anybody hearing that it goes.
    pub(super) async fn force_out(&self, machine: &str) {
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

    /// Nothing is heard of a Node any more. As long as it is ready, its machine is not collected.
    pub(super) async fn silence(&self, node: &str) {
        let silent = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        let (nodes, params) = (self.nodes(), PatchParams::default());
        nodes
            .patch_status(node, &params, &Patch::Merge(silent))
            .await
            .unwrap();
    }

    pub(super) fn mutant(&self, mutant: Mutant) -> BoxFuture<'static, ()> {
        mutant.factory(Self::settings("one"))(self.edges())
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
        let first = mutant.factory(World::settings("first"))(effects.around(world.edges()));
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

/// Plays a story with the product and with a mutant; what comes of it.
pub(super) async fn each<T>(mutant: Mutant, story: impl AsyncFn(World) -> T) -> [T; 2] {
    let mut told = Vec::new();
    for mutant in [None, Some(mutant)] {
        let world = World::new();
        let replica = mutant.map_or_else(|| world.replica(), |mutant| world.mutant(mutant));
        told.push(while_working(replica, story(world)).await);
    }
    let Ok(told) = told.try_into() else {
        unreachable!("there are two");
    };
    told
}

#[tokio::test(start_paused = true)]
async fn one_that_reads_no_limits_buys_more_than_a_pool_may_have() {
    let bought = each(Mutant::LimitsUnread, async |world: World| {
        world.limited_pool(&json!({"nodes": 1})).await;
        world.claim("a").await;
        world.claim("b").await;
        world.clock.sleep(Duration::from_mins(3)).await;
        world.living().len()
    });
    assert_eq!(bought.await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn one_that_asks_for_no_address_trusts_whoever_has_the_name() {
    let trusted = each(Mutant::AnyAddress, async |world: World| {
        world.claim("a").await;
        world.until_launched("a").await;
        let nodes = world.join("a").await;
        let elsewhere = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}});
        let elsewhere = Patch::Merge(elsewhere);
        let moved = nodes.patch_status("a", &PatchParams::default(), &elsewhere).await;
        moved.unwrap();
        world.clock.sleep(Duration::from_mins(2)).await;
        world.is_true("a", "Registered").await
    });
    assert_eq!(trusted.await, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_machines_as_ordered_describes_them_wrongly() {
    let right = each(Mutant::TakenAsOrdered, async |world: World| {
        let other = Fault::new(FaultKind::WrongProfile).times(1);
        world.cloud.faults().start(other);
        world.claim("a").await;
        world.until_launched("a").await;
        let (claim, machine) = (world.read("a").await.unwrap(), world.living().remove(0));
        let labels = claim.labels();
        let said = (
            labels["node.kubernetes.io/instance-type"].as_str(),
            labels["topology.kubernetes.io/zone"].as_str(),
        );
        assert_ne!(
            (machine.profile, machine.zone.as_str()),
            ("bxf-2x8", "us-south-1")
        );
        said == (machine.profile, machine.zone.as_str())
    });
    assert_eq!(right.await, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_blind_to_clusters_deletes_what_is_a_twins() {
    let left = each(Mutant::ClusterBlind, async |world: World| {
        let twin = world.twin();
        while_working(twin.replica(), async {
            twin.claim("b").await;
            twin.until_launched("b").await;
        })
        .await;
        world.claim("a").await;
        world.until_launched("a").await;
        world.clock.sleep(Duration::from_mins(6)).await;
        world.living().len()
    });
    assert_eq!(left.await, [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn one_that_orders_lasting_parts_leaves_them_behind() {
    let tidy = each(Mutant::LastingParts, async |world: World| {
        world.claim("a").await;
        world.until_launched("a").await;
        world.delete("a").await;
        world.until_gone("a").await;
        world.cloud.orphans().is_empty()
    });
    assert_eq!(tidy.await, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_that_repeats_itself_writes_what_is_written() {
    let mut writes = Vec::new();
    for mutant in [None, Some(Mutant::RepeatedWrites)] {
        let (world, effects) = (World::new(), Effects::without_end());
        let edges = effects.around(world.edges());
        let settings = World::settings("one");
        let factory = mutant.map_or_else(
            || audited::factory(settings.clone()),
            |mutant| mutant.factory(settings.clone()),
        );
        while_working(factory(edges), async {
            world.claim("a").await;
            world.until_launched("a").await;
        })
        .await;
        let log = effects.log();
        writes.push(log.iter().filter(|(_, path)| path.ends_with("/a/status")).count());
    }
    assert_eq!(writes, [3, 6]);
}

#[tokio::test(start_paused = true)]
async fn one_that_dates_conditions_anew_forgets_since_when_they_hold() {
    let kept = each(Mutant::RestlessTimes, async |world: World| {
        let since = async || {
            let status = world.read("a").await.unwrap().status.unwrap();
            let conditions = status.conditions.unwrap();
            let launched = conditions.into_iter().find(|it| it.type_ == "Launched");
            launched.unwrap().last_transition_time
        };
        world.claim("a").await;
        world.until_launched("a").await;
        let before = since().await;
        world.clock.sleep(Duration::from_secs(30)).await;
        world.join("a").await;
        world.until_registered("a").await;
        since().await == before
    });
    assert_eq!(kept.await, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_that_keeps_its_first_token_is_shut_out_for_ever() {
    let works = each(Mutant::OneToken, async |world: World| {
        world.claim("a").await;
        world.until_launched("a").await;
        world.cloud.revoke_tokens();
        world.clock.sleep(Duration::from_mins(1)).await;
        world.claim("b").await;
        world.clock.sleep(Duration::from_mins(3)).await;
        world.is_true("b", "Launched").await
    });
    assert_eq!(works.await, [true, false]);
}
