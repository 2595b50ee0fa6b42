//! Volumes of pods: whether they can be used, where they can be, and how many a node can attach.

use super::place::Place;
use crate::model::pod::{Made, VolumeRef};
use crate::model::{Pod, Requirements, Snapshot, Storage};

/// What a volume asks of its node: one of these terms if there is any, and an attachment of a driver.
struct Asked<'s> {
    terms: &'s [Requirements],
    driver: Option<&'s str>,
}

/// What is broken by a pod's volumes at a place.
pub(super) fn look(snapshot: &Snapshot, place: &Place<'_>, pod: &Pod) -> Vec<String> {
    let mut broken = Vec::new();
    for volume in &pod.volumes {
        match asked(&snapshot.storage, &pod.namespace, volume) {
            None => broken.push(format!("claim {} cannot be used", volume.claim)),
            Some(asked) => {
                let mut terms = asked.terms.iter();
                if !asked.terms.is_empty() && !terms.any(|term| place.labels.meet(term)) {
                    broken.push(format!("the volume of claim {} cannot be there", volume.claim));
                }
            }
        }
    }
    let mut together = place.volumes.clone();
    let more = attached(&snapshot.storage, pod);
    for (driver, name) in &more {
        together.entry(driver.clone()).or_default().insert(name.clone());
    }
    if more.is_empty() {
        return broken;
    }
    for (driver, limit) in place.volume_limits.iter().copied().flatten() {
        let names = together.get(driver).map_or(0, std::collections::BTreeSet::len);
        let there = place
            .volumes
            .get(driver)
            .map_or(0, std::collections::BTreeSet::len);
        // Who brings no other may come where there are too many already.
        let added = names > there;
        if added && names > *limit as usize {
            broken.push(format!(
                "{names} volumes of {driver}, and {limit} can be attached"
            ));
            break;
        }
    }
    broken
}

/// The volumes that a pod attaches, by driver and name.
pub(super) fn attached(storage: &Storage, pod: &Pod) -> Vec<(String, String)> {
    let one = |volume: &VolumeRef| {
        let driver = asked(storage, &pod.namespace, volume)?.driver?;
        Some((driver.to_owned(), format!("{}/{}", pod.namespace, volume.claim)))
    };
    pod.volumes.iter().filter_map(one).collect()
}

/// What a volume asks; nothing comes back if it cannot be used.
fn asked<'s>(storage: &'s Storage, namespace: &str, volume: &'s VolumeRef) -> Option<Asked<'s>> {
    let key = (namespace.to_owned(), volume.claim.clone());
    let (bound, class) = match (storage.claims.get(&key), &volume.made) {
        (Some(claim), _) if claim.unusable.is_some() => return None,
        (Some(claim), _) => match &claim.volume {
            Some(_) if !claim.bound => return None,
            bound => (bound.as_ref(), claim.class.as_ref()),
        },
        (None, Made::WithPod(class)) => (None, class.as_ref()),
        (None, Made::Before) => return None,
    };
    if let Some(name) = bound {
        let volume = storage.volumes.get(name).filter(|volume| !volume.deleting)?;
        return Some(Asked {
            terms: &volume.nodes,
            driver: volume.driver.as_deref(),
        });
    }
    let newest_default = || {
        let defaults = storage.classes.iter();
        let defaults = defaults.filter_map(|(name, class)| Some((class.default_since?, name)));
        defaults.max().map(|(_, name)| name)
    };
    let class = storage.classes.get(class.or_else(newest_default)?)?;
    (!class.immediate).then_some(Asked {
        terms: &class.nodes,
        driver: Some(&class.driver),
    })
}
