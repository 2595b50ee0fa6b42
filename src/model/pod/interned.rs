//! Classes of pods, kept up one pod at a time: a watch puts each pod into its class, and a class goes with its last pod.
//!
//! Of a class only its first pod is kept, without what no decision looks at (commands, environments, images, mounts), so
//! twenty thousand pods of one Deployment take the room of one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod as ApiPod, PodSpec, PodStatus};
use kube::api::ObjectMeta;

use super::classes::{alike, hash};
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
    first: ApiPod,
    read: Result<Pod, InvalidPod>,
    pods: usize,
}

impl Interned {
    /// Counts a pod to its class, which is made if there is none.
    pub fn enter(&mut self, pod: &ApiPod) -> ClassId {
        let hash = hash(pod);
        let known = self.by_hash.get(&hash).into_iter().flatten();
        let first = |id: &ClassId| self.classes.get(id).map(|class| &class.first);
        let same = known
            .copied()
            .find(|id| first(id).is_some_and(|first| alike(first, pod)));
        if let Some(id) = same {
            if let Some(class) = self.classes.get_mut(&id) {
                class.pods += 1;
            }
            return id;
        }
        // Read before anything is changed: a pod at which that panics must leave nothing half done.
        let class = Class {
            hash,
            first: bare(pod),
            read: Pod::read(pod, Reading::Plain),
            pods: 1,
        };
        let id = ClassId(self.next);
        self.next += 1;
        self.by_hash.entry(hash).or_default().push(id);
        self.classes.insert(id, class);
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

/// A pod without what classes do not differ in.
fn bare(pod: &ApiPod) -> ApiPod {
    ApiPod {
        metadata: ObjectMeta {
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            labels: pod.metadata.labels.clone(),
            ..ObjectMeta::default()
        },
        spec: pod.spec.as_ref().map(bare_spec),
        status: pod.status.as_ref().map(bare_status),
    }
}

fn bare_spec(spec: &PodSpec) -> PodSpec {
    let container = |container: &Container| Container {
        name: container.name.clone(),
        resources: container.resources.clone(),
        ports: container.ports.clone(),
        restart_policy: container.restart_policy.clone(),
        ..Container::default()
    };
    let claims = |volume: &&k8s_openapi::api::core::v1::Volume| {
        volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
    };
    let volumes = spec.volumes.as_ref();
    PodSpec {
        priority: spec.priority,
        node_selector: spec.node_selector.clone(),
        affinity: spec.affinity.clone(),
        tolerations: spec.tolerations.clone(),
        topology_spread_constraints: spec.topology_spread_constraints.clone(),
        overhead: spec.overhead.clone(),
        resources: spec.resources.clone(),
        resource_claims: spec.resource_claims.clone(),
        containers: spec.containers.iter().map(container).collect(),
        init_containers: spec
            .init_containers
            .as_ref()
            .map(|all| all.iter().map(container).collect()),
        volumes: volumes.map(|all| all.iter().filter(claims).cloned().collect()),
        ..PodSpec::default()
    }
}

fn bare_status(status: &PodStatus) -> PodStatus {
    let held = |all: &Option<Vec<ContainerStatus>>| {
        all.as_ref().map(|all| {
            let held = |status: &ContainerStatus| ContainerStatus {
                name: status.name.clone(),
                allocated_resources: status.allocated_resources.clone(),
                ..ContainerStatus::default()
            };
            all.iter().map(held).collect()
        })
    };
    PodStatus {
        container_statuses: held(&status.container_statuses),
        init_container_statuses: held(&status.init_container_statuses),
        ..PodStatus::default()
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
        assert_eq!(
            classes.classes[&first].first.spec.as_ref().unwrap().containers[0].env,
            None
        );
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
