//! What the server knows of a kind of object.

use std::sync::Arc;

use serde_json::Value;

use super::schema::Schema;

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Once per cluster.
    Cluster,
    /// Once per namespace.
    Namespaced,
}

/// A kind of object under one API version.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The API group, empty for the core.
    pub group: String,
    /// `v1`
    pub version: String,
    /// `NodePool`
    pub kind: String,
    /// `nodepools`
    pub plural: String,
    /// `nodepool`
    pub singular: String,
    /// Where its objects live.
    pub scope: Scope,
    /// What kubectl also calls it.
    pub short_names: Vec<String>,
    /// Groups of kinds that kubectl lists together: `all`, `karpenter`.
    pub categories: Vec<String>,
    /// Paths below an object: `status`, `scale`, `eviction`.
    pub subresources: Vec<String>,
    /// The verbs it takes; some kinds can only be created (reviews).
    pub verbs: Verbs,
    /// The fields that a field selector may name, besides metadata.name and metadata.namespace.
    pub selectable: Vec<String>,
    /// How its objects are judged and shown.
    pub nature: Nature,
}

/// Which verbs a kind takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbs {
    /// Everything that can be done with stored objects.
    All,
    /// Only create, and nothing is stored: a question with an answer.
    CreateOnly,
}

/// Whether a kind came with the server or was defined on it.
#[derive(Clone, Debug)]
pub enum Nature {
    /// Comes with Kubernetes.
    BuiltIn,
    /// Defined by a CustomResourceDefinition.
    Custom(Arc<Custom>),
}

/// What a CustomResourceDefinition says about a kind.
#[derive(Debug)]
pub struct Custom {
    /// `openAPIV3Schema`, as it was given.
    pub open_api: Value,
    /// The same, compiled.
    pub schema: Schema,
    /// `additionalPrinterColumns`
    pub columns: Vec<Value>,
    /// Paths of the scale subresource: spec, status, selector.
    pub scale: Option<ScalePaths>,
}

/// Where a custom kind keeps its replica counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// `.spec.replicas`
    pub spec: String,
    /// `.status.replicas`
    pub status: String,
    /// `.status.selector`, if any
    pub selector: Option<String>,
}

impl Kind {
    /// `apps/v1`, or `v1` for the core.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Where its objects are stored: by group and plural, since all versions of a kind are the same objects. Events
    /// of both groups are stored once, as core events.
    pub fn table(&self) -> TableKey {
        let group = if self.plural == "events" {
            String::new()
        } else {
            self.group.clone()
        };
        TableKey {
            group,
            plural: self.plural.clone(),
        }
    }

    /// Whether its objects count the changes of their specification.
    pub fn has_generation(&self) -> bool {
        const COUNTED: [&str; 15] = [
            "customresourcedefinitions",
            "cronjobs",
            "daemonsets",
            "deployments",
            "endpointslices",
            "jobs",
            "mutatingwebhookconfigurations",
            "poddisruptionbudgets",
            "pods",
            "podtemplates",
            "priorityclasses",
            "replicasets",
            "replicationcontrollers",
            "statefulsets",
            "validatingwebhookconfigurations",
        ];
        self.custom().is_some() || COUNTED.contains(&self.plural.as_str())
    }

    /// Whether there is a path `/{subresource}` below its objects.
    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|subresource| subresource == name)
    }

    /// The compiled schema of a custom kind. Built-in kinds are read by `builtin::conform`.
    pub fn schema(&self) -> Option<&Schema> {
        self.custom().map(|custom| &custom.schema)
    }

    /// The schema of its objects in OpenAPI's words, without references: a custom kind's as it was given, a built-in
    /// kind's as a real server tells it.
    pub fn open_api(&self) -> Option<&Value> {
        match &self.nature {
            Nature::Custom(custom) => Some(&custom.open_api),
            Nature::BuiltIn => super::builtin::open_api(&self.api_version(), &self.kind),
        }
    }

    /// The definition, if it is a custom kind.
    pub fn custom(&self) -> Option<&Custom> {
        match &self.nature {
            Nature::Custom(custom) => Some(custom),
            Nature::BuiltIn => None,
        }
    }
}

/// Names a table of the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableKey {
    /// The API group, empty for the core.
    pub group: String,
    /// The plural name.
    pub plural: String,
}

impl TableKey {
    /// A table by group and plural.
    pub fn of(group: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
        }
    }
}
