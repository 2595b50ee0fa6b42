//! OpenAPI v2, as JSON: the same kinds in the words of that version, in one document.
//!
//! kubectl has not asked for it since it reads v3, but other clients do. Those that only take its protobuf form are told
//! that there is none.

use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::open_api;
use crate::sim::kube::refusal::Refusal;
use crate::sim::kube::registry::Registry;

/// The document, for a client that takes JSON.
pub(super) fn document(registry: &Registry, headers: &HeaderMap) -> Result<Value, Refusal> {
    let accept = headers
        .get(http::header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("*/*");
    if !["json", "*/*", "application/*"]
        .iter()
        .any(|media| accept.contains(media))
    {
        let problem = "only the following media types are accepted: application/json";
        return Err(Refusal::not_acceptable(problem));
    }
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for at in open_api::roots(registry) {
        let Some(mut document) = open_api::document(registry, &at) else {
            continue;
        };
        let mut take = |pointer: &str| match document.pointer_mut(pointer).map(Value::take) {
            Some(Value::Object(entries)) => entries,
            _ => Map::new(),
        };
        paths.extend(take("/paths"));
        definitions.extend(take("/components/schemas"));
    }
    let mut whole = json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.35.4"},
                           "paths": paths, "definitions": definitions});
    translate(&mut whole);
    Ok(whole)
}

/// Says in the words of version 2 what was said in those of version 3.
fn translate(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get_mut("$ref") {
                *reference = reference.replace("#/components/schemas/", "#/definitions/");
            }
            // A parameter has its type itself.
            if fields.get("in").is_some_and(|place| place == "query")
                && let Some(Value::Object(schema)) = fields.remove("schema")
            {
                fields.extend(schema);
            }
            if let Some(body) = fields.remove("requestBody") {
                let types = body["content"].as_object().into_iter().flatten();
                let types: Vec<Value> = types.map(|(media, _)| media.as_str().into()).collect();
                fields.insert("consumes".to_owned(), types.into());
            }
            fields.values_mut().for_each(translate);
        }
        Value::Array(items) => items.iter_mut().for_each(translate),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_to_a_definition() {
        let document = document(&Registry::default(), &HeaderMap::new()).unwrap();
        let text = document.to_string();
        assert!(!text.contains("#/components/"));
        let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"];
        assert_eq!(
            pod["properties"]["spec"]["properties"]["nodeName"]["type"],
            "string"
        );
        let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
        assert!(
            patch["consumes"]
                .as_array()
                .unwrap()
                .contains(&json!("application/apply-patch+yaml"))
        );
        assert_eq!(patch["parameters"][0]["type"], "string");
    }

    #[test]
    fn who_takes_protobuf_alone_is_told_that_there_is_none() {
        let mut headers = HeaderMap::new();
        let media = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        headers.insert(http::header::ACCEPT, media.parse().unwrap());
        assert_eq!(document(&Registry::default(), &headers).unwrap_err().code(), 406);
    }
}
