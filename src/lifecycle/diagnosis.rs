//! Why a machine that runs has not become a Node, as far as that can be known from outside.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;

use super::Sighting;
use super::facts::Facts;
use crate::api::{NodeClaim, names};
use crate::model::MachineStatus;

/// Where the API server writes with which credential a request was made.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// What is known, for people: the furthest that the machine has come.
pub fn diagnose(
    claim: &NodeClaim,
    machine: &Sighting,
    node: Option<&Node>,
    requests: &[CertificateSigningRequest],
) -> String {
    let state = match machine {
        Sighting::Unknown => "its state is not known",
        Sighting::Absent => "the machine is not there any more",
        Sighting::Present(machine) if machine.status == MachineStatus::Running => "the machine runs",
        Sighting::Present(_) => "the machine does not run",
    };
    format!("{state}; {}", progress(claim, node, requests))
}

fn progress(claim: &NodeClaim, node: Option<&Node>, requests: &[CertificateSigningRequest]) -> String {
    if node.is_some() {
        return "a node has the claim's name, but not the provider id and address of its machine".to_owned();
    }
    let mut own = requests.iter().filter(|request| is_own(claim, request));
    if let Some(why) = own.find_map(refusal) {
        return format!("its certificate request was refused: {why}");
    }
    let is_approved = claim
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|annotations| annotations.contains_key(names::CERTIFICATE_REQUEST));
    if is_approved {
        return "its certificate request was approved, but no node of its name has appeared".to_owned();
    }
    let has_credential = claim
        .allocation()
        .is_some_and(|allocation| allocation.credentials.is_some());
    if has_credential {
        "no certificate request was seen with its credential: it did not boot, or does not reach the API server"
            .to_owned()
    } else {
        "its user data is not ours, so nothing is known of how it joins".to_owned()
    }
}

/// Whether a request was made with a credential of the claim.
fn is_own(claim: &NodeClaim, request: &CertificateSigningRequest) -> bool {
    let ids = request
        .spec
        .extra
        .as_ref()
        .and_then(|extra| extra.get(CREDENTIAL_ID));
    let credentials = claim.allocation().and_then(|it| it.credentials.as_ref());
    let mut jtis = credentials
        .into_iter()
        .flatten()
        .map(|credential| &credential.jti);
    jtis.any(|jti| {
        ids.into_iter()
            .flatten()
            .any(|id| id.strip_prefix("JTI=") == Some(jti))
    })
}

fn refusal(request: &CertificateSigningRequest) -> Option<String> {
    let conditions = request.status.as_ref()?.conditions.as_ref()?;
    let denied = conditions.iter().find(|condition| condition.type_ == "Denied")?;
    Some(denied.message.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(annotations: &Value) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "annotations": annotations},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"allocation": {
                "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "spot", "subnet": "s", "attempt": 1,
                "instanceName": "kib", "since": "2026-11-16T10:00:00Z",
                "credentials": [{"attempt": 1, "jti": "one"}],
            }},
        }))
        .unwrap()
    }

    fn request(jti: &str, condition: &str) -> CertificateSigningRequest {
        serde_json::from_value(json!({
            "metadata": {"name": "r"},
            "spec": {"request": "", "signerName": "s", "extra": {CREDENTIAL_ID: [format!("JTI={jti}")]}},
            "status": {"conditions": [{"type": condition, "status": "True", "message": "used twice"}]},
        }))
        .unwrap()
    }

    #[test]
    fn the_furthest_that_a_machine_has_come_is_told() {
        let why = |annotations: &Value, requests: &[CertificateSigningRequest]| {
            diagnose(&claim(annotations), &Sighting::Absent, None, requests)
        };
        let silent = why(&json!({}), &[request("other", "Denied")]);
        assert!(silent.contains("not there any more") && silent.contains("no certificate request was seen"));
        let refused = why(&json!({}), &[request("one", "Denied")]);
        assert!(refused.ends_with("was refused: used twice"), "{refused}");
        let marked = json!({names::CERTIFICATE_REQUEST: "one/uid"});
        let approved = why(&marked, &[request("one", "Approved")]);
        assert!(approved.contains("approved"), "{approved}");
    }
}
