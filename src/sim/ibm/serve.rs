//! The simulator on a TCP port of this machine.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::Cloud;
use super::handling::Lost;

/// How long requests in flight may take after the server was told to stop.
const GRACE: Duration = Duration::from_secs(2);

/// Why the simulator cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Whoever reaches the simulator commands it, so nobody else may.
    #[error("{0} is not a loopback address")]
    NotLoopback(SocketAddr),
    /// The port is taken, or may not be used.
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
}

/// A cloud that listens.
pub struct Server {
    router: Router,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the port; 0 is any that is free.
    pub async fn bind(cloud: Cloud, address: SocketAddr) -> Result<Self, ServeError> {
        Self::bind_router(cloud.router(), address).await
    }

    /// Like [`Server::bind`], where requests reach the cloud through `router`, which may lead to another runtime.
    pub async fn bind_router(router: Router, address: SocketAddr) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Self {
            router,
            listener,
            address,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is canceled; then lets requests in flight finish for a moment.
    pub async fn run(self, stop: CancellationToken) {
        let connections = TaskTracker::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(converse(self.router.clone(), stream, stop.clone()));
                    }
                    // A connection that broke before it was taken, or no file descriptor left: go on, but not in a
                    // circle.
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
        connections.close();
        let _ = tokio::time::timeout(GRACE, connections.wait()).await;
    }
}

/// One connection. An answer that is to be lost becomes an error, on which hyper closes without a word.
async fn converse(router: Router, stream: TcpStream, stop: CancellationToken) {
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let router = router.clone();
        async move {
            let response = match router.oneshot(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            if response.extensions().get::<Lost>().is_some() {
                return Err(io::Error::from(io::ErrorKind::ConnectionReset));
            }
            Ok(response)
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let outcome = tokio::select! {
        biased;
        outcome = connection.as_mut() => outcome,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}
