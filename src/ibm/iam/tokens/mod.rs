//! The token that all callers share.
//!
//! Refreshed when 80 % of its life has passed, by one request at a time; meanwhile, and if that fails, the old one is
//! used as long as it is valid. Concurrent callers without a valid token wait for the same request.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, RwLock};
use tokio::time::Instant;

use super::Credentials;
use super::grant::Grantors;
use crate::clock::Clock;
use crate::cloud::Error;
use crate::ibm::secret::Secret;

/// A token is not used in its last seconds: it must still be valid when the request arrives.
const MARGIN: Duration = Duration::from_secs(10);

/// After a failed refresh the next one waits this long, so that a lame IAM is not hammered by every caller.
const REFRESH_PACE: Duration = Duration::from_secs(30);

/// Keeps one token fresh. Clones share it.
#[derive(Clone)]
pub struct Tokens(Arc<Inner>);

struct Inner {
    grantors: Grantors,
    credentials: Credentials,
    clock: Clock,
    current: RwLock<Option<Token>>,
    flight: Mutex<()>,
}

#[derive(Clone)]
struct Token {
    secret: Secret,
    refresh_at: Instant,
    expires_at: Instant,
}

impl Tokens {
    /// Tokens for `credentials`; nothing is fetched yet.
    pub fn new(grantors: Grantors, credentials: Credentials, clock: Clock) -> Self {
        let (current, flight) = (RwLock::new(None), Mutex::new(()));
        Self(Arc::new(Inner {
            grantors,
            credentials,
            clock,
            current,
            flight,
        }))
    }

    /// A token that is valid now.
    pub async fn token(&self) -> Result<Secret, Error> {
        let now = self.0.clock.instant();
        match self.valid(now).await {
            Some(token) if now < token.refresh_at => Ok(token.secret),
            Some(token) => Ok(self.refresh(token).await),
            None => self.fetch().await,
        }
    }

    /// Forgets `rejected` (a 401 came for it), unless it was replaced already.
    pub async fn reject(&self, rejected: &Secret) {
        let mut current = self.0.current.write().await;
        if current.as_ref().is_some_and(|token| token.secret == *rejected) {
            *current = None;
        }
    }

    async fn valid(&self, now: Instant) -> Option<Token> {
        self.0
            .current
            .read()
            .await
            .clone()
            .filter(|token| now < token.expires_at)
    }

    /// Replaces a token that is still valid; whoever finds the refresh under way goes on with the old one.
    async fn refresh(&self, old: Token) -> Secret {
        let Ok(_flight) = self.0.flight.try_lock() else {
            return old.secret;
        };
        match self.grant().await {
            Ok(secret) => secret,
            Err(error) => {
                tracing::warn!(%error, "cannot refresh the IAM token; using the old one while it is valid");
                let refresh_at = self.0.clock.instant() + REFRESH_PACE;
                *self.0.current.write().await = Some(Token {
                    refresh_at,
                    ..old.clone()
                });
                old.secret
            }
        }
    }

    /// Gets the first token, or one after the last expired; concurrent callers share the request.
    async fn fetch(&self) -> Result<Secret, Error> {
        let _flight = self.0.flight.lock().await;
        if let Some(token) = self.valid(self.0.clock.instant()).await {
            return Ok(token.secret);
        }
        self.grant().await
    }

    async fn grant(&self) -> Result<Secret, Error> {
        // Counted from before the request: the token's life began before the answer came.
        let asked_at = self.0.clock.instant();
        let granted = self
            .0
            .grantors
            .grant(&self.0.credentials, self.0.clock.now())
            .await?;
        let life = Duration::from_secs(granted.life_seconds);
        let token = Token {
            secret: granted.token,
            refresh_at: asked_at + life.mul_f64(0.8),
            expires_at: asked_at + life.saturating_sub(MARGIN),
        };
        let secret = token.secret.clone();
        *self.0.current.write().await = Some(token);
        Ok(secret)
    }
}

#[cfg(test)]
mod tests;
