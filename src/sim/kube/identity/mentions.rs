//! Which other objects a pod needs on its node: what a kubelet may read because of it.

use serde_json::Value;

use crate::sim::kube::object;

/// The annotation of a pod that only shows what a node runs by itself.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Volumes whose credentials are in `secretRef`.
const WITH_SECRET_REF: [&str; 7] = [
    "cephfs",
    "cinder",
    "flexVolume",
    "iscsi",
    "rbd",
    "scaleIO",
    "storageos",
];

/// Whether it only shows what a node runs by itself. It never gives access to anything.
pub fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MIRROR).is_some()
}

/// The secrets that a pod mentions.
pub fn secrets(pod: &Value) -> Vec<&str> {
    let mut names = Vec::new();
    names.extend(items(&pod["spec"]["imagePullSecrets"]).map(|secret| &secret["name"]));
    for container in containers(pod) {
        names.extend(items(&container["env"]).map(|env| &env["valueFrom"]["secretKeyRef"]["name"]));
        names.extend(items(&container["envFrom"]).map(|env| &env["secretRef"]["name"]));
    }
    for volume in volumes(pod) {
        names.push(&volume["secret"]["secretName"]);
        names.push(&volume["azureFile"]["secretName"]);
        names.push(&volume["csi"]["nodePublishSecretRef"]["name"]);
        names.extend(WITH_SECRET_REF.map(|kind| &volume[kind]["secretRef"]["name"]));
        names.extend(items(&volume["projected"]["sources"]).map(|source| &source["secret"]["name"]));
    }
    texts(names)
}

/// The config maps that a pod mentions.
pub fn config_maps(pod: &Value) -> Vec<&str> {
    let mut names = Vec::new();
    for container in containers(pod) {
        names.extend(items(&container["env"]).map(|env| &env["valueFrom"]["configMapKeyRef"]["name"]));
        names.extend(items(&container["envFrom"]).map(|env| &env["configMapRef"]["name"]));
    }
    for volume in volumes(pod) {
        names.push(&volume["configMap"]["name"]);
        names.extend(items(&volume["projected"]["sources"]).map(|source| &source["configMap"]["name"]));
    }
    texts(names)
}

/// The claims of a pod's volumes.
pub fn claims(pod: &Value) -> Vec<String> {
    volumes(pod)
        .filter_map(|volume| {
            let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
            let own = volume["ephemeral"].is_object().then(|| {
                let name = volume["name"].as_str().unwrap_or_default();
                format!("{}-{name}", object::name(pod))
            });
            claim.map(str::to_owned).or(own)
        })
        .collect()
}

/// The secrets that a volume needs on the node: namespace and name.
pub fn volume_secrets(volume: &Value) -> Vec<(&str, &str)> {
    let csi = &volume["spec"]["csi"];
    [
        "nodePublishSecretRef",
        "nodeStageSecretRef",
        "nodeExpandSecretRef",
    ]
    .iter()
    .filter_map(|field| Some((csi[field]["namespace"].as_str()?, csi[field]["name"].as_str()?)))
    .collect()
}

/// What in the API a pod depends on, as a refusal names it; `None` if it could run without.
pub fn dependency(pod: &Value) -> Option<&'static str> {
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    if !account.is_empty() {
        return Some("serviceaccounts");
    }
    if !secrets(pod).is_empty() {
        return Some("secrets");
    }
    if !config_maps(pod).is_empty() {
        return Some("configmaps");
    }
    if items(&pod["spec"]["resourceClaims"]).next().is_some() {
        return Some("resourceclaims");
    }
    volumes(pod).find_map(|volume| {
        if items(&volume["projected"]["sources"]).any(|source| source["serviceAccountToken"].is_object()) {
            return Some("serviceaccounts (via projected volumes)");
        }
        [
            ("csi", "csidrivers (via CSI volumes)"),
            ("glusterfs", "endpoints (via glusterFS volumes)"),
            ("persistentVolumeClaim", "persistentvolumeclaims"),
            ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        ]
        .into_iter()
        .find_map(|(field, name)| volume[field].is_object().then_some(name))
    })
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn volumes(pod: &Value) -> impl Iterator<Item = &Value> {
    items(&pod["spec"]["volumes"])
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|list| items(&pod["spec"][list]))
}

fn texts(names: Vec<&Value>) -> Vec<&str> {
    names
        .into_iter()
        .filter_map(Value::as_str)
        .filter(|name| !name.is_empty())
        .collect()
}
