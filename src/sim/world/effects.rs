//! What counts as an effect: a write at either edge that was carried out.
//!
//! A crash point is a place between two effects, so what changes nothing that a later life reads is left out: Lease
//! renewals, events, tokens, and questions that are asked by POST. The record of launches is a Lease too, and read by
//! every later life before it buys.

use std::collections::BTreeMap;

use http::Method;
use serde::{Deserialize, Serialize};

use crate::api::names::LAUNCHES_LEASE;
use crate::sim::history::Edge;

/// How often each thing was done.
pub type Counts = BTreeMap<Deed, u64>;

/// What was done to which object: the key under which effects are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Deed {
    /// The plural name, with the subresource after a slash: `nodeclaims/status`, `instances`.
    pub kind: String,
    /// `create`, `update`, `delete`.
    pub verb: Verb,
    /// The object's name; a machine goes by that of its claim, since its own differs from run to run. Empty if unknown.
    pub object: String,
}

impl Deed {
    /// The same, done to that object.
    #[must_use]
    pub fn to(mut self, object: String) -> Self {
        self.object = object;
        self
    }
}

/// How a deed changes the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verb {
    /// Something is there that was not.
    Create,
    /// Something is different.
    Update,
    /// Something goes.
    Delete,
}

impl Verb {
    /// In lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    fn of(method: &Method) -> Option<Self> {
        match *method {
            Method::POST => Some(Self::Create),
            Method::PUT | Method::PATCH => Some(Self::Update),
            Method::DELETE => Some(Self::Delete),
            _ => None,
        }
    }
}

/// The effect that a request has when it is carried out, if it is one.
pub fn effect(edge: Edge, method: &Method, path: &str) -> Option<Deed> {
    let verb = Verb::of(method)?;
    match edge {
        Edge::Kube => kube_effect(verb, path),
        Edge::Cloud => {
            let kind = cloud_kind(path)?;
            // Tags are sent by POST, but change what is there: the same twice as once.
            let verb = match verb {
                Verb::Create if kind.starts_with("tags/") => Verb::Update,
                verb => verb,
            };
            let object = String::new();
            Some(Deed { kind, verb, object })
        }
    }
}

fn kube_effect(verb: Verb, path: &str) -> Option<Deed> {
    let (plural, name, subresource) = kube_parts(path)?;
    // Before anything is put into words: most requests are renewals of Leases.
    if NO_EFFECT.contains(&(plural, subresource)) || is_renewal(verb, plural, name) {
        return None;
    }
    Some(Deed {
        kind: worded(plural, subresource),
        verb,
        object: name.unwrap_or_default().to_owned(),
    })
}

/// Kinds whose writes are forgotten or renewed by themselves.
const NO_EFFECT: &[(&str, Option<&str>)] = &[
    ("events", None),
    ("serviceaccounts", Some("token")),
    ("tokenreviews", None),
    ("subjectaccessreviews", None),
    ("selfsubjectreviews", None),
    ("selfsubjectaccessreviews", None),
    ("selfsubjectrulesreviews", None),
    ("localsubjectaccessreviews", None),
];

/// Whether somebody only says that he still holds a Lease, or no longer does: it runs out by itself. Nobody holds the one
/// in which launches are recorded.
fn is_renewal(verb: Verb, plural: &str, name: Option<&str>) -> bool {
    plural == "leases" && verb == Verb::Update && name != Some(LAUNCHES_LEASE)
}

fn worded(plural: &str, subresource: Option<&str>) -> String {
    match subresource {
        Some(subresource) => format!("{plural}/{subresource}"),
        None => plural.to_owned(),
    }
}

/// Plural name, name and subresource in a path of the Kubernetes API.
pub fn kube_parts(path: &str) -> Option<(&str, Option<&str>, Option<&str>)> {
    let mut segments = path.trim_matches('/').split('/');
    match segments.next()? {
        "api" => segments.next()?,
        "apis" => segments.nth(1)?,
        _ => return None,
    };
    let first = segments.next()?;
    let (second, third) = (segments.next(), segments.next());
    match (first, third) {
        // `namespaces/x` is an object, `namespaces/x/pods` lies within it, `namespaces/x/status` is its own.
        ("namespaces", Some(kind)) if !matches!(kind, "status" | "finalize") => {
            Some((kind, segments.next(), segments.next()))
        }
        _ => Some((first, second, third)),
    }
}

