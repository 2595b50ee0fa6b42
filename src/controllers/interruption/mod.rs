//! Spot machines that the cloud takes back, and machines that end in other ways.
//!
//! Three signals lead to one handler (`handle`). Every minute all spot machines are listed, every page; a word from a
//! kubelet that is being shut down, or one pushed by the cloud, makes that machine be looked at within a second, and then
//! every few seconds until it is clear what becomes of it. More than three such machines are looked at by one list.
//! Whatever the signal, only what the VPC API says about the machine itself is acted upon; a read that failed changes
//! nothing and is made again.

mod handle;
mod notices;
mod shutdown;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::context::Context;
use super::garbage::groups;
use crate::api::NodeClaim;
use crate::cloud::{self, ClusterId, InstanceName, Machine, Ours, ProviderId};
use crate::controllers::unavailable;
use crate::lifecycle::facts::Facts;
use crate::lifecycle::interruption::{Interruption, interruption};
pub use notices::{Listening, Notices};

/// Up to so many machines are looked at one by one; more by a list, which costs a request for each hundred.
const ONE_BY_ONE_MAX: usize = 3;
/// Words come in waves; the first waits this long for the others.
const GATHER: Duration = Duration::from_secs(1);
/// How often machines are looked at that somebody gave a word about.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A machine that is off without proof of a preemption may be started again, by its host or by a person.
const DEAD_AFTER: Duration = Duration::from_mins(2);

