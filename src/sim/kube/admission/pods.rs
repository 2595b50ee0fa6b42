//! The plugins that complete a pod: its account and token, its priority, the tolerations that everything has, and what
//! its runtime class asks for.

use serde_json::{Value, json};

use super::{Admission, Operation};
use crate::hash::fnv1a;
use crate::sim::kube::builtin::fields::{each, each_mut, fill, is_set, text};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::refusal::Refusal;
use crate::sim::kube::server::{State, about};
use crate::sim::kube::store::ObjectKey;

/// Completes a pod.
pub(super) fn complete(state: &State, admission: &Admission<'_>, pod: &mut Value) -> Result<(), Refusal> {
    if admission.subresource.is_some() {
        return Ok(());
    }
    match (admission.operation, admission.old) {
        (Operation::Create, _) => {
            give_account(state, admission, pod)?;
            give_priority(state, admission, pod)?;
            tolerate_outages(pod);
            suit_runtime(state, admission, pod)?;
            let node = text(&pod["spec"], "nodeName").to_owned();
            label_topology(state, &node, pod);
            Ok(())
        }
        (Operation::Update, Some(old)) => {
            for kept in ["priority", "preemptionPolicy"] {
                if is_set(&old["spec"], kept) {
                    fill(&mut pod["spec"], kept, old["spec"][kept].clone());
                }
            }
            tolerate_outages(pod);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn refuse(admission: &Admission<'_>, pod: &Value, why: String) -> Refusal {
    Refusal::forbidden(about(admission.kind, object::name(pod)), why)
}

fn find(state: &State, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
    let stored = state
        .store
        .get(&TableKey::of(group, plural), &ObjectKey::new(namespace, name));
    stored.map(|stored| stored.value())
}

/// Where containers find their token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// ServiceAccount: every pod has one, and by default its token.
fn give_account(state: &State, admission: &Admission<'_>, pod: &mut Value) -> Result<(), Refusal> {
    if is_set(&pod["metadata"]["annotations"], "kubernetes.io/config.mirror") {
        return if is_set(&pod["spec"], "serviceAccountName") {
            let why = "a mirror pod may not reference service accounts".to_owned();
            Err(refuse(admission, pod, why))
        } else {
            Ok(())
        };
    }
    fill(&mut pod["spec"], "serviceAccountName", "default");
    pod["spec"]["serviceAccount"] = pod["spec"]["serviceAccountName"].clone();
    let (namespace, name) = (
        object::namespace(pod).to_owned(),
        text(&pod["spec"], "serviceAccountName").to_owned(),
    );
    let Some(account) = find(state, "", "serviceaccounts", &namespace, &name) else {
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        return Err(refuse(admission, pod, why));
    };
    let wants = |object: &Value| object["automountServiceAccountToken"].as_bool();
    if wants(&pod["spec"]).or(wants(&account)).unwrap_or(true) {
        mount_token(pod);
    }
    if each(&pod["spec"], "imagePullSecrets").next().is_none() && is_set(&account, "imagePullSecrets") {
        pod["spec"]["imagePullSecrets"] = account["imagePullSecrets"].clone();
    }
    Ok(())
}

fn mount_token(pod: &mut Value) {
    const PREFIX: &str = "kube-api-access-";
    let volumes: Vec<&str> = each(&pod["spec"], "volumes")
        .map(|volume| text(volume, "name"))
        .collect();
    let existing = volumes.iter().find(|name| name.starts_with(PREFIX));
    let name = existing.map_or_else(
        || format!("{PREFIX}{}", suffix(object::uid(pod))),
        ToString::to_string,
    );
    let is_new = existing.is_none();
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        for container in each_mut(&mut pod["spec"], list) {
            if each(container, "volumeMounts").any(|mount| mount["mountPath"] == TOKEN_PATH) {
                continue;
            }
            needed = true;
            fill(container, "volumeMounts", json!([]));
            if let Some(mounts) = container["volumeMounts"].as_array_mut() {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            }
        }
    }
    if needed && is_new {
        fill(&mut pod["spec"], "volumes", json!([]));
        if let Some(volumes) = pod["spec"]["volumes"].as_array_mut() {
            volumes.push(token_volume(&name));
        }
    }
}

/// Five characters that follow from the pod's uid, which is random enough.
fn suffix(uid: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash = fnv1a(uid.as_bytes());
    let characters = (0..5).map(|_| {
        let index = usize::try_from(hash % ALPHABET.len() as u64).unwrap_or_default();
        hash /= ALPHABET.len() as u64;
        char::from(ALPHABET[index])
    });
    characters.collect()
}

fn token_volume(name: &str) -> Value {
    // An hour and a few seconds marks tokens that nobody asked for, so that servers can tell them from the others.
    let token = json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}});
    let authority =
        json!({"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}});
    let namespace = json!({"downwardAPI": {"items": [
        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}});
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [token, authority, namespace]}})
}

