//! A transport that orders something else than it was told to, or mistakes what it hears.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response};

use super::leaving::Overheard;
use crate::ibm::http::{Exchange, ExchangeError};

/// Machines are ordered so that their interfaces and volumes outlive them.
pub(super) fn with_lasting_parts(inner: Arc<dyn Exchange>) -> Arc<dyn Exchange> {
    Arc::new(Lasting(inner))
}

/// The machines of every cluster look like our own.
pub(super) fn blind_to_clusters(inner: Arc<dyn Exchange>) -> Arc<dyn Exchange> {
    Arc::new(Blind {
        inner,
        own: Mutex::default(),
    })
}

/// The first token is used for ever.
pub(super) fn with_one_token(inner: Arc<dyn Exchange>) -> Arc<dyn Exchange> {
    Arc::new(OneToken {
        inner,
        first: Mutex::default(),
    })
}

fn orders(request: &Request<Bytes>) -> bool {
    request.method() == Method::POST && request.uri().path().ends_with("/instances")
}

struct Lasting(Arc<dyn Exchange>);

#[async_trait]
impl Exchange for Lasting {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        if !orders(&request) {
            return self.0.exchange(request).await;
        }
        let lasting = request.map(|body| lasting(&body));
        self.0.exchange(lasting).await
    }
}

fn lasting(body: &Bytes) -> Bytes {
    let text = String::from_utf8_lossy(body);
    let kept = text.replace("\"auto_delete\":true", "\"auto_delete\":false");
    let kept = kept.replace(
        "\"delete_volume_on_instance_delete\":true",
        "\"delete_volume_on_instance_delete\":false",
    );
    kept.into()
}

/// What the names of our machines begin with, up to the claim.
const PREFIX: &str = "kib-";
/// The digits of a cluster in a name.
const CLUSTER: usize = 8;

struct Blind {
    inner: Arc<dyn Exchange>,
    /// What the names of our own machines begin with, once one was looked up or ordered.
    own: Mutex<Option<String>>,
}

impl Blind {
    fn own(&self) -> Option<String> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn(&self, request: &Request<Bytes>) {
        let uri = request.uri().to_string();
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let mentioned = [uri, body].into_iter().find_map(|text| {
            let at = text.find(PREFIX)?;
            text.get(at..at + PREFIX.len() + CLUSTER).map(str::to_owned)
        });
        if let Some(own) = mentioned {
            *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
        }
    }
}

#[async_trait]
impl Exchange for Blind {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        self.learn(&request);
        let reads = request.method() == Method::GET && request.uri().path().contains("/instances");
        let answer = self.inner.exchange(request).await?;
        match self.own().filter(|_| reads) {
            Some(own) => Ok(answer.map(|body| renamed(&body, &own))),
            None => Ok(answer),
        }
    }
}

/// Every name of a machine of some cluster, as if it were one of `own`.
fn renamed(body: &Bytes, own: &str) -> Bytes {
    let text = String::from_utf8_lossy(body);
    let mut parts = text.split(PREFIX);
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_cluster = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(digits) = part.get(..CLUSTER).filter(|digits| is_cluster(digits)) {
            all.push_str(own);
            all.push_str(&part[digits.len()..]);
        } else {
            all.push_str(PREFIX);
            all.push_str(part);
        }
    }
    all.into()
}

/// Logs each request with all that is in it.
pub(super) fn whispering(inner: Arc<dyn Exchange>) -> Arc<dyn Exchange> {
    Arc::new(Whispering(inner))
}

struct Whispering(Arc<dyn Exchange>);

#[async_trait]
impl Exchange for Whispering {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let header = request.headers().get(http::header::AUTHORIZATION);
        tracing::debug!(authorization = ?header.map(http::HeaderValue::to_str), "asking the cloud");
        self.0.exchange(request).await
    }
}

/// Tells what the last token was.
pub(super) fn overheard(inner: Arc<dyn Exchange>, by: Overheard) -> Arc<dyn Exchange> {
    Arc::new(Tapped { inner, by })
}

struct Tapped {
    inner: Arc<dyn Exchange>,
    by: Overheard,
}

#[async_trait]
impl Exchange for Tapped {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let header = request.headers().get(http::header::AUTHORIZATION);
        let bearer = header.and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
        if let Some(token) = bearer {
            let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
            *by = Some(token.to_owned());
        }
        self.inner.exchange(request).await
    }
}

struct OneToken {
    inner: Arc<dyn Exchange>,
    first: Mutex<Option<Bytes>>,
}

#[async_trait]
impl Exchange for OneToken {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        if !request.uri().path().ends_with("/identity/token") {
            return self.inner.exchange(request).await;
        }
        let known = self.first.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(body) = known {
            return Ok(Response::new(body));
        }
        let answer = self.inner.exchange(request).await?;
        if answer.status().is_success() {
            let body = Some(answer.body().clone());
            *self.first.lock().unwrap_or_else(PoisonError::into_inner) = body;
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_cluster_become_our_own_and_others_stay() {
        let body = Bytes::from(r#"[{"name":"kib-00000002-a"},{"name":"kib-demo"},{"name":"billing"}]"#);
        assert_eq!(
            renamed(&body, "kib-00000001"),
            r#"[{"name":"kib-00000001-a"},{"name":"kib-demo"},{"name":"billing"}]"#
        );
    }

    #[test]
    fn what_should_go_with_the_machine_is_kept() {
        let order = Bytes::from(r#"{"a":{"auto_delete":true},"delete_volume_on_instance_delete":true}"#);
        assert_eq!(
            lasting(&order),
            r#"{"a":{"auto_delete":false},"delete_volume_on_instance_delete":false}"#
        );
    }
}
