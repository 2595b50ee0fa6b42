//! Which pods of a job have been counted: each once, whatever becomes of it.
//!
//! A finalizer keeps every pod until it is counted, which takes three writes: the status names the pods that have ended
//! and are not in its counts yet; these are let go; those that are free or gone come into the counts, and their names go.
//! What is interrupted between two of these writes is carried on by the next, and nothing is counted twice. A success
//! with an index is counted by its index, and let go once the status shows that.
//!
//! A pod that is deleted has failed unless it has succeeded: its job makes another at once
//! (`podReplacementPolicy: TerminatingOrFailed`, the default).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::super::pods::{controller, count, is_deleting, phase};
use super::indexes::{self, index};
use super::{is_indexed, status};
use crate::sim::actors::control_plane::Act;
use crate::sim::actors::view::{Key, View};

/// What keeps a pod until its job has counted it.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// How many pods of a job ended in which way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ledger<'a> {
    pub(super) succeeded: Tally,
    pub(super) failed: Tally,
    /// The indexes that are done; empty where pods have none.
    pub(super) completed: BTreeSet<i32>,
    /// The pods that are written down, so that nothing keeps them any more.
    pub(super) free: Vec<&'a Pod>,
}

/// Pods that ended in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// How many of them are in the count.
    pub(super) counted: i32,
    /// The uids of those that are not yet.
    uncounted: BTreeSet<String>,
}

impl<'a> Ledger<'a> {
    /// What a job's status says, and what its pods add to that.
    pub(super) fn of(known: Option<&JobStatus>, spec: &JobSpec, pods: &[&'a Pod]) -> Self {
        let held: BTreeMap<&str, &'a Pod> = pods
            .iter()
            .filter(|pod| is_held(pod))
            .map(|pod| (uid(pod), *pod))
            .collect();
        let open = known.and_then(|status| status.uncounted_terminated_pods.as_ref());
        let tally = |count: Option<i32>, open: Option<&Vec<String>>| {
            let mut tally = Tally {
                counted: count.unwrap_or(0),
                uncounted: BTreeSet::new(),
            };
            for uid in open.into_iter().flatten() {
                if held.contains_key(uid.as_str()) {
                    tally.uncounted.insert(uid.clone());
                } else {
                    tally.counted += 1;
                }
            }
            tally
        };
        let mut ledger = Self {
            succeeded: tally(
                known.and_then(|status| status.succeeded),
                open.and_then(|open| open.succeeded.as_ref()),
            ),
            failed: tally(
                known.and_then(|status| status.failed),
                open.and_then(|open| open.failed.as_ref()),
            ),
            completed: known_indexes(known, spec),
            free: Vec::new(),
        };
        let known = ledger.completed.clone();
        for pod in pods.iter().copied().filter(|pod| is_held(pod)) {
            ledger.enter(pod, spec, &known);
        }
        ledger
    }

    fn enter(&mut self, pod: &'a Pod, spec: &JobSpec, known: &BTreeSet<i32>) {
        let uid = uid(pod);
        let is_known = |tally: &Tally| tally.uncounted.contains(uid);
        if is_known(&self.succeeded) || is_known(&self.failed) {
            self.free.push(pod);
        } else if has_failed(pod) {
            self.failed.uncounted.insert(uid.to_owned());
        } else if phase(pod) != "Succeeded" {
            // It goes on.
        } else if !is_indexed(spec) {
            self.succeeded.uncounted.insert(uid.to_owned());
        } else {
            let index = index(pod).filter(|index| is_wanted(*index, spec));
            match index.filter(|index| !known.contains(index)) {
                Some(index) => _ = self.completed.insert(index),
                // Its index is counted, or counts for nothing.
                None => self.free.push(pod),
            }
        }
    }

    /// How many pods have succeeded, or indexes where pods have them.
    pub(super) fn successes(&self, spec: &JobSpec) -> i32 {
        if is_indexed(spec) {
            count(&self.completed)
        } else {
            self.succeeded.total()
        }
    }

    /// Whether all that ended are in the counts.
    pub(super) fn is_settled(&self) -> bool {
        self.succeeded.uncounted.is_empty() && self.failed.uncounted.is_empty()
    }

    /// Those that ended and are not in the counts, as a status names them.
    pub(super) fn uncounted(&self) -> Option<UncountedTerminatedPods> {
        let named = |tally: &Tally| {
            let uids: Vec<String> = tally.uncounted.iter().cloned().collect();
            Some(uids).filter(|uids| !uids.is_empty())
        };
        (!self.is_settled()).then(|| UncountedTerminatedPods {
            succeeded: named(&self.succeeded),
            failed: named(&self.failed),
        })
    }
}

impl Tally {
    /// How many there are.
    pub(super) fn total(&self) -> i32 {
        self.counted.saturating_add(count(&self.uncounted))
    }
}

/// Whether a pod counts as a failure.
pub(super) fn has_failed(pod: &Pod) -> bool {
    phase(pod) == "Failed" || is_deleting(pod) && phase(pod) != "Succeeded"
}

/// Takes a pod's finalizer off, if it has it. What is let go before it ends is not counted.
pub(super) fn let_go(pod: &Pod) -> Option<Act> {
    let finalizers = pod.metadata.finalizers.iter().flatten();
    let others: Vec<&String> = finalizers.filter(|one| *one != FINALIZER).collect();
    let others = (!others.is_empty()).then_some(others);
    is_held(pod).then(|| Act::patch(pod, json!({"metadata": {"finalizers": others}})))
}

/// Lets go of pods that no job will count: theirs is gone, going or finished.
pub(super) fn let_go_of_strays(view: &View) -> impl Iterator<Item = Act> {
    // Few pods are held, and that is told without looking for their jobs.
    let held = view.pods.values().filter(|pod| is_held(pod));
    let strays = held.filter(move |pod| !is_counted_on(view, pod));
    strays.filter_map(|pod| let_go(pod))
}

/// Whether there is a job that looks after the pod.
fn is_counted_on(view: &View, pod: &Pod) -> bool {
    let owner = controller(&pod.metadata).filter(|owner| owner.kind == "Job");
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let job = owner.and_then(|owner| {
        let job = view.jobs.get(&Key::new(namespace, &owner.name))?;
        (job.metadata.uid.as_ref() == Some(&owner.uid)).then_some(job)
    });
    let managed_by_another = |job: &Job| job.spec.as_ref().is_some_and(|spec| spec.managed_by.is_some());
    job.is_some_and(|job| {
        let is_over = job.metadata.deletion_timestamp.is_some() || status::finished_at(job).is_some();
        !is_over || managed_by_another(job)
    })
}

fn is_held(pod: &Pod) -> bool {
    let mut finalizers = pod.metadata.finalizers.iter().flatten();
    finalizers.any(|one| one == FINALIZER)
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn known_indexes(known: Option<&JobStatus>, spec: &JobSpec) -> BTreeSet<i32> {
    let text = known.and_then(|status| status.completed_indexes.as_deref());
    let mut indexes = indexes::parse(text.filter(|_| is_indexed(spec)).unwrap_or_default());
    indexes.retain(|index| is_wanted(*index, spec));
    indexes
}

fn is_wanted(index: i32, spec: &JobSpec) -> bool {
    (0..spec.completions.unwrap_or(0)).contains(&index)
}
