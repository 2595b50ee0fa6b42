//! Classes of pods, kept up one pod at a time: a watch puts each pod into its class, and a class goes with its last pod.
//!
//! Of a class nothing is kept but what decisions see of its pods, so twenty thousand pods of one Deployment take the room of
//! one. The objects themselves, with their commands, environments and mounts, are not kept.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod as ApiPod;

use super::classes::hash;
use super::{InvalidPod, Pod, Reading};

/// A class, by a number that is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassId(u64);

/// The classes of the pods that are there.
#[derive(Debug, Default)]
pub struct Interned {
    classes: BTreeMap<ClassId, Class>,
    by_hash: BTreeMap<u64, Vec<ClassId>>,
    next: u64,
}

#[derive(Debug)]
struct Class {
    hash: u64,
    read: Result<Pod, InvalidPod>,
    pods: usize,
}

impl Interned {
    /// Counts a pod to its class, which is made if there is none.
    pub fn enter(&mut self, pod: &ApiPod) -> ClassId {
        let hash = hash(pod);
        // Before anything is changed: a pod at which reading panics must leave nothing half done.
        let read = Pod::read(pod, Reading::Plain);
        let known = self.by_hash.entry(hash).or_default();
        let classes = &mut self.classes;
        let same = known
            .iter()
            .find(|id| classes.get(id).is_some_and(|class| class.read == read));
        if let Some(id) = same.copied() {
            if let Some(class) = classes.get_mut(&id) {
                class.pods += 1;
            }
            return id;
        }
        let id = ClassId(self.next);
        self.next += 1;
        known.push(id);
        classes.insert(id, Class { hash, read, pods: 1 });
        id
    }

    /// A pod of the class is gone.
    pub fn leave(&mut self, id: ClassId) {
        let Some(class) = self.classes.get_mut(&id) else {
            return;
        };
        class.pods -= 1;
        if class.pods > 0 {
            return;
        }
        let hash = class.hash;
        self.classes.remove(&id);
        if let Some(known) = self.by_hash.get_mut(&hash) {
            known.retain(|other| *other != id);
            if known.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
    }

    /// What the pods of a class ask for, while there are any.
    pub fn get(&self, id: ClassId) -> Option<&Result<Pod, InvalidPod>> {
        self.classes.get(&id).map(|class| &class.read)
    }

    /// How many classes there are.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, cpu: &str) -> ApiPod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
            "spec": {"containers": [{
                "name": "a", "image": name, "env": [{"name": "SELF", "value": name}],
                "resources": {"requests": {"cpu": cpu}},
            }]},
        }))
        .unwrap()
    }

    #[test]
    fn pods_that_ask_for_the_same_are_one_class_whatever_else_they_say() {
        let mut classes = Interned::default();
        let first = classes.enter(&pod("a", "1"));
        assert_eq!(classes.enter(&pod("b", "1")), first);
        assert_ne!(classes.enter(&pod("c", "2")), first);
        assert_eq!(classes.len(), 2);
    }

    #[test]
    fn a_pod_that_claims_devices_is_another_class_and_stays_known_as_such() {
        let mut classes = Interned::default();
        let plain = classes.enter(&pod("a", "1"));
        let mut claiming = pod("b", "1");
        claiming.spec.as_mut().unwrap().resource_claims =
            serde_json::from_value(json!([{"name": "gpu", "resourceClaimName": "mine"}])).unwrap();
        let devices = classes.enter(&claiming);
        assert_ne!(devices, plain);
        assert_eq!(classes.enter(&claiming), devices);
        assert_eq!(classes.get(devices).unwrap().as_ref().unwrap().devices, ["gpu"]);
    }

    #[test]
    fn a_class_goes_with_its_last_pod_and_its_number_is_not_used_again() {
        let mut classes = Interned::default();
        let class = classes.enter(&pod("a", "1"));
        classes.enter(&pod("b", "1"));
        classes.leave(class);
        assert!(classes.get(class).is_some());
        classes.leave(class);
        assert!(classes.get(class).is_none() && classes.is_empty() && classes.by_hash.is_empty());
        assert_ne!(classes.enter(&pod("a", "1")), class);
    }
}
