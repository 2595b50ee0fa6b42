//! The way of a request: in, past the faults, to the state, past the faults again, out.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::MethodFilter;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header, request};
use http_body_util::{BodyExt, Limited};
use jiff::civil::{Date, date};
use serde_json::Value;

use super::Cloud;
use super::ask::{Answer, Ask};
use super::distortion;
use super::errors::{Refusal, Service};
use super::extra_fields;
use super::faults::{FaultKind, RetryAfter};
use super::ids;
use super::options::Answers;
use super::routes::Route;
use super::state::State;

/// The largest body a service reads: user data of 64 KiB many times over.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The first date that is a version.
const VERSION_FIRST: Date = date(2019, 1, 1);
/// How long clients wait for an answer, and the seconds after that in which they order again.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(30);
const JUST_AFTER: Duration = Duration::from_secs(2);
/// What the network in front of the API says when it is itself in trouble.
const HTML: &str = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway\
                    </h1></center>\r\n<hr><center>cloudflare</center>\r\n</body>\r\n</html>\r\n";

/// Marks a response that must not reach the client: the connection is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost;

/// What the service itself answered, whatever the client is told. An answer without it is a fault's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served(pub(super) StatusCode);

/// What chance has in store for a request.
struct Course {
    wait_before: Duration,
    /// This in place of the service's answer; nothing is done.
    instead: Option<Instead>,
    wait_after: Duration,
    ending: Ending,
}

enum Instead {
    Refusal(Refusal),
    Html,
}

enum Ending {
    Whole,
    Lost,
    ServerError(StatusCode),
    Truncated,
    Empty,
    /// Said to be of this type, or of none.
    Mislabeled(Option<&'static str>),
}

/// Carries out one request.
pub(super) async fn handle(
    cloud: Cloud,
    route: &'static Route,
    params: BTreeMap<String, String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return too_large(route.service),
    };
    let mut ask = take_apart(route, params, &parts, body);
    let course = cloud.with(|state| {
        if ask.trace.is_empty() {
            ask.trace = ids::stable_uuid(&format!("request {}", cloud.request_count()));
        }
        plot(state, route, &ask)
    });
    if route.service != Service::Control {
        cloud.record(
            &parts.method,
            parts.uri.path(),
            parts.uri.query().unwrap_or_default(),
        );
    }
    cloud.sleep(course.wait_before).await;
    if let Some(instead) = course.instead {
        return match instead {
            Instead::Refusal(refusal) => refused(route.service, &ask, &refusal),
            Instead::Html => html(),
        };
    }
    let outcome = cloud.with(|state| {
        let mut outcome = serve(state, route, &mut ask);
        // What is refused is refused, whatever was to come after it.
        if outcome.is_ok() && matches!(course.ending, Ending::ServerError(_)) {
            state.faults.note(FaultKind::ServerErrorAfter, route.operation);
        }
        let simulated = route.service != Service::Control;
        if let Ok(Answer { body: Some(body), .. }) = &mut outcome
            && simulated
        {
            if state.faults.hits(FaultKind::ExtraFields, route.operation) {
                let statuses = extra_fields::Statuses::draw(&mut state.faults);
                extra_fields::add(body, statuses);
            }
            distortion::distort(body, &mut state.faults, route.operation);
        }
        outcome
    });
    cloud.sleep(course.wait_after).await;
    let served = Served(match &outcome {
        Ok(answer) => answer.status,
        Err(refusal) => refusal.status,
    });
    let mut response = finish(route.service, &ask, outcome, &course.ending);
    response.extensions_mut().insert(served);
    response
}

/// The response that stands for a lost connection.
pub(super) fn lost() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response.extensions_mut().insert(Lost);
    response
}

fn take_apart(route: &Route, params: BTreeMap<String, String>, parts: &request::Parts, body: Bytes) -> Ask {
    let query = parts.uri.query().unwrap_or_default();
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    Ask {
        operation: route.operation,
        params,
        query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        trace: header("x-request-id").to_owned(),
        headers: parts.headers.clone(),
        body,
        version: VERSION_FIRST,
    }
}

/// Authentication, version, then the operation itself.
fn serve(state: &mut State, route: &Route, ask: &mut Ask) -> Result<Answer, Refusal> {
    match route.service {
        Service::Vpc => {
            state.check_token(ask)?;
            ask.version = version(state, ask)?;
        }
        Service::Tags | Service::Search | Service::ResourceManager => state.check_token(ask)?,
        Service::Iam | Service::Identity | Service::Catalog | Service::Control | Service::Nobody => {}
    }
    (route.run)(state, ask)
}

