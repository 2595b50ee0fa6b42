//! LimitRanger: what a namespace's limit ranges add to new pods, and what they refuse.

use serde_json::{Value, json};

use super::{Admission, Operation};
use crate::quantity::Quantity;
use crate::sim::kube::builtin::amounts::{Amounts, of_pod};
use crate::sim::kube::builtin::fields::{each, each_mut, fill, text};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::refusal::Refusal;
use crate::sim::kube::server::{State, about};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Gives the containers of a new pod the requests and limits that they do not name.
pub(super) fn complete(state: &State, admission: &Admission<'_>, pod: &mut Value) {
    if !is_concerned(admission) {
        return;
    }
    for range in ranges(state, object::namespace(pod)) {
        let mut said = Vec::new();
        for (list, noun) in [("containers", "container"), ("initContainers", "init container")] {
            for container in each_mut(&mut pod["spec"], list) {
                said.extend(complete_container(&range, container, noun));
            }
        }
        if !said.is_empty() {
            fill(&mut pod["metadata"], "annotations", json!({}));
            let text = format!("LimitRanger plugin set: {}", said.join("; "));
            pod["metadata"]["annotations"][ANNOTATION] = text.into();
        }
    }
}

/// Completes a container; what was done, in words.
fn complete_container(range: &Value, container: &mut Value, noun: &str) -> Vec<String> {
    let name = text(container, "name").to_owned();
    let mut said = Vec::new();
    for (default, list, word) in [
        ("defaultRequest", "requests", "request"),
        ("default", "limits", "limit"),
    ] {
        let mut set = Vec::new();
        for item in each(&range["spec"], "limits").filter(|item| item["type"] == "Container") {
            for (resource, amount) in item[default].as_object().into_iter().flatten() {
                if container["resources"][list].get(resource).is_none() {
                    fill(container, "resources", json!({}));
                    fill(&mut container["resources"], list, json!({}));
                    container["resources"][list][resource] = amount.clone();
                    set.push(resource.as_str());
                }
            }
        }
        if !set.is_empty() {
            said.push(format!("{} {word} for {noun} {name}", set.join(", ")));
        }
    }
    said
}

/// Refuses what is out of a limit range: a new pod, one that is resized, or a claim.
pub(super) fn check(state: &State, admission: &Admission<'_>, object: &Value) -> Result<(), Refusal> {
    let leaves = admission.old.is_some_and(object::is_deleting);
    if !is_concerned(admission) || leaves {
        return Ok(());
    }
    for range in ranges(state, object::namespace(object)) {
        let mut problems = Vec::new();
        for item in each(&range["spec"], "limits") {
            problems.extend(problems_with(admission, item, object));
        }
        if !problems.is_empty() {
            let why = match problems.as_slice() {
                [problem] => problem.clone(),
                _ => format!("[{}]", problems.join(", ")),
            };
            return Err(Refusal::forbidden(
                about(admission.kind, object::name(object)),
                why,
            ));
        }
    }
    Ok(())
}

/// The containers of a pod change on a path of their own.
fn is_concerned(admission: &Admission<'_>) -> bool {
    match (
        admission.kind.kind.as_str(),
        admission.subresource,
        admission.operation,
    ) {
        ("Pod", None, Operation::Create)
        | ("Pod", Some("resize"), Operation::Update)
        | ("PersistentVolumeClaim", None, Operation::Create | Operation::Update) => {
            admission.kind.group.is_empty()
        }
        _ => false,
    }
}

fn ranges(state: &State, namespace: &str) -> Vec<Value> {
    let table = TableKey::of("", "limitranges");
    let all = state.store.list(&table, Some(namespace));
    all.map(|stored| stored.value()).collect()
}

fn problems_with(admission: &Admission<'_>, item: &Value, object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    let of = |resources: &Value| {
        (
            Amounts::of(&resources["requests"]),
            Amounts::of(&resources["limits"]),
        )
    };
    match (admission.kind.kind.as_str(), text(item, "type")) {
        ("Pod", "Container") => each(spec, "containers")
            .chain(each(spec, "initContainers"))
            .flat_map(|container| {
                let (requests, limits) = of(&container["resources"]);
                bounds(item, &requests, &limits)
            })
            .collect(),
        ("Pod", "Pod") => bounds(item, &of_pod(spec, "requests"), &of_pod(spec, "limits")),
        ("PersistentVolumeClaim", "PersistentVolumeClaim") => claim_bounds(item, &of(&spec["resources"]).0),
        _ => Vec::new(),
    }
}

