//! The endpoint that IBM Event Notifications calls when the platform has chosen a spot machine for preemption
//! (platform log `instance.00002`). Off unless it is configured.
//!
//! A call proves nothing: it makes the machines that it names be looked at, through the VPC API. So what a caller could
//! gain is little, and still each call must bear the shared secret, be fresh and be new: its CloudEvents `time` may be
//! five minutes old at most and its `id` must not have been seen. Only the replica that leads looks at machines, so the
//! others take no call: whoever makes it makes it again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use jiff::Timestamp;
use regex::Regex;
use serde::Deserialize;

use super::settings::{RawSettings, SettingError};
use crate::clock::{Clock, between};
use crate::controllers::Notices;
use crate::secret::Secret;

/// Where notifications are sent to.
pub const PATH: &str = "/v1/interruptions";
/// The header with the shared secret, which a webhook destination is given as a custom header.
pub const SECRET_HEADER: &str = "x-karpenter-ibm-secret";
/// How old a notification may be, and how far the two clocks may be apart.
const FRESH_FOR: Duration = Duration::from_mins(5);
/// A notification is a few hundred bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Ids that are remembered, more than a wave of preemptions within [`FRESH_FOR`]; beyond, notifications are refused.
const SEEN_MAX: usize = 10_000;
/// A shorter secret can be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// Where notifications are taken, and what they must bear.
#[derive(Clone, Debug)]
pub struct PushSettings {
    /// The address.
    pub listen: SocketAddr,
    /// The shared secret.
    pub secret: Secret,
}

impl PushSettings {
    /// Both settings or none.
    pub(super) fn validate(raw: &RawSettings) -> Result<Option<Self>, SettingError> {
        match (raw.push_listen, &raw.push_secret_file) {
            (None, None) => Ok(None),
            (Some(listen), Some(path)) => Ok(Some(Self {
                listen,
                secret: secret(path)?,
            })),
            _ => Err(SettingError {
                setting: "--push-listen",
                problem: "it goes with --push-secret-file, and only one of them is set".to_owned(),
                may_be: "set both, or none to be told of preemptions by polling and by kubelets only"
                    .to_owned(),
            }),
        }
    }
}

fn secret(path: &PathBuf) -> Result<Secret, SettingError> {
    let wrong = |problem: String| SettingError {
        setting: "--push-secret-file",
        problem,
        may_be: format!("the path of a file with at least {SECRET_BYTES_MIN} characters that nobody guesses"),
    };
    let text = std::fs::read_to_string(Path::new(path))
        .map_err(|error| wrong(format!("cannot read {}: {error}", path.display())))?;
    let text = text.trim().to_owned();
    if text.len() < SECRET_BYTES_MIN {
        return Err(wrong("the secret is too short".to_owned()));
    }
    Ok(Secret::new(text))
}

/// What a notification must have, in the envelope of CloudEvents.
#[derive(Deserialize)]
struct Envelope {
    id: String,
    time: Timestamp,
}

struct Door {
    secret: Secret,
    notices: Notices,
    clock: Clock,
    seen: Mutex<BTreeMap<String, Timestamp>>,
}

/// The one route.
pub fn router(secret: Secret, notices: Notices, clock: Clock) -> Router {
    let door = Door {
        secret,
        notices,
        clock,
        seen: Mutex::default(),
    };
    Router::new()
        .route(PATH, post(take))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(Arc::new(door))
}

async fn take(State(door): State<Arc<Door>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let given = headers
        .get(SECRET_HEADER)
        .map_or(&[][..], |value| value.as_bytes());
    if !is_same(given, door.secret.expose().as_bytes()) {
        return StatusCode::UNAUTHORIZED;
    }
    if !door.notices.are_heard() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let Ok(envelope) = serde_json::from_slice::<Envelope>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let now = door.clock.now();
    if between(envelope.time, now).max(between(now, envelope.time)) > FRESH_FOR {
        return StatusCode::FORBIDDEN;
    }
    if let Err(refusal) = door.note(envelope, now) {
        return refusal;
    }
    for machine in machines(&body) {
        door.notices.tell(&machine, door.clock.instant());
    }
    StatusCode::ACCEPTED
}

impl Door {
    /// Notes a notification; one that was noted before is refused.
    fn note(&self, envelope: Envelope, now: Timestamp) -> Result<(), StatusCode> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // What is older is refused for its age.
        seen.retain(|_, time| between(*time, now) <= FRESH_FOR * 2);
        if seen.contains_key(&envelope.id) {
            return Err(StatusCode::CONFLICT);
        }
        if seen.len() >= SEEN_MAX {
            return Err(StatusCode::TOO_MANY_REQUESTS);
        }
        seen.insert(envelope.id, envelope.time.max(now));
        Ok(())
    }
}

