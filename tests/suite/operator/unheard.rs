//! An API server that takes no events for a while: whoever must tell before acting does not act meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Request, Response};
use karpenter_ibm::operator::Edges;
use kube::client::Body;
use serde_json::json;
use tower::{BoxError, service_fn};

/// Whether events are refused. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Unheard(Arc<AtomicBool>);

impl Unheard {
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// The same edges, but for events.
    pub(super) fn around(&self, mut edges: Edges) -> Edges {
        let (inner, unheard) = (edges.kube, self.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (inner, unheard) = (inner.clone(), unheard.clone());
            async move {
                let is_event = request.method() == Method::POST && request.uri().path().ends_with("/events");
                if is_event && unheard.0.load(Ordering::Relaxed) {
                    return Ok(refusal());
                }
                inner.send(request).await.map_err(BoxError::from)
            }
        });
        edges.kube = kube::Client::new(service, "default");
        edges
    }
}

fn refusal() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "exceeded quota",
    });
    Response::builder()
        .status(403)
        .body(Body::from(status.to_string().into_bytes()))
        .unwrap()
}
