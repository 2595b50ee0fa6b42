//! NamespaceLifecycle: nothing new in a namespace that is not there or is going, and some namespaces never go. Nothing
//! new either of a kind whose definition is going.

use super::{Admission, Operation};
use crate::sim::kube::kind::{Scope, TableKey};
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::schema::{Cause, Reason};
use crate::sim::kube::server::{State, about};
use crate::sim::kube::store::ObjectKey;

/// Namespaces that nobody may delete.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Refuses a write into a namespace that cannot take it.
pub(super) fn check(
    state: &State,
    admission: &Admission<'_>,
    namespace: &str,
    name: &str,
) -> Result<(), Refusal> {
    let kind = admission.kind;
    if admission.operation == Operation::Delete {
        let immortal = kind.custom().is_none() && kind.kind == "Namespace" && IMMORTAL.contains(&name);
        return if immortal {
            Err(Refusal::forbidden(
                about(kind, name),
                "this namespace may not be deleted",
            ))
        } else {
            Ok(())
        };
    }
    if admission.operation == Operation::Create && is_undefined(state, admission) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Refusal::forbidden(about(kind, name), why));
    }
    // An access review says nothing about whether the namespace exists, or it would be a way to find out.
    if kind.scope == Scope::Cluster || kind.kind == "LocalSubjectAccessReview" {
        return Ok(());
    }
    let stored = state
        .store
        .get(&TableKey::of("", "namespaces"), &ObjectKey::new("", namespace));
    let Some(stored) = stored else {
        return Err(Refusal::not_found(About {
            group: "",
            kind: "namespaces",
            name: namespace,
        }));
    };
    if admission.operation == Operation::Create && stored.ties.deleting {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause::new(
            "metadata.namespace",
            Reason::NamespaceTerminating,
            format!("namespace {namespace} is being terminated"),
        );
        return Err(Refusal::forbidden(about(kind, name), why).with_causes(vec![cause]));
    }
    Ok(())
}

/// Whether the definition of a custom kind is going.
fn is_undefined(state: &State, admission: &Admission<'_>) -> bool {
    let kind = admission.kind;
    let table = TableKey::of("apiextensions.k8s.io", "customresourcedefinitions");
    let name = format!("{}.{}", kind.plural, kind.group);
    let stored = state.store.get(&table, &ObjectKey::new("", &name));
    kind.custom().is_some() && stored.is_some_and(|stored| stored.ties.deleting)
}
