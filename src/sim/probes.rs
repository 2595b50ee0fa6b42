//! "Sometimes" probes: rare things that a campaign must have met, recognized from the history and the truth.
//!
//! A campaign in which one of [`REGISTERED`] was never hit has not tested what it claims to.

use std::collections::BTreeMap;

use super::history::Entry;
use super::invariants::{Book, Truth};

/// The probes that the features built so far can reach, and what each stands for.
pub const REGISTERED: &[(&str, &str)] = &[];

/// How often each rare thing was seen.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// By name.
    pub hits: BTreeMap<&'static str, u64>,
}

impl Probes {
    pub(super) fn observe(&mut self, _entry: &Entry, _book: &Book, _truth: &Truth<'_>) {}
}
