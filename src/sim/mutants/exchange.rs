//! A transport that keeps something from its client.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Method, Request, Response};
use serde_json::Value;

use crate::ibm::http::{Exchange, ExchangeError};

/// Lists of machines that end after their first page, and whose totals say nothing. Pages are asked for two machines at
/// a time: with the hundred that the product asks for, a world of dozens would never see a second one. Other lists are
/// left whole: without half of the subnets nothing would be bought, and nothing could be overlooked.
pub(super) fn first_page_only(inner: Arc<dyn Exchange>) -> Arc<dyn Exchange> {
    Arc::new(Censored {
        inner,
        on: |request| request.method() == Method::GET && request.uri().path().ends_with("/instances"),
        ask: in_short_pages,
        censor: without_next,
    })
}

/// Answers without `Retry-After`.
pub(super) fn without_retry_after(inner: Arc<dyn Exchange>) -> Arc<dyn Exchange> {
    Arc::new(Censored {
        inner,
        on: |_| true,
        ask: |request| request,
        censor: |mut answer| {
            answer.headers_mut().remove(RETRY_AFTER);
            answer
        },
    })
}

struct Censored {
    inner: Arc<dyn Exchange>,
    /// Which requests are tampered with.
    on: fn(&Request<Bytes>) -> bool,
    ask: fn(Request<Bytes>) -> Request<Bytes>,
    censor: fn(Response<Bytes>) -> Response<Bytes>,
}

#[async_trait]
impl Exchange for Censored {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        if !(self.on)(&request) {
            return self.inner.exchange(request).await;
        }
        let answer = self.inner.exchange((self.ask)(request)).await?;
        Ok((self.censor)(answer))
    }
}

fn in_short_pages(mut request: Request<Bytes>) -> Request<Bytes> {
    let short = request.uri().to_string().replace("limit=100", "limit=2");
    if let Ok(uri) = short.parse() {
        *request.uri_mut() = uri;
    }
    request
}

fn without_next(answer: Response<Bytes>) -> Response<Bytes> {
    if !answer.status().is_success() {
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

    async fn ask(exchange: Arc<dyn Exchange>, path: &str) -> Response<Bytes> {
        let request = Request::builder().uri(path).body(Bytes::new()).unwrap();
        exchange.exchange(request).await.unwrap()
    }

    fn body(answer: &Response<Bytes>) -> Value {
        serde_json::from_slice(answer.body()).unwrap()
    }

    #[tokio::test]
    async fn the_first_page_looks_like_the_last() {
        let page = json!({"instances": [1], "limit": 1, "next": {"href": "x?start=2"}, "total_count": 2});
        let answer = ask(first_page_only(Arc::new(Fixed(page.clone()))), "/v1/instances").await;
        assert_eq!(body(&answer), json!({"instances": [1], "limit": 1}));
        let last = json!({"instances": [2], "total_count": 2});
        let answer = ask(first_page_only(Arc::new(Fixed(last.clone()))), "/v1/instances").await;
        assert_eq!(body(&answer), last);
        let answer = ask(first_page_only(Arc::new(Fixed(page.clone()))), "/v1/subnets").await;
        assert_eq!(body(&answer), page);
    }

    #[test]
    fn pages_are_asked_for_two_items_at_a_time() {
        let ask = |uri: &str| {
            let request = Request::builder().uri(uri).body(Bytes::new()).unwrap();
            in_short_pages(request).uri().to_string()
        };
        assert_eq!(
            ask("https://a/v1/instances?limit=100&b=1"),
            "https://a/v1/instances?limit=2&b=1"
        );
        assert_eq!(ask("https://a/v1/instances/x"), "https://a/v1/instances/x");
    }

    #[tokio::test]
    async fn the_wish_for_patience_is_lost_and_nothing_else() {
        let answer = ask(without_retry_after(Arc::new(Fixed(json!({"a": 1})))), "/").await;
        assert!(answer.headers().get(RETRY_AFTER).is_none());
        assert_eq!(body(&answer), json!({"a": 1}));
    }
}
