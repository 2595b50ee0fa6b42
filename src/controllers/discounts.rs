//! The discount factors that the user set, as they are now: a configuration file may change them at any time.

use std::sync::Arc;

use tokio::sync::watch;

use crate::model::DiscountFactors;

/// The factors of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct Discounts(Arc<watch::Sender<DiscountFactors>>);

impl Discounts {
    /// These, until others are set.
    pub fn new(factors: DiscountFactors) -> Self {
        Self(Arc::new(watch::Sender::new(factors)))
    }

    /// Those of now.
    pub fn current(&self) -> DiscountFactors {
        self.0.borrow().clone()
    }

    /// Others from now on. Whoever listens is told only if something changed.
    pub fn set(&self, factors: DiscountFactors) {
        self.0.send_if_modified(|current| {
            let changed = *current != factors;
            *current = factors;
            changed
        });
    }

    /// Tells when there are others.
    pub fn subscribe(&self) -> watch::Receiver<DiscountFactors> {
        self.0.subscribe()
    }
}
