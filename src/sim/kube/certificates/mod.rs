//! CertificateSigningRequests: who asks is written by the server, who approves needs permission, and approved
//! requests are signed.

pub mod request;
pub mod signer;

use serde_json::{Value, json};

use super::admission::{Admission, Operation};
use super::identity::attempt::{Attempt, Resource};
use super::identity::{User, decide};
use super::kind::Kind;
use super::object;
use super::refusal::{About, Refusal};
use super::schema::Cause;
use super::server::{ApiServer, State, about};
use request::Pkcs10;

const GROUP: &str = "certificates.k8s.io";

/// The conditions that decide about a request. Each is true if it is there at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Somebody who may said yes.
    Approved,
    /// Somebody who may said no.
    Denied,
    /// The signer said no.
    Failed,
}

impl Condition {
    const ALL: [Self; 3] = [Self::Approved, Self::Denied, Self::Failed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "Approved",
            Self::Denied => "Denied",
            Self::Failed => "Failed",
        }
    }
}

/// The conditions of a type that a request has.
pub fn conditions(csr: &Value, condition: Condition) -> impl Iterator<Item = &Value> {
    all_conditions(csr).filter(move |found| found["type"] == condition.as_str())
}

fn all_conditions(csr: &Value) -> impl Iterator<Item = &Value> {
    csr["status"]["conditions"].as_array().into_iter().flatten()
}

/// Whether a kind is that of requests for certificates.
pub fn is_csr(kind: &Kind) -> bool {
    kind.group == GROUP && kind.plural == "certificatesigningrequests"
}

/// Writes into a new request who makes it, whatever they say themselves. Nobody can bring an approval along.
pub fn prepare_new(kind: &Kind, user: &User, object: &mut Value) {
    if !is_csr(kind) {
        return;
    }
    let spec = object::object_mut(&mut object["spec"]);
    for (field, value, is_empty) in [
        ("username", json!(user.name), user.name.is_empty()),
        ("uid", json!(user.uid), user.uid.is_empty()),
        ("groups", json!(user.groups), user.groups.is_empty()),
        ("extra", json!(user.extra), user.extra.is_empty()),
    ] {
        if is_empty {
            spec.remove(field);
        } else {
            spec.insert(field.to_owned(), value);
        }
    }
    object["status"] = json!({});
}

/// Takes back what a change cannot change, and dates new conditions.
pub fn prepare_change(
    server: &ApiServer,
    kind: &Kind,
    subresource: Option<&str>,
    old: &Value,
    object: &mut Value,
) {
    if !is_csr(kind) {
        return;
    }
    object["spec"] = old["spec"].clone();
    match subresource {
        Some("approval") => {
            let decided = object["status"]["conditions"].take();
            object["status"] = old["status"].clone();
            if !decided.is_null() {
                object["status"]["conditions"] = decided;
            }
            date_conditions(&server.timestamp(), old, object);
        }
        Some("status") => {
            for condition in [Condition::Approved, Condition::Denied] {
                keep_conditions(condition, old, object);
            }
            date_conditions(&server.timestamp(), old, object);
        }
        _ => {}
    }
}

/// Conditions of a type stay as they were, if there are as many as before.
fn keep_conditions(condition: Condition, old: &Value, object: &mut Value) {
    let before: Vec<Value> = conditions(old, condition).cloned().collect();
    if before.len() != conditions(object, condition).count() {
        return;
    }
    let all = object["status"]["conditions"]
        .as_array_mut()
        .into_iter()
        .flatten();
    let same = all.filter(|found| found["type"] == condition.as_str());
    for (found, before) in same.zip(before) {
        *found = before;
    }
}

