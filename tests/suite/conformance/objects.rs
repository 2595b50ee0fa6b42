//! Small objects to begin with, and how to change them.

use serde_json::{Value, json};

/// An object with changes at some of its fields.
pub(super) trait With {
    /// Sets a field, by a path with slashes, making what leads to it.
    fn with(self, path: &str, value: Value) -> Self;
}

impl With for Value {
    fn with(mut self, path: &str, value: Value) -> Self {
        let mut place = &mut self;
        for name in path.split('/') {
            place = match name.parse::<usize>() {
                Ok(index) if place.is_array() => &mut place[index],
                _ => &mut place[name],
            };
        }
        *place = value;
        self
    }
}

/// A version of an object as it was kept.
pub(super) fn version_of(kept: &str) -> Value {
    format!("${kept}.metadata.resourceVersion").into()
}

pub(super) fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "1"}})
}

pub(super) fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"k": "1"}})
}

/// A pod that no scheduler looks at, so that nothing but the test changes it.
pub(super) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]}})
}

/// A deployment that its controller leaves alone: nothing to do, and paused.
pub(super) fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
           "spec": {"paused": true, "replicas": 0, "selector": {"matchLabels": {"app": name}},
                    "template": {"metadata": {"labels": {"app": name}},
                                 "spec": {"containers": [{"name": "main", "image": "none"}]}}}})
}

pub(super) fn lease(name: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
           "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}})
}

/// A node; its name needs the lab's prefix, since it is the whole cluster's.
pub(super) fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("$ns-{name}")}})
}

pub(super) fn budget(name: &str, app: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
           "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}})
}
