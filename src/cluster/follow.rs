//! The index that controllers share, and the watches that feed it.
//!
//! An object at which reading panics is passed over, and whoever looks after the watches is told of it: nobody else must go
//! without a node because of it. What was known of it before stands, until it is gone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Namespace, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use tokio::sync::watch;

use super::index::{Index, Marks};
use super::kept::Kept;
use crate::api::{IBMNodeClass, NodeClaim, NodePool};
use crate::wake::until_one_ends;

/// Every kind that is watched must have been listed before anything is decided.
const KINDS: u32 = 12;

/// Is told of objects that cannot be read, and what the panic left.
pub type Unreadable<'a> = &'a (dyn Fn(ObjectReference, Box<dyn Any + Send>) + Sync);

/// What is known, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// How many kinds have been listed.
    listed: u32,
    /// How often something has changed.
    pub marks: Marks,
}

impl State {
    /// Whether every kind has been listed.
    pub fn is_whole(&self) -> bool {
        self.listed >= KINDS
    }
}

/// The cluster as this process knows it. Clones share it.
#[derive(Clone, Debug)]
pub struct Cluster {
    index: Arc<Mutex<Index>>,
    state: Arc<watch::Sender<State>>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            index: Arc::default(),
            state: Arc::new(watch::Sender::new(State::default())),
        }
    }
}

impl Cluster {
    /// Looks at what is known, or tells it something.
    pub fn with<T>(&self, look: impl FnOnce(&mut Index) -> T) -> T {
        let mut index = self.lock();
        let told = look(&mut index);
        let marks = index.marks();
        drop(index);
        self.state.send_if_modified(|state| {
            let news = state.marks != marks;
            state.marks = marks;
            news
        });
        told
    }

    /// Follows what is known.
    pub fn subscribe(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knows nothing any more.
    pub fn forget(&self) {
        *self.lock() = Index::default();
        self.state.send_replace(State::default());
    }

    /// Watches every kind, until one can be watched no longer. Whoever runs it again knows meanwhile what was known, as
    /// a loop in the midst of its work must not take everything for gone; but it is whole only when all was listed anew.
    pub async fn run(&self, client: &Client, unreadable: Unreadable<'_>) {
        self.state.send_modify(|state| state.listed = 0);
        let watches = [
            self.follow_pods(client, unreadable).boxed(),
            self.follow::<Node>(client, unreadable).boxed(),
            self.follow::<NodeClaim>(client, unreadable).boxed(),
            self.follow::<NodePool>(client, unreadable).boxed(),
            self.follow::<IBMNodeClass>(client, unreadable).boxed(),
            self.follow::<DaemonSet>(client, unreadable).boxed(),
            self.follow::<PersistentVolumeClaim>(client, unreadable).boxed(),
            self.follow::<PersistentVolume>(client, unreadable).boxed(),
            self.follow::<StorageClass>(client, unreadable).boxed(),
            self.follow::<CSINode>(client, unreadable).boxed(),
            self.follow::<Namespace>(client, unreadable).boxed(),
            self.follow::<PodDisruptionBudget>(client, unreadable).boxed(),
        ];
        until_one_ends(watches).await;
    }

    async fn follow_pods(&self, client: &Client, unreadable: Unreadable<'_>) {
        // Those that have ended are of no interest, and are most of what batch clusters have.
        let config = watcher::Config::default().fields("status.phase!=Succeeded,status.phase!=Failed");
        let pods: Api<Pod> = Api::all(client.clone());
        let mut listed = First::List;
        let mut events = watcher(pods, config).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => self.with(|index| index.pods.begin()),
                Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                    let spare = |index: &mut Index| index.pods.spare(&pod);
                    self.told(&pod, unreadable, |index| index.apply_pod(&pod), spare);
                }
                Ok(Event::Delete(pod)) => self.with(|index| index.remove_pod(&pod)),
                Ok(Event::InitDone) => {
                    self.with(|index| index.pods.finish());
                    self.listed(&mut listed);
                }
                // The stream goes on: it tries again after a while.
                Err(error) => tracing::warn!(%error, "watching the pods"),
            }
        }
    }

    async fn follow<K: Kept>(&self, client: &Client, unreadable: Unreadable<'_>) {
        let objects: Api<K> = Api::all(client.clone());
        let mut listed = First::List;
        let mut events = watcher(objects, watcher::Config::default())
            .default_backoff()
            .boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => self.with(Index::begin::<K>),
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    let spare = |index: &mut Index| index.spare(&object);
                    self.told(&object, unreadable, |index| index.apply(&object), spare);
                }
                Ok(Event::Delete(object)) => self.with(|index| index.remove(&object)),
                Ok(Event::InitDone) => {
                    self.with(Index::finish::<K>);
                    self.listed(&mut listed);
                }
                Err(error) => tracing::warn!(%error, kind = %K::kind(&()), "watching"),
            }
        }
    }

    /// Tells the index of an object, if that can be read; else that it is there. It is read before anything is changed.
    fn told<K>(
        &self,
        object: &K,
        unreadable: Unreadable<'_>,
        tell: impl FnOnce(&mut Index),
        spare: impl FnOnce(&mut Index),
    ) where
        K: Resource<DynamicType = ()>,
    {
        let read = self.with(|index| {
            let read = catch_unwind(AssertUnwindSafe(|| tell(index)));
            if read.is_err() {
                spare(index);
            }
            read
        });
        if let Err(panic) = read {
            unreadable(object.object_ref(&()), panic);
        }
    }

    fn listed(&self, first: &mut First) {
        if std::mem::replace(first, First::Done) == First::List {
            self.state.send_modify(|state| state.listed += 1);
        }
    }
}

