//! The chart's roles allow what the controller and machines that join do, and nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_ibm::operator;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use karpenter_ibm::sim::kube::write;
use serde_json::{Value, json};

use super::{NAMESPACE, World, allocation, audited, chart, joining, while_working};

/// Group, resource and verb.
type Permission = (String, String, String);

/// Checked by the API server when a request is approved, and not a request itself.
const IMPLIED: (&str, &str, &str) = ("certificates.k8s.io", "signers", "approve");

/// A kubelet that starts again reads the request that it made before. The simulated one knows it by its name.
const AFTER_A_RESTART: (&str, &str, &str) = ("certificates.k8s.io", "certificatesigningrequests", "get");

/// Granted for finding another installation in the cluster, which nobody looks for yet.
const GRANTED_AHEAD: (&str, &str, &str) = ("coordination.k8s.io", "leases", "list");

fn permission((group, resource, verb): (&str, &str, &str)) -> Permission {
    (group.to_owned(), resource.to_owned(), verb.to_owned())
}

fn allowed(account: &str) -> BTreeSet<Permission> {
    let words = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let mut allowed = BTreeSet::new();
    for rule in chart::rules(account) {
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

fn used(world: &World, account: &str) -> BTreeSet<Permission> {
    let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
    let usage = world.kube.usage();
    usage
        .of(&user)
        .map(|used| (used.group.clone(), used.resource.clone(), used.verb.to_owned()))
        .collect()
}

#[test]
fn nobody_here_binds_pods_to_nodes() {
    for account in [chart::CONTROLLER, chart::JOINER] {
        let binds = |(_, resource, verb): &Permission| {
            resource == "pods/binding" || resource == "bindings" || resource.contains('*') || verb == "*"
        };
        assert_eq!(allowed(account).into_iter().find(binds), None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_controller_uses_every_permission_of_the_chart_and_needs_no_other() {
    let world = World::new();
    // A hold whose time was over long ago.
    write::insert(
        &world.kube,
        json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering", "metadata": {"name": "spot.all"},
            "spec": {"key": "spot:*:*", "reason": "Quota", "until": "2026-11-16T01:00:00Z"},
        }),
    );
    // One that has just ended: the next shortage of this offering is withheld for longer.
    write::insert(
        &world.kube,
        json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
            "metadata": {"name": "spot.bxf-2x8.us-south-1"},
            "spec": {
                "key": "spot:bxf-2x8:us-south-1", "reason": "Shortage",
                "since": "2026-11-16T09:00:00Z", "until": "2026-11-16T10:00:00Z",
            },
        }),
    );
    let settings = allocation::settings(&world, "one");
    let context = operator::context(&settings, world.edges()).unwrap();
    let replica = audited::factory(settings)(world.edges());
    while_working(replica, async {
        world.claim_in("preempted", "us-south-2").await;
        world.until_launched("preempted").await;
        let short = Fault::new(FaultKind::CapacityRefused);
        world.cloud.faults().start(short.times(2));
        let here = json!([
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8", "bxf-4x16"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-south-1"]},
        ]);
        world.wish("deleted", here).await;
        world.until_launched("deleted").await;
        let (machine, _booted) = joining::boot_for(&world, &context, "deleted").await;
        let registered = world.until("registered", Duration::from_mins(2), async || {
            world.is_true("deleted", "Registered").await
        });
        while_working(machine, registered).await;
        world.inhabit("deleted").await;
        world.delete("deleted").await;
        world.until_gone("deleted").await;
        let [machine] = world.living().try_into().unwrap();
        world.cloud.preempt(&machine.id).unwrap();
        world.until_gone("preempted").await;
        world.pool("fixed", json!({"replicas": 1})).await;
        world.until_claims(1).await;
    })
    .await;
    let mut controllers = used(&world, chart::CONTROLLER);
    controllers.insert(permission(IMPLIED));
    controllers.insert(permission(GRANTED_AHEAD));
    assert_eq!(controllers, allowed(chart::CONTROLLER));
    let mut joiners = used(&world, chart::JOINER);
    joiners.insert(permission(AFTER_A_RESTART));
    assert_eq!(joiners, allowed(chart::JOINER));
}

