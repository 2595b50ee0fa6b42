//! Machines that many claims wait for are read together: one list instead of a read for each.
//!
//! A machine takes a minute from its order until it runs, and as long to go, and is looked at every few seconds
//! meanwhile. Read one by one, a thousand of them would need more requests than the budget has, and orders would wait
//! behind looks. So whoever waits in company is shown the machine on a list that is a few seconds old. The list is
//! believed only where it says that things take their usual way; a machine that is missing from it, or that says
//! anything else, is read by its id.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::NodeClaim;
use crate::cloud::{ClusterId, Machine, MachineStatus, Ours};
use crate::controllers::context::Context;
use crate::controllers::garbage::{self, groups};
use crate::lifecycle::facts::Facts;
use crate::lifecycle::launch_limit;

/// Up to so many machines are looked at one by one, as [`crate::controllers::interruption`] does.
const ONE_BY_ONE_MAX: usize = 3;
/// Machines on a page of a list: a list must not cost more than what it spares.
const PAGE: usize = 100;

/// Machines by id, as they were listed.
type Machines = Arc<BTreeMap<String, Machine>>;

/// Who waits for a machine, and the last list. A restart forgets it, which costs reads and nothing else.
#[derive(Default)]
pub(super) struct Roll {
    waiting: Mutex<BTreeMap<String, Instant>>,
    last: tokio::sync::Mutex<Option<(Instant, Machines)>>,
    /// How many pages the last list had beyond its first.
    pages: AtomicUsize,
}

impl Roll {
    /// The claim's machine as a list shows it; `None` if it must be read by its id.
    pub(super) async fn call(
        &self,
        context: &Context,
        cluster: ClusterId,
        claim: &NodeClaim,
        followed_for: Duration,
    ) -> Option<Machine> {
        let id = claim.allocation()?.instance_id.as_deref()?;
        if !self.is_in_company(context, id) {
            return None;
        }
        let listed = self.list(context, cluster).await;
        let machine = listed.get(id)?;
        let limits = &context.settings.limits;
        let is_due = followed_for >= launch_limit(claim.allocation()?, limits);
        (!is_due && takes_its_way(claim, machine)).then(|| machine.clone())
    }

    /// Notes that a machine is waited for, and says whether so many are that a list is cheaper.
    fn is_in_company(&self, context: &Context, id: &str) -> bool {
        let now = context.clock.instant();
        // Whoever waits comes back after one poll, or a little later when others are served first.
        let lately = context.clock.real(context.settings.limits.poll * 2);
        let pages = self.pages.load(Ordering::Relaxed);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(id.to_owned(), now);
        waiting.retain(|_, at| now.saturating_duration_since(*at) < lately);
        waiting.len() > ONE_BY_ONE_MAX.max(pages)
    }

    /// A list that began within the last poll: so it is younger than the order of whoever has waited for one. Those who
    /// wait for the same one are served together. One that fails shows nothing, and is tried again after a poll.
    async fn list(&self, context: &Context, cluster: ClusterId) -> Machines {
        let mut last = self.last.lock().await;
        let (now, fresh) = (
            context.clock.instant(),
            context.clock.real(context.settings.limits.poll),
        );
        if let Some((asked_at, machines)) = last.as_ref()
            && now.saturating_duration_since(*asked_at) < fresh
        {
            return Arc::clone(machines);
        }
        let listed = read(context, cluster).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "machines on their way are read one by one");
            BTreeMap::new()
        });
        self.pages.store(listed.len() / PAGE, Ordering::Relaxed);
        let machines = Arc::new(listed);
        *last = Some((now, Arc::clone(&machines)));
        machines
    }
}

async fn read(context: &Context, cluster: ClusterId) -> Result<BTreeMap<String, Machine>, garbage::Error> {
    let mut machines = BTreeMap::new();
    for resource_group in groups(context).await? {
        let ours = Ours {
            cluster,
            resource_group,
        };
        let listed = context.cloud.list(&ours).await?;
        machines.extend(listed.into_iter().map(|machine| (machine.id.clone(), machine)));
    }
    Ok(machines)
}

/// Whether nothing follows from what a list shows but that the claim waits on, or that it is launched: what ends an
/// attempt is read by id.
fn takes_its_way(claim: &NodeClaim, machine: &Machine) -> bool {
    if claim.is_deleting() {
        return machine.status == MachineStatus::Deleting;
    }
    let allocation = claim.allocation();
    let is_on_its_way = matches!(
        machine.status,
        MachineStatus::Pending | MachineStatus::Starting | MachineStatus::Running
    );
    is_on_its_way && allocation.is_some_and(|it| it.instance_name == machine.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::CapacityType;

    fn claim(deleted_at: Option<&str>) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "uid": "u", "deletionTimestamp": deleted_at},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"allocation": {"profile": "bxf-4x16", "zone": "us-south-1", "capacityType": "spot",
                "subnet": "s", "instanceName": "kib-1", "instanceID": "m", "attempt": 1, "since": "2026-11-16T10:00:00Z"}},
        }))
        .unwrap()
    }

    fn machine(name: &str, status: MachineStatus) -> Machine {
        Machine {
            id: "m".to_owned(),
            name: name.to_owned(),
            profile: "bxf-4x16".to_owned(),
            zone: "us-south-1".to_owned(),
            capacity_type: CapacityType::Spot,
            status,
            reasons: Vec::new(),
            address: None,
            resource_group: "g".to_owned(),
            image: None,
            subnet: None,
            interface: None,
            crn: None,
            created_at: None,
        }
    }

    #[test]
    fn a_list_is_believed_where_nothing_ends_by_it() {
        let all = [
            (MachineStatus::Pending, true, false),
            (MachineStatus::Starting, true, false),
            (MachineStatus::Running, true, false),
            (MachineStatus::Stopping, false, false),
            (MachineStatus::Stopped, false, false),
            (MachineStatus::Restarting, false, false),
            (MachineStatus::Deleting, false, true),
            (MachineStatus::Failed, false, false),
            (MachineStatus::Other("tomorrow".to_owned()), false, false),
        ];
        for (status, coming, going) in all {
            let (stays, goes) = (claim(None), claim(Some("2026-11-16T11:00:00Z")));
            let listed = machine("kib-1", status.clone());
            assert_eq!(takes_its_way(&stays, &listed), coming, "{status:?}");
            assert_eq!(takes_its_way(&goes, &listed), going, "{status:?}");
            let given_up = machine("kib-1-x1", status.clone());
            assert!(!takes_its_way(&stays, &given_up), "{status:?}");
        }
    }
}
