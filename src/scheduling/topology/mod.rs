//! Where other pods are: spreads, affinities, anti-affinities and their inverse.
//!
//! A group is one question that pods ask ("how many pods like these are in each zone?"). It is counted exactly: a claim
//! that holds a pod which a group counts by some label is pinned to one value of that label, so every pod of a plan is
//! in a known place.

mod count;
pub(super) mod eligible;
mod group;
mod mask;

pub(super) use count::{Counted, Counts};
#[cfg(test)]
pub(super) use group::matches;
pub(super) use group::{Ask, Asks, CountedOn, Group, GroupId, Groups, Kind, Over};
pub(super) use mask::{Hosts, Obstacle, Question};
