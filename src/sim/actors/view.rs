//! The cluster as the actors see it: what the informers of a controller manager hold.
//!
//! A pure index. Watches and the answers of the actors' own writes are applied in whatever order they arrive, and the
//! newer `resourceVersion` wins, so an actor always sees what it wrote itself and nothing goes back in time.
//! Resource versions are integers, here as on a real server. What was deleted does not come back: a late event about an
//! object that is known to be gone is recognized by its uid.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where an object in a namespace is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The place of that name in that namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Objects of one kind by (namespace, name), in order.
pub type Shelf<K> = BTreeMap<Key, Arc<K>>;
/// Objects of a kind without namespaces by name, in order.
pub type ClusterShelf<K> = BTreeMap<String, Arc<K>>;

/// The cluster as the actors see it: typed objects by (namespace, name), in order.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Namespaces.
    pub namespaces: ClusterShelf<Namespace>,
    /// Nodes.
    pub nodes: ClusterShelf<Node>,
    /// Heartbeats of nodes: leases in `kube-node-lease` only, by the name of the node.
    pub leases: Shelf<Lease>,
    /// Priority classes.
    pub priority_classes: ClusterShelf<PriorityClass>,
    /// Storage classes.
    pub storage_classes: ClusterShelf<StorageClass>,
    /// What the storage drivers of nodes can attach.
    pub csi_nodes: ClusterShelf<CSINode>,
    /// Persistent volumes.
    pub volumes: ClusterShelf<PersistentVolume>,
    /// Claims to persistent volumes.
    pub claims: Shelf<PersistentVolumeClaim>,
    /// Which volume is attached where.
    pub attachments: ClusterShelf<VolumeAttachment>,
    /// Deployments.
    pub deployments: Shelf<Deployment>,
    /// Replica sets.
    pub replica_sets: Shelf<ReplicaSet>,
    /// Stateful sets.
    pub stateful_sets: Shelf<StatefulSet>,
    /// Daemon sets.
    pub daemon_sets: Shelf<DaemonSet>,
    /// Jobs.
    pub jobs: Shelf<Job>,
    /// Disruption budgets of pods.
    pub budgets: Shelf<PodDisruptionBudget>,
    /// Pods.
    pub pods: Shelf<Pod>,
    /// Nodes that are not there although pods are bound to them, and since when that was seen.
    pub absent: BTreeMap<String, Timestamp>,
    /// Nodes that are gone although volumes are attached to them that they last reported in use.
    pub departed: BTreeMap<String, Departure>,
    /// Nodes that went since it was last noted which are missing, and the volumes that they last reported in use.
    leaving: BTreeMap<String, Vec<String>>,
    /// What one's own deletions removed while older events about it may still be on their way: kind and uid.
    buried: BTreeSet<(Kind, String)>,
}

/// How a node went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When that was seen.
    pub since: Timestamp,
    /// The volumes that it last reported in use, by the names of such reports.
    pub volumes_in_use: Vec<String>,
}

/// The kinds that a view holds, in the order in which changes of the same moment are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `Namespace`.
    Namespace,
    /// `Node`.
    Node,
    /// `Lease`, of nodes.
    Lease,
    /// `PriorityClass`.
    PriorityClass,
    /// `StorageClass`.
    StorageClass,
    /// `CSINode`.
    CsiNode,
    /// `PersistentVolume`.
    Volume,
    /// `PersistentVolumeClaim`.
    Claim,
    /// `VolumeAttachment`.
    Attachment,
    /// `Deployment`.
    Deployment,
    /// `ReplicaSet`.
    ReplicaSet,
    /// `StatefulSet`.
    StatefulSet,
    /// `DaemonSet`.
    DaemonSet,
    /// `Job`.
    Job,
    /// `PodDisruptionBudget`.
    Budget,
    /// `Pod`.
    Pod,
}

/// What an update did to a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Nothing: the view was newer, or the same.
    Nothing,
    /// An object says that it is still alive, and nothing else. This wakes nobody: who cares looks at a time of its own.
    Heartbeat,
    /// Something that decisions may depend on.
    Content,
}

/// How a kind is kept: where, by what, and what is no news about it.
pub trait Kept:
    Resource<DynamicType = ()> + DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static
{
    /// By what its objects are found.
    type Place: Place;
    /// Which kind this is.
    const KIND: Kind;
    /// Where a view keeps it.
    fn shelf(view: &mut View) -> &mut BTreeMap<Self::Place, Arc<Self>>;
    /// Whether `newer` says nothing but that the object is still alive.
    fn is_heartbeat(&self, newer: &Self) -> bool;
    /// What a view remembers of an object that goes, as it was last seen; mostly nothing.
    fn leave(&self, _view: &mut View) {}
}

