//! Approves the certificates of our nodes, and refuses them to everybody who asks with one of our credentials and is
//! not the machine that it was made for.
//!
//! Each pass reads the claim and the Node of the name that the request is for from the API server itself. Before the
//! first certificate of a machine is approved, the claim is marked with the request, at the version that the decision
//! was computed from: of two replicas, or two requests with one credential, one comes first and the other sees it.

mod decide;
mod others;
mod request;

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{self, Action, applier};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{WatchStreamExt, reflector::reflector, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

pub use decide::{
    Denial, Grounds, NodeThere, Requester, SIGNER, Seen, Verdict, decide, mark, requester, subject,
};
pub use request::Malformed;

use super::context::Context;
use super::events::{Kind, Story};
use super::guard::Guard;
use super::passes;
use crate::api::{NodeClaim, names};

/// Requests that are worked on at once: each costs a few small reads and at most two writes.
const CONCURRENCY: u16 = 16;
/// How soon a request that could not be decided is looked at again, and one that is new and waits for its machine.
const AGAIN: Duration = Duration::from_secs(2);
/// How long one is left alone at most that has waited for long.
const AGAIN_MAX: Duration = Duration::from_mins(1);

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub struct Error {
    /// What was being done.
    doing: &'static str,
    /// Why it was not.
    #[source]
    source: Box<kube::Error>,
}

/// A failure of the Kubernetes API while `doing` something.
fn failed(doing: &'static str) -> impl FnOnce(kube::Error) -> Error {
    move |source| Error {
        doing,
        source: Box::new(source),
    }
}

/// Looks after all requests of kubelets, for as long as this is polled.
pub async fn run(context: Context) {
    others::check(&context).await;
    let (store, writer) = reflector::store();
    let ours = watcher::Config::default().fields(&format!("spec.signerName={SIGNER}"));
    let requests = watcher(
        Api::<CertificateSigningRequest>::all(context.client.clone()),
        ours,
    );
    let requests = reflector(writer, requests)
        .default_backoff()
        .applied_objects()
        .map_ok(|request| ObjectRef::from_obj(&request));
    let guard = Guard::new(&context, "certificates");
    let passes = applier(
        move |request, context| {
            let pass = reconcile(Arc::clone(&request), context);
            Box::pin(guard.clone().pass(request, pass))
        },
        slow_down,
        Arc::new(context),
        store,
        requests,
        controller::Config::default().concurrency(CONCURRENCY),
    );
    passes::tell("certificate request", passes).await;
}

/// One pass over one request.
async fn reconcile(request: Arc<CertificateSigningRequest>, context: Arc<Context>) -> Result<Action, Error> {
    let Some(requester) = requester(&request, &context.settings.joiner_user()) else {
        return Ok(Action::await_change());
    };
    let subject = subject(&request);
    let (claim, node) = observe(&context, &requester, &subject).await?;
    let seen = Seen {
        subject: &subject,
        claim: claim.as_ref(),
        node,
    };
    match decide(&request, &requester, &seen) {
        Verdict::Approve(grounds) => approve(&context, &request, claim.as_ref(), &grounds).await?,
        Verdict::Deny(denial) => deny(&context, &request, claim.as_ref(), &denial).await?,
        Verdict::Wait => return Ok(Action::requeue(again(age(&request, context.clock.now())))),
        Verdict::Leave => {}
    }
    Ok(Action::await_change())
}

/// How soon a request of this age that waits is looked at again. What it waits for comes within seconds, or somebody has
/// to remove a Node of its name, which may take for ever.
fn again(age: Duration) -> Duration {
    (age / 10).clamp(AGAIN, AGAIN_MAX)
}

/// How long ago a request was made; not at all, where clocks disagree.
fn age(request: &CertificateSigningRequest, now: Timestamp) -> Duration {
    let made = request.metadata.creation_timestamp.as_ref();
    let age = made.and_then(|made| now.duration_since(made.0).try_into().ok());
    age.unwrap_or_default()
}

/// The claim and the Node of the name that a request is for; neither, if it is for nobody.
async fn observe(
    context: &Context,
    requester: &Requester,
    subject: &Result<String, Malformed>,
) -> Result<(Option<NodeClaim>, NodeThere), Error> {
    let name = match requester {
        Requester::Machine => subject.as_ref().ok(),
        Requester::Node(name) => Some(name),
    };
    let Some(name) = name.filter(|name| is_name(name)) else {
        return Ok((None, NodeThere::Absent));
    };
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let claim = claims.get_opt(name).await.map_err(failed("reading the claim"))?;
    let nodes: Api<Node> = Api::all(context.client.clone());
    let node = nodes
        .get_metadata_opt(name)
        .await
        .map_err(failed("reading the node"))?;
    let there = node.map_or(NodeThere::Absent, |_| NodeThere::Present);
    Ok((claim, there))
}

/// Whether a text can be the name of an object. It comes from a stranger and becomes part of a path.
fn is_name(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    text.len() <= 253 && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(legal)
}

async fn approve(
    context: &Context,
    request: &CertificateSigningRequest,
    claim: Option<&NodeClaim>,
    grounds: &Grounds,
) -> Result<(), Error> {
    let (reason, message) = match grounds {
        Grounds::Join { .. } => (
            "MachineJoins",
            "the credential, the NodeClaim, the name and the state agree",
        ),
        Grounds::Renewal => ("NodeRenews", "the node asks for its next certificate"),
    };
    if let (Grounds::Join { jti }, Some(claim)) = (grounds, claim) {
        remember(context, claim, mark(jti, request)).await?;
    }
    conclude(context, request, "Approved", reason, message).await?;
    context.metrics.certificate("approved");
    Ok(())
}

/// Marks the claim with the request that its credential is used for.
async fn remember(context: &Context, claim: &NodeClaim, mark: String) -> Result<(), Error> {
    if claim.annotations().get(names::CERTIFICATE_REQUEST) == Some(&mark) {
        return Ok(());
    }
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let patch = json!({"metadata": {
        "uid": claim.uid(),
        "resourceVersion": claim.resource_version(),
        "annotations": {names::CERTIFICATE_REQUEST: mark},
    }});
    claims
        .patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(failed("marking the claim with its certificate request"))
}

async fn deny(
    context: &Context,
    request: &CertificateSigningRequest,
    claim: Option<&NodeClaim>,
    denial: &Denial,
) -> Result<(), Error> {
    let message = denial.to_string();
    conclude(context, request, "Denied", denial.reason(), &message).await?;
    context.metrics.certificate("denied");
    tracing::warn!(request = request.name_any(), %denial, "a certificate is refused");
    let story = Story {
        kind: Kind::Warning,
        reason: names::REASON_CERTIFICATE_REFUSED,
        action: "Join",
        note: format!("certificate request {}: {message}", request.name_any()),
        transition: request.uid().unwrap_or_default(),
    };
    match claim {
        Some(claim) => context.events.tell(claim, story).await,
        None => context.events.tell(request, story).await,
    }
    Ok(())
}

/// Writes the decision, at the version of the request that it was computed from.
async fn conclude(
    context: &Context,
    request: &CertificateSigningRequest,
    decision: &str,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    let requests: Api<CertificateSigningRequest> = Api::all(context.client.clone());
    let condition = json!({"type": decision, "status": "True", "reason": reason, "message": message});
    let patch = json!({
        "metadata": {"uid": request.uid(), "resourceVersion": request.resource_version()},
        "status": {"conditions": [condition]},
    });
    requests
        .patch_approval(&request.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(failed("deciding the certificate request"))
}

/// When a pass that failed is repeated. After a conflict the watch shows what changed, or the next pass does.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that kube's applier asks for"
)]
fn slow_down(_: Arc<CertificateSigningRequest>, _: &Error, context: Arc<Context>) -> Action {
    Action::requeue(context.entropy.jitter(AGAIN))
}

#[cfg(test)]
#[cfg(feature = "sim")]
mod tests;
