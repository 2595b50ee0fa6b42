//! Claims that are alike: from the same template, planned to be the same type, with the same labels and as much on them, be it
//! pods or volumes.
//!
//! Large plans are made of few kinds of pods, so most claims have many like them, and what taking a pod makes of one it
//! makes of all. Of those that a pod is shown, only the first is worked out.

use std::collections::BTreeMap;

use super::super::space::ReqId;
use super::search::Becomes;

/// The number of a shape.
pub(super) type ShapeId = u32;

/// What a claim was before it took a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Before {
    /// Not there: it comes from this template.
    Template(usize),
    /// Of this shape.
    Shape(ShapeId),
}

/// What happened to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// It took a pod of this size.
    Pod(usize),
    /// It has so many volumes more of a driver.
    Volumes(usize, u32),
    /// It became another without taking anything.
    Change,
}

/// What came of a look at a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It could be taken, if nothing better is found.
    Possible,
    /// It costs more than a claim of its own.
    Dear,
    /// It cannot be taken.
    Impossible,
}

/// All shapes of a pass, and what a search has seen of them.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// By what it was before, what happened, and what it became by that.
    ids: BTreeMap<(Before, Step, ReqId, usize), ShapeId>,
    /// For each shape the search that saw it last, and what came of that.
    seen: Vec<(u64, Look)>,
    search: u64,
}

impl Shapes {
    /// The shape that a claim has after a step. The same way leads to the same shape; that another way may lead there as
    /// well costs a look, no more.
    pub(super) fn after(&mut self, before: Before, step: Step, becomes: Becomes) -> ShapeId {
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        let key = (before, step, becomes.req, becomes.kind);
        *self.ids.entry(key).or_insert(next)
    }

    /// Forgets what was seen.
    pub(super) fn begin_search(&mut self) {
        self.search += 1;
        self.seen.resize(self.ids.len(), (0, Look::Impossible));
    }

    /// What came of a look at a claim of this shape in this search.
    pub(super) fn seen(&self, shape: ShapeId) -> Option<Look> {
        let (search, look) = self.seen[shape as usize];
        (search == self.search).then_some(look)
    }

    /// Takes note of it.
    pub(super) fn note(&mut self, shape: ShapeId, look: Look) {
        self.seen[shape as usize] = (self.search, look);
    }
}
