//! IAM: API keys and compute tokens in, access tokens out.
//!
//! A token is a readable JWT, since SDKs take `iat` and `exp` out of it. Its life is counted on the monotonic clock:
//! a client that runs at real speed beside an accelerated simulator would otherwise see an hour pass in a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::fields::{self, Fields};
use super::ids;
use super::state::State;

/// The trusted profile of the account: id and name.
pub(super) const TRUSTED_PROFILE: (&str, &str) =
    ("Profile-9fd84246-7df4-4667-94e4-8ecde51d5ac5", "demo-profile");

/// Who may come in, and which tokens are out.
#[derive(Debug)]
pub(super) struct Identity {
    api_keys: BTreeSet<String>,
    /// Access tokens and when they end.
    tokens: BTreeMap<String, Instant>,
    /// Tokens of the metadata service, with which a VM asks for an access token.
    instance_tokens: BTreeMap<String, Instant>,
}

impl Identity {
    pub(super) fn new(api_keys: &[String]) -> Self {
        let api_keys = api_keys.iter().cloned().collect();
        Self {
            api_keys,
            tokens: BTreeMap::new(),
            instance_tokens: BTreeMap::new(),
        }
    }

    /// Replaces the API keys; tokens that are out stay valid.
    pub(super) fn set_api_keys(&mut self, keys: impl IntoIterator<Item = String>) {
        self.api_keys = keys.into_iter().collect();
    }

    /// Ends every token that is out.
    pub(super) fn revoke_tokens(&mut self) {
        self.tokens.clear();
    }
}

impl State {
    /// Refuses a request without a living access token.
    pub(super) fn check_token(&self, ask: &Ask) -> Result<(), Refusal> {
        let unauthorized = |code: &str, message: &str| {
            Err(Refusal::status(StatusCode::UNAUTHORIZED, code, message).blames(
                "header",
                "Authorization",
                None,
            ))
        };
        let Some(token) = ask.header("authorization") else {
            return unauthorized("token_missing", "The request has no IAM token");
        };
        let token = token
            .strip_prefix("Bearer ")
            .or_else(|| token.strip_prefix("bearer "))
            .unwrap_or_default();
        match self.identity.tokens.get(token) {
            Some(end) if self.options.clock.instant() < *end => Ok(()),
            _ => unauthorized("token_invalid", "The IAM token is invalid or has expired"),
        }
    }

    /// Makes an access token for `subject`.
    fn issue(&mut self, subject: &str, grant: &str) -> Value {
        let life = self.options.timings.token;
        let (issued, seconds) = (
            self.now.as_second(),
            i64::try_from(life.as_secs()).unwrap_or(i64::MAX),
        );
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let head = json!({ "alg": "RS256", "kid": "20261101", "typ": "JWT" });
        let claims = json!({
            "iam_id": subject, "sub": subject, "jti": ids::uuid(&mut self.rng),
            "account": { "valid": true, "bss": ids::ACCOUNT },
            "iat": issued, "exp": issued + seconds,
            "iss": "https://iam.cloud.ibm.com/identity", "grant_type": grant, "scope": "ibm openid",
        });
        let signature: Vec<u8> = std::iter::repeat_with(|| self.rng.u8(..)).take(32).collect();
        let token = format!(
            "{}.{}.{}",
            encode(&head),
            encode(&claims),
            URL_SAFE_NO_PAD.encode(signature)
        );
        let now = self.options.clock.instant();
        self.identity.tokens.retain(|_, end| now < *end);
        self.identity.tokens.insert(token.clone(), now + life);
        json!({
            "access_token": token, "refresh_token": "not_supported", "token_type": "Bearer",
            "expires_in": seconds, "expiration": issued + seconds, "scope": "ibm openid",
        })
    }
}

