//! Whether nodes can be made from a NodePool, and if not, what must be mended. Pure.

use std::collections::BTreeMap;

use crate::api::names::current_label;
use crate::api::{IBMNodeClass, NodePool, Requirement, Violation, names};
use crate::model::{Requirements, Values};

/// Where a pool says which labels its nodes may have.
const REQUIREMENTS: &str = "spec.template.spec.requirements";

/// Whether a pool can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can.
    Ready,
    /// It names a class that is not ours: somebody else looks after it.
    Foreign,
    /// It says what it must not say.
    Invalid(Vec<Violation>),
    /// Its class cannot be used.
    Class(ClassProblem),
}

/// Why a class cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassProblem {
    /// There is none of that name.
    Missing,
    /// It is being deleted.
    Leaving,
    /// It says so itself, in these words.
    NotReady(String),
    /// It was not resolved yet as it is written now.
    Unknown,
}

impl ClassProblem {
    /// What is wrong with the class of this name.
    pub fn words(&self, class: &str) -> String {
        match self {
            Self::Missing => format!("there is no IBMNodeClass {class}"),
            Self::Leaving => format!("IBMNodeClass {class} is being deleted"),
            Self::NotReady(why) => format!("IBMNodeClass {class} is not ready: {why}"),
            Self::Unknown => format!("IBMNodeClass {class} was not looked up yet as it is written now"),
        }
    }
}

/// Why a pool that would make nodes for pods makes none; nothing of pools that others look after.
pub fn closed(pool: &NodePool, verdict: &Verdict) -> Option<String> {
    if *verdict != Verdict::Foreign && pool.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".to_owned());
    }
    match verdict {
        Verdict::Ready | Verdict::Foreign => None,
        Verdict::Invalid(found) => {
            let words: Vec<String> = found.iter().map(ToString::to_string).collect();
            Some(format!("it is not valid: {}", words.join("; ")))
        }
        Verdict::Class(problem) => Some(problem.words(&pool.spec.template.spec.node_class_ref.name)),
    }
}

/// Whether a pool can be used, given its class.
pub fn judge(pool: &NodePool, class: Option<&IBMNodeClass>) -> Verdict {
    if !is_ours(pool) {
        return Verdict::Foreign;
    }
    if let Err(violations) = usability(pool) {
        return Verdict::Invalid(violations);
    }
    match class_problem(class) {
        Some(problem) => Verdict::Class(problem),
        None => Verdict::Ready,
    }
}

/// Whether a pool names one of our classes.
pub fn is_ours(pool: &NodePool) -> bool {
    let reference = &pool.spec.template.spec.node_class_ref;
    reference.group == names::IBM_GROUP && reference.kind == "IBMNodeClass"
}

/// What is wrong with how a pool is written: what an API server with our definitions refuses, and what it cannot see.
/// Both are asked, since the object may have been stored under other definitions.
pub fn validity(pool: &NodePool) -> Result<(), Vec<Violation>> {
    judged(pool, pool.validate_runtime())
}

/// What of it keeps nodes from being made. The schedule of a budget that cannot be read does not: it says when nodes may
/// be given back.
pub fn usability(pool: &NodePool) -> Result<(), Vec<Violation>> {
    judged(pool, pool.validate_supply())
}

/// What is wrong with a pool although nodes can be made from it.
pub fn doubts(pool: &NodePool) -> Vec<Violation> {
    let closing = usability(pool).err().unwrap_or_default();
    let mut all = validity(pool).err().unwrap_or_default();
    all.retain(|violation| !closing.contains(violation));
    all
}

fn judged(pool: &NodePool, beyond_crd: Result<(), Vec<Violation>>) -> Result<(), Vec<Violation>> {
    let mut found = pool.validate().err().unwrap_or_default();
    found.extend(beyond_crd.err().unwrap_or_default());
    let requirements = &pool.spec.template.spec.requirements;
    match Requirements::from_api(requirements) {
        Ok(all) if all.iter().any(|(_, values)| values.is_never()) => {
            found.extend(contradictions(requirements));
        }
        Err(meaningless) if found.is_empty() => found.push(Violation {
            field: REQUIREMENTS.to_owned(),
            message: meaningless.to_string(),
        }),
        Ok(_) | Err(_) => {}
    }
    found.extend(negative_limits(pool));
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Requirements that leave a label no state together with those before them: no node is possible. Each label is told
/// once.
fn contradictions(requirements: &[Requirement]) -> Vec<Violation> {
    let mut before: BTreeMap<&str, Values> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, requirement) in requirements.iter().enumerate() {
        let meaning = requirement.operator();
        let Some(wanted) = meaning.and_then(|operator| Values::of(operator, requirement.values())) else {
            continue;
        };
        let key = current_label(&requirement.key);
        let left = before.entry(key).or_insert_with(Values::anything);
        let both = left.and(&wanted);
        if both.is_never() && !left.is_never() && !wanted.is_never() {
            found.push(Violation {
                field: format!("{REQUIREMENTS}[{index}]"),
                message: format!("label {key} must be {wanted}, and before that {left}: no node can be both"),
            });
        }
        *left = both;
    }
    found
}

