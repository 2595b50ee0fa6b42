//! From an answer to a decision: HTTP status and IBM's code to [`Error`], never the message text.
//!
//! The published list of codes is gone and new ones appear, so the status decides first, then known codes and their
//! regular prefixes and suffixes. Bodies may be HTML (the endpoint sits behind Cloudflare), empty or cut short.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;

use super::trace::REQUEST_ID;
use super::{ExchangeError, Operation, Service, retry_after};
use crate::clock::Clock;
use crate::cloud::{Answer, Effect, Error};

/// How long to stay away after a 429 that does not say.
const RATE_LIMIT_DEFAULT: std::time::Duration = std::time::Duration::from_secs(5);

/// The longest part of a message that is kept: enough to read, too little to flood a log or an event.
const MESSAGE_CHARS_MAX: usize = 500;

/// Why an answer with a non-success status is an error.
pub fn refusal(operation: Operation, subject: &str, answer: &Response<Bytes>, clock: &Clock) -> Error {
    let reported = Reported::read(answer);
    let summary = Box::new(reported.summary(operation, subject, answer.status()));
    let status = answer.status();
    if status == StatusCode::TOO_MANY_REQUESTS {
        let wait = retry_after::parse(answer.headers(), clock.now()).unwrap_or(RATE_LIMIT_DEFAULT);
        return Error::RateLimited {
            until: clock.instant() + wait,
            answer: summary,
        };
    }
    if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED {
        return Error::Transient {
            effect: Effect::Unknown,
            answer: summary,
        };
    }
    if status == StatusCode::REQUEST_TIMEOUT {
        return Error::Transient {
            effect: Effect::Unknown,
            answer: summary,
        };
    }
    if !status.is_client_error() && status != StatusCode::NOT_IMPLEMENTED {
        // A redirect or something stranger: not from the API we think we speak to.
        return Error::Undecodable {
            effect: Effect::Unknown,
            answer: summary,
        };
    }
    if !reported.understood {
        // A 4xx that is not in the service's own words comes from something in between.
        return Error::Undecodable {
            effect: Effect::None,
            answer: summary,
        };
    }
    by_code(operation, status, reported, summary)
}

fn by_code(operation: Operation, status: StatusCode, reported: Reported, answer: Box<Answer>) -> Error {
    match (status.as_u16(), code_class(&reported.code)) {
        (401, _) => Error::Unauthorized(answer),
        // IAM answers 400 for a key that it does not know.
        (_, _) if operation.service == Service::Iam => Error::Unauthorized(answer),
        (403, _) => Error::Forbidden(answer),
        (404, _) => match operation.resource {
            Some(resource) if is_about(&reported.code, resource, operation.service) => {
                Error::NotFound(answer)
            }
            _ => Error::BadRequest {
                field: reported.field,
                answer,
            },
        },
        (_, Some(CodeClass::NoAddress)) => Error::NoAddress(answer),
        (_, Some(CodeClass::NoCapacity)) => Error::NoCapacity(answer),
        (_, Some(CodeClass::Quota)) => Error::Quota(answer),
        (400 | 409, Some(CodeClass::NameTaken)) => Error::NameTaken(answer),
        // A page token of a list that has moved on is no fault of the request.
        (400, _) if operation.resource.is_none() && reported.field.as_deref() == Some("start") => {
            Error::Transient {
                effect: Effect::None,
                answer,
            }
        }
        (409 | 412, _) => Error::Conflict(answer),
        _ => Error::BadRequest {
            field: reported.field,
            answer,
        },
    }
}

enum CodeClass {
    NameTaken,
    Quota,
    NoAddress,
    NoCapacity,
}

fn code_class(code: &str) -> Option<CodeClass> {
    match code {
        "validation_unique_failed" => Some(CodeClass::NameTaken),
        "subnet_out_of_ip_addresses" => Some(CodeClass::NoAddress),
        // Shortage is normally told by the instance's status reasons after a 201; no synchronous code is documented,
        // so the names of the asynchronous reasons are understood here too.
        "cannot_start_capacity" | "insufficient_capacity" | "capacity_unavailable" => {
            Some(CodeClass::NoCapacity)
        }
        "volume_quota_reached" => Some(CodeClass::Quota),
        _ if code.ends_with("over_quota") => Some(CodeClass::Quota),
        _ if code.ends_with("_name_exists") || code.ends_with("_name_duplicate") => {
            Some(CodeClass::NameTaken)
        }
        _ => None,
    }
}

/// Whether a 404 with this code speaks of the resource that the path named.
fn is_about(code: &str, resource: &str, service: Service) -> bool {
    // The catalogue's 404 carries no code of its own; its body was understood, and the path names one entry.
    code == "not_found"
        || code
            .strip_suffix("_not_found")
            .is_some_and(|kind| kind == resource)
        || (service == Service::Catalog && code.is_empty())
}

