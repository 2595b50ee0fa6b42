//! What a create that failed half way, or a deletion that forgot something, leaves in the account.

use jiff::Timestamp;

use super::{Machines, parts};
use crate::cloud::{Error, InstanceName, Leftover, LeftoverKind, Ours};
use crate::ibm::vpc::types::{AttachmentState, LifecycleState, Reference, VolumeStatus};
use crate::ibm::vpc::volumes::VolumeFilter;

/// What is not wanted any more when its machine is gone, by how it is named after the machine: whether a volume goes or
/// stays is decided when it is made, and its name says so whatever becomes of the class.
const GOES: [(&str, LeftoverKind); 3] = [
    (parts::INTERFACE, LeftoverKind::Interface),
    (parts::BOOT, LeftoverKind::BootVolume),
    (parts::SCRATCH, LeftoverKind::DataVolume),
];

impl Machines {
    pub(super) async fn find_leftovers(&self, ours: &Ours) -> Result<Vec<Leftover>, Error> {
        let is_in_group = |group: &Option<Reference>| {
            let id = group.as_ref().and_then(|group| group.id.as_ref());
            id == Some(&ours.resource_group)
        };
        let interfaces = self.vpc.list_interfaces(&ours.resource_group).await?.into_iter();
        let interfaces = interfaces.filter(|it| it.target.is_none() && is_in_group(&it.resource_group));
        let interfaces = interfaces.filter(|it| it.lifecycle_state != Some(LifecycleState::Deleting));
        let interfaces = interfaces.filter_map(|it| {
            let left = left_by(ours, it.id, it.name, it.created_at)?;
            (left.kind == LeftoverKind::Interface).then_some(left)
        });
        let mut leftovers: Vec<Leftover> = interfaces.collect();
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
            let left = left_by(ours, it.id, it.name, it.created_at)?;
            (left.kind != LeftoverKind::Interface).then_some(left)
        }));
        Ok(leftovers)
    }
}

/// What was left behind under that name, if it was made for a machine of ours and is to go with it.
fn left_by(ours: &Ours, id: String, name: String, created_at: Option<Timestamp>) -> Option<Leftover> {
    let goes = |(suffix, kind): (&str, LeftoverKind)| Some((parts::owner(&name, suffix)?.to_owned(), kind));
    let (stem, kind) = GOES.into_iter().find_map(goes)?;
    let machine = InstanceName::of_machine(&stem)?;
    (machine.cluster() == ours.cluster).then_some(Leftover {
        id,
        name,
        made_for: machine,
        stem,
        kind,
        created_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::ClusterId;

    const UID: &str = "0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4";

    fn left(name: &str) -> Option<(String, LeftoverKind)> {
        let ours = Ours {
            cluster: ClusterId::from_kube_system_uid("a"),
            resource_group: "g".to_owned(),
        };
        let left = left_by(&ours, "i".to_owned(), name.to_owned(), None)?;
        Some((left.stem, left.kind))
    }

    #[test]
    fn only_what_is_named_after_a_machine_of_this_cluster_is_ours() {
        let name = InstanceName::new(ClusterId::from_kube_system_uid("a"), UID).unwrap();
        let (first, second) = (name.to_string(), name.of_failed_attempt(2));
        for stem in [&first, &second] {
            for (part, kind) in [
                ("-vni", LeftoverKind::Interface),
                ("-boot", LeftoverKind::BootVolume),
                ("-scratch-0", LeftoverKind::DataVolume),
                ("-scratch-11", LeftoverKind::DataVolume),
            ] {
                assert_eq!(left(&format!("{stem}{part}")), Some((stem.clone(), kind)));
            }
        }
        assert_eq!(left(&first), None);
        assert_eq!(left("my-boot"), None);
        assert_eq!(left(&format!("{first}-scratch-")), None);
        assert_eq!(left(&format!("{first}-scratch-a")), None);
        let foreign = InstanceName::new(ClusterId::from_kube_system_uid("b"), UID).unwrap();
        assert_eq!(left(&format!("{foreign}-vni")), None);
    }

    #[test]
    fn a_volume_that_is_to_stay_is_never_left_behind() {
        let name = InstanceName::new(ClusterId::from_kube_system_uid("a"), UID).unwrap();
        for part in ["-boot-kept", "-data-0", "-data-11"] {
            assert_eq!(left(&format!("{name}{part}")), None);
            assert_eq!(left(&format!("{}{part}", name.of_failed_attempt(3))), None);
        }
    }
}
