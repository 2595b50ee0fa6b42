//! What the scheduler needs to know of a pod, read once for each kind of pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;

use super::host_port::HostPort;
use super::requirements::{Meaningless, Requirements};
use super::taint::Toleration;
use super::values::Values;
use crate::quantity::QuantityError;
use crate::resources::Resources;

mod classes;
mod interned;
mod requests;
mod topology;

pub use classes::{Member, PodSet};
pub use interned::{ClassId, Interned};
pub use topology::{Firmness, Inclusion, Namespaces, Spread, Term};

/// A label that stands for the name of a node, which terms of a node selector may ask for.
pub const NODE_NAME: &str = "metadata.name";

/// What the scheduler needs to know of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Those with more come first where not all find a place.
    pub priority: i32,
    /// What it asks of its node, itself included as one pod.
    pub requests: Resources,
    /// What labels its node must have: one of these, of which there is at least one.
    pub node_terms: Vec<Requirements>,
    /// What labels its node should have, the most important first.
    pub preferred_nodes: Vec<(i32, Requirements)>,
    /// Which taints it tolerates.
    pub tolerations: Vec<Toleration>,
    /// How evenly pods are to be spread.
    pub spreads: Vec<Spread>,
    /// To which pods it must be near.
    pub affinity: Vec<Term>,
    /// From which pods it must be far.
    pub anti_affinity: Vec<Term>,
    /// To which pods it should be near, the most important first.
    pub preferred_affinity: Vec<(i32, Term)>,
    /// From which pods it should be far, the most important first.
    pub preferred_anti_affinity: Vec<(i32, Term)>,
    /// The ports of the node that it takes.
    pub ports: Vec<HostPort>,
    /// The volumes that it mounts, by their claims.
    pub volumes: Vec<VolumeRef>,
    /// The claims to devices that it makes, by the names that it gives them. Nobody here can say where they are met.
    pub devices: Vec<String>,
}

/// A volume that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeRef {
    /// The name of its claim, in the pod's namespace.
    pub claim: String,
    /// Whether the claim is made together with the pod, and then from which storage class.
    pub made: Made,
}

/// How a claim to a volume comes into being.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Made {
    /// Before the pod.
    Before,
    /// With the pod, in this storage class; in the default one if absent.
    WithPod(Option<String>),
}

/// Why a pod cannot be read. Nobody else is affected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPod {
    /// An amount is none.
    #[error("its amount of {resource} cannot be read: {source}")]
    Quantity {
        /// Of what.
        resource: String,
        /// What is wrong with it.
        source: QuantityError,
    },
    /// An amount is negative.
    #[error("it requests {amount} of {resource}, which is less than nothing")]
    Negative {
        /// Of what.
        resource: String,
        /// How much, as it is written.
        amount: String,
    },
    /// A requirement on nodes has no meaning.
    #[error("{0}")]
    Requirement(#[from] Meaningless),
}

/// Whose node affinity is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A pod's own.
    Plain,
    /// A daemon's, whose controller pins each pod to its node by name; that part is left out.
    Daemon,
}

impl Pod {
    /// What a pod of the API asks for.
    pub fn read(pod: &core::Pod, reading: Reading) -> Result<Self, InvalidPod> {
        static NO_SPEC: std::sync::LazyLock<core::PodSpec> = std::sync::LazyLock::new(core::PodSpec::default);
        let spec = pod.spec.as_ref().unwrap_or(&NO_SPEC);
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let requests = requests::requests(spec, pod.status.as_ref())?;
        if let Some((resource, amount)) = requests.iter().find(|(_, amount)| **amount < 0) {
            return Err(InvalidPod::Negative {
                resource: resource.clone(),
                amount: requests::as_written(spec, resource, *amount),
            });
        }
        let mut read = Self {
            priority: spec.priority.unwrap_or_default(),
            requests,
            tolerations: spec
                .tolerations
                .iter()
                .flatten()
                .filter_map(Toleration::from_pod)
                .collect(),
            spreads: spec
                .topology_spread_constraints
                .iter()
                .flatten()
                .map(|spread| Spread::from_api(spread, &labels))
                .collect(),
            ports: HostPort::of_spec(spec),
            volumes: volumes(spec, name),
            devices: devices(spec),
            namespace,
            labels,
            ..Self::default()
        };
        read.read_node_affinity(spec, reading)?;
        read.read_pod_affinity(spec);
        Ok(read)
    }

