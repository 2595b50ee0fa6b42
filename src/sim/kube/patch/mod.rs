//! Patches: JSON, merge, strategic merge and server-side apply.

pub mod managed;

use axum::response::Response;
use bytes::Bytes;

use super::identity::User;
use super::kind::Kind;
use super::refusal::Refusal;
use super::request::Ask;
use super::server::ApiServer;

/// Changes an object by a patch.
#[expect(clippy::unused_async, reason = "admission will wait")]
pub async fn patch(
    _server: &ApiServer,
    _user: &User,
    _kind: &Kind,
    _ask: &Ask,
    _body: &Bytes,
) -> Result<Response, Refusal> {
    Err(Refusal::unsupported_media_type(
        "the body of the request was in an unknown format",
    ))
}
