//! What a create that failed half way, or a deletion that forgot something, leaves in the account.

use super::Machines;
use crate::cloud::{Error, InstanceName, Leftover, LeftoverKind, Ours};
use crate::ibm::vpc::types::{AttachmentState, LifecycleState, Reference, VolumeStatus};
use crate::ibm::vpc::volumes::VolumeFilter;

/// How the interface of a machine is named after it, and its boot volume.
const INTERFACE: &str = "-vni";
const BOOT_VOLUME: &str = "-boot";

impl Machines {
    pub(super) async fn find_leftovers(&self, ours: &Ours) -> Result<Vec<Leftover>, Error> {
        let is_in_group = |group: &Option<Reference>| {
            let id = group.as_ref().and_then(|group| group.id.as_ref());
            id == Some(&ours.resource_group)
        };
        let interfaces = self.vpc.list_interfaces(&ours.resource_group).await?.into_iter();
        let interfaces = interfaces.filter(|it| it.target.is_none() && is_in_group(&it.resource_group));
        let interfaces = interfaces.filter(|it| it.lifecycle_state != Some(LifecycleState::Deleting));
        let mut leftovers: Vec<Leftover> = interfaces
            .filter_map(|it| {
                Some(Leftover {
                    made_for: made_for(&it.name, INTERFACE, ours)?,
                    id: it.id,
                    name: it.name,
                    kind: LeftoverKind::Interface,
                    created_at: it.created_at,
                })
            })
            .collect();
        let unattached = VolumeFilter {
            attachment_state: Some("unattached"),
            ..VolumeFilter::default()
        };
        let volumes = self.vpc.list_volumes(&unattached).await?.into_iter();
        // A server that ignores the filter must not cost anybody a volume that is in use.
        let volumes = volumes.filter(|it| it.attachment_state == Some(AttachmentState::Unattached));
        let volumes = volumes
            .filter(|it| is_in_group(&it.resource_group) && it.status != Some(VolumeStatus::PendingDeletion));
        leftovers.extend(volumes.filter_map(|it| {
            Some(Leftover {
                made_for: made_for(&it.name, BOOT_VOLUME, ours)?,
                id: it.id,
                name: it.name,
                kind: LeftoverKind::BootVolume,
                created_at: it.created_at,
            })
        }));
        Ok(leftovers)
    }
}

/// The machine of ours that a name says it was made for.
fn made_for(name: &str, suffix: &str, ours: &Ours) -> Option<InstanceName> {
    let machine = name.strip_suffix(suffix).and_then(InstanceName::of_machine);
    machine.filter(|machine| machine.cluster() == ours.cluster)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::ClusterId;

    #[test]
    fn only_what_is_named_after_a_machine_of_this_cluster_is_ours() {
        let cluster = ClusterId::from_kube_system_uid("a");
        let ours = Ours {
            cluster,
            resource_group: "g".to_owned(),
        };
        let name = InstanceName::new(cluster, "0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4").unwrap();
        assert_eq!(made_for(&format!("{name}-boot"), BOOT_VOLUME, &ours), Some(name));
        let second = format!("{}-vni", name.of_failed_attempt(2));
        assert_eq!(
            made_for(&second, INTERFACE, &ours),
            Some(name),
            "of a later attempt"
        );
        assert_eq!(made_for(&format!("{name}-data-0"), BOOT_VOLUME, &ours), None);
        assert_eq!(made_for(&name.to_string(), BOOT_VOLUME, &ours), None);
        assert_eq!(made_for("my-boot", BOOT_VOLUME, &ours), None);
        let foreign = ClusterId::from_kube_system_uid("b");
        let foreign = InstanceName::new(foreign, "0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4").unwrap();
        assert_eq!(made_for(&format!("{foreign}-vni"), INTERFACE, &ours), None);
    }
}
