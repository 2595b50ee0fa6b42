//! One token from IAM, by whichever credentials there are.

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::credentials::{Credentials, SecretFileError, TrustedProfile, read_secret};
use crate::cloud::{Answer, Effect, Error};
use crate::ibm::http::{Api, Call, Operation, Repeat, Service};
use crate::ibm::secret::Secret;

/// Fetching a token changes nothing, so it may be repeated although it is a POST.
const FETCH_TOKEN: Operation = Operation {
    name: "fetch IAM token",
    service: Service::Iam,
    resource: None,
    repeat: Repeat::Safe,
};
const FETCH_IDENTITY: Operation = Operation {
    name: "fetch instance identity",
    service: Service::Metadata,
    resource: None,
    repeat: Repeat::Safe,
};

const METADATA_VERSION: &str = "2022-03-01";
const METADATA_FLAVOR: HeaderName = HeaderName::from_static("metadata-flavor");

/// A token as IAM granted it.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The token itself.
    pub token: Secret,
    /// For how long it was granted, in seconds.
    pub life_seconds: u64,
}

#[derive(Deserialize)]
struct TokenBody {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

/// Where tokens are asked for.
#[derive(Clone)]
pub struct Grantors {
    /// IAM itself.
    pub iam: Api,
    /// The machine's metadata service.
    pub metadata: Api,
}

impl Grantors {
    /// Asks for a token. `now` is only needed where an answer gives an end instead of a length.
    pub async fn grant(&self, credentials: &Credentials, now: Timestamp) -> Result<Granted, Error> {
        let body = match credentials {
            Credentials::ApiKey(source) => {
                let key = source.read().map_err(|error| unreadable(&error))?;
                self.by_form(&[
                    ("grant_type", "urn:ibm:params:oauth:grant-type:apikey"),
                    ("apikey", key.expose()),
                    ("response_type", "cloud_iam"),
                ])
                .await?
            }
            Credentials::ServiceAccount { token_file, profile } => {
                let token = read_secret(token_file).map_err(|error| unreadable(&error))?;
                let (field, value) = match profile {
                    TrustedProfile::Id(id) => ("profile_id", id),
                    TrustedProfile::Name(name) => ("profile_name", name),
                };
                self.by_form(&[
                    ("grant_type", "urn:ibm:params:oauth:grant-type:cr-token"),
                    ("cr_token", token.expose()),
                    (field, value),
                ])
                .await?
            }
            Credentials::InstanceIdentity { profile } => self.by_identity(profile.as_ref()).await?,
        };
        granted(body, now)
    }

    async fn by_form(&self, fields: &[(&str, &str)]) -> Result<TokenBody, Error> {
        self.iam
            .fetch(Call::new(FETCH_TOKEN, Method::POST, &["identity", "token"]).form(fields))
            .await
    }

    /// Two steps: the machine proves itself to its metadata service, which then vouches for it to IAM.
    async fn by_identity(&self, profile: Option<&TrustedProfile>) -> Result<TokenBody, Error> {
        let identity: TokenBody = self
            .metadata
            .fetch(
                Call::new(FETCH_IDENTITY, Method::PUT, &["instance_identity", "v1", "token"])
                    .query("version", METADATA_VERSION)
                    .header(METADATA_FLAVOR, HeaderValue::from_static("ibm"))
                    .json(&json!({"expires_in": 300})),
            )
            .await?;
        let body = match profile {
            Some(TrustedProfile::Id(id)) => json!({"trusted_profile": {"id": id}}),
            Some(TrustedProfile::Name(name)) => json!({"trusted_profile": {"name": name}}),
            None => json!({}),
        };
        self.metadata
            .fetch(
                Call::new(
                    FETCH_IDENTITY,
                    Method::POST,
                    &["instance_identity", "v1", "iam_token"],
                )
                .query("version", METADATA_VERSION)
                .header(AUTHORIZATION, bearer(&Secret::new(identity.access_token))?)
                .json(&body),
            )
            .await
    }
}

fn granted(body: TokenBody, now: Timestamp) -> Result<Granted, Error> {
    let until_end = body
        .expires_at
        .map(|end| u64::try_from(end.duration_since(now).as_secs()).unwrap_or(0));
    let life = body.expires_in.or(until_end).filter(|life| *life > 0);
    match life {
        Some(life_seconds) if !body.access_token.is_empty() => Ok(Granted {
            token: Secret::new(body.access_token),
            life_seconds,
        }),
        _ => Err(Error::Undecodable {
            effect: Effect::None,
            answer: Box::new(answer("the answer holds no token that is still valid")),
        }),
    }
}

/// The header that carries a token, marked so that no layer prints it.
pub fn bearer(token: &Secret) -> Result<HeaderValue, Error> {
    let mut value =
        HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| Error::Undecodable {
            effect: Effect::None,
            answer: Box::new(answer("the token has characters that no header can carry")),
        })?;
    value.set_sensitive(true);
    Ok(value)
}

fn unreadable(error: &SecretFileError) -> Error {
    Error::Unauthorized(Box::new(answer(&error.to_string())))
}

fn answer(message: &str) -> Answer {
    Answer {
        operation: FETCH_TOKEN.name,
        message: message.to_owned(),
        ..Answer::default()
    }
}
