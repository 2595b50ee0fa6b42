//! An instance as a machine: what the API leaves out of an instance that must have it is an error and no guess.

use crate::api::CapacityType;
use crate::cloud::{Answer, Effect, Error, Machine, MachineStatus, StatusReason};
use crate::ibm::vpc::types::{AvailabilityClass, Instance, InstanceStatus, StatusReasonCode};

/// The machine that an instance is. `effect` says whether an instance that cannot be understood was just made.
pub(super) fn machine(instance: Instance, effect: Effect) -> Result<Machine, Error> {
    let class = instance.availability.as_ref().and_then(|a| a.class.clone());
    let named = (
        instance.profile_name().map(str::to_owned),
        instance.zone_name().map(str::to_owned),
        instance
            .resource_group
            .as_ref()
            .and_then(|group| group.id.clone()),
    );
    let (Some(profile), Some(zone), Some(resource_group)) = named else {
        return Err(incomplete(&instance.id, effect));
    };
    let attachment = instance.primary_network_attachment.as_ref();
    Ok(Machine {
        profile,
        zone,
        resource_group,
        // Before spot existed, and for words of tomorrow: what is not spot is not taken back.
        capacity_type: match class {
            Some(AvailabilityClass::Spot) => CapacityType::Spot,
            _ => CapacityType::OnDemand,
        },
        status: status(instance.status.as_ref()),
        reasons: instance
            .status_reasons
            .iter()
            .filter_map(|reason| reason.code.as_ref())
            .map(reason)
            .collect(),
        address: instance.address().map(str::to_owned),
        image: instance.image.as_ref().and_then(|image| image.id.clone()),
        subnet: attachment.and_then(|it| it.subnet.as_ref()?.id.clone()),
        interface: attachment.and_then(|it| it.virtual_network_interface.as_ref()?.id.clone()),
        created_at: instance.created_at,
        crn: instance.crn.clone(),
        id: instance.id,
        name: instance.name,
    })
}

fn status(status: Option<&InstanceStatus>) -> MachineStatus {
    match status {
        Some(InstanceStatus::Pending) => MachineStatus::Pending,
        Some(InstanceStatus::Starting) => MachineStatus::Starting,
        Some(InstanceStatus::Running) => MachineStatus::Running,
        Some(InstanceStatus::Stopping) => MachineStatus::Stopping,
        Some(InstanceStatus::Stopped) => MachineStatus::Stopped,
        Some(InstanceStatus::Restarting) => MachineStatus::Restarting,
        Some(InstanceStatus::Deleting) => MachineStatus::Deleting,
        Some(InstanceStatus::Failed) => MachineStatus::Failed,
        Some(InstanceStatus::Other(word)) => MachineStatus::Other(word.clone()),
        None => MachineStatus::Other(String::new()),
    }
}

fn reason(code: &StatusReasonCode) -> StatusReason {
    match code {
        StatusReasonCode::StoppedByPreemption => StatusReason::Preempted,
        StatusReasonCode::CannotStartCapacity => StatusReason::NoCapacity,
        StatusReasonCode::CannotStartIpAddress => StatusReason::NoAddress,
        StatusReasonCode::Other(word) => StatusReason::Other(word.clone()),
        // The API's own spelling, which is how it serializes.
        other => StatusReason::Other(
            serde_json::to_value(other)
                .ok()
                .and_then(|word| word.as_str().map(str::to_owned))
                .unwrap_or_default(),
        ),
    }
}

fn incomplete(id: &str, effect: Effect) -> Error {
    Error::Undecodable {
        effect,
        answer: Box::new(Answer {
            operation: "read instance",
            subject: id.to_owned(),
            message: "the instance lacks its profile, zone or resource group".to_owned(),
            ..Answer::default()
        }),
    }
}
