use std::time::Duration;

use http::header::RETRY_AFTER;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const GET: Operation = Operation::on(Service::Vpc, "get instance", "instance");
const LIST: Operation = Operation::list(Service::Vpc, "list instances");
const CREATE: Operation = Operation::create(Service::Vpc, "create instance");

fn answer(status: u16, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

fn ibm(status: u16, code: &str, field: &str) -> Response<Bytes> {
    let body = json!({
        "errors": [{"code": code, "message": "words that mean nothing: not_found 404 over_quota",
                    "target": {"name": field, "type": "field", "value": "x"}}],
        "trace": "8a5c42e3",
    });
    answer(status, body.to_string())
}

fn kind(operation: Operation, answer: &Response<Bytes>) -> &'static str {
    refusal(operation, "x", answer, &Clock::system()).kind()
}

#[test]
fn ibms_codes_become_decisions() {
    let table = [
        (GET, 404, "not_found", "not_found"),
        (GET, 404, "instance_not_found", "not_found"),
        (GET, 404, "image_not_found", "bad_request"),
        (LIST, 404, "not_found", "bad_request"),
        (CREATE, 404, "subnet_not_found", "bad_request"),
        (CREATE, 400, "validation_unique_failed", "name_taken"),
        (CREATE, 400, "instance_name_exists", "name_taken"),
        (CREATE, 400, "volume_name_duplicate", "name_taken"),
        (CREATE, 400, "over_quota", "quota"),
        (CREATE, 400, "instance_sec_volume_over_quota", "quota"),
        (CREATE, 400, "volume_quota_reached", "quota"),
        (CREATE, 400, "subnet_out_of_ip_addresses", "no_address"),
        (CREATE, 409, "subnet_out_of_ip_addresses", "no_address"),
        (CREATE, 409, "insufficient_capacity", "no_capacity"),
        (CREATE, 400, "volume_capacity_max", "bad_request"),
        (CREATE, 400, "bad_field", "bad_request"),
        (CREATE, 401, "token_invalid", "unauthorized"),
        (CREATE, 403, "not_authorized", "forbidden"),
        (GET, 409, "instance_delete_conflict", "conflict"),
        (GET, 412, "precondition_failed", "conflict"),
        (GET, 429, "rate_limit_exceeded", "rate_limited"),
        (GET, 500, "internal_error", "transient"),
        (GET, 503, "not_found", "transient"),
        (GET, 501, "not_implemented", "bad_request"),
        (GET, 302, "found", "undecodable"),
    ];
    for (operation, status, code, expected) in table {
        assert_eq!(
            kind(operation, &ibm(status, code, "name")),
            expected,
            "{} {status} {code}",
            operation.name
        );
    }
}

#[test]
fn an_expired_page_token_is_no_fault_of_the_request() {
    assert_eq!(kind(LIST, &ibm(400, "bad_field", "start")), "transient");
    assert_eq!(kind(LIST, &ibm(400, "bad_field", "limit")), "bad_request");
}

#[test]
fn bodies_that_are_not_the_apis_prove_nothing() {
    for body in [
        "",
        "<html>404 Not Found</html>",
        "{\"errors\":[{\"code\":\"not_fou",
        "[]",
        "null",
        "not_found",
    ] {
        assert_eq!(kind(GET, &answer(404, body)), "undecodable", "{body}");
        assert_eq!(kind(GET, &answer(502, body)), "transient", "{body}");
    }
}

#[test]
fn a_bad_request_carries_field_message_and_trace() {
    let error = refusal(
        CREATE,
        "kib-1",
        &ibm(400, "bad_field", "zone.name"),
        &Clock::system(),
    );
    let Error::BadRequest { field, answer } = error else {
        panic!("{error}")
    };
    assert_eq!(field.as_deref(), Some("zone.name"));
    assert_eq!(
        (answer.status, answer.code.as_str(), answer.trace.as_str()),
        (Some(400), "bad_field", "8a5c42e3")
    );
}

#[test]
fn an_unknown_api_key_is_unauthorized_although_iam_says_400() {
    let token = Operation::create(Service::Iam, "fetch token");
    let body = json!({"errorCode": "BXNIM0415E", "errorMessage": "Provided API key could not be found.",
                      "context": {"requestId": "abc"}});
    let error = refusal(token, "", &answer(400, body.to_string()), &Clock::system());
    assert_eq!(
        (error.kind(), error.answer().trace.as_str()),
        ("unauthorized", "abc")
    );
    assert_eq!(kind(token, &answer(400, "<html>")), "undecodable");
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_says_until_when() {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
    let mut limited = ibm(429, "rate_limit_exceeded", "");
    limited.headers_mut().insert(RETRY_AFTER, "7".parse().unwrap());
    let Error::RateLimited { until, .. } = refusal(GET, "", &limited, &clock) else {
        panic!()
    };
    assert_eq!(until - clock.instant(), Duration::from_secs(7));
}

#[test]
fn only_a_request_that_never_left_certainly_had_no_effect() {
    let lost = no_answer(CREATE, "", &ExchangeError::Lost("reset".into()));
    assert_eq!(lost.effect(), Effect::Unknown);
    let unsent = no_answer(CREATE, "", &ExchangeError::NotSent("refused".into()));
    assert_eq!(unsent.effect(), Effect::None);
    assert_eq!(
        refusal(CREATE, "", &answer(502, ""), &Clock::system()).effect(),
        Effect::Unknown
    );
    assert_eq!(
        undecodable(CREATE, "", &answer(201, "{"), "eof").effect(),
        Effect::Unknown
    );
}

fn codes() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("not_found".to_owned()),
        Just("instance_not_found".to_owned()),
        "[a-z]{1,8}_not_found",
        "[a-z_]{0,20}",
        Just("over_quota".to_owned()),
    ]
}

proptest! {
    #[test]
    fn nothing_but_that_resources_404_is_not_found(
        status in 300u16..600,
        code in codes(),
        message in ".{0,40}",
        list in prop::bool::ANY,
        cut in prop::option::of(0usize..80),
    ) {
        let body = json!({"errors": [{"code": code, "message": message}], "trace": "t"}).to_string();
        let whole = cut.is_none_or(|at| at >= body.len());
        let bytes = Bytes::copy_from_slice(&body.as_bytes()[..cut.unwrap_or(body.len()).min(body.len())]);
        let operation = if list { LIST } else { GET };
        let expected = !list && whole && status == 404 && (code == "not_found" || code == "instance_not_found");
        let error = refusal(operation, "x", &answer(status, bytes), &Clock::system());
        prop_assert_eq!(error.is_not_found(), expected, "{}", error);
    }

    #[test]
    fn classification_is_total_and_keeps_messages_short(status in 300u16..600, body in prop::collection::vec(any::<u8>(), 0..200)) {
        let error = refusal(GET, "x", &answer(status, body), &Clock::system());
        prop_assert!(error.to_string().chars().count() < MESSAGE_CHARS_MAX + 200);
        prop_assert!(!error.is_not_found());
    }
}
