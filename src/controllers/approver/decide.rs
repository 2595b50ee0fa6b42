//! Whether a kubelet may have the certificate that it asks for.
//!
//! A machine shows the credential that was made for its attempt; the API server writes the credential's id into the
//! request. The request is approved only if that id stands in the allocation of the claim whose node it names, for the
//! attempt that is going on, while the claim waits for its node, and once. A node's own renewals are approved as long
//! as its claim has that node. What is neither is left to others: it is not ours to judge.
//!
//! No clock is read. A credential that has expired cannot ask, since the API server believes it no more; a request that
//! was made in time and is decided late is good for as long as its claim waits, whatever our own clock says.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;

use super::request::{self, Malformed, NODE_USER};
use crate::api::{NodeClaim, names};
use crate::lifecycle::facts::Facts;

/// The signer of kubelets' client certificates.
pub const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// Where the API server writes with which credential a request was made.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// What a client certificate is for; keys of the older kind need the third too.
const USAGES: [&str; 2] = ["client auth", "digital signature"];
const USAGE_RSA: &str = "key encipherment";

/// What to do about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is what it should be.
    Approve(Grounds),
    /// It never will be.
    Deny(Denial),
    /// It may be soon.
    Wait,
    /// It is not ours to judge.
    Leave,
}

/// Why a request is approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grounds {
    /// A machine joins, with this credential.
    Join {
        /// The credential's id.
        jti: String,
    },
    /// A node asks for its next certificate.
    Renewal,
}

/// Why a request is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// Not what a kubelet asks for.
    #[error("the request is not a kubelet's: {0}")]
    Malformed(#[from] Malformed),
    /// Not what a kubelet needs.
    #[error("the request is for other uses than those of a client")]
    Usages,
    /// Nobody waits for such a node.
    #[error("no NodeClaim waits for a node called {0}")]
    NoClaim(String),
    /// The claim is going.
    #[error("the NodeClaim is being deleted")]
    ClaimLeaves,
    /// Made without a credential that has an id.
    #[error("the request does not say with which credential it was made")]
    NoCredential,
    /// A credential of another claim, another cluster, or one that nobody recorded.
    #[error("the credential was not made for this NodeClaim")]
    OtherCredential,
    /// The credential of a machine that was given up.
    #[error("the credential was made for attempt {0}, which was given up")]
    EarlierAttempt(i64),
    /// The credential has been used.
    #[error("the credential has been used for another request")]
    Used,
    /// The node is there.
    #[error("the node has joined already")]
    Joined,
}

impl Denial {
    /// One word for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "Malformed",
            Self::Usages => "OtherUsages",
            Self::NoClaim(_) => "NoClaim",
            Self::ClaimLeaves => "ClaimLeaves",
            Self::NoCredential => "NoCredential",
            Self::OtherCredential => "OtherCredential",
            Self::EarlierAttempt(_) => "EarlierAttempt",
            Self::Used => "CredentialUsed",
            Self::Joined => "NodeExists",
        }
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A machine that is no node yet.
    Machine,
    /// The node of this name.
    Node(String),
}

/// Whether there is a Node of the name that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeThere {
    /// There is.
    Present,
    /// There is none.
    Absent,
}

/// What was seen of one request and of the world for it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The name of the node that the request is for.
    pub subject: &'a Result<String, Malformed>,
    /// The claim of the name that the request is for.
    pub claim: Option<&'a NodeClaim>,
    /// The Node of that name.
    pub node: NodeThere,
}

/// Who made a request, if it is one that waits and that we judge. `joiner` is the user whose tokens machines have.
pub fn requester(request: &CertificateSigningRequest, joiner: &str) -> Option<Requester> {
    let conditions = request
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let is_decided = conditions.is_some_and(|conditions| !conditions.is_empty());
    if is_decided || request.spec.signer_name != SIGNER {
        return None;
    }
    let user = request.spec.username.as_deref().unwrap_or_default();
    if user == joiner {
        return Some(Requester::Machine);
    }
    let groups = request.spec.groups.as_deref().unwrap_or_default();
    let is_node = groups.iter().any(|group| group == "system:nodes");
    let node = user.strip_prefix(NODE_USER).filter(|_| is_node)?;
    Some(Requester::Node(node.to_owned()))
}

