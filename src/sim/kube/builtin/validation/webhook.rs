//! Configurations of admission webhooks.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::findings::Findings;
use super::{each, is_set, text, words};
use crate::sim::kube::schema::{Schema, SchemaError};

pub(super) fn configuration(found: &mut Findings, object: &Value) {
    let mut names = BTreeSet::new();
    for (index, webhook) in each(object, "webhooks").enumerate() {
        let at = format!("webhooks[{index}]");
        one(found, &at, webhook);
        if !names.insert(text(webhook, "name")) {
            found.duplicate(&format!("{at}.name"), &webhook["name"]);
        }
    }
}

fn one(found: &mut Findings, at: &str, webhook: &Value) {
    let name = &webhook["name"];
    let path = format!("{at}.name");
    match text(webhook, "name") {
        "" => found.required(&path, ""),
        name_text if name_text.split('.').count() < 3 => {
            found.invalid(
                &path,
                name,
                "should be a domain with at least three segments separated by dots",
            );
        }
        _ => found.word(&path, name, words::subdomain),
    }
    versions(found, &format!("{at}.admissionReviewVersions"), webhook);
    found.optional_one_of(
        &format!("{at}.failurePolicy"),
        &webhook["failurePolicy"],
        &["Fail", "Ignore"],
    );
    found.optional_one_of(
        &format!("{at}.matchPolicy"),
        &webhook["matchPolicy"],
        &["Equivalent", "Exact"],
    );
    found.optional_one_of(
        &format!("{at}.reinvocationPolicy"),
        &webhook["reinvocationPolicy"],
        &["IfNeeded", "Never"],
    );
    match &webhook["sideEffects"] {
        Value::Null => found.required(
            &format!("{at}.sideEffects"),
            "must specify one of None, NoneOnDryRun",
        ),
        given => found.one_of(&format!("{at}.sideEffects"), given, &["None", "NoneOnDryRun"]),
    }
    let seconds = &webhook["timeoutSeconds"];
    if seconds
        .as_i64()
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        found.invalid(&format!("{at}.timeoutSeconds"), seconds, detail);
    }
    found.selector(&format!("{at}.namespaceSelector"), &webhook["namespaceSelector"]);
    found.selector(&format!("{at}.objectSelector"), &webhook["objectSelector"]);
    client(found, &format!("{at}.clientConfig"), &webhook["clientConfig"]);
    for (index, rule) in each(webhook, "rules").enumerate() {
        rule_of(found, &format!("{at}.rules[{index}]"), rule);
    }
    for (index, condition) in each(webhook, "matchConditions").enumerate() {
        let at = format!("{at}.matchConditions[{index}]");
        for field in ["expression", "name"] {
            if text(condition, field).is_empty() {
                found.required(&format!("{at}.{field}"), "");
            }
        }
        let rule = json!({"type": "object", "x-kubernetes-validations": [{"rule": condition["expression"]}]});
        if is_set(condition, "expression")
            && let Err(SchemaError::Rule { problem, .. }) = Schema::compile(&rule)
        {
            let detail = format!("compilation failed: {problem}");
            found.invalid(&format!("{at}.expression"), &condition["expression"], detail);
        }
    }
}

fn versions(found: &mut Findings, at: &str, webhook: &Value) {
    let known = |version: &Value| *version == "v1" || *version == "v1beta1";
    let given: Vec<&Value> = each(webhook, "admissionReviewVersions").collect();
    if given.is_empty() {
        found.required(at, "must specify one of v1, v1beta1");
    } else if !given.iter().any(|version| known(version)) {
        let detail = "must include at least one of v1, v1beta1";
        found.invalid(at, &webhook["admissionReviewVersions"], detail);
    }
    let mut seen = BTreeSet::new();
    for (index, version) in given.iter().enumerate() {
        let at = format!("{at}[{index}]");
        found.word(&at, version, words::label_1035);
        if !seen.insert(version.as_str()) {
            found.invalid(&at, version, "duplicate version");
        }
    }
}

fn client(found: &mut Findings, at: &str, client: &Value) {
    match (is_set(client, "url"), client["service"].is_object()) {
        (true, false) => {
            let url = text(client, "url");
            if !url.starts_with("https://") {
                found.invalid(
                    &format!("{at}.url"),
                    &client["url"],
                    "'https' is the only allowed URL scheme",
                );
            }
        }
        (false, true) => {
            let (at, service) = (format!("{at}.service"), &client["service"]);
            for field in ["name", "namespace"] {
                if text(service, field).is_empty() {
                    found.required(&format!("{at}.{field}"), "");
                }
            }
            path(found, &format!("{at}.path"), &service["path"]);
            found.port(&format!("{at}.port"), &service["port"]);
        }
        _ => found.required(at, "exactly one of url or service is required"),
    }
}

fn path(found: &mut Findings, at: &str, path: &Value) {
    let Some(text) = path.as_str() else { return };
    if !text.starts_with('/') {
        found.invalid(at, path, "must start with a '/'");
    }
    if text.is_empty() || text == "/" {
        return;
    }
    for segment in text.trim_start_matches('/').trim_end_matches('/').split('/') {
        if !words::subdomain(segment).is_empty() {
            found.invalid(at, path, "each segment must be a subdomain");
        }
    }
    if !text.starts_with('/') {
        // What stands before the first slash is a segment that should not be there.
        found.invalid(at, path, "segment[0] may not be before the first '/'");
    }
}

fn rule_of(found: &mut Findings, at: &str, rule: &Value) {
    for field in ["apiGroups", "apiVersions", "resources", "operations"] {
        if each(rule, field).next().is_none() {
            found.required(&format!("{at}.{field}"), "");
        }
    }
    for field in ["apiGroups", "apiVersions", "operations"] {
        let all = each(rule, field).any(|value| value == "*");
        if all && each(rule, field).count() > 1 {
            let detail = "if '*' is present, must not specify other values";
            found.invalid(&format!("{at}.{field}"), &rule[field], detail);
        }
    }
    let everything = each(rule, "resources").any(|value| value == "*/*");
    if everything && each(rule, "resources").count() > 1 {
        let detail = "if '*/*' is present, must not specify other resources";
        found.invalid(&format!("{at}.resources"), &rule["resources"], detail);
    }
    for field in ["apiVersions", "resources"] {
        for (index, value) in each(rule, field).enumerate() {
            if value == "" {
                found.required(&format!("{at}.{field}[{index}]"), "");
            }
        }
    }
    for (index, operation) in each(rule, "operations").enumerate() {
        let at = format!("{at}.operations[{index}]");
        found.one_of(&at, operation, &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]);
    }
    found.optional_one_of(
        &format!("{at}.scope"),
        &rule["scope"],
        &["*", "Cluster", "Namespaced"],
    );
}
