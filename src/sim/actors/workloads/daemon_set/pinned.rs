//! A daemon's pod: what it tolerates, and how it is tied to its node.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodTemplateSpec, Toleration,
};

use super::super::pods::{from_template, node};
use super::super::revision::REVISION_HASH;

const NAME_FIELD: &str = "metadata.name";
/// What every daemon tolerates, by the name of the taint and its effect.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// What one on the node's own network tolerates too: it may be what brings the network.
const TOLERATED_ON_HOST: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// A pod of a daemon set, for no node yet.
pub(super) fn daemon(template: &PodTemplateSpec, set: &DaemonSet, revision: &str) -> Pod {
    let mut pod = from_template(template, set);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION_HASH.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    let on_host = spec.host_network == Some(true);
    let more = on_host.then_some(TOLERATED_ON_HOST);
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in TOLERATED.into_iter().chain(more) {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    pod
}

/// The pod, tied to a node. What the template requires of nodes was judged before, so this takes its place.
pub(super) fn pin(mut pod: Pod, node: &str) -> Pod {
    let term = NodeSelectorTerm {
        match_expressions: None,
        match_fields: Some(vec![NodeSelectorRequirement {
            key: NAME_FIELD.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        }]),
    };
    let affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_default();
    let affinity = affinity.node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![term],
    });
    pod
}

/// The node that a pod is on or tied to.
pub(super) fn target(pod: &Pod) -> Option<&str> {
    node(pod).or_else(|| {
        let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
        let required = affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()?;
        let fields = required
            .node_selector_terms
            .iter()
            .filter_map(|term| term.match_fields.as_ref());
        let names = fields
            .flatten()
            .filter(|field| field.key == NAME_FIELD && field.operator == "In");
        names
            .filter_map(|field| field.values.as_ref()?.first())
            .map(String::as_str)
            .next()
    })
}
