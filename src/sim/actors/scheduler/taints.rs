//! Taints and what tolerates them.

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

/// Pods that do not tolerate it are not placed.
pub(in crate::sim::actors) const NO_SCHEDULE: &str = "NoSchedule";
/// Pods that do not tolerate it are not placed, and removed.
pub(in crate::sim::actors) const NO_EXECUTE: &str = "NoExecute";
/// Pods that do not tolerate it rather go elsewhere.
const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// The taint that `spec.unschedulable` stands for.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The taint by which people say that a node is down for good.
pub(in crate::sim::actors) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The taints of a node.
pub(in crate::sim::actors) fn of(node: &Node) -> &[Taint] {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// The tolerations of a pod.
pub(in crate::sim::actors) fn tolerations(pod: &Pod) -> &[Toleration] {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.tolerations.as_deref())
        .unwrap_or_default()
}

/// Whether a toleration covers a taint. An empty key with `Exists` covers every key, an empty effect every effect.
pub(in crate::sim::actors) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.as_deref().unwrap_or_default().to_owned();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        // An empty key is valid with `Exists` only.
        "" | "Equal" => !key.is_empty() && text(&toleration.value) == text(&taint.value),
        // `Lt` and `Gt` are behind a gate that is off by default.
        _ => false,
    }
}

/// Whether a pod may be placed on a node with its taints.
pub(in crate::sim::actors) fn allow(pod: &Pod, node: &Node) -> bool {
    let hard = of(node)
        .iter()
        .filter(|taint| [NO_SCHEDULE, NO_EXECUTE].contains(&taint.effect.as_str()));
    hard.into_iter().all(|taint| is_tolerated(pod, taint))
}

/// Whether a node is cordoned, and the pod does not tolerate that.
pub(super) fn is_cordoned_for(pod: &Pod, node: &Node) -> bool {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let taint = Taint {
        key: UNSCHEDULABLE.to_owned(),
        effect: NO_SCHEDULE.to_owned(),
        ..Taint::default()
    };
    cordoned && !is_tolerated(pod, &taint)
}

fn is_tolerated(pod: &Pod, taint: &Taint) -> bool {
    tolerations(pod)
        .iter()
        .any(|toleration| tolerates(toleration, taint))
}

/// How many taints of a node would rather keep the pod away.
pub(super) fn disliked(pod: &Pod, node: &Node) -> i64 {
    let soft = |taint: &&Taint| taint.effect == PREFER_NO_SCHEDULE && !is_tolerated(pod, taint);
    i64::try_from(of(node).iter().filter(soft).count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(tolerations: &Value) -> Pod {
        serde_json::from_value(json!({"spec": {"containers": [], "tolerations": tolerations}})).unwrap()
    }

    fn node(taints: &Value) -> Node {
        serde_json::from_value(json!({"spec": {"taints": taints}})).unwrap()
    }

    #[test]
    fn a_taint_keeps_away_whoever_does_not_tolerate_it() {
        let taint = |effect: &str| json!([{"key": "a", "value": "1", "effect": effect}]);
        let table = [
            (json!([]), taint("NoSchedule"), false),
            (json!([]), taint("NoExecute"), false),
            (json!([]), taint("PreferNoSchedule"), true),
            (json!([{"operator": "Exists"}]), taint("NoSchedule"), true),
            (
                json!([{"key": "a", "operator": "Exists"}]),
                taint("NoExecute"),
                true,
            ),
            (json!([{"key": "a", "value": "1"}]), taint("NoSchedule"), true),
            (
                json!([{"key": "a", "value": "2", "operator": "Equal"}]),
                taint("NoSchedule"),
                false,
            ),
            (
                json!([{"key": "b", "operator": "Exists"}]),
                taint("NoSchedule"),
                false,
            ),
            (
                json!([{"key": "a", "operator": "Exists", "effect": "NoExecute"}]),
                taint("NoSchedule"),
                false,
            ),
            (
                json!([{"key": "a", "operator": "Gt", "value": "0"}]),
                taint("NoSchedule"),
                false,
            ),
            (
                json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]),
                taint("NoExecute"),
                true,
            ),
        ];
        for (tolerations, taints, allowed) in table {
            let verdict = allow(&pod(&tolerations), &node(&taints));
            assert_eq!(verdict, allowed, "{tolerations} on {taints}");
        }
    }

    #[test]
    fn a_cordon_is_tolerated_like_the_taint_it_stands_for() {
        let cordoned: Node = serde_json::from_value(json!({"spec": {"unschedulable": true}})).unwrap();
        let daemon = pod(&json!([{"key": UNSCHEDULABLE, "operator": "Exists", "effect": NO_SCHEDULE}]));
        assert!(is_cordoned_for(&pod(&json!([])), &cordoned));
        assert!(!is_cordoned_for(&daemon, &cordoned));
        assert!(!is_cordoned_for(&pod(&json!([])), &node(&json!([]))));
    }

    #[test]
    fn only_soft_taints_without_toleration_are_counted_as_disliked() {
        let taints = json!([
            {"key": "a", "effect": PREFER_NO_SCHEDULE},
            {"key": "b", "effect": PREFER_NO_SCHEDULE},
            {"key": "c", "effect": NO_SCHEDULE},
        ]);
        let some = pod(&json!([{"key": "b", "operator": "Exists"}]));
        assert_eq!(disliked(&some, &node(&taints)), 1);
    }
}
