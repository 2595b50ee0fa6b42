//! One claim from the wish for a machine to its end, on good days and on bad ones.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use karpenter_ibm::api::CapacityType;
use karpenter_ibm::cloud::{InstanceName, Order};
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{World, while_working};

#[tokio::test(start_paused = true)]
async fn a_claim_gets_a_machine_that_runs_and_says_which() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let claim = world.read("a").await.unwrap();
        let [machine] = world.living().try_into().unwrap();
        let status = claim.status.clone().unwrap();
        let allocation = status.allocation.unwrap();
        assert_eq!(machine.status, "running");
        assert_eq!(allocation.instance_id.as_ref(), Some(&machine.id));
        assert_eq!(allocation.instance_name, machine.name);
        assert_eq!(
            status.provider_id,
            Some(format!("ibm:///us-south/{}", machine.id))
        );
        let document = machine.user_data.unwrap();
        assert!(document.contains("--hostname-override=a "), "{document}");
        let labels = claim.labels();
        assert_eq!(labels["node.kubernetes.io/instance-type"], "bxf-2x8");
        assert_eq!(labels["topology.kubernetes.io/zone"], "us-south-1");
        assert_eq!(labels["karpenter.sh/capacity-type"], "spot");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_goes_after_its_machine() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.delete("a").await;
        world.until_gone("a").await;
        assert!(
            world.cloud.instances().is_empty(),
            "{:?}",
            world.cloud.instances()
        );
        assert!(world.cloud.orphans().is_empty(), "{:?}", world.cloud.orphans());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_agrees_with_its_claim_is_registered_and_initialized() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let nodes = world.join("a").await;
        world.until_registered("a").await;
        assert!(!world.is_true("a", "Initialized").await, "it is not ready yet");
        world.make_ready("a").await;
        world
            .until("initialized", Duration::from_mins(1), async || {
                world.is_true("a", "Ready").await
            })
            .await;
        let node = nodes.get("a").await.unwrap();
        for label in ["karpenter.sh/registered", "karpenter.sh/initialized"] {
            assert_eq!(node.labels()[label], "true");
        }
        assert_eq!(node.labels()["topology.kubernetes.io/zone"], "us-south-1");
        assert!(node.spec.unwrap().taints.is_none(), "nothing keeps pods away");
        world.delete("a").await;
        world.until_gone("a").await;
        assert!(
            nodes.get_opt("a").await.unwrap().is_none(),
            "the node went with its machine"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_is_found_by_its_name() {
    let world = World::new();
    world
        .cloud
        .faults()
        .start(Fault::new(FaultKind::LostCreate).times(1));
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        assert_eq!(world.cloud.instances().len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_create_that_is_carried_out_late_leaves_nothing_behind() {
    let world = World::new();
    world
        .cloud
        .faults()
        .start(Fault::new(FaultKind::LateCreate).times(1));
    while_working(world.replica(), async {
        world.claim("a").await;
        world.clock.sleep(Duration::from_secs(10)).await;
        world.delete("a").await;
        let mut ever = BTreeSet::new();
        world
            .until("gone", Duration::from_mins(6), async || {
                ever.extend(world.cloud.instances().into_iter().map(|it| it.id));
                world.read("a").await.is_none()
            })
            .await;
        assert!(world.cloud.instances().is_empty());
        world.clock.sleep(Duration::from_mins(5)).await;
        assert!(world.cloud.instances().is_empty());
        assert_eq!(ever.len(), 1, "it was carried out while the claim still stood");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_start_is_followed_by_another() {
    let world = World::new();
    world.cloud.faults().start(
        Fault::new(FaultKind::StartFails)
            .reason("cannot_start_compute")
            .times(1),
    );
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let [machine] = world.living().try_into().unwrap();
        let allocation = world.read("a").await.unwrap().status.unwrap().allocation.unwrap();
        assert_eq!(allocation.attempt, 2);
        assert_eq!(
            (machine.name, machine.id),
            (allocation.instance_name, allocation.instance_id.unwrap())
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_preempted_machine_and_its_claim_are_given_up() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let [machine] = world.living().try_into().unwrap();
        world.cloud.preempt(&machine.id).unwrap();
        world.until_gone("a").await;
        assert!(world.cloud.instances().is_empty());
        assert_eq!(world.reasons().await, ["SpotPreemption"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_machine_somebody_deleted_is_given_up() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let [machine] = world.living().try_into().unwrap();
        world.seen().delete(&machine.id).await.unwrap();
        world.until_gone("a").await;
        assert_eq!(world.reasons().await, ["MachineVanished"]);
    })
    .await;
}

/// What is found under the name then is not its machine.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_machine_somebody_deleted_and_whose_name_a_stranger_took_is_given_up() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let [machine] = world.living().try_into().unwrap();
        let cloud = world.seen();
        cloud.delete(&machine.id).await.unwrap();
        world
            .until("deleted", Duration::from_mins(2), async || {
                world.cloud.instances().is_empty()
            })
            .await;
        let demo = cloud.resource_group(Some("demo")).await.unwrap().unwrap();
        let stranger = world.order_named(&machine.name, &demo);
        let stranger = cloud.create(&stranger).await.unwrap();
        world.until_gone("a").await;
        assert_eq!(world.reasons().await, ["MachineVanished"]);
        let [left] = world.living().try_into().unwrap();
        assert_eq!(left.id, stranger.id);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_claim_is_collected_and_a_strangers_is_not() {
    let world = World::new();
    let (cluster, cloud) = (world.cluster_id().await, world.seen());
    let demo = cloud.resource_group(Some("demo")).await.unwrap().unwrap();
    let named = |uid: &str| InstanceName::new(cluster, uid).unwrap().to_string();
    let orphan = named("00000000-0000-4000-8000-000000000001");
    let orphan = world.order(&orphan, CapacityType::OnDemand);
    let stranger = world.order_named(&named("00000000-0000-4000-8000-000000000002"), &demo);
    cloud.create(&orphan).await.unwrap();
    cloud.create(&stranger).await.unwrap();
    while_working(world.replica(), async {
        world.clock.sleep(Duration::from_mins(6)).await;
        let [left] = world.cloud.instances().try_into().unwrap();
        assert_eq!(left.name, stranger.name);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_half_way_deletes_nothing() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let before = world.cloud.instances();
        for kind in [FaultKind::ServerError, FaultKind::HtmlError] {
            world.cloud.faults().start(Fault::new(kind));
            world.clock.sleep(Duration::from_mins(20)).await;
            world.cloud.faults().clear();
        }
        assert_eq!(world.cloud.instances(), before);
        assert!(
            world
                .read("a")
                .await
                .unwrap()
                .metadata
                .deletion_timestamp
                .is_none()
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_class_is_missing_waits_and_says_why_once() {
    let world = World::new();
    let classes: Api<karpenter_ibm::api::IBMNodeClass> = Api::all(world.kube.admin());
    classes
        .delete("default", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(world.reasons().await, ["LaunchBlocked"]);
        let class = serde_json::from_value(world.class()).unwrap();
        classes.create(&PostParams::default(), &class).await.unwrap();
        world.until_launched("a").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_table_that_kubectl_prints_shows_type_capacity_zone_and_node() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        let table = Request::get("/apis/karpenter.sh/v1/nodeclaims")
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new());
        let table: Value = world.kube.admin().request(table.unwrap()).await.unwrap();
        let texts = |list: &Value, at: &str| -> Vec<String> {
            let cell = |it: &Value| it.pointer(at).unwrap().as_str().unwrap_or_default().to_owned();
            list.as_array().unwrap().iter().map(cell).collect()
        };
        let columns = texts(&table["columnDefinitions"], "/name");
        let cells = texts(&table["rows"][0]["cells"], "");
        let shown: Vec<(&str, &str)> = columns
            .iter()
            .zip(&cells)
            .map(|(column, cell)| (column.as_str(), cell.as_str()))
            .collect();
        let expected = [
            ("Name", "a"),
            ("Type", "bxf-2x8"),
            ("Capacity", "spot"),
            ("Zone", "us-south-1"),
            ("Node", "a"),
            ("Ready", "True"),
        ];
        assert_eq!(shown[..6], expected);
        assert!(columns.contains(&"ID".to_owned()), "with -o wide: {columns:?}");
    })
    .await;
}

impl World {
    /// Somebody's machine on demand, in a resource group that is not ours.
    fn order_named(&self, name: &str, resource_group: &str) -> Order {
        Order {
            resource_group: resource_group.to_owned(),
            ..self.order(name, CapacityType::OnDemand)
        }
    }

    /// A Node as a kubelet on the claim's machine registers it, not ready yet.
    pub(super) async fn join(&self, name: &str) -> Api<Node> {
        let nodes: Api<Node> = Api::all(self.kube.admin());
        let claim = self.read(name).await.unwrap();
        let provider_id = claim.status.unwrap().provider_id.unwrap();
        let machine = self
            .cloud
            .instance(provider_id.rsplit('/').next().unwrap())
            .unwrap();
        let node = json!({
            "metadata": {"name": name},
            "spec": {"providerID": provider_id, "taints": [
                {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
            ]},
        });
        let node = serde_json::from_value(node).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let address = machine.address.unwrap().to_string();
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
        let params = PatchParams::default();
        nodes
            .patch_status(name, &params, &Patch::Merge(status))
            .await
            .unwrap();
        nodes
    }

    pub(super) async fn make_ready(&self, name: &str) {
        let nodes: Api<Node> = Api::all(self.kube.admin());
        // As the node lifecycle controller would, of which there is none here.
        let taints = json!({"spec": {"taints": null}});
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let params = PatchParams::default();
        nodes.patch(name, &params, &Patch::Merge(taints)).await.unwrap();
        nodes
            .patch_status(name, &params, &Patch::Merge(ready))
            .await
            .unwrap();
    }

    /// The reasons of all events, in order of their names.
    pub(super) async fn reasons(&self) -> Vec<String> {
        let events: Api<Event> = Api::all(self.kube.admin());
        let events = events.list(&ListParams::default()).await.unwrap();
        events
            .items
            .into_iter()
            .filter_map(|event| event.reason)
            .collect()
    }
}
