//! What is said of built-in kinds to people, from `descriptions.json` (made by `hack/openapi-data` from a real server):
//! a sentence each for the kind, its fields, and the fields of those.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

type Texts = BTreeMap<String, String>;

static DATA: LazyLock<BTreeMap<String, Texts>> = LazyLock::new(|| {
    // What is compiled in is well-formed: a test reads it.
    serde_json::from_str(include_str!("descriptions.json")).unwrap_or_default()
});

/// Writes into the schema of a built-in kind what is said of it.
pub fn describe(api_version: &str, kind: &str, schema: &mut Value) {
    let own = DATA.get(&format!("{api_version} {kind}"));
    // What every object has is told once, under no kind at all.
    for texts in DATA.get("").into_iter().chain(own) {
        for (path, text) in texts {
            if let Some(place) = at(schema, path) {
                place["description"] = text.as_str().into();
            }
        }
    }
}

/// The schema of a field, if there is one.
fn at<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let names = path.split('.').filter(|name| !name.is_empty());
    names
        .into_iter()
        .try_fold(schema, |schema, name| schema.get_mut("properties")?.get_mut(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::registry::Registry;

    #[test]
    fn every_built_in_kind_and_its_specification_is_described() {
        for kind in Registry::default().all() {
            let mut schema = kind.open_api().cloned().unwrap();
            describe(&kind.api_version(), &kind.kind, &mut schema);
            assert!(schema["description"].is_string(), "{}", kind.kind);
            let spec = &schema["properties"]["spec"];
            assert!(spec.is_null() || spec["description"].is_string(), "{}", kind.kind);
        }
        let mut pod = Registry::default()
            .find("", "v1", "pods")
            .unwrap()
            .open_api()
            .cloned()
            .unwrap();
        describe("v1", "Pod", &mut pod);
        let node_name = &pod["properties"]["spec"]["properties"]["nodeName"]["description"];
        assert!(
            node_name.as_str().unwrap().starts_with("NodeName indicates"),
            "{node_name}"
        );
    }
}
