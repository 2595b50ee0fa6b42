//! Pods in classes: those that ask for exactly the same are read once.
//!
//! A hash written out by hand over the fields that matter finds the class, and comparing those fields with the class's
//! first pod confirms it; nothing is serialized. A hash that collides costs a comparison, never a wrong class.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Affinity, Container, Pod as ApiPod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{InvalidPod, Pod, Reading};

/// Pods, and what each class of them asks for.
#[derive(Clone, Debug, Default)]
pub struct PodSet {
    /// What the pods of each class ask for.
    pub classes: Vec<Result<Pod, InvalidPod>>,
    /// Every pod.
    pub members: Vec<Member>,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its class, by its place in [`PodSet::classes`].
    pub class: usize,
    /// Given by the API server, never used twice.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The node it is on, if any.
    pub node: Option<String>,
}

impl Member {
    /// What those who wait are ordered by: the oldest comes first, and no two are equal.
    pub fn place_in_line(&self) -> impl Ord + use<'_> {
        (&self.created, &self.namespace, &self.name, &self.uid)
    }
}

impl PodSet {
    /// These pods, in classes.
    pub fn of<P: Borrow<ApiPod>>(pods: &[P]) -> Self {
        let mut set = Self {
            classes: Vec::new(),
            members: Vec::with_capacity(pods.len()),
        };
        let mut firsts: Vec<&ApiPod> = Vec::new();
        let mut by_hash: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for pod in pods {
            let pod = pod.borrow();
            let known = by_hash.entry(hash(pod)).or_default();
            let same = known.iter().find(|class| alike(firsts[**class], pod)).copied();
            let class = same.unwrap_or_else(|| {
                let class = firsts.len();
                known.push(class);
                firsts.push(pod);
                set.classes.push(Pod::read(pod, Reading::Plain));
                class
            });
            set.members.push(member(pod, class));
        }
        set
    }
}

fn member(pod: &ApiPod, class: usize) -> Member {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Member {
        class,
        uid: text(&pod.metadata.uid),
        namespace: text(&pod.metadata.namespace),
        name: text(&pod.metadata.name),
        created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
        node: pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .filter(|node| !node.is_empty()),
    }
}

/// Whether two pods ask for the same, field by field as [`hash`] reads them.
pub(super) fn alike(one: &ApiPod, two: &ApiPod) -> bool {
    let (Some(a), Some(b)) = (&one.spec, &two.spec) else {
        return one.spec.is_none() && two.spec.is_none() && one.metadata.labels == two.metadata.labels;
    };
    one.metadata.namespace == two.metadata.namespace
        && one.metadata.labels == two.metadata.labels
        && a.priority == b.priority
        && a.node_selector == b.node_selector
        && a.affinity == b.affinity
        && a.tolerations == b.tolerations
        && a.topology_spread_constraints == b.topology_spread_constraints
        && a.overhead == b.overhead
        && a.resources == b.resources
        && a.resource_claims == b.resource_claims
        && same_containers(Some(&a.containers), Some(&b.containers))
        && same_containers(a.init_containers.as_ref(), b.init_containers.as_ref())
        && same_volumes(one, two, a, b)
        && held(one) == held(two)
}

fn same_containers(one: Option<&Vec<Container>>, two: Option<&Vec<Container>>) -> bool {
    let (one, two) = (
        one.map_or(&[][..], Vec::as_slice),
        two.map_or(&[][..], Vec::as_slice),
    );
    let same = |(a, b): (&Container, &Container)| {
        a.resources == b.resources && a.ports == b.ports && a.restart_policy == b.restart_policy
    };
    one.len() == two.len() && one.iter().zip(two).all(same)
}

fn same_volumes(one: &ApiPod, two: &ApiPod, a: &PodSpec, b: &PodSpec) -> bool {
    let name = |pod: &ApiPod| pod.metadata.name.clone().unwrap_or_default();
    let without = |spec: &PodSpec| {
        let claims = |volume: &&k8s_openapi::api::core::v1::Volume| {
            volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
        };
        spec.volumes.iter().flatten().find(claims).is_none()
    };
    (without(a) && without(b)) || super::volumes(a, &name(one)) == super::volumes(b, &name(two))
}

/// What containers hold while they are resized, which counts when they ask for less.
fn held(pod: &ApiPod) -> Vec<&BTreeMap<String, Quantity>> {
    let statuses = pod.status.iter().flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        status.container_statuses.iter().flatten().chain(init)
    });
    statuses
        .filter_map(|status| status.allocated_resources.as_ref())
        .collect()
}

/// A hash over words of eight bytes: each is mixed in by a rotation, an exclusive or and a multiplication.
struct Mixer(u64);

impl Mixer {
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn optional(&mut self, text: Option<&String>) {
        match text {
            Some(text) => self.text(text),
            None => self.word(u64::MAX),
        }
    }

