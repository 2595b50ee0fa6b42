//! How many pods a budget is about, and how many of them must be healthy.
//!
//! A number in `minAvailable` is about the pods that are there. A share, and `maxUnavailable` in either form, is about
//! the pods that their controllers ask for, so that a pod which is missing already counts against the budget. Shares are
//! rounded up, in both.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::super::pods::{controller, count};
use super::super::scaled::{Rounding, is_share, scaled};
use crate::sim::actors::view::{Key, View};

/// What a budget is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// All its pods.
    pub(super) pods: i32,
    /// How many of them must be healthy.
    pub(super) healthy: i32,
}

/// Works it out, or says why that is not possible.
pub(super) fn expected(view: &View, budget: &PodDisruptionBudget, pods: &[&Pod]) -> Result<Expected, String> {
    let spec = budget.spec.as_ref();
    let least = spec.and_then(|spec| spec.min_available.as_ref());
    let most_away = spec.and_then(|spec| spec.max_unavailable.as_ref());
    match (most_away, least) {
        (Some(away), _) => {
            let pods = asked_for(view, pods)?;
            let away = scaled(away, pods, Rounding::Up);
            let healthy = (pods - away).max(0);
            Ok(Expected { pods, healthy })
        }
        (None, Some(least)) if is_share(least) => {
            let pods = asked_for(view, pods)?;
            let healthy = scaled(least, pods, Rounding::Up);
            Ok(Expected { pods, healthy })
        }
        (None, least) => Ok(Expected {
            pods: count(pods),
            healthy: least.map_or(0, |least| scaled(least, 0, Rounding::Up)),
        }),
    }
}

/// How many pods the controllers of these pods ask for, together. Pods of nobody are not asked for.
fn asked_for(view: &View, pods: &[&Pod]) -> Result<i32, String> {
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let (uid, scale) = match scale(view, pod) {
            Scale::Nobody => continue,
            Scale::Known { uid, replicas } => (uid, replicas),
            Scale::Unknown { kind } => {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                return Err(format!(
                    "found no controllers for pod \"{name}\": {kind} cannot be scaled"
                ));
            }
        };
        scales.insert(uid, scale);
    }
    Ok(scales.values().sum())
}

/// How many pods the controller of a pod asks for.
enum Scale {
    /// It has none.
    Nobody,
    /// So many.
    Known { uid: String, replicas: i32 },
    /// It is of a kind that has no number, or it is gone.
    Unknown { kind: String },
}

fn scale(view: &View, pod: &Pod) -> Scale {
    let Some(owner) = controller(&pod.metadata) else {
        return Scale::Nobody;
    };
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let key = |name: &str| Key::new(namespace.clone(), name);
    let known = |uid: &str, replicas: Option<i32>| Scale::Known {
        uid: uid.to_owned(),
        replicas: replicas.unwrap_or(1),
    };
    let unknown = || Scale::Unknown {
        kind: owner.kind.clone(),
    };
    match owner.kind.as_str() {
        "ReplicaSet" => {
            let set = view.replica_sets.get(&key(&owner.name));
            let Some(set) = set.filter(|set| set.metadata.uid.as_ref() == Some(&owner.uid)) else {
                return unknown();
            };
            let above = controller(&set.metadata).filter(|above| above.kind == "Deployment");
            match above.and_then(|above| view.deployments.get(&key(&above.name))) {
                Some(above) => known(
                    above.metadata.uid.as_deref().unwrap_or_default(),
                    above.spec.replicas,
                ),
                None => known(&owner.uid, set.spec.replicas),
            }
        }
        "StatefulSet" => {
            let set = view.stateful_sets.get(&key(&owner.name));
            match set.filter(|set| set.metadata.uid.as_ref() == Some(&owner.uid)) {
                Some(set) => known(&owner.uid, set.spec.replicas),
                None => unknown(),
            }
        }
        _ => unknown(),
    }
}
