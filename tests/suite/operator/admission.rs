//! The API server refuses writes that it took before.

use http::{Request, Response};
use karpenter_ibm::sim::kube::write;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::{World, audited, while_working};

/// karpenter#1578, #1767, aws#6895: after an upgrade every update that carried a claim's specification was refused, which
/// must not change. Finalizers could not be taken off, and one such claim kept everything else from being bought.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_specification_could_not_be_written_held_up_the_others_and_was_never_let_go() {
    let world = World::new();
    // Stored past the rules of today, as an earlier definition allowed it.
    write::insert(
        &world.kube,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "old", "finalizers": ["karpenter.sh/termination"]},
            "spec": {
                "expireAfter": "720h",
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": []}],
            },
        }),
    );
    let mut edges = world.edges();
    edges.kube = refusing_specifications(edges.kube);
    while_working(audited::factory(World::settings("one"))(edges), async {
        world.ready_node("a").await;
        world.delete("a").await;
        world.until_gone("a").await;
        // Nothing can be bought for it, so it ends by itself; for that its finalizer must come off.
        world.until_gone("old").await;
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

/// A client whose writes of claims are refused if they carry a specification, changed or not.
fn refusing_specifications(inner: kube::Client) -> kube::Client {
    let service = service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let object: Value = serde_json::from_slice(&body).unwrap_or_default();
            if head.uri.path().contains("/nodeclaims/") && object.get("spec").is_some() {
                return Ok(refusal());
            }
            let request = Request::from_parts(head, Body::from(body));
            inner.send(request).await.map_err(BoxError::from)
        }
    });
    kube::Client::new(service, "default")
}

/// As an API server answers what a rule of the definition forbids.
fn refusal() -> Response<Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "reason": "Invalid", "code": 422,
        "message": "NodeClaim.karpenter.sh is invalid: spec: Invalid value: \"object\": spec is immutable",
        "details": {"group": "karpenter.sh", "kind": "NodeClaim"},
    });
    let body = Body::from(serde_json::to_vec(&status).unwrap());
    let answer = Response::builder()
        .status(422)
        .header("content-type", "application/json");
    answer.body(body).unwrap()
}
