//! What makes pods, and what scales it.

use serde_json::{Value, json};

use super::findings::Findings;
use super::{each, is_set, pod, storage, text, words};
use crate::sim::kube::builtin::label_selector;
use crate::sim::kube::object;

/// What a selector is like, and what a wrong one spoils.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selector {
    /// It must be there.
    Needed,
    /// Where there is none, nothing matches.
    Assumed,
}

fn selector(found: &mut Findings, spec: &Value, need: Selector) {
    let selector = &spec["selector"];
    if need == Selector::Needed && !selector.is_object() {
        found.required("spec.selector", "");
    } else {
        found.selector("spec.selector", selector);
        let empty = ["matchLabels", "matchExpressions"].iter().all(|field| {
            let terms = &selector[*field];
            terms.as_object().is_none_or(serde_json::Map::is_empty)
                && terms.as_array().is_none_or(Vec::is_empty)
        });
        if selector.is_object() && empty {
            found.invalid(
                "spec.selector",
                selector,
                "empty selector is invalid for this kind",
            );
        }
    }
}

/// The selector must select what the template makes.
fn matching(found: &mut Findings, spec: &Value) {
    let labels = object::labels(&spec["template"]);
    let selector = &spec["selector"];
    let empty = label_selector::as_text(selector).is_empty() && selector.is_object();
    if !empty && !label_selector::selects(selector, &labels) {
        found.invalid(
            "spec.template.metadata.labels",
            &spec["template"]["metadata"]["labels"],
            "`selector` does not match template `labels`",
        );
    }
}

/// A template whose pods are replaced when they end.
fn lasting_template(found: &mut Findings, spec: &Value) {
    pod::template(found, "spec.template", &spec["template"]);
    let pod = &spec["template"]["spec"];
    let policy = &pod["restartPolicy"];
    if matches!(policy.as_str(), Some("OnFailure" | "Never")) {
        found.one_of("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if is_set(pod, "activeDeadlineSeconds") {
        let detail = "activeDeadlineSeconds in the template is not Supported";
        found.forbidden("spec.template.spec.activeDeadlineSeconds", detail);
    }
}

pub(super) fn counts(found: &mut Findings, spec: &Value, fields: &[&str]) {
    for field in fields {
        found.at_least(&format!("spec.{field}"), &spec[*field], 0);
    }
}

/// The template of what has a selector that must match; a selector that is none says so itself.
fn matched_template(found: &mut Findings, spec: &Value) {
    if Findings::selector_holds(&spec["selector"]) {
        matching(found, spec);
    } else {
        found.invalid("spec.selector", &spec["selector"], "invalid label selector");
    }
    lasting_template(found, spec);
}

pub(super) fn deployment(found: &mut Findings, spec: &Value) {
    counts(
        found,
        spec,
        &["replicas", "minReadySeconds", "revisionHistoryLimit"],
    );
    selector(found, spec, Selector::Needed);
    matched_template(found, spec);
    let strategy = &spec["strategy"];
    match text(strategy, "type") {
        "Recreate" => {
            if strategy["rollingUpdate"].is_object() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                found.forbidden("spec.strategy.rollingUpdate", detail);
            }
        }
        "RollingUpdate" => rolling_update(found, &strategy["rollingUpdate"]),
        _ => found.one_of("spec.strategy", &strategy["type"], &["Recreate", "RollingUpdate"]),
    }
    let deadline = spec["progressDeadlineSeconds"].as_i64();
    let ready = spec["minReadySeconds"].as_i64().unwrap_or_default();
    found.at_least(
        "spec.progressDeadlineSeconds",
        &spec["progressDeadlineSeconds"],
        0,
    );
    if deadline.is_some_and(|deadline| deadline <= ready) {
        found.invalid(
            "spec.progressDeadlineSeconds",
            &spec["progressDeadlineSeconds"],
            "must be greater than minReadySeconds",
        );
    }
}

fn is_nothing(value: &Value) -> bool {
    *value == json!(0) || *value == json!("0%")
}

fn rolling_update(found: &mut Findings, update: &Value) {
    const AT: &str = "spec.strategy.rollingUpdate";
    found.count_or_share(&format!("{AT}.maxUnavailable"), &update["maxUnavailable"]);
    found.count_or_share(&format!("{AT}.maxSurge"), &update["maxSurge"]);
    if is_nothing(&update["maxUnavailable"]) && is_nothing(&update["maxSurge"]) {
        let detail = "may not be 0 when `maxSurge` is 0";
        found.invalid(&format!("{AT}.maxUnavailable"), &update["maxUnavailable"], detail);
    }
}

pub(super) fn replica_set(found: &mut Findings, spec: &Value) {
    counts(found, spec, &["replicas", "minReadySeconds"]);
    selector(found, spec, Selector::Needed);
    matched_template(found, spec);
}

pub(super) fn replication_controller(found: &mut Findings, spec: &Value) {
    counts(found, spec, &["replicas", "minReadySeconds"]);
    let chosen = &spec["selector"];
    if chosen.as_object().is_none_or(serde_json::Map::is_empty) {
        found.required("spec.selector", "");
    }
    if !spec["template"].is_object() {
        found.required("spec.template", "");
        return;
    }
    let labels = object::labels(&spec["template"]);
    if !label_selector::selects(&json!({"matchLabels": chosen}), &labels) {
        let at = "spec.template.metadata.labels";
        let detail = "`selector` does not match template `labels`";
        found.invalid(at, &spec["template"]["metadata"]["labels"], detail);
    }
    lasting_template(found, spec);
}

