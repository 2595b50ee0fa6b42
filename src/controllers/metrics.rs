//! What controllers count.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::garbage::{Counts, Verdict};
use crate::scheduling::Plan;

/// The counters of all controllers. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    steps: IntCounterVec,
    failures: IntCounterVec,
    garbage: IntCounterVec,
    withheld: IntCounterVec,
    held_back: IntCounterVec,
    ended: IntCounterVec,
    certificates: IntCounterVec,
    approved_by_others: IntGauge,
    dropped: IntGauge,
    planning: Planning,
    losing: Losing,
}

/// What is counted of plans for pods.
#[derive(Clone, Debug)]
struct Planning {
    panics: IntCounterVec,
    loops_ended: IntCounterVec,
    passes_failed: IntCounter,
    claims_made: IntCounter,
    pods_pending: IntGauge,
    queue_depth: IntGauge,
    solve_duration: Histogram,
    pods_left_out: IntGauge,
}

/// What goes, and what is found that nobody answers for.
#[derive(Clone, Debug)]
struct Losing {
    drained: IntCounterVec,
    interrupted: IntCounterVec,
    found: IntGaugeVec,
    stopped: IntGauge,
}

impl Losing {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let drained = Opts::new(
            "karpenter_ibm_pods_drained_total",
            "Pods that were made to leave a node that goes.",
        );
        let interrupted = Opts::new(
            "karpenter_ibm_interruptions_total",
            "Machines that were found stopping, preempted or dead.",
        );
        let found = Opts::new(
            "karpenter_ibm_garbage_found",
            "What the last sweep found that nobody answers for.",
        );
        let all = Self {
            drained: IntCounterVec::new(drained, &["manner"])?,
            interrupted: IntCounterVec::new(interrupted, &["what"])?,
            found: IntGaugeVec::new(found, &["kind"])?,
            stopped: IntGauge::new(
                "karpenter_ibm_garbage_collection_stopped",
                "1 while so many machines belong to no claim that a person must confirm their deletion: should be 0.",
            )?,
        };
        registry.register(Box::new(all.drained.clone()))?;
        registry.register(Box::new(all.interrupted.clone()))?;
        registry.register(Box::new(all.found.clone()))?;
        registry.register(Box::new(all.stopped.clone()))?;
        Ok(all)
    }
}

impl Planning {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let all = Self {
            panics: IntCounterVec::new(
                Opts::new(
                    "karpenter_ibm_decision_panics_total",
                    "Decisions that ended in a panic: mistakes in this program.",
                ),
                &["decision"],
            )?,
            loops_ended: IntCounterVec::new(
                Opts::new(
                    "karpenter_ibm_loops_ended_total",
                    "Loops that ended and were begun anew: mistakes in this program.",
                ),
                &["loop"],
            )?,
            passes_failed: IntCounter::new(
                "karpenter_ibm_provisioning_failures_total",
                "Passes over pods that wait which ended before they were done.",
            )?,
            claims_made: IntCounter::new(
                "karpenter_ibm_nodeclaims_made_total",
                "NodeClaims that were made for pods.",
            )?,
            pods_pending: IntGauge::new(
                "karpenter_ibm_pods_pending",
                "Pods that the scheduler has found no node for, those included that a claim is on its way for.",
            )?,
            queue_depth: IntGauge::new(
                "karpenter_ibm_provisioning_queue_depth",
                "Pods that a plan is being made for.",
            )?,
            solve_duration: Histogram::with_opts(
                HistogramOpts::new(
                    "karpenter_ibm_provisioning_solve_duration_seconds",
                    "How long it took to make a plan.",
                )
                // From one pod to 20,000, and the half minute after which a plan ends as it is.
                .buckets(vec![0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0]),
            )?,
            pods_left_out: IntGauge::new(
                "karpenter_ibm_pods_without_a_place",
                "Pods for which no node could be found or bought in the last plan; 0 while no plan is needed.",
            )?,
        };
        registry.register(Box::new(all.panics.clone()))?;
        registry.register(Box::new(all.loops_ended.clone()))?;
        registry.register(Box::new(all.passes_failed.clone()))?;
        registry.register(Box::new(all.claims_made.clone()))?;
        registry.register(Box::new(all.pods_pending.clone()))?;
        registry.register(Box::new(all.queue_depth.clone()))?;
        registry.register(Box::new(all.solve_duration.clone()))?;
        registry.register(Box::new(all.pods_left_out.clone()))?;
        Ok(all)
    }
}

