//! Discovery in one answer per root, as kubectl asks for it: `APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2`.
//!
//! Release 1.35 no longer has v2beta1; a client that knows only that is given the unaggregated lists.

use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::resources::{Group, Resource, Shape};
use crate::sim::kube::kind::Scope;
use crate::sim::kube::server::json_response;

const CONTENT_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether a client takes this form before the plain one.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    for wanted in accept.unwrap_or_default().split(',') {
        let mut parts = wanted.split(';').map(str::trim);
        if parts.next() != Some("application/json") {
            continue;
        }
        let mut parameters: Vec<&str> = parts.filter(|part| !part.starts_with("q=")).collect();
        parameters.sort_unstable();
        match parameters.as_slice() {
            ["as=APIGroupDiscoveryList", "g=apidiscovery.k8s.io", "v=v2"] => return true,
            [] => return false,
            _ => {}
        }
    }
    false
}

/// The groups of a root.
pub(super) fn response(groups: &[Group]) -> Response {
    let items: Vec<Value> = groups.iter().map(described).collect();
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
                      "items": items});
    let mut response = json_response(StatusCode::OK, &list);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn described(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = version.resources.iter().map(resource).collect();
            json!({"version": version.name, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() {
        json!({})
    } else {
        json!({"name": group.name})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn resource(resource: &Resource) -> Value {
    let kind = resource.kind();
    let own = Shape {
        group: &kind.group,
        version: &kind.version,
        kind: &kind.kind,
    };
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": response_kind(resource, &own),
        "scope": if kind.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": resource.verbs(),
    });
    for (field, names) in [
        ("shortNames", &kind.short_names),
        ("categories", &kind.categories),
    ] {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
    let below: Vec<Value> = resource
        .subresources()
        .into_iter()
        .map(|name| {
            json!({"subresource": name, "responseKind": response_kind(resource, &resource.shape_below(name)),
                   "verbs": Resource::verbs_below(name)})
        })
        .collect();
    if !below.is_empty() {
        entry["subresources"] = below.into();
    }
    entry
}

/// A built-in kind of the same group and version as its list leaves both empty.
fn response_kind(resource: &Resource, shape: &Shape<'_>) -> Value {
    let kind = resource.kind();
    let same = (shape.group, shape.version) == (kind.group.as_str(), kind.version.as_str());
    if same && kind.custom().is_none() {
        json!({"group": "", "version": "", "kind": shape.kind})
    } else {
        json!({"group": shape.group, "version": shape.version, "kind": shape.kind})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_the_server_knows_wins() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        let table = [
            (format!("{v2},{old},application/json"), true),
            (format!("{old},{v2}"), true),
            (format!("{old},application/json"), false),
            (format!("application/json,{v2}"), false),
            (
                "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io;q=0.9".to_owned(),
                true,
            ),
            ("*/*".to_owned(), false),
            (String::new(), false),
        ];
        for (accept, expected) in table {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(&accept).unwrap())]);
            assert_eq!(is_accepted(&headers), expected, "{accept}");
        }
    }
}
