//! How the API server says no: a `Status` object with the code and reason that a real one gives.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

use super::schema::Cause;

/// A request that is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    code: u16,
    reason: &'static str,
    /// A reason of a webhook's own, which wins.
    given_reason: Option<String>,
    message: String,
    details: Map<String, Value>,
    causes: Vec<Cause>,
    empty_details: EmptyDetails,
}

/// Whether `details` are there even with nothing in them: a real server writes them so where it makes the answer from
/// the HTTP status alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EmptyDetails {
    Omitted,
    Shown,
}

/// What a refusal is about: group, plural and name, as `details` wants them.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The API group, empty for the core.
    pub group: &'a str,
    /// The plural name of the resource (the kind's name where the object itself is invalid).
    pub kind: &'a str,
    /// The name of the object, empty for a collection.
    pub name: &'a str,
}

impl<'a> About<'a> {
    /// The options of a request, which are objects too.
    pub fn options(kind: &'a str) -> Self {
        Self {
            group: "meta.k8s.io",
            kind,
            name: "",
        }
    }
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            given_reason: None,
            message: message.into(),
            details: Map::new(),
            causes: Vec::new(),
            empty_details: EmptyDetails::Omitted,
        }
    }

    fn of_status(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            empty_details: EmptyDetails::Shown,
            ..Self::new(code, reason, message)
        }
    }

    fn about(mut self, about: About<'_>) -> Self {
        for (field, value) in [("name", about.name), ("group", about.group), ("kind", about.kind)] {
            if !value.is_empty() {
                self.details.insert(field.to_owned(), value.into());
            }
        }
        self
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: nobody knows who asks.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403: whoever asks may not. Without a name it is about all objects, without a kind about a path.
    pub fn forbidden(about: About<'_>, why: impl Into<String>) -> Self {
        let what = match (about.kind, about.name) {
            ("", _) => "forbidden".to_owned(),
            (_, "") => format!("{} is forbidden", resource(about)),
            (_, name) => format!("{} \"{name}\" is forbidden", resource(about)),
        };
        Self::of_status(403, "Forbidden", format!("{what}: {}", why.into())).about(about)
    }

    /// 404: no such object.
    pub fn not_found(about: About<'_>) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} \"{}\" not found", resource(about), about.name),
        )
        .about(about)
    }

    /// 404: no such path; the server has no such resource at all.
    pub fn no_such_path() -> Self {
        Self::of_status(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// 405: the resource does not know the verb.
    pub fn method_not_allowed() -> Self {
        Self::of_status(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// 409: the object was changed since it was read.
    pub fn conflict(about: About<'_>, why: impl Into<String>) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{}\": {}",
            resource(about),
            about.name,
            why.into()
        );
        Self::new(409, "Conflict", message).about(about)
    }

    /// 409: an object of that name exists.
    pub fn already_exists(about: About<'_>) -> Self {
        let message = format!("{} \"{}\" already exists", resource(about), about.name);
        Self::new(409, "AlreadyExists", message).about(about)
    }

    /// 410: the version asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413: too large.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 406: a form that there is none of.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// 406: a media type that nobody has heard of.
    pub fn unknown_media_type(message: impl Into<String>) -> Self {
        Self::of_status(406, "NotAcceptable", message)
    }

    /// 415: a patch of a type that this resource does not take.
    pub fn unsupported_patch_type(message: impl Into<String>) -> Self {
        Self::of_status(415, "UnsupportedMediaType", message)
    }

    /// 415: a content type that this resource does not take.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 422: the object is well-formed but not valid. `about.kind` is the kind here, not the plural.
    pub fn invalid(about: About<'_>, causes: Vec<Cause>) -> Self {
        let list: Vec<_> = causes.iter().map(ToString::to_string).collect();
        let list = match list.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let message = format!("{} \"{}\" is invalid: {list}", resource(about), about.name);
        let mut refusal = Self::new(422, "Invalid", message).about(about);
        refusal.causes = causes;
        refusal
    }

    /// 429: later. `seconds` becomes `retryAfterSeconds` and the `Retry-After` header.
    pub fn too_many_requests(message: impl Into<String>, seconds: u32) -> Self {
        let mut refusal = Self::new(429, "TooManyRequests", message);
        if seconds > 0 {
            refusal
                .details
                .insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        refusal
    }

    /// 504: the server has not caught up yet; try again after so many seconds.
    pub fn timeout(message: impl Into<String>, seconds: u32) -> Self {
        let mut refusal = Self::new(504, "Timeout", message);
        refusal
            .details
            .insert("retryAfterSeconds".to_owned(), seconds.into());
        refusal
    }

    /// 500: the server itself is at a loss.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// 500 in the words of a real server, which names the problem as a cause too.
    pub fn internal_error(problem: &str) -> Self {
        let mut refusal = Self::internal(format!("Internal error occurred: {problem}"));
        refusal
            .details
            .insert("causes".to_owned(), json!([{ "message": problem }]));
        refusal
    }

    /// What a webhook refuses with: its own code, reason and details.
    pub fn of_webhook(code: u16, reason: &str, message: String, details: Map<String, Value>) -> Self {
        Self {
            code,
            reason: "",
            given_reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
            message,
            details,
            causes: Vec::new(),
            empty_details: EmptyDetails::Omitted,
        }
    }

    /// 500 without a reason: how a real server answers a patch that it did not expect.
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 422 without details: a patch that does not apply to the object.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::of_status(422, "Invalid", message)
    }

    /// 409: others own fields that are applied, one cause each.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        Self::new(409, "Conflict", message).with_causes(causes)
    }

    /// Adds causes to any refusal.
    #[must_use]
    pub fn with_causes(mut self, causes: Vec<Cause>) -> Self {
        self.causes.extend(causes);
        self
    }

    /// The HTTP status.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The machine-readable reason.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// The words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let mut details = self.details.clone();
        if !self.causes.is_empty() {
            let causes: Vec<Value> = self.causes.iter().map(cause_json).collect();
            details.insert("causes".to_owned(), causes.into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        // A webhook, or a patch that nobody expected, may fail without a reason.
        let reason = self.given_reason.as_deref().unwrap_or(self.reason);
        if !reason.is_empty() {
            status["reason"] = reason.into();
        }
        if !details.is_empty() || self.empty_details == EmptyDetails::Shown {
            status["details"] = details.into();
        }
        status
    }
}

fn cause_json(cause: &Cause) -> Value {
    let mut json = json!({"reason": cause.reason.as_str(), "message": cause.message});
    if !cause.field.is_empty() {
        json["field"] = cause.field.clone().into();
    } else if cause.reason.is_about_a_field() {
        // How Go prints the path to the whole object.
        json["field"] = "<nil>".into();
    }
    json
}

fn resource(about: About<'_>) -> String {
    if about.group.is_empty() {
        about.kind.to_owned()
    } else {
        format!("{}.{}", about.kind, about.group)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.status().to_string()));
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.details.get("retryAfterSeconds").and_then(Value::as_u64) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
