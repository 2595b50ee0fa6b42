//! Roles and their bindings.

use serde_json::Value;

use super::findings::Findings;
use super::{each, text, words};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(found: &mut Findings, kind: &str, role: &Value) {
    for (index, rule) in each(role, "rules").enumerate() {
        let at = format!("rules[{index}]");
        let has = |field: &str| each(rule, field).next().is_some();
        if !has("verbs") {
            found.required(&format!("{at}.verbs"), "verbs must contain at least one value");
        }
        if has("nonResourceURLs") {
            let urls = &rule["nonResourceURLs"];
            if kind == "Role" {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                found.invalid(&format!("{at}.nonResourceURLs"), urls, detail);
            }
            if has("apiGroups") || has("resources") || has("resourceNames") {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                found.invalid(&format!("{at}.nonResourceURLs"), urls, detail);
            }
            continue;
        }
        for field in ["apiGroups", "resources"] {
            if !has(field) {
                found.required(
                    &format!("{at}.{field}"),
                    "resource rules must supply at least one",
                );
            }
        }
    }
    for (index, selector) in each(&role["aggregationRule"], "clusterRoleSelectors").enumerate() {
        found.selector(
            &format!("aggregationRule.clusterRoleSelectors[{index}]"),
            selector,
        );
    }
}

pub(super) fn binding(found: &mut Findings, kind: &str, binding: &Value) {
    let role = &binding["roleRef"];
    found.one_of("roleRef.apiGroup", &role["apiGroup"], &[GROUP]);
    let kinds: &[&str] = if kind == "RoleBinding" {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    found.one_of("roleRef.kind", &role["kind"], kinds);
    match text(role, "name") {
        "" => found.required("roleRef.name", ""),
        _ => found.word("roleRef.name", &role["name"], words::path_segment),
    }
    for (index, subject) in each(binding, "subjects").enumerate() {
        let at = format!("subjects[{index}]");
        let name = text(subject, "name");
        if name.is_empty() {
            found.required(&format!("{at}.name"), "");
        }
        match text(subject, "kind") {
            "ServiceAccount" => {
                if !name.is_empty() {
                    found.word(&format!("{at}.name"), &subject["name"], words::subdomain);
                }
                if !text(subject, "apiGroup").is_empty() {
                    found.one_of(&format!("{at}.apiGroup"), &subject["apiGroup"], &[""]);
                }
                // In a namespace an account without one is of the same.
                if kind == "ClusterRoleBinding" && text(subject, "namespace").is_empty() {
                    found.required(&format!("{at}.namespace"), "");
                }
            }
            "User" | "Group" => found.one_of(&format!("{at}.apiGroup"), &subject["apiGroup"], &[GROUP]),
            _ => found.one_of(
                &format!("{at}.kind"),
                &subject["kind"],
                &["ServiceAccount", "User", "Group"],
            ),
        }
    }
}
