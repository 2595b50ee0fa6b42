//! OpenAPI v3: an index, and a document per group version, as kubectl reads them.
//!
//! kubectl asks two things of a document: whether a kind's `patch` takes `fieldValidation` (then the server validates,
//! not kubectl), and for `explain` the schema of the kind. So each kind has its paths, with the operations and the
//! parameters that they take, and its schema; what only code generators want (operation ids, answers, bodies of lists)
//! is left out.

use serde_json::{Map, Value, json};

use super::resources::{self, Group, Version};
use crate::hash::fnv1a;
use crate::sim::kube::builtin;
use crate::sim::kube::kind::{Kind, Scope, Verbs};
use crate::sim::kube::registry::Registry;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Where the document of each group version is. The hash in its address is that of its content, so a client may keep
/// what it read for as long as the address stays the same.
pub(super) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for group in all(registry) {
        for version in &group.versions {
            let at = root(&group, version);
            let url = format!("/openapi/v3/{at}?hash={:016X}", hash(version));
            paths.insert(at, json!({"serverRelativeURL": url}));
        }
    }
    json!({ "paths": paths })
}

/// Where there are documents: `api/v1`, `apis/apps/v1`.
pub(super) fn roots(registry: &Registry) -> Vec<String> {
    let groups = all(registry);
    let of = |group: &Group| -> Vec<String> {
        let versions = group.versions.iter();
        versions.map(|version| root(group, version)).collect()
    };
    groups.iter().flat_map(of).collect()
}

/// The document at `api/v1` or `apis/{group}/{version}`.
pub(super) fn document(registry: &Registry, at: &str) -> Option<Value> {
    let groups = all(registry);
    let version = groups
        .iter()
        .flat_map(|group| {
            group
                .versions
                .iter()
                .map(move |version| (root(group, version), version))
        })
        .find(|(root, _)| root == at)
        .map(|(_, version)| version)?;
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    schemas.insert(OBJECT_META.to_owned(), object_meta());
    for resource in &version.resources {
        let kind = resource.kind();
        add_paths(&mut paths, at, kind);
        schemas.insert(component(kind), schema(kind));
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.35.4"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn all(registry: &Registry) -> Vec<Group> {
    let mut groups = vec![resources::core(registry)];
    groups.extend(resources::groups(registry));
    groups
}

fn root(group: &Group, version: &Version) -> String {
    if group.name.is_empty() {
        format!("api/{}", version.name)
    } else {
        format!("apis/{}", version.qualified)
    }
}

/// Built-in kinds look the same for as long as the program does; custom ones as their definition says.
fn hash(version: &Version) -> u64 {
    let mut text = env!("CARGO_PKG_VERSION").to_owned();
    for resource in &version.resources {
        let kind = resource.kind();
        text.push_str(&kind.plural);
        if let Some(custom) = kind.custom() {
            text.push_str(&custom.open_api.to_string());
        }
    }
    fnv1a(text.as_bytes())
}

fn add_paths(paths: &mut Map<String, Value>, root: &str, kind: &Kind) {
    let base = match kind.scope {
        Scope::Cluster => format!("/{root}/{}", kind.plural),
        Scope::Namespaced => format!("/{root}/namespaces/{{namespace}}/{}", kind.plural),
    };
    let writes = ["dryRun", "fieldManager", "fieldValidation"];
    let operation = |action: &str, parameters: &[&str]| {
        let parameters: Vec<Value> = parameters.iter().map(|name| parameter(name)).collect();
        json!({"x-kubernetes-action": action, "x-kubernetes-group-version-kind": group_version_kind(kind),
               "parameters": parameters, "responses": {"200": {"description": "OK"}}})
    };
    if kind.verbs == Verbs::CreateOnly {
        paths.insert(base, json!({"post": operation("post", &writes)}));
        return;
    }
    let mut patch = operation("patch", &["dryRun", "fieldManager", "fieldValidation", "force"]);
    patch["requestBody"] = json!({ "content": patch_types(kind) });
    paths.insert(
        format!("{base}/{{name}}"),
        json!({
            "get": operation("get", &[]),
            "put": operation("put", &writes),
            "patch": patch,
            "delete": operation("delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"]),
        }),
    );
    paths.insert(
        base,
        json!({
            "get": operation("list", &["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"]),
            "post": operation("post", &writes),
        }),
    );
}

/// The patches that a kind takes. kubectl computes a strategic one from the schema where the kind takes it.
fn patch_types(kind: &Kind) -> Value {
    let mut types = json!({"application/apply-patch+yaml": {}, "application/json-patch+json": {},
                           "application/merge-patch+json": {}});
    if kind.custom().is_none() {
        types["application/strategic-merge-patch+json"] = json!({});
    }
    types
}

fn parameter(name: &str) -> Value {
    let type_name = match name {
        "force" | "watch" => "boolean",
        "limit" | "gracePeriodSeconds" => "integer",
        _ => "string",
    };
    json!({"name": name, "in": "query", "schema": {"type": type_name, "uniqueItems": true}})
}

fn group_version_kind(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

/// `com.example.v1.Widget`: kubectl shows the last part as the name of the type.
fn component(kind: &Kind) -> String {
    let group = if kind.group.is_empty() {
        "core"
    } else {
        &kind.group
    };
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    if kind.custom().is_none() {
        parts = vec!["io", "k8s", "api", group.split('.').next().unwrap_or(group)];
    }
    format!("{}.{}.{}", parts.join("."), kind.version, kind.kind)
}

/// The schema of a kind, with the fields that every object has even where a definition does not speak of them.
fn schema(kind: &Kind) -> Value {
    let mut schema = kind
        .open_api()
        .cloned()
        .unwrap_or_else(|| json!({"type": "object"}));
    if kind.custom().is_none() {
        builtin::describe(&kind.api_version(), &kind.kind, &mut schema);
    } else {
        schema["properties"]["apiVersion"] = json!({"type": "string"});
        schema["properties"]["kind"] = json!({"type": "string"});
        schema["properties"]["metadata"] =
            json!({"allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}]});
    }
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind)]);
    schema
}

/// The metadata of every object, as a built-in kind has it.
fn object_meta() -> Value {
    let config_map = builtin::open_api("v1", "ConfigMap");
    config_map.map_or_else(
        || json!({"type": "object"}),
        |schema| schema["properties"]["metadata"].clone(),
    )
}
