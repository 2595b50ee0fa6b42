//! What the operator writes into its log while a world runs, kept until the judge has looked for secrets in it.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

/// Whose lines are listened to. Others have no secrets but those that we give them.
const OURS: &str = "karpenter_ibm";

/// Hears what is logged. Clones are the same ear.
#[derive(Clone, Debug, Default)]
pub(super) struct Ear(Arc<Mutex<Vec<String>>>);

impl Ear {
    /// Listens to this thread until the guard is dropped, at the level of debugging: what is never turned on in a cluster
    /// is written there first when something is wrong.
    pub(super) fn listen(&self) -> DefaultGuard {
        tracing::subscriber::set_default(Registry::default().with(self.clone()))
    }

    /// What was heard since this was last asked.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hear(&self, fields: impl FnOnce(&mut Line)) {
        let mut line = Line(String::new());
        fields(&mut line);
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push(line.0);
    }
}

impl<S: Subscriber> Layer<S> for Ear {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= Level::DEBUG && metadata.target().starts_with(OURS)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.hear(|line| attributes.record(line));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.hear(|line| values.record(line));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.hear(|line| event.record(line));
    }
}

/// The fields of a line, one after another.
struct Line(String);

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Not quoted: a secret with a quotation mark in it is one still.
        let _ = write!(self.0, "{}={value} ", field.name());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_log_is_heard_with_its_fields_and_only_once() {
        let ear = Ear::default();
        let listens = ear.listen();
        tracing::debug!(key = "a secret", number = 7, "asking");
        tracing::trace!("too quiet");
        tracing::warn!(target: "hyper", "of others");
        let _span = tracing::info_span!("turn", token = "another").entered();
        assert_eq!(
            ear.take(),
            ["message=asking key=a secret number=7 ", "token=another "]
        );
        drop(listens);
        tracing::warn!("after the end");
        assert!(ear.take().is_empty());
    }
}
