//! A transport that keeps something from its client.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Method, Request, Response};
use serde_json::Value;

use crate::ibm::http::{Exchange, ExchangeError};

/// Lists that end after their first page, and whose totals say nothing.
pub(super) fn first_page_only(inner: Arc<dyn Exchange>) -> Arc<dyn Exchange> {
    Arc::new(Censored {
        inner,
        censor: without_next,
    })
}

/// Answers without `Retry-After`.
pub(super) fn without_retry_after(inner: Arc<dyn Exchange>) -> Arc<dyn Exchange> {
    Arc::new(Censored {
        inner,
        censor: |_, mut answer| {
            answer.headers_mut().remove(RETRY_AFTER);
            answer
        },
    })
}

struct Censored {
    inner: Arc<dyn Exchange>,
    censor: fn(&Method, Response<Bytes>) -> Response<Bytes>,
}

#[async_trait]
impl Exchange for Censored {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let method = request.method().clone();
        let answer = self.inner.exchange(request).await?;
        Ok((self.censor)(&method, answer))
    }
}

fn without_next(method: &Method, answer: Response<Bytes>) -> Response<Bytes> {
    if method != Method::GET || !answer.status().is_success() {
        return answer;
    }
    let Ok(Value::Object(mut page)) = serde_json::from_slice(answer.body()) else {
        return answer;
    };
    if page.remove("next").is_none() {
        return answer;
    }
    page.remove("total_count");
    let body = Value::Object(page).to_string();
    answer.map(|_| body.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Fixed(Value);

    #[async_trait]
    impl Exchange for Fixed {
        async fn exchange(&self, _: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
            let answer = Response::builder().header(RETRY_AFTER, "30");
            Ok(answer.body(self.0.to_string().into()).unwrap())
        }
    }

    async fn ask(exchange: Arc<dyn Exchange>) -> Response<Bytes> {
        exchange.exchange(Request::new(Bytes::new())).await.unwrap()
    }

    fn body(answer: &Response<Bytes>) -> Value {
        serde_json::from_slice(answer.body()).unwrap()
    }

    #[tokio::test]
    async fn the_first_page_looks_like_the_last() {
        let page = json!({"instances": [1], "limit": 1, "next": {"href": "x?start=2"}, "total_count": 2});
        let answer = ask(first_page_only(Arc::new(Fixed(page)))).await;
        assert_eq!(body(&answer), json!({"instances": [1], "limit": 1}));
        let last = json!({"instances": [2], "total_count": 2});
        let answer = ask(first_page_only(Arc::new(Fixed(last.clone())))).await;
        assert_eq!(body(&answer), last);
    }

    #[tokio::test]
    async fn the_wish_for_patience_is_lost_and_nothing_else() {
        let answer = ask(without_retry_after(Arc::new(Fixed(json!({"a": 1}))))).await;
        assert!(answer.headers().get(RETRY_AFTER).is_none());
        assert_eq!(body(&answer), json!({"a": 1}));
    }
}
