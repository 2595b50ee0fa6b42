//! The simulator in the caller's own process: the client's [`Exchange`], without sockets.

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::handling::{Lost, Served};
use crate::ibm::http::{Exchange, ExchangeError};

/// Hands requests to the router; the scheme and host of a request do not matter, its path does.
#[derive(Clone, Debug)]
pub struct InProcess(pub(super) Router);

impl InProcess {
    /// Like [`Exchange::exchange`], and tells besides what the service itself answered: `None` when the request was
    /// answered by a fault in front of it.
    pub async fn witness(
        &self,
        request: Request<Bytes>,
    ) -> (Option<StatusCode>, Result<Response<Bytes>, ExchangeError>) {
        let request = request.map(Body::from);
        let response = match self.0.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let served = response.extensions().get::<Served>().map(|served| served.0);
        if response.extensions().get::<Lost>().is_some() {
            let lost = ExchangeError::Lost("connection reset by the simulator".into());
            return (served, Err(lost));
        }
        let (head, body) = response.into_parts();
        let answer = match body.collect().await {
            Ok(body) => Ok(Response::from_parts(head, body.to_bytes())),
            Err(error) => Err(ExchangeError::Lost(error.to_string())),
        };
        (served, answer)
    }
}

#[async_trait]
impl Exchange for InProcess {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        self.witness(request).await.1
    }
}
