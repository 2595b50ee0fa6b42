//! The NodeRestriction admission plugin: a kubelet writes about itself and the pods on its node only, and cannot
//! change what decides which pods come to it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::node::{LEASE_NAMESPACE, is_on};
use super::{User, mentions};
use crate::sim::kube::admission::{Admission, Operation};
use crate::sim::kube::certificates::request::Pkcs10;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::server::{State, about};
use crate::sim::kube::store::ObjectKey;

/// Labels of the `kubernetes.io` and `k8s.io` families that a kubelet may set on its own node.
const KUBELET_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Prefixes of such labels that are a kubelet's own.
const KUBELET_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Refuses what a kubelet may not write. `object` is the new object, or on deletion the one that goes.
pub fn check(state: &State, admission: &Admission<'_>, object: &Value) -> Result<(), Refusal> {
    let Some(node) = admission.user.node_name() else {
        return Ok(());
    };
    let name = admission.old.map_or_else(|| object::name(object), object::name);
    let forbid = |why: String| Err(Refusal::forbidden(about(admission.kind, name), why));
    if node.is_empty() {
        return forbid(format!(
            "could not determine node from user \"{}\"",
            admission.user.name
        ));
    }
    let writes = Writes {
        state,
        node,
        operation: admission.operation,
        name,
        old: admission.old,
        object,
    };
    let verdict = match (
        admission.kind.group.as_str(),
        admission.kind.plural.as_str(),
        admission.subresource,
    ) {
        ("", "pods", None) => writes.pod(),
        ("", "pods", Some("status")) => writes.pod_status(),
        ("", "pods", Some("eviction")) => Ok(()),
        ("", "pods", Some(other)) => Err(format!(
            "unexpected pod subresource \"{other}\", only 'status' and 'eviction' are allowed"
        )),
        ("", "nodes", _) => writes.node(),
        ("", "persistentvolumeclaims", Some("status")) => writes.claim_status(),
        ("", "persistentvolumeclaims", _) => Err("may only update PVC status".to_owned()),
        ("coordination.k8s.io", "leases", _) => writes.lease(),
        ("storage.k8s.io", "csinodes", _) if name != node => {
            Err("can only access CSINode with the same name as the requesting node".to_owned())
        }
        ("certificates.k8s.io", "certificatesigningrequests", None) => writes.certificate_request(),
        _ => Ok(()),
    };
    verdict.or_else(forbid)
}

/// Refuses the eviction of a pod that stands on another node.
pub fn check_eviction(state: &State, user: &User, namespace: &str, pod: &str) -> Result<(), Refusal> {
    let Some(node) = user.node_name() else {
        return Ok(());
    };
    if is_on(&pod_named(state, namespace, pod)?, node) {
        return Ok(());
    }
    let refused = About {
        group: "",
        kind: "pods",
        name: pod,
    };
    let why = format!("node {node} can only evict pods with spec.nodeName set to itself");
    Err(Refusal::forbidden(refused, why))
}

/// Refuses a token that a kubelet asks for, unless it is bound to a pod of that account on its node.
pub fn check_token(state: &State, user: &User, key: &ObjectKey, request: &Value) -> Result<(), Refusal> {
    let Some(node) = user.node_name() else {
        return Ok(());
    };
    let forbid = |why: &str| {
        let account = About {
            group: "",
            kind: "serviceaccounts",
            name: &key.name,
        };
        Err(Refusal::forbidden(account, why))
    };
    let bound = &request["spec"]["boundObjectRef"];
    let text = |field: &str| bound[field].as_str().unwrap_or_default();
    if text("apiVersion") != "v1" || text("kind") != "Pod" || text("name").is_empty() {
        return forbid("node requested token not bound to a pod");
    }
    if text("uid").is_empty() {
        return forbid("node requested token with a pod binding without a uid");
    }
    let pod = pod_named(state, &key.namespace, text("name"))?;
    if text("uid") != object::uid(&pod) {
        return forbid(&format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
             deleted and then recreated",
            text("uid")
        ));
    }
    if !is_on(&pod, node) {
        return forbid("node requested token bound to a pod scheduled on a different node");
    }
    let audiences: Vec<&str> = list(&request["spec"]["audiences"])
        .filter_map(Value::as_str)
        .collect();
    let audience = match audiences.as_slice() {
        [] => "",
        [audience] => audience,
        _ => return forbid("node may only request 0 or 1 audiences"),
    };
    if is_projected(&pod, audience) {
        return Ok(());
    }
    forbid(&format!(
        "audience \"{audience}\" not found in pod spec volume, {} is not authorized to request tokens for this audience",
        user.name
    ))
}

