//! A cloud that is misunderstood.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::hearsay::ANYWHERE;
use crate::clock::Clock;
use crate::cloud::{
    Answer, Cloud, Error, Image, ImageQuery, InstanceName, Interface, Kind, Leftover, LeftoverKind, Machine,
    MachineStatus, Network, Order, Ours, Placement, Subnet,
};

/// How a cloud is misunderstood.
pub(super) enum Flaw {
    /// Every failed read says "not there".
    ErrorAsAbsence,
    /// Nothing is found by name.
    NoNameLookUp,
    /// Machines whose deletion was accepted are gone.
    DeletionIsDone(Mutex<BTreeSet<String>>),
    /// Machines are bought and found under a name that has this in it.
    NamedAfter(u32),
    /// Every machine has the same address.
    AnyAddress,
    /// Machines that stop seem to run.
    NeverStops,
    /// Machines that stop seem to run for a while; since when each was told to stop.
    StopsLate(Clock, Mutex<BTreeMap<String, Instant>>),
    /// Machines that are gone seem to be there still.
    NeverGone(Mutex<BTreeMap<String, Machine>>),
    /// A read that fails is the end.
    Unwrapped,
    /// Nothing seems to be left of machines that are gone.
    LeftoversUnseen,
    /// Whatever interface is in the resource group and on no machine of ours seems to be left of one.
    AnyLeftover,
    /// A list with a machine in it that stops is the end.
    Startled,
    /// Machines are what was ordered under their name.
    TakenAsOrdered(Mutex<BTreeMap<String, Order>>),
    /// Machines that are being deleted are gone, and another is bought under another name; the names that they hold.
    Impatient(Mutex<BTreeSet<String>>),
}

/// How late it is seen that a machine stops.
const LATE: Duration = Duration::from_mins(3);

/// Numbers of lives stand where those of failed attempts do, far above any of them.
const LIFE_MIN: u32 = 1_000_000;

impl Flaw {
    pub(super) fn deletion_is_done() -> Self {
        Self::DeletionIsDone(Mutex::default())
    }

    pub(super) fn stops_late(clock: Clock) -> Self {
        Self::StopsLate(clock, Mutex::default())
    }

    pub(super) fn never_gone() -> Self {
        Self::NeverGone(Mutex::default())
    }

    pub(super) fn taken_as_ordered() -> Self {
        Self::TakenAsOrdered(Mutex::default())
    }

    pub(super) fn impatient() -> Self {
        Self::Impatient(Mutex::default())
    }

    pub(super) fn named_after(life: u64) -> Self {
        let life = u32::try_from(life % 1_000_000_000).unwrap_or_default();
        Self::NamedAfter(LIFE_MIN + life)
    }
}

/// `inner`, as one sees it who has that flaw.
pub(super) fn flawed(inner: Arc<dyn Cloud>, flaw: Flaw) -> Arc<dyn Cloud> {
    Arc::new(Flawed { inner, flaw })
}

struct Flawed {
    inner: Arc<dyn Cloud>,
    flaw: Flaw,
}

impl Flawed {
    /// The name under which `name` goes in this life.
    fn told(&self, name: &str) -> String {
        match &self.flaw {
            Flaw::NamedAfter(life) => format!("{name}-x{life}"),
            Flaw::Impatient(held) if lock(held).contains(name) => format!("{name}-x{LIFE_MIN}"),
            _ => name.to_owned(),
        }
    }

    /// A machine under the name it would have without this flaw.
    fn heard(&self, mut machine: Machine) -> Machine {
        if matches!(self.flaw, Flaw::NamedAfter(_) | Flaw::Impatient(_))
            && let Some((name, life)) = machine.name.rsplit_once("-x")
            && life.parse::<u32>().is_ok_and(|life| life >= LIFE_MIN)
            && name.parse::<InstanceName>().is_ok()
        {
            machine.name = name.to_owned();
        }
        if matches!(machine.status, MachineStatus::Stopping | MachineStatus::Stopped)
            && self.is_deaf_to_its_end(&machine.id)
        {
            machine.status = MachineStatus::Running;
            machine.reasons.clear();
        }
        if let Flaw::AnyAddress = self.flaw {
            machine.address = machine.address.map(|_| ANYWHERE.to_owned());
        }
        if let Flaw::TakenAsOrdered(orders) = &self.flaw
            && let Some(order) = orders
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(&machine.name)
        {
            machine.profile.clone_from(&order.profile);
            machine.zone.clone_from(&order.zone);
            machine.capacity_type = order.capacity_type;
        }
        machine
    }

