//! What is not to be had while a fault of withdrawal lasts: a profile, a zone, an image. What was made of it lives on.

use super::ask::Ask;
use super::faults::FaultKind;
use super::geography;
use super::images::{Image, ImageStatus};
use super::prototype::Prototype;
use super::state::State;
use super::truth::account;
use crate::ibm::builtin::Profile;

/// The profile that is withdrawn where the fault names none: the one that demos and stories buy.
const USUAL_PROFILE: &str = "bxf-4x16";

impl State {
    /// What a fault of that kind withdraws now.
    fn withdrawn(&self, kind: FaultKind) -> Option<String> {
        if !self.faults.is_on(kind) {
            return None;
        }
        let usual = || match kind {
            FaultKind::ProfileWithdrawn => USUAL_PROFILE.to_owned(),
            FaultKind::ZoneWithdrawn => geography::zones(&self.region)[0].clone(),
            _ => account(self).image,
        };
        Some(self.faults.target(kind).map_or_else(usual, str::to_owned))
    }

    /// Whether a profile is sold at all.
    pub(super) fn sells(&self, profile: &str) -> bool {
        let gone = self.withdrawn(FaultKind::ProfileWithdrawn);
        !self.removed_profiles.contains(profile) && gone.is_none_or(|gone| gone != profile)
    }

    /// Whether anything is sold in a zone.
    pub(super) fn is_open(&self, zone: &str) -> bool {
        let closed = self.withdrawn(FaultKind::ZoneWithdrawn);
        closed.is_none_or(|closed| closed != zone)
    }

    /// The zones in which a profile is sold.
    pub(super) fn zones_selling(&self, profile: &Profile) -> Vec<String> {
        let mut zones = geography::zones_with(profile, &self.region);
        zones.retain(|zone| self.is_open(zone));
        zones
    }

    /// Whether an image can be found.
    pub(super) fn has_image(&self, id: &str) -> bool {
        let gone = self.withdrawn(FaultKind::ImageDeleted);
        gone.is_none_or(|gone| gone != id)
    }

    /// What an image says of itself.
    pub(super) fn image_status(&self, image: &Image) -> ImageStatus {
        let deprecated = self.withdrawn(FaultKind::ImageDeprecated);
        if image.status == ImageStatus::Available && deprecated.is_some_and(|gone| gone == image.id) {
            ImageStatus::Deprecated
        } else {
            image.status
        }
    }

    /// Takes note of withdrawals that show in the answer to this question about everything, or about `name` alone.
    pub(super) fn misses(&mut self, kinds: &[FaultKind], name: Option<&str>, ask: &Ask) {
        for &kind in kinds {
            let gone = self.withdrawn(kind);
            if gone.is_some_and(|gone| name.is_none_or(|name| name == gone)) {
                self.faults.hits(kind, ask.operation);
            }
        }
    }

    /// Takes note of withdrawals that refuse an order.
    pub(super) fn misses_for(&mut self, prototype: &Prototype, ask: &Ask) {
        self.misses(&[FaultKind::ProfileWithdrawn], Some(&prototype.profile), ask);
        self.misses(&[FaultKind::ZoneWithdrawn], Some(&prototype.zone), ask);
        self.misses(&[FaultKind::ImageDeleted], Some(&prototype.image), ask);
    }
}
