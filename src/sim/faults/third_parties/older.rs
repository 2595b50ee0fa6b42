//! Objects as an older release has stored them.
//!
//! An API server judges an object when it is written, not when it is read: what was stored years ago is shown as it is.
//! NodeClaims were once stamped with hashes that were computed otherwise, had no price, and nothing said of which generation
//! a condition was. Who owned which field was recorded for a version that is no longer served, and such records are dropped:
//! whatever is applied from then on, what nobody is known to own stays.

use fastrand::Rng;
use serde_json::{Value, json};

use super::Meddler;
use crate::api::names::{
    GROUP, NODE_CLASS_FIELDS, NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION, NODE_POOL_HASH,
    NODE_POOL_HASH_VERSION,
};
use crate::sim::faults::names::FaultName;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::stored::ObjectKey;

/// How hashes were computed then.
const THEN: &str = "v0";

/// Puts a claim that has a machine, or is about to, into its old form, past admission.
pub(super) fn meddle(meddler: &Meddler<'_>, rng: &mut Rng) {
    let table = TableKey::of(GROUP, "nodeclaims");
    let server = &meddler.desk.parts().server;
    let there: Vec<String> = {
        let state = server.state();
        let claims = state.store.list(&table, None);
        let allocated = claims.filter(|claim| claim.shared()["status"]["allocation"].is_object());
        allocated.map(|claim| claim.key.name.clone()).collect()
    };
    let Some(name) = meddler.meddling.pick(&there, String::clone, rng) else {
        return;
    };
    // Not in the words in which others' acts are told: nothing happened to the claim that is a reason to give it up.
    let told = format!("the stored form of {name}");
    meddler
        .desk
        .strike(FaultName::Meddling(meddler.meddling.kind), &told);
    {
        let mut state = server.state();
        let claim = state.store.get(&table, &ObjectKey::new("", &name));
        let kind = state.registry.by_plural(&table.group, &table.plural);
        if let Some((claim, kind)) = claim.map(|claim| claim.value()).zip(kind) {
            state.store.put(&kind, older(claim));
        }
    }
    server.announce();
}

/// A claim as an older release left it.
fn older(mut claim: Value) -> Value {
    let metadata = object::metadata_mut(&mut claim);
    metadata.remove("managedFields");
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(NODE_CLASS_FIELDS);
        for (hash, version) in [
            (NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION),
            (NODE_POOL_HASH, NODE_POOL_HASH_VERSION),
        ] {
            if annotations.contains_key(hash) {
                annotations.insert(hash.to_owned(), json!("0"));
                annotations.insert(version.to_owned(), json!(THEN));
            }
        }
    }
    if let Some(allocation) = claim["status"]["allocation"].as_object_mut() {
        allocation.remove("price");
    }
    for condition in claim["status"]["conditions"].as_array_mut().into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("observedGeneration");
        }
    }
    claim
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_later_is_missing_and_the_rest_is_there() {
        let claim = json!({
            "metadata": {
                "name": "a", "managedFields": [{"manager": "m"}],
                "annotations": {NODE_CLASS_HASH: "7", NODE_CLASS_HASH_VERSION: "v9", NODE_CLASS_FIELDS: "{}", "other": "1"},
            },
            "spec": {"requirements": []},
            "status": {
                "allocation": {"profile": "bxf-2x8", "price": "0.1"},
                "conditions": [{"type": "Launched", "status": "True", "observedGeneration": 1}],
            },
        });
        let expected = json!({
            "metadata": {
                "name": "a", "annotations": {NODE_CLASS_HASH: "0", NODE_CLASS_HASH_VERSION: THEN, "other": "1"},
            },
            "spec": {"requirements": []},
            "status": {
                "allocation": {"profile": "bxf-2x8"}, "conditions": [{"type": "Launched", "status": "True"}],
            },
        });
        assert_eq!(older(claim), expected);
    }
}