    fn read_node_affinity(&mut self, spec: &core::PodSpec, reading: Reading) -> Result<(), InvalidPod> {
        let selected = spec.node_selector.as_ref().map(Requirements::from_labels);
        let selected = selected.unwrap_or_default();
        let affinity = spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity.and_then(|affinity| {
            affinity
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        self.node_terms = match required {
            None => vec![selected],
            Some(required) => {
                let mut all = Vec::new();
                for term in &required.node_selector_terms {
                    all.extend(node_term(term, reading)?.map(|term| selected.and(&term)));
                }
                if all.is_empty() {
                    all.push(impossible());
                }
                all
            }
        };
        let preferred = affinity.and_then(|affinity| {
            affinity
                .preferred_during_scheduling_ignored_during_execution
                .as_ref()
        });
        for preferred in preferred.into_iter().flatten() {
            // An empty preference matches everything and asks for nothing.
            if let Some(term) = node_term(&preferred.preference, reading)? {
                self.preferred_nodes.push((preferred.weight, term));
            }
        }
        self.preferred_nodes.sort_by_key(|(weight, _)| -weight);
        Ok(())
    }

    fn read_pod_affinity(&mut self, spec: &core::PodSpec) {
        let Some(affinity) = &spec.affinity else { return };
        let read = |term: &core::PodAffinityTerm| Term::from_api(term, &self.namespace, &self.labels);
        let weighted = |terms: Option<&Vec<core::WeightedPodAffinityTerm>>| {
            let read = |term: &core::WeightedPodAffinityTerm| (term.weight, read(&term.pod_affinity_term));
            let mut all: Vec<(i32, Term)> = terms.into_iter().flatten().map(read).collect();
            all.sort_by_key(|(weight, _)| -weight);
            all
        };
        let near = affinity.pod_affinity.as_ref();
        let far = affinity.pod_anti_affinity.as_ref();
        let preferred_near = weighted(
            near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref()),
        );
        let preferred_far =
            weighted(far.and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref()));
        let required_near =
            near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref());
        let required_far =
            far.and_then(|far| far.required_during_scheduling_ignored_during_execution.as_ref());
        let required_near = required_near.into_iter().flatten().map(read).collect();
        let required_far = required_far.into_iter().flatten().map(read).collect();
        (self.affinity, self.anti_affinity) = (required_near, required_far);
        (self.preferred_affinity, self.preferred_anti_affinity) = (preferred_near, preferred_far);
    }
}

/// One term of a node selector; `None` for one that is empty, which matches no node.
fn node_term(term: &core::NodeSelectorTerm, reading: Reading) -> Result<Option<Requirements>, Meaningless> {
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    if fields.is_empty() && expressions.is_empty() {
        return Ok(None);
    }
    let mut all = Requirements::from_term(term)?;
    if reading == Reading::Plain {
        all = all.and(&Requirements::from_expressions(fields)?);
    }
    Ok(Some(all))
}

/// What no node has.
fn impossible() -> Requirements {
    let mut never = Requirements::new();
    never.narrow(NODE_NAME, &Values::never());
    never
}

fn volumes(spec: &core::PodSpec, pod: &str) -> Vec<VolumeRef> {
    let read = |volume: &core::Volume| {
        if let Some(claim) = &volume.persistent_volume_claim {
            return Some(VolumeRef {
                claim: claim.claim_name.clone(),
                made: Made::Before,
            });
        }
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        Some(VolumeRef {
            claim: format!("{pod}-{}", volume.name),
            made: Made::WithPod(template.spec.storage_class_name.clone()),
        })
    };
    let mut all: Vec<VolumeRef> = spec.volumes.iter().flatten().filter_map(read).collect();
    all.sort();
    all.dedup();
    all
}

fn devices(spec: &core::PodSpec) -> Vec<String> {
    let claims = spec.resource_claims.iter().flatten();
    claims.map(|claim| claim.name.clone()).collect()
}

#[cfg(test)]
mod tests;
