//! How many addresses the subnets of a network have free, as the cloud counts, and which machines are in that count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::census::Census;
use crate::cloud::{self, Subnet};
use crate::controllers::context::Context;

/// How old a count may be. What was promised since is added to it, so age costs no correctness; an address that was
/// given back shows this much later.
const FRESH: Duration = Duration::from_secs(10);

/// For how long a subnet that refused a machine is avoided, whatever it counts: long enough for others to give
/// addresses back, short enough to notice.
const AVOIDED: Duration = Duration::from_mins(2);

/// What a network's subnets have free.
#[derive(Clone, Debug)]
pub(super) struct Free {
    /// Every subnet, in order of their ids.
    pub(super) subnets: Arc<Vec<Subnet>>,
    /// The ids of machines that were there before the cloud counted: their addresses are not free any more.
    pub(super) counted: Arc<BTreeSet<String>>,
    read_at: Instant,
}

/// What is known of addresses. A restart forgets it, which costs a read and perhaps an order that is refused.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    networks: tokio::sync::Mutex<BTreeMap<String, Free>>,
    avoided: Mutex<BTreeMap<String, Instant>>,
}

impl Addresses {
    /// What the subnets of `vpc` have free. Machines that `census` has are in the count if it is made anew.
    pub(super) async fn free(
        &self,
        context: &Context,
        vpc: &str,
        census: &Census,
    ) -> Result<Free, cloud::Error> {
        let mut networks = self.networks.lock().await;
        let now = context.clock.instant();
        let fresh = context.clock.real(FRESH);
        if let Some(free) = networks.get(vpc)
            && now.saturating_duration_since(free.read_at) < fresh
        {
            return Ok(free.clone());
        }
        let machines = census
            .claims
            .iter()
            .filter_map(|claim| claim.status.as_ref()?.allocation.as_ref()?.instance_id.clone());
        let free = Free {
            counted: Arc::new(machines.collect()),
            subnets: Arc::new(context.cloud.subnets(vpc).await?),
            read_at: now,
        };
        networks.insert(vpc.to_owned(), free.clone());
        Ok(free)
    }

    /// A subnet has refused a machine.
    pub(super) fn avoid(&self, context: &Context, subnet: &str) {
        let until = context.clock.instant() + context.clock.real(AVOIDED);
        let mut avoided = self.avoided.lock().unwrap_or_else(PoisonError::into_inner);
        avoided.insert(subnet.to_owned(), until);
    }

    /// The subnets that are avoided now.
    pub(super) fn avoided(&self, context: &Context) -> BTreeSet<String> {
        let now = context.clock.instant();
        let mut avoided = self.avoided.lock().unwrap_or_else(PoisonError::into_inner);
        avoided.retain(|_, until| *until > now);
        avoided.keys().cloned().collect()
    }
}
