//! Objects from files: YAML or JSON, several documents in one file, lists unfolded and workloads expanded.

use std::collections::BTreeMap;
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
use super::expand::{self, PODS_MAX, Workload};
use crate::api::{IBMNodeClass, NodeClaim, NodePool, UnavailableOffering, Violation};
use crate::cli::BadInput;
use crate::controllers::node_pool::readiness;

/// A pod as a cluster tells it has some 200 to 600 scalars, lists and maps, and what is managed by whom some more.
const NODES_MAX: usize = PODS_MAX * 1_000;
/// Each of them is an event of the parser or, where it has an end, two.
const EVENTS_MAX: usize = NODES_MAX * 2;
/// A pod as a cluster tells it has 4 to 10 KB, of which names of fields are a part.
const SCALAR_BYTES_MAX: usize = PODS_MAX * 16 * 1024;
/// Each pod may be a document of its own, beside as many others.
const DOCUMENTS_MAX: usize = PODS_MAX * 2;

/// Where an object was written.
#[derive(Clone, Debug)]
struct Origin {
    file: String,
    /// Counted from 1.
    document: usize,
    /// In a list of objects, counted from 1.
    item: Option<usize>,
    kind: String,
    /// The default one, if none is written.
    namespace: String,
    name: String,
}

/// Where objects were written, by kind, namespace and name.
type Written = BTreeMap<(String, String, String), Origin>;

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)?;
        if let Some(item) = self.item {
            write!(f, ", item {item}")?;
        }
        write!(f, ", {} {}", self.kind, self.name)
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

    /// Takes note of where an object of a kind and a name was written; there is one of them in a cluster.
    fn note(&self, written: &mut Written, kind: &str, name: &str) -> Result<(), BadInput> {
        let key = (kind.to_owned(), self.namespace.clone(), name.to_owned());
        match written.insert(key, self.clone()) {
            None => Ok(()),
            Some(first) => {
                let what = if kind == self.kind {
                    "it".to_owned()
                } else {
                    format!("its {kind} {name}")
                };
                let message = format!("{what} is there already, in {first}");
                Err(self.wrong("metadata.name", message))
            }
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(in crate::cli) struct Reader {
    pub(in crate::cli) objects: Objects,
    /// What has no part in a plan: kind and name.
    pub(in crate::cli) ignored: Vec<String>,
    pools: Vec<Origin>,
    written: Written,
}

impl Reader {
    /// Reads one file.
    pub(in crate::cli) fn read(&mut self, file: &str, text: &str) -> Result<(), BadInput> {
        for (at, document) in documents(file, text)?.into_iter().enumerate() {
            self.unfold((file, at + 1, None), document)?;
        }
        Ok(())
    }

    /// What was read, if it fits together.
    pub(in crate::cli) fn done(self) -> Result<(Objects, Vec<String>), BadInput> {
        let pools = self.objects.pools.iter().zip(&self.pools);
        for (pool, origin) in pools.filter(|(pool, _)| readiness::is_ours(pool)) {
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

    /// Sorts an object, or each of a list, that is at some document of a file and, in a list, at some item.
    fn unfold(
        &mut self,
        (file, document, item): (&str, usize, Option<usize>),
        mut value: Value,
    ) -> Result<(), BadInput> {
        if value.is_null() {
            return Ok(());
        }
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or("default");
        let origin = Origin {
            file: file.to_owned(),
            document,
            item,
            kind: text(&value, "kind"),
            namespace: namespace.to_owned(),
            name: text(&value["metadata"], "name"),
        };
        if origin.kind.is_empty() {
            return Err(BadInput::new(format!(
                "{file}, document {document}: kind: it is missing"
            )));
        }
        if origin.kind.ends_with("List") && value["items"].is_array() {
            if let Value::Array(items) = value["items"].take() {
                for (at, item) in items.into_iter().enumerate() {
                    self.unfold((file, document, Some(at + 1)), item)?;
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
        let (all, written) = (&mut self.objects, &mut self.written);
        match origin.kind.as_str() {
            "Pod" => {
                let mut pod: Pod = typed(written, origin, value)?;
                settle(&mut pod.metadata);
                let uid = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
                pod.metadata.uid.get_or_insert(uid);
                all.pods.push(expand::refused(pod));
            }
            "NodePool" => {
                let pool: NodePool = typed(written, origin, value)?;
                if readiness::is_ours(&pool) {
                    readiness::usability(&pool).map_err(|violations| origin.violated(&violations))?;
                }
                all.pools.push(pool);
                self.pools.push(origin.clone());
            }
            "IBMNodeClass" => {
                let class: IBMNodeClass = typed(written, origin, value)?;
                class
                    .validate()
                    .map_err(|violations| origin.violated(&violations))?;
                if super::sold::kinds(&class.spec.region).is_none() {
                    let region = &class.spec.region;
                    return Err(origin.wrong("spec.region", format!("nothing is known of {region}")));
                }
                all.classes.push(class);
            }
            "Node" => all.nodes.push(typed(written, origin, value)?),
            "NodeClaim" => all.claims.push(typed::<NodeClaim>(written, origin, value)?),
            "Namespace" => all.namespaces.push(typed(written, origin, value)?),
            "PersistentVolume" => all.volumes.push(typed(written, origin, value)?),
            "PersistentVolumeClaim" => {
                let mut claim: PersistentVolumeClaim = typed(written, origin, value)?;
                settle(&mut claim.metadata);
                all.volume_claims.push(claim);
            }
            "StorageClass" => all.storage_classes.push(typed(written, origin, value)?),
            "PodDisruptionBudget" => {
                let mut budget: PodDisruptionBudget = typed(written, origin, value)?;
                settle(&mut budget.metadata);
                all.budgets.push(budget);
            }
            "CSINode" => all.csi_nodes.push(typed(written, origin, value)?),
            "UnavailableOffering" => all
                .withheld
                .push(typed::<UnavailableOffering>(written, origin, value)?),
            _ => return self.sort_workload(origin, value),
        }
        Ok(())
    }

    fn sort_workload(&mut self, origin: &Origin, value: Value) -> Result<(), BadInput> {
        let written = &mut self.written;
        let (template, field, replicas): (PodTemplateSpec, _, _) = match origin.kind.as_str() {
            "Deployment" => {
                let spec = typed::<Deployment>(written, origin, value)?.spec;
                (spec.template, "spec.replicas", spec.replicas)
            }
            "ReplicaSet" => {
                let spec = typed::<ReplicaSet>(written, origin, value)?.spec;
                (spec.template.unwrap_or_default(), "spec.replicas", spec.replicas)
            }
            "Job" => {
                let spec = typed::<Job>(written, origin, value)?.spec.unwrap_or_default();
                let most = spec.completions.unwrap_or(i32::MAX);
                let parallel = spec.parallelism.unwrap_or(1).min(most);
                (spec.template, "spec.parallelism", Some(parallel))
            }
            "StatefulSet" => {
                let set: StatefulSet = typed(written, origin, value)?;
                return self.sort_stateful(origin, &set);
            }
            "DaemonSet" => {
                let mut set: DaemonSet = typed(written, origin, value)?;
                set.metadata.namespace = Some(origin.namespace.clone());
                self.objects.daemon_sets.push(set);
                return Ok(());
            }
            _ => {
                self.ignored.push(format!("{} {}", origin.kind, origin.name));
                return Ok(());
            }
        };
        let workload = self.workload(origin, field, replicas)?;
        self.objects.pods.extend(workload.pods(&template));
        Ok(())
    }

    /// The names of its pods are no invention: each is another object that the files may have.
    fn sort_stateful(&mut self, origin: &Origin, set: &StatefulSet) -> Result<(), BadInput> {
        let workload = self.workload(origin, "spec.replicas", set.spec.replicas)?;
        let (pods, claims) = expand::stateful(set, workload);
        for pod in &pods {
            origin.note(&mut self.written, "Pod", &pod.name_any())?;
        }
        self.objects.pods.extend(pods);
        // A claim that is written stays: the set would take it as it is.
        let kind = "PersistentVolumeClaim";
        let key = |name: String| (kind.to_owned(), origin.namespace.clone(), name);
        let is_new = |claim: &PersistentVolumeClaim| !self.written.contains_key(&key(claim.name_any()));
        self.objects
            .volume_claims
            .extend(claims.into_iter().filter(is_new));
        Ok(())
    }

    /// A workload with as many pods as a field says, if there is room for them in a plan.
    fn workload<'o>(
        &self,
        origin: &'o Origin,
        field: &str,
        replicas: Option<i32>,
    ) -> Result<Workload<'o>, BadInput> {
        let replicas = usize::try_from(replicas.unwrap_or(1)).unwrap_or_default();
        let total = self.objects.pods.len().saturating_add(replicas);
        if total > PODS_MAX {
            let message =
                format!("{replicas} pods make {total} in all, and a plan is for {PODS_MAX} at most");
            return Err(origin.wrong(field, message));
        }
        Ok(Workload {
            kind: &origin.kind,
            namespace: &origin.namespace,
            name: &origin.name,
            replicas,
        })
    }
}

/// The documents of a file. What looks like JSON is read as that first: it is much faster, and has no limits but memory.
fn documents(file: &str, text: &str) -> Result<Vec<Value>, BadInput> {
    let mut not_json = None;
    if text.trim_start().starts_with('{') {
        let read: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text)
            .into_iter::<Value>()
            .collect();
        match read {
            Ok(documents) => return Ok(documents),
            Err(error) => not_json = Some(error),
        }
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: NODES_MAX,
            max_events: EVENTS_MAX,
            max_total_scalar_bytes: SCALAR_BYTES_MAX,
            max_documents: DOCUMENTS_MAX,
        },
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let also = not_json.map_or_else(String::new, |json| format!(", and no JSON: {json}"));
        BadInput::new(format!("{file}: it is no YAML: {error}{also}"))
    })
}

/// Whoever is written without a namespace is in that of whoever says nothing about it.
fn settle(written: &mut ObjectMeta) {
    written.namespace.get_or_insert_with(|| "default".to_owned());
}

/// An object of a kind; the field that is not as it must be is named.
fn typed<T: DeserializeOwned>(written: &mut Written, origin: &Origin, value: Value) -> Result<T, BadInput> {
    origin.note(written, &origin.kind, &origin.name)?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        origin.wrong(&field, error.into_inner())
    })
}
