//! What controllers count.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::garbage::{Counts, Verdict};

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
    drained: IntCounterVec,
    interrupted: IntCounterVec,
    found: IntGaugeVec,
    stopped: IntGauge,
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
        let found = Opts::new(
            "karpenter_ibm_garbage_found",
            "What the last sweep found that nobody answers for.",
        );
        let found = IntGaugeVec::new(found, &["kind"])?;
        registry.register(Box::new(found.clone()))?;
        let stopped = IntGauge::new(
            "karpenter_ibm_garbage_collection_stopped",
            "1 while so many machines belong to no claim that a person must confirm their deletion: should be 0.",
        )?;
        registry.register(Box::new(stopped.clone()))?;
        Ok(Self {
            approved_by_others,
            found,
            stopped,
            interrupted: counter(
                "karpenter_ibm_interruptions_total",
                "Machines that were found stopping, preempted or dead.",
                "what",
            )?,
            drained: counter(
                "karpenter_ibm_pods_drained_total",
                "Pods that were made to leave a node that goes.",
                "manner",
            )?,
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
        self.drained.with_label_values(&[manner]).inc();
    }

    /// A machine was found `stopping`, `preempted` or `dead`.
    pub fn interrupted(&self, what: &str) {
        self.interrupted.with_label_values(&[what]).inc();
    }

    /// A sweep has found this much.
    pub(super) fn found_garbage(&self, counts: &Counts) {
        for (kind, count) in counts {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.found.with_label_values(&[kind]).set(count);
        }
    }

    /// Whether a sweep waits for a person.
    pub(super) fn collection_stopped(&self, verdict: Verdict) {
        self.stopped.set(i64::from(verdict == Verdict::Stop));
    }

    /// A certificate request was `approved` or `denied`.
    pub fn certificate(&self, decision: &str) {
        self.certificates.with_label_values(&[decision]).inc();
    }

    /// So many rights let others approve what machines ask for.
    pub fn approved_by_others(&self, rights: i64) {
        self.approved_by_others.set(rights);
    }
}
