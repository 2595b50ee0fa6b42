//! What there is to be had: machines of an offering, and the account's quotas.
//!
//! Both are computed from the instances themselves, never counted along.

use super::errors::Refusal;
use super::options::{Class, Quotas};
use super::state::State;
use crate::ibm::builtin::{self, Profile};

/// A profile in a zone, sold in one way: what capacity is counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Offering {
    pub(super) profile: &'static str,
    pub(super) zone: String,
    pub(super) class: Class,
}

/// How much of something a profile has.
type Size = fn(&Profile) -> u32;

impl State {
    /// How many machines of an offering are free.
    pub(super) fn free(&self, offering: &Offering) -> u32 {
        let used = self
            .instances
            .values()
            .filter(|i| i.holds_host && i.offering() == *offering)
            .count();
        self.stock_of(offering)
            .saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    fn stock_of(&self, offering: &Offering) -> u32 {
        let stock = self.options.stock;
        self.stock.get(offering).copied().unwrap_or_else(|| {
            let gpu = builtin::find_profile(offering.profile).is_some_and(|profile| profile.gpu.is_some());
            match (offering.class, gpu) {
                (Class::Standard, false) => stock.standard,
                (Class::Spot, false) => stock.spot,
                (Class::Standard, true) => stock.gpu_standard,
                (Class::Spot, true) => stock.gpu_spot,
            }
        })
    }

    /// Leaves no free machine of an offering; those in use run on.
    pub(super) fn drain_offering(&mut self, offering: Offering) {
        self.stock.insert(offering, 0);
    }

    /// Gives an offering its default stock again.
    pub(super) fn refill_offering(&mut self, offering: &Offering) {
        self.stock.remove(offering);
    }

    /// Refuses a create that would exceed a quota. Stopped and failed instances count until they are gone; spot
    /// instances count by number only, and instances on dedicated hosts not at all.
    pub(super) fn check_quota(&self, profile: &Profile, class: Class, host: Host) -> Result<(), Refusal> {
        let Quotas {
            vcpu,
            memory_gib,
            gpu,
            storage_gb,
            spot_instances,
            ..
        } = self.options.quotas;
        let counted = self
            .instances
            .values()
            .filter(|i| i.class == class && i.host == Host::Shared);
        if class == Class::Spot {
            let spot = u32::try_from(counted.count()).unwrap_or(u32::MAX);
            return within("spot instances", spot, 1, spot_instances);
        }
        if host == Host::Dedicated {
            return Ok(());
        }
        let held: Vec<&Profile> = counted.map(|instance| instance.profile).collect();
        let sum = |size: Size| held.iter().map(|profile| size(profile)).sum::<u32>();
        let sizes: [(&str, Size, u32); 4] = [
            ("vCPUs", |p| p.vcpu, vcpu),
            ("memory (GiB)", |p| p.memory_gib, memory_gib),
            ("GPUs", |p| p.gpu.as_ref().map_or(0, |gpu| gpu.count), gpu),
            (
                "instance storage (GB)",
                |p| p.disks.map_or(0, |(count, size)| count * size),
                storage_gb,
            ),
        ];
        sizes
            .into_iter()
            .try_for_each(|(what, size, quota)| within(what, sum(size), size(profile), quota))
    }
}

/// Whether an instance shares its host with strangers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Shared,
    Dedicated,
}

/// Refuses `more` of something if that would exceed `quota`.
pub(super) fn within(what: &str, held: u32, more: u32, quota: u32) -> Result<(), Refusal> {
    if more == 0 || held + more <= quota {
        return Ok(());
    }
    let message =
        format!("The quota of {quota} {what} in this region is exceeded: {held} held, {more} requested");
    Err(Refusal::field("over_quota", "profile", message))
}
