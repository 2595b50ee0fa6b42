//! The certificate requests of machines that join, for those who wait in vain: one list serves all who ask within seconds.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use crate::controllers::approver;
use crate::controllers::context::Context;

/// Nobody hurries to say why a machine has not joined for minutes; a thousand at once would each list as many requests.
const FRESH: Duration = Duration::from_secs(10);

type Listed = Arc<Vec<CertificateSigningRequest>>;

/// The last list. A restart forgets it, which costs a read.
#[derive(Default)]
pub(super) struct Requests(tokio::sync::Mutex<Option<(Instant, Listed)>>);

impl Requests {
    /// The requests as they were a few seconds ago at most.
    pub(super) async fn list(&self, context: &Context) -> kube::Result<Listed> {
        let mut last = self.0.lock().await;
        let (now, fresh) = (context.clock.instant(), context.clock.real(FRESH));
        if let Some((asked_at, listed)) = last.as_ref()
            && now.saturating_duration_since(*asked_at) < fresh
        {
            return Ok(Arc::clone(listed));
        }
        let requests: Api<CertificateSigningRequest> = Api::all(context.client.clone());
        let ours = ListParams::default().fields(&format!("spec.signerName={}", approver::SIGNER));
        let listed = Arc::new(requests.list(&ours).await?.items);
        *last = Some((now, Arc::clone(&listed)));
        Ok(listed)
    }
}