fn date_conditions(now: &str, old: &Value, object: &mut Value) {
    let all = object["status"]["conditions"].as_array_mut();
    for condition in all
        .into_iter()
        .flatten()
        .filter(|condition| condition.is_object())
    {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.into();
        }
        if condition["lastTransitionTime"].is_null() {
            let before = all_conditions(old)
                .find(|old| old["type"] == condition["type"] && old["status"] == condition["status"])
                .map(|old| old["lastTransitionTime"].clone())
                .filter(Value::is_string);
            condition["lastTransitionTime"] = before.unwrap_or_else(|| now.into());
        }
    }
}

/// Refuses a request that is malformed, an approval or signature by somebody who may not, and a change of the past.
pub fn check(state: &State, admission: &Admission<'_>, object: &Value) -> Result<(), Refusal> {
    if !is_csr(admission.kind) || admission.operation == Operation::Delete {
        return Ok(());
    }
    let mut causes = problems(object);
    if let Some(old) = admission.old {
        causes.extend(changes_forbidden(admission.subresource, old, object));
    }
    if causes.is_empty() {
        return check_permission(state, admission, object);
    }
    let invalid = About {
        group: GROUP,
        kind: &admission.kind.kind,
        name: object::name(object),
    };
    Err(Refusal::invalid(invalid, causes))
}

fn check_permission(state: &State, admission: &Admission<'_>, object: &Value) -> Result<(), Refusal> {
    let signer = admission.old.unwrap_or(object)["spec"]["signerName"]
        .as_str()
        .unwrap_or_default();
    let forbid = |why: String| {
        let name = object::name(object);
        Err(Refusal::forbidden(about(admission.kind, name), why))
    };
    let may = |verb| may_use_signer(state, admission.user, verb, signer);
    match (admission.operation, admission.subresource) {
        (Operation::Update, Some("approval")) if !may("approve") => forbid(format!(
            "user not permitted to approve requests with signerName \"{signer}\""
        )),
        (Operation::Update, Some("status")) => {
            let untouched = admission.old.is_some_and(|old| old["status"] == object["status"]);
            if untouched || may("sign") {
                return Ok(());
            }
            forbid(format!(
                "user not permitted to sign requests with signerName \"{signer}\""
            ))
        }
        (Operation::Create, _) if signer == "kubernetes.io/kube-apiserver-client" => {
            let groups = Pkcs10::of(object).unwrap_or_default().organizations;
            if groups.iter().any(|group| group == "system:masters") {
                return forbid(format!(
                    "use of {signer} signer with system:masters group is not allowed"
                ));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Permission is given for one signer by its name, or for all of a domain by `domain/*`.
fn may_use_signer(state: &State, user: &User, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer, &format!("{domain}/*")].into_iter().any(|name| {
        let signers = Resource {
            group: GROUP,
            plural: "signers",
            name,
            ..Resource::default()
        };
        decide(state, user, &Attempt::on_resource(verb, signers)).is_allowed()
    })
}

/// Everything that is wrong with a request in itself.
fn problems(csr: &Value) -> Vec<Cause> {
    let spec = &csr["spec"];
    let mut causes = Vec::new();
    if let Err(error) = Pkcs10::of(csr) {
        causes.push(Cause::invalid("spec.request", &spec["request"], error));
    }
    causes.extend(usage_problems(&spec["usages"]));
    causes.extend(signer_problem(spec["signerName"].as_str().unwrap_or_default()));
    if let Some(seconds) = spec["expirationSeconds"]
        .as_i64()
        .filter(|seconds| *seconds < 600)
    {
        let problem = "may not specify a duration less than 600 seconds (10 minutes)";
        causes.push(Cause::invalid("spec.expirationSeconds", &json!(seconds), problem));
    }
    causes.extend(condition_problems(csr));
    causes
}

fn usage_problems(usages: &Value) -> Vec<Cause> {
    let usages = usages.as_array().map(Vec::as_slice).unwrap_or_default();
    if usages.is_empty() {
        return vec![Cause::required("spec.usages", "")];
    }
    let known: Vec<Value> = signer::USAGES.iter().map(|(name, _)| json!(name)).collect();
    let mut causes = Vec::new();
    for (index, usage) in usages.iter().enumerate() {
        let field = format!("spec.usages[{index}]");
        if !known.contains(usage) {
            causes.push(Cause::not_supported(&field, usage, &known));
        }
        if usages[..index].contains(usage) {
            causes.push(Cause::duplicate(&field, usage));
        }
    }
    causes
}

fn signer_problem(name: &str) -> Option<Cause> {
    let field = "spec.signerName";
    if name.is_empty() {
        return Some(Cause::required(field, ""));
    }
    if name == "kubernetes.io/legacy-unknown" {
        let problem = "the legacy signerName is not allowed via this API version";
        return Some(Cause::invalid(field, &json!(name), problem));
    }
    let problem = match name.split('/').collect::<Vec<_>>().as_slice() {
        [domain, path] if !domain.is_empty() && !path.is_empty() => {
            if domain.contains('.') {
                return None;
            }
            "should be a domain with at least two segments separated by dots"
        }
        _ => "must be a fully qualified domain and path of the form \"example.com/signer-name\"",
    };
    Some(Cause::invalid(field, &json!(name), problem))
}

fn condition_problems(csr: &Value) -> Vec<Cause> {
    let field = "status.conditions";
    let mut causes = Vec::new();
    let mut seen: Vec<&Value> = Vec::new();
    for (index, condition) in all_conditions(csr).enumerate() {
        let (kind, status) = (&condition["type"], &condition["status"]);
        if kind.as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(&format!("{field}[{index}].type"), ""));
        }
        let decides = Condition::ALL.iter().any(|known| kind == known.as_str());
        let allowed = if decides {
            vec![json!("True")]
        } else {
            vec![json!("False"), json!("True"), json!("Unknown")]
        };
        if status.as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(&format!("{field}[{index}].status"), ""));
        } else if !allowed.contains(status) {
            let field = format!("{field}[{index}].status");
            causes.push(Cause::not_supported(&field, status, &allowed));
        }
        let opposite = match kind.as_str() {
            Some("Approved") => Some("Denied"),
            Some("Denied") => Some("Approved"),
            _ => None,
        };
        if opposite.is_some_and(|opposite| seen.iter().any(|seen| *seen == opposite)) {
            let problem = "Approved and Denied conditions are mutually exclusive";
            causes.push(Cause::invalid(field, kind, problem));
        }
        if seen.contains(&kind) {
            causes.push(Cause::duplicate(&format!("{field}[{index}].type"), kind));
        }
        seen.push(kind);
    }
    causes
}

