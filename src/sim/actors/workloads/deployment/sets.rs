//! The replica sets of a deployment: which one has its template, which have older ones.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::pods::{controller, reference};
use super::super::revision::{TEMPLATE_HASH, hash};
use crate::sim::actors::view::{Key, Place, View};

/// The annotation that counts the versions of a deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// What kubectl keeps for itself is not handed down.
const NOT_HANDED_DOWN: [&str; 2] = ["kubectl.kubernetes.io/last-applied-configuration", REVISION];

/// The sets of one deployment.
pub(super) struct Sets<'a> {
    /// The one that has the deployment's template.
    pub(super) new: Option<&'a ReplicaSet>,
    /// The others, the oldest first.
    pub(super) old: Vec<&'a ReplicaSet>,
}

impl<'a> Sets<'a> {
    /// Finds the sets of a deployment. Of two with its template, the older is the new one.
    pub(super) fn of(view: &'a View, deployment: &Deployment) -> Self {
        let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
        let own = |set: &&ReplicaSet| controller(&set.metadata).is_some_and(|owner| owner.uid == uid);
        let mut all: Vec<&ReplicaSet> = view
            .replica_sets
            .values()
            .map(AsRef::as_ref)
            .filter(own)
            .collect();
        all.sort_by_key(|set| (set.metadata.creation_timestamp.clone(), key(set)));
        let wanted = &deployment.spec.template;
        let new = all.iter().position(|set| has_template(set, wanted));
        let new = new.map(|index| all.remove(index));
        Self { new, old: all }
    }

    /// All of them, the new one first.
    pub(super) fn all(&self) -> Vec<&'a ReplicaSet> {
        self.new.into_iter().chain(self.old.iter().copied()).collect()
    }

    /// The revision of a version that comes after all older ones.
    pub(super) fn next_revision(&self) -> i64 {
        let newest = self.old.iter().map(|set| revision(set)).max();
        newest.unwrap_or(0) + 1
    }

    /// The set for the deployment's template.
    pub(super) fn make(&self, deployment: &Deployment, replicas: i32) -> ReplicaSet {
        let spec = deployment.spec.clone();
        let collisions = deployment
            .status
            .as_ref()
            .and_then(|status| status.collision_count);
        let hash = hash(&spec.template, collisions.unwrap_or(0));
        let (mut template, mut selector) = (spec.template, spec.selector);
        let marked = template
            .metadata
            .get_or_insert_default()
            .labels
            .get_or_insert_default();
        marked.insert(TEMPLATE_HASH.to_owned(), hash.clone());
        let labels = Some(marked.clone());
        let demanded = selector.match_labels.get_or_insert_default();
        demanded.insert(TEMPLATE_HASH.to_owned(), hash.clone());
        let name = deployment.metadata.name.as_deref().unwrap_or_default();
        let mut annotations = deployment.metadata.annotations.clone().unwrap_or_default();
        annotations.retain(|key, _| !NOT_HANDED_DOWN.contains(&key.as_str()));
        annotations.insert(REVISION.to_owned(), self.next_revision().to_string());
        ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{name}-{hash}")),
                namespace: deployment.metadata.namespace.clone(),
                labels,
                annotations: Some(annotations),
                owner_references: reference(deployment).map(|reference| vec![reference]),
                ..ObjectMeta::default()
            },
            spec: ReplicaSetSpec {
                replicas: Some(replicas),
                min_ready_seconds: spec.min_ready_seconds,
                selector,
                template: Some(template),
            },
            status: None,
        }
    }
}

/// Where a set is found.
pub(super) fn key(set: &ReplicaSet) -> Key {
    Key::of(&set.metadata)
}

/// How many replicas a set is asked for.
pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// The revision of a set; zero if it has none.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    let annotations = set.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(REVISION));
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Whether a set has and wants no pods, and is not going anyway.
pub(super) fn is_empty(set: &ReplicaSet) -> bool {
    let has = set.status.as_ref().map_or(0, |status| status.replicas);
    let observed = set.status.as_ref().and_then(|status| status.observed_generation);
    has == 0
        && replicas(set) == 0
        && observed >= set.metadata.generation
        && set.metadata.deletion_timestamp.is_none()
}

/// Whether a set has this template, but for the label that tells sets apart.
fn has_template(set: &ReplicaSet, wanted: &PodTemplateSpec) -> bool {
    let Some(template) = &set.spec.template else {
        return false;
    };
    template.spec == wanted.spec && plain(template.metadata.as_ref()) == plain(wanted.metadata.as_ref())
}

fn plain(metadata: Option<&ObjectMeta>) -> ObjectMeta {
    let mut metadata = metadata.cloned().unwrap_or_default();
    if let Some(labels) = &mut metadata.labels {
        labels.remove(TEMPLATE_HASH);
    }
    metadata.labels = metadata.labels.filter(|labels| !labels.is_empty());
    metadata
}
