//! Which nodes have been unhealthy for longer than is tolerated, and how many of a pool may be repaired.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use crate::clock::{between, later};

/// A condition that no healthy node has, and for how long it is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerated {
    /// The condition.
    pub condition: &'static str,
    /// The status in which it is unhealthy.
    pub status: &'static str,
    /// For how long.
    pub for_: Duration,
}

/// Half an hour, as other providers: a kubelet that is upgraded or a network that fails comes back sooner.
pub const TOLERATED: [Tolerated; 2] = [
    Tolerated {
        condition: "Ready",
        status: "False",
        for_: Duration::from_mins(30),
    },
    Tolerated {
        condition: "Ready",
        status: "Unknown",
        for_: Duration::from_mins(30),
    },
];

/// How a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nothing is known to be wrong.
    Healthy,
    /// Something is wrong, and tolerated until then.
    Unhealthy(Timestamp),
    /// It has been wrong for too long; what, for people.
    Broken(String),
}

/// How a node is at `now`.
pub fn health(node: &Node, now: Timestamp) -> Health {
    let conditions = node.status.iter().flat_map(|status| &status.conditions).flatten();
    let wrong = conditions.into_iter().filter_map(|condition| {
        let rule = TOLERATED
            .iter()
            .find(|rule| rule.condition == condition.type_ && rule.status == condition.status)?;
        let since = condition.last_transition_time.as_ref()?.0;
        Some((later(since, rule.for_), condition, since))
    });
    match wrong.min_by_key(|(until, _, _)| *until) {
        None => Health::Healthy,
        Some((until, _, _)) if until > now => Health::Unhealthy(until),
        Some((_, condition, since)) => Health::Broken(format!(
            "its node has been {}={} for {} minutes: {}",
            condition.type_,
            condition.status,
            between(since, now).as_secs() / 60,
            condition.message.as_deref().unwrap_or("no message")
        )),
    }
}

/// Whether a pool with so many nodes, of which so many are unhealthy, may be repaired. When more than a fifth are, it is
/// not the nodes that are broken, and replacing them would make it worse. Of a pool of less than five nodes one may be
/// unhealthy, or none of them could ever be repaired.
pub fn may_repair(nodes: usize, unhealthy: usize) -> bool {
    unhealthy <= (nodes / 5).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn node(status: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "status": {"conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": "2026-11-16T10:00:00Z", "message": "gone"},
                {"type": "DiskPressure", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn a_node_is_broken_when_it_was_unhealthy_for_longer_than_is_tolerated() {
        let at = |time: &str| health(&node("Unknown"), time.parse().unwrap());
        let until = "2026-11-16T10:30:00Z";
        assert_eq!(
            at("2026-11-16T10:29:59Z"),
            Health::Unhealthy(until.parse().unwrap())
        );
        let why = "its node has been Ready=Unknown for 30 minutes: gone".to_owned();
        assert_eq!(at(until), Health::Broken(why));
        assert_eq!(health(&node("True"), until.parse().unwrap()), Health::Healthy);
        assert_eq!(health(&Node::default(), until.parse().unwrap()), Health::Healthy);
    }

    proptest! {
        #[test]
        fn never_more_than_a_fifth_of_a_pool_but_one_of_a_small_one(nodes in 0..200usize, unhealthy in 0..200usize) {
            prop_assert_eq!(may_repair(nodes, unhealthy), unhealthy * 5 <= nodes || unhealthy <= 1);
        }
    }
}
