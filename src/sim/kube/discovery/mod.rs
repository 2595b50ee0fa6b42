//! What is not a resource: discovery, OpenAPI, version and health.

use axum::response::Response;
use http::request::Parts;

use super::identity::User;
use super::refusal::Refusal;
use super::server::ApiServer;

/// Answers a request that is not about a resource.
pub fn answer(_server: &ApiServer, _user: &User, _parts: &Parts) -> Result<Response, Refusal> {
    Err(Refusal::no_such_path())
}
