//! Rules of roles: what they allow, and whether one covers another.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attempt::{Attempt, On, Resource};

/// A rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// API groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Paths such as `/healthz` or `/api/*`.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
    /// The only objects it is about; all if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Plural names, with the subresource after a slash.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// What may be done.
    pub verbs: Vec<String>,
}

/// The rules of a Role or ClusterRole; what cannot be read allows nothing.
pub fn rules(role: &Value) -> Vec<Rule> {
    let rules = role["rules"].as_array().into_iter().flatten();
    rules
        .filter_map(|rule| serde_json::from_value(rule.clone()).ok())
        .collect()
}

impl Rule {
    /// Whether it allows an attempt.
    pub fn allows(&self, attempt: &Attempt<'_>) -> bool {
        holds(&self.verbs, attempt.verb)
            && match &attempt.on {
                On::Path(path) => self.non_resource_urls.iter().any(|url| url_covers(url, path)),
                On::Resource(resource) => self.is_about(resource),
            }
    }

    fn is_about(&self, resource: &Resource<'_>) -> bool {
        holds(&self.api_groups, resource.group)
            && self.names_resource(&resource.path())
            && (self.resource_names.is_empty() || has(&self.resource_names, resource.name))
    }

    /// `*` is every resource and subresource, `*/scale` that subresource of all; there is no `pods/*`.
    fn names_resource(&self, path: &str) -> bool {
        let of_all = path
            .split_once('/')
            .map(|(_, subresource)| format!("*/{subresource}"));
        holds(&self.resources, path) || of_all.is_some_and(|of_all| has(&self.resources, &of_all))
    }

    /// Every single permission in it: one group, resource, verb and name each.
    fn broken_down(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut parts = Vec::new();
        for (group, resource, verb) in self.api_groups.iter().flat_map(|group| {
            let pairs = self.resources.iter().flat_map(|resource| {
                let verbs = self.verbs.iter();
                verbs.map(move |verb| (resource, verb))
            });
            pairs.map(move |(resource, verb)| (group, resource, verb))
        }) {
            let part = Self {
                api_groups: one(group),
                resources: one(resource),
                verbs: one(verb),
                ..Self::default()
            };
            if self.resource_names.is_empty() {
                parts.push(part);
                continue;
            }
            parts.extend(self.resource_names.iter().map(|name| Self {
                resource_names: one(name),
                ..part.clone()
            }));
        }
        for url in &self.non_resource_urls {
            parts.extend(self.verbs.iter().map(|verb| Self {
                non_resource_urls: one(url),
                verbs: one(verb),
                ..Self::default()
            }));
        }
        parts
    }

    /// Whether it allows everything that one of the parts of [`Rule::broken_down`] does.
    fn covers(&self, part: &Self) -> bool {
        let all = |set: &[String], wanted: &[String]| wanted.iter().all(|one| holds(set, one));
        all(&self.verbs, &part.verbs)
            && all(&self.api_groups, &part.api_groups)
            && part
                .resources
                .iter()
                .all(|resource| self.names_resource(resource))
            && (self.resource_names.is_empty()
                || !part.resource_names.is_empty()
                    && part
                        .resource_names
                        .iter()
                        .all(|name| has(&self.resource_names, name)))
            && part
                .non_resource_urls
                .iter()
                .all(|path| self.non_resource_urls.iter().any(|url| url_covers(url, path)))
    }

    /// As a refusal writes it: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
    fn compact(&self) -> String {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("NonResourceURLs", &self.non_resource_urls),
            ("Resources", &self.resources),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let said: Vec<String> = fields
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| format!("{name}:{values:?}").replace("\", \"", "\" \""))
            .collect();
        format!("{{{}}}", said.join(", "))
    }
}

/// What `wanted` allows beyond `held`, as a refusal writes it; empty if nothing.
pub fn beyond(held: &[Rule], wanted: &[Rule]) -> Vec<String> {
    let parts = wanted.iter().flat_map(Rule::broken_down);
    let missing: Vec<Rule> = parts
        .filter(|part| !held.iter().any(|rule| rule.covers(part)))
        .collect();
    let described: BTreeSet<String> = joined(missing).iter().map(Rule::compact).collect();
    described.into_iter().collect()
}

