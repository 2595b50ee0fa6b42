//! The same client over a real socket: what cannot be seen in process.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::routing::get;
use bytes::Bytes;
use http::Request;
use karpenter_ibm::ibm::Transports;
use karpenter_ibm::ibm::http::{Exchange, ExchangeError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn transport() -> Arc<dyn Exchange> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Transports::network().unwrap().cloud
}

async fn ask(url: &str) -> Result<http::Response<Bytes>, ExchangeError> {
    let request = Request::builder().uri(url).body(Bytes::new()).unwrap();
    tokio::time::timeout(Duration::from_secs(30), transport().exchange(request))
        .await
        .expect("it hangs")
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let elsewhere = serve(Router::new().route("/", get(async || "a token would be here now"))).await;
    let router = Router::new().route(
        "/",
        get(async move || (StatusCode::FOUND, [(LOCATION, elsewhere)])),
    );
    let answer = ask(&serve(router).await).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FOUND);
    assert!(answer.body().is_empty());
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(&url).await.unwrap_err();
    assert!(matches!(error, ExchangeError::NotSent(_)), "{error:?}");
}

#[tokio::test]
async fn a_connection_cut_in_the_middle_leaves_the_effect_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream
                .write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{\"id\":")
                .await;
        }
    });
    let error = ask(&url).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Lost(_)), "{error:?}");
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let endless = get(async || {
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        let chunks = futures::stream::repeat_with(move || Ok::<_, std::convert::Infallible>(chunk.clone()));
        axum::body::Body::from_stream(chunks)
    });
    let error = ask(&serve(Router::new().route("/", endless)).await)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ExchangeError::Lost(why) if why.contains("longer than")),
        "{error:?}"
    );
}
