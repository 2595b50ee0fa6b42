//! Leadership by Lease. It saves conflicts; correctness never rests on it: two leaders at once do no harm.
//!
//! Who holds the Lease, and whether that has expired, is judged by [`decide`], on the observer's own monotonic clock:
//! a Lease has expired when it has not changed for its duration, whatever times are written in it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use crate::controllers::Context;

/// How long a Lease that is not renewed keeps others away.
const DURATION: Duration = Duration::from_secs(15);
/// How long a holder that cannot renew still acts: less than the duration, so that it has stopped when others begin.
pub(super) const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often it is renewed, or tried for.
pub(super) const RETRY: Duration = Duration::from_secs(2);
/// One attempt; far below the deadline, or one slow request would cost the leadership.
pub(super) const ATTEMPT: Duration = Duration::from_secs(3);

/// What to do about a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nobody has it, or its holder is gone: take it.
    Acquire,
    /// It is ours: renew it.
    Renew,
    /// Somebody else has it, at least until then.
    Yield(Instant),
}

/// A Lease as it was last seen to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Its version then.
    pub version: Option<String>,
    /// When this observer first saw that version.
    pub at: Instant,
}

/// What to do about a Lease that is held as `spec` says and was `seen` to change last.
pub fn decide(spec: Option<&LeaseSpec>, me: &str, seen: &Sighting, now: Instant) -> Decision {
    let holder = spec
        .and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default();
    if holder == me {
        return Decision::Renew;
    }
    let seconds = spec
        .and_then(|spec| spec.lease_duration_seconds)
        .unwrap_or_default();
    let expires_at = seen.at + Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    if holder.is_empty() || now >= expires_at {
        Decision::Acquire
    } else {
        Decision::Yield(expires_at)
    }
}

/// A Lease, from the side of one replica.
pub(super) struct Holding<'a> {
    context: &'a Context,
    name: String,
    leases: Api<Lease>,
}

/// What a replica knows of a Lease.
#[derive(Default)]
pub(super) struct Knowledge {
    /// When it was last seen to change.
    seen: Option<Sighting>,
    /// As we wrote it last.
    written: Option<Lease>,
}

/// Whether one attempt left the Lease in our hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// It is ours.
    Held,
    /// It is somebody else's.
    NotHeld,
    /// Nothing is known: the request failed or took too long.
    Failed,
}