/// `POST /identity/token`
pub(super) fn token(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let form: BTreeMap<String, String> = form_urlencoded::parse(&ask.body).into_owned().collect();
    let field = |name: &str| {
        form.get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    };
    match field("grant_type") {
        None => Err(missing("grant_type")),
        Some("urn:ibm:params:oauth:grant-type:apikey") => {
            let key = field("apikey").ok_or_else(|| missing("apikey"))?;
            if !state.identity.api_keys.contains(key) {
                // 400, not 401, as recorded from the live service.
                return Err(refuse("BXNIM0415E", "Provided API key could not be found."));
            }
            Ok(Answer::ok(state.issue(
                "IBMid-550000DEMO",
                "urn:ibm:params:oauth:grant-type:apikey",
            )))
        }
        Some("urn:ibm:params:oauth:grant-type:cr-token") => {
            field("cr_token").ok_or_else(|| missing("cr_token"))?;
            let profile = field("profile_id")
                .or_else(|| field("profile_name"))
                .or_else(|| field("profile_crn"));
            check_profile(profile.ok_or_else(|| missing("profile_id"))?)?;
            Ok(Answer::ok(state.issue(
                TRUSTED_PROFILE.0,
                "urn:ibm:params:oauth:grant-type:cr-token",
            )))
        }
        Some(other) => Err(refuse(
            "BXNIM0108E",
            &format!("Unsupported grant_type '{other}'."),
        )),
    }
}

/// `PUT /instance_identity/v1/token` and `PUT /identity/v1/token`: a VM proves where it runs.
pub(super) fn instance_token(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    if ask.header("metadata-flavor") != Some("ibm") {
        return Err(Refusal::header(
            "bad_request",
            "Metadata-Flavor",
            "The header Metadata-Flavor must be 'ibm'",
        ));
    }
    let sent = if ask.body.is_empty() {
        json!({})
    } else {
        fields::parse(&ask.body)?
    };
    let life = Duration::from_secs(Fields::of(&sent)?.number("expires_in")?.unwrap_or(300));
    let token = ids::hex32(&mut state.rng);
    state
        .identity
        .instance_tokens
        .insert(token.clone(), state.options.clock.instant() + life);
    Ok(Answer::ok(timed(state, &token, life)))
}

/// `POST /instance_identity/v1/iam_token` and `POST /identity/v1/iam_tokens`: and gets an access token for it.
pub(super) fn instance_iam_token(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let bearer = ask
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    let living = state
        .identity
        .instance_tokens
        .get(bearer)
        .is_some_and(|end| state.options.clock.instant() < *end);
    if !living {
        return Err(Refusal::status(
            StatusCode::UNAUTHORIZED,
            "token_invalid",
            "The instance token is not valid",
        ));
    }
    let sent = if ask.body.is_empty() {
        json!({})
    } else {
        fields::parse(&ask.body)?
    };
    if let Some(profile) = Fields::of(&sent)?.reference("trusted_profile", &[])? {
        check_profile(&profile)?;
    }
    let issued = state.issue(TRUSTED_PROFILE.0, "urn:ibm:params:oauth:grant-type:cr-token");
    let token = issued["access_token"].as_str().unwrap_or_default().to_owned();
    let life = state.options.timings.token;
    Ok(Answer::ok(timed(state, &token, life)))
}

fn timed(state: &State, token: &str, life: Duration) -> Value {
    json!({
        "access_token": token, "expires_in": life.as_secs(),
        "created_at": super::network::stamp(state.now),
        "expires_at": super::network::stamp(crate::clock::later(state.now, life)),
    })
}

fn check_profile(profile: &str) -> Result<(), Refusal> {
    if [TRUSTED_PROFILE.0, TRUSTED_PROFILE.1].contains(&profile) {
        return Ok(());
    }
    // The real code is not recorded anywhere we know of.
    Err(refuse("BXNIM0513E", "The trusted profile could not be found."))
}

fn missing(field: &str) -> Refusal {
    refuse("BXNIM0109E", &format!("Property missing or empty: {field}."))
}

fn refuse(code: &str, message: &str) -> Refusal {
    Refusal::status(StatusCode::BAD_REQUEST, code, message)
}