pub(super) fn daemon_set(found: &mut Findings, spec: &Value) {
    selector(found, spec, Selector::Assumed);
    if Findings::selector_holds(&spec["selector"]) {
        matching(found, spec);
    }
    lasting_template(found, spec);
    counts(found, spec, &["minReadySeconds", "revisionHistoryLimit"]);
    let strategy = &spec["updateStrategy"];
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            const AT: &str = "spec.updateStrategy.rollingUpdate";
            let update = &strategy["rollingUpdate"];
            found.count_or_share(&format!("{AT}.maxUnavailable"), &update["maxUnavailable"]);
            found.count_or_share(&format!("{AT}.maxSurge"), &update["maxSurge"]);
            match (
                is_nothing(&update["maxUnavailable"]),
                is_nothing(&update["maxSurge"]),
            ) {
                (true, true) => {
                    found.required(&format!("{AT}.maxUnavailable"), "cannot be 0 when maxSurge is 0");
                }
                (false, false) => found.invalid(
                    &format!("{AT}.maxSurge"),
                    &update["maxSurge"],
                    "may not be set when maxUnavailable is non-zero",
                ),
                _ => {}
            }
        }
        _ => found.one_of(
            "spec.updateStrategy",
            &strategy["type"],
            &["RollingUpdate", "OnDelete"],
        ),
    }
}

pub(super) fn stateful_set(found: &mut Findings, spec: &Value) {
    if !matches!(text(spec, "podManagementPolicy"), "OrderedReady" | "Parallel") {
        found.invalid(
            "spec.podManagementPolicy",
            &spec["podManagementPolicy"],
            "must be 'OrderedReady' or 'Parallel'",
        );
    }
    let strategy = &spec["updateStrategy"];
    match text(strategy, "type") {
        "OnDelete" if strategy["rollingUpdate"].is_object() => found.invalid(
            "spec.updateStrategy.rollingUpdate",
            &strategy["rollingUpdate"],
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
        "OnDelete" => {}
        "RollingUpdate" => found.at_least(
            "spec.updateStrategy.rollingUpdate.partition",
            &strategy["rollingUpdate"]["partition"],
            0,
        ),
        _ => found.invalid(
            "spec.updateStrategy",
            strategy,
            "must be 'RollingUpdate' or 'OnDelete'",
        ),
    }
    for when in ["whenDeleted", "whenScaled"] {
        found.one_of(
            &format!("spec.persistentVolumeClaimRetentionPolicy.{when}"),
            &spec["persistentVolumeClaimRetentionPolicy"][when],
            &["Retain", "Delete"],
        );
    }
    counts(found, spec, &["replicas", "minReadySeconds"]);
    if is_set(spec, "serviceName") {
        found.word("spec.serviceName", &spec["serviceName"], words::subdomain);
    }
    selector(found, spec, Selector::Needed);
    // Its labels are judged with the selector and again with the template.
    found.labels("spec.template.labels", &spec["template"]["metadata"]["labels"]);
    for (index, claim) in each(spec, "volumeClaimTemplates").enumerate() {
        storage::claim(
            found,
            &format!("spec.volumeClaimTemplates[{index}].spec"),
            &claim["spec"],
        );
    }
    matched_template(found, &with_claims(spec));
}

/// The specification with the volumes that its pods will have: those of its claims before its own.
fn with_claims(spec: &Value) -> Value {
    let mut whole = spec.clone();
    let claims: Vec<Value> = each(spec, "volumeClaimTemplates")
        .map(|claim| {
            let name = &claim["metadata"]["name"];
            json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
        })
        .collect();
    if claims.is_empty() {
        return whole;
    }
    let own = each(&spec["template"]["spec"], "volumes");
    let own = own.filter(|volume| !claims.iter().any(|claim| claim["name"] == volume["name"]));
    let volumes: Vec<Value> = claims.iter().chain(own).cloned().collect();
    whole["template"]["spec"]["volumes"] = volumes.into();
    whole
}

pub(super) fn autoscaler(found: &mut Findings, spec: &Value) {
    let (min, max) = (
        spec["minReplicas"].as_i64(),
        spec["maxReplicas"].as_i64().unwrap_or_default(),
    );
    if min.is_some_and(|min| min < 1) {
        found.invalid(
            "spec.minReplicas",
            &spec["minReplicas"],
            "must be greater than or equal to 1",
        );
    }
    if max < 1 {
        found.invalid("spec.maxReplicas", &spec["maxReplicas"], "must be greater than 0");
    } else if min.is_some_and(|min| min > max) {
        let detail = "must be greater than or equal to `minReplicas`";
        found.invalid("spec.maxReplicas", &spec["maxReplicas"], detail);
    }
    let target = &spec["scaleTargetRef"];
    for field in ["kind", "name"] {
        if text(target, field).is_empty() {
            found.required(&format!("spec.scaleTargetRef.{field}"), "");
        }
    }
    if text(target, "apiVersion").is_empty() {
        let detail = "must specify an API version";
        found.invalid("spec.scaleTargetRef.apiVersion", &target["apiVersion"], detail);
    }
    for direction in ["scaleUp", "scaleDown"] {
        for (index, policy) in each(&spec["behavior"][direction], "policies").enumerate() {
            let at = format!("spec.behavior.{direction}.policies[{index}]");
            found.one_of(&format!("{at}.type"), &policy["type"], &["Percent", "Pods"]);
            for field in ["value", "periodSeconds"] {
                if policy[field].as_i64().unwrap_or_default() <= 0 {
                    found.invalid(
                        &format!("{at}.{field}"),
                        &policy[field],
                        "must be greater than zero",
                    );
                }
            }
        }
    }
}