/// By what objects are found: a [`Key`], or a name where there are no namespaces.
pub trait Place: Ord + Clone {
    /// Where an object with this metadata belongs.
    fn of(metadata: &ObjectMeta) -> Self;
}

impl Place for Key {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl Place for String {
    fn of(metadata: &ObjectMeta) -> Self {
        metadata.name.clone().unwrap_or_default()
    }
}

macro_rules! kept {
    ($($kind:ident: $type:ty, by $place:ty, in $shelf:ident, alive by $alive:path $(, leaving by $leave:path)?;)*) => {
        $(impl Kept for $type {
            type Place = $place;
            const KIND: Kind = Kind::$kind;
            fn shelf(view: &mut View) -> &mut BTreeMap<$place, Arc<Self>> {
                &mut view.$shelf
            }
            fn is_heartbeat(&self, newer: &Self) -> bool {
                $alive(self, newer)
            }
            $(fn leave(&self, view: &mut View) {
                $leave(self, view);
            })?
        })*

        impl Kind {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The collection of this kind in a namespace, or in the cluster where it has none.
            pub fn path(self, namespace: &str) -> String {
                match self {
                    $(Self::$kind => <$type>::url_path(&(), (!namespace.is_empty()).then_some(namespace)),)*
                }
            }
        }

        impl View {
            /// Applies the answer of a write.
            pub fn accept(&mut self, kind: Kind, object: Value) -> Result<Change, serde_json::Error> {
                match kind {
                    $(Kind::$kind => Ok(self.apply::<$type>(serde_json::from_value(object)?)),)*
                }
            }

            /// Takes out an object that one's own deletion removed, until the watch says so too.
            pub fn bury(&mut self, kind: Kind, uid: &str) -> Change {
                self.buried.insert((kind, uid.to_owned()));
                match kind {
                    $(Kind::$kind => self.take_out::<$type>(|metadata| metadata.uid.as_deref() == Some(uid)),)*
                }
            }
        }
    };
}

kept! {
    Namespace: Namespace, by String, in namespaces, alive by never;
    Node: Node, by String, in nodes, alive by node_lives, leaving by node_leaves;
    Lease: Lease, by Key, in leases, alive by always;
    PriorityClass: PriorityClass, by String, in priority_classes, alive by never;
    StorageClass: StorageClass, by String, in storage_classes, alive by never;
    CsiNode: CSINode, by String, in csi_nodes, alive by never;
    Volume: PersistentVolume, by String, in volumes, alive by never;
    Claim: PersistentVolumeClaim, by Key, in claims, alive by never;
    Attachment: VolumeAttachment, by String, in attachments, alive by never;
    Deployment: Deployment, by Key, in deployments, alive by never;
    ReplicaSet: ReplicaSet, by Key, in replica_sets, alive by never;
    StatefulSet: StatefulSet, by Key, in stateful_sets, alive by never;
    DaemonSet: DaemonSet, by Key, in daemon_sets, alive by never;
    Job: Job, by Key, in jobs, alive by never;
    Budget: PodDisruptionBudget, by Key, in budgets, alive by never;
    Pod: Pod, by Key, in pods, alive by never;
}

fn never<K>(_: &K, _: &K) -> bool {
    false
}

/// A lease of a node is a heartbeat and nothing else.
fn always<K: Resource<Scope = NamespaceResourceScope>>(_: &K, _: &K) -> bool {
    true
}

fn node_lives(old: &Node, new: &Node) -> bool {
    still(old) == still(new)
}

fn node_leaves(node: &Node, view: &mut View) {
    let used = node
        .status
        .as_ref()
        .and_then(|status| status.volumes_in_use.clone());
    view.leaving
        .insert(String::of(&node.metadata), used.unwrap_or_default());
}

/// A node without the times at which it was last heard of.
fn still(node: &Node) -> Node {
    let mut node = node.clone();
    node.metadata.resource_version = None;
    let conditions = node.status.iter_mut().filter_map(|s| s.conditions.as_mut());
    for condition in conditions.flatten() {
        condition.last_heartbeat_time = None;
    }
    node
}

/// The version of an object, as a number that can be compared; zero if it was never stored.
pub fn version(metadata: &ObjectMeta) -> u64 {
    metadata
        .resource_version
        .as_deref()
        .and_then(|v| v.parse().ok())
        .unwrap_or(0)
}

impl View {
    /// An object as a watch or the answer of a write shows it; older than what is known, it changes nothing.
    pub fn apply<K: Kept>(&mut self, mut object: K) -> Change {
        let metadata = object.meta_mut();
        metadata.managed_fields = None;
        let place = K::Place::of(metadata);
        let (version_now, uid) = (version(metadata), metadata.uid.clone().unwrap_or_default());
        if self.buried.contains(&(K::KIND, uid)) {
            return Change::Nothing;
        }
        let shelf = K::shelf(self);
        let change = match shelf.get(&place) {
            Some(known) if version(known.meta()) >= version_now => return Change::Nothing,
            Some(known) if known.is_heartbeat(&object) => Change::Heartbeat,
            _ => Change::Content,
        };
        shelf.insert(place, Arc::new(object));
        change
    }