    fn map(&mut self, map: Option<&BTreeMap<String, String>>) {
        for (key, value) in map.into_iter().flatten() {
            self.text(key);
            self.text(value);
        }
        self.word(1);
    }

    fn quantities(&mut self, map: Option<&BTreeMap<String, Quantity>>) {
        for (key, value) in map.into_iter().flatten() {
            self.text(key);
            self.text(&value.0);
        }
        self.word(2);
    }

    fn resources(&mut self, resources: Option<&ResourceRequirements>) {
        self.quantities(resources.and_then(|resources| resources.requests.as_ref()));
        self.quantities(resources.and_then(|resources| resources.limits.as_ref()));
    }

    fn containers(&mut self, containers: Option<&Vec<Container>>) {
        for container in containers.into_iter().flatten() {
            self.resources(container.resources.as_ref());
            self.optional(container.restart_policy.as_ref());
            for port in container.ports.iter().flatten() {
                self.word(u64::from(port.host_port.unwrap_or_default().cast_unsigned()));
            }
        }
        self.word(3);
    }

    fn selector(&mut self, selector: Option<&LabelSelector>) {
        let Some(selector) = selector else {
            return self.word(4);
        };
        self.map(selector.match_labels.as_ref());
        for expression in selector.match_expressions.iter().flatten() {
            self.text(&expression.key);
            self.text(&expression.operator);
            for value in expression.values.iter().flatten() {
                self.text(value);
            }
        }
    }

    /// Weights, and lists of which few pods have any, are left to the comparison.
    fn affinity(&mut self, affinity: &Affinity) {
        if let Some(near) = &affinity.pod_affinity {
            self.word(5);
            let required = near.required_during_scheduling_ignored_during_execution.iter();
            let preferred = near.preferred_during_scheduling_ignored_during_execution.iter();
            let preferred = preferred.flatten().map(|term| &term.pod_affinity_term);
            for term in required.flatten().chain(preferred) {
                self.text(&term.topology_key);
                self.selector(term.label_selector.as_ref());
            }
        }
        if let Some(far) = &affinity.pod_anti_affinity {
            self.word(6);
            let required = far.required_during_scheduling_ignored_during_execution.iter();
            let preferred = far.preferred_during_scheduling_ignored_during_execution.iter();
            let preferred = preferred.flatten().map(|term| &term.pod_affinity_term);
            for term in required.flatten().chain(preferred) {
                self.text(&term.topology_key);
                self.selector(term.label_selector.as_ref());
            }
        }
        let Some(nodes) = &affinity.node_affinity else {
            return;
        };
        self.word(7);
        let required = nodes.required_during_scheduling_ignored_during_execution.iter();
        let required = required.flat_map(|required| &required.node_selector_terms);
        let preferred = nodes.preferred_during_scheduling_ignored_during_execution.iter();
        let preferred = preferred.flatten().map(|preferred| &preferred.preference);
        for term in required.chain(preferred) {
            for expression in term.match_expressions.iter().flatten() {
                self.text(&expression.key);
                self.text(&expression.operator);
                for value in expression.values.iter().flatten() {
                    self.text(value);
                }
            }
        }
    }

    fn volumes(&mut self, spec: &PodSpec, pod: &str) {
        for volume in spec.volumes.iter().flatten() {
            if let Some(claim) = &volume.persistent_volume_claim {
                self.text(&claim.claim_name);
            } else if volume.ephemeral.is_some() {
                self.text(pod);
                self.text(&volume.name);
            }
        }
    }
}

pub(super) fn hash(pod: &ApiPod) -> u64 {
    let mut mixer = Mixer(0);
    mixer.optional(pod.metadata.namespace.as_ref());
    mixer.map(pod.metadata.labels.as_ref());
    let Some(spec) = &pod.spec else {
        return mixer.0;
    };
    mixer.word(u64::from(spec.priority.unwrap_or_default().cast_unsigned()));
    mixer.map(spec.node_selector.as_ref());
    mixer.containers(Some(&spec.containers));
    mixer.containers(spec.init_containers.as_ref());
    mixer.quantities(spec.overhead.as_ref());
    mixer.resources(spec.resources.as_ref());
    if let Some(affinity) = &spec.affinity {
        mixer.affinity(affinity);
    }
    for toleration in spec.tolerations.iter().flatten() {
        mixer.optional(toleration.key.as_ref());
        mixer.optional(toleration.value.as_ref());
    }
    for spread in spec.topology_spread_constraints.iter().flatten() {
        mixer.text(&spread.topology_key);
        mixer.word(u64::from(spread.max_skew.cast_unsigned()));
        mixer.selector(spread.label_selector.as_ref());
    }
    for claim in spec.resource_claims.iter().flatten() {
        mixer.text(&claim.name);
    }
    mixer.volumes(spec, pod.metadata.name.as_deref().unwrap_or_default());
    mixer.0
}