/// A limit below nothing closes the pool, and nobody can have meant that.
fn negative_limits(pool: &NodePool) -> impl Iterator<Item = Violation> {
    let limits = pool.spec.limits.iter().flatten();
    let negative = limits.filter(|(_, amount)| amount.parse().is_ok_and(|amount| amount.nanos() < 0));
    negative.map(|(resource, _)| Violation {
        field: format!("spec.limits[{resource}]"),
        message: "is less than 0".to_owned(),
    })
}

/// What is wrong with a class, if anything.
pub fn class_problem(class: Option<&IBMNodeClass>) -> Option<ClassProblem> {
    let Some(class) = class else {
        return Some(ClassProblem::Missing);
    };
    if class.metadata.deletion_timestamp.is_some() {
        return Some(ClassProblem::Leaving);
    }
    let Some(ready) = class.readiness() else {
        return Some(ClassProblem::Unknown);
    };
    if class.resolution().is_some() {
        return None;
    }
    Some(ClassProblem::NotReady(ready.message.clone().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(spec: &Value) -> NodePool {
        let mut all = json!({"metadata": {"name": "p"}, "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
        }}}});
        json_patch::merge(&mut all["spec"], spec);
        serde_json::from_value(all).unwrap()
    }

    fn class(status: &str) -> IBMNodeClass {
        serde_json::from_value(json!({
            "metadata": {"name": "default", "generation": 1},
            "spec": {"region": "us-south", "vpc": "v", "image": "i"},
            "status": {"conditions": [{
                "type": "Ready", "status": status, "reason": "R", "message": "no such vpc", "observedGeneration": 1,
                "lastTransitionTime": "2026-11-16T10:00:00Z",
            }]},
        }))
        .unwrap()
    }

    #[test]
    fn a_pool_is_ready_with_its_class() {
        assert_eq!(judge(&pool(&json!({})), Some(&class("True"))), Verdict::Ready);
    }

    #[test]
    fn what_is_wrong_with_the_class_is_told() {
        let problem = |class: Option<&IBMNodeClass>| match judge(&pool(&json!({})), class) {
            Verdict::Class(problem) => problem,
            other => panic!("{other:?}"),
        };
        assert_eq!(problem(None), ClassProblem::Missing);
        assert_eq!(
            problem(Some(&class("False"))),
            ClassProblem::NotReady("no such vpc".to_owned())
        );
        let mut newer = class("True");
        newer.metadata.generation = Some(2);
        assert_eq!(problem(Some(&newer)), ClassProblem::Unknown);
    }

    #[test]
    fn a_pool_of_somebody_else_is_left_alone() {
        let foreign = pool(&json!({"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws"}}}}));
        assert_eq!(judge(&foreign, None), Verdict::Foreign);
        let mut leaving = foreign;
        leaving.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-11-16T10:00:00Z")).unwrap());
        assert_eq!(
            closed(&leaving, &Verdict::Foreign),
            None,
            "no reason that concerns our pods"
        );
        let ours = closed(&leaving, &Verdict::Ready);
        assert_eq!(ours.as_deref(), Some("it is being deleted"));
    }

    #[test]
    fn labels_at_their_longest_and_keys_that_come_twice_are_sound() {
        let key = format!("{}/{}", "d".repeat(253), "n".repeat(63));
        let sound = [
            json!({"template": {"metadata": {"labels": {"team": "x".repeat(63), "empty": ""}}}}),
            json!({"template": {"metadata": {"labels": {key: "x"}}}}),
            json!({"template": {"spec": {"requirements": [
                {"key": "size", "operator": "Gt", "values": ["1"]}, {"key": "size", "operator": "Lt", "values": ["9"]},
            ]}}}),
            json!({"template": {"spec": {"requirements": [
                {"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "a", "operator": "In", "values": ["y"]},
                {"key": "a", "operator": "NotIn", "values": ["x"]}, {"key": "a", "operator": "Exists"},
            ]}}}),
            json!({"template": {"spec": {"requirements": [
                {"key": "a", "operator": "DoesNotExist"}, {"key": "a", "operator": "NotIn", "values": ["x"]},
            ]}}}),
        ];
        for spec in sound {
            assert_eq!(
                judge(&pool(&spec), Some(&class("True"))),
                Verdict::Ready,
                "{spec}"
            );
        }
    }

    #[test]
    fn requirements_on_one_label_that_no_node_can_meet_are_told_with_both_and_once() {
        let of = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        for (requirements, field, words) in [
            (
                json!([
                    of("a", "In", &["x"]),
                    of("b", "Exists", &[]),
                    of("a", "In", &["y"])
                ]),
                "spec.template.spec.requirements[2]",
                "label a must be in [y], and before that in [x]: no node can be both",
            ),
            (
                json!([
                    of("size", "Gt", &["9"]),
                    of("size", "Lt", &["2"]),
                    of("size", "In", &["3"])
                ]),
                "spec.template.spec.requirements[1]",
                "label size must be at most 1, and before that at least 10: no node can be both",
            ),
            (
                json!([of("a", "Exists", &[]), of("a", "DoesNotExist", &[])]),
                "spec.template.spec.requirements[1]",
                "label a must be absent, and before that present: no node can be both",
            ),
            (
                json!([
                    of("beta.kubernetes.io/arch", "In", &["amd64"]),
                    of("kubernetes.io/arch", "In", &["s390x"])
                ]),
                "spec.template.spec.requirements[1]",
                "label kubernetes.io/arch must be in [s390x], and before that in [amd64]: no node can be both",
            ),
            (
                json!([
                    of("a", "In", &["x", "y"]),
                    of("a", "NotIn", &["x"]),
                    of("a", "NotIn", &["y"])
                ]),
                "spec.template.spec.requirements[2]",
                "label a must be not in [y], and before that in [y]: no node can be both",
            ),
        ] {
            let pool = pool(&json!({"template": {"spec": {"requirements": requirements}}}));
            let violation = Violation {
                field: field.to_owned(),
                message: words.to_owned(),
            };
            assert_eq!(validity(&pool), Err(vec![violation]), "{requirements}");
        }
    }

    #[test]
    fn what_an_api_server_should_have_refused_is_refused_here_too() {
        let bad = [
            json!({"template": {"spec": {"requirements": [{"key": "karpenter.sh/x", "operator": "In", "values": ["a"]}]}}}),
            json!({"template": {"spec": {"requirements": [{"key": "a", "operator": "In", "values": []}]}}}),
            json!({"template": {"spec": {"requirements": [{"key": "a", "operator": "In", "values": ["x"], "minValues": 2}]}}}),
            json!({"template": {"spec": {"requirements": [{"key": "a", "operator": "Like", "values": ["x"]}]}}}),
            json!({"template": {"spec": {"requirements": [
                {"key": "a", "operator": "In", "values": (0..10_000).map(|at| at.to_string()).collect::<Vec<_>>()}]}}}),
            json!({"template": {"metadata": {"labels": {"team": "k\u{f6}ln"}}}}),
            json!({"template": {"metadata": {"labels": {"team": "x".repeat(64)}}}}),
            json!({"template": {"metadata": {"labels": {"": "x"}}}}),
            json!({"limits": {"cpu": "-1"}}),
            json!({"limits": {"cpu": "many"}}),
            json!({"disruption": {"budgets": [{"nodes": "101%"}]}}),
            json!({"template": {"spec": {"expireAfter": "0s"}}}),
        ];
        for spec in bad {
            let verdict = judge(&pool(&spec), Some(&class("True")));
            assert!(matches!(verdict, Verdict::Invalid(_)), "{spec}: {verdict:?}");
            assert_eq!(doubts(&pool(&spec)), [], "{spec}");
        }
    }

    #[test]
    fn a_budget_that_begins_nobody_knows_when_is_told_and_keeps_no_node_from_being_made() {
        let budgets = json!([{"nodes": "1", "schedule": "99 99 * * *", "duration": "1h"}]);
        let mut unread = pool(&json!({"disruption": {"consolidateAfter": "0s", "budgets": budgets}}));
        assert_eq!(judge(&unread, Some(&class("True"))), Verdict::Ready);
        let found = validity(&unread).unwrap_err();
        assert_eq!(found[0].field, "spec.disruption.budgets[0].schedule");
        assert_eq!(doubts(&unread), found);
        unread.spec.limits = serde_json::from_value(json!({"cpu": "-1"})).unwrap();
        let Verdict::Invalid(closing) = judge(&unread, Some(&class("True"))) else {
            panic!("a limit below nothing closes it");
        };
        assert_eq!(closing[0].field, "spec.limits[cpu]");
        assert_eq!((closing.len(), doubts(&unread)), (1, found));
    }
}