/// The instances that a notification mentions, wherever in it.
fn machines(body: &[u8]) -> Vec<String> {
    static INSTANCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new("[0-9a-z]{4}_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").ok()
    });
    let text = String::from_utf8_lossy(body);
    let found = INSTANCE.iter().flat_map(|pattern| pattern.find_iter(&text));
    found.map(|found| found.as_str().to_owned()).collect()
}

/// Takes the same time for every wrong secret of the same length, so that nobody learns it byte by byte.
fn is_same(given: &[u8], secret: &[u8]) -> bool {
    let differences = given.iter().zip(secret).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == secret.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use serde_json::json;
    use tower::ServiceExt;

    use super::*;
    use crate::controllers::interruption::Listening;

    const SECRET: &str = "correct horse battery staple";
    const MACHINE: &str = "0717_0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4";

    struct Caller {
        router: Router,
        notices: Notices,
        clock: Clock,
        listening: Option<Listening>,
    }

    impl Caller {
        fn new() -> Self {
            let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
            let notices = Notices::default();
            let router = router(Secret::new(SECRET.to_owned()), notices.clone(), clock.clone());
            Self {
                router,
                listening: Some(notices.listen()),
                notices,
                clock,
            }
        }

        async fn call(&self, secret: &str, id: &str, time: &str) -> u16 {
            let body = json!({
                "id": id, "time": time, "specversion": "1.0",
                "data": {"message": format!("Spot instance {MACHINE} has been selected for preemption.")},
            });
            self.send(secret, body.to_string()).await
        }

        async fn send(&self, secret: &str, body: String) -> u16 {
            let request = Request::post(PATH)
                .header(SECRET_HEADER, secret)
                .body(Body::from(body));
            self.router
                .clone()
                .oneshot(request.unwrap())
                .await
                .unwrap()
                .status()
                .as_u16()
        }

        fn told(&self) -> Vec<String> {
            self.notices.machines(self.clock.instant())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_fresh_notification_with_the_secret_makes_its_machine_be_looked_at() {
        let caller = Caller::new();
        assert_eq!(caller.call(SECRET, "1", "2026-11-16T09:59:30Z").await, 202);
        assert_eq!(caller.told(), [MACHINE]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_does_not_lead_takes_no_word_and_the_same_call_is_taken_by_one_that_does() {
        let mut caller = Caller::new();
        let time = "2026-11-16T10:00:00Z";
        caller.listening = None;
        assert_eq!(caller.call("guessed", "1", time).await, 401);
        assert_eq!(caller.call(SECRET, "1", time).await, 503);
        assert!(caller.told().is_empty());
        caller.listening = Some(caller.notices.listen());
        assert_eq!(caller.call(SECRET, "1", time).await, 202);
        assert_eq!(caller.told(), [MACHINE]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_secret_nothing_happens() {
        let caller = Caller::new();
        for wrong in [
            "",
            "correct horse",
            "correct horse battery stapler",
            "Correct horse battery staple",
        ] {
            assert_eq!(
                caller.call(wrong, "1", "2026-11-16T10:00:00Z").await,
                401,
                "{wrong}"
            );
        }
        assert!(caller.told().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_replay_is_refused_be_it_soon_or_late() {
        let caller = Caller::new();
        let time = "2026-11-16T10:00:00Z";
        assert_eq!(caller.call(SECRET, "1", time).await, 202);
        assert_eq!(caller.call(SECRET, "1", time).await, 409);
        caller.clock.sleep(Duration::from_secs(301)).await;
        assert_eq!(caller.call(SECRET, "1", time).await, 403);
        assert_eq!(
            caller.call(SECRET, "2", "2026-11-16T11:00:00Z").await,
            403,
            "from the future"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn nonsense_is_refused() {
        let caller = Caller::new();
        for nonsense in ["", "{}", "[]", r#"{"id": 1, "time": "now"}"#] {
            assert_eq!(caller.send(SECRET, nonsense.to_owned()).await, 400, "{nonsense}");
        }
        let large = format!(r#"{{"id": "{}"}}"#, "x".repeat(BODY_BYTES_MAX));
        assert_eq!(caller.send(SECRET, large).await, 413);
        assert!(caller.told().is_empty());
    }
}
