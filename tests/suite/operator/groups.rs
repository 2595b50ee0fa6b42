//! The resource group of a class: with their names, machines are known as ours by it.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_ibm::api::{CapacityType, IBMNodeClass};
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{World, while_working};

const RULES: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations";

impl World {
    /// Somebody changes a definition.
    pub(super) async fn redefine(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.kube.admin());
        let mut definition = serde_json::to_value(definitions.get(name).await.unwrap()).unwrap();
        change(&mut definition);
        let definition = serde_json::from_value(definition).unwrap();
        let replaced = definitions
            .replace(name, &PostParams::default(), &definition)
            .await;
        replaced.unwrap();
    }

    async fn refused_change(&self, class: &str, change: &Value) -> String {
        let patch = Patch::Merge(json!({"spec": change}));
        let changed = self.classes().patch(class, &PatchParams::default(), &patch).await;
        changed.unwrap_err().to_string()
    }

    async fn class_now(&self, name: &str) -> Option<IBMNodeClass> {
        self.classes().get_opt(name).await.unwrap()
    }

    async fn ready_message(&self, name: &str) -> String {
        let class = self.class_now(name).await.unwrap();
        let status = class.status.unwrap_or_default();
        let ready = status.condition("Ready");
        ready.and_then(|it| it.message.clone()).unwrap_or_default()
    }

    async fn until_no_class(&self, name: &str, within: Duration) {
        self.until("the class is gone", within, async || {
            self.class_now(name).await.is_none()
        })
        .await;
    }
}

fn minutes(count: u64) -> Duration {
    Duration::from_mins(count)
}

#[tokio::test(start_paused = true)]
async fn the_group_of_a_class_can_be_neither_set_nor_changed_nor_unset() {
    let world = World::new();
    world.add_class("named", &json!({"resourceGroup": "demo"})).await;
    for (class, change) in [
        ("default", json!({"resourceGroup": "default"})),
        ("named", json!({"resourceGroup": "default"})),
        ("named", json!({"resourceGroup": null})),
    ] {
        let why = world.refused_change(class, &change).await;
        assert!(why.contains("make another class"), "{class} {change}: {why}");
    }
    world
        .change_class("named", &json!({"resourceGroup": "demo", "tags": {"team": "a"}}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn where_the_definition_lets_the_group_change_nothing_is_bought_and_machines_stay_ours() {
    let world = World::new();
    let unruled = |definition: &mut Value| {
        let rules = definition.pointer_mut(RULES).unwrap().as_array_mut().unwrap();
        rules.retain(|rule| !rule["rule"].as_str().unwrap().contains("oldSelf"));
    };
    world.redefine("ibmnodeclasses.karpenter-ibm.sh", unruled).await;
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let before = world.class_now("default").await.unwrap();
        world
            .change_class("default", &json!({"resourceGroup": "demo"}))
            .await;
        let class = world.until_judged("default", "False", minutes(1)).await;
        assert_eq!(
            class.readiness().unwrap().reason.as_deref(),
            Some("ResourceGroupChanged")
        );
        assert_eq!(class.recorded_group(), before.recorded_group());
        world.claim("b").await;
        world.orphan(1, CapacityType::OnDemand).await;
        world
            .until("what nobody claims is swept", minutes(8), async || {
                world.living().len() == 1
            })
            .await;
        assert!(
            world
                .read("a")
                .await
                .unwrap()
                .metadata
                .deletion_timestamp
                .is_none()
        );
        assert_eq!(world.orders(), 2, "the first, and the one of this test");
        world
            .change_class("default", &json!({"resourceGroup": null}))
            .await;
        world.until_launched("b").await;
        world.delete("a").await;
        world.until_gone("a").await;
        assert_eq!(world.living().len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_class_stays_until_no_machine_of_ours_is_left_in_its_group() {
    let world = World::new();
    while_working(world.replica(), async {
        world.until_judged("default", "True", minutes(1)).await;
        let orphan = world.orphan(1, CapacityType::OnDemand).await;
        let name = world.cloud.instance(&orphan).unwrap().name;
        world.unclassed().await;
        world
            .until("it says what it waits for", minutes(1), async || {
                world.ready_message("default").await.contains(&name)
            })
            .await;
        assert_eq!(world.reasons().await, ["WaitingForMachines"]);
        // The sweep finds it only by the class that is to go.
        world.until_no_class("default", minutes(8)).await;
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

/// When the last class of a group is gone, nobody sweeps the group: what is left there would cost money for ever.
#[tokio::test(start_paused = true)]
async fn a_deleted_class_stays_until_nothing_that_machines_left_behind_is_in_its_group() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let forgotten = Fault::new(FaultKind::AutoDeleteIgnored);
        world.cloud.faults().start(forgotten);
        world.delete("a").await;
        world.until_gone("a").await;
        let left = world.cloud.parts_without_instance();
        assert_eq!(left.len(), 2, "an interface and a volume: {left:?}");
        world.unclassed().await;
        world
            .until("it says what it waits for", minutes(1), async || {
                let told = world.ready_message("default").await;
                left.iter().all(|part| told.contains(&part.name))
            })
            .await;
        assert!(world.reasons().await.contains(&"WaitingForLeftovers".to_owned()));
        world.until_no_class("default", minutes(12)).await;
        assert!(world.cloud.parts_without_instance().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_class_waits_for_no_volume_that_is_kept_on_purpose() {
    let world = World::new();
    let kept =
        json!({"blockDeviceMappings": [{"rootVolume": true, "volumeSpec": {"deleteOnTermination": false}}]});
    world.change_class("default", &kept).await;
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.delete("a").await;
        world.until_gone("a").await;
        world.unclassed().await;
        world.until_no_class("default", minutes(1)).await;
        assert_eq!(world.cloud.parts_without_instance().len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_class_goes_at_once_where_another_shows_the_same_group() {
    let world = World::new();
    world.add_class("other", &json!({})).await;
    while_working(world.replica(), async {
        world.until_judged("default", "True", minutes(1)).await;
        world.until_judged("other", "True", minutes(1)).await;
        world.orphan(1, CapacityType::OnDemand).await;
        world.unclassed().await;
        world.until_no_class("default", Duration::from_secs(10)).await;
        assert_eq!(world.living().len(), 1);
        world
            .until("it is swept", minutes(8), async || world.living().is_empty())
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_class_stays_while_it_cannot_be_read_whether_machines_are_left() {
    let world = World::new();
    while_working(world.replica(), async {
        world.until_judged("default", "True", minutes(1)).await;
        world
            .cloud
            .faults()
            .start(Fault::new(FaultKind::ServerError).on("instances.list"));
        world.unclassed().await;
        world.clock.sleep(minutes(5)).await;
        let told = world.ready_message("default").await;
        assert!(told.contains("it stays until it is known"), "{told}");
        world.cloud.faults().clear();
        world.until_no_class("default", minutes(2)).await;
    })
    .await;
}
