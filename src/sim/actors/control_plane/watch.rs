//! Lists and watches of every kind that some actor reads, as one ordered flow of updates to the view.
//!
//! Each kind is listed once, then watched from the version of that list. A watch that ends goes on from the last
//! version heard of, bookmarks included; one whose version is too old (410) lists again. An update is a function on
//! the view, so that kinds of different types flow together. Kinds are polled in their own order, never in the order
//! in which they happened to wake: the same requests give the same history.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt, unfold};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use kube::Client;
use kube::api::{ListParams, ObjectList, Request, WatchEvent, WatchParams};

use crate::clock::Clock;
use crate::sim::actors::view::{Change, Kept, Kind, View, version};
use crate::wake::{Bell, Hall};

/// How long a kind waits after an error before it asks again, as a reflector of Kubernetes does at first.
const BACK_OFF: Duration = Duration::from_secs(1);
/// The namespace of the leases by which nodes show that they live; others are no business of the actors.
const NODE_LEASES: &str = "kube-node-lease";

/// One thing learnt about one kind.
pub(super) struct Update {
    /// The kind.
    pub(super) kind: Kind,
    /// What it does to the view.
    pub(super) apply: Box<dyn FnOnce(&mut View) -> Change + Send>,
}

/// The watches of all kinds.
pub(super) struct Watches {
    hall: Hall,
    streams: Vec<(BoxStream<'static, Update>, Bell)>,
    unlisted: BTreeSet<Kind>,
}

impl Watches {
    /// Watches these kinds.
    pub(super) fn new(client: &Client, clock: &Clock, kinds: &BTreeSet<Kind>) -> Self {
        let hall = Hall::default();
        let stream = |kind: &Kind| (stream_of(*kind, client, clock), hall.bell());
        Self {
            streams: kinds.iter().map(stream).collect(),
            unlisted: kinds.clone(),
            hall,
        }
    }

    /// Whether every kind was listed, so that what is not seen is not there.
    pub(super) fn are_complete(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Waits for updates, and takes all that are ready.
    pub(super) async fn updates(&mut self) -> Vec<Update> {
        poll_fn(|context| match self.poll(context) {
            updates if updates.is_empty() => Poll::Pending,
            updates => Poll::Ready(updates),
        })
        .await
    }

    /// Takes the updates that are ready, and does not wait for any.
    pub(super) async fn ready(&mut self) -> Vec<Update> {
        poll_fn(|context| Poll::Ready(self.poll(context))).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Vec<Update> {
        self.hall.attend(context);
        let mut updates = Vec::new();
        for (stream, bell) in self.streams.iter_mut().filter(|(_, bell)| bell.rang()) {
            while let Poll::Ready(Some(update)) = stream.poll_next_unpin(&mut bell.context()) {
                // The first thing that a kind says is its list.
                self.unlisted.remove(&update.kind);
                updates.push(update);
            }
        }
        updates
    }
}

fn stream_of(kind: Kind, client: &Client, clock: &Clock) -> BoxStream<'static, Update> {
    match kind {
        Kind::Namespace => follow::<Namespace>(client, clock),
        Kind::Node => follow::<Node>(client, clock),
        Kind::Lease => follow::<Lease>(client, clock),
        Kind::PriorityClass => follow::<PriorityClass>(client, clock),
        Kind::StorageClass => follow::<StorageClass>(client, clock),
        Kind::CsiNode => follow::<CSINode>(client, clock),
        Kind::Volume => follow::<PersistentVolume>(client, clock),
        Kind::Claim => follow::<PersistentVolumeClaim>(client, clock),
        Kind::Attachment => follow::<VolumeAttachment>(client, clock),
        Kind::Deployment => follow::<Deployment>(client, clock),
        Kind::ReplicaSet => follow::<ReplicaSet>(client, clock),
        Kind::StatefulSet => follow::<StatefulSet>(client, clock),
        Kind::DaemonSet => follow::<DaemonSet>(client, clock),
        Kind::Job => follow::<Job>(client, clock),
        Kind::Budget => follow::<PodDisruptionBudget>(client, clock),
        Kind::Pod => follow::<Pod>(client, clock),
    }
}

fn follow<K: Kept>(client: &Client, clock: &Clock) -> BoxStream<'static, Update> {
    let namespace = if K::KIND == Kind::Lease { NODE_LEASES } else { "" };
    let watch = Watch::<K> {
        client: client.clone(),
        clock: clock.clone(),
        request: Request::new(K::KIND.path(namespace)),
        phase: Phase::List,
    };
    unfold(watch, |watch| async { Some(watch.next().await) }).boxed()
}

struct Watch<K> {
    client: Client,
    clock: Clock,
    request: Request,
    phase: Phase<K>,
}

enum Phase<K> {
    /// Nothing is known, or too little.
    List,
    /// Everything up to this version is known.
    Resume { version: String },
    /// A watch is open.
    Open {
        version: String,
        since: tokio::time::Instant,
        events: BoxStream<'static, kube::Result<WatchEvent<K>>>,
    },
}

impl<K: Kept> Watch<K> {
    async fn next(mut self) -> (Update, Self) {
        loop {
            let phase = std::mem::replace(&mut self.phase, Phase::List);
            let update = match phase {
                Phase::List => self.list().await,
                Phase::Resume { version } => self.open(version).await.map(|()| None),
                Phase::Open {
                    version,
                    since,
                    events,
                } => self.hear(version, since, events).await,
            };
            match update {
                Ok(Some(update)) => return (update, self),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(kind = ?K::KIND, %error, "cannot list or watch");
                    self.clock.sleep(BACK_OFF).await;
                }
            }
        }
    }

