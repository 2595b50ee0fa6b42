//! What every cluster has from its first moment.

use serde_json::json;

use super::identity;
use super::server::ApiServer;
use super::write::insert;

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Writes them, past admission: there is nobody yet who could ask.
pub fn populate(server: &ApiServer) {
    for name in NAMESPACES {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        insert(server, namespace);
        identity::bootstrap::furnish(server, name);
    }
    for class in super::builtin::priority_classes() {
        insert(server, class);
    }
    identity::bootstrap::populate(server);
}
