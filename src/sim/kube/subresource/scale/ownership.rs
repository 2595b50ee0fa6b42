//! Who owns the replicas, seen from the object and from its scale.
//!
//! A scale is another kind than the object behind it, so its record of ownership is made from the object's for each
//! request, and carried back afterwards. It knows one field, `spec.replicas`.

use std::sync::LazyLock;

use crate::sim::kube::kind::Kind;
use crate::sim::kube::patch::fieldset::FieldSet;
use crate::sim::kube::patch::managers::{Holding, Managers};

const SCALE_VERSION: &str = "autoscaling/v1";

static IN_SCALE: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&["spec", "replicas"]));

/// The field of an object that is its scale's `spec.replicas`.
pub(super) fn replicas(path: &str) -> FieldSet {
    let names: Vec<&str> = path.split('.').filter(|name| !name.is_empty()).collect();
    FieldSet::of_fields(&names)
}

/// The record of the scale: whoever owns the object's replicas.
pub(super) fn of_scale(object: &Managers, replicas: &FieldSet) -> Managers {
    let mut scale = Managers::default();
    for (manager, holding) in object.iter() {
        if !holding.fields.intersection(replicas).is_empty() {
            let holding = Holding {
                fields: IN_SCALE.clone(),
                api_version: SCALE_VERSION.to_owned(),
                time: holding.time.clone(),
            };
            scale.set(manager.in_version(SCALE_VERSION), holding);
        }
    }
    scale
}

/// The record of the object after its scale was written, from its own of before and the scale's of now.
///
/// An updater is known by its name and the version that it wrote, and so is another one here than there. Hence an
/// updater who keeps the replicas appears twice afterwards, and who owns them now is not told a time: a real server
/// does that, too.
pub(super) fn of_object(kind: &Kind, object: &Managers, scale: &Managers, replicas: &FieldSet) -> Managers {
    let mut merged = Managers::default();
    for (manager, holding) in object.iter() {
        let mut holding = holding.clone();
        if scale.get(manager).is_none() {
            holding.fields = holding.fields.difference(replicas);
        }
        merged.set(manager.clone(), holding);
    }
    for (manager, holding) in scale.iter() {
        let is_kept = merged
            .get(manager)
            .is_some_and(|holding| !holding.fields.intersection(replicas).is_empty());
        if !is_kept && !holding.fields.intersection(&IN_SCALE).is_empty() {
            let holding = Holding {
                fields: replicas.clone(),
                api_version: kind.api_version(),
                time: object.get(manager).and_then(|holding| holding.time.clone()),
            };
            merged.set(manager.clone(), holding);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::patch::managers::Manager;
    use crate::sim::kube::registry::Registry;

    fn holding(fields: &[&[&str]]) -> Holding {
        let sets = fields.iter().map(|path| FieldSet::of_fields(path));
        Holding {
            fields: sets.fold(FieldSet::default(), |all, set| all.union(&set)),
            api_version: "apps/v1".to_owned(),
            time: Some("2026-11-16T10:00:00Z".to_owned()),
        }
    }

    #[test]
    fn whoever_takes_the_replicas_leaves_their_owner_the_rest() {
        let kind = Registry::default().find("apps", "v1", "deployments").unwrap();
        let replicas = replicas(".spec.replicas");
        let owner = Manager::applier("owner", "");
        let mut object = Managers::default();
        object.set(
            owner.clone(),
            holding(&[&["spec", "replicas"], &["spec", "paused"]]),
        );
        let mut scale = of_scale(&object, &replicas);
        assert_eq!(scale.get(&owner).unwrap().fields, *IN_SCALE);
        assert_eq!(
            of_object(&kind, &object, &scale, &replicas),
            object,
            "nobody took it"
        );

        scale = Managers::default();
        let taker = Manager::applier("taker", "scale");
        scale.set(taker.clone(), holding(&[&["spec", "replicas"]]));
        let after = of_object(&kind, &object, &scale, &replicas);
        assert_eq!(
            after.get(&owner).unwrap().fields,
            FieldSet::of_fields(&["spec", "paused"])
        );
        assert_eq!(after.get(&taker).unwrap().fields, replicas);
        assert_eq!(after.get(&taker).unwrap().api_version, "apps/v1");
    }
}
