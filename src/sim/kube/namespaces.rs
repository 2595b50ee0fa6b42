//! What a namespace comes with, and what keeps it.

use serde_json::{Value, json};

use super::object;
use super::server::ApiServer;
use super::write::insert;

/// Gives a new namespace its `default` account, without which no pod can be made in it. On a real cluster a
/// controller does this a moment later. Anything that is not a namespace is left alone.
pub fn furnish(server: &ApiServer, object: &Value) {
    if is_namespace(object) {
        let metadata = json!({"name": "default", "namespace": object::name(object)});
        insert(
            server,
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        );
    }
}

/// Whether an object is a namespace that somebody has yet to empty.
pub fn is_kept(object: &Value) -> bool {
    let finalizers = object["spec"]["finalizers"].as_array();
    is_namespace(object) && finalizers.is_some_and(|list| !list.is_empty())
}

fn is_namespace(object: &Value) -> bool {
    object["kind"] == "Namespace" && object["apiVersion"] == "v1"
}