/// The `version` and `generation` that every VPC request must have.
fn version(state: &State, ask: &Ask) -> Result<Date, Refusal> {
    let refuse =
        |code: &str, name: &str, message: &str| Err(Refusal::parameter(code, name, ask.query(name), message));
    let Some(version) = ask.query("version") else {
        return refuse(
            "missing_version",
            "version",
            "The version query parameter is required",
        );
    };
    let well_formed = version.len() == "2026-01-01".len();
    let Some(version) = version.parse::<Date>().ok().filter(|_| well_formed) else {
        return refuse(
            "invalid_version",
            "version",
            "The version must be a date of the form YYYY-MM-DD",
        );
    };
    let today = state.now.to_zoned(jiff::tz::TimeZone::UTC).date();
    if version < VERSION_FIRST || version > today {
        return refuse(
            "invalid_version_range",
            "version",
            "The version must be from 2019-01-01 until today",
        );
    }
    match ask.query("generation") {
        None => refuse(
            "missing_generation_parameter",
            "generation",
            "The generation query parameter is required",
        ),
        Some("2") => Ok(version),
        Some(_) => refuse(
            "invalid_generation_parameter",
            "generation",
            "The generation must be 2",
        ),
    }
}

/// Draws what will happen to a request.
fn plot(state: &mut State, route: &Route, ask: &Ask) -> Course {
    let mut course = Course {
        wait_before: Duration::ZERO,
        instead: None,
        wait_after: Duration::ZERO,
        ending: Ending::Whole,
    };
    if route.service == Service::Control {
        return course;
    }
    if state.options.answers == Answers::Realistic {
        let timings = state.options.timings;
        let create = route.operation == "instances.create";
        let latency = state.draw(if create {
            timings.create_answer
        } else {
            timings.answer
        }) / 2;
        (course.wait_before, course.wait_after) = (latency, latency);
    }
    course.instead = refuse_beforehand(state, route, ask);
    if course.instead.is_some() {
        return course;
    }
    let writes = route.method != MethodFilter::GET && matches!(route.service, Service::Vpc | Service::Tags);
    // Whether a write is carried out, so that an error after it is one, shows later.
    let mut hits = |kind| match kind {
        FaultKind::ServerErrorAfter => state.faults.may_hit(kind, route.operation),
        _ => state.faults.hits(kind, route.operation),
    };
    if route.operation == "instances.create" && hits(FaultKind::LateCreate) {
        course.wait_before = late(state);
        course.ending = Ending::Lost;
    } else if route.operation == "instances.create" && hits(FaultKind::LostCreate) {
        course.ending = Ending::Lost;
    } else if writes && hits(FaultKind::ServerErrorAfter) {
        course.ending = Ending::ServerError(server_status(state));
    } else if hits(FaultKind::TruncatedJson) {
        course.ending = Ending::Truncated;
    } else if hits(FaultKind::EmptyBody) {
        course.ending = Ending::Empty;
    } else if hits(FaultKind::WrongContentType) {
        let types = [Some("text/html"), Some("text/plain; charset=utf-8"), None];
        course.ending = Ending::Mislabeled(types[state.faults.pick(types.len())]);
    }
    if state.faults.hits(FaultKind::Slow, route.operation) {
        course.wait_after = state.options.timings.slow;
    }
    course
}

/// How late an order is carried out. Half of the time when the client has just given up, and is about to order again: else that
/// would hardly ever be met.
fn late(state: &mut State) -> Duration {
    let max = state.options.timings.late_create_max;
    match state.faults.pick(2) {
        0 => state.faults.delay(max),
        _ => (GIVEN_UP_AFTER + state.faults.delay(JUST_AFTER)).min(max),
    }
}