/// Why an exchange that gave no answer is an error.
pub fn no_answer(operation: Operation, subject: &str, error: &ExchangeError) -> Error {
    let answer = Box::new(Answer {
        operation: operation.name,
        subject: subject.to_owned(),
        message: error.to_string(),
        ..Answer::default()
    });
    match error {
        ExchangeError::NoToken(error) => (**error).clone(),
        ExchangeError::Held(until) => Error::RateLimited {
            until: *until,
            answer,
        },
        ExchangeError::NotSent(_) | ExchangeError::TooLate => Error::Transient {
            effect: Effect::None,
            answer,
        },
        ExchangeError::Lost(_) | ExchangeError::Deadline(_) => Error::Transient {
            effect: Effect::Unknown,
            answer,
        },
    }
}

/// Why an answer that claims success is an error: its body is not what it should be.
pub fn undecodable(operation: Operation, subject: &str, answer: &Response<Bytes>, problem: &str) -> Error {
    let summary = Answer {
        operation: operation.name,
        subject: subject.to_owned(),
        status: Some(answer.status().as_u16()),
        code: String::new(),
        message: shortened(problem),
        trace: header_trace(answer),
    };
    Error::Undecodable {
        effect: Effect::Unknown,
        answer: Box::new(summary),
    }
}

/// What a service said, in whichever of IBM's shapes it said it.
#[derive(Debug, Default)]
struct Reported {
    understood: bool,
    code: String,
    message: String,
    field: Option<String>,
    trace: String,
}

impl Reported {
    fn read(answer: &Response<Bytes>) -> Self {
        let mut reported = serde_json::from_slice::<Body>(answer.body()).map_or_else(
            |_| Self {
                message: not_json(answer.body()),
                ..Self::default()
            },
            Self::from_body,
        );
        if reported.trace.is_empty() {
            reported.trace = header_trace(answer);
        }
        reported.message = shortened(&reported.message);
        reported
    }

    /// VPC, tagging, search and the resource manager say `errors`, IAM says `errorCode`, the catalogue `message`.
    fn from_body(body: Body) -> Self {
        let trace = body.trace.unwrap_or_default();
        if let Some(first) = body.errors.into_iter().flatten().next() {
            let target = first
                .target
                .and_then(|target| target.name)
                .filter(|name| !name.is_empty());
            let (code, message) = (first.code.unwrap_or_default(), first.message.unwrap_or_default());
            return Self {
                understood: true,
                code,
                message,
                field: target,
                trace,
            };
        }
        if let Some(code) = body.error_code {
            let message = body.error_message.unwrap_or_default();
            let trace = body
                .context
                .and_then(|context| context.request_id)
                .unwrap_or(trace);
            return Self {
                understood: true,
                code,
                message,
                field: None,
                trace,
            };
        }
        let understood = body.message.is_some();
        Self {
            understood,
            message: body.message.unwrap_or_default(),
            trace,
            ..Self::default()
        }
    }

    fn summary(&self, operation: Operation, subject: &str, status: StatusCode) -> Answer {
        Answer {
            operation: operation.name,
            subject: subject.to_owned(),
            status: Some(status.as_u16()),
            code: self.code.clone(),
            message: self.message.clone(),
            trace: self.trace.clone(),
        }
    }
}

#[derive(Deserialize)]
struct Body {
    errors: Option<Vec<BodyError>>,
    trace: Option<String>,
    #[serde(rename = "errorCode")]
    error_code: Option<String>,
    #[serde(rename = "errorMessage")]
    error_message: Option<String>,
    context: Option<BodyContext>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct BodyError {
    code: Option<String>,
    message: Option<String>,
    target: Option<BodyTarget>,
}

#[derive(Deserialize)]
struct BodyTarget {
    name: Option<String>,
}

#[derive(Deserialize)]
struct BodyContext {
    #[serde(rename = "requestId")]
    request_id: Option<String>,
}

fn header_trace(answer: &Response<Bytes>) -> String {
    answer
        .headers()
        .get(REQUEST_ID)
        .and_then(|id| id.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

/// What to say of a body that is not JSON; its text is not repeated, since a proxy's page may be anything.
fn not_json(body: &[u8]) -> String {
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => "the body is empty".to_owned(),
        Some(b'<') => "the body is HTML, not the API's".to_owned(),
        Some(_) => "the body is not the API's JSON".to_owned(),
    }
}

fn shortened(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(MESSAGE_CHARS_MAX)
        .collect()
}

#[cfg(test)]
mod tests;
