//! CustomResourceDefinitions: established as soon as they are stored.

use serde_json::{Value, json};

use super::object;

/// Writes the status that a definition has once its kinds are served.
pub fn establish(crd: &mut Value) {
    let names = crd["spec"]["names"].clone();
    let versions: Vec<Value> = crd["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    let since = object::meta(crd, "creationTimestamp").to_owned();
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since});
    crd["status"] = json!({
        "acceptedNames": names,
        "storedVersions": versions,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    });
}