/// Whether the first list of a kind is still to come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    List,
    Done,
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::time::Duration;

    use kube::ResourceExt;
    use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
    use kube::client::Body;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::Clock;
    use crate::cluster::store::Store;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options};

    async fn a_while(watching: impl Future<Output = ()>) {
        _ = tokio::time::timeout(Duration::from_secs(5), watching).await;
    }

    fn server() -> ApiServer {
        ApiServer::new(Options {
            clock: Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap()),
            seed: 1,
            keys: Keys::Fixed,
        })
    }

    fn all_can_be_read(about: ObjectReference, _: Box<dyn Any + Send>) {
        panic!("{}", called(about));
    }

    fn called(about: ObjectReference) -> String {
        let words = [about.kind, about.namespace, about.name].into_iter().flatten();
        words.collect::<Vec<_>>().join(" ")
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_watches_again_knows_what_was_known_but_not_that_it_is_all() {
        let server = server();
        let nodes: Api<Node> = Api::all(server.admin());
        let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let silent = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, Infallible>>()
        });
        let silent = Client::new(silent, "default");

        let cluster = Cluster::default();
        // Its own kinds are not installed, so it cannot be whole; that the others are counted is enough.
        let listed = || cluster.subscribe().borrow().listed;
        let knows = || cluster.with(|index| index.nodes.get("n").is_some());
        a_while(cluster.run(&server.admin(), &all_can_be_read)).await;
        assert!(listed() > 0 && knows());
        a_while(cluster.run(&silent, &all_can_be_read)).await;
        assert_eq!((listed(), knows()), (0, true));
        a_while(cluster.run(&server.admin(), &all_can_be_read)).await;
        assert!(listed() <= KINDS, "a kind counts once");
        cluster.forget();
        assert_eq!((listed(), knows()), (0, false));
    }

    /// A Namespace that cannot be read if it is labeled so.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(transparent)]
    struct Brittle(Namespace);

    impl Resource for Brittle {
        type DynamicType = ();
        type Scope = <Namespace as Resource>::Scope;

        fn kind(dynamic: &()) -> Cow<'_, str> {
            Namespace::kind(dynamic)
        }

        fn group(dynamic: &()) -> Cow<'_, str> {
            Namespace::group(dynamic)
        }

        fn version(dynamic: &()) -> Cow<'_, str> {
            Namespace::version(dynamic)
        }

        fn plural(dynamic: &()) -> Cow<'_, str> {
            Namespace::plural(dynamic)
        }

        fn meta(&self) -> &ObjectMeta {
            self.0.meta()
        }

        fn meta_mut(&mut self) -> &mut ObjectMeta {
            self.0.meta_mut()
        }
    }

    impl Kept for Brittle {
        type Value = BTreeMap<String, String>;

        fn value(&self) -> Self::Value {
            assert_eq!(self.labels().get("poison"), None, "this is poison");
            self.labels().clone()
        }

        fn store(index: &mut Index) -> &mut Store<Self::Value> {
            &mut index.namespaces
        }
    }

    fn poison() -> Value {
        json!({"poison": "yes"})
    }

    async fn make(server: &ApiServer, name: &str, labels: &Value) {
        let namespaces: Api<Namespace> = Api::all(server.admin());
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        let namespace = serde_json::from_value(namespace).unwrap();
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        made.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_at_which_reading_panics_is_told_of_and_passed_over_and_no_other_is() {
        let server = server();
        for (name, labels) in [("a", json!({})), ("bad", poison()), ("c", json!({}))] {
            make(&server, name, &labels).await;
        }
        let (cluster, told) = (Cluster::default(), Mutex::new(Vec::new()));
        let unreadable = |about: ObjectReference, panic: Box<dyn Any + Send>| {
            let said = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            assert!(said.contains("this is poison"), "{said}");
            told.lock().unwrap().push(called(about));
        };
        let (admin, knows) = (server.admin(), |name: &str| {
            cluster.with(|index| index.namespaces.get(name).is_some())
        });
        let later = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(["a", "bad", "c", "d"].map(knows), [true, false, true, false]);
            make(&server, "d", &json!({})).await;
            std::future::pending::<()>().await;
        };
        let followed = cluster.follow::<Brittle>(&admin, &unreadable);
        a_while(async {
            tokio::join!(followed, later);
        })
        .await;
        assert_eq!(["a", "bad", "c", "d"].map(knows), [true, false, true, true]);
        assert_eq!(cluster.subscribe().borrow().listed, 1, "the list is over");
        assert_eq!(*told.lock().unwrap(), ["Namespace bad"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_known_of_an_object_that_can_be_read_no_longer_stands_until_it_is_gone() {
        let (server, cluster) = (server(), Cluster::default());
        make(&server, "bad", &json!({})).await;
        let (admin, told) = (server.admin(), Mutex::new(Vec::new()));
        let unreadable = |about: ObjectReference, _: Box<dyn Any + Send>| {
            told.lock().unwrap().push(called(about));
        };
        let knows = || cluster.with(|index| index.namespaces.get("bad").is_some());
        a_while(cluster.follow::<Brittle>(&admin, &all_can_be_read)).await;
        assert!(knows());

        let namespaces: Api<Namespace> = Api::all(server.admin());
        let poison = Patch::Merge(json!({"metadata": {"labels": poison()}}));
        let patched = namespaces.patch("bad", &PatchParams::default(), &poison).await;
        patched.unwrap();
        a_while(cluster.follow::<Brittle>(&admin, &unreadable)).await;
        assert_eq!(*told.lock().unwrap(), ["Namespace bad"]);
        assert!(knows(), "the list has shown it");

        let deleted = namespaces.delete("bad", &DeleteParams::default()).await;
        deleted.unwrap();
        a_while(cluster.follow::<Brittle>(&admin, &unreadable)).await;
        assert!(!knows());
    }

    #[test]
    fn what_panics_at_a_pod_leaves_the_index_as_it_was() {
        let cluster = Cluster::default();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "u"},
            "spec": {"nodeName": "n", "containers": []},
        }))
        .unwrap();
        let told = Mutex::new(Vec::new());
        let unreadable = |about: ObjectReference, _: Box<dyn Any + Send>| {
            told.lock().unwrap().push(called(about));
        };
        let spare = |index: &mut Index| index.pods.spare(&pod);
        cluster.told(&pod, &unreadable, |_| panic!("this is poison"), spare);
        assert_eq!(*told.lock().unwrap(), ["Pod shop a"]);
        assert_eq!(cluster.with(|index| index.pods.size()), (0, 0, 0));
        cluster.with(|index| {
            index.apply_pod(&pod);
            index.pods.begin();
        });
        cluster.told(&pod, &unreadable, |_| panic!("this is poison"), spare);
        cluster.with(|index| index.pods.finish());
        assert_eq!(cluster.with(|index| index.pods.size()), (1, 1, 1), "it was shown");
        assert!(!cluster.index.is_poisoned());
    }
}