/// What was decided stays decided, and each path changes only what it is there for.
fn changes_forbidden(subresource: Option<&str>, old: &Value, new: &Value) -> Vec<Cause> {
    let field = "status.conditions";
    let mut causes = Vec::new();
    for condition in Condition::ALL {
        let before: Vec<&Value> = conditions(old, condition).collect();
        let after: Vec<&Value> = conditions(new, condition).collect();
        let name = condition.as_str();
        let by_approver = condition != Condition::Failed && subresource != Some("approval");
        let problem = if after.len() < before.len() {
            format!("updates may not remove a condition of type \"{name}\"")
        } else if by_approver && after.len() > before.len() {
            format!("updates may not add a condition of type \"{name}\"")
        } else if by_approver && after != before {
            format!("updates may not modify a condition of type \"{name}\"")
        } else {
            continue;
        };
        causes.push(Cause::forbidden(field, &problem));
    }
    let (before, after) = (&old["status"]["certificate"], &new["status"]["certificate"]);
    if before != after {
        let problem = if subresource != Some("status") {
            "updates may not set certificate content"
        } else if before.is_string() {
            "updates may not modify existing certificate content"
        } else {
            return causes;
        };
        causes.push(Cause::forbidden("status.certificate", problem));
    }
    causes
}

#[cfg(test)]
mod tests;
