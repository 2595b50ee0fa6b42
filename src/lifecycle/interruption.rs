//! What a machine's state, as the cloud tells it, means for the claim that it belongs to.

use crate::api::CapacityType;
use crate::model::{Machine, MachineStatus, StatusReason};

/// A machine that does not go on as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// A spot machine is being switched off: it may be a preemption, and its pods need another place in any case.
    Stopping,
    /// The cloud took it back. It leaves proof, so nothing else is needed to believe it.
    Preempted,
    /// It is switched off or broken, for the reason in these words. It may have been started again meanwhile, so it is
    /// believed when it stays so.
    Dead(String),
}

/// What is wrong with a machine, if anything is.
///
/// One that restarts, also after its host failed, is left alone; so is one that is on its way to run, or going since
/// somebody asked for that, or in a state of tomorrow.
pub fn interruption(machine: &Machine) -> Option<Interruption> {
    match machine.status {
        MachineStatus::Stopped if machine.is_preempted() => Some(Interruption::Preempted),
        MachineStatus::Stopped => Some(Interruption::Dead(why("the machine was switched off", machine))),
        MachineStatus::Failed => Some(Interruption::Dead(why("the machine failed", machine))),
        MachineStatus::Stopping if machine.capacity_type == CapacityType::Spot => {
            Some(Interruption::Stopping)
        }
        _ => None,
    }
}

fn why(what: &str, machine: &Machine) -> String {
    let reasons = machine
        .reasons
        .iter()
        .filter(|reason| **reason != StatusReason::Preempted);
    let reasons: Vec<String> = reasons.map(ToString::to_string).collect();
    match reasons.as_slice() {
        [] => what.to_owned(),
        reasons => format!("{what}: {}", reasons.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(capacity_type: CapacityType, status: MachineStatus, reasons: &[StatusReason]) -> Machine {
        Machine {
            id: "0717_1".to_owned(),
            name: "kib".to_owned(),
            profile: "bxf-2x8".to_owned(),
            zone: "us-south-1".to_owned(),
            capacity_type,
            status,
            reasons: reasons.to_vec(),
            address: None,
            resource_group: "ours".to_owned(),
            image: None,
            subnet: None,
            interface: None,
            crn: None,
            created_at: None,
        }
    }

    fn judge(
        capacity_type: CapacityType,
        status: MachineStatus,
        reasons: &[StatusReason],
    ) -> Option<Interruption> {
        interruption(&machine(capacity_type, status, reasons))
    }

    #[test]
    fn a_preemption_is_known_by_its_proof_alone() {
        let proof = [StatusReason::Preempted];
        let spot = |status, reasons| judge(CapacityType::Spot, status, reasons);
        assert_eq!(
            spot(MachineStatus::Stopped, &proof),
            Some(Interruption::Preempted)
        );
        assert_eq!(spot(MachineStatus::Stopping, &[]), Some(Interruption::Stopping));
        assert_eq!(
            spot(MachineStatus::Running, &proof),
            None,
            "somebody started it again"
        );
        assert!(matches!(
            spot(MachineStatus::Stopped, &[]),
            Some(Interruption::Dead(_))
        ));
    }

    #[test]
    fn a_host_failure_kills_only_what_does_not_restart() {
        let failed = [StatusReason::Other("stopped_by_host_failure".to_owned())];
        let on_demand = |status| judge(CapacityType::OnDemand, status, &failed);
        assert_eq!(on_demand(MachineStatus::Restarting), None);
        assert_eq!(on_demand(MachineStatus::Starting), None);
        let dead = "the machine was switched off: stopped_by_host_failure".to_owned();
        assert_eq!(on_demand(MachineStatus::Stopped), Some(Interruption::Dead(dead)));
    }

    #[test]
    fn what_is_on_its_way_or_unknown_is_left_alone() {
        for status in [
            MachineStatus::Pending,
            MachineStatus::Starting,
            MachineStatus::Running,
            MachineStatus::Deleting,
            MachineStatus::Other("hibernating".to_owned()),
        ] {
            assert_eq!(judge(CapacityType::Spot, status, &[]), None);
        }
        assert_eq!(judge(CapacityType::OnDemand, MachineStatus::Stopping, &[]), None);
    }
}
