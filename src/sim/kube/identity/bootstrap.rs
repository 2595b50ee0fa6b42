//! What every cluster has from its first moment for identity's sake: the default roles and bindings, and in each
//! namespace an account and the certificate of the cluster's authority.
//!
//! On a real cluster the last two are written by controllers, a moment after the namespace.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::aggregation;
use super::policy::GROUP;
use super::rbac::{self, Rule};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::server::ApiServer;
use crate::sim::kube::store::ObjectKey;
use crate::sim::kube::write::insert;

const ROLES: &str = include_str!("roles.txt");

/// Read once per process: a test process makes hundreds of clusters.
static DEFAULTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let mut objects = defaults(ROLES);
    aggregation::gather_among(&mut objects);
    objects
});

static NODE_RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let role = DEFAULTS
        .iter()
        .find(|object| object["metadata"]["name"] == "system:node");
    role.map(rbac::rules).unwrap_or_default()
});

/// Writes the default roles and bindings.
pub fn populate(server: &ApiServer) {
    for object in DEFAULTS.iter() {
        insert(server, object.clone());
    }
}

/// What all kubelets may do alike, whatever becomes of the role of that name.
pub fn node_rules() -> &'static [Rule] {
    &NODE_RULES
}

/// The names of what [`furnish`] writes.
pub const FURNITURE: [&str; 2] = [ACCOUNT, ROOT_CERTIFICATE];

const ACCOUNT: &str = "default";
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";

/// Gives a namespace its default account and the certificate to trust, where they are missing and the namespace is
/// not about to go.
pub fn furnish(server: &ApiServer, namespace: &str) {
    let missing = |plural: &str, name: &str| {
        let state = server.state();
        let key = ObjectKey::new(namespace, name);
        state.store.get(&TableKey::of("", plural), &key).is_none()
    };
    let is_there = {
        let state = server.state();
        let key = ObjectKey::new("", namespace);
        let stored = state.store.get(&TableKey::of("", "namespaces"), &key);
        stored.is_some_and(|stored| !object::is_deleting(&stored.value()))
    };
    if is_there && missing("configmaps", ROOT_CERTIFICATE) {
        insert(server, root_certificate(server, namespace));
    }
    if is_there && missing("serviceaccounts", ACCOUNT) {
        let metadata = json!({"name": ACCOUNT, "namespace": namespace});
        insert(
            server,
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        );
    }
}

fn root_certificate(server: &ApiServer, namespace: &str) -> Value {
    let description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                       endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                       guaranteed across distributions of Kubernetes clusters.";
    let annotations = json!({"kubernetes.io/description": description});
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ROOT_CERTIFICATE, "namespace": namespace, "annotations": annotations},
        "data": {"ca.crt": server.identity().root_certificate()},
    })
}

/// The objects that the table stands for, in its order.
fn defaults(table: &str) -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    for line in table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["role", name, rest @ ..] => objects.push(role(name, rest)),
            ["bind", name, role, subjects @ ..] => objects.push(binding(name, role, subjects)),
            words => {
                if let Some(rules) = objects.last_mut().and_then(|role| role["rules"].as_array_mut()) {
                    rules.extend(rule(words).map(|rule| json!(rule)));
                }
            }
        }
    }
    objects
}

fn role(name: &str, marks: &[&str]) -> Value {
    let mut role = head("Role", name);
    role["rules"] = json!([]);
    for mark in marks.chunks_exact(2) {
        let label = format!("{GROUP}/{}", mark[1]);
        if mark[0] == "is" {
            role["metadata"]["labels"][label] = "true".into();
        } else {
            let selector = json!({"matchLabels": {label: "true"}});
            role["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
        }
    }
    role
}

fn rule(words: &[&str]) -> Option<Rule> {
    let list = |text: &str| -> Vec<String> {
        text.split(',')
            .map(|word| if word == "core" { "" } else { word }.to_owned())
            .collect()
    };
    match words {
        ["paths", paths, verbs] => Some(Rule {
            non_resource_urls: list(paths),
            verbs: list(verbs),
            ..Rule::default()
        }),
        [groups, resources, verbs, names @ ..] => Some(Rule {
            api_groups: list(groups),
            resources: list(resources),
            verbs: list(verbs),
            resource_names: names.iter().flat_map(|names| list(names)).collect(),
            ..Rule::default()
        }),
        _ => None,
    }
}

fn binding(name: &str, role: &str, subjects: &[&str]) -> Value {
    let mut binding = head("RoleBinding", name);
    let kind = if name.contains('/') { "Role" } else { "ClusterRole" };
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": role});
    let subjects: Vec<Value> = subjects
        .iter()
        .filter_map(|subject| subject.split_once('='))
        .map(|(kind, name)| match name.split_once('/') {
            Some((namespace, name)) => json!({"kind": kind, "name": name, "namespace": namespace}),
            None => json!({"apiGroup": GROUP, "kind": kind, "name": name}),
        })
        .collect();
    if !subjects.is_empty() {
        binding["subjects"] = subjects.into();
    }
    binding
}

/// A role or binding that is not bound or ruled yet: of the cluster, or of the namespace before the slash.
fn head(kind: &str, name: &str) -> Value {
    let metadata = json!({
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    });
    let mut object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata});
    if let Some((namespace, name)) = name.split_once('/') {
        object["metadata"]["namespace"] = namespace.into();
        object["metadata"]["name"] = name.into();
    } else {
        object["kind"] = format!("Cluster{kind}").into();
        object["metadata"]["name"] = name.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood() {
        let objects = defaults(ROLES);
        let lines = |start: &str| ROLES.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(objects.len(), lines("role ") + lines("bind "));
        let rules: usize = objects
            .iter()
            .filter_map(|object| object["rules"].as_array())
            .map(Vec::len)
            .sum();
        assert_eq!(rules, lines("  "));
    }

    #[test]
    fn every_binding_is_to_a_role_that_exists() {
        let objects = defaults(ROLES);
        for binding in objects.iter().filter(|object| object["roleRef"].is_object()) {
            let role = objects.iter().find(|object| {
                object["kind"] == binding["roleRef"]["kind"]
                    && object["metadata"]["name"] == binding["roleRef"]["name"]
                    && object["metadata"]["namespace"] == binding["metadata"]["namespace"]
            });
            assert!(role.is_some(), "{binding}");
        }
    }
}
