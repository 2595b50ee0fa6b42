//! Objects from files: YAML or JSON, several documents in one file, lists unfolded and workloads expanded.

use std::fmt;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Objects;
use super::expand::{self, PODS_MAX};
use crate::api::{IBMNodeClass, NodeClaim, NodePool, UnavailableOffering, Violation};
use crate::cli::BadInput;

/// Where an object was written.
#[derive(Clone, Debug)]
struct Origin {
    file: String,
    /// Counted from 1.
    document: usize,
    kind: String,
    name: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, document {}, {} {}",
            self.file, self.document, self.kind, self.name
        )
    }
}

impl Origin {
    fn wrong(&self, field: &str, message: impl fmt::Display) -> BadInput {
        BadInput::new(format!("{self}: {field}: {message}"))
    }

    fn violated(&self, violations: &[Violation]) -> BadInput {
        let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
        BadInput::new(format!("{self}: {}", all.join("; ")))
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(in crate::cli) struct Reader {
    pub(in crate::cli) objects: Objects,
    /// What has no part in a plan: kind and name.
    pub(in crate::cli) ignored: Vec<String>,
    pools: Vec<Origin>,
}

impl Reader {
    /// Reads one file.
    pub(in crate::cli) fn read(&mut self, file: &str, text: &str) -> Result<(), BadInput> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)
            .map_err(|error| BadInput::new(format!("{file}: it is no YAML: {error}")))?;
        for (at, document) in documents.into_iter().enumerate() {
            self.unfold(file, at + 1, document)?;
        }
        Ok(())
    }

    /// What was read, if it fits together.
    pub(in crate::cli) fn done(self) -> Result<(Objects, Vec<String>), BadInput> {
        for (pool, origin) in self.objects.pools.iter().zip(&self.pools) {
            let class = &pool.spec.template.spec.node_class_ref.name;
            if !self
                .objects
                .classes
                .iter()
                .any(|known| known.name_any() == *class)
            {
                let field = "spec.template.spec.nodeClassRef.name";
                let message = format!("there is no IBMNodeClass {class} in the files");
                return Err(origin.wrong(field, message));
            }
        }
        if self.objects.pods.len() > PODS_MAX {
            let number = self.objects.pods.len();
            return Err(BadInput::new(format!("{number} pods are more than {PODS_MAX}")));
        }
        Ok((self.objects, self.ignored))
    }

    fn unfold(&mut self, file: &str, document: usize, mut value: Value) -> Result<(), BadInput> {
        if value.is_null() {
            return Ok(());
        }
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let origin = Origin {
            file: file.to_owned(),
            document,
            kind: text(&value, "kind"),
            name: text(&value["metadata"], "name"),
        };
        if origin.kind.is_empty() {
            return Err(BadInput::new(format!(
                "{file}, document {document}: kind: it is missing"
            )));
        }
        if origin.kind.ends_with("List") && value["items"].is_array() {
            if let Value::Array(items) = value["items"].take() {
                for item in items {
                    self.unfold(file, document, item)?;
                }
            }
            return Ok(());
        }
        if origin.name.is_empty() {
            return Err(origin.wrong("metadata.name", "it is missing"));
        }
        self.sort(&origin, value)
    }

    fn sort(&mut self, origin: &Origin, value: Value) -> Result<(), BadInput> {
        let all = &mut self.objects;
        match origin.kind.as_str() {
            "Pod" => {
                let mut pod: Pod = typed(origin, value)?;
                settle(&mut pod.metadata);
                let uid = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
                pod.metadata.uid.get_or_insert(uid);
                all.pods.push(expand::refused(pod));
            }
            "NodePool" => {
                let pool: NodePool = typed(origin, value)?;
                let verdict = pool.validate().and_then(|()| pool.validate_runtime());
                verdict.map_err(|violations| origin.violated(&violations))?;
                all.pools.push(pool);
                self.pools.push(origin.clone());
            }
            "IBMNodeClass" => {
                let class: IBMNodeClass = typed(origin, value)?;
                class
                    .validate()
                    .map_err(|violations| origin.violated(&violations))?;
                if super::sold::kinds(&class.spec.region).is_none() {
                    let region = &class.spec.region;
                    return Err(origin.wrong("spec.region", format!("nothing is known of {region}")));
                }
                all.classes.push(class);
            }
            "Node" => all.nodes.push(typed(origin, value)?),
            "NodeClaim" => all.claims.push(typed::<NodeClaim>(origin, value)?),
            "Namespace" => all.namespaces.push(typed(origin, value)?),
            "PersistentVolume" => all.volumes.push(typed(origin, value)?),
            "PersistentVolumeClaim" => {
                let mut claim: PersistentVolumeClaim = typed(origin, value)?;
                settle(&mut claim.metadata);
                all.volume_claims.push(claim);
            }
            "StorageClass" => all.storage_classes.push(typed(origin, value)?),
            "PodDisruptionBudget" => {
                let mut budget: PodDisruptionBudget = typed(origin, value)?;
                settle(&mut budget.metadata);
                all.budgets.push(budget);
            }
            "CSINode" => all.csi_nodes.push(typed(origin, value)?),
            "UnavailableOffering" => all.withheld.push(typed::<UnavailableOffering>(origin, value)?),
            _ => return self.sort_workload(origin, value),
        }
        Ok(())
    }

    fn sort_workload(&mut self, origin: &Origin, value: Value) -> Result<(), BadInput> {
        let namespace = value["metadata"]["namespace"]
            .as_str()
            .unwrap_or("default")
            .to_owned();
        let (template, replicas): (PodTemplateSpec, i32) = match origin.kind.as_str() {
            "Deployment" => {
                let spec = typed::<Deployment>(origin, value)?.spec;
                (spec.template, spec.replicas.unwrap_or(1))
            }
            "ReplicaSet" => {
                let spec = typed::<ReplicaSet>(origin, value)?.spec;
                (spec.template.unwrap_or_default(), spec.replicas.unwrap_or(1))
            }
            "Job" => {
                let spec = typed::<Job>(origin, value)?.spec.unwrap_or_default();
                let most = spec.completions.unwrap_or(i32::MAX);
                (spec.template, spec.parallelism.unwrap_or(1).min(most))
            }
            "StatefulSet" => {
                let set: StatefulSet = typed(origin, value)?;
                let (pods, claims) = expand::stateful(&set, &namespace);
                self.objects.pods.extend(pods);
                self.objects.volume_claims.extend(claims);
                return Ok(());
            }
            "DaemonSet" => {
                let mut set: DaemonSet = typed(origin, value)?;
                set.metadata.namespace = Some(namespace);
                self.objects.daemon_sets.push(set);
                return Ok(());
            }
            _ => {
                self.ignored.push(format!("{} {}", origin.kind, origin.name));
                return Ok(());
            }
        };
        let pods = expand::pods(&template, &namespace, &origin.name, replicas);
        self.objects.pods.extend(pods);
        Ok(())
    }
}

/// Whoever is written without a namespace is in that of whoever says nothing about it.
fn settle(written: &mut ObjectMeta) {
    written.namespace.get_or_insert_with(|| "default".to_owned());
}

/// An object of a kind; the field that is not as it must be is named.
fn typed<T: DeserializeOwned>(origin: &Origin, value: Value) -> Result<T, BadInput> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        origin.wrong(&field, error.into_inner())
    })
}
