//! `AdmissionReview`: the question, and what the answer means.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::Power;
use super::call::Failure;
use super::matching::{Invocation, namespace_of};
use crate::sim::kube::admission::{Admission, Operation};
use crate::sim::kube::kind::Kind;
use crate::sim::kube::object;
use crate::sim::kube::refusal::Refusal;

const API_VERSION: &str = "admission.k8s.io/v1";

/// The question.
pub(super) fn request(uid: &str, admission: &Admission<'_>, invocation: &Invocation, new: &Value) -> Value {
    let old = admission.old.map_or(Value::Null, |old| invocation.shown(old));
    let subject = if new.is_null() {
        admission.old.unwrap_or(new)
    } else {
        new
    };
    let user = admission.user;
    let mut user_info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        user_info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        user_info["extra"] = json!(user.extra);
    }
    let (operation, options) = match admission.operation {
        Operation::Create => ("CREATE", "CreateOptions"),
        Operation::Update => ("UPDATE", "UpdateOptions"),
        Operation::Delete => ("DELETE", "DeleteOptions"),
    };
    let mut options = json!({"kind": options, "apiVersion": "meta.k8s.io/v1"});
    if admission.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    let mut request = json!({
        "uid": uid,
        "kind": kind_of(&invocation.kind, subject),
        "resource": resource(&invocation.kind),
        "requestKind": kind_of(admission.kind, subject),
        "requestResource": resource(admission.kind),
        "name": object::name(subject),
        "operation": operation,
        "userInfo": user_info,
        "object": invocation.shown(new),
        "oldObject": old,
        "dryRun": admission.dry_run,
        "options": options,
    });
    let namespace = namespace_of(admission, new);
    if !namespace.is_empty() {
        request["namespace"] = namespace.into();
    }
    if let Some(subresource) = admission.subresource {
        request["subResource"] = subresource.into();
        request["requestSubResource"] = subresource.into();
    }
    json!({"kind": "AdmissionReview", "apiVersion": API_VERSION, "request": request})
}

/// The kind of what is sent: a subresource may take objects of its own, such as an Eviction.
fn kind_of(kind: &Kind, object: &Value) -> Value {
    let its = object["kind"].as_str().unwrap_or(&kind.kind);
    if its == kind.kind {
        return json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    }
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    json!({"group": group, "version": version, "kind": its})
}

fn resource(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "resource": kind.plural})
}

/// An answer that is one.
#[derive(Debug)]
pub(super) struct Verdict {
    /// What to change, or the `Status` of a refusal.
    pub(super) result: Result<json_patch::Patch, Value>,
    /// What the client should hear.
    pub(super) warnings: Vec<String>,
}

/// Reads an answer.
pub(super) fn verdict(uid: &str, review: &Value, power: Power) -> Result<Verdict, Failure> {
    let response = &review["response"];
    let invalid = |problem: String| Failure::Invalid(problem);
    if !response.is_object() {
        return Err(invalid("webhook response was absent".to_owned()));
    }
    if response["uid"] != uid {
        return Err(invalid(format!(
            "expected response.uid=\"{uid}\", got {}",
            response["uid"]
        )));
    }
    if review["kind"] != "AdmissionReview" || review["apiVersion"] != API_VERSION {
        let got = format!("{}, Kind={}", review["apiVersion"], review["kind"]);
        return Err(invalid(format!(
            "expected webhook response of {API_VERSION}, Kind=AdmissionReview, got {got}"
        )));
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(str::to_owned).collect();
    let patch = patch(response, power)?;
    let result = if response["allowed"] == true {
        Ok(patch)
    } else {
        Err(response["status"].clone())
    };
    Ok(Verdict { result, warnings })
}

fn patch(response: &Value, power: Power) -> Result<json_patch::Patch, Failure> {
    let text = response["patch"].as_str().unwrap_or_default();
    let type_name = response["patchType"].as_str();
    let invalid = |problem: &str| Err(Failure::Invalid(problem.to_owned()));
    match (power, text, type_name) {
        (_, "", None) => return Ok(json_patch::Patch::default()),
        (Power::Validate, "", Some(_)) => {
            return invalid("validating webhook may not return response.patchType");
        }
        (Power::Validate, ..) => return invalid("validating webhook may not return response.patch"),
        (Power::Mutate, "", Some(_)) => {
            return invalid("webhook returned response.patchType but not response.patch");
        }
        (Power::Mutate, _, None) => {
            return invalid("webhook returned response.patch but not response.patchType");
        }
        (Power::Mutate, _, Some("JSONPatch")) => {}
        (Power::Mutate, _, Some(other)) => {
            return Err(Failure::Other(format!("unsupported patch type \"{other}\"")));
        }
    }
    let undecodable = |error: &dyn std::fmt::Display| {
        Failure::Other(format!("received undecodable patch in webhook response: {error}"))
    };
    let bytes = BASE64_STANDARD
        .decode(text)
        .map_err(|error| undecodable(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| undecodable(&error))
}

/// A refusal by a webhook: the status that it gave, whose code is 400 if it gave none.
pub(super) fn denial(name: &str, status: &Value) -> Refusal {
    let denied = format!("admission webhook \"{name}\" denied the request");
    let text = |field: &str| status[field].as_str().filter(|text| !text.is_empty());
    let message = match text("message").or_else(|| text("reason")) {
        Some(why) => format!("{denied}: {why}"),
        None => format!("{denied} without explanation"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    Refusal::of_webhook(
        code.filter(|code| *code >= 400).unwrap_or(400),
        text("reason").unwrap_or_default(),
        message,
        status["details"].as_object().cloned().unwrap_or_default(),
    )
}
