use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn pool(spec: &Value) -> NodePool {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": spec,
    }))
    .unwrap()
}

/// A pool with the given template spec beside what is required.
fn with_template(template: &Value) -> NodePool {
    let mut spec = json!({"requirements": [], "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"}});
    spec.as_object_mut()
        .unwrap()
        .extend(template.as_object().unwrap().clone());
    pool(&json!({"template": {"spec": spec}}))
}

fn with_disruption(template: &Value, disruption: &Value) -> NodePool {
    let mut pool = with_template(template);
    pool.spec.disruption = serde_json::from_value(disruption.clone()).unwrap();
    pool
}

fn runtime_fields(pool: &NodePool) -> Vec<String> {
    pool.validate_runtime()
        .err()
        .unwrap_or_default()
        .into_iter()
        .map(|violation| violation.field)
        .collect()
}

#[test]
fn the_expiry_comes_from_the_template_unless_that_is_the_default() {
    for (template, older, expected) in [
        (json!({}), json!({}), "720h"),
        (json!({"expireAfter": "12h"}), json!({}), "12h"),
        (json!({}), json!({"expireAfter": "12h"}), "12h"),
        (
            json!({"expireAfter": "720h"}),
            json!({"expireAfter": "Never"}),
            "Never",
        ),
        (
            json!({"expireAfter": "12h"}),
            json!({"expireAfter": "12h"}),
            "12h",
        ),
    ] {
        assert_eq!(
            with_disruption(&template, &older).spec.expire_after(),
            expected,
            "{template} {older}"
        );
    }
}

#[test]
fn when_underutilized_reads_as_its_name_of_today() {
    let policy = |name: &str| {
        with_disruption(&json!({}), &json!({"consolidationPolicy": name}))
            .spec
            .consolidation_policy()
    };
    assert_eq!(
        policy("WhenUnderutilized"),
        Some(ConsolidationPolicy::WhenEmptyOrUnderutilized)
    );
    assert_eq!(
        policy("WhenEmptyOrUnderutilized"),
        Some(ConsolidationPolicy::WhenEmptyOrUnderutilized)
    );
    assert_eq!(policy("WhenEmpty"), Some(ConsolidationPolicy::WhenEmpty));
    assert_eq!(policy("Balanced"), Some(ConsolidationPolicy::Balanced));
    assert_eq!(policy("Whenever"), None);
    assert_eq!(
        with_template(&json!({})).spec.consolidation_policy(),
        Some(ConsolidationPolicy::WhenEmptyOrUnderutilized)
    );
}

