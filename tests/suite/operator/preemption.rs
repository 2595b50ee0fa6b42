//! IBM takes spot machines back, at every moment of a claim's life; and machines end in other ways.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use karpenter_ibm::api::{CapacityType, NodeClaim, UnavailableOffering};
use karpenter_ibm::cloud::{ClusterId, InstanceName, Order, VolumeOrder};
use karpenter_ibm::sim::ibm::{HostFailure, Options};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::load::PAGE;
use super::{World, while_working};

/// One poll, and what follows from it.
const ONE_POLL: Duration = Duration::from_secs(62);

impl World {
    /// The events of that reason: on what, which kind, and the note.
    pub(super) async fn told(&self, reason: &str) -> Vec<(String, String, String)> {
        let events: Api<Event> = Api::all(self.kube.admin());
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let mut told: Vec<_> = events
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason))
            .map(|event| {
                let about = event.regarding.unwrap();
                let about = format!("{} {}", about.kind.unwrap(), about.name.unwrap());
                (about, event.type_.unwrap(), event.note.unwrap())
            })
            .collect();
        told.sort();
        told
    }

    /// What is withheld for that reason, and for how many minutes.
    pub(super) async fn withheld(&self, reason: &str) -> Vec<(String, i64)> {
        let holds: Api<UnavailableOffering> = Api::all(self.kube.admin());
        let holds = holds.list(&ListParams::default()).await.unwrap().items;
        let holds = holds.into_iter().filter(|hold| hold.spec.reason == reason);
        holds
            .map(|hold| {
                let length = hold.spec.until.0.as_second() - hold.spec.since.unwrap().0.as_second();
                (hold.name_any(), length / 60)
            })
            .collect()
    }

    /// The machine of a claim.
    pub(super) async fn machine_of(&self, name: &str) -> String {
        let status = self.read(name).await.unwrap().status.unwrap();
        status.allocation.unwrap().instance_id.unwrap()
    }

    pub(super) async fn preempt(&self, name: &str) {
        self.cloud.preempt(&self.machine_of(name).await).unwrap();
    }

    async fn until_stopped(&self, machine: &str) {
        self.until("off", Duration::from_mins(1), async || {
            self.cloud
                .instance(machine)
                .is_none_or(|it| it.status != "stopping")
        })
        .await;
    }

    pub(super) async fn is_deleting(&self, name: &str) -> bool {
        let claim = self.read(name).await;
        claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some())
    }

    /// Its kubelet says that the machine is being shut down.
    pub(super) async fn shut_down(&self, name: &str) {
        let status = json!({"status": {"conditions": [{
            "type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "node is shutting down",
        }]}});
        let params = PatchParams::default();
        self.nodes()
            .patch_status(name, &params, &Patch::Merge(status))
            .await
            .unwrap();
    }

    pub(super) async fn is_tainted(&self, name: &str) -> bool {
        let node = self.nodes().get(name).await.unwrap();
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted")
    }

    pub(super) async fn cluster_id(&self) -> ClusterId {
        let namespaces: Api<Namespace> = Api::all(self.kube.admin());
        ClusterId::from_kube_system_uid(&namespaces.get("kube-system").await.unwrap().uid().unwrap())
    }

    /// An order for a machine of that name, in our resource group.
    pub(super) fn order(&self, name: &str, capacity_type: CapacityType) -> Order {
        let account = self.cloud.account();
        Order {
            name: name.to_owned(),
            attempt: 1,
            profile: "bxf-2x8".to_owned(),
            zone: account.zones[0].clone(),
            capacity_type,
            vpc: account.vpc.clone(),
            subnet: account.subnets[0].clone(),
            image: account.image.clone(),
            security_groups: Vec::new(),
            ssh_keys: Vec::new(),
            resource_group: account.resource_group,
            placement_target: None,
            trusted_profile: None,
            boot_volume: VolumeOrder::default(),
            data_volumes: Vec::new(),
            tags: BTreeSet::new(),
            user_data: None,
            send_by: self.clock.instant() + Duration::from_secs(5),
        }
    }

    /// A machine of ours that no claim answers for.
    pub(super) async fn orphan(&self, number: u32, capacity_type: CapacityType) -> String {
        let uid = format!("00000000-0000-4000-8000-{number:012}");
        let name = InstanceName::new(self.cluster_id().await, &uid).unwrap();
        let order = self.order(&name.to_string(), capacity_type);
        self.seen().create(&order).await.unwrap().id
    }

    /// One of those that may be taken back, once it runs.
    pub(super) async fn running_orphan(&self) -> String {
        let orphan = self.orphan(1, CapacityType::Spot).await;
        self.until_running(std::slice::from_ref(&orphan)).await;
        orphan
    }
}

