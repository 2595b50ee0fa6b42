//! Objects from files: YAML or JSON, several documents in one file, lists unfolded and workloads expanded.

use std::collections::BTreeMap;

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
use super::origin::{Key, Origin, Written};
use crate::api::{IBMNodeClass, NodeClaim, NodePool, UnavailableOffering};
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

/// A workload that was read. Its pods are made once everything is, since some of them may be among it.
#[derive(Debug)]
struct Unmade {
    origin: Origin,
    /// The field that says how many pods it keeps.
    field: &'static str,
    replicas: Option<i32>,
    template: PodTemplateSpec,
    /// Each pod of a StatefulSet has a claim of its own like each of these.
    volume_claims: Vec<PersistentVolumeClaim>,
}

/// What was read.
#[derive(Debug, Default)]
pub(in crate::cli) struct Reader {
    pub(in crate::cli) objects: Objects,
    /// What has no part in a plan: kind and name.
    pub(in crate::cli) ignored: Vec<String>,
    pools: Vec<Origin>,
    /// Pods that their workloads need not make any more.
    active: Vec<Origin>,
    unmade: Vec<Unmade>,
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
    pub(in crate::cli) fn done(mut self) -> Result<(Objects, Vec<String>), BadInput> {
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
        self.make()?;
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
        let origin = Origin::of((file, document, item), &value);
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
                if expand::is_active(&pod) {
                    self.active.push(origin.clone());
                }
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
        let (mut field, mut volume_claims) = ("spec.replicas", Vec::new());
        let (template, replicas) = match origin.kind.as_str() {
            "Deployment" => {
                let spec = typed::<Deployment>(written, origin, value)?.spec;
                (spec.template, spec.replicas)
            }
            "ReplicaSet" => {
                let spec = typed::<ReplicaSet>(written, origin, value)?.spec;
                (spec.template.unwrap_or_default(), spec.replicas)
            }
            "Job" => {
                let job: Job = typed(written, origin, value)?;
                field = "spec.parallelism";
                let running = expand::running(&job);
                (job.spec.unwrap_or_default().template, Some(running))
            }
            "StatefulSet" => {
                let spec = typed::<StatefulSet>(written, origin, value)?.spec;
                volume_claims = spec.volume_claim_templates.unwrap_or_default();
                (spec.template, spec.replicas)
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
        self.unmade.push(Unmade {
            origin: origin.clone(),
            field,
            replicas,
            template,
            volume_claims,
        });
        Ok(())
    }

    /// Makes the pods of workloads that were not read. What another workload makes is that one's: the ReplicaSet of a
    /// Deployment says again what the Deployment says.
    fn make(&mut self) -> Result<(), BadInput> {
        let mut there: BTreeMap<Key, usize> = BTreeMap::new();
        for pod in &self.active {
            if let Some(maker) = pod.maker(&self.written) {
                *there.entry(maker.key()).or_default() += 1;
            }
        }
        for workload in std::mem::take(&mut self.unmade) {
            if workload.origin.controller(&self.written).is_none() {
                let there = there.get(&workload.origin.key()).copied();
                self.make_missing(&workload, there.unwrap_or_default())?;
            }
        }
        Ok(())
    }

    /// Makes the pods of a workload beside so many that are there, if there is room for them in a plan.
    fn make_missing(&mut self, unmade: &Unmade, there: usize) -> Result<(), BadInput> {
        let origin = &unmade.origin;
        let replicas = usize::try_from(unmade.replicas.unwrap_or(1)).unwrap_or_default();
        let missing = replicas.saturating_sub(there);
        let total = self.objects.pods.len().saturating_add(missing);
        if total > PODS_MAX {
            let message = format!("{missing} pods make {total} in all, and a plan is for {PODS_MAX} at most");
            return Err(origin.wrong(unmade.field, message));
        }
        let workload = |replicas: usize| Workload {
            kind: &origin.kind,
            namespace: &origin.namespace,
            name: &origin.name,
            replicas,
        };
        if origin.kind == "StatefulSet" {
            return self.make_stateful(unmade, workload(replicas), missing);
        }
        self.objects.pods.extend(workload(missing).pods(&unmade.template));
        Ok(())
    }

    /// The names of its pods are no invention: those that are missing are the ones of which none was read.
    fn make_stateful(
        &mut self,
        unmade: &Unmade,
        workload: Workload<'_>,
        missing: usize,
    ) -> Result<(), BadInput> {
        let (pods, claims) = expand::stateful(workload, &unmade.template, &unmade.volume_claims);
        let mut made = Vec::new();
        for pod in pods {
            if !self.is_there(&unmade.origin, &pod.name_any())? {
                made.push(pod);
            }
        }
        made.truncate(missing);
        self.objects.pods.extend(made);
        // A claim that is written stays: the set would take it as it is.
        let kind = "PersistentVolumeClaim";
        let key = |name: String| (kind.to_owned(), unmade.origin.namespace.clone(), name);
        let is_new = |claim: &PersistentVolumeClaim| !self.written.contains_key(&key(claim.name_any()));
        self.objects
            .volume_claims
            .extend(claims.into_iter().filter(is_new));
        Ok(())
    }

    /// Whether a pod of a StatefulSet was read; one of that name that is somebody else's cannot be.
    fn is_there(&self, set: &Origin, pod: &str) -> Result<bool, BadInput> {
        let key = ("Pod".to_owned(), set.namespace.clone(), pod.to_owned());
        let Some(there) = self.written.get(&key) else {
            return Ok(false);
        };
        let controller = there.controller(&self.written);
        if controller.is_some_and(|controller| controller.key() == set.key()) {
            return Ok(true);
        }
        let message = format!("another of this name is made of {set}");
        Err(there.wrong("metadata.name", message))
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
    origin.note(written)?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        origin.wrong(&field, error.into_inner())
    })
}
