//! Groups, versions and resources as discovery lists them, from the registry.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::sim::kube::kind::{Kind, Scope, Verbs};
use crate::sim::kube::registry::Registry;

/// The order of a real server's groups: kubectl takes a name that several groups have from the first of them.
const ORDER: [&str; 17] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
];

/// An API group.
#[derive(Debug)]
pub(super) struct Group {
    /// Empty for the core.
    pub(super) name: String,
    /// The preferred one first.
    pub(super) versions: Vec<Version>,
}

/// A version of a group.
#[derive(Debug)]
pub(super) struct Version {
    /// `v1`
    pub(super) name: String,
    /// `apps/v1`, or `v1` for the core.
    pub(super) qualified: String,
    /// By plural.
    pub(super) resources: Vec<Resource>,
}

/// A kind, as discovery shows it.
#[derive(Debug)]
pub(super) struct Resource(Arc<Kind>);

/// Group, version and kind of what a path takes and gives.
pub(super) struct Shape<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
}

/// The core group.
pub(super) fn core(registry: &Registry) -> Group {
    group(registry, "")
}

/// Every group but the core: those of Kubernetes as a real server orders them, then the custom ones by name.
pub(super) fn groups(registry: &Registry) -> Vec<Group> {
    let mut names: Vec<&str> = registry.all().map(|kind| kind.group.as_str()).collect();
    names.sort_by_key(|name| {
        let rank = ORDER.iter().position(|known| known == name);
        (rank.unwrap_or(ORDER.len()), *name)
    });
    names.dedup();
    names
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(|name| group(registry, name))
        .collect()
}

fn group(registry: &Registry, name: &str) -> Group {
    let mut versions: BTreeMap<Reverse<Rank>, Version> = BTreeMap::new();
    for kind in registry.all().filter(|kind| kind.group == name) {
        let version = versions
            .entry(Reverse(rank(&kind.version)))
            .or_insert_with(|| Version {
                name: kind.version.clone(),
                qualified: kind.api_version(),
                resources: Vec::new(),
            });
        version.resources.push(Resource(Arc::clone(kind)));
    }
    Group {
        name: name.to_owned(),
        versions: versions.into_values().collect(),
    }
}

/// How much a version is preferred: stable before beta before alpha, each the highest number first, others last.
type Rank = (u8, u32, u32, Reverse<String>);

fn rank(version: &str) -> Rank {
    let other = || (0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else {
        return other();
    };
    let (major, stability, minor) = match (rest.split_once("beta"), rest.split_once("alpha")) {
        (Some((major, minor)), _) => (major, 2, minor),
        (_, Some((major, minor))) => (major, 1, minor),
        (None, None) => (rest, 3, "0"),
    };
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => (stability, major, minor, Reverse(String::new())),
        _ => other(),
    }
}

impl Resource {
    /// The kind itself.
    pub(super) fn kind(&self) -> &Kind {
        &self.0
    }

    /// The verbs of the resource; custom ones in the order in which a real server lists them.
    pub(super) fn verbs(&self) -> Vec<&'static str> {
        let kind = self.kind();
        if kind.verbs == Verbs::CreateOnly {
            return vec!["create"];
        }
        if kind.custom().is_some() {
            return vec![
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "create",
                "update",
                "watch",
            ];
        }
        let mut verbs = vec![
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ];
        // Namespaces go one at a time.
        if kind.group.is_empty() && kind.plural == "namespaces" {
            verbs.retain(|verb| *verb != "deletecollection");
        }
        verbs
    }

    /// Its subresources: built-in ones by name, custom ones as a real server lists them.
    pub(super) fn subresources(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.subresources.iter().map(String::as_str).collect();
        if self.0.custom().is_none() {
            names.sort_unstable();
        }
        names
    }

    /// The verbs of a subresource.
    pub(super) fn verbs_below(subresource: &str) -> &'static [&'static str] {
        match subresource {
            "binding" | "eviction" | "token" => &["create"],
            "finalize" => &["update"],
            _ => &["get", "patch", "update"],
        }
    }

    /// What a subresource takes and gives.
    pub(super) fn shape_below<'a>(&'a self, subresource: &str) -> Shape<'a> {
        let shape = |group, version, kind| Shape { group, version, kind };
        match subresource {
            "scale" => shape("autoscaling", "v1", "Scale"),
            "eviction" => shape("policy", "v1", "Eviction"),
            "token" => shape("authentication.k8s.io", "v1", "TokenRequest"),
            "binding" => shape("", "v1", "Binding"),
            _ => shape(&self.0.group, &self.0.version, &self.0.kind),
        }
    }

    /// Its entries in an `APIResourceList`: itself, and each subresource.
    pub(super) fn entries(&self) -> Vec<Value> {
        let kind = self.kind();
        let namespaced = kind.scope == Scope::Namespaced;
        let mut itself = json!({"name": kind.plural, "singularName": kind.singular, "namespaced": namespaced,
                                "kind": kind.kind, "verbs": self.verbs()});
        for (field, names) in [
            ("shortNames", &kind.short_names),
            ("categories", &kind.categories),
        ] {
            if !names.is_empty() {
                itself[field] = json!(names);
            }
        }
        let mut entries = vec![itself];
        for subresource in self.subresources() {
            let shape = self.shape_below(subresource);
            let mut entry = json!({"name": format!("{}/{subresource}", kind.plural), "singularName": "",
                                   "namespaced": namespaced, "kind": shape.kind,
                                   "verbs": Self::verbs_below(subresource)});
            // Said only where it differs from the list's own.
            if (shape.group, shape.version) != (kind.group.as_str(), kind.version.as_str()) {
                entry["group"] = shape.group.into();
                entry["version"] = shape.version.into();
            }
            entries.push(entry);
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_as_kubernetes_orders_them() {
        let mut versions = [
            "v1beta1", "v10", "foo1", "v2", "v1alpha2", "v2beta1", "v1", "v1beta10",
        ];
        versions.sort_by_key(|version| Reverse(rank(version)));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v2beta1", "v1beta10", "v1beta1", "v1alpha2", "foo1"
            ]
        );
    }

    #[test]
    fn groups_come_in_the_order_of_a_real_server() {
        let names: Vec<String> = groups(&Registry::default())
            .into_iter()
            .map(|group| group.name)
            .collect();
        assert_eq!(names[..2], ["apps", "events.k8s.io"]);
        assert!(
            names.iter().all(|name| ORDER.contains(&name.as_str())),
            "{names:?}"
        );
    }
}
