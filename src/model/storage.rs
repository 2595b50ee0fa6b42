//! What is known of volumes: which nodes they can be on, and how many fit a node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;

use super::pod::{Made, VolumeRef};
use super::requirements::Requirements;
use super::values::Values;
use crate::api::names::HOSTNAME;

/// Claims, volumes and storage classes.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// Claims by namespace and name.
    pub claims: BTreeMap<(String, String), VolumeClaim>,
    /// Volumes by name.
    pub volumes: BTreeMap<String, Volume>,
    /// Storage classes by name.
    pub classes: BTreeMap<String, StorageClass>,
}

/// A claim to a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeClaim {
    /// The volume it is bound to, or asks for by name.
    pub volume: Option<String>,
    /// Whether the binding is complete.
    pub bound: bool,
    /// Its storage class; an empty name means that none is wanted.
    pub class: Option<String>,
    /// Why no pod can use it, if so.
    pub unusable: Option<Unusable>,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// The driver that attaches it, if one does.
    pub driver: Option<String>,
    /// What labels its nodes must have: one of these; any node if there is none.
    pub nodes: Vec<Requirements>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// A storage class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClass {
    /// The driver of its volumes.
    pub driver: String,
    /// Whether volumes are made before a pod is placed.
    pub immediate: bool,
    /// What labels the nodes of its volumes must have: one of these; any node if there is none.
    pub nodes: Vec<Requirements>,
    /// Whether it is the default one, and since when as a number that grows.
    pub default_since: Option<i64>,
}

/// Why a claim cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is being deleted.
    Deleting,
    /// Its volume is gone.
    Lost,
}

/// What a volume asks of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeNeeds {
    /// What labels the node must have: one of these; any node if there is none.
    pub nodes: Vec<Requirements>,
    /// The driver of which it takes one attachment, if any.
    pub driver: Option<String>,
}

/// Why no pod can use a volume as things are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeProblem {
    /// There is no such claim.
    #[error("persistent volume claim {0} does not exist")]
    NoClaim(String),
    /// It is being deleted.
    #[error("persistent volume claim {0} is being deleted")]
    Deleting(String),
    /// Its volume is gone.
    #[error("persistent volume claim {0} has lost its volume")]
    Lost(String),
    /// It names a volume to which it is not bound yet.
    #[error("persistent volume claim {0} is not bound to its volume yet")]
    Unbound(String),
    /// There is no such volume.
    #[error("persistent volume {0} does not exist")]
    NoVolume(String),
    /// The volume goes away.
    #[error("persistent volume {0} is being deleted")]
    VolumeDeleting(String),
    /// Unbound, and without a storage class that could make a volume.
    #[error("persistent volume claim {0} is not bound and has no storage class")]
    NoClass(String),
    /// There is no such storage class.
    #[error("storage class {0} does not exist")]
    UnknownClass(String),
    /// The volume should be there already.
    #[error("persistent volume claim {0} is not bound although its storage class binds immediately")]
    Immediate(String),
}

impl Storage {
    /// What a volume of a pod in this namespace asks of its node.
    pub fn needs(&self, namespace: &str, volume: &VolumeRef) -> Result<VolumeNeeds, VolumeProblem> {
        let name = volume.claim.clone();
        let Some(claim) = self.claims.get(&(namespace.to_owned(), name.clone())) else {
            return match &volume.made {
                Made::Before => Err(VolumeProblem::NoClaim(name)),
                Made::WithPod(class) => self.unbound(name, class.as_ref()),
            };
        };
        match claim.unusable {
            Some(Unusable::Deleting) => return Err(VolumeProblem::Deleting(name)),
            Some(Unusable::Lost) => return Err(VolumeProblem::Lost(name)),
            None => {}
        }
        let Some(bound) = &claim.volume else {
            return self.unbound(name, claim.class.as_ref());
        };
        if !claim.bound {
            return Err(VolumeProblem::Unbound(name));
        }
        let known = self.volumes.get(bound);
        let known = known.ok_or_else(|| VolumeProblem::NoVolume(bound.clone()))?;
        if known.deleting {
            return Err(VolumeProblem::VolumeDeleting(bound.clone()));
        }
        Ok(VolumeNeeds {
            nodes: known.nodes.clone(),
            driver: known.driver.clone(),
        })
    }

    fn unbound(&self, claim: String, class: Option<&String>) -> Result<VolumeNeeds, VolumeProblem> {
        let newest = || {
            let defaults = self
                .classes
                .iter()
                .filter_map(|(name, class)| Some((class.default_since?, name)));
            defaults.max().map(|(_, name)| name)
        };
        let name = match class {
            Some(name) => Some(name),
            None => newest(),
        };
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(VolumeProblem::NoClass(claim));
        };
        let class = self.classes.get(name);
        let class = class.ok_or_else(|| VolumeProblem::UnknownClass(name.clone()))?;
        if class.immediate {
            return Err(VolumeProblem::Immediate(claim));
        }
        Ok(VolumeNeeds {
            nodes: class.nodes.clone(),
            driver: Some(class.driver.clone()),
        })
    }
}

impl VolumeClaim {
    /// That of the API.
    pub fn from_api(claim: &core::PersistentVolumeClaim) -> Self {
        let spec = claim.spec.as_ref();
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let volume = spec
            .and_then(|spec| spec.volume_name.clone())
            .filter(|name| !name.is_empty());
        let annotations = claim.metadata.annotations.as_ref();
        let unusable = if claim.metadata.deletion_timestamp.is_some() {
            Some(Unusable::Deleting)
        } else {
            (phase == Some("Lost")).then_some(Unusable::Lost)
        };
        Self {
            volume,
            bound: annotations.is_some_and(|all| all.contains_key("pv.kubernetes.io/bind-completed")),
            class: spec.and_then(|spec| spec.storage_class_name.clone()),
            unusable,
        }
    }
}