    /// An object of which a watch says that it is gone. One made anew under its name stays.
    pub fn remove<K: Kept>(&mut self, object: &K) -> Change {
        let metadata = object.meta();
        self.buried
            .remove(&(K::KIND, metadata.uid.clone().unwrap_or_default()));
        let shelf = K::shelf(self);
        let place = K::Place::of(metadata);
        match shelf.get(&place) {
            Some(known) if version(known.meta()) <= version(metadata) => {
                shelf.remove(&place);
                object.leave(self);
                Change::Content
            }
            _ => Change::Nothing,
        }
    }

    /// All objects of a kind as a list showed them at a version. What was written after it stays.
    pub fn replace<K: Kept>(&mut self, listed: Vec<K>, at: u64) -> Change {
        let uids: BTreeSet<String> = listed.iter().filter_map(|o| o.meta().uid.clone()).collect();
        self.buried
            .retain(|(kind, uid)| *kind != K::KIND || uids.contains(uid));
        let gone = |metadata: &ObjectMeta| {
            version(metadata) <= at && metadata.uid.as_ref().is_none_or(|uid| !uids.contains(uid))
        };
        let left = self.take_out::<K>(gone);
        let applied = listed.into_iter().map(|object| self.apply(object)).max();
        left.max(applied.unwrap_or(Change::Nothing))
    }

    fn take_out<K: Kept>(&mut self, is_gone: impl Fn(&ObjectMeta) -> bool) -> Change {
        let mut gone: Vec<Arc<K>> = Vec::new();
        K::shelf(self).retain(|_, object| {
            let stays = !is_gone(object.meta());
            if !stays {
                gone.push(Arc::clone(object));
            }
            stays
        });
        for object in &gone {
            object.leave(self);
        }
        if gone.is_empty() {
            Change::Nothing
        } else {
            Change::Content
        }
    }
}

impl View {
    /// Notes which nodes are missing now. No object says since when, so whoever keeps a view calls this as it changes.
    pub fn note_absence(&mut self, now: Timestamp) {
        self.note_departures(now);
        let bound = self
            .pods
            .values()
            .filter_map(|pod| pod.spec.as_ref()?.node_name.as_ref());
        let missing: BTreeSet<&String> = bound.filter(|name| !self.nodes.contains_key(*name)).collect();
        let since = |name: &&String| self.absent.get(*name).copied().unwrap_or(now);
        self.absent = missing
            .iter()
            .map(|name| ((*name).clone(), since(name)))
            .collect();
    }