/// `instances` in `/v1/instances/0717_1/actions`. Tokens and searches change nothing.
fn cloud_kind(path: &str) -> Option<String> {
    let mut segments = path.trim_matches('/').split('/');
    let (first, second, third) = (segments.next()?, segments.next()?, segments.next());
    match (first, second) {
        ("identity" | "instance_identity", _) | ("v3", "resources") => None,
        ("v3", "tags") => Some(format!("tags/{}", third.unwrap_or_default())),
        (_, kind) => Some(kind.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kube(method: &Method, path: &str) -> Option<String> {
        effect(Edge::Kube, method, path).map(|deed| format!("{} {}", deed.verb.as_str(), deed.kind))
    }

    fn cloud(method: &Method, path: &str) -> Option<String> {
        effect(Edge::Cloud, method, path).map(|deed| format!("{} {}", deed.verb.as_str(), deed.kind))
    }

    #[test]
    fn a_write_is_an_effect_on_its_kind() {
        let cases = [
            (
                Method::POST,
                "/apis/karpenter.sh/v1/nodeclaims",
                "create nodeclaims",
            ),
            (
                Method::PATCH,
                "/apis/karpenter.sh/v1/nodeclaims/a/status",
                "update nodeclaims/status",
            ),
            (Method::DELETE, "/api/v1/namespaces/default/pods/a", "delete pods"),
            (
                Method::POST,
                "/api/v1/namespaces/default/pods/a/eviction",
                "create pods/eviction",
            ),
            (Method::DELETE, "/api/v1/namespaces/a", "delete namespaces"),
            (
                Method::PUT,
                "/api/v1/namespaces/a/status",
                "update namespaces/status",
            ),
        ];
        for (method, path, deed) in cases {
            assert_eq!(kube(&method, path).as_deref(), Some(deed), "{path}");
        }
        assert_eq!(
            cloud(&Method::POST, "/v1/instances").as_deref(),
            Some("create instances")
        );
        assert_eq!(
            cloud(&Method::DELETE, "/v1/instances/0717_a").as_deref(),
            Some("delete instances")
        );
        assert_eq!(
            cloud(&Method::POST, "/v3/tags/attach").as_deref(),
            Some("update tags/attach")
        );
    }

    #[test]
    fn the_record_of_launches_is_an_effect_and_so_is_a_new_lease() {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/x/leases";
        let record = format!("{leases}/{LAUNCHES_LEASE}");
        assert_eq!(kube(&Method::PUT, &record).as_deref(), Some("update leases"));
        assert_eq!(kube(&Method::POST, leases).as_deref(), Some("create leases"));
        for renewed in ["karpenter-ibm-leader", "karpenter-ibm-allocator-us-south-1"] {
            assert_eq!(kube(&Method::PUT, &format!("{leases}/{renewed}")), None);
        }
    }

    #[test]
    fn reads_renewals_events_and_tokens_are_none() {
        for (method, path) in [
            (Method::GET, "/api/v1/pods"),
            (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/x/leases/a"),
            (Method::POST, "/api/v1/namespaces/x/events"),
            (Method::POST, "/apis/events.k8s.io/v1/namespaces/x/events"),
            (Method::POST, "/api/v1/namespaces/x/serviceaccounts/a/token"),
            (
                Method::POST,
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            ),
        ] {
            assert_eq!(kube(&method, path), None, "{path}");
        }
        assert_eq!(cloud(&Method::POST, "/identity/token"), None);
        assert_eq!(cloud(&Method::POST, "/v3/resources/search"), None);
        assert_eq!(cloud(&Method::GET, "/v1/instances"), None);
    }
}
