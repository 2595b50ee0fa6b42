//! Who may do what: role bindings, and requests for certificates.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::column::{Cells, Printer, age, list, named, text, text_or};
use super::duration;

pub(super) fn printer(group: &str, plural: &str) -> Option<Printer> {
    let (columns, cells): (&'static str, Cells) = match (group, plural) {
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => (
            "Name/name | Role | Age | Users* | Groups* | ServiceAccounts*",
            binding,
        ),
        ("certificates.k8s.io", "certificatesigningrequests") => (
            "Name/name | Age | SignerName | Requestor | RequestedDuration | Condition",
            signing_request,
        ),
        _ => return None,
    };
    Some(Printer { columns, cells })
}

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| -> Value {
        let names: Vec<String> = list(object, "subjects")
            .iter()
            .filter(|subject| subject["kind"] == kind)
            .map(|subject| match kind {
                "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
                _ => text(subject, "name").to_owned(),
            })
            .collect();
        names.join(", ").into()
    };
    vec![
        named(object),
        format!(
            "{}/{}",
            text(object, "roleRef.kind"),
            text(object, "roleRef.name")
        )
        .into(),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn signing_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let lasts = object["spec"]["expirationSeconds"]
        .as_i64()
        .map(|seconds| duration::human(SignedDuration::from_secs(seconds)));
    vec![
        named(object),
        age(object, now),
        text_or(object, "spec.signerName", "<none>").into(),
        text(object, "spec.username").into(),
        lasts.unwrap_or_else(|| "<none>".to_owned()).into(),
        standing(object).into(),
    ]
}

/// A denial outweighs an approval.
fn standing(object: &Value) -> String {
    let has = |type_name: &str| {
        list(object, "status.conditions")
            .iter()
            .any(|condition| condition["type"] == type_name)
    };
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if text(object, "status.certificate").is_empty() {
        ""
    } else {
        ",Issued"
    };
    format!("{decision}{failed}{issued}")
}
