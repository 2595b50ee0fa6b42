//! What nobody answers for is removed, and a cluster that has forgotten its machines does not lose them.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::api::{CapacityType, IBMNodeClass};
use karpenter_ibm::cloud::InstanceName;
use karpenter_ibm::controllers::context::Collecting;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use karpenter_ibm::sim::kube::write;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::unheard::Unheard;
use super::{World, audited, metric, while_working};

/// Two sweeps and their second looks.
const TWO_SWEEPS: Duration = Duration::from_mins(6);

impl World {
    /// The claim goes as if it had never been: nobody who waits for it is asked.
    pub(super) async fn lose(&self, name: &str) {
        let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.claims()
            .patch(name, &PatchParams::default(), &bare)
            .await
            .unwrap();
        self.delete(name).await;
    }

    pub(super) async fn until_running(&self, machines: &[String]) {
        self.until("run", Duration::from_mins(6), async || {
            machines
                .iter()
                .all(|id| self.cloud.instance(id).unwrap().status == "running")
        })
        .await;
    }
}

impl World {
    /// Somebody confirms what is to be collected.
    async fn confirm(&self, value: &str) {
        let classes: Api<IBMNodeClass> = Api::all(self.kube.admin());
        let patch = json!({"metadata": {"annotations": {"karpenter-ibm.sh/confirm-collection": value}}});
        classes
            .patch("default", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
}

/// What an alert says that must be confirmed.
fn confirmation(told: &[(String, String, String)]) -> String {
    let (_, confirm) = told[0]
        .2
        .rsplit_once("karpenter-ibm.sh/confirm-collection=")
        .unwrap();
    confirm.to_owned()
}

/// One of each that a sweep removes, besides the claim `lost`, whose machine is gone, and the Node `left`, which is being
/// deleted and which nobody answers for.
struct Litter {
    /// A machine of nobody.
    machine: String,
    /// What an order left behind that failed half way.
    part: String,
}

impl World {
    async fn litter(&self) -> Litter {
        self.claim("lost").await;
        self.until_launched("lost").await;
        let part = self.part(2).await;
        let machine = self.orphan(1, CapacityType::OnDemand).await;
        let lost = self.machine_of("lost").await;
        self.seen().delete(&lost).await.unwrap();
        let left = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "left", "finalizers": ["karpenter.sh/termination"]},
            "spec": {"providerID": "ibm:///us-south/0717_0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4"},
        });
        write::insert(&self.kube, left);
        let params = DeleteParams::default();
        self.nodes().delete("left", &params).await.unwrap();
        Litter { machine, part }
    }

    /// What is left of an order for a claim that is not there.
    async fn part(&self, number: u32) -> String {
        let before = self.cloud.orphans();
        self.cloud.faults().start(Fault::new(FaultKind::PartialCreate));
        let uid = format!("00000000-0000-4000-8000-{number:012}");
        let name = InstanceName::new(self.cluster_id().await, &uid).unwrap();
        let order = self.order(&name.to_string(), CapacityType::OnDemand);
        self.seen().create(&order).await.unwrap_err();
        self.cloud.faults().clear();
        let after = self.cloud.orphans();
        after.into_iter().find(|id| !before.contains(id)).unwrap()
    }

    /// Whether all of it is where it was.
    async fn is_untouched(&self, litter: &Litter) -> bool {
        let lies = self.living().iter().any(|machine| machine.id == litter.machine)
            && self.cloud.orphans().contains(&litter.part);
        let left = self.nodes().get_opt("left").await.unwrap();
        lies && !self.is_deleting("lost").await && left.is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_removed_of_which_nobody_can_be_told_and_later_it_goes_with_its_events() {
    let (world, unheard) = (World::new(), Unheard::default());
    let edges = unheard.around(world.edges());
    let registry = edges.registry.clone();
    let collected = |kind| metric(&registry, "karpenter_ibm_garbage_collected_total", kind);
    let found = |kind| metric(&registry, "karpenter_ibm_garbage_found", kind);
    while_working(audited::factory(World::settings("one"))(edges), async {
        unheard.begin();
        let litter = world.litter().await;
        world.clock.sleep(Duration::from_mins(8)).await;
        assert!(world.is_untouched(&litter).await);
        for kind in ["machine", "leftover", "claim", "node"] {
            assert_eq!(found(kind), 1, "{kind}");
        }
        assert_eq!(collected(""), 0);
        unheard.end();
        world
            .until("clean", TWO_SWEEPS, async || {
                let left = world.nodes().get_opt("left").await.unwrap();
                let cloud_is_clean = world.cloud.instances().is_empty() && world.cloud.orphans().is_empty();
                cloud_is_clean && left.is_none() && world.read("lost").await.is_none()
            })
            .await;
        let told = world.told("GarbageCollected").await;
        assert_eq!(told.len(), 3, "{told:?}");
        for found in [&litter.machine, &litter.part] {
            assert!(told.iter().any(|(_, _, note)| note.contains(found)), "{told:?}");
        }
        assert!(told.iter().any(|(about, _, _)| about == "Node left"), "{told:?}");
        let told = world.told("MachineVanished").await;
        assert!(told.len() == 1 && told[0].0 == "NodeClaim lost", "{told:?}");
        for kind in ["machine", "leftover", "claim"] {
            assert!(collected(kind) >= 1, "{kind}");
        }
        world.clock.sleep(TWO_SWEEPS).await;
        assert_eq!(found(""), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_create_that_failed_half_way_leaves_behind_is_removed() {
    let world = World::new();
    world
        .cloud
        .faults()
        .start(Fault::new(FaultKind::PartialCreate).times(3));
    while_working(world.replica(), async {
        world.claim("a").await;
        world.clock.sleep(Duration::from_secs(30)).await;
        assert!(!world.cloud.orphans().is_empty());
        world
            .until("clean", Duration::from_mins(15), async || {
                world.cloud.orphans().is_empty()
            })
            .await;
        assert!(!world.told("GarbageCollected").await.is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_claim_whose_node_is_ready_is_reported_and_never_collected() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        let machine = world.machine_of("a").await;
        world.lose("a").await;
        world.clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(world.living().len(), 1);
        let told = world.told("GarbageFound").await;
        assert!(told.len() == 1 && told[0].2.contains(&machine), "{told:?}");
        // Somebody takes the node out of service: now nobody uses the machine.
        world.nodes().delete("a", &DeleteParams::default()).await.unwrap();
        world
            .until("gone", Duration::from_mins(10), async || {
                world.cloud.instances().is_empty() && world.nodes().get_opt("a").await.unwrap().is_none()
            })
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn where_only_reports_are_wanted_everything_is_reported_once_and_nothing_is_touched() {
    let world = World::new();
    let mut settings = World::settings("one");
    settings.controllers.collecting = Collecting::Report;
    let replica = audited::factory(settings)(world.edges());
    while_working(replica, async {
        let litter = world.litter().await;
        world.clock.sleep(Duration::from_mins(8)).await;
        assert!(world.is_untouched(&litter).await);
        let told = world.told("GarbageFound").await;
        let about: Vec<&str> = told.iter().map(|(about, _, _)| about.as_str()).collect();
        let class = "IBMNodeClass default";
        assert_eq!(about, [class, class, "Node left", "NodeClaim lost"], "{told:?}");
        for found in [&litter.machine, &litter.part] {
            assert!(told.iter().any(|(_, _, note)| note.contains(found)), "{told:?}");
        }
        for reason in ["GarbageCollected", "MachineVanished", "CollectionStopped"] {
            assert!(world.told(reason).await.is_empty(), "{reason}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_backup_whose_claims_have_new_uids_costs_no_machine_until_somebody_confirms() {
    let world = World::new();
    let names = ["a", "b", "c", "d", "e"];
    while_working(world.replica(), async {
        for name in names {
            world.claim(name).await;
            world.until_launched(name).await;
        }
        world.clock.sleep(Duration::from_mins(2)).await;
    })
    .await;
    // The cluster is rebuilt from a backup: the same claims, other uids, and no status.
    for name in names {
        world.lose(name).await;
    }
    let edges = world.edges();
    let registry = edges.registry.clone();
    let stopped = || metric(&registry, "karpenter_ibm_garbage_collection_stopped", "");
    while_working(audited::factory(World::settings("one"))(edges), async {
        world.clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(world.living().len(), 5, "nothing was collected");
        assert_eq!(stopped(), 1);
        assert_eq!(metric(&registry, "karpenter_ibm_garbage_found", "machine"), 5);
        let told = world.told("CollectionStopped").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].2.contains("5 of 5 machines belong to no claim"),
            "{told:?}"
        );
        world.confirm("true").await;
        world.clock.sleep(TWO_SWEEPS).await;
        assert_eq!(
            world.living().len(),
            5,
            "these machines must be confirmed, not any"
        );
        world.confirm(&confirmation(&told)).await;
        world
            .until("collected", Duration::from_mins(10), async || {
                world.cloud.instances().is_empty()
            })
            .await;
        assert_eq!(stopped(), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_forced_out_all_at_once_cost_no_machine_until_somebody_confirms() {
    let world = World::new();
    let names = ["a", "b", "c", "d", "e"];
    while_working(world.replica(), async {
        for name in names {
            world.ready_node(name).await;
        }
        let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        for name in names {
            let (nodes, params) = (world.nodes(), PatchParams::default());
            nodes.patch(name, &params, &bare).await.unwrap();
            nodes.delete(name, &DeleteParams::default()).await.unwrap();
        }
        world.clock.sleep(Duration::from_mins(20)).await;
        assert!(world.all_nodes().await.is_empty());
        for name in names {
            assert!(!world.is_deleting(name).await, "{name}");
        }
        assert_eq!(world.living().len(), 5);
        let told = world.told("CollectionStopped").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].2.contains("5 of 5 claims have lost their node"),
            "{told:?}"
        );
        world.confirm(&confirmation(&told)).await;
        world
            .until("collected", Duration::from_mins(10), async || {
                world.cloud.instances().is_empty() && world.all_claims().await.is_empty()
            })
            .await;
        assert_eq!(world.told("NodeDeleted").await.len(), 5);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_many_claims_that_are_not_there_stays_until_somebody_confirms() {
    let world = World::new();
    let mut parts = Vec::new();
    for number in 1..=5 {
        parts.push(world.part(number).await);
    }
    while_working(world.replica(), async {
        world.clock.sleep(Duration::from_mins(20)).await;
        assert_eq!(world.cloud.orphans().len(), 5);
        let told = world.told("CollectionStopped").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].2.contains("5 claims that are not there"), "{told:?}");
        assert!(parts.iter().all(|part| told[0].2.contains(part)), "{told:?}");
        world.confirm(&confirmation(&told)).await;
        world
            .until("collected", Duration::from_mins(10), async || {
                world.cloud.orphans().is_empty()
            })
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_machines_of_a_cloned_etcd_are_not_collected_by_the_original() {
    let world = World::new();
    // The clone has the same cluster id, and buys for claims that the original has never seen.
    let mut machines = Vec::new();
    for number in 1..=8 {
        machines.push(world.orphan(number, CapacityType::OnDemand).await);
    }
    world.until_running(&machines).await;
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.clock.sleep(Duration::from_mins(12)).await;
        assert_eq!(world.living().len(), 9);
        assert_eq!(world.told("CollectionStopped").await.len(), 1);
    })
    .await;
}

/// While it is away no list of claims can be read, and when it is back all claims are forgotten: neither costs a machine.
#[tokio::test(start_paused = true)]
async fn a_definition_of_claims_that_is_removed_and_installed_anew_costs_no_machine() {
    const NAME: &str = "nodeclaims.karpenter.sh";
    let world = World::new();
    let names = ["a", "b", "c", "d", "e"];
    while_working(world.replica(), async {
        for name in names {
            world.claim(name).await;
            world.until_launched(name).await;
        }
        // Somebody wants it gone, and forces off what keeps it.
        for name in names {
            world.lose(name).await;
        }
        let installed: Api<CustomResourceDefinition> = Api::all(world.kube.admin());
        installed.delete(NAME, &DeleteParams::default()).await.unwrap();
        world.clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(world.living().len(), 5, "a list that failed says nothing");
        assert!(world.told("CollectionStopped").await.is_empty());
        let mut known = definitions().unwrap().into_iter();
        let ours = known.find(|it| it.object["metadata"]["name"] == NAME);
        write::insert(&world.kube, ours.unwrap().object);
        assert!(world.all_claims().await.is_empty());
        world.clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(world.living().len(), 5, "an empty list says too much");
        let told = world.told("CollectionStopped").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].2.contains("5 of 5 machines"), "{told:?}");
        world.claim("new").await;
        world.until_launched("new").await;
        assert_eq!(world.living().len(), 6, "and life goes on");
        let deletions = world.cloud.requests();
        let deletions = deletions.iter().filter(|it| it.method == http::Method::DELETE);
        assert_eq!(deletions.count(), 0);
    })
    .await;
}

/// oracle/karpenter-provider-oci#30, aws/karpenter-provider-aws#3951: a sweep with too wide a filter.
#[tokio::test(start_paused = true)]
async fn machines_of_others_are_never_collected_whatever_their_names_look_like() {
    let world = World::new();
    let cloud = world.seen();
    let uid = "0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4";
    for name in [
        format!("kib-00000000-{uid}"),
        "kib-mine".to_owned(),
        format!("kib-{uid}"),
    ] {
        cloud
            .create(&world.order(&name, CapacityType::OnDemand))
            .await
            .unwrap();
    }
    while_working(world.replica(), async {
        world.clock.sleep(Duration::from_mins(20)).await;
        assert_eq!(world.living().len(), 3);
    })
    .await;
}

/// kubernetes/autoscaler#2386, #5465, #6795: the wrong machine was deleted, by a stale list or by letting the cloud pick.
#[tokio::test(start_paused = true)]
async fn of_two_machines_exactly_the_orphan_goes_although_lists_lag() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        let kept = world.machine_of("a").await;
        let orphan = world.orphan(1, CapacityType::OnDemand).await;
        world.cloud.faults().start(Fault::new(FaultKind::ReadLag));
        world
            .until("collected", Duration::from_mins(15), async || {
                world.living().iter().all(|machine| machine.id != orphan)
            })
            .await;
        world.clock.sleep(TWO_SWEEPS).await;
        assert_eq!(
            world.living().iter().map(|it| it.id.as_str()).collect::<Vec<_>>(),
            [kept]
        );
    })
    .await;
}