/// The name of the node that a request is for. It takes a check of the signature, the dearest step of all.
pub fn subject(request: &CertificateSigningRequest) -> Result<String, Malformed> {
    request::node_name(&request.spec.request.0)
}

/// What to do about a request of `requester`.
pub fn decide(request: &CertificateSigningRequest, requester: &Requester, seen: &Seen<'_>) -> Verdict {
    match requester {
        Requester::Machine => match join(request, seen) {
            Ok(verdict) => verdict,
            Err(denial) => Verdict::Deny(denial),
        },
        Requester::Node(node) => renewal(request, node, seen),
    }
}

fn join(request: &CertificateSigningRequest, seen: &Seen<'_>) -> Result<Verdict, Denial> {
    let node = seen.subject.clone()?;
    if !is_for_a_client(request) {
        return Err(Denial::Usages);
    }
    let claim = seen.claim.ok_or(Denial::NoClaim(node))?;
    let jti = credential(request).ok_or(Denial::NoCredential)?;
    let allocation = claim.allocation().ok_or(Denial::OtherCredential)?;
    let recorded = allocation.credentials.iter().flatten();
    let recorded = recorded.into_iter().find(|credential| credential.jti == jti);
    let attempt = recorded.ok_or(Denial::OtherCredential)?.attempt;
    if attempt != allocation.attempt {
        return Err(Denial::EarlierAttempt(attempt));
    }
    if claim.is_deleting() {
        return Err(Denial::ClaimLeaves);
    }
    let mine = mark(jti, request);
    if used(claim, jti).is_some_and(|used| used != mine) {
        return Err(Denial::Used);
    }
    if claim.is(names::NODE_REGISTERED) {
        return Err(Denial::Joined);
    }
    // The machine may be faster than we see it run. A Node that is there before the machine has asked for its first
    // certificate is not the machine's: one that was left behind goes, and a kubelet asks again with the same key, so a
    // request that was denied would stay so.
    if !claim.is_launched() || seen.node == NodeThere::Present {
        return Ok(Verdict::Wait);
    }
    Ok(Verdict::Approve(Grounds::Join { jti: jti.to_owned() }))
}

/// A node that asks for another node's certificate, or is none of ours, gets nothing from us.
fn renewal(request: &CertificateSigningRequest, node: &str, seen: &Seen<'_>) -> Verdict {
    let is_ours = seen.claim.is_some_and(|claim| claim.is(names::NODE_REGISTERED));
    if !is_ours || seen.node == NodeThere::Absent {
        return Verdict::Leave;
    }
    match seen.subject {
        Err(malformed) => Verdict::Deny((*malformed).into()),
        Ok(subject) if subject != node => Verdict::Deny(Denial::OtherCredential),
        Ok(_) if !is_for_a_client(request) => Verdict::Deny(Denial::Usages),
        Ok(_) => Verdict::Approve(Grounds::Renewal),
    }
}

fn is_for_a_client(request: &CertificateSigningRequest) -> bool {
    let mut usages: Vec<&str> = request.spec.usages.iter().flatten().map(String::as_str).collect();
    usages.sort_unstable();
    let with_rsa = [USAGES[0], USAGES[1], USAGE_RSA];
    usages == USAGES || usages == with_rsa
}

/// The id of the token that a request was made with.
fn credential(request: &CertificateSigningRequest) -> Option<&str> {
    let ids = request.spec.extra.as_ref()?.get(CREDENTIAL_ID)?;
    match ids.as_slice() {
        [id] => id.strip_prefix("JTI=").filter(|jti| !jti.is_empty()),
        _ => None,
    }
}

/// How a claim remembers that a credential was used, and for which request.
pub fn mark(jti: &str, request: &CertificateSigningRequest) -> String {
    format!("{jti}/{}", request.metadata.uid.as_deref().unwrap_or_default())
}

/// What a claim remembers of this credential.
fn used<'a>(claim: &'a NodeClaim, jti: &str) -> Option<&'a str> {
    let mark = claim.annotations().get(names::CERTIFICATE_REQUEST)?;
    let of_this = mark.strip_prefix(jti).is_some_and(|rest| rest.starts_with('/'));
    of_this.then_some(mark.as_str())
}
