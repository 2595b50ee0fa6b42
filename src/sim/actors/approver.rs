//! Approves what kubelets ask for: requests for client certificates that are well formed, whoever sent them.
//!
//! A stand-in. It does not look at which machine asks, so a cluster with it trusts every holder of a bootstrap token
//! to be any node.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher;
use serde_json::json;

use crate::clock::Clock;
use crate::sim::kube::certificates::request::Pkcs10;

/// The signer of kubelets' client certificates.
pub const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// How long after a failed watch the next begins.
const AGAIN: Duration = Duration::from_secs(1);

/// Approves until dropped.
pub async fn run(client: kube::Client, clock: Clock) {
    let api: Api<CertificateSigningRequest> = Api::all(client);
    loop {
        let mut requests = watcher(api.clone(), watcher::Config::default())
            .applied_objects()
            .boxed();
        while let Some(Ok(request)) = requests.next().await {
            if deserves_approval(&request) {
                approve(&api, &request).await;
            }
        }
        clock.sleep(AGAIN).await;
    }
}

/// A refused approval is seen again with the next change of the request, or not at all if it is gone.
async fn approve(api: &Api<CertificateSigningRequest>, request: &CertificateSigningRequest) {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let approved = json!({"type": "Approved", "status": "True", "reason": "WellFormed",
                          "message": "a node asks for its client certificate"});
    let patch = Patch::Strategic(json!({"status": {"conditions": [approved]}}));
    if let Err(error) = api.patch_approval(name, &PatchParams::default(), &patch).await {
        tracing::debug!(name, %error, "approving a certificate request");
    }
}

/// Whether a request waits for a decision and asks for no more than the certificate of one node.
fn deserves_approval(request: &CertificateSigningRequest) -> bool {
    let conditions = request
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    if request.spec.signer_name != SIGNER || conditions.is_some_and(|decided| !decided.is_empty()) {
        return false;
    }
    let Ok(subject) = Pkcs10::read(&request.spec.request.0) else {
        return false;
    };
    let node = subject.common_name.strip_prefix("system:node:");
    node.is_some_and(|node| !node.is_empty()) && subject.organizations == ["system:nodes"]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::sim::kube::certificates::request::write;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::identity::keys::Key;

    fn request(name: &str, groups: &[&str]) -> CertificateSigningRequest {
        let mut request = CertificateSigningRequest::default();
        let key = Key::new(Keys::Fixed, "a kubelet");
        request.spec.request = ByteString(write(&key, name, groups, &[]).into_bytes());
        request.spec.signer_name = SIGNER.to_owned();
        request
    }

    #[test]
    fn only_a_nodes_own_client_certificate_is_approved_and_only_once() {
        let good = request("system:node:a", &["system:nodes"]);
        assert!(deserves_approval(&good));
        assert!(!deserves_approval(&request("system:node:", &["system:nodes"])));
        assert!(!deserves_approval(&request("jane", &["system:nodes"])));
        assert!(!deserves_approval(&request(
            "system:node:a",
            &["system:nodes", "system:masters"]
        )));
        let mut serving = good.clone();
        serving.spec.signer_name = "kubernetes.io/kubelet-serving".to_owned();
        assert!(!deserves_approval(&serving));
        let mut decided = good;
        let denied = json!({"conditions": [{"type": "Denied", "status": "True"}]});
        decided.status = serde_json::from_value(denied).unwrap();
        assert!(!deserves_approval(&decided));
    }
}