impl Metrics {
    /// Registers the counters; fails if that was done before.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, label: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let approved_by_others = IntGauge::new(
            "karpenter_ibm_certificates_approved_by_others",
            "Rights by which kube-controller-manager approves the certificate requests of machines that join: should be 0.",
        )?;
        registry.register(Box::new(approved_by_others.clone()))?;
        let dropped = IntGauge::new(
            "karpenter_ibm_allocations_dropped",
            "NodeClaims whose allocation the cluster's definition drops, so that nothing is bought: should be 0.",
        )?;
        registry.register(Box::new(dropped.clone()))?;
        Ok(Self {
            dropped,
            planning: Planning::register(registry)?,
            approved_by_others,
            losing: Losing::register(registry)?,
            certificates: counter(
                "karpenter_ibm_certificate_requests_total",
                "Certificate requests of machines and nodes that were decided.",
                "decision",
            )?,
            steps: counter(
                "karpenter_ibm_nodeclaim_steps_total",
                "Steps in the lives of NodeClaims that were carried out.",
                "step",
            )?,
            failures: counter(
                "karpenter_ibm_nodeclaim_failures_total",
                "Steps in the lives of NodeClaims that failed.",
                "step",
            )?,
            garbage: counter(
                "karpenter_ibm_garbage_collected_total",
                "Machines without a claim and claims without a machine that were deleted.",
                "kind",
            )?,
            held_back: counter(
                "karpenter_ibm_purchases_held_back_total",
                "Times that a breaker held a purchase back.",
                "breaker",
            )?,
            ended: counter(
                "karpenter_ibm_nodeclaims_ended_total",
                "NodeClaims that came to their end before they were ready for work.",
                "reason",
            )?,
            withheld: counter(
                "karpenter_ibm_offerings_withheld_total",
                "Times that an offering was withheld.",
                "reason",
            )?,
        })
    }

    /// A decision of that kind ended in a panic.
    pub fn panicked(&self, decision: &str) {
        self.planning.panics.with_label_values(&[decision]).inc();
    }

    /// A loop that goes on for ever has ended.
    pub fn loop_ended(&self, what: &str) {
        self.planning.loops_ended.with_label_values(&[what]).inc();
    }

    /// A pass over pods that wait ended before it was done.
    pub fn pass_failed(&self) {
        self.planning.passes_failed.inc();
    }

    /// So many pods have no node yet.
    pub fn pending(&self, pods: usize) {
        self.planning
            .pods_pending
            .set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    /// No plan is needed: nobody is without a place that could be found.
    pub fn nothing_to_plan(&self) {
        self.planning.pods_left_out.set(0);
    }

    /// A plan for so many pods is being made.
    pub fn planning(&self, pods: usize) {
        self.planning
            .queue_depth
            .set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    /// It was made, or given up, after so long.
    pub fn solved(&self, after: Duration) {
        self.planning.queue_depth.set(0);
        self.planning.solve_duration.observe(after.as_secs_f64());
    }

    /// A plan was carried out, and so many claims were made.
    pub fn planned(&self, plan: &Plan, claims: usize) {
        self.planning
            .claims_made
            .inc_by(u64::try_from(claims).unwrap_or_default());
        let left_out = i64::try_from(plan.pods_left_out()).unwrap_or(i64::MAX);
        self.planning.pods_left_out.set(left_out);
    }

    /// A step was carried out.
    pub fn stepped(&self, step: &str) {
        self.steps.with_label_values(&[step]).inc();
    }

    /// A step failed.
    pub fn failed(&self, step: &str) {
        self.failures.with_label_values(&[step]).inc();
    }

    /// A breaker held a purchase back.
    pub fn held_back(&self, breaker: &str) {
        self.held_back.with_label_values(&[breaker]).inc();
    }

    /// A claim has come to its end for that reason.
    pub fn ended(&self, reason: &str) {
        self.ended.with_label_values(&[reason]).inc();
    }

    /// An offering was withheld for that reason.
    pub fn withheld(&self, reason: &str) {
        self.withheld.with_label_values(&[reason]).inc();
    }

    /// A `machine` or a `claim` was collected.
    pub fn collected(&self, kind: &str) {
        self.garbage.with_label_values(&[kind]).inc();
    }

    /// A pod was `evicted`, or `deleted` since the time of its node was over.
    pub fn drained(&self, manner: &str) {
        self.losing.drained.with_label_values(&[manner]).inc();
    }

    /// A machine was found `stopping`, `preempted` or `dead`.
    pub fn interrupted(&self, what: &str) {
        self.losing.interrupted.with_label_values(&[what]).inc();
    }

    /// A sweep has found this much.
    pub(super) fn found_garbage(&self, counts: &Counts) {
        for (kind, count) in counts {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.losing.found.with_label_values(&[kind]).set(count);
        }
    }

    /// Whether a sweep waits for a person.
    pub(super) fn collection_stopped(&self, verdict: Verdict) {
        self.losing.stopped.set(i64::from(verdict == Verdict::Stop));
    }

    /// A certificate request was `approved` or `denied`.
    pub fn certificate(&self, decision: &str) {
        self.certificates.with_label_values(&[decision]).inc();
    }

    /// The allocations of so many claims are not kept.
    pub(super) fn claims_dropped(&self, claims: usize) {
        self.dropped.set(i64::try_from(claims).unwrap_or(i64::MAX));
    }

    /// So many rights let others approve what machines ask for.
    pub fn approved_by_others(&self, rights: i64) {
        self.approved_by_others.set(rights);
    }
}
