//! What follows wherever it is seen that the cloud takes a spot machine back: by the interruption controller, or by a claim
//! that waits for its machine to run.

use std::time::Duration;

use super::context::Context;
use super::events::{Kind, Story};
use super::unavailable::{self, Cause};
use crate::api::{CapacityType, OfferingKey, names};
use crate::cloud::Machine;

/// Withholds what the machine really is, which is not always what its claim or labels say.
pub(super) async fn withhold(
    context: &Context,
    machine: &Machine,
    cause: Cause,
) -> Result<(), unavailable::Error> {
    match OfferingKey::one(CapacityType::Spot, &machine.profile, &machine.zone) {
        Ok(key) => context.unavailable.withhold(&key, cause).await.map(drop)?,
        Err(error) => tracing::warn!(%error, id = machine.id, "an offering cannot be withheld"),
    }
    Ok(())
}

/// What is told of it, on the claim and on the Node: the same words whoever tells them, so they are told once.
pub(super) fn story(context: &Context, machine: &Machine) -> Story {
    let hold = context.settings.holds.preempted;
    Story {
        kind: Kind::Warning,
        reason: names::REASON_SPOT_PREEMPTION,
        action: "Delete",
        note: format!(
            "Spot instance preempted by IBM Cloud: {} in {} is not bought as spot for {}",
            machine.profile,
            machine.zone,
            minutes(hold)
        ),
        transition: machine.id.clone(),
    }
}

fn minutes(length: Duration) -> String {
    match length.as_secs() {
        seconds if seconds.is_multiple_of(60) => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}
