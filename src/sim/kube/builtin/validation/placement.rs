//! Where a pod may run: node selectors, affinity, tolerations, spreading.

use serde_json::{Value, json};

use super::findings::Findings;
use super::{each, is_set, text, words};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Tolerations of a pod.
pub(super) fn tolerations(found: &mut Findings, at: &str, spec: &Value) {
    for (index, toleration) in each(spec, "tolerations").enumerate() {
        let at = format!("{at}[{index}]");
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        if !key.is_empty() {
            found.word(&format!("{at}.key"), &toleration["key"], words::qualified_name);
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            found.invalid(&format!("{at}.operator"), &toleration["operator"], detail);
        }
        if is_set(toleration, "tolerationSeconds") && toleration["effect"] != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            found.invalid(&format!("{at}.effect"), &toleration["effect"], detail);
        }
        // A wrong value is blamed on the operator.
        let at_operator = format!("{at}.operator");
        match operator {
            "" | "Equal" => found.word(&at_operator, &toleration["value"], words::label_value),
            "Exists" if is_set(toleration, "value") => found.invalid(
                &at_operator,
                &toleration["value"],
                "value must be empty when `operator` is 'Exists'",
            ),
            "Exists" => {}
            _ => found.one_of(&at_operator, &toleration["operator"], &["Equal", "Exists"]),
        }
        if is_set(toleration, "effect") {
            found.one_of(&format!("{at}.effect"), &toleration["effect"], &EFFECTS);
        }
    }
}

/// Taints of a node.
pub(super) fn taints(found: &mut Findings, at: &str, spec: &Value) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, taint) in each(spec, "taints").enumerate() {
        let at = format!("{at}[{index}]");
        found.word(&format!("{at}.key"), &taint["key"], words::qualified_name);
        if is_set(taint, "value") {
            found.word(&format!("{at}.value"), &taint["value"], words::label_value);
        }
        match text(taint, "effect") {
            "" => found.required(&format!("{at}.effect"), ""),
            _ => found.one_of(&format!("{at}.effect"), &taint["effect"], &EFFECTS),
        }
        if !seen.insert((text(taint, "key"), text(taint, "effect"))) {
            found.duplicate(&at, taint);
        }
    }
}

/// Affinity to nodes and pods.
pub(super) fn affinity(found: &mut Findings, at: &str, affinity: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = &affinity["nodeAffinity"];
    if node[REQUIRED].is_object() {
        node_selector(found, &format!("{at}.nodeAffinity.{REQUIRED}"), &node[REQUIRED]);
    }
    for (index, preferred) in each(node, PREFERRED).enumerate() {
        let at = format!("{at}.nodeAffinity.{PREFERRED}[{index}]");
        weight(found, &at, preferred);
        node_selector_term(found, &format!("{at}.preference"), &preferred["preference"]);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (index, term) in each(&affinity[kind], REQUIRED).enumerate() {
            pod_term(found, &format!("{at}.{kind}.{REQUIRED}[{index}]"), term);
        }
        for (index, preferred) in each(&affinity[kind], PREFERRED).enumerate() {
            let at = format!("{at}.{kind}.{PREFERRED}[{index}]");
            weight(found, &at, preferred);
            pod_term(
                found,
                &format!("{at}.podAffinityTerm"),
                &preferred["podAffinityTerm"],
            );
        }
    }
}

fn weight(found: &mut Findings, at: &str, preferred: &Value) {
    if !preferred["weight"]
        .as_i64()
        .is_some_and(|weight| (1..=100).contains(&weight))
    {
        found.invalid(
            &format!("{at}.weight"),
            &preferred["weight"],
            "must be in the range 1-100",
        );
    }
}

/// Terms of which a node must satisfy one.
pub(super) fn node_selector(found: &mut Findings, at: &str, selector: &Value) {
    let at = format!("{at}.nodeSelectorTerms");
    if each(selector, "nodeSelectorTerms").next().is_none() {
        found.required(&at, "must have at least one node selector term");
    }
    for (index, term) in each(selector, "nodeSelectorTerms").enumerate() {
        node_selector_term(found, &format!("{at}[{index}]"), term);
    }
}

