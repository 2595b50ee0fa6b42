//! Keeps a mistake of this program to the object it is about.
//!
//! A pass over one object that panics is told to people as an event on that object, counted and made again, after ever
//! longer waits; a loop over many objects that panics is begun anew in the same way. Nobody else waits for either: without
//! this one poisoned object would take the process down, and again after every restart.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};

use super::compute::{Panicked, words};
use super::context::Context;
use super::events::{Kind, Story};
use super::pace::Pace;
use crate::api::names;

/// A loop that has run for so long without a panic is well again.
const WELL_AFTER: Duration = Duration::from_mins(10);

/// Stands around the passes of one controller.
pub(super) struct Guard {
    context: Context,
    what: &'static str,
    pace: Pace,
}

impl Guard {
    /// For the controller of that name, which metrics are labeled with.
    pub(super) fn new(context: &Context, what: &'static str) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            what,
            pace: Pace::new(context.entropy.clone()),
        })
    }

    /// What comes of a pass over an object; if it panics, when to try again.
    pub(super) async fn pass<K, E>(
        self: Arc<Self>,
        about: Arc<K>,
        pass: impl Future<Output = Result<Action, E>> + Send,
    ) -> Result<Action, E>
    where
        K: Resource<DynamicType = ()>,
    {
        match AssertUnwindSafe(pass).catch_unwind().await {
            Ok(ended) => {
                if ended.is_ok() {
                    self.well(&about.name_any());
                }
                ended
            }
            Err(panic) => {
                let panicked = Panicked(words(panic.as_ref()));
                Ok(Action::requeue(self.report(about.as_ref(), &panicked).await))
            }
        }
    }

    /// A pass over the object of that name went well.
    pub(super) fn well(&self, name: &str) {
        self.pace.forget(name);
    }

    /// Reports a pass that panicked; when to try again.
    pub(super) async fn report<K>(&self, about: &K, panicked: &Panicked) -> Duration
    where
        K: Resource<DynamicType = ()>,
    {
        let name = about.name_any();
        tracing::error!(what = self.what, object = name, error = %panicked, "a pass over it panicked");
        self.context.metrics.panicked(self.what);
        let story = Story {
            kind: Kind::Warning,
            reason: names::REASON_INTERNAL_ERROR,
            action: "LookAfter",
            note: panicked.to_string(),
            transition: panicked.0.clone(),
        };
        self.context.events.tell(about, story).await;
        self.pace.wait(&name)
    }

    /// Runs a loop for as long as this is polled, and begins it anew whenever it panics.
    async fn keep_up<F>(&self, run: impl Fn(Context) -> F)
    where
        F: Future<Output = ()> + Send,
    {
        loop {
            let began = self.context.clock.instant();
            let run = AssertUnwindSafe(run(self.context.clone()).boxed());
            let Err(panic) = run.catch_unwind().await else {
                return;
            };
            let panicked = Panicked(words(panic.as_ref()));
            tracing::error!(what = self.what, error = %panicked, "a loop panicked and is begun anew");
            self.context.metrics.panicked(self.what);
            let lasted = self.context.clock.instant().saturating_duration_since(began);
            if lasted >= self.context.clock.real(WELL_AFTER) {
                self.pace.forget(self.what);
            }
            let wait = self.pace.wait(self.what);
            self.context.clock.sleep(wait).await;
        }
    }
}

/// A loop that goes on for as long as this is polled, whatever it panics at.
pub(super) fn kept_up<F>(
    context: &Context,
    what: &'static str,
    run: impl Fn(Context) -> F + Send + Sync + 'static,
) -> BoxFuture<'static, ()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let guard = Guard::new(context, what);
    async move { guard.keep_up(run).await }.boxed()
}