/// What of a container or pod is out of bounds.
fn bounds(item: &Value, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, least) in Amounts::of(&item["min"]).0 {
        problems.extend(below(item, &name, least, requests, limits));
    }
    for (name, most) in Amounts::of(&item["max"]).0 {
        let words = format!("maximum {name} usage per {} is {most}", text(item, "type"));
        problems.extend(match (limits.0.get(&name), requests.0.get(&name)) {
            (None, _) => Some(format!("{words}.  No limit is specified")),
            (Some(limit), _) if *limit > most => Some(format!("{words}, but limit is {limit}")),
            (_, Some(request)) if *request > most => Some(format!("{words}, but request is {request}")),
            _ => None,
        });
    }
    for (name, most) in Amounts::of(&item["maxLimitRequestRatio"]).0 {
        let words = format!(
            "{name} max limit to request ratio per {} is {most}",
            text(item, "type")
        );
        let of = |amounts: &Amounts| amounts.0.get(&name).map_or(0, |amount| amount.millis_ceil());
        problems.extend(match (of(requests), of(limits)) {
            (0, _) => Some(format!("{words}, but no request is specified or request is 0")),
            (_, 0) => Some(format!("{words}, but no limit is specified or limit is 0")),
            (request, limit) if is_beyond(limit, request, most) => {
                #[expect(clippy::cast_precision_loss, reason = "for people")]
                let ratio = limit as f64 / request as f64;
                Some(format!("{words}, but provided ratio is {ratio:.6}"))
            }
            _ => None,
        });
    }
    problems
}

/// Whether a limit is more than so many times its request.
fn is_beyond(limit: i64, request: i64, most: Quantity) -> bool {
    i128::from(limit) * 1000 > i128::from(most.millis_ceil()) * i128::from(request)
}

fn below(item: &Value, name: &str, least: Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let words = format!("minimum {name} usage per {} is {least}", text(item, "type"));
    match (requests.0.get(name), limits.0.get(name)) {
        (None, _) => Some(format!("{words}.  No request is specified")),
        (Some(request), _) if *request < least => Some(format!("{words}, but request is {request}")),
        (_, Some(limit)) if *limit < least => Some(format!("{words}, but limit is {limit}")),
        _ => None,
    }
}

/// A claim has requests only.
fn claim_bounds(item: &Value, requests: &Amounts) -> Vec<String> {
    let least = Amounts::of(&item["min"]).0.into_iter();
    let too_small =
        least.filter_map(|(name, least)| below(item, &name, least, requests, &Amounts::default()));
    let most = Amounts::of(&item["max"]).0.into_iter();
    let too_large = most.filter_map(|(name, most)| {
        let words = format!("maximum {name} usage per {} is {most}", text(item, "type"));
        match requests.0.get(&name) {
            None => Some(format!("{words}.  No request is specified")),
            Some(request) if *request > most => Some(format!("{words}, but request is {request}")),
            Some(_) => None,
        }
    });
    too_small.chain(too_large).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_is_told_with_what_breaks_it() {
        let item = json!({"type": "Container", "min": {"cpu": "200m"}, "max": {"cpu": "1"},
                          "maxLimitRequestRatio": {"cpu": "2"}});
        let told = |request: Option<&str>, limit: Option<&str>| {
            let list = |amount: Option<&str>| {
                Amounts::of(&amount.map_or(json!({}), |amount| json!({"cpu": amount})))
            };
            bounds(&item, &list(request), &list(limit))
        };
        assert!(told(Some("500m"), Some("1")).is_empty());
        assert_eq!(
            told(Some("100m"), Some("1")),
            [
                "minimum cpu usage per Container is 200m, but request is 100m",
                "cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000"
            ]
        );
        assert_eq!(
            told(Some("1"), Some("1500m")),
            ["maximum cpu usage per Container is 1, but limit is 1500m"]
        );
        assert_eq!(told(None, None).len(), 3);
    }
}