/// The answers that come without anything being done.
fn refuse_beforehand(state: &mut State, route: &Route, ask: &Ask) -> Option<Instead> {
    let operation = route.operation;
    let refuse =
        |status, code: &str, message: &str| Some(Instead::Refusal(Refusal::status(status, code, message)));
    if route.service == Service::Iam && state.faults.hits(FaultKind::IamDown, operation) {
        return match state.faults.pick(2) {
            0 => refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "BXNIM0100E",
                "The service is temporarily unavailable.",
            ),
            _ => refuse(StatusCode::TOO_MANY_REQUESTS, "BXNIM0429E", "Too many requests."),
        };
    }
    if state.faults.is_limit_eaten(operation) {
        return Some(Instead::Refusal(too_many(state, None)));
    }
    if let Some(fault) = state.faults.strike(FaultKind::RateLimit, operation) {
        return Some(Instead::Refusal(too_many(state, fault.retry_after)));
    }
    if state.faults.hits(FaultKind::ServerError, operation) {
        return Some(Instead::Refusal(Refusal::server(server_status(state))));
    }
    if operation == "instances.delete" && state.faults.hits(FaultKind::DeleteFails, operation) {
        return Some(Instead::Refusal(Refusal::server(server_status(state))));
    }
    if state.faults.hits(FaultKind::HtmlError, operation) {
        return Some(Instead::Html);
    }
    if matches!(route.service, Service::Vpc | Service::Tags | Service::Search) {
        if state.faults.hits(FaultKind::TokenExpired, operation) {
            return refuse(
                StatusCode::UNAUTHORIZED,
                "token_invalid",
                "The IAM token is invalid or has expired",
            );
        }
        if state.faults.hits(FaultKind::Forbidden, operation) {
            let message = "the provided token is not authorized to the specified resource in this account";
            return refuse(StatusCode::FORBIDDEN, "not_authorized", message);
        }
    }
    let by_id = matches!(operation, "instances.get" | "instances.delete");
    if by_id && state.faults.hits(FaultKind::Spurious404, operation) {
        return Some(Instead::Refusal(super::operations::not_found(ask.param("id"))));
    }
    None
}

fn too_many(state: &mut State, form: Option<RetryAfter>) -> Refusal {
    let message = "Too many requests within a short time.";
    Refusal {
        retry_after: state.faults.retry_after(form),
        ..Refusal::status(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message)
    }
}

fn server_status(state: &mut State) -> StatusCode {
    let statuses = [
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    statuses[state.faults.pick(statuses.len())]
}

fn finish(service: Service, ask: &Ask, outcome: Result<Answer, Refusal>, ending: &Ending) -> Response {
    if let Ending::Lost = ending {
        return lost();
    }
    let answer = match outcome {
        Ok(answer) => answer,
        Err(refusal) => return refused(service, ask, &refusal),
    };
    if let Ending::ServerError(status) = ending {
        return refused(service, ask, &Refusal::server(*status));
    }
    let whole = answer.body.as_ref().map(Value::to_string).unwrap_or_default();
    let body = match ending {
        Ending::Truncated => whole[..cut_point(&whole)].to_owned(),
        Ending::Empty => String::new(),
        _ => whole,
    };
    let mut response = respond(answer.status, body, ask);
    if let Ending::Mislabeled(content_type) = ending {
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_TYPE);
        headers.extend(content_type.map(|it| (header::CONTENT_TYPE, HeaderValue::from_static(it))));
    }
    if let Some(etag) = answer.etag.and_then(|etag| HeaderValue::from_str(&etag).ok()) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// The middle of a text, at a character boundary.
fn cut_point(text: &str) -> usize {
    (0..=text.len() / 2)
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

fn refused(service: Service, ask: &Ask, refusal: &Refusal) -> Response {
    let mut response = respond(refusal.status, refusal.body(service, &ask.trace).to_string(), ask);
    if let Some(value) = refusal
        .retry_after
        .as_deref()
        .and_then(|value| HeaderValue::from_str(value).ok())
    {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

fn respond(status: StatusCode, body: String, ask: &Ask) -> Response {
    let empty = body.is_empty();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if !empty {
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json; charset=utf-8"),
        );
    }
    headers.insert(header::SERVER, HeaderValue::from_static("cloudflare"));
    if let Ok(trace) = HeaderValue::from_str(&ask.trace) {
        headers.insert("x-request-id", trace.clone());
        headers.insert("x-correlation-id", trace);
    }
    response
}

fn html() -> Response {
    let mut response = Response::new(Body::from(HTML));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    headers.insert(header::SERVER, HeaderValue::from_static("cloudflare"));
    headers.insert("cf-ray", HeaderValue::from_static("8f1a2b3c4d5e6f70-DFW"));
    response
}

fn too_large(service: Service) -> Response {
    let message = format!("The request body is larger than {BODY_BYTES_MAX} bytes");
    let refusal = Refusal::status(
        StatusCode::PAYLOAD_TOO_LARGE,
        "http_request_size_exceeded",
        message,
    );
    let mut response = Response::new(Body::from(refusal.body(service, "").to_string()));
    *response.status_mut() = refusal.status;
    response
}

/// A request that the simulator has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it came in.
    pub at: jiff::Timestamp,
    pub method: Method,
    pub path: String,
    /// Without the question mark.
    pub query: String,
}