/// Priority: the class decides, and nobody contradicts it.
fn give_priority(state: &State, admission: &Admission<'_>, pod: &mut Value) -> Result<(), Refusal> {
    let class = match text(&pod["spec"], "priorityClassName") {
        "" => default_class(state),
        name => Some(
            find(state, "scheduling.k8s.io", "priorityclasses", "", name).ok_or_else(|| {
                refuse(
                    admission,
                    pod,
                    format!("no PriorityClass with name {name} was found"),
                )
            })?,
        ),
    };
    if let Some(class) = &class {
        pod["spec"]["priorityClassName"] = object::name(class).into();
    }
    let priority = class
        .as_ref()
        .and_then(|class| class["value"].as_i64())
        .unwrap_or(0);
    let policy = class
        .as_ref()
        .map_or("PreemptLowerPriority", |class| text(class, "preemptionPolicy"));
    if let Some(own) = pod["spec"]["priority"].as_i64().filter(|own| *own != priority) {
        let why = format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(refuse(admission, pod, why));
    }
    if let Some(own) = pod["spec"]["preemptionPolicy"]
        .as_str()
        .filter(|own| *own != policy)
    {
        let why = format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(refuse(admission, pod, why));
    }
    pod["spec"]["priority"] = priority.into();
    pod["spec"]["preemptionPolicy"] = policy.into();
    Ok(())
}

/// The lowest of the classes that are meant for everything.
pub(super) fn default_class(state: &State) -> Option<Value> {
    let classes = state
        .store
        .list(&TableKey::of("scheduling.k8s.io", "priorityclasses"), None);
    classes
        .map(|stored| stored.value())
        .filter(|class| class["globalDefault"] == true)
        .min_by_key(|class| class["value"].as_i64())
}

/// DefaultTolerationSeconds: a pod stays five minutes on a node that is not ready or cannot be reached.
fn tolerate_outages(pod: &mut Value) {
    const SECONDS: i64 = 300;
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |toleration: &Value| {
            matches!(text(toleration, "effect"), "" | "NoExecute")
                && [taint, ""].contains(&text(toleration, "key"))
        };
        if each(&pod["spec"], "tolerations").any(covers) {
            continue;
        }
        fill(&mut pod["spec"], "tolerations", json!([]));
        if let Some(list) = pod["spec"]["tolerations"].as_array_mut() {
            list.push(json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}));
        }
    }
}

/// PodTopologyLabels: a pod that has a node carries the zone and region of that node.
pub fn label_topology(state: &State, node: &str, pod: &mut Value) {
    const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
    let Some(node) = state
        .store
        .get(&TableKey::of("", "nodes"), &ObjectKey::new("", node))
    else {
        return;
    };
    for label in LABELS {
        if let Some(value) = node.labels.get(label).filter(|value| !value.is_empty()) {
            fill(&mut pod["metadata"], "labels", json!({}));
            pod["metadata"]["labels"][label] = value.as_str().into();
        }
    }
}

/// RuntimeClass: what running in it costs, and where it can run.
fn suit_runtime(state: &State, admission: &Admission<'_>, pod: &mut Value) -> Result<(), Refusal> {
    let name = text(&pod["spec"], "runtimeClassName").to_owned();
    if name.is_empty() {
        return if is_set(&pod["spec"], "overhead") {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned();
            Err(refuse(admission, pod, why))
        } else {
            Ok(())
        };
    }
    let Some(class) = find(state, "node.k8s.io", "runtimeclasses", "", &name) else {
        let why = format!("pod rejected: RuntimeClass \"{name}\" not found");
        return Err(refuse(admission, pod, why));
    };
    let overhead = &class["overhead"]["podFixed"];
    if overhead.is_object() {
        if is_set(&pod["spec"], "overhead") && pod["spec"]["overhead"] != *overhead {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned();
            return Err(refuse(admission, pod, why));
        }
        pod["spec"]["overhead"] = overhead.clone();
    }
    for (key, value) in class["scheduling"]["nodeSelector"]
        .as_object()
        .into_iter()
        .flatten()
    {
        fill(&mut pod["spec"], "nodeSelector", json!({}));
        fill(&mut pod["spec"]["nodeSelector"], key, value.clone());
        if pod["spec"]["nodeSelector"][key] != *value {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(&class["scheduling"]["nodeSelector"], key),
                text(&pod["spec"]["nodeSelector"], key)
            );
            return Err(refuse(admission, pod, why));
        }
    }
    for toleration in each(&class["scheduling"], "tolerations") {
        fill(&mut pod["spec"], "tolerations", json!([]));
        if let Some(list) = pod["spec"]["tolerations"].as_array_mut()
            && !list.contains(toleration)
        {
            list.push(toleration.clone());
        }
    }
    Ok(())
}