    /// Whether a machine that stops is taken for one that runs.
    fn is_deaf_to_its_end(&self, id: &str) -> bool {
        match &self.flaw {
            Flaw::NeverStops => true,
            Flaw::StopsLate(clock, told) => {
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                let now = clock.instant();
                let since = *told.entry(id.to_owned()).or_insert(now);
                now.saturating_duration_since(since) < LATE
            }
            _ => false,
        }
    }

    fn is_gone(&self, id: &str) -> bool {
        match &self.flaw {
            Flaw::DeletionIsDone(gone) => lock(gone).contains(id),
            _ => false,
        }
    }

    /// Whether a machine that is being deleted is taken for gone, which holds its name all the same.
    fn is_as_good_as_gone(&self, machine: &Machine) -> bool {
        match &self.flaw {
            Flaw::Impatient(held) if machine.status == MachineStatus::Deleting => {
                lock(held).insert(machine.name.clone());
                true
            }
            _ => false,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An interface as what a machine of a claim that is gone left behind long ago, whoever made it.
fn taken_for_left(interface: Interface, ours: &Ours) -> Option<Leftover> {
    Some(Leftover {
        name: interface.id.clone(),
        stem: interface.id.clone(),
        id: interface.id,
        made_for: InstanceName::new(ours.cluster, "00000000-0000-0000-0000-000000000000")?,
        kind: LeftoverKind::Interface,
        created_at: Some(jiff::Timestamp::UNIX_EPOCH),
    })
}

fn not_found(id: &str) -> Error {
    Error::NotFound(Box::new(Answer {
        operation: "get instance",
        subject: id.to_owned(),
        ..Answer::default()
    }))
}

#[async_trait]
impl Cloud for Flawed {
    async fn create(&self, order: &Order) -> Result<Machine, Error> {
        let order = Order {
            name: self.told(&order.name),
            ..order.clone()
        };
        if let Flaw::TakenAsOrdered(orders) = &self.flaw {
            let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
            orders.insert(order.name.clone(), order.clone());
        }
        self.inner.create(&order).await.map(|machine| self.heard(machine))
    }

    #[expect(clippy::panic, reason = "to panic is what one of the flaws is")]
    async fn get(&self, id: &str) -> Result<Machine, Error> {
        match (&self.flaw, self.inner.get(id).await) {
            (Flaw::ErrorAsAbsence, Err(_)) => Err(not_found(id)),
            (Flaw::Unwrapped, Err(error)) => panic!("reading a machine: {error}"),
            (Flaw::NeverGone(known), answer) => {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                match answer {
                    Ok(machine) => {
                        known.insert(id.to_owned(), machine.clone());
                        Ok(machine)
                    }
                    Err(error) => known.get(id).cloned().ok_or(error),
                }
            }
            _ if self.is_gone(id) => Err(not_found(id)),
            (_, Ok(machine)) if self.is_as_good_as_gone(&machine) => Err(not_found(id)),
            (_, answer) => answer.map(|machine| self.heard(machine)),
        }
    }

    async fn find(&self, name: &str) -> Result<Option<Machine>, Error> {
        match (&self.flaw, self.inner.find(&self.told(name)).await) {
            (Flaw::NoNameLookUp, _) | (Flaw::ErrorAsAbsence, Err(_)) => Ok(None),
            (_, Ok(Some(machine))) if self.is_gone(&machine.id) || self.is_as_good_as_gone(&machine) => {
                Ok(None)
            }
            (_, answer) => Ok(answer?.map(|machine| self.heard(machine))),
        }
    }

    async fn list(&self, ours: &Ours) -> Result<Vec<Machine>, Error> {
        match (&self.flaw, self.inner.list(ours).await) {
            (Flaw::ErrorAsAbsence, Err(_)) => Ok(Vec::new()),
            (_, answer) => Ok(answer?.into_iter().map(|machine| self.heard(machine)).collect()),
        }
    }

    #[expect(clippy::panic, reason = "to panic is what one of the flaws is")]
    async fn preemptible(&self, ours: &Ours) -> Result<Vec<Machine>, Error> {
        let stops =
            |machine: &Machine| matches!(machine.status, MachineStatus::Stopping | MachineStatus::Stopped);
        match (&self.flaw, self.inner.preemptible(ours).await) {
            (Flaw::ErrorAsAbsence, Err(_)) => Ok(Vec::new()),
            (Flaw::Startled, Ok(machines)) if machines.iter().any(stops) => panic!("a machine stops"),
            (_, answer) => Ok(answer?.into_iter().map(|machine| self.heard(machine)).collect()),
        }
    }

    async fn leftovers(&self, ours: &Ours) -> Result<Vec<Leftover>, Error> {
        match (&self.flaw, self.inner.leftovers(ours).await) {
            (Flaw::ErrorAsAbsence, Err(_)) | (Flaw::LeftoversUnseen, _) => Ok(Vec::new()),
            (Flaw::AnyLeftover, answer) => {
                let mut all = answer?;
                let used = self
                    .inner
                    .list(ours)
                    .await?
                    .into_iter()
                    .filter_map(|it| it.interface);
                let mut known: BTreeSet<String> = used.collect();
                known.extend(all.iter().map(|it| it.id.clone()));
                let interfaces = self.inner.interfaces(&ours.resource_group).await?.into_iter();
                all.extend(
                    interfaces
                        .filter(|it| !known.contains(&it.id))
                        .filter_map(|it| taken_for_left(it, ours)),
                );
                Ok(all)
            }
            (_, answer) => answer,
        }
    }

    async fn remove(&self, leftover: &Leftover) -> Result<(), Error> {
        self.inner.remove(leftover).await
    }

    async fn delete(&self, id: &str) -> Result<(), Error> {
        self.inner.delete(id).await?;
        if let Flaw::DeletionIsDone(gone) = &self.flaw {
            gone.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(id.to_owned());
        }
        Ok(())
    }

    async fn rename(&self, id: &str, name: &str) -> Result<(), Error> {
        self.inner.rename(id, name).await
    }

    async fn kinds(&self) -> Result<Arc<Vec<Kind>>, Error> {
        self.inner.kinds().await
    }

    async fn recent_kinds(&self) -> Result<Arc<Vec<Kind>>, Error> {
        self.inner.recent_kinds().await
    }

    async fn tag(&self, machine: &Machine, tags: &BTreeSet<String>) -> Result<(), Error> {
        self.inner.tag(machine, tags).await
    }

    async fn interfaces(&self, resource_group: &str) -> Result<Vec<Interface>, Error> {
        self.inner.interfaces(resource_group).await
    }

    async fn network(&self, vpc: &str) -> Result<Option<Network>, Error> {
        self.inner.network(vpc).await
    }

    async fn subnets(&self, vpc: &str) -> Result<Vec<Subnet>, Error> {
        self.inner.subnets(vpc).await
    }

    async fn tagged_subnets(
        &self,
        vpc: &str,
        tags: &BTreeMap<String, String>,
        known: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Error> {
        self.inner.tagged_subnets(vpc, tags, known).await
    }

    async fn security_groups(&self, vpc: &str) -> Result<BTreeSet<String>, Error> {
        self.inner.security_groups(vpc).await
    }

    async fn keys(&self) -> Result<BTreeSet<String>, Error> {
        self.inner.keys().await
    }

    async fn images(&self, query: &ImageQuery) -> Result<Vec<Image>, Error> {
        self.inner.images(query).await
    }

    async fn placement(&self, id: &str) -> Result<Option<Placement>, Error> {
        self.inner.placement(id).await
    }

    async fn resource_group(&self, written: Option<&str>) -> Result<Option<String>, Error> {
        self.inner.resource_group(written).await
    }
}

#[cfg(test)]
mod tests;
