//! Health, readiness and metrics over HTTP.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use prometheus::{Registry, TextEncoder};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::controllers::definitions::Readiness;

/// The routes `/healthz`, `/readyz` and `/metrics`.
pub fn router(registry: Registry, readiness: watch::Receiver<Readiness>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route(
            "/readyz",
            get(async move || match readiness.borrow().clone() {
                Readiness::Ready => (StatusCode::OK, "ok\n".to_owned()),
                Readiness::NotReady(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
            }),
        )
        .route("/metrics", get(async move || metrics(&registry)))
}

fn metrics(registry: &Registry) -> Result<String, (StatusCode, String)> {
    TextEncoder::new()
        .encode_to_string(&registry.gather())
        .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// Serves `router` until `stop`.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}
