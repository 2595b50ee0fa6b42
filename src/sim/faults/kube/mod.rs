//! Faults between the operator and its API server.
//!
//! Answers are what a real server, or the proxy in front of it, sends. Three mechanisms: requests that are lost, refused
//! or slow ([`Layer`]); watches and cached reads that show the past, through the server's own control ([`watches`]); and
//! definitions of NodeClaims that are older or newer than the operator ([`definitions`]).

pub mod answers;
pub mod definitions;
pub mod layer;
#[cfg(test)]
mod tests;
pub mod watches;

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact;
use serde::{Deserialize, Serialize};

pub use super::names::KubeKind;
pub use layer::{Layer, Lost, WithFaults};

/// A fault between the operator and its API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubeFault {
    /// What happens.
    pub kind: KubeKind,
    /// How many of a hundred requests it hits.
    #[serde(default = "always", skip_serializing_if = "is_always")]
    pub percent: u8,
    /// How often it strikes before it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Only this resource, by its plural name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// How long something is kept back, where that is what happens.
    #[serde(
        with = "compact::required",
        default,
        skip_serializing_if = "Duration::is_zero"
    )]
    pub delay: Duration,
}

fn always() -> u8 {
    100
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_always(percent: &u8) -> bool {
    *percent == 100
}

impl KubeFault {
    /// A fault that strikes whenever it can, until it is stopped.
    pub fn new(kind: KubeKind) -> Self {
        Self {
            kind,
            percent: 100,
            times: None,
            resource: None,
            delay: Duration::ZERO,
        }
    }

    /// Hits so many of a hundred requests.
    #[must_use]
    pub fn percent(mut self, percent: u8) -> Self {
        self.percent = percent;
        self
    }

    /// Strikes this often at most.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Strikes one resource only.
    #[must_use]
    pub fn on(mut self, plural: &str) -> Self {
        self.resource = Some(plural.to_owned());
        self
    }

    /// Keeps things back for so long.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}