impl Volume {
    /// That of the API. A volume on one node's disk is not held to that node: its pod would be lost with the node anyway.
    pub fn from_api(volume: &core::PersistentVolume) -> Self {
        let Some(spec) = &volume.spec else {
            return Self::default();
        };
        let local = spec.local.is_some() || spec.host_path.is_some();
        let required = spec
            .node_affinity
            .as_ref()
            .and_then(|nodes| nodes.required.as_ref());
        let mut nodes = Vec::new();
        for term in required
            .into_iter()
            .flat_map(|required| &required.node_selector_terms)
        {
            let mut term = term.clone();
            if local {
                let hostname = |expression: &core::NodeSelectorRequirement| expression.key == HOSTNAME;
                term.match_expressions
                    .iter_mut()
                    .for_each(|expressions| expressions.retain(|expression| !hostname(expression)));
            }
            // A term that asks for nothing any more leaves the choice free, whatever the others ask for.
            match Requirements::from_term(&term) {
                Ok(term) if term.is_empty() => return Self::placed(volume, Vec::new()),
                Ok(term) => nodes.push(term),
                Err(_) => {}
            }
        }
        Self::placed(volume, nodes)
    }

    fn placed(volume: &core::PersistentVolume, nodes: Vec<Requirements>) -> Self {
        let spec = volume.spec.as_ref();
        Self {
            driver: spec.and_then(|spec| spec.csi.as_ref().map(|csi| csi.driver.clone())),
            nodes,
            deleting: volume.metadata.deletion_timestamp.is_some(),
        }
    }
}

impl StorageClass {
    /// That of the API.
    pub fn from_api(class: &storage::StorageClass) -> Self {
        let topologies = class.allowed_topologies.iter().flatten();
        let nodes = topologies.filter_map(|topology| {
            let mut all = Requirements::new();
            for expression in topology.match_label_expressions.iter().flatten() {
                all.narrow(&expression.key, &Values::one_of(expression.values.clone()));
            }
            (!all.is_empty()).then_some(all)
        });
        let annotations = class.metadata.annotations.as_ref();
        let default = annotations
            .and_then(|all| all.get("storageclass.kubernetes.io/is-default-class"))
            .is_some_and(|value| value == "true");
        let created = class.metadata.creation_timestamp.as_ref();
        let created = created.map_or(0, |created| created.0.as_second());
        Self {
            driver: class.provisioner.clone(),
            immediate: class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer"),
            nodes: nodes.collect(),
            default_since: default.then_some(created),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(volume: Option<&str>, class: Option<&str>) -> VolumeClaim {
        VolumeClaim {
            volume: volume.map(str::to_owned),
            bound: volume.is_some(),
            class: class.map(str::to_owned),
            unusable: None,
        }
    }

    fn storage(claim: VolumeClaim) -> Storage {
        let class = |immediate: bool, default_since: Option<i64>| StorageClass {
            driver: "d".to_owned(),
            immediate,
            default_since,
            ..StorageClass::default()
        };
        Storage {
            claims: [(("default".to_owned(), "c".to_owned()), claim)].into(),
            volumes: [("v".to_owned(), Volume::default())].into(),
            classes: [
                ("slow".to_owned(), class(false, None)),
                ("now".to_owned(), class(true, None)),
                ("old".to_owned(), class(true, Some(1))),
                ("new".to_owned(), class(false, Some(2))),
            ]
            .into(),
        }
    }

    fn needs(it: VolumeClaim) -> Result<VolumeNeeds, VolumeProblem> {
        let volume = VolumeRef {
            claim: "c".to_owned(),
            made: Made::Before,
        };
        storage(it).needs("default", &volume)
    }

    #[test]
    fn a_bound_claim_needs_its_volume_and_no_class() {
        assert!(needs(claim(Some("v"), Some("missing"))).is_ok());
        assert_eq!(
            needs(claim(Some("w"), None)),
            Err(VolumeProblem::NoVolume("w".to_owned()))
        );
    }

    #[test]
    fn an_unbound_claim_needs_a_class_that_waits_for_a_pod() {
        assert!(needs(claim(None, Some("slow"))).is_ok());
        assert!(matches!(
            needs(claim(None, Some("now"))),
            Err(VolumeProblem::Immediate(_))
        ));
        assert!(matches!(
            needs(claim(None, Some("missing"))),
            Err(VolumeProblem::UnknownClass(_))
        ));
        assert!(matches!(
            needs(claim(None, Some(""))),
            Err(VolumeProblem::NoClass(_))
        ));
        assert!(needs(claim(None, None)).is_ok(), "the newest default class");
    }

    #[test]
    fn what_goes_away_cannot_be_used() {
        let going = |unusable| VolumeClaim {
            unusable: Some(unusable),
            ..claim(Some("v"), None)
        };
        assert!(matches!(
            needs(going(Unusable::Deleting)),
            Err(VolumeProblem::Deleting(_))
        ));
        assert!(matches!(
            needs(going(Unusable::Lost)),
            Err(VolumeProblem::Lost(_))
        ));
    }

    #[test]
    fn a_volume_on_a_disk_of_one_node_is_not_held_to_that_node() {
        let volume = |source: &str| {
            let volume = json!({"spec": {source: {"path": "/x"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n"]}]}]}}}});
            Volume::from_api(&serde_json::from_value(volume).unwrap()).nodes
        };
        assert!(volume("local").is_empty());
        assert!(volume("hostPath").is_empty());
        assert_eq!(volume("other").len(), 1);
    }
}
