//! A typed call: builds the request, sends it through the layers, classifies and decodes the answer.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Exchange, Operation, SendBy, Service, classify};
use crate::clock::Clock;
use crate::cloud::Error;
use crate::ibm::endpoints::Endpoint;

/// What may stand in a path segment as it is; everything else is escaped, so an id can never become a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// One service under one base address.
#[derive(Clone)]
pub struct Api {
    endpoint: Endpoint,
    exchange: Arc<dyn Exchange>,
    clock: Clock,
}

/// One request in the making.
#[derive(Debug)]
pub struct Call {
    operation: Operation,
    method: Method,
    path: String,
    subject: String,
    query: Vec<(&'static str, String)>,
    headers: HeaderMap,
    body: Bytes,
    send_by: Option<SendBy>,
}

impl Call {
    /// A call of `operation` by `method`; path segments are escaped.
    pub fn new(operation: Operation, method: Method, segments: &[&str]) -> Self {
        let path = segments.iter().fold(String::new(), |path, segment| {
            path + "/" + &utf8_percent_encode(segment, SEGMENT).to_string()
        });
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Self {
            operation,
            method,
            path,
            subject: String::new(),
            query: Vec::new(),
            headers,
            body: Bytes::new(),
            send_by: None,
        }
    }

    /// Says until when it may be sent.
    #[must_use]
    pub fn send_by(mut self, at: Option<SendBy>) -> Self {
        self.send_by = at;
        self
    }

    /// Names what the call is about, for people.
    #[must_use]
    pub fn about(mut self, subject: &str) -> Self {
        subject.clone_into(&mut self.subject);
        self
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Adds a query parameter if there is a value for it.
    #[must_use]
    pub fn query_opt(self, name: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: http::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sends `body` as JSON.
    #[must_use]
    pub fn json(self, body: &impl Serialize) -> Self {
        self.encoded(body, "application/json")
    }

    /// Sends `body` as an RFC 7396 patch, the content type that the VPC API demands for PATCH.
    #[must_use]
    pub fn merge_patch(self, body: &impl Serialize) -> Self {
        self.encoded(body, "application/merge-patch+json")
    }

    /// Sends `fields` as a form.
    #[must_use]
    pub fn form(mut self, fields: &[(&str, &str)]) -> Self {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        self.body = form.finish().into();
        self.headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        );
        self
    }

    fn encoded(mut self, body: &impl Serialize, content_type: &'static str) -> Self {
        // Our own request types have string keys and no failing serializers; an empty body would be refused by the
        // server with a 400 and so would not pass unnoticed.
        self.body = serde_json::to_vec(body).unwrap_or_default().into();
        self.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self
    }
}

impl Api {
    /// The service at `endpoint`, reached through `exchange`.
    pub fn new(endpoint: Endpoint, exchange: Arc<dyn Exchange>, clock: Clock) -> Self {
        Self {
            endpoint,
            exchange,
            clock,
        }
    }

    /// Sends the call and decodes the body of a success.
    pub async fn fetch<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let (operation, subject) = (call.operation, call.subject.clone());
        let answer = self.send(call).await?;
        serde_json::from_slice(answer.body()).map_err(|error| {
            classify::undecodable(operation, &subject, &answer, &decode_problem(operation, &error))
        })
    }

    /// Sends the call; any success will do, whatever its body (204 has none, 202 may have one).
    pub async fn perform(&self, call: Call) -> Result<(), Error> {
        self.send(call).await.map(drop)
    }

    async fn send(&self, call: Call) -> Result<Response<Bytes>, Error> {
        let (operation, subject) = (call.operation, call.subject.clone());
        let outcome = self.exchange.exchange(self.request(call)).await;
        let answer = outcome.map_err(|error| classify::no_answer(operation, &subject, &error))?;
        if answer.status().is_success() {
            Ok(answer)
        } else {
            Err(classify::refusal(operation, &subject, &answer, &self.clock))
        }
    }

    fn request(&self, call: Call) -> Request<Bytes> {
        let mut request = Request::new(call.body);
        *request.method_mut() = call.method;
        *request.uri_mut() = self.uri(&call.path, &call.query);
        *request.headers_mut() = call.headers;
        request.extensions_mut().insert(call.operation);
        if let Some(send_by) = call.send_by {
            request.extensions_mut().insert(send_by);
        }
        request
    }

    fn uri(&self, path: &str, query: &[(&'static str, String)]) -> Uri {
        let mut text = format!("{}{path}", self.endpoint.as_str());
        if !query.is_empty() {
            let mut pairs = form_urlencoded::Serializer::new(String::new());
            pairs.extend_pairs(query);
            text = format!("{text}?{}", pairs.finish());
        }
        // The endpoint was validated and path and query are escaped; were it still no URI, the empty one would be
        // refused by the transport as a request that cannot be sent.
        Uri::try_from(text).unwrap_or_default()
    }
}

/// serde's message names the field, but quotes data; a token's answer must never be quoted.
fn decode_problem(operation: Operation, error: &serde_json::Error) -> String {
    match operation.service {
        Service::Iam | Service::Metadata => {
            format!(
                "{:?} error at line {} column {}",
                error.classify(),
                error.line(),
                error.column()
            )
        }
        _ => error.to_string(),
    }
}