/// Why a look came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Kubernetes API refused or did not answer.
    #[error("reading or writing the cluster: {0}")]
    Kube(#[from] kube::Error),
    /// The cloud did not say all.
    #[error("reading the cloud: {0}")]
    Cloud(#[from] cloud::Error),
    /// An offering could not be withheld.
    #[error(transparent)]
    Withhold(#[from] unavailable::Error),
}

impl From<super::garbage::Error> for Error {
    fn from(error: super::garbage::Error) -> Self {
        match error {
            super::garbage::Error::Kube(error) => Self::Kube(error),
            super::garbage::Error::Cloud(error) => Self::Cloud(error),
            super::garbage::Error::Withhold(error) => Self::Withhold(error),
        }
    }
}

/// Looks after machines that may be taken away, for as long as this is polled.
pub async fn run(context: Context, cluster: ClusterId) {
    let _listening = context.notices.listen();
    let watch = Watch {
        context,
        cluster,
        remembered: Mutex::default(),
    };
    // None of them ends: where one does, all are begun anew.
    tokio::select! {
        biased;
        () = watch.poll() => {}
        () = watch.attend() => {}
        () = shutdown::listen(&watch.context) => {}
    }
}

/// What this process looks at, and what it has done already. Only spares work: whoever forgets it does the same again.
struct Watch {
    context: Context,
    cluster: ClusterId,
    remembered: Mutex<BTreeMap<String, Remembered>>,
}

/// What was last seen of a machine that does not go on as it should.
#[derive(Clone, Debug)]
struct Remembered {
    what: Interruption,
    since: Instant,
    /// Whether everything that follows was done.
    done: bool,
}

impl Watch {
    /// Lists all spot machines, again and again.
    async fn poll(&self) {
        loop {
            if let Err(error) = self.look_at_all().await {
                tracing::warn!(%error, "spot machines were not looked at");
            }
            self.context
                .clock
                .sleep(self.context.settings.interruption_poll)
                .await;
        }
    }

    /// Looks at machines that somebody gave a word about.
    async fn attend(&self) {
        let (clock, notices) = (&self.context.clock, &self.context.notices);
        loop {
            let machines = notices.machines(clock.instant());
            if machines.is_empty() {
                notices.next().await;
                self.gather().await;
                continue;
            }
            if let Err(error) = self.look_at(&machines).await {
                tracing::warn!(%error, "a machine was not looked at");
            }
            tokio::select! {
                biased;
                () = notices.next() => self.gather().await,
                () = clock.sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Waits for the other words of a wave.
    async fn gather(&self) {
        self.context.clock.sleep(GATHER).await;
        self.context.notices.gathered();
    }

    async fn look_at(&self, ids: &[String]) -> Result<(), Error> {
        if ids.len() > ONE_BY_ONE_MAX {
            return self.look_at_all().await;
        }
        let mut machines = Vec::new();
        for id in ids {
            match self.context.cloud.get(id).await {
                Ok(machine) => machines.push(machine),
                // The sweep finds out whether it is gone.
                Err(error) if error.is_not_found() => self.context.notices.forget(id),
                Err(error) => tracing::warn!(%error, id, "a machine was not looked at"),
            }
        }
        self.judge(machines).await
    }

    async fn look_at_all(&self) -> Result<(), Error> {
        let mut machines = Vec::new();
        for resource_group in groups(&self.context).await? {
            let ours = Ours {
                cluster: self.cluster,
                resource_group,
            };
            machines.extend(self.context.cloud.preemptible(&ours).await?);
        }
        self.forget_all_but(&machines);
        self.judge(machines).await
    }

    /// Does what follows from what was seen. One machine holds up no other.
    async fn judge(&self, machines: Vec<Machine>) -> Result<(), Error> {
        if machines.is_empty() {
            return Ok(());
        }
        // No resourceVersion, and after the machines were read: a claim that was made meanwhile is seen.
        let claims: Api<NodeClaim> = Api::all(self.context.client.clone());
        let claims = claims.list(&ListParams::default()).await?.items;
        let by_uid: BTreeMap<String, &NodeClaim> = claims
            .iter()
            .filter_map(|claim| Some((claim.uid()?, claim)))
            .collect();
        for machine in machines {
            let Some(name) =
                InstanceName::of_machine(&machine.name).filter(|it| it.cluster() == self.cluster)
            else {
                continue;
            };
            let claim = by_uid.get(&name.claim_uid()).copied();
            if let Err(error) = self.consider(claim, &machine).await {
                tracing::warn!(%error, id = machine.id, "what follows from a machine's state was not done");
            }
        }
        Ok(())
    }

    async fn consider(&self, claim: Option<&NodeClaim>, machine: &Machine) -> Result<(), Error> {
        // A claim on its way looks after its machine itself, and so does one with those of failed attempts.
        if claim.is_some_and(|claim| !claim.is_launched() || !holds(claim, &machine.id)) {
            return Ok(());
        }
        let Some(what) = interruption(machine) else {
            return self.recovered(claim, machine).await;
        };
        if what == Interruption::Stopping {
            // Soon it is clear what it was.
            self.context
                .notices
                .tell(&machine.id, self.context.clock.instant());
        }
        let remembered = self.remember(machine, &what);
        if remembered.done {
            return Ok(());
        }
        match (&what, claim) {
            (Interruption::Stopping, Some(claim)) => handle::stopping(&self.context, claim, machine).await?,
            (Interruption::Preempted, Some(claim)) => {
                handle::preempted(&self.context, claim, machine).await?;
            }
            (Interruption::Preempted, None) => handle::preempted_orphan(&self.context, machine).await?,
            (Interruption::Dead(why), Some(claim)) => {
                let dead_for = self.context.clock.instant() - remembered.since;
                if dead_for < self.context.clock.real(DEAD_AFTER) {
                    return Ok(());
                }
                handle::dead(&self.context, claim, machine, why).await?;
            }
            // The sweep collects what belongs to nobody.
            (Interruption::Stopping | Interruption::Dead(_), None) => {}
        }
        self.did(machine);
        if what != Interruption::Stopping {
            self.context.notices.forget(&machine.id);
        }
        Ok(())
    }

    /// It runs. If it was stopping when it was last seen, that is taken back.
    async fn recovered(&self, claim: Option<&NodeClaim>, machine: &Machine) -> Result<(), Error> {
        self.locked(|remembered| remembered.remove(&machine.id));
        match claim {
            Some(claim) if machine.status == cloud::MachineStatus::Running => {
                handle::recovered(&self.context, claim).await
            }
            _ => Ok(()),
        }
    }

    /// What is known of a machine in that state.
    fn remember(&self, machine: &Machine, what: &Interruption) -> Remembered {
        let new = Remembered {
            what: what.clone(),
            since: self.context.clock.instant(),
            done: false,
        };
        self.locked(|remembered| {
            let known = remembered
                .entry(machine.id.clone())
                .or_insert_with(|| new.clone());
            if known.what != new.what {
                *known = new;
            }
            known.clone()
        })
    }

    fn did(&self, machine: &Machine) {
        self.locked(|remembered| {
            if let Some(known) = remembered.get_mut(&machine.id) {
                known.done = true;
            }
        });
    }

    /// What is in no list any more need not be remembered.
    fn forget_all_but(&self, machines: &[Machine]) {
        let present: std::collections::BTreeSet<&str> =
            machines.iter().map(|machine| machine.id.as_str()).collect();
        self.locked(|remembered| remembered.retain(|id, _| present.contains(id.as_str())));
    }

    fn locked<T>(&self, then: impl FnOnce(&mut BTreeMap<String, Remembered>) -> T) -> T {
        then(&mut self.remembered.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a machine of a claim's name is the one that the claim holds now. Definitions of an older release drop what was
/// allocated, but not the id by which its Node is known.
fn holds(claim: &NodeClaim, id: &str) -> bool {
    let allocated = claim
        .allocation()
        .and_then(|allocation| allocation.instance_id.as_deref());
    let status = claim.status.as_ref();
    let written = status.and_then(|status| status.provider_id.as_deref());
    let known = written.and_then(|id| id.parse::<ProviderId>().ok());
    let known = known.as_ref().map(ProviderId::instance);
    allocated.or(known) == Some(id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(status: &serde_json::Value) -> NodeClaim {
        let spec = json!({
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            "requirements": [],
        });
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn a_claim_whose_allocation_was_dropped_holds_the_machine_that_its_node_is_known_by() {
        let known = claim(&json!({"providerID": "ibm:///us-south/0717_a"}));
        assert!(holds(&known, "0717_a"));
        assert!(!holds(&known, "0717_b"), "an earlier attempt's");
        assert!(!holds(&claim(&json!({})), "0717_a"));
    }
}