/// Every rule of the chart: which role it stands in, and so whether it holds in one namespace or in all; which objects it
/// is about; and whether only of these names. What is granted beyond it has to be written here too.
const GRANTED: [(&str, &[&str]); 5] = [
    (
        "ClusterRole karpenter-ibm",
        &[
            "nodeclaims.karpenter.sh: get list watch create patch delete",
            "nodeclaims/status.karpenter.sh: patch",
            "nodepools.karpenter.sh: get list watch patch",
            "nodepools/status.karpenter.sh: patch",
            "ibmnodeclasses.karpenter-ibm.sh: get list watch patch",
            "ibmnodeclasses/status.karpenter-ibm.sh: patch",
            "unavailableofferings.karpenter-ibm.sh: get list watch create update delete",
            "nodes: get list watch patch delete",
            "pods: list watch",
            "persistentvolumeclaims: list watch",
            "persistentvolumes: list watch",
            "namespaces: list watch",
            "daemonsets.apps: list watch",
            "storageclasses.storage.k8s.io: list watch",
            "csinodes.storage.k8s.io: list watch",
            "pods: list delete",
            "pods/eviction: create",
            "poddisruptionbudgets.policy: list watch",
            "volumeattachments.storage.k8s.io: list",
            "persistentvolumeclaims: get",
            "namespaces of kube-system: get",
            "services of kube-dns: get",
            "certificatesigningrequests.certificates.k8s.io: list watch",
            "certificatesigningrequests/approval.certificates.k8s.io: patch",
            "signers.certificates.k8s.io of kubernetes.io/kube-apiserver-client-kubelet: approve",
            "selfsubjectreviews.authentication.k8s.io: create",
            "subjectaccessreviews.authorization.k8s.io: create",
        ],
    ),
    (
        "Role karpenter-ibm",
        &[
            "leases.coordination.k8s.io: get list create update",
            "serviceaccounts/token of karpenter-ibm-joiner: create",
        ],
    ),
    (
        "ClusterRole karpenter-ibm-events",
        &["events.events.k8s.io: create"],
    ),
    (
        "ClusterRole karpenter-ibm-leases",
        &["leases.coordination.k8s.io: list"],
    ),
    (
        "ClusterRole karpenter-ibm-joiner",
        &["certificatesigningrequests.certificates.k8s.io: create get list watch"],
    ),
];

#[test]
fn every_rule_is_as_narrow_as_it_is_listed_here() {
    let words = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap_or_default() };
    let mut granted = Vec::new();
    let roles = chart::objects()
        .into_iter()
        .filter(|it| it.get("rules").is_some());
    for role in roles {
        let mut rules = Vec::new();
        for rule in role["rules"].as_array().unwrap() {
            let (names, verbs) = (
                words(&rule["resourceNames"]).join(" "),
                words(&rule["verbs"]).join(" "),
            );
            let of = if names.is_empty() {
                names
            } else {
                format!(" of {names}")
            };
            for group in words(&rule["apiGroups"]) {
                let group = if group.is_empty() {
                    group
                } else {
                    format!(".{group}")
                };
                let resources = words(&rule["resources"]).into_iter();
                rules.extend(resources.map(|resource| format!("{resource}{group}{of}: {verbs}")));
            }
        }
        let name = format!(
            "{} {}",
            role["kind"].as_str().unwrap(),
            role["metadata"]["name"].as_str().unwrap()
        );
        granted.push((name, rules));
    }
    let expected: Vec<(String, Vec<String>)> = GRANTED
        .iter()
        .map(|(role, rules)| {
            (
                (*role).to_owned(),
                rules.iter().map(|&rule| rule.to_owned()).collect(),
            )
        })
        .collect();
    assert_eq!(granted, expected);
}
