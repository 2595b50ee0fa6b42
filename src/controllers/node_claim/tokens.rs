//! The credentials that this process made for machines it is about to order. They are nowhere else: a process that starts
//! makes new ones.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::NodeClaim;
use crate::controllers::context::Context;
use crate::controllers::credentials::Minted;
use crate::lifecycle::Credential;
use crate::lifecycle::facts::Facts;
use crate::secret::Secret;

/// How old a credential may be when its machine is ordered: it holds for as long as the machine may take, and this is
/// lost of that.
const FRESH: Duration = Duration::from_mins(2);

/// Whether a claim's machine needs a credential of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It does.
    Token,
    /// What it runs first is not ours.
    Nothing,
}

/// Tokens by the uid of the claim.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<BTreeMap<String, Held>>);

#[derive(Debug)]
struct Held {
    jti: String,
    token: Secret,
    made_at: Instant,
}

impl Tokens {
    /// Keeps a credential for the claim's next order.
    pub(super) fn keep(&self, claim: &NodeClaim, minted: Minted, now: Instant) {
        let held = Held {
            jti: minted.jti,
            token: minted.token,
            made_at: now,
        };
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        self.held().insert(uid, held);
    }

    /// The claim's token, if it is young and the claim records it for its present attempt.
    pub(super) fn of(&self, context: &Context, claim: &NodeClaim) -> Option<Secret> {
        let held = self.held();
        let held = held.get(claim.metadata.uid.as_ref()?)?;
        let age = context.clock.instant().saturating_duration_since(held.made_at);
        let allocation = claim.allocation()?;
        let recorded = allocation.credentials.iter().flatten();
        let is_recorded = recorded
            .into_iter()
            .any(|it| it.jti == held.jti && it.attempt == allocation.attempt);
        (is_recorded && age < context.clock.real(FRESH)).then(|| held.token.clone())
    }

    /// Whether the claim can be ordered for.
    pub(super) fn state(&self, context: &Context, claim: &NodeClaim, need: Need) -> Credential {
        match need {
            Need::Token if self.of(context, claim).is_none() => Credential::Lost,
            Need::Token | Need::Nothing => Credential::AtHand,
        }
    }

    /// The claim is gone, or its machine is ordered.
    pub(super) fn forget(&self, claim: &NodeClaim) {
        if let Some(uid) = &claim.metadata.uid {
            self.held().remove(uid);
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