/// Single permissions that differ only in their verb, as one rule.
fn joined(parts: Vec<Rule>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for part in parts {
        let same = |rule: &&mut Rule| {
            rule.api_groups == part.api_groups
                && rule.resources == part.resources
                && rule.resource_names == part.resource_names
                && rule.non_resource_urls == part.non_resource_urls
        };
        match rules.iter_mut().find(same) {
            Some(rule) => rule.verbs.extend(part.verbs),
            None => rules.push(part),
        }
    }
    rules
}

fn has(set: &[String], one: &str) -> bool {
    set.iter().any(|element| element == one)
}

/// Whether a set has an element, or all.
fn holds(set: &[String], one: &str) -> bool {
    set.iter().any(|element| element == "*" || element == one)
}

/// `/api/*` covers what begins with `/api/`, `*` everything.
fn url_covers(url: &str, path: &str) -> bool {
    url == path || url.ends_with('*') && path.starts_with(url.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(rule: Value) -> Rule {
        serde_json::from_value(rule).unwrap()
    }

    fn reads(group: &str, resources: &[&str]) -> Rule {
        rule(json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "list"]}))
    }

    #[test]
    fn a_rule_allows_its_verbs_on_its_resources_in_its_groups() {
        let table = [
            (reads("", &["pods"]), "get", "", "pods", "", true),
            (reads("", &["pods"]), "watch", "", "pods", "", false),
            (reads("", &["pods"]), "get", "apps", "pods", "", false),
            (reads("", &["pods"]), "get", "", "pods", "status", false),
            (reads("", &["pods/status"]), "get", "", "pods", "status", true),
            (reads("", &["pods/status"]), "get", "", "pods", "", false),
            (reads("", &["*"]), "get", "", "pods", "status", true),
            (reads("*", &["*"]), "get", "apps", "deployments", "scale", true),
            (
                reads("*", &["*/scale"]),
                "get",
                "apps",
                "deployments",
                "scale",
                true,
            ),
            (
                reads("*", &["*/scale"]),
                "get",
                "apps",
                "deployments",
                "status",
                false,
            ),
            (reads("", &["pods/*"]), "get", "", "pods", "status", false),
        ];
        for (rule, verb, group, plural, subresource, expected) in table {
            let resource = Resource {
                group,
                plural,
                subresource,
                ..Resource::default()
            };
            let attempt = Attempt::on_resource(verb, resource);
            assert_eq!(rule.allows(&attempt), expected, "{rule:?} {attempt:?}");
        }
    }

    #[test]
    fn names_limit_a_rule_to_some_objects_and_never_allow_a_list() {
        let one = rule(
            json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["*"]}),
        );
        let on = |verb, name| {
            let resource = Resource {
                plural: "secrets",
                name,
                ..Resource::default()
            };
            one.allows(&Attempt::on_resource(verb, resource))
        };
        assert!(on("get", "a") && on("delete", "a"));
        assert!(!on("get", "b") && !on("list", "") && !on("create", ""));
    }

    #[test]
    fn paths_may_end_in_a_star() {
        let paths = rule(json!({"nonResourceURLs": ["/healthz", "/api/*"], "verbs": ["get"]}));
        for (verb, path, expected) in [
            ("get", "/healthz", true),
            ("get", "/healthz/etcd", false),
            ("get", "/api/v1", true),
            ("get", "/api", false),
            ("post", "/healthz", false),
        ] {
            assert_eq!(
                paths.allows(&Attempt::on_path(verb, path)),
                expected,
                "{verb} {path}"
            );
        }
    }

    #[test]
    fn what_is_wanted_beyond_what_is_held_is_told_exactly() {
        let held = [reads("", &["pods", "services"])];
        assert!(beyond(&held, &[reads("", &["pods"])]).is_empty());
        let all = rule(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}));
        assert!(beyond(std::slice::from_ref(&all), &held).is_empty());
        assert_eq!(
            beyond(&held, &[all]),
            [r#"{APIGroups:["*"], Resources:["*"], Verbs:["*"]}"#]
        );
        let more =
            rule(json!({"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "delete"]}));
        assert_eq!(
            beyond(&held, &[more]),
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}"#,
            ]
        );
    }

    #[test]
    fn whoever_holds_one_object_cannot_give_all() {
        let one = rule(
            json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]}),
        );
        let all = rule(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}));
        assert!(beyond(std::slice::from_ref(&all), std::slice::from_ref(&one)).is_empty());
        assert_eq!(beyond(&[one], &[all]).len(), 1);
    }
}
