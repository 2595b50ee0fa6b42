//! Why a machine that runs has not become a Node, as far as that can be known from outside.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;

use super::Sighting;
use super::facts::Facts;
use crate::api::{NodeClaim, names};
use crate::model::MachineStatus;

/// Where the API server writes with which credential a request was made.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// What is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// As one word.
    pub reason: &'static str,
    /// For people: what the machine does, and the furthest that it has come.
    pub message: String,
}

/// What is known of a machine that is waited for.
pub fn diagnose(
    claim: &NodeClaim,
    machine: &Sighting,
    node: Option<&Node>,
    requests: &[CertificateSigningRequest],
) -> Diagnosis {
    let (reason, progress) = progress(claim, node, requests);
    let (reason, state) = match machine {
        Sighting::Unknown => (reason, "its state is not known".to_owned()),
        Sighting::Absent => (
            names::REASON_MACHINE_VANISHED,
            "the machine is not there any more".to_owned(),
        ),
        Sighting::Present(machine) if machine.status == MachineStatus::Running => {
            (reason, "the machine runs".to_owned())
        }
        Sighting::Present(machine) => (
            names::REASON_MACHINE_NOT_RUNNING,
            format!("the machine is {}", machine.state()),
        ),
    };
    Diagnosis {
        reason,
        message: format!("{state}; {progress}"),
    }
}

fn progress(
    claim: &NodeClaim,
    node: Option<&Node>,
    requests: &[CertificateSigningRequest],
) -> (&'static str, String) {
    if node.is_some() {
        let why = "a node has the claim's name, but not the provider id and address of its machine";
        return (names::REASON_NODE_MISMATCH, why.to_owned());
    }
    let mut own = requests.iter().filter(|request| is_own(claim, request));
    if let Some(why) = own.find_map(refusal) {
        let why = format!("its certificate request was refused: {why}");
        return (names::REASON_CERTIFICATE_REFUSED, why);
    }
    (names::REASON_NODE_NOT_FOUND, silence(claim).to_owned())
}

/// What a machine was heard to do before it fell silent.
fn silence(claim: &NodeClaim) -> &'static str {
    let is_approved = claim
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|annotations| annotations.contains_key(names::CERTIFICATE_REQUEST));
    if is_approved {
        return "its certificate request was approved, but no node of its name has appeared";
    }
    let has_credential = claim
        .allocation()
        .is_some_and(|allocation| allocation.credentials.is_some());
    if has_credential {
        "no certificate request was seen with its credential: it did not boot, or does not reach the API server"
    } else {
        "its user data is not ours, so nothing is known of how it joins"
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
    use crate::api::CapacityType;
    use crate::model::{Machine, StatusReason};

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
            let found = diagnose(&claim(annotations), &Sighting::Unknown, None, requests);
            (found.reason, found.message)
        };
        let (reason, silent) = why(&json!({}), &[request("other", "Denied")]);
        assert_eq!(reason, "NodeNotFound");
        assert!(silent.contains("no certificate request was seen"), "{silent}");
        let (reason, refused) = why(&json!({}), &[request("one", "Denied")]);
        assert_eq!(reason, "CertificateRefused");
        assert!(refused.ends_with("was refused: used twice"), "{refused}");
        let marked = json!({names::CERTIFICATE_REQUEST: "one/uid"});
        let (_, approved) = why(&marked, &[request("one", "Approved")]);
        assert!(approved.contains("approved"), "{approved}");
    }

    #[test]
    fn a_machine_that_does_not_run_says_what_it_does_instead_and_why() {
        let machine = |status, reasons| {
            Sighting::Present(Box::new(Machine {
                id: "i".to_owned(),
                name: "kib".to_owned(),
                profile: "bxf-2x8".to_owned(),
                zone: "us-south-1".to_owned(),
                capacity_type: CapacityType::Spot,
                status,
                reasons,
                address: None,
                resource_group: "g".to_owned(),
                image: None,
                subnet: None,
                interface: None,
                crn: None,
                created_at: None,
            }))
        };
        let why = |machine: &Sighting| {
            let found = diagnose(&claim(&json!({})), machine, None, &[]);
            (found.reason, found.message)
        };
        let preempted = machine(MachineStatus::Stopped, vec![StatusReason::Preempted]);
        let (reason, message) = why(&preempted);
        assert_eq!(reason, "MachineNotRunning");
        assert!(
            message.starts_with("the machine is stopped (stopped_by_preemption); "),
            "{message}"
        );
        assert!(
            why(&machine(MachineStatus::Failed, Vec::new()))
                .1
                .starts_with("the machine is failed; ")
        );
        assert!(
            why(&machine(MachineStatus::Running, Vec::new()))
                .1
                .starts_with("the machine runs; ")
        );
        assert_eq!(why(&Sighting::Absent).0, "MachineVanished");
    }
}
