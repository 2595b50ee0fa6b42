//! Credentials with which machines ask for their certificates: one token of one ServiceAccount for each attempt.
//!
//! The account may ask for certificates and nothing else, and what it asks for is approved only for the claim whose
//! allocation names the token's id. So the id is recorded before the machine is ordered, and the token goes into the
//! machine's user data and nowhere else: no Secret is read or written.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde::Deserialize;

use super::context::Context;
use crate::clock::later;
use crate::secret::Secret;

/// The API server makes no token that holds shorter.
const LIFETIME_MIN: Duration = Duration::from_mins(10);

/// A credential for one attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Minted {
    /// What the machine shows.
    pub token: Secret,
    /// The token's id, by which requests made with it are known.
    pub jti: String,
    /// Until when it holds: an API server may give less than was asked for.
    pub expires_at: Timestamp,
}

/// Why there is no credential.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// The Kubernetes API refused or did not answer.
    #[error("asking for a token of the ServiceAccount {account}: {source}")]
    Kube {
        /// Whose token.
        account: String,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// What came back is no token with an id. Before Kubernetes 1.30 they have none.
    #[error("a token of the ServiceAccount {0} has no id; Kubernetes 1.30 or later is needed")]
    NoId(String),
}

/// How long a credential must hold: for as long as its machine may take to run and then to join, and no longer.
pub fn lifetime(launch: Duration, registration: Duration) -> Duration {
    (launch + registration).max(LIFETIME_MIN)
}

/// Makes a credential.
pub async fn mint(context: &Context, lifetime: Duration) -> Result<Minted, MintError> {
    let settings = &context.settings;
    let account = settings.joiner.as_str();
    let accounts: Api<ServiceAccount> = Api::namespaced(context.client.clone(), &settings.namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: i64::try_from(lifetime.max(LIFETIME_MIN).as_secs()).ok(),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let made = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .map_err(|source| MintError::Kube {
            account: account.to_owned(),
            source: Box::new(source),
        })?;
    let status = made.status.unwrap_or_default();
    let asked_for = later(context.clock.now(), lifetime);
    let expires_at = status.expiration_timestamp.map_or(asked_for, |time| time.0);
    let token = Secret::new(status.token.unwrap_or_default());
    let jti = token_id(&token).ok_or_else(|| MintError::NoId(account.to_owned()))?;
    Ok(Minted {
        token,
        jti,
        expires_at,
    })
}

/// The id of a token, which it carries in its middle part.
fn token_id(token: &Secret) -> Option<String> {
    #[derive(Deserialize)]
    struct Claims {
        jti: String,
    }
    let payload = token.expose().split('.').nth(1)?;
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Claims = serde_json::from_slice(&bytes).ok()?;
    Some(claims.jti).filter(|jti| !jti.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_holds_as_long_as_joining_may_take_and_at_least_ten_minutes() {
        let minutes = Duration::from_mins;
        assert_eq!(lifetime(minutes(5), minutes(15)), minutes(20));
        assert_eq!(lifetime(minutes(1), minutes(2)), minutes(10));
    }

    #[test]
    fn a_token_without_an_id_is_none() {
        let token = |payload: &str| {
            let text = format!("h.{}.s", BASE64_URL_SAFE_NO_PAD.encode(payload));
            token_id(&Secret::new(text))
        };
        assert_eq!(token(r#"{"jti": "a-b"}"#).unwrap(), "a-b");
        for wrong in [r#"{"jti": ""}"#, "{}", "not JSON"] {
            assert_eq!(token(wrong), None, "{wrong}");
        }
        assert_eq!(token_id(&Secret::new("no dots".to_owned())), None);
    }
}