#[tokio::test(start_paused = true)]
async fn a_preemption_is_told_once_on_claim_and_node_the_offering_withheld_and_everything_given_up() {
    let world = World::new();
    while_working(world.replica(), async {
        world.guarded_node("a").await;
        let machine = world.machine_of("a").await;
        world.preempt("a").await;
        world.until_stopped(&machine).await;
        world
            .until("leaving", ONE_POLL, async || world.is_deleting("a").await)
            .await;
        world.until_gone("a").await;
        assert!(world.cloud.instances().is_empty() && world.cloud.orphans().is_empty());
        assert!(world.nodes().get_opt("a").await.unwrap().is_none());
        let told = world.told("SpotPreemption").await;
        let about: Vec<&str> = told.iter().map(|(about, _, _)| about.as_str()).collect();
        assert_eq!(about, ["Node a", "NodeClaim a"]);
        for (_, kind, note) in told {
            assert_eq!(kind, "Warning");
            assert!(note.starts_with("Spot instance preempted by IBM Cloud"), "{note}");
        }
        let withheld = world.withheld("Preempted").await;
        assert_eq!(withheld, [("spot.bxf-2x8.us-south-1".to_owned(), 60)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_word_of_a_kubelet_taints_its_node_within_seconds_of_the_notice() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        // Right after a poll, which would see it only a minute later.
        world.clock.sleep(Duration::from_secs(1)).await;
        world.preempt("a").await;
        world.shut_down("a").await;
        world
            .until("tainted", Duration::from_secs(10), async || {
                world.is_tainted("a").await
            })
            .await;
        assert_eq!(
            world.withheld("Stopping").await,
            [("spot.bxf-2x8.us-south-1".to_owned(), 2)]
        );
        // It is followed until it is off: no poll is waited for.
        world
            .until("leaving", Duration::from_secs(38), async || {
                world.is_deleting("a").await
            })
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_goes_on_after_all_takes_pods_again() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        // Somebody marked it as the interruption controller does, and the machine runs.
        let since =
            Patch::Merge(json!({"metadata": {"annotations": {"karpenter-ibm.sh/interrupted-since": "x"}}}));
        let params = PatchParams::default();
        world.claims().patch("a", &params, &since).await.unwrap();
        let taints = Patch::Merge(json!({
            "metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter"}},
            "spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
        }));
        world.nodes().patch("a", &params, &taints).await.unwrap();
        world
            .until("well", ONE_POLL * 2, async || !world.is_tainted("a").await)
            .await;
        world.clock.sleep(Duration::from_secs(5)).await;
        assert!(
            world
                .read("a")
                .await
                .unwrap()
                .annotations()
                .get("karpenter-ibm.sh/interrupted-since")
                .is_none()
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_preemption_before_the_node_registers_or_while_it_gets_ready_is_handled_alike() {
    for joins in [false, true] {
        let world = World::new();
        while_working(world.replica(), async {
            world.claim("a").await;
            world.until_launched("a").await;
            if joins {
                world.join("a").await;
                world.until_registered("a").await;
            }
            world.preempt("a").await;
            world.until_gone("a").await;
            assert!(world.cloud.instances().is_empty());
            assert_eq!(world.told("SpotPreemption").await.len(), 1 + usize::from(joins));
            assert_eq!(world.withheld("Preempted").await.len(), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_preemption_during_a_drain_ends_the_drain_and_is_told_once() {
    let world = World::new();
    while_working(world.replica(), async {
        world.guarded_node("a").await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(world.living().len(), 1, "a budget holds it");
        world.preempt("a").await;
        world.until_gone("a").await;
        assert_eq!(world.told("SpotPreemption").await.len(), 2);
        assert_eq!(world.withheld("Preempted").await.len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn several_claims_in_a_row_may_be_preempted() {
    let world = World::new();
    while_working(world.replica(), async {
        for (name, zone) in [("a", "us-south-1"), ("b", "us-south-2"), ("c", "us-south-3")] {
            world.claim_in(name, zone).await;
            world.make_node(name).await;
            world.preempt(name).await;
            world.until_gone(name).await;
        }
        assert_eq!(world.withheld("Preempted").await.len(), 3);
        assert_eq!(world.told("SpotPreemption").await.len(), 6);
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_preempted_machine_of_ours_without_a_claim_is_removed_and_its_offering_withheld() {
    let world = World::new();
    let orphan = world.running_orphan().await;
    world.cloud.preempt(&orphan).unwrap();
    world.until_stopped(&orphan).await;
    while_working(world.replica(), async {
        world
            .until("gone", Duration::from_mins(3), async || {
                world.cloud.instances().is_empty()
            })
            .await;
        assert_eq!(world.withheld("Preempted").await.len(), 1);
        let told = world.told("GarbageCollected").await;
        assert!(told.len() == 1 && told[0].2.contains(&orphan), "{told:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_preempted_one_of_more_than_a_hundred_machines_is_found_on_the_last_page() {
    let world = World::with(|options| {
        (options.quotas.spot_instances, options.stock.spot) = (1000, 1000);
    });
    let cloud = world.seen();
    for number in 0..150 {
        let order = world.order(&format!("neighbor-{number}"), CapacityType::Spot);
        cloud.create(&order).await.unwrap();
    }
    while_working(world.replica(), async {
        for name in ["a", "b", "c", "d"] {
            world.claim(name).await;
            world.until_launched(name).await;
        }
        // Lists are in the order in which machines were made.
        let all: Vec<String> = world.cloud.instances().into_iter().map(|it| it.id).collect();
        let machine = world.machine_of("d").await;
        let place = all.iter().position(|id| *id == machine).unwrap();
        assert_eq!(place / PAGE, (all.len() - 1) / PAGE, "it is on the last page");
        assert!(place / PAGE > 0, "which is not the first");
        let before = world.cloud.requests().count();
        world.preempt("d").await;
        world.until_gone("d").await;
        assert!(pages(&world, before) > 0, "the poll has turned pages");
        let told = world.told("SpotPreemption").await;
        let about: Vec<&str> = told.iter().map(|(about, _, _)| about.as_str()).collect();
        assert_eq!(about, ["NodeClaim d"]);
        assert_eq!(world.cloud.instances().len(), 153);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_wave_of_200_preemptions_is_handled_within_one_poll_and_the_budget_of_requests() {
    let world = World::with(Options::make_roomy);
    world.settle(200, CapacityType::Spot).await;
    world.clock.sleep(Duration::from_mins(3)).await;
    while_working(world.replica(), async {
        world.clock.sleep(Duration::from_mins(2)).await;
        let wave = world.living();
        assert!(wave.iter().all(|machine| machine.status == "running"));
        for machine in &wave {
            world.cloud.preempt(&machine.id).unwrap();
        }
        world.until_stopped(&wave[0].id).await;
        world
            .until("all leave", ONE_POLL, async || {
                let claims = world.all_claims().await;
                let going = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_some();
                claims.iter().all(going)
            })
            .await;
        assert_eq!(world.withheld("Preempted").await.len(), 1);
        assert_eq!(
            world.told("SpotPreemption").await.len(),
            2 * wave.len(),
            "each once"
        );
        world
            .until("all gone", Duration::from_mins(15), async || {
                world.cloud.instances().is_empty() && world.all_claims().await.is_empty()
            })
            .await;
        assert!(world.cloud.orphans().is_empty(), "and what they had");
        world.is_within_budget();
    })
    .await;
}

/// How many following pages of spot machines were asked for since the request of that number.
fn pages(world: &World, since: u64) -> usize {
    let requests = world.cloud.requests();
    let spot = requests
        .since(since)
        .filter(|seen| seen.query.contains("availability.class=spot"));
    spot.filter(|seen| seen.query.contains("start=")).count()
}

/// How spot machines were looked at since the request of that number: by lists, and by their ids.
pub(super) fn looks(world: &World, since: u64) -> (usize, usize) {
    let requests = world.cloud.requests();
    let all: Vec<_> = requests.iter().collect();
    let lately = usize::try_from(requests.count() - since).unwrap();
    let lately = &all[all.len() - lately..];
    let lists = lately
        .iter()
        .filter(|seen| seen.query.contains("availability.class=spot"));
    let reads = lately
        .iter()
        .filter(|seen| seen.path.starts_with("/v1/instances/"));
    (lists.count(), reads.count())
}

#[tokio::test(start_paused = true)]
async fn more_than_three_early_words_within_a_second_cost_one_list_and_fewer_a_look_each() {
    for (words, looked) in [(3, (0, 3)), (4, (1, 0))] {
        let world = World::new();
        while_working(world.replica(), async {
            for name in ["a", "b", "c", "d"] {
                world.ready_node(name).await;
            }
            // Polls are a minute apart; the next one is made to be far away.
            let before = world.cloud.requests().count();
            world
                .until("polled", ONE_POLL, async || looks(&world, before).0 > 0)
                .await;
            world.clock.sleep(Duration::from_secs(10)).await;
            let before = world.cloud.requests().count();
            for name in ["a", "b", "c", "d"].into_iter().take(words) {
                world.shut_down(name).await;
            }
            world.clock.sleep(Duration::from_secs(4)).await;
            assert_eq!(looks(&world, before), looked, "{words} words");
        })
        .await;
    }
}

/// How a machine comes to be off, other than by a preemption.
#[derive(Clone, Copy)]
enum Off {
    ByHand,
    ByItsHost,
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_somebody_or_its_host_switches_off_is_replaced_and_one_that_restarts_is_kept() {
    let each = [["spot"], ["on-demand"]]
        .into_iter()
        .flat_map(|ways| [Off::ByHand, Off::ByItsHost].map(|off| (ways, off)));
    for (ways, off) in each {
        let world = World::new();
        while_working(world.replica(), async {
            world.ready_node_of("a", &ways).await;
            let machine = world.machine_of("a").await;
            world
                .cloud
                .fail_host(&machine, Some(HostFailure::Restart))
                .unwrap();
            world.clock.sleep(Duration::from_mins(10)).await;
            assert!(!world.is_deleting("a").await);
            let (switched, words) = match off {
                Off::ByHand => (world.cloud.stop(&machine), "switched off"),
                Off::ByItsHost => (
                    world.cloud.fail_host(&machine, Some(HostFailure::Stop)),
                    "stopped_by_host_failure",
                ),
            };
            switched.unwrap();
            world.until_gone("a").await;
            let told = world.told("MachineStopped").await;
            assert!(told.len() == 1 && told[0].2.contains(words), "{told:?}");
            assert!(world.withheld("Preempted").await.is_empty());
            assert!(world.cloud.instances().is_empty());
        })
        .await;
    }
}

/// A pool, and a pod that runs on a spot node of it; the node's claim.
pub(super) async fn pod_on_spot(world: &World) -> String {
    world.pool("default", json!({})).await;
    world.waiting("web", json!({})).await;
    world
        .until("claimed", Duration::from_mins(1), async || {
            world.all_claims().await.len() == 1
        })
        .await;
    let name = world.all_claims().await[0].name_any();
    run_on(world, &name).await;
    assert_eq!(world.all_claims().await.len(), 1);
    name
}

/// The machine of a claim joins, and the pod runs on it.
pub(super) async fn run_on(world: &World, name: &str) {
    world.until_launched(name).await;
    world.join(name).await;
    world
        .until("registered", ONE_POLL, async || {
            world.is_true(name, "Registered").await
        })
        .await;
    world.report(name).await;
    world.make_ready(name).await;
    world
        .until("ready", ONE_POLL, async || world.is_true(name, "Ready").await)
        .await;
    world.bind("web", name).await;
    world.clock.sleep(Duration::from_mins(2)).await;
}

#[tokio::test(start_paused = true)]
async fn the_replacement_is_claimed_within_15_seconds_of_an_early_signal_and_else_within_a_poll_and_2_seconds()
 {
    for (early, bound) in [(true, Duration::from_secs(15)), (false, ONE_POLL)] {
        let world = World::new();
        while_working(world.replica(), async {
            let name = pod_on_spot(&world).await;
            let lost = world
                .read(&name)
                .await
                .unwrap()
                .status
                .unwrap()
                .allocation
                .unwrap();
            assert_eq!(lost.capacity_type, "spot");
            world.preempt(&name).await;
            if early {
                world.shut_down(&name).await;
            }
            world
                .until("replaced", bound, async || world.all_claims().await.len() == 2)
                .await;
            let claims = world.all_claims().await;
            let new = claims
                .iter()
                .find(|claim| claim.name_any() != name)
                .unwrap()
                .name_any();
            world.until_launched(&new).await;
            let bought = world
                .read(&new)
                .await
                .unwrap()
                .status
                .unwrap()
                .allocation
                .unwrap();
            assert_ne!(
                (&bought.profile, &bought.zone, &bought.capacity_type),
                (&lost.profile, &lost.zone, &lost.capacity_type),
                "another zone or profile"
            );
            world.until_gone(&name).await;
            assert_eq!(world.all_claims().await.len(), 1, "one replacement is enough");
        })
        .await;
    }
}
