//! Jobs: pods until enough of them have succeeded, or too many have failed.
//!
//! Each pod is counted once, as `tracking` says: it stays until it is. Completed indexes are kept in the status and never
//! forgotten.
//!
//! Not here: pod failure policies, pod replacement policies, success policies, limits for each index.

mod indexes;
mod status;
#[cfg(test)]
mod tests;
mod tracking;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{EnvVar, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::indexes::{COMPLETION_INDEX, index};
use self::status::Verdict;
use self::tracking::{FINALIZER, Ledger, has_failed, let_go, let_go_of_strays};
use super::pods::{Owned, count, from_template, is_active, is_terminating, size};
use super::replica_set::{Order, first_to_go};
use crate::clock::{earlier, later};
use crate::sim::actors::control_plane::{Act, Actor, Next};
use crate::sim::actors::view::{Kind, View};

/// The controller.
pub(super) const ACTOR: Actor = Actor {
    name: "job-controller",
    reads: &[Kind::Job, Kind::Pod],
    glances: &[],
    next,
};

/// How long a job waits after its first failed pod; twice as long after each further one, up to the maximum.
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_mins(10);

/// What all jobs of the view need.
pub(super) fn next(view: &View, now: Timestamp) -> Next {
    let owned = Owned::of(view);
    let mut next = Next::default();
    next.acts.extend(let_go_of_strays(view));
    for job in view.jobs.values() {
        let Some(spec) = &job.spec else { continue };
        if job.metadata.deletion_timestamp.is_some() || spec.managed_by.is_some() {
            continue;
        }
        next.join(match status::finished_at(job) {
            Some(at) => expire(job, spec, at, now),
            None => Pass::new(job, spec, owned.by(&job.metadata), now).run(),
        });
    }
    next
}

/// A finished job goes after a while, if it says so.
fn expire(job: &Job, spec: &JobSpec, finished: Timestamp, now: Timestamp) -> Next {
    let mut next = Next::default();
    let seconds = spec
        .ttl_seconds_after_finished
        .and_then(|s| u64::try_from(s).ok());
    match seconds.map(|seconds| later(finished, Duration::from_secs(seconds))) {
        Some(at) if at <= now => next.act(Act::delete(job)),
        Some(at) => next.again(at),
        None => {}
    }
    next
}

/// One look at one job.
struct Pass<'a> {
    job: &'a Job,
    spec: &'a JobSpec,
    pods: &'a [&'a Pod],
    active: Vec<&'a Pod>,
    ledger: Ledger<'a>,
    now: Timestamp,
    next: Next,
}