/// A pod, or the refusal of a server that looks it up for its own sake and calls it by its singular.
fn pod_named(state: &State, namespace: &str, name: &str) -> Result<Value, Refusal> {
    let missing = About {
        group: "",
        kind: "pod",
        name,
    };
    get(state, "pods", namespace, name).ok_or_else(|| Refusal::not_found(missing))
}

/// Whether a pod has a volume with a token for an audience.
fn is_projected(pod: &Value, audience: &str) -> bool {
    list(&pod["spec"]["volumes"])
        .flat_map(|volume| list(&volume["projected"]["sources"]))
        .filter(|source| source["serviceAccountToken"].is_object())
        .any(|source| {
            source["serviceAccountToken"]["audience"]
                .as_str()
                .unwrap_or_default()
                == audience
        })
}

/// A write of a kubelet.
struct Writes<'a> {
    state: &'a State,
    node: &'a str,
    operation: Operation,
    name: &'a str,
    old: Option<&'a Value>,
    object: &'a Value,
}

impl Writes<'_> {
    fn pod(&self) -> Result<(), String> {
        let node = self.node;
        match self.operation {
            Operation::Create => self.mirror_pod(),
            Operation::Delete if is_on(self.object, node) => Ok(()),
            Operation::Delete => Err(format!(
                "node \"{node}\" can only delete pods with spec.nodeName set to itself"
            )),
            Operation::Update => Err(format!(
                "unexpected operation \"UPDATE\", node \"{node}\" can only create and delete mirror pods"
            )),
        }
    }

    fn mirror_pod(&self) -> Result<(), String> {
        let (node, pod) = (self.node, self.object);
        if !mentions::is_mirror(pod) {
            let annotation = mentions::MIRROR;
            return Err(format!(
                "pod does not have \"{annotation}\" annotation, node \"{node}\" can only create mirror pods"
            ));
        }
        if !is_on(pod, node) {
            return Err(format!(
                "node \"{node}\" can only create pods with spec.nodeName set to itself"
            ));
        }
        self.owned_by_node(pod)?;
        match mentions::dependency(pod) {
            Some(dependency) => Err(format!(
                "node \"{node}\" can not create pods that reference {dependency}"
            )),
            None => Ok(()),
        }
    }

    fn owned_by_node(&self, pod: &Value) -> Result<(), String> {
        let node = self.node;
        let only = |what: &str| {
            Err(format!(
                "node \"{node}\" can only create pods with {what} set to itself"
            ))
        };
        let owners: Vec<&Value> = list(&pod["metadata"]["ownerReferences"]).collect();
        let owner = match owners.as_slice() {
            [] => return only("an owner reference"),
            [owner] => *owner,
            _ => return only("a single owner reference"),
        };
        if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
            return only("an owner reference");
        }
        if owner["controller"] != true {
            return only("a controller owner reference");
        }
        if owner["blockOwnerDeletion"] == true {
            return Err(format!(
                "node \"{node}\" must not set blockOwnerDeletion on an owner reference"
            ));
        }
        let known = get(self.state, "nodes", "", node).unwrap_or_default();
        if owner["uid"] != object::uid(&known) {
            let (said, is) = (&owner["uid"], object::uid(&known));
            let said = said.as_str().unwrap_or_default();
            return Err(format!("node {node} UID mismatch: expected {said} got {is}"));
        }
        Ok(())
    }

    fn pod_status(&self) -> Result<(), String> {
        let node = self.node;
        let old = self.old.unwrap_or(self.object);
        if !is_on(old, node) {
            return Err(format!(
                "node \"{node}\" can only update pod status for pods with spec.nodeName set to itself"
            ));
        }
        if object::labels(old) != object::labels(self.object) {
            return Err(format!("node \"{node}\" cannot update labels through pod status"));
        }
        if old["status"]["resourceClaimStatuses"] != self.object["status"]["resourceClaimStatuses"] {
            return Err(format!("node \"{node}\" cannot update resource claim statues"));
        }
        Ok(())
    }

    fn node(&self) -> Result<(), String> {
        let (node, name) = (self.node, self.name);
        if name != node {
            return Err(format!(
                "node \"{node}\" is not allowed to modify node \"{name}\""
            ));
        }
        let new = self.object;
        match (self.operation, self.old) {
            (Operation::Create, _) => {
                if !new["spec"]["configSource"].is_null() {
                    return Err(format!(
                        "node \"{node}\" is not allowed to create pods with a non-nil configSource"
                    ));
                }
                let labels = forbidden_labels(&Value::Null, new);
                if labels.is_empty() {
                    return Ok(());
                }
                Err(format!(
                    "node \"{node}\" is not allowed to set the following labels: {}",
                    labels.join(", ")
                ))
            }
            (Operation::Update, Some(old)) => self.changed_node(old, new),
            _ => Ok(()),
        }
    }

    fn changed_node(&self, old: &Value, new: &Value) -> Result<(), String> {
        let node = self.node;
        let same = |a: &Value, b: &Value| a == b || is_nothing(a) && is_nothing(b);
        let configured = &new["spec"]["configSource"];
        if !configured.is_null() && configured != &old["spec"]["configSource"] {
            return Err(format!(
                "node \"{node}\" is not allowed to update configSource to a new non-nil configSource"
            ));
        }
        if !same(&old["spec"]["taints"], &new["spec"]["taints"]) {
            return Err(format!("node \"{node}\" is not allowed to modify taints"));
        }
        if !same(
            &old["metadata"]["ownerReferences"],
            &new["metadata"]["ownerReferences"],
        ) {
            return Err(format!(
                "node \"{node}\" is not allowed to modify ownerReferences"
            ));
        }
        let labels = forbidden_labels(old, new);
        if labels.is_empty() {
            return Ok(());
        }
        Err(format!("is not allowed to modify labels: {}", labels.join(", ")))
    }

    fn claim_status(&self) -> Result<(), String> {
        let rest = |claim: &Value| {
            let mut claim = claim.clone();
            for field in ["resourceVersion", "managedFields"] {
                object::metadata_mut(&mut claim).remove(field);
            }
            let status = object::object_mut(&mut claim["status"]);
            for field in [
                "capacity",
                "conditions",
                "allocatedResources",
                "allocatedResourceStatuses",
            ] {
                status.remove(field);
            }
            claim
        };
        if self.old.is_some_and(|old| rest(old) != rest(self.object)) {
            return Err(format!(
                "node \"{}\" is not allowed to update fields other than status.quantity and status.conditions",
                self.node
            ));
        }
        Ok(())
    }

    fn lease(&self) -> Result<(), String> {
        if object::namespace(self.object) != LEASE_NAMESPACE {
            return Err(format!(
                "can only access leases in the \"{LEASE_NAMESPACE}\" system namespace"
            ));
        }
        if self.name != self.node {
            return Err("can only access node lease with the same name as the requesting node".to_owned());
        }
        Ok(())
    }

    /// A kubelet may ask for a certificate in its own name only.
    fn certificate_request(&self) -> Result<(), String> {
        let signer = self.object["spec"]["signerName"].as_str();
        let for_nodes = matches!(
            signer,
            Some("kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet")
        );
        if self.operation != Operation::Create || !for_nodes {
            return Ok(());
        }
        let request = Pkcs10::of(self.object).map_err(|error| format!("unable to parse csr: {error}"))?;
        let name = format!("system:node:{}", self.node);
        if request.common_name == name {
            return Ok(());
        }
        Err(format!("can only create a node CSR with CN={name}"))
    }
}

