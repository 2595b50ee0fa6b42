//! The simulator in the caller's own process: the client's [`Exchange`], without sockets.

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::handling::Lost;
use crate::ibm::http::{Exchange, ExchangeError};

/// Hands requests to the router; the scheme and host of a request do not matter, its path does.
#[derive(Clone, Debug)]
pub struct InProcess(pub(super) Router);

#[async_trait]
impl Exchange for InProcess {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let request = request.map(Body::from);
        let response = match self.0.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        if response.extensions().get::<Lost>().is_some() {
            return Err(ExchangeError::Lost("connection reset by the simulator".into()));
        }
        let (head, body) = response.into_parts();
        let body = body
            .collect()
            .await
            .map_err(|error| ExchangeError::Lost(error.to_string()))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}