    fn note_departures(&mut self, now: Timestamp) {
        for (name, volumes_in_use) in std::mem::take(&mut self.leaving) {
            let departure = Departure {
                since: now,
                volumes_in_use,
            };
            self.departed.insert(name, departure);
        }
        if self.departed.is_empty() {
            return;
        }
        let attached: BTreeSet<&String> = self
            .attachments
            .values()
            .map(|attachment| &attachment.spec.node_name)
            .collect();
        let nodes = &self.nodes;
        self.departed.retain(|name, departure| {
            !departure.volumes_in_use.is_empty() && attached.contains(name) && !nodes.contains_key(name)
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, uid: &str, version: u64) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"namespace": "default", "name": name, "uid": uid,
            "resourceVersion": version.to_string()}}),
        )
        .unwrap()
    }

    fn known(view: &View) -> Vec<(&str, u64)> {
        let pods = view.pods.iter();
        pods.map(|(key, pod)| (key.name.as_str(), version(&pod.metadata)))
            .collect()
    }

    #[test]
    fn the_newer_version_wins_in_whatever_order_they_come() {
        let mut view = View::default();
        assert_eq!(view.apply(pod("a", "1", 9)), Change::Content);
        assert_eq!(view.apply(pod("a", "1", 7)), Change::Nothing);
        assert_eq!(view.apply(pod("a", "1", 9)), Change::Nothing);
        assert_eq!(view.apply(pod("a", "1", 10)), Change::Content);
        assert_eq!(
            known(&view),
            [("a", 10)],
            "10 is newer than 9, although not as text"
        );
    }

    #[test]
    fn a_late_word_of_a_deletion_does_not_take_what_was_made_anew() {
        let mut view = View::default();
        view.apply(pod("a", "2", 8));
        assert_eq!(view.remove(&pod("a", "1", 7)), Change::Nothing);
        assert_eq!(view.remove(&pod("a", "2", 9)), Change::Content);
        assert_eq!(known(&view), []);
    }

    #[test]
    fn what_was_deleted_does_not_come_back_by_a_late_event() {
        let mut view = View::default();
        view.apply(pod("a", "1", 3));
        assert_eq!(view.bury(Kind::Pod, "1"), Change::Content);
        assert_eq!(view.apply(pod("a", "1", 4)), Change::Nothing);
        assert_eq!(view.apply(pod("a", "2", 6)), Change::Content);
        assert_eq!(view.remove(&pod("a", "1", 5)), Change::Nothing);
        assert!(view.buried.is_empty());
        assert_eq!(known(&view), [("a", 6)]);
    }

    #[test]
    fn a_list_takes_what_it_lacks_but_not_what_was_written_after_it() {
        let mut view = View::default();
        view.apply(pod("gone", "1", 3));
        view.apply(pod("own", "2", 8));
        view.apply(pod("deleted", "3", 4));
        view.bury(Kind::Pod, "3");
        let listed = vec![pod("kept", "4", 2), pod("deleted", "3", 4)];
        assert_eq!(view.replace(listed, 5), Change::Content);
        assert_eq!(known(&view), [("kept", 2), ("own", 8)]);
        view.replace(vec![pod("kept", "4", 2), pod("own", "2", 8)], 9);
        assert!(view.buried.is_empty());
    }

    #[test]
    fn a_node_is_absent_since_it_was_first_missed() {
        let (early, late) = (
            Timestamp::from_second(1).unwrap(),
            Timestamp::from_second(9).unwrap(),
        );
        let mut bound = pod("a", "1", 1);
        bound.spec.get_or_insert_default().node_name = Some("n".to_owned());
        let mut view = View::default();
        view.apply(bound);
        view.note_absence(early);
        view.note_absence(late);
        assert_eq!(view.absent, [("n".to_owned(), early)].into());
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n", "resourceVersion": "2"}})).unwrap();
        view.apply(node.clone());
        view.note_absence(late);
        assert!(view.absent.is_empty());
        view.remove(&node);
        view.note_absence(late);
        assert_eq!(view.absent["n"], late);
    }

    #[test]
    fn a_node_that_goes_leaves_what_it_last_reported_in_use() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let node = |version: u64, used: serde_json::Value| -> Node {
            serde_json::from_value(
                json!({"metadata": {"name": "n", "uid": "1", "resourceVersion": version.to_string()},
                "status": {"volumesInUse": used}}),
            )
            .unwrap()
        };
        let attachment = json!({"metadata": {"name": "a", "uid": "a", "resourceVersion": "1"},
            "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
        let mut view = View::default();
        view.apply::<VolumeAttachment>(serde_json::from_value(attachment).unwrap());
        view.apply(node(2, json!(["v"])));
        let mut idle = view.clone();
        view.bury(Kind::Node, "1");
        view.note_absence(at(5));
        view.note_absence(at(9));
        let departure = Departure {
            since: at(5),
            volumes_in_use: vec!["v".to_owned()],
        };
        assert_eq!(view.departed, [("n".to_owned(), departure)].into());
        view.bury(Kind::Attachment, "a");
        view.note_absence(at(10));
        assert!(view.departed.is_empty(), "nothing is attached to it any more");
        // The word of its end says how it was then.
        idle.remove(&node(3, json!([])));
        idle.note_absence(at(5));
        assert!(idle.departed.is_empty());
    }

    #[test]
    fn a_sign_of_life_is_no_news() {
        let node = |version: u64, heard: &str, ready: &str| -> Node {
            serde_json::from_value(
                json!({"metadata": {"name": "n", "uid": "1", "resourceVersion": version.to_string()},
                "status": {"conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": heard}]}}),
            )
            .unwrap()
        };
        let mut view = View::default();
        assert_eq!(
            view.apply(node(1, "2026-11-16T10:00:00Z", "True")),
            Change::Content
        );
        assert_eq!(
            view.apply(node(2, "2026-11-16T10:05:00Z", "True")),
            Change::Heartbeat
        );
        assert_eq!(
            view.apply(node(3, "2026-11-16T10:05:00Z", "False")),
            Change::Content
        );
        assert_eq!(version(&view.nodes["n"].metadata), 3);
    }

    #[test]
    fn every_kind_knows_where_it_is_served() {
        assert_eq!(
            Kind::Budget.path("default"),
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        );
        assert_eq!(Kind::Node.path(""), "/api/v1/nodes");
        assert_eq!(Kind::CsiNode.path(""), "/apis/storage.k8s.io/v1/csinodes");
    }
}
