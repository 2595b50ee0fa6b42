//! Whether nodes can be made from a NodePool, and if not, what must be mended. Pure.

use crate::api::{IBMNodeClass, NodePool, Violation, names};
use crate::model::Requirements;

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
    if let Err(violations) = validity(pool) {
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
    let mut found = pool.validate().err().unwrap_or_default();
    found.extend(pool.validate_runtime().err().unwrap_or_default());
    if let Err(meaningless) = Requirements::from_api(&pool.spec.template.spec.requirements)
        && found.is_empty()
    {
        found.push(Violation {
            field: "spec.template.spec.requirements".to_owned(),
            message: meaningless.to_string(),
        });
    }
    found.extend(negative_limits(pool));
    if found.is_empty() { Ok(()) } else { Err(found) }
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
        ];
        for spec in bad {
            let verdict = judge(&pool(&spec), Some(&class("True")));
            assert!(matches!(verdict, Verdict::Invalid(_)), "{spec}: {verdict:?}");
        }
    }
}
