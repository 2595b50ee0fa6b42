//! Tells people of objects that the view of the cluster cannot take in.
//!
//! Watches wait for nobody, and an API server may take events slowly: what is to be told waits in a short queue. What finds
//! no room there is logged and counted like everything else, and told of at the next change of its object, since each is
//! tried anew.

use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::events::{Events, Kind, Story};
use super::metrics::Metrics;
use crate::api::names;
use crate::clock::Clock;
use crate::panics::{Panicked, words};

/// What is unreadable is one object or another; if it is all of a kind, a hundred of them say what there is to say.
const WAITING_MAX: usize = 100;
/// Of so many it is known that they were told, which takes half a megabyte. If there are more, they are told anew, which
/// costs requests and makes no other events.
const REMEMBERED_MAX: usize = 1000;
/// For so long API servers keep an event, unless they are told otherwise.
const KEPT: Duration = Duration::from_hours(1);

/// Who writes what there is to tell.
pub(super) struct Teller {
    events: Events,
    clock: Clock,
    heard: mpsc::Receiver<(ObjectReference, Panicked)>,
    /// What was told of each object, by its uid, and when.
    told: BTreeMap<String, (Panicked, Instant)>,
}

/// What hears of objects at which reading panicked, and who tells people of them.
pub(super) fn passed_over(
    events: Events,
    clock: Clock,
    metrics: Metrics,
) -> (impl Fn(ObjectReference, Box<dyn Any + Send>) + Sync, Teller) {
    let (to, heard) = mpsc::channel(WAITING_MAX);
    let hear = move |about: ObjectReference, panic: Box<dyn Any + Send>| {
        let panicked = Panicked(words(panic.as_ref()));
        tracing::error!(
            kind = about.kind,
            namespace = about.namespace,
            object = about.name,
            error = %panicked,
            "reading it panicked: it is passed over"
        );
        metrics.panicked("cluster");
        _ = to.try_send((about, panicked));
    };
    let teller = Teller {
        events,
        clock,
        heard,
        told: BTreeMap::new(),
    };
    (hear, teller)
}

impl Teller {
    /// Writes what comes, for as long as this is polled.
    pub(super) async fn run(mut self) {
        while let Some((about, panicked)) = self.heard.recv().await {
            self.tell(about, panicked).await;
        }
    }

    /// Tells it once: objects change all the time, and what is wrong with them does not.
    async fn tell(&mut self, about: ObjectReference, panicked: Panicked) {
        let (uid, now) = (about.uid.clone().unwrap_or_default(), self.clock.instant());
        let kept = self.clock.real(KEPT);
        let is_known = self
            .told
            .get(&uid)
            .is_some_and(|(told, at)| *told == panicked && now.saturating_duration_since(*at) < kept);
        if is_known {
            return;
        }
        let story = Story {
            kind: Kind::Warning,
            reason: names::REASON_INTERNAL_ERROR,
            action: "Read",
            note: format!("it cannot be read, and counts as it was when it could: {panicked}"),
            transition: panicked.0.clone(),
        };
        let object = about.name.clone();
        if let Err(error) = self.events.try_tell_about(about, story).await {
            tracing::warn!(%error, object, "cannot write an event");
            return;
        }
        if self.told.len() >= REMEMBERED_MAX {
            self.told.clear();
        }
        self.told.insert(uid, (panicked, now));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Request;
    use k8s_openapi::api::events::v1::Event;
    use kube::Api;
    use kube::api::ListParams;
    use kube::client::Body;
    use prometheus::Registry;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options};

    struct Stage {
        server: ApiServer,
        clock: Clock,
        /// How many requests were sent.
        asked: Arc<AtomicUsize>,
    }

    impl Stage {
        fn new() -> Self {
            let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
            let server = ApiServer::new(Options {
                clock: clock.clone(),
                seed: 1,
                keys: Keys::Fixed,
            });
            Self {
                server,
                clock,
                asked: Arc::default(),
            }
        }

        fn passed_over(
            &self,
        ) -> (
            impl Fn(ObjectReference, Box<dyn Any + Send>) + Sync + use<>,
            Teller,
        ) {
            let (inner, asked) = (self.server.admin(), self.asked.clone());
            let counting = service_fn(move |request: Request<Body>| {
                asked.fetch_add(1, Ordering::Relaxed);
                let inner = inner.clone();
                async move { inner.send(request).await.map_err(BoxError::from) }
            });
            let client = kube::Client::new(counting, "default");
            let events = Events::new(client, self.clock.clone(), "one");
            let metrics = Metrics::register(&Registry::new()).unwrap();
            passed_over(events, self.clock.clone(), metrics)
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Relaxed)
        }

        async fn events(&self) -> Vec<Event> {
            let events: Api<Event> = Api::all(self.server.admin());
            events.list(&ListParams::default()).await.unwrap().items
        }

        async fn a_second(&self) {
            self.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    fn pod(name: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some("default".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(format!("uid-of-{name}")),
            ..ObjectReference::default()
        }
    }

    async fn while_telling(teller: Teller, story: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = story => {}
            () = teller.run() => panic!("it goes on"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_told_once_what_is_wrong_with_it_however_often_it_changes() {
        let stage = Stage::new();
        let (hear, teller) = stage.passed_over();
        while_telling(teller, async {
            for _ in 0..3 {
                hear(pod("a"), Box::new("this is poison"));
                stage.a_second().await;
            }
            assert_eq!(stage.asked(), 1);
            hear(pod("a"), Box::new("this is another"));
            hear(pod("b"), Box::new("this is poison"));
            stage.a_second().await;
            assert_eq!(stage.asked(), 3);
            // The API server may have forgotten the event; where it has not, it is there already.
            stage.clock.sleep(KEPT).await;
            hear(pod("b"), Box::new("this is poison"));
            stage.a_second().await;
            assert_eq!(stage.asked(), 4);
        })
        .await;
        let told: Vec<String> = stage.events().await.into_iter().map(said).collect();
        assert_eq!(told.len(), 3, "{told:?}");
        for (object, why) in [("a", "poison"), ("a", "another"), ("b", "poison")] {
            let is_this =
                |it: &&String| it.starts_with(&format!("Pod {object} InternalError")) && it.contains(why);
            assert_eq!(told.iter().filter(is_this).count(), 1, "{told:?}");
        }
    }

    fn said(event: Event) -> String {
        let about = event.regarding.unwrap_or_default();
        let words = [about.kind, about.name, event.reason, event.note];
        words.map(Option::unwrap_or_default).join(" ")
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_until_people_are_told_and_what_found_no_room_is_told_later() {
        let stage = Stage::new();
        let (hear, teller) = stage.passed_over();
        for number in 0..2 * WAITING_MAX {
            hear(pod(&format!("pod-{number}")), Box::new("this is poison"));
        }
        while_telling(teller, async {
            stage.a_second().await;
            assert_eq!(stage.asked(), WAITING_MAX);
            hear(pod("last"), Box::new("this is poison"));
            stage.a_second().await;
        })
        .await;
        assert_eq!(stage.asked(), WAITING_MAX + 1);
    }
}
