//! The index that controllers share, and the watches that feed it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::watch;

use super::index::{Index, Marks};
use super::kept::Kept;
use crate::api::{IBMNodeClass, NodeClaim, NodePool};
use crate::wake::until_one_ends;

/// Every kind that is watched must have been listed before anything is decided.
const KINDS: u32 = 12;

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
    pub async fn run(&self, client: &Client) {
        self.state.send_modify(|state| state.listed = 0);
        let watches = [
            self.follow_pods(client).boxed(),
            self.follow::<Node>(client).boxed(),
            self.follow::<NodeClaim>(client).boxed(),
            self.follow::<NodePool>(client).boxed(),
            self.follow::<IBMNodeClass>(client).boxed(),
            self.follow::<DaemonSet>(client).boxed(),
            self.follow::<PersistentVolumeClaim>(client).boxed(),
            self.follow::<PersistentVolume>(client).boxed(),
            self.follow::<StorageClass>(client).boxed(),
            self.follow::<CSINode>(client).boxed(),
            self.follow::<Namespace>(client).boxed(),
            self.follow::<PodDisruptionBudget>(client).boxed(),
        ];
        until_one_ends(watches).await;
    }

    async fn follow_pods(&self, client: &Client) {
        // Those that have ended are of no interest, and are most of what batch clusters have.
        let config = watcher::Config::default().fields("status.phase!=Succeeded,status.phase!=Failed");
        let pods: Api<Pod> = Api::all(client.clone());
        let mut listed = First::List;
        let mut events = watcher(pods, config).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => self.with(|index| index.pods.begin()),
                Ok(Event::InitApply(pod) | Event::Apply(pod)) => self.with(|index| index.apply_pod(&pod)),
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

    async fn follow<K: Kept>(&self, client: &Client) {
        let objects: Api<K> = Api::all(client.clone());
        let mut listed = First::List;
        let mut events = watcher(objects, watcher::Config::default())
            .default_backoff()
            .boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => self.with(Index::begin::<K>),
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    self.with(|index| index.apply(&object));
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
    use std::convert::Infallible;
    use std::time::Duration;

    use kube::api::PostParams;
    use kube::client::Body;

    use super::*;
    use crate::clock::Clock;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options};

    async fn a_while(watching: impl Future<Output = ()>) {
        _ = tokio::time::timeout(Duration::from_secs(5), watching).await;
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_watches_again_knows_what_was_known_but_not_that_it_is_all() {
        let server = ApiServer::new(Options {
            clock: Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap()),
            seed: 1,
            keys: Keys::Fixed,
        });
        let nodes: Api<Node> = Api::all(server.admin());
        let node = serde_json::from_value(serde_json::json!({"metadata": {"name": "n"}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let silent = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, Infallible>>()
        });
        let silent = Client::new(silent, "default");

        let cluster = Cluster::default();
        // Its own kinds are not installed, so it cannot be whole; that the others are counted is enough.
        let listed = || cluster.subscribe().borrow().listed;
        let knows = || cluster.with(|index| index.nodes.get("n").is_some());
        a_while(cluster.run(&server.admin())).await;
        assert!(listed() > 0 && knows());
        a_while(cluster.run(&silent)).await;
        assert_eq!((listed(), knows()), (0, true));
        a_while(cluster.run(&server.admin())).await;
        assert!(listed() <= KINDS, "a kind counts once");
        cluster.forget();
        assert_eq!((listed(), knows()), (0, false));
    }
}