fn node_selector_term(found: &mut Findings, at: &str, term: &Value) {
    for (index, expression) in each(term, "matchExpressions").enumerate() {
        let at = format!("{at}.matchExpressions[{index}]");
        let (values, count) = (format!("{at}.values"), each(expression, "values").count());
        match text(expression, "operator") {
            "In" | "NotIn" if count == 0 => {
                found.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                found.forbidden(
                    &values,
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "Gt" | "Lt" if count != 1 => {
                found.required(
                    &values,
                    "must be specified single value when `operator` is 'Lt' or 'Gt'",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => found.invalid(
                &format!("{at}.operator"),
                &expression["operator"],
                "not a valid selector operator",
            ),
        }
        found.word(&format!("{at}.key"), &expression["key"], words::qualified_name);
        for (index, value) in each(expression, "values").enumerate() {
            found.word(&format!("{values}[{index}]"), value, words::label_value);
        }
    }
    for (index, field) in each(term, "matchFields").enumerate() {
        let at = format!("{at}.matchFields[{index}]");
        match text(field, "operator") {
            "In" | "NotIn" if each(field, "values").count() != 1 => found.required(
                &format!("{at}.values"),
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ),
            "In" | "NotIn" => {}
            _ => found.invalid(
                &format!("{at}.operator"),
                &field["operator"],
                "not a valid selector operator",
            ),
        }
        if text(field, "key") == "metadata.name" {
            for (index, value) in each(field, "values").enumerate() {
                found.word(&format!("{at}.values[{index}]"), value, words::subdomain);
            }
        } else {
            found.invalid(
                &format!("{at}.key"),
                &field["key"],
                "not a valid field selector key",
            );
        }
    }
}

fn pod_term(found: &mut Findings, at: &str, term: &Value) {
    found.selector(&format!("{at}.labelSelector"), &term["labelSelector"]);
    found.selector(&format!("{at}.namespaceSelector"), &term["namespaceSelector"]);
    for namespace in each(term, "namespaces") {
        found.word(&format!("{at}.namespace"), namespace, words::label);
    }
    let key = format!("{at}.topologyKey");
    if text(term, "topologyKey").is_empty() {
        found.required(&key, "can not be empty");
    }
    found.word(&key, &json!(text(term, "topologyKey")), words::qualified_name);
}

/// Topology spread constraints.
pub(super) fn spread(found: &mut Findings, at: &str, spec: &Value) {
    let constraints: Vec<&Value> = each(spec, "topologySpreadConstraints").collect();
    for (index, constraint) in constraints.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let positive = |value: &Value| value.as_i64().is_some_and(|number| number > 0);
        if !positive(&constraint["maxSkew"]) {
            found.invalid(
                &format!("{at}.maxSkew"),
                &constraint["maxSkew"],
                "must be greater than zero",
            );
        }
        if text(constraint, "topologyKey").is_empty() {
            found.required(&format!("{at}.topologyKey"), "can not be empty");
        } else {
            found.word(
                &format!("{at}.topologyKey"),
                &constraint["topologyKey"],
                words::qualified_name,
            );
        }
        found.one_of(
            &format!("{at}.whenUnsatisfiable"),
            &constraint["whenUnsatisfiable"],
            &["DoNotSchedule", "ScheduleAnyway"],
        );
        let pair = |other: &Value| {
            (
                text(other, "topologyKey").to_owned(),
                text(other, "whenUnsatisfiable").to_owned(),
            )
        };
        // The first of a pair is blamed, and once.
        let later = constraints
            .iter()
            .skip(index + 1)
            .any(|other| pair(other) == pair(constraint));
        if later {
            let (key, action) = pair(constraint);
            let at = format!("{at}.{{topologyKey, whenUnsatisfiable}}");
            found.duplicate(&at, &json!(format!("{{{key}, {action}}}")));
        }
        if !constraint["minDomains"].is_null() {
            let at = format!("{at}.minDomains");
            if !positive(&constraint["minDomains"]) {
                found.invalid(&at, &constraint["minDomains"], "must be greater than zero");
            } else if constraint["whenUnsatisfiable"] != "DoNotSchedule" {
                let detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule";
                found.invalid(&at, &constraint["minDomains"], detail);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            found.optional_one_of(
                &format!("{at}.{policy}"),
                &constraint[policy],
                &["Honor", "Ignore"],
            );
        }
        if is_set(constraint, "matchLabelKeys") && !is_set(constraint, "labelSelector") {
            found.forbidden(
                &format!("{at}.matchLabelKeys"),
                "must not be specified when labelSelector is not set",
            );
        }
        found.selector(&format!("{at}.labelSelector"), &constraint["labelSelector"]);
    }
}