impl<'a> Pass<'a> {
    fn new(job: &'a Job, spec: &'a JobSpec, pods: &'a [&'a Pod], now: Timestamp) -> Self {
        Self {
            job,
            spec,
            pods,
            active: pods.iter().copied().filter(|pod| is_active(pod)).collect(),
            ledger: Ledger::of(job.status.as_ref(), spec, pods),
            now,
            next: Next::default(),
        }
    }

    fn run(mut self) -> Next {
        let verdict = self.verdict();
        let free = self.ledger.free.iter().filter_map(|pod| let_go(pod));
        self.next.acts.extend(free);
        if verdict != Verdict::Going {
            self.next
                .acts
                .extend(self.active.iter().copied().map(Act::delete));
        } else if self.spec.suspend == Some(true) {
            let all = self.active.clone();
            self.give_up(all);
        } else {
            self.manage();
        }
        let report = status::report(&self, &verdict);
        self.next.join(report);
        self.next
    }

    fn verdict(&mut self) -> Verdict {
        if let Some(known) = status::decided(self.job) {
            return known;
        }
        let enough = match self.spec.completions {
            Some(wanted) => self.successes() >= wanted,
            None => self.successes() > 0 && self.active.is_empty(),
        };
        let limit = self.spec.backoff_limit.unwrap_or(6);
        if self.ledger.failed.total() > limit || self.restarts_exceed(limit) {
            let message = "Job has reached the specified backoff limit";
            return Verdict::failed("BackoffLimitExceeded", message);
        }
        if let Some(at) = self.deadline() {
            if at <= self.now {
                let message = "Job was active longer than specified deadline";
                return Verdict::failed("DeadlineExceeded", message);
            }
            self.next.again(at);
        }
        if enough {
            Verdict::Succeeded
        } else {
            Verdict::Going
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let seconds = u64::try_from(self.spec.active_deadline_seconds?).ok()?;
        let started = self.job.status.as_ref()?.start_time.as_ref()?;
        Some(later(started.0, Duration::from_secs(seconds)))
    }

    /// Whether containers that are restarted in their pods have failed too often.
    fn restarts_exceed(&self, limit: i32) -> bool {
        let template = self.spec.template.spec.as_ref();
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let statuses = self.active.iter().filter_map(|pod| pod.status.as_ref());
        let containers = statuses.filter_map(|status| status.container_statuses.as_ref());
        let restarts: i32 = containers.flatten().map(|status| status.restart_count).sum();
        if limit == 0 {
            restarts > 0
        } else {
            restarts >= limit
        }
    }

    /// Makes the pods that are missing, and deletes those that are too many.
    fn manage(&mut self) {
        let parallel = self.spec.parallelism.unwrap_or(1).max(0);
        let active = count(&self.active);
        let wanted = match self.spec.completions {
            Some(completions) => parallel.min(completions - self.successes()),
            None if self.successes() > 0 => active.min(parallel),
            None => parallel,
        };
        if active > wanted {
            let going = first_to_go(&self.active, Order::Plain);
            self.give_up(going.into_iter().take(size(active - wanted)).collect());
        } else if active < wanted {
            match self.patience() {
                Some(at) if at > self.now => self.next.again(at),
                _ => self.make(size(wanted - active)),
            }
        }
    }

    /// Deletes pods that are too many, which is no failure of theirs: they are let go first, and so never counted.
    fn give_up(&mut self, pods: Vec<&Pod>) {
        let acts = pods
            .into_iter()
            .flat_map(|pod| let_go(pod).into_iter().chain([Act::delete(pod)]));
        self.next.acts.extend(acts);
    }

    fn successes(&self) -> i32 {
        self.ledger.successes(self.spec)
    }

    /// When pods may be made again after failures.
    fn patience(&self) -> Option<Timestamp> {
        let failed = self.pods.iter().filter(|pod| has_failed(pod));
        let last = failed.clone().filter_map(|pod| ended(pod)).max()?;
        let doublings = u32::try_from(failed.count())
            .unwrap_or(u32::MAX)
            .saturating_sub(1)
            .min(10);
        Some(later(last, (BACK_OFF * 2u32.pow(doublings)).min(BACK_OFF_MAX)))
    }

    fn make(&mut self, number: usize) {
        let mut pod = from_template(&self.spec.template, self.job);
        let finalizers = pod.metadata.finalizers.get_or_insert_default();
        finalizers.push(FINALIZER.to_owned());
        if !is_indexed(self.spec) {
            let pods = std::iter::repeat_with(|| Act::make(&pod));
            self.next.acts.extend(pods.take(number));
            return;
        }
        let taken: BTreeSet<i32> = self.active.iter().filter_map(|pod| index(pod)).collect();
        let free = (0..self.spec.completions.unwrap_or(0))
            .filter(|index| !taken.contains(index) && !self.ledger.completed.contains(index));
        let pods: Vec<Pod> = free
            .take(number)
            .map(|index| self.indexed(pod.clone(), index))
            .collect();
        self.next.acts.extend(pods.iter().map(Act::make));
    }

    /// The pod for one index, which it can read from its host name, its labels and its environment.
    fn indexed(&self, mut pod: Pod, index: i32) -> Pod {
        let name = self.job.metadata.name.as_deref().unwrap_or_default();
        pod.metadata.generate_name = Some(format!("{name}-{index}-"));
        let mark = (COMPLETION_INDEX.to_owned(), index.to_string());
        pod.metadata
            .annotations
            .get_or_insert_default()
            .extend([mark.clone()]);
        pod.metadata.labels.get_or_insert_default().extend([mark]);
        let spec = pod.spec.get_or_insert_default();
        spec.hostname = Some(format!("{name}-{index}"));
        for container in &mut spec.containers {
            container.env.get_or_insert_default().push(EnvVar {
                name: "JOB_COMPLETION_INDEX".to_owned(),
                value: Some(index.to_string()),
                value_from: None,
            });
        }
        pod
    }

    fn terminating(&self) -> i32 {
        count(self.pods.iter().filter(|pod| is_terminating(pod)))
    }
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// When a pod ended: when its last container did, else when it stopped being ready, was deleted or began.
fn ended(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let ends = containers.filter_map(|one| one.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
    let mut conditions = status.conditions.iter().flatten();
    let unready = conditions.find(|one| one.type_ == "Ready" && one.status == "False");
    let metadata = &pod.metadata;
    let told = ends
        .max()
        .or_else(|| unready?.last_transition_time.as_ref())
        .map(|time| time.0);
    let began = metadata.creation_timestamp.as_ref().map(|time| time.0);
    told.or_else(|| deleted(metadata)).or(began)
}

/// When somebody asked for a deletion. Its timestamp is when the grace period ends.
fn deleted(metadata: &ObjectMeta) -> Option<Timestamp> {
    let due = metadata.deletion_timestamp.as_ref()?;
    let grace = u64::try_from(metadata.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0);
    Some(earlier(due.0, Duration::from_secs(grace)))
}
