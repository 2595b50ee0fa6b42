//! Tells people what happens, as Events.
//!
//! An Event's name is derived from the object's uid, the reason and the transition, so the same thing told twice, by
//! two replicas or before and after a crash, is one Event: "already exists" means done. Times are those of our clock.
//! Telling is best effort, but where something is removed after it ([`Events::try_tell`]): what cannot be told of stays.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Resource, ResourceExt};

use crate::clock::Clock;
use crate::hash::fnv1a;

/// Events about cluster-scoped objects are kept where kubectl looks for them.
const NAMESPACE: &str = "default";
const CONTROLLER: &str = "karpenter-ibm.sh/controller";
/// The API server refuses longer notes.
const NOTE_BYTES_MAX: usize = 1024;

/// Where Events are written to. Clones are the same.
#[derive(Clone)]
pub struct Events {
    client: kube::Client,
    clock: Clock,
    instance: String,
}

/// What there is to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Whether somebody should worry.
    pub kind: Kind,
    /// Why, as one word in CamelCase.
    pub reason: &'static str,
    /// What was done or tried, as one word.
    pub action: &'static str,
    /// For people.
    pub note: String,
    /// What tells this time from another of the same reason: an attempt, a message.
    pub transition: String,
}

/// Whether a story was new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It was told just now.
    Now,
    /// Somebody had told it already.
    Before,
}

/// Whether somebody should worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Events {
    /// Written through `client` in the name of `instance`, this replica.
    pub fn new(client: kube::Client, clock: Clock, instance: &str) -> Self {
        Self {
            client,
            clock,
            instance: instance.chars().take(128).collect(),
        }
    }

    /// Tells a story about an object, once.
    pub async fn tell<K: Resource<DynamicType = ()>>(&self, about: &K, story: Story) {
        self.tell_about(about.object_ref(&()), story).await;
    }

    /// Tells a story about an object that is known by its name, once.
    pub async fn tell_about(&self, about: ObjectReference, story: Story) {
        let (object, reason) = (about.name.clone(), story.reason);
        if let Err(error) = self.try_tell_about(about, story).await {
            tracing::warn!(%error, object, reason, "cannot write an event");
        }
    }

    /// Like [`Events::tell`], for a story that must not be lost: whoever cannot tell it tries again.
    pub async fn try_tell<K: Resource<DynamicType = ()>>(
        &self,
        about: &K,
        story: Story,
    ) -> kube::Result<Told> {
        self.try_tell_about(about.object_ref(&()), story).await
    }

    /// The same about an object that is known by its name.
    pub async fn try_tell_about(&self, about: ObjectReference, story: Story) -> kube::Result<Told> {
        let event = self.event(about, story);
        let namespace = event.namespace().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        match events.create(&PostParams::default(), &event).await {
            Ok(_) => Ok(Told::Now),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Told::Before),
            Err(error) => Err(error),
        }
    }

    fn event(&self, about: ObjectReference, story: Story) -> Event {
        let uid = about.uid.clone().unwrap_or_default();
        let identity = format!("{uid}\n{}\n{}", story.reason, story.transition);
        // An object's name has at most 253 characters, and so has an Event's.
        let object: String = about
            .name
            .iter()
            .flat_map(|name| name.chars())
            .take(236)
            .collect();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{object}.{:016x}", fnv1a(identity.as_bytes()))),
                namespace: Some(about.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(self.clock.now())),
            type_: Some(format!("{:?}", story.kind)),
            reason: Some(story.reason.to_owned()),
            action: Some(story.action.to_owned()),
            note: Some(shortened(story.note)),
            regarding: Some(ObjectReference {
                resource_version: None,
                ..about
            }),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

/// As much of a note as the API server takes.
pub(super) fn shortened(mut note: String) -> String {
    if note.len() > NOTE_BYTES_MAX {
        let end = (0..=NOTE_BYTES_MAX).rev().find(|at| note.is_char_boundary(*at));
        note.truncate(end.unwrap_or_default());
        note.shrink_to_fit();
    }
    note
}
