//! Paths below an object that are not just a view of it: scale, eviction, binding, approval, token.

use axum::response::Response;
use bytes::Bytes;

use super::identity::{User, node_restriction, token_request};
use super::kind::Kind;
use super::read::key;
use super::refusal::Refusal;
use super::request::{Ask, Verb};
use super::server::ApiServer;

/// Answers a request to such a path; `None` if it is for the ordinary verbs (no subresource, or `status`).
#[expect(clippy::unused_async, reason = "evictions and tokens will wait")]
pub async fn answer(
    server: &ApiServer,
    user: &User,
    _kind: &Kind,
    ask: &Ask,
    body: &Bytes,
) -> Result<Option<Response>, Refusal> {
    if ask.target.subresource.as_deref() == Some("eviction") {
        let key = key(ask);
        node_restriction::check_eviction(&server.state(), user, &key.namespace, &key.name)?;
    }
    match ask.target.subresource.as_deref() {
        None => Ok(None),
        Some("status" | "finalize" | "approval") => match ask.verb {
            Verb::Get | Verb::Update | Verb::Patch => Ok(None),
            _ => Err(Refusal::method_not_allowed()),
        },
        Some("token") => token_request::answer(server, user, ask, body).map(Some),
        Some(_) => Err(Refusal::no_such_path()),
    }
}