/// Labels that differ and that a kubelet may neither set nor change nor take off, in order.
fn forbidden_labels(old: &Value, new: &Value) -> Vec<String> {
    let (old, new) = (object::labels(old), object::labels(new));
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    keys.into_iter()
        .filter(|key| old.get(*key) != new.get(*key) && is_forbidden(key))
        .cloned()
        .collect()
}

/// Labels of Kubernetes itself, `node-restriction.kubernetes.io/` among them, unless they are a kubelet's own.
fn is_forbidden(label: &str) -> bool {
    let Some((prefix, _)) = label.split_once('/') else {
        return false;
    };
    let within = |family: &str| {
        prefix == family
            || prefix
                .strip_suffix(family)
                .is_some_and(|front| front.ends_with('.'))
    };
    let kubernetes = within("kubernetes.io") || within("k8s.io");
    let of_kubelet = KUBELET_LABELS.contains(&label) || KUBELET_PREFIXES.iter().any(|family| within(family));
    kubernetes && !of_kubelet
}

/// Whether there is nothing: absent, or an empty list.
fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn get(state: &State, plural: &str, namespace: &str, name: &str) -> Option<Value> {
    let stored = state
        .store
        .get(&TableKey::of("", plural), &ObjectKey::new(namespace, name));
    stored.map(|stored| stored.value())
}
