//! Nobody gives what they do not have: writes of roles and bindings are held against the writer's own rules.
//!
//! The verbs `escalate` and `bind` lift this, and so does membership of `system:masters`.

use serde_json::Value;

use super::aggregation::gathers;
use super::attempt::{Attempt, Resource};
use super::policy::{self, GROUP};
use super::rbac::{self, Rule};
use super::{MASTERS, User, decide};
use crate::sim::kube::admission::{Admission, Operation};
use crate::sim::kube::object;
use crate::sim::kube::refusal::Refusal;
use crate::sim::kube::server::{State, about};

/// Refuses a role or binding that would give more than its writer has.
pub fn check(state: &State, admission: &Admission<'_>, object: &Value) -> Result<(), Refusal> {
    let (kind, user) = (admission.kind, admission.user);
    if kind.group != GROUP || admission.operation == Operation::Delete || user.is_in(MASTERS) {
        return Ok(());
    }
    if admission
        .old
        .is_some_and(|old| differs_only_in_lifecycle(old, object))
    {
        return Ok(());
    }
    let namespace = object::namespace(object);
    let name = object::name(object);
    let refuse = |why: String| Err(Refusal::forbidden(about(kind, name), why));
    match kind.plural.as_str() {
        "roles" | "clusterroles" => {
            if may_escalate(state, admission, namespace, name) {
                return Ok(());
            }
            if let Some(why) = beyond(state, user, namespace, &rbac::rules(object)) {
                return refuse(why);
            }
            let collects = gathers(object) || admission.old.is_some_and(gathers);
            if collects && beyond(state, user, namespace, &everything()).is_some() {
                return refuse("must have cluster-admin privileges to use the aggregationRule".to_owned());
            }
            Ok(())
        }
        "rolebindings" | "clusterrolebindings" => {
            let role = &object["roleRef"];
            if may_bind(state, user, role, namespace) {
                return Ok(());
            }
            // The real server too names the kind of the binding, with the name of the role.
            let named = about(kind, role["name"].as_str().unwrap_or_default());
            let rules = policy::role_rules(state, role, namespace).map_err(|_| Refusal::not_found(named))?;
            beyond(state, user, namespace, &rules).map_or(Ok(()), refuse)
        }
        _ => Ok(()),
    }
}

/// What somebody would give that they do not have, as a refusal says it.
fn beyond(state: &State, user: &User, namespace: &str, wanted: &[Rule]) -> Option<String> {
    let held = policy::current(state).rules(user, namespace);
    let missing = rbac::beyond(&held, wanted);
    (!missing.is_empty()).then(|| {
        let groups = format!("{:?}", user.groups).replace("\", \"", "\" \"");
        format!(
            "user \"{}\" (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            missing.join("\n")
        )
    })
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    let resources = Rule {
        api_groups: all(),
        resources: all(),
        verbs: all(),
        ..Rule::default()
    };
    let paths = Rule {
        non_resource_urls: all(),
        verbs: all(),
        ..Rule::default()
    };
    [resources, paths]
}

fn may_escalate(state: &State, admission: &Admission<'_>, namespace: &str, name: &str) -> bool {
    let resource = Resource {
        group: GROUP,
        plural: &admission.kind.plural,
        namespace,
        // The name of a new object is not in the path, so a rule for one name does not help to create it.
        name: if admission.operation == Operation::Create {
            ""
        } else {
            name
        },
        ..Resource::default()
    };
    decide(state, admission.user, &Attempt::on_resource("escalate", resource)).is_allowed()
}

fn may_bind(state: &State, user: &User, role: &Value, namespace: &str) -> bool {
    let plural = match role["kind"].as_str() {
        Some("ClusterRole") => "clusterroles",
        Some("Role") => "roles",
        _ => return false,
    };
    let resource = Resource {
        group: role["apiGroup"].as_str().unwrap_or(GROUP),
        plural,
        namespace,
        name: role["name"].as_str().unwrap_or_default(),
        ..Resource::default()
    };
    decide(state, user, &Attempt::on_resource("bind", resource)).is_allowed()
}

/// Whether nothing changes but owners and finalizers, as the garbage collector does it on behalf of others.
fn differs_only_in_lifecycle(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        let metadata = object::metadata_mut(&mut object);
        for field in [
            "ownerReferences",
            "finalizers",
            "managedFields",
            "resourceVersion",
        ] {
            metadata.remove(field);
        }
        object
    };
    rest(old) == rest(new)
}
