//! Breakers: bounds on what is bought in all, whatever asks for it. They are on by default, since a mistake in a manifest,
//! or in this program, can buy faster than people read alerts.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::NodeClaim;
use crate::clock::between;

/// How far back launches count.
pub const HOUR: Duration = Duration::from_hours(1);

/// The bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakers {
    /// Most machines at once, those about to be bought included.
    pub machines_max: u64,
    /// Most launches within an hour.
    pub launches_per_hour_max: u64,
    /// The kill switch.
    pub purchases: Purchases,
}

/// The kill switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purchases {
    /// Machines are bought.
    #[default]
    Allowed,
    /// Nothing is bought; everything else goes on.
    Stopped,
}

impl Default for Breakers {
    /// Twice the largest cluster that this was measured with, and as many launches as build it anew within an hour.
    fn default() -> Self {
        Self {
            machines_max: 2000,
            launches_per_hour_max: 2000,
            purchases: Purchases::Allowed,
        }
    }
}

/// Which breaker holds a purchase back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Tripped {
    /// The kill switch is on.
    #[error("nothing is bought while the kill switch is on")]
    KillSwitch,
    /// There would be too many machines.
    #[error("there would be {machines} machines, and the limit is {limit}")]
    Machines {
        /// How many there would be.
        machines: u64,
        /// How many there may be.
        limit: u64,
    },
    /// There would be too many launches within an hour.
    #[error("there would be {launches} launches within an hour, and the limit is {limit}")]
    Launches {
        /// How many there would be.
        launches: u64,
        /// How many there may be.
        limit: u64,
    },
}

impl Tripped {
    /// One word for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::KillSwitch => "kill-switch",
            Self::Machines { .. } => "machines",
            Self::Launches { .. } => "launches",
        }
    }
}

/// What breakers count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Machines that are there or about to be bought.
    pub machines: u64,
    /// Launches within the last hour.
    pub launches: u64,
}

impl Load {
    /// What the allocations of these claims amount to.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a NodeClaim>, now: Timestamp) -> Self {
        let mut load = Self::default();
        let allocations = claims
            .into_iter()
            .filter_map(|claim| claim.status.as_ref()?.allocation.as_ref());
        for allocation in allocations {
            load.machines += 1;
            load.launches += u64::from(between(allocation.since.0, now) < HOUR);
        }
        load
    }

    /// The same with one more.
    #[must_use]
    pub fn and_another(self) -> Self {
        Self {
            machines: self.machines + 1,
            launches: self.launches + 1,
        }
    }

    /// The same with at least so many launches: claims that are gone have launched too.
    #[must_use]
    pub fn with_launches(self, launches: u64) -> Self {
        Self {
            launches: self.launches.max(launches),
            ..self
        }
    }
}

impl Breakers {
    /// Whether nothing is held back under a load, one's own purchase included.
    pub fn check(&self, load: Load) -> Result<(), Tripped> {
        let Load { machines, launches } = load;
        if self.purchases == Purchases::Stopped {
            Err(Tripped::KillSwitch)
        } else if machines > self.machines_max {
            let limit = self.machines_max;
            Err(Tripped::Machines { machines, limit })
        } else if launches > self.launches_per_hour_max {
            let limit = self.launches_per_hour_max;
            Err(Tripped::Launches { launches, limit })
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(since: Option<&str>) -> NodeClaim {
        let allocation = since.map(|since| {
            json!({
                "profile": "bxf-4x16", "zone": "us-south-1", "capacityType": "spot", "subnet": "s",
                "instanceName": "kib", "attempt": 1, "since": since,
            })
        });
        serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"allocation": allocation},
        }))
        .unwrap()
    }

    #[test]
    fn machines_count_while_they_are_allocated_and_launches_for_an_hour() {
        let claims = [
            claim(None),
            claim(Some("2026-11-16T08:00:00Z")),
            claim(Some("2026-11-16T09:30:00Z")),
        ];
        let load = Load::of(&claims, "2026-11-16T10:00:00Z".parse().unwrap());
        let expected = Load {
            machines: 2,
            launches: 1,
        };
        assert_eq!(load, expected);
        assert_eq!(load.with_launches(7).launches, 7);
    }

    #[test]
    fn each_breaker_holds_back_what_goes_beyond_it_and_says_so() {
        let breakers = Breakers {
            machines_max: 2,
            launches_per_hour_max: 1,
            purchases: Purchases::Allowed,
        };
        let check = |machines, launches| breakers.check(Load { machines, launches });
        assert_eq!(check(2, 1), Ok(()));
        assert_eq!(check(3, 1).unwrap_err().name(), "machines");
        let launches = check(2, 2).unwrap_err();
        assert_eq!(
            launches.to_string(),
            "there would be 2 launches within an hour, and the limit is 1"
        );
        let stopped = Breakers {
            purchases: Purchases::Stopped,
            ..breakers
        };
        assert_eq!(stopped.check(Load::default()), Err(Tripped::KillSwitch));
    }
}
