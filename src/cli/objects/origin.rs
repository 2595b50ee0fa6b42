//! Where an object was written, and which other one it says that it is made by.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::api::Violation;
use crate::cli::BadInput;

/// Workloads of which pods are made here. Nobody makes what a CronJob would: its Jobs stand for themselves.
const MAKERS: [&str; 4] = ["Deployment", "ReplicaSet", "StatefulSet", "Job"];

/// Kind, namespace and name.
pub(super) type Key = (String, String, String);

/// Where objects were written.
pub(super) type Written = BTreeMap<Key, Origin>;

/// Where an object was written.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    file: String,
    /// Counted from 1.
    document: usize,
    /// In a list of objects, counted from 1.
    item: Option<usize>,
    pub(super) kind: String,
    /// The default one, if none is written.
    pub(super) namespace: String,
    pub(super) name: String,
    /// Given by a cluster, if it comes from one.
    uid: Option<String>,
    controller: Option<Controller>,
}

/// Who makes an object, as that says it.
#[derive(Clone, Debug)]
struct Controller {
    kind: String,
    name: String,
    uid: Option<String>,
    /// Whoever makes the ReplicaSet that makes a pod: a Deployment calls it by its own name and the hash of the template.
    deployment: Option<String>,
}

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
    /// That of an object at some document of a file and, in a list, at some item.
    pub(super) fn of((file, document, item): (&str, usize, Option<usize>), value: &Value) -> Self {
        let metadata = &value["metadata"];
        Self {
            file: file.to_owned(),
            document,
            item,
            kind: text(value, "kind").unwrap_or_default(),
            namespace: text(metadata, "namespace").unwrap_or_else(|| "default".to_owned()),
            name: text(metadata, "name").unwrap_or_default(),
            uid: text(metadata, "uid"),
            controller: Controller::of(metadata),
        }
    }

    pub(super) fn wrong(&self, field: &str, message: impl fmt::Display) -> BadInput {
        BadInput::new(format!("{self}: {field}: {message}"))
    }

    pub(super) fn violated(&self, violations: &[Violation]) -> BadInput {
        let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
        BadInput::new(format!("{self}: {}", all.join("; ")))
    }

    pub(super) fn key(&self) -> Key {
        (self.kind.clone(), self.namespace.clone(), self.name.clone())
    }

    /// Takes note of where the object was written; there is one of its kind and name in a cluster.
    pub(super) fn note(&self, written: &mut Written) -> Result<(), BadInput> {
        match written.insert(self.key(), self.clone()) {
            None => Ok(()),
            Some(first) => {
                let message = format!("it is there already, in {first}");
                Err(self.wrong("metadata.name", message))
            }
        }
    }

    /// The workload that makes the object, if it was written. Where both have a uid, that is the same: a workload that was
    /// deleted and made again has its name, and not its pods.
    pub(super) fn controller<'w>(&self, written: &'w Written) -> Option<&'w Self> {
        let controller = self.controller.as_ref()?;
        let find = |kind: &str, name: &str| {
            let key = (kind.to_owned(), self.namespace.clone(), name.to_owned());
            written
                .get(&key)
                .filter(|found| MAKERS.contains(&found.kind.as_str()))
        };
        match find(&controller.kind, &controller.name) {
            Some(found) => {
                let uids = controller.uid.as_ref().zip(found.uid.as_ref());
                uids.is_none_or(|(said, its)| said == its).then_some(found)
            }
            None => find("Deployment", controller.deployment.as_deref()?),
        }
    }

    /// The workload that makes the object in the end, among those that were written: of the pod of a ReplicaSet the
    /// Deployment.
    pub(super) fn maker<'w>(&self, written: &'w Written) -> Option<&'w Self> {
        let controller = self.controller(written)?;
        Some(controller.controller(written).unwrap_or(controller))
    }
}

impl Controller {
    fn of(metadata: &Value) -> Option<Self> {
        let all = metadata["ownerReferences"].as_array()?;
        let owner = all
            .iter()
            .find(|owner| owner["controller"].as_bool() == Some(true))?;
        let (kind, name) = (text(owner, "kind")?, text(owner, "name")?);
        let hash = metadata["labels"]["pod-template-hash"].as_str();
        let without = |hash: &str| name.strip_suffix(hash)?.strip_suffix('-').map(str::to_owned);
        let deployment = hash.filter(|_| kind == "ReplicaSet").and_then(without);
        Some(Self {
            kind,
            name,
            uid: text(owner, "uid"),
            deployment,
        })
    }
}

fn text(value: &Value, field: &str) -> Option<String> {
    value[field].as_str().map(str::to_owned)
}
