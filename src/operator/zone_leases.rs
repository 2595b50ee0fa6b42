//! The Leases of the zones, which the leader holds: whoever allocates in a zone has its Lease.
//!
//! They are held for as long as the leadership lasts and not taken for each allocation, so nobody waits for one in normal
//! life. A replica that waits for the leadership watches them, so it knows on its own clock when those of a leader that
//! is gone expire: they pass on together with the leadership.

use std::collections::BTreeSet;

use futures::FutureExt;
use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;
use tokio::sync::Mutex;

use super::lease::{ATTEMPT, Attempt, Holding, Knowledge, RENEW_DEADLINE, RETRY};
use crate::api::names;
use crate::controllers::Context;
use crate::wake::together;

/// The Leases of all zones of the region, from the side of one replica.
pub(super) struct ZoneLeases<'a> {
    context: &'a Context,
    zones: Vec<Zone<'a>>,
}

struct Zone<'a> {
    name: String,
    lease: Holding<'a>,
    known: Mutex<Knowledge>,
}

impl<'a> ZoneLeases<'a> {
    /// Those of the region; from now on nothing is allocated in a zone whose Lease is not held.
    pub(super) fn of(context: &'a Context) -> Self {
        // Every region has three zones, which are numbered. A fourth would need no Lease until it is counted here.
        let names: BTreeSet<String> = (1..=3)
            .map(|number| format!("{}-{number}", context.settings.region))
            .collect();
        context.zones.require_leases(names.clone());
        let zone = |name: String| Zone {
            lease: Holding::of(context, &format!("{}{name}", names::ALLOCATOR_LEASE_PREFIX)),
            known: Mutex::default(),
            name,
        };
        Self {
            zones: names.into_iter().map(zone).collect(),
            context,
        }
    }

    /// Returns when the leadership is ours. Until then follows who holds what.
    pub(super) async fn wait_for(&self, leadership: &Holding<'_>) {
        let mut known = Knowledge::default();
        while !self.look(leadership, &mut known).await
            || leadership.attempt(&mut known).await != Attempt::Held
        {
            let wait = self.context.entropy.jitter(RETRY);
            self.context.clock.sleep(wait).await;
        }
        tracing::info!(identity = self.context.settings.identity, "leading");
    }

    /// Looks at all of them and at the leadership in one request, so that whether one has expired is known when it is
    /// needed; whether the leadership is to be had.
    async fn look(&self, leadership: &Holding<'_>, known: &mut Knowledge) -> bool {
        let leases: Api<Lease> =
            Api::namespaced(self.context.client.clone(), &self.context.settings.namespace);
        let all = ListParams::default();
        let read = tokio::time::timeout(self.context.clock.real(ATTEMPT), leases.list(&all));
        let read = match read.await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the Leases cannot be read");
                return false;
            }
            Err(_) => return false,
        };
        for zone in &self.zones {
            if let Some(lease) = read.items.iter().find(|lease| zone.lease.is(lease)) {
                zone.lease.sight(&mut *zone.known.lock().await, lease);
            }
        }
        let lease = read.items.iter().find(|lease| leadership.is(lease));
        leadership.is_open(known, lease)
    }

    /// Tries once for each.
    pub(super) async fn take(&self) {
        let tries = self.zones.iter().map(|zone| async move {
            if zone.attempt().await == Attempt::Held {
                self.context.zones.gain(&zone.name);
            }
        });
        join_all(tries).await;
    }

    /// Takes and renews them, for as long as this is polled.
    pub(super) async fn keep(&self) {
        together(self.zones.iter().map(|zone| self.keep_one(zone).boxed())).await;
    }

    async fn keep_one(&self, zone: &Zone<'_>) {
        let clock = &self.context.clock;
        let deadline = clock.real(RENEW_DEADLINE);
        let mut renewed_at = clock.instant();
        loop {
            let tried_at = clock.instant();
            match zone.attempt().await {
                Attempt::Held => {
                    renewed_at = tried_at;
                    self.context.zones.gain(&zone.name);
                }
                Attempt::NotHeld => self.context.zones.lose(&zone.name),
                Attempt::Failed => {}
            }
            clock.sleep(RETRY).await;
            if clock.instant().saturating_duration_since(renewed_at) >= deadline {
                self.context.zones.lose(&zone.name);
            }
        }
    }

    /// Gives back those that are ours.
    pub(super) async fn release(&self) {
        join_all(self.zones.iter().map(|zone| zone.lease.release())).await;
    }
}

impl Zone<'_> {
    async fn attempt(&self) -> Attempt {
        self.lease.attempt(&mut *self.known.lock().await).await
    }
}
