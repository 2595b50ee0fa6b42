//! Small kinds with little to show: configuration, accounts, classes, quotas, leases, webhooks.

use jiff::Timestamp;
use serde_json::Value;

use super::column::{Cells, Printer, age, count, named, number, text};
use crate::sim::kube::object;

pub(super) fn printer(group: &str, plural: &str) -> Option<Printer> {
    let (columns, cells): (&'static str, Cells) = match (group, plural) {
        ("", "configmaps") => ("Name/name | Data | Age", |object, now| {
            let entries = count(object, "data") + count(object, "binaryData");
            vec![named(object), entries.into(), age(object, now)]
        }),
        ("", "secrets") => ("Name/name | Type | Data | Age", |object, now| {
            let type_name = text(object, "type").into();
            vec![
                named(object),
                type_name,
                count(object, "data").into(),
                age(object, now),
            ]
        }),
        ("", "serviceaccounts") => ("Name/name | Age", |object, now| {
            vec![named(object), age(object, now)]
        }),
        ("", "namespaces") => ("Name/name | Status | Age", |object, now| {
            vec![
                named(object),
                text(object, "status.phase").into(),
                age(object, now),
            ]
        }),
        ("", "resourcequotas") => ("Name/name | Request | Limit | Age", quota),
        ("coordination.k8s.io", "leases") => ("Name/name | Holder | Age", |object, now| {
            vec![
                named(object),
                text(object, "spec.holderIdentity").into(),
                age(object, now),
            ]
        }),
        ("node.k8s.io", "runtimeclasses") => ("Name/name | Handler | Age", |object, now| {
            vec![named(object), text(object, "handler").into(), age(object, now)]
        }),
        ("scheduling.k8s.io", "priorityclasses") => (
            "Name/name | Value:integer | Global-Default:boolean | Age | PreemptionPolicy",
            priority_class,
        ),
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => ("Name/name | Webhooks:integer | Age", |object, now| {
            vec![named(object), count(object, "webhooks").into(), age(object, now)]
        }),
        _ => return None,
    };
    Some(Printer { columns, cells })
}

fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        named(object),
        number(object, "value").into(),
        (object["globalDefault"] == true).into(),
        age(object, now),
        text(object, "preemptionPolicy").into(),
    ]
}

/// What is used of what is allowed; limits in a column of their own.
fn quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let used = object::texts(&object["status"]["used"]);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in object::texts(&object["status"]["hard"]) {
        let used = used.get(&resource).map_or("0", String::as_str);
        let column = if resource.starts_with("limits.") {
            &mut limits
        } else {
            &mut requests
        };
        column.push(format!("{resource}: {used}/{hard}"));
    }
    vec![
        named(object),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age(object, now),
    ]
}
