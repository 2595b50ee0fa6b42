//! What a kubelet asks for, read from its request (PKCS#10): the one form that kubelets use, and no other.

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer, X509Version};

const OPEN: &[u8] = b"-----BEGIN CERTIFICATE REQUEST-----";
const CLOSE: &[u8] = b"-----END CERTIFICATE REQUEST-----";
/// The group of all nodes, which is the only one a node is in.
const NODES: &str = "system:nodes";
/// What the name of a node as a user begins with.
pub(super) const NODE_USER: &str = "system:node:";

/// Why a request is not one that a kubelet makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// More or less than one PEM block of the right kind.
    #[error("it is not exactly one PEM block of the type CERTIFICATE REQUEST")]
    Pem,
    /// The block cannot be read to its end.
    #[error("it cannot be read")]
    Der,
    /// Whoever wrote it does not have the key.
    #[error("its signature does not match its key")]
    Signature,
    /// A certificate for more, or for something else, than a node.
    #[error(
        "its subject is not exactly the organization system:nodes and a name that begins with system:node:"
    )]
    Subject,
    /// Other names, or anything else that kubelets do not ask for.
    #[error("it asks for other names or extensions")]
    Extras,
}

/// The name of the node that a request is for.
pub(super) fn node_name(text: &[u8]) -> Result<String, Malformed> {
    let der = only_block(text)?;
    let (rest, request) = X509CertificationRequest::from_der(&der).map_err(|_| Malformed::Der)?;
    if !rest.is_empty() || request.certification_request_info.version != X509Version::V1 {
        return Err(Malformed::Der);
    }
    request.verify_signature().map_err(|_| Malformed::Signature)?;
    let info = &request.certification_request_info;
    if !info.attributes().is_empty() {
        return Err(Malformed::Extras);
    }
    let subject = &info.subject;
    let count = subject.iter_attributes().count();
    let one = |value: Option<&x509_parser::x509::AttributeTypeAndValue<'_>>| {
        value.and_then(|value| value.as_str().ok()).map(str::to_owned)
    };
    let organization = one(subject.iter_organization().next());
    let name = one(subject.iter_common_name().next());
    match (count, organization.as_deref(), name) {
        (2, Some(NODES), Some(name)) => name
            .strip_prefix(NODE_USER)
            .filter(|node| !node.is_empty())
            .map(str::to_owned)
            .ok_or(Malformed::Subject),
        _ => Err(Malformed::Subject),
    }
}

/// The content of the only block; nothing may stand before or after it but white space.
fn only_block(text: &[u8]) -> Result<Vec<u8>, Malformed> {
    let text = text.trim_ascii();
    let body = text
        .strip_prefix(OPEN)
        .and_then(|rest| rest.strip_suffix(CLOSE))
        .ok_or(Malformed::Pem)?;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=\r\n".contains(byte);
    if !body.iter().all(is_base64) {
        return Err(Malformed::Pem);
    }
    let (_, block) = parse_x509_pem(text).map_err(|_| Malformed::Pem)?;
    Ok(block.contents)
}
