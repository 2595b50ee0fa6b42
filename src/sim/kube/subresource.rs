//! Paths below an object that are not just a view of it: scale, eviction, binding, approval, token.

use axum::response::Response;
use bytes::Bytes;

use super::identity::User;
use super::kind::Kind;
use super::refusal::Refusal;
use super::request::Ask;
use super::server::ApiServer;

/// Answers a request to such a path; `None` if it is for the ordinary verbs (no subresource, or `status`).
#[expect(clippy::unused_async, reason = "evictions and tokens will wait")]
pub async fn answer(
    _server: &ApiServer,
    _user: &User,
    _kind: &Kind,
    ask: &Ask,
    _body: &Bytes,
) -> Result<Option<Response>, Refusal> {
    match ask.target.subresource.as_deref() {
        None | Some("status" | "finalize") => Ok(None),
        Some(_) => Err(Refusal::no_such_path()),
    }
}
