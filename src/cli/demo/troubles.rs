//! What a story leaves behind when it goes no further: machines of which none is left, a cloud that misbehaves, a crash that
//! is yet to come. It ends with the story: whoever has the stage then would take it for the operator's doing.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::sim::ibm::FaultKind;
use crate::sim::scenario::{Action, Hands, Offering, Player, Step};

/// Ends what these steps have left behind, and says so. `spare` takes back a crash that is yet to come, if there is one.
pub(super) async fn end(steps: &[Step], hands: &Hands, spare: &dyn Fn() -> bool, player: &mut Player<'_>) {
    for offering in drained(steps) {
        let refill = Step {
            at: Duration::ZERO,
            line: 0,
            action: Action::Refill(offering.clone()),
        };
        // What the cloud does not sell is not missed either.
        let _ = player.take(0, &refill).await;
    }
    let faults = hands.cloud.faults();
    let going_on: BTreeSet<FaultKind> = faults.active().iter().map(|fault| fault.kind).collect();
    for kind in started(steps).intersection(&going_on) {
        faults.stop(*kind);
        player.narrate(&format!("From now on no longer: {}.", kind.description()));
    }
    if spare() {
        player.narrate("The operator does not crash after all.");
    }
}

/// What is sold, and of which nothing is left after these steps.
fn drained(steps: &[Step]) -> Vec<&Offering> {
    let mut drained: Vec<&Offering> = Vec::new();
    for step in steps {
        match &step.action {
            Action::Drain(offering) if !drained.contains(&offering) => drained.push(offering),
            Action::Refill(refilled) => drained.retain(|offering| !is_part(offering, refilled)),
            _ => {}
        }
    }
    drained
}

/// Whether whatever is one of the first is one of the second.
fn is_part(offering: &Offering, of: &Offering) -> bool {
    offering.profile == of.profile
        && (of.zone.is_none() || of.zone == offering.zone)
        && (of.class.is_none() || of.class == offering.class)
}

/// The faults that were turned on.
fn started(steps: &[Step]) -> BTreeSet<FaultKind> {
    let kinds = steps.iter().filter_map(|step| match &step.action {
        Action::Fault(fault) => Some(fault.kind),
        _ => None,
    });
    kinds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::scenario::Scenario;

    fn left(steps: &[&str]) -> Vec<String> {
        let steps = steps.join("\n  - ");
        let scenario = format!("name: x\nabout: y\nsteps:\n  - {steps}\n");
        let scenario = Scenario::parse("x.yaml", &scenario).unwrap();
        let names = drained(&scenario.steps).into_iter().map(|offering| {
            let zone = offering.zone.as_deref().unwrap_or("everywhere");
            format!("{} {zone}", offering.profile)
        });
        names.collect()
    }

    #[test]
    fn what_was_refilled_wholly_is_not_missed_and_what_was_refilled_in_part_is() {
        let table: [(&[&str], &[&str]); 5] = [
            (&["drain: {profile: cxf-4x8}", "refill: {profile: cxf-4x8}"], &[]),
            (
                &[
                    "drain: {profile: cxf-4x8, zone: us-south-1, class: spot}",
                    "refill: {profile: cxf-4x8}",
                ],
                &[],
            ),
            (
                &[
                    "drain: {profile: cxf-4x8}",
                    "refill: {profile: cxf-4x8, zone: us-south-1}",
                    "refill: {profile: cxf-4x8, class: spot}",
                ],
                &["cxf-4x8 everywhere"],
            ),
            (
                &[
                    "drain: {profile: cxf-4x8, zone: us-south-1}",
                    "refill: {profile: cxf-4x8, zone: us-south-2}",
                    "refill: {profile: bxf-4x16}",
                ],
                &["cxf-4x8 us-south-1"],
            ),
            (
                &["drain: {profile: cxf-4x8}", "drain: {profile: cxf-4x8}"],
                &["cxf-4x8 everywhere"],
            ),
        ];
        for (steps, missed) in table {
            assert_eq!(left(steps), missed, "{steps:?}");
        }
    }
}
