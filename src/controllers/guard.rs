//! Keeps a mistake of this program to the object it is about.
//!
//! A pass over one object that panics is told to people as an event on that object, counted and made again, after ever
//! longer waits; a loop over many objects that panics, or ends, is begun anew in the same way. Nobody else waits for
//! either: without this one poisoned object would take the process down, and again after every restart.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};

use super::context::Context;
use super::events::{Kind, Story};
use super::metrics::Metrics;
use super::pace::Pace;
use crate::api::names;
use crate::clock::Clock;
use crate::panics::{Panicked, words};

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
}

/// What stands around a loop over many objects.
struct Keeper {
    clock: Clock,
    metrics: Metrics,
    what: &'static str,
    pace: Pace,
}

impl Keeper {
    /// Runs a loop for as long as this is polled, and begins it anew whenever it panics or ends: nobody ends a loop, so
    /// one that returns would be dead until another replica leads, and nobody would know.
    async fn keep_up<F>(&self, run: impl Fn() -> F)
    where
        F: Future<Output = ()> + Send,
    {
        loop {
            let began = self.clock.instant();
            match AssertUnwindSafe(run().boxed()).catch_unwind().await {
                Ok(()) => {
                    tracing::error!(what = self.what, "a loop ended and is begun anew");
                    self.metrics.loop_ended(self.what);
                }
                Err(panic) => {
                    let panicked = Panicked(words(panic.as_ref()));
                    tracing::error!(what = self.what, error = %panicked, "a loop panicked and is begun anew");
                    self.metrics.panicked(self.what);
                }
            }
            let lasted = self.clock.instant().saturating_duration_since(began);
            if lasted >= self.clock.real(WELL_AFTER) {
                self.pace.forget(self.what);
            }
            self.clock.sleep(self.pace.wait(self.what)).await;
        }
    }
}

/// A loop that goes on for as long as this is polled, whatever it panics at and wherever it ends.
pub(super) fn kept_up<F>(
    context: &Context,
    what: &'static str,
    run: impl Fn(Context) -> F + Send + Sync + 'static,
) -> BoxFuture<'static, ()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let keeper = Keeper {
        clock: context.clock.clone(),
        metrics: context.metrics.clone(),
        what,
        pace: Pace::new(context.entropy.clone()),
    };
    let context = context.clone();
    async move { keeper.keep_up(|| run(context.clone())).await }.boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use prometheus::Registry;

    use super::*;
    use crate::entropy::Entropy;

    fn counted(registry: &Registry, metric: &str) -> u64 {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == metric);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let counted = family.map_or(0.0, |family| family.get_metric()[0].get_counter().get_value()) as u64;
        counted
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_ends_or_panics_is_counted_and_begun_anew_after_ever_longer_waits() {
        let registry = Registry::new();
        let keeper = Keeper {
            clock: Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap()),
            metrics: Metrics::register(&registry).unwrap(),
            what: "termination",
            pace: Pace::new(Entropy::seeded(1)),
        };
        let begun = AtomicU32::new(0);
        let run = || {
            let time = begun.fetch_add(1, Ordering::Relaxed);
            async move { assert!(time.is_multiple_of(2), "the second and the fourth time") }
        };
        let hour = tokio::time::timeout(Duration::from_hours(1), keeper.keep_up(run));
        assert!(hour.await.is_err(), "it goes on");
        let begun = u64::from(begun.into_inner());
        assert!((100..=260).contains(&begun), "{begun} times in an hour");
        let ended = counted(&registry, "karpenter_ibm_loops_ended_total");
        let panicked = counted(&registry, "karpenter_ibm_decision_panics_total");
        assert_eq!(ended + panicked, begun);
        assert!(
            ended.abs_diff(panicked) <= 1,
            "{ended} ended, {panicked} panicked"
        );
    }
}