    async fn list(&mut self) -> kube::Result<Option<Update>> {
        let request = self.request.list(&ListParams::default());
        let listed: ObjectList<K> = self
            .client
            .request(request.map_err(kube::Error::BuildRequest)?)
            .await?;
        let at = listed.metadata.resource_version.unwrap_or_default();
        let revision = at.parse().unwrap_or(0);
        self.phase = Phase::Resume { version: at };
        Ok(Some(update::<K>(move |view| {
            view.replace(listed.items, revision)
        })))
    }

    async fn open(&mut self, version: String) -> kube::Result<()> {
        let request = self.request.watch(&WatchParams::default(), &version);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let since = self.clock.instant();
        match self.client.request_events(request).await {
            Ok(events) => {
                let events = events.boxed();
                self.phase = Phase::Open {
                    version,
                    since,
                    events,
                };
                Ok(())
            }
            Err(error) => Err(self.give_up(version, error)),
        }
    }

    /// The next event of an open watch.
    async fn hear(
        &mut self,
        version: String,
        since: tokio::time::Instant,
        mut events: BoxStream<'static, kube::Result<WatchEvent<K>>>,
    ) -> kube::Result<Option<Update>> {
        let (heard, update) = match events.next().await {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                (version_of(&object), Some(update::<K>(|view| view.apply(object))))
            }
            Some(Ok(WatchEvent::Deleted(object))) => (
                version_of(&object),
                Some(update::<K>(move |view| view.remove(&object))),
            ),
            Some(Ok(WatchEvent::Bookmark(bookmark))) => (bookmark.metadata.resource_version, None),
            Some(Ok(WatchEvent::Error(status))) => {
                return Err(self.give_up(version, kube::Error::Api(status)));
            }
            Some(Err(error)) => return Err(self.give_up(version, error)),
            None => {
                self.phase = Phase::Resume { version };
                // One that is closed in the moment in which it opened would be opened again forever without time passing.
                if self.clock.instant() == since {
                    self.clock.sleep(BACK_OFF).await;
                }
                return Ok(None);
            }
        };
        self.phase = Phase::Open {
            version: heard,
            since,
            events,
        };
        Ok(update)
    }

    /// After an error the watch resumes where it was, unless the server forgot that far back.
    fn give_up(&mut self, version: String, error: kube::Error) -> kube::Error {
        let expired = matches!(&error, kube::Error::Api(status) if status.code == 410);
        self.phase = if expired {
            Phase::List
        } else {
            Phase::Resume { version }
        };
        error
    }
}

fn version_of<K: Kept>(object: &K) -> String {
    version(object.meta()).to_string()
}

fn update<K: Kept>(apply: impl FnOnce(&mut View) -> Change + Send + 'static) -> Update {
    Update {
        kind: K::KIND,
        apply: Box::new(apply),
    }
}
