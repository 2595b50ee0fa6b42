//! One request as a service sees it, and its answer.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use jiff::civil::Date;
use serde_json::Value;

use super::errors::Refusal;

/// A request, taken apart.
#[derive(Debug)]
pub(super) struct Ask {
    /// The operation, for faults that strike one of them only: `instances.create`.
    pub(super) operation: &'static str,
    pub(super) params: BTreeMap<String, String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The request's id: the caller's `X-Request-Id`, or one of ours.
    pub(super) trace: String,
    /// The `version` of a VPC request; the oldest date there is elsewhere.
    pub(super) version: Date,
}

impl Ask {
    /// A part of the path; routes name those they have.
    pub(super) fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// A query parameter; an empty one counts as absent, as SDKs drop those.
    pub(super) fn query(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, value)| key == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// A header that is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Refuses the request if it was made for another revision than `etag`.
    pub(super) fn if_match(&self, etag: &str) -> Result<(), Refusal> {
        match self.header("if-match") {
            Some(wanted) if wanted != etag && wanted != "*" => Err(Refusal::status(
                StatusCode::PRECONDITION_FAILED,
                "precondition_failed",
                format!("The If-Match header does not match the current ETag {etag}"),
            )
            .blames("header", "If-Match", Some(wanted))),
            _ => Ok(()),
        }
    }
}

/// What a service answers.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Option<Value>,
    pub(super) etag: Option<String>,
}

impl Answer {
    /// 200
    pub(super) fn ok(body: Value) -> Self {
        Self {
            status: StatusCode::OK,
            body: Some(body),
            etag: None,
        }
    }

    /// 201
    pub(super) fn created(body: Value) -> Self {
        Self {
            status: StatusCode::CREATED,
            body: Some(body),
            etag: None,
        }
    }

    /// 202 with the resource that is going.
    pub(super) fn accepted(body: Value) -> Self {
        Self {
            status: StatusCode::ACCEPTED,
            body: Some(body),
            etag: None,
        }
    }

    /// 204
    pub(super) fn no_content() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            body: None,
            etag: None,
        }
    }

    /// Adds the `ETag` of a single resource.
    pub(super) fn with_etag(mut self, etag: String) -> Self {
        self.etag = Some(etag);
        self
    }
}