#[test]
fn normalizing_settles_every_older_spelling_and_default() {
    let disruption =
        json!({"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "10s", "expireAfter": "12h"});
    let normalized = with_disruption(&json!({}), &disruption).spec.normalized();
    assert_eq!(
        serde_json::to_value(&normalized.disruption).unwrap(),
        json!({
            "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10s", "budgets": [{"nodes": "10%"}],
        })
    );
    assert_eq!(normalized.template.spec.expire_after.as_deref(), Some("12h"));
    assert_eq!(normalized.normalized(), normalized);
}

#[test]
fn what_is_not_said_is_the_default() {
    let spec = with_template(&json!({})).spec;
    assert_eq!(
        spec.consolidate_after(),
        Some(Expiry::After(std::time::Duration::ZERO))
    );
    assert_eq!(spec.budgets()[0].nodes.as_deref(), Some("10%"));
    assert_eq!(spec.termination_grace_period(), None);
    assert_eq!(
        spec.expiry(),
        Some(Expiry::After(std::time::Duration::from_hours(720)))
    );
}

#[test]
fn the_hash_never_changes_by_accident() {
    // If one of these changes, every node of every user is replaced: raise NODE_POOL_HASH_VERSION instead.
    assert_eq!(NODE_POOL_HASH_VERSION, "v1");
    assert_eq!(with_template(&json!({})).hash(), "15030240715177883952");
    assert_eq!(full().hash(), "4381758956547193269");
}

fn full() -> NodePool {
    let mut pool = with_template(&json!({
        "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}, {"key": "c", "effect": "NoExecute"}],
        "startupTaints": [{"key": "d", "effect": "NoSchedule"}],
        "expireAfter": "12h",
        "terminationGracePeriod": "1h",
    }));
    pool.spec.template.metadata = serde_json::from_value(json!({
        "labels": {"team": "a", "tier": "b"}, "annotations": {"note": "c"},
    }))
    .unwrap();
    pool
}

#[test]
fn each_part_of_the_template_but_requirements_is_in_the_hash() {
    let hash = full().hash();
    let changed = |pointer: &str, value: Value| {
        let mut pool = serde_json::to_value(full()).unwrap();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        pool.pointer_mut(parent).unwrap()[name] = value;
        serde_json::from_value::<NodePool>(pool).unwrap().hash()
    };
    for (pointer, value) in [
        ("/spec/template/metadata/labels/team", json!("b")),
        ("/spec/template/metadata/annotations", json!(null)),
        ("/spec/template/spec/taints/0/value", json!("c")),
        ("/spec/template/spec/startupTaints", json!(null)),
        ("/spec/template/spec/nodeClassRef/group", json!("x")),
        ("/spec/template/spec/nodeClassRef/kind", json!("x")),
        ("/spec/template/spec/nodeClassRef/name", json!("x")),
        ("/spec/template/spec/expireAfter", json!("13h")),
        ("/spec/template/spec/terminationGracePeriod", json!("2h")),
    ] {
        assert_ne!(changed(pointer, value), hash, "{pointer}");
    }
    for (pointer, value) in [
        (
            "/spec/template/spec/requirements",
            json!([{"key": "a", "operator": "Exists"}]),
        ),
        ("/spec/weight", json!(5)),
        ("/spec/limits", json!({"cpu": "5"})),
        ("/spec/disruption", json!({"consolidateAfter": "5s"})),
    ] {
        assert_eq!(changed(pointer, value), hash, "{pointer}");
    }
}

#[test]
fn the_hash_does_not_depend_on_how_the_same_is_said() {
    let said = |template: Value| with_template(&template).hash();
    assert_eq!(said(json!({})), said(json!({"expireAfter": "720h"})));
    assert_eq!(
        said(json!({"expireAfter": "12h"})),
        said(json!({"expireAfter": "720m"}))
    );
    assert_eq!(said(json!({})), said(json!({"taints": [], "startupTaints": []})));
    let older = with_disruption(
        &json!({}),
        &json!({"consolidateAfter": "0s", "expireAfter": "12h"}),
    );
    assert_eq!(older.hash(), said(json!({"expireAfter": "12h"})));
    let mut normalized = older.clone();
    normalized.spec = older.spec.normalized();
    assert_eq!(normalized.hash(), older.hash());
}

#[test]
fn runtime_validation_finds_what_the_crd_lets_pass() {
    for (template, expected) in [
        (
            json!({"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["Spot"]}]}),
            "spec.template.spec.requirements[0].values",
        ),
        (
            json!({"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "x"], "minValues": 2}]}),
            "spec.template.spec.requirements[0].values",
        ),
        (
            json!({"requirements": [{"key": "team", "operator": "In", "values": ["a b"]}]}),
            "spec.template.spec.requirements[0].values[0]",
        ),
        (
            json!({"requirements": [{"key": "a".repeat(64), "operator": "Exists"}]}),
            "spec.template.spec.requirements[0].key",
        ),
        (
            json!({"taints": [{"key": "a", "effect": "NoSchedule"}], "startupTaints": [{"key": "a", "effect": "NoSchedule"}]}),
            "spec.template.spec.startupTaints[0]",
        ),
        (
            json!({"taints": [{"key": "a".repeat(64), "effect": "NoSchedule"}]}),
            "spec.template.spec.taints[0].key",
        ),
        (
            json!({"taints": [{"key": "a", "value": "b".repeat(64), "effect": "NoSchedule"}]}),
            "spec.template.spec.taints[0].value",
        ),
        (json!({"expireAfter": "2562048h"}), "spec"),
        (json!({"expireAfter": "0s"}), "spec"),
        (json!({"expireAfter": "4m59s"}), "spec"),
        (
            json!({"terminationGracePeriod": "2562048h"}),
            "spec.template.spec.terminationGracePeriod",
        ),
    ] {
        let pool = with_template(&template);
        assert_eq!(pool.validate(), Ok(()), "{template}");
        assert_eq!(runtime_fields(&pool), [expected], "{template}");
    }
}

#[test]
fn nodes_may_live_for_five_minutes_or_more_or_for_ever_and_not_for_less_than_joining_takes() {
    for sound in ["5m", "300s", "12h", "Never"] {
        let pool = with_template(&json!({"expireAfter": sound}));
        assert_eq!(pool.validate_runtime(), Ok(()), "{sound}");
    }
    let older = with_disruption(
        &json!({}),
        &json!({"consolidateAfter": "0s", "expireAfter": "1m"}),
    );
    let found = older.validate_runtime().unwrap_err();
    assert_eq!(older.validate(), Ok(()), "the CRD is upstream's");
    assert!(found[0].message.contains("less than 5m"), "{found:?}");
    assert!(found[0].message.contains("takes minutes to join"), "{found:?}");
}

#[test]
fn a_budget_whose_schedule_no_cron_reads_is_blamed_by_its_place() {
    let budget = |schedule: &str| json!({"nodes": "1", "schedule": schedule, "duration": "1h"});
    let budgets = json!([budget("@daily"), budget("99 99 * * *"), budget("0 9 * * mon-fri")]);
    let pool = with_disruption(&json!({}), &json!({"consolidateAfter": "0s", "budgets": budgets}));
    assert_eq!(pool.validate(), Ok(()));
    assert_eq!(runtime_fields(&pool), ["spec.disruption.budgets[1].schedule"]);
    assert_eq!(pool.validate_supply(), Ok(()), "nodes can be made all the same");
}

#[test]
fn runtime_validation_judges_labels_and_limits() {
    let mut pool = with_template(&json!({}));
    pool.spec.template.metadata =
        serde_json::from_value(json!({"labels": {"not a key!": "a", "team": "a"}})).unwrap();
    pool.spec.limits = serde_json::from_value(json!({"cpu": "1e1.5", "memory": "1Gi"})).unwrap();
    pool.spec.disruption = serde_json::from_value(json!({"consolidateAfter": "2562048h"})).unwrap();
    assert_eq!(pool.validate(), Ok(()));
    assert_eq!(
        runtime_fields(&pool),
        [
            "spec.template.metadata.labels.not a key!",
            "spec.limits.cpu",
            "spec.disruption.consolidateAfter"
        ]
    );
}

#[test]
fn runtime_validation_accepts_what_works() {
    let requirements = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "nonsense"], "minValues": 1},
        {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter-ibm.sh/cpu", "operator": "Gt", "values": ["4"]},
    ]);
    let taints = json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]);
    let pool = with_template(&json!({"requirements": requirements, "taints": taints}));
    assert_eq!(pool.validate_runtime(), Ok(()));
}

#[test]
fn a_pool_is_stored_as_it_was_written() {
    let written = json!({
        "template": {"spec": {"requirements": [{"key": "a", "operator": "In", "values": ["b"], "minValues": 1}],
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "taints": []}},
        "limits": {"cpu": 4, "memory": "4Gi"},
    });
    assert_eq!(serde_json::to_value(&pool(&written).spec).unwrap(), written);
}

proptest! {
    #[test]
    fn the_hash_does_not_depend_on_the_order_of_taints(order in Just(["a", "b", "c", "d"]).prop_shuffle()) {
        let taints = |keys: &[&str]| keys.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect::<Vec<_>>();
        let shuffled = with_template(&json!({"taints": taints(&order)}));
        prop_assert_eq!(shuffled.hash(), with_template(&json!({"taints": taints(&["a", "b", "c", "d"])})).hash());
    }
}