impl<'a> Holding<'a> {
    /// The Lease of that name.
    pub(super) fn of(context: &'a Context, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            leases: Api::namespaced(context.client.clone(), &context.settings.namespace),
            context,
        }
    }

    /// Whether it is worth an attempt to take it: `lease` is what was read of it just now.
    pub(super) fn is_open(&self, known: &mut Knowledge, lease: Option<&Lease>) -> bool {
        let Some(lease) = lease else {
            return true;
        };
        let (me, now) = (&self.context.settings.identity, self.context.clock.instant());
        let seen = self.sight(known, lease);
        !matches!(decide(lease.spec.as_ref(), me, seen, now), Decision::Yield(_))
    }

    /// Renews the Lease; returns when it is lost, or could not be renewed in time.
    pub(super) async fn keep(&self) {
        let mut known = Knowledge::default();
        let mut renewed_at = self.context.clock.instant();
        let deadline = self.context.clock.real(RENEW_DEADLINE);
        // Also after a sleep: a process that was held up learns from its own clock that it is too late.
        while self.context.clock.instant() - renewed_at < deadline {
            let tried_at = self.context.clock.instant();
            match self.attempt(&mut known).await {
                Attempt::Held => renewed_at = tried_at,
                Attempt::NotHeld => return,
                Attempt::Failed => {}
            }
            self.context.clock.sleep(RETRY).await;
        }
    }

    /// Gives the Lease back, if it is ours, so that the next leader need not wait for it to expire.
    pub(super) async fn release(&self) {
        let released = async {
            let lease = self.leases.get(&self.name).await?;
            if holder(&lease) == Some(self.context.settings.identity.as_str()) {
                let mut lease = lease;
                let spec = lease.spec.get_or_insert_default();
                spec.holder_identity = None;
                spec.renew_time = Some(MicroTime(self.context.clock.now()));
                self.write(&lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        if let Ok(Err(error)) = tokio::time::timeout(self.context.clock.real(ATTEMPT), released).await {
            tracing::warn!(%error, "cannot give the leadership back; it expires by itself");
        }
    }

    /// Whether it is this one.
    pub(super) fn is(&self, lease: &Lease) -> bool {
        lease.metadata.name.as_deref() == Some(&self.name)
    }

    /// When the Lease was last seen to change, this time included.
    pub(super) fn sight<'k>(&self, known: &'k mut Knowledge, lease: &Lease) -> &'k Sighting {
        let (version, now) = (lease.resource_version(), self.context.clock.instant());
        match &mut known.seen {
            Some(seen) if seen.version == version => {}
            other => *other = Some(Sighting { version, at: now }),
        }
        known.seen.get_or_insert(Sighting {
            version: None,
            at: now,
        })
    }

    /// Tries once to have the Lease, or to keep it.
    pub(super) async fn attempt(&self, known: &mut Knowledge) -> Attempt {
        let limit = self.context.clock.real(ATTEMPT);
        match tokio::time::timeout(limit, self.try_once(known)).await {
            Ok(Ok(attempt)) => attempt,
            // Somebody wrote meanwhile, perhaps another field: the next attempt shows who holds it.
            Ok(Err(kube::Error::Api(status))) if status.is_conflict() || status.is_already_exists() => {
                Attempt::Failed
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the Lease cannot be read or written");
                Attempt::Failed
            }
            Err(_) => Attempt::Failed,
        }
    }

    async fn try_once(&self, known: &mut Knowledge) -> kube::Result<Attempt> {
        // Half the requests of a leader: while nobody else writes, what was written last is what there is. An answer
        // that does not come leaves nothing known, and the Lease is read again.
        if let Some(lease) = known.written.take() {
            match self.write(&self.held(lease)).await {
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
                written => {
                    known.written = Some(written?);
                    return Ok(Attempt::Held);
                }
            }
        }
        let Some(lease) = self.leases.get_opt(&self.name).await? else {
            let lease = self.held(Lease::default());
            known.written = Some(self.leases.create(&PostParams::default(), &lease).await?);
            return Ok(Attempt::Held);
        };
        let now = self.context.clock.instant();
        let seen = self.sight(known, &lease);
        match decide(lease.spec.as_ref(), &self.context.settings.identity, seen, now) {
            Decision::Yield(_) => Ok(Attempt::NotHeld),
            Decision::Acquire | Decision::Renew => {
                known.written = Some(self.write(&self.held(lease)).await?);
                Ok(Attempt::Held)
            }
        }
    }

    /// Replaces the Lease, at the version that it was read in.
    async fn write(&self, lease: &Lease) -> kube::Result<Lease> {
        let params = PostParams::default();
        self.leases.replace(&self.name, &params, lease).await
    }

    /// The same Lease in our hands.
    fn held(&self, mut lease: Lease) -> Lease {
        let (me, now) = (
            &self.context.settings.identity,
            MicroTime(self.context.clock.now()),
        );
        let is_ours = holder(&lease) == Some(me);
        lease.metadata = ObjectMeta {
            name: Some(self.name.clone()),
            ..lease.metadata
        };
        let spec = lease.spec.get_or_insert_default();
        if !is_ours {
            spec.holder_identity = Some(me.clone());
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count.saturating_add(1)));
        }
        spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
        spec.renew_time = Some(now);
        lease
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        }
    }

    fn judge(holder: Option<&str>, unchanged_for: u64) -> Decision {
        let at = Instant::now();
        let seen = Sighting { version: None, at };
        let now = at + Duration::from_secs(unchanged_for);
        decide(holder.map(spec).as_ref(), "me", &seen, now)
    }

    #[test]
    fn a_lease_is_taken_when_nobody_has_it_or_its_holder_is_gone() {
        assert_eq!(judge(None, 0), Decision::Acquire);
        assert_eq!(judge(Some(""), 0), Decision::Acquire);
        assert_eq!(judge(Some("other"), 15), Decision::Acquire);
    }

    #[test]
    fn a_lease_that_changes_is_left_to_its_holder() {
        assert!(matches!(judge(Some("other"), 0), Decision::Yield(_)));
        assert!(matches!(judge(Some("other"), 14), Decision::Yield(_)));
    }

    #[test]
    fn our_own_lease_is_renewed_however_old_it_is() {
        assert_eq!(judge(Some("me"), 0), Decision::Renew);
        assert_eq!(judge(Some("me"), 1000), Decision::Renew);
    }

    #[test]
    fn a_holder_has_stopped_before_another_may_begin() {
        assert!(RENEW_DEADLINE + ATTEMPT < DURATION);
        assert!(RETRY + ATTEMPT < RENEW_DEADLINE);
    }
}
