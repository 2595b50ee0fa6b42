//! The chart's roles allow what the controller does, and nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_ibm::operator;
use karpenter_ibm::sim::kube::identity::service_account;
use karpenter_ibm::sim::kube::write;
use serde_json::{Value, json};

use super::{NAMESPACE, World, while_working};

const RELEASE: &str = "karpenter-ibm";
const RBAC: &str = include_str!("../../../charts/karpenter-ibm/templates/rbac.yaml");

/// Group, resource and verb.
type Permission = (String, String, String);

fn objects() -> Vec<Value> {
    let text = RBAC
        .replace("{{ .Release.Name }}", RELEASE)
        .replace("{{ .Release.Namespace }}", NAMESPACE);
    assert!(!text.contains("{{"), "the test renders no other template");
    text.split("\n---\n")
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}

fn allowed(objects: &[Value]) -> BTreeSet<Permission> {
    let words = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let mut allowed = BTreeSet::new();
    for rule in objects
        .iter()
        .filter_map(|object| object["rules"].as_array())
        .flatten()
    {
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                for verb in words(&rule["verbs"]) {
                    allowed.insert((group.clone(), resource.clone(), verb));
                }
            }
        }
    }
    allowed
}

#[tokio::test(start_paused = true)]
async fn the_controller_uses_every_permission_of_the_chart_and_needs_no_other() {
    let world = World::new();
    let objects = objects();
    for object in &objects {
        write::insert(&world.kube, object.clone());
    }
    // A hold whose time was over long ago.
    write::insert(
        &world.kube,
        json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering", "metadata": {"name": "spot.all"},
            "spec": {"key": "spot:*:*", "reason": "Quota", "until": "2026-11-16T01:00:00Z"},
        }),
    );
    let user = service_account(NAMESPACE, RELEASE);
    let name = user.name.clone();
    let replica = operator::factory(World::settings("one"))(world.edges(user));
    while_working(replica, async {
        world.claim("deleted").await;
        world.claim("preempted").await;
        for claim in ["deleted", "preempted"] {
            world.until_launched(claim).await;
        }
        world.join("deleted").await;
        world
            .until("registered", Duration::from_mins(1), async || {
                world.is_true("deleted", "Registered").await
            })
            .await;
        world.delete("deleted").await;
        world.until_gone("deleted").await;
        let [machine] = world.living().try_into().unwrap();
        world.cloud.preempt(&machine.id).unwrap();
        world.until_gone("preempted").await;
    })
    .await;
    let usage = world.kube.usage();
    let used: BTreeSet<Permission> = usage
        .of(&name)
        .map(|used| (used.group.clone(), used.resource.clone(), used.verb.to_owned()))
        .collect();
    assert_eq!(used, allowed(&objects));
}
