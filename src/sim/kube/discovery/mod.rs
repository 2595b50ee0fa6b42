//! What is not a resource: which kinds there are, how they look, the version, health.
//!
//! Everything is drawn from the registry at the moment of asking, so a CRD is discoverable as soon as it is stored.

mod aggregated;
mod open_api;
mod open_api_v2;
mod resources;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};

use super::identity::User;
use super::refusal::Refusal;
use super::registry::Registry;
use super::server::{ApiServer, json_response};
use resources::Group;

/// Answers a request that is not about a resource.
pub fn answer(server: &ApiServer, _user: &User, parts: &Parts) -> Result<Response, Refusal> {
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Err(Refusal::method_not_allowed());
    }
    let aggregated = aggregated::is_accepted(&parts.headers);
    let registry = server.state().registry.clone();
    Ok(match path.as_slice() {
        ["version"] => json_response(StatusCode::OK, &version()),
        ["api"] if aggregated => aggregated::response(&[resources::core(&registry)]),
        ["apis"] if aggregated => aggregated::response(&resources::groups(&registry)),
        ["api"] => json_response(StatusCode::OK, &core_versions()),
        ["apis"] => json_response(StatusCode::OK, &group_list(&registry)),
        ["api", version] => resource_list(&resources::core(&registry), version)?,
        ["apis", group] => match named(&registry, group) {
            Some(group) => json_response(StatusCode::OK, &described(&group, Described::Alone)),
            None => no_such_page(),
        },
        ["apis", group, version] => match named(&registry, group) {
            Some(group) => resource_list(&group, version)?,
            None => no_such_page(),
        },
        ["openapi", "v2"] => {
            json_response(StatusCode::OK, &open_api_v2::document(&registry, &parts.headers)?)
        }
        ["openapi", "v3"] => json_response(StatusCode::OK, &open_api::index(&registry)),
        ["openapi", "v3", at @ ..] => match open_api::document(&registry, &at.join("/")) {
            Some(document) => json_response(StatusCode::OK, &document),
            None => text(StatusCode::NOT_FOUND, ""),
        },
        // One process without dependencies: whoever gets an answer gets this one.
        ["healthz" | "livez" | "readyz", ..] => text(StatusCode::OK, "ok"),
        ["metrics"] => text(StatusCode::OK, ""),
        _ => no_such_page(),
    })
}

/// The release whose behavior this server has.
fn version() -> Value {
    json!({
        "major": "1", "minor": "35", "emulationMajor": "1", "emulationMinor": "35",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "34", "gitVersion": "v1.35.4", "gitCommit": "",
        "gitTreeState": "archive", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

fn core_versions() -> Value {
    // Clients that use the address at all compare it with their own network; none is in this one.
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

fn group_list(registry: &Registry) -> Value {
    let groups: Vec<Value> = resources::groups(registry)
        .iter()
        .map(|group| described(group, Described::InList))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Where a group's description stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Described {
    /// By itself, so it says what it is.
    Alone,
    /// In a list, which says it.
    InList,
}

fn described(group: &Group, place: Described) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": version.qualified, "version": version.name}))
        .collect();
    let mut description =
        json!({"name": group.name, "versions": versions, "preferredVersion": versions.first()});
    if place == Described::Alone {
        description["kind"] = "APIGroup".into();
        description["apiVersion"] = "v1".into();
    }
    description
}

fn named(registry: &Registry, name: &str) -> Option<Group> {
    resources::groups(registry)
        .into_iter()
        .find(|group| group.name == name)
}

fn resource_list(group: &Group, version: &str) -> Result<Response, Refusal> {
    let version = group
        .versions
        .iter()
        .find(|known| known.name == version)
        .ok_or_else(Refusal::no_such_path)?;
    let entries: Vec<Value> = version
        .resources
        .iter()
        .flat_map(resources::Resource::entries)
        .collect();
    let mut list =
        json!({"kind": "APIResourceList", "groupVersion": version.qualified, "resources": entries});
    // A real server leaves it out for the core group, which is older than the rule.
    if !group.name.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Ok(json_response(StatusCode::OK, &list))
}

/// A path that no handler owns is answered before any handler could make a `Status` of it.
fn no_such_page() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn text(code: StatusCode, body: &'static str) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

#[cfg(test)]
mod tests;
