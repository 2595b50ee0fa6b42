//! A second look at plans, by somebody who does not know how they were made.
//!
//! [`plan`] replays a plan pod by pod and looks at everything anew: whether every pod is there once, fits, tolerates its
//! node, is where its labels, volumes and ports allow it, and is near to, far from and spread among others as they ask of
//! each other; whether limits hold; and whether each claim can be bought as planned, by whichever of its types launch may
//! choose. [`plan_under`] is told besides whether `minValues` may be given up. It is naive on purpose: it knows the data types
//! of snapshots and plans, and has its own few lines on what requirements, selectors, tolerations and volumes mean, so that a
//! mistake in the solver's is not repeated here.
//!
//! Spreads are judged as the kube-scheduler will: over the nodes that are there once everything planned is bought.

mod alone;
mod labels;
mod meaning;
mod others;
mod place;
mod purchase;
mod totals;
mod volumes;

use std::fmt;

use crate::model::{Pod, Snapshot};
use crate::scheduling::{Destination, MinValuesPolicy, Plan};
use others::Census;
use place::Place;

/// Something in a plan that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// What is broken.
    pub rule: Rule,
    /// Whom it concerns: a pod on a place, a claim, or a pool.
    pub subject: String,
    /// What was found.
    pub found: String,
}

/// What must hold of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Every pod is placed or left out, and one of them once; every claim has pods, and whoever is left out a reason.
    Once,
    /// A pod that cannot be read or claims devices, and a node that is leaving, have no part in a plan.
    Eligible,
    /// What pods ask for fits, daemons included.
    Room,
    /// Taints are tolerated.
    Taint,
    /// Labels are what pods ask for, whatever launch chooses.
    Labels,
    /// No port of a node is taken twice.
    Port,
    /// Volumes can be used there, and no node attaches more than it can.
    Volume,
    /// Pods are spread evenly enough.
    Spread,
    /// Pods are near to those that they must be near.
    Near,
    /// Pods are far from those that they, or the others, must be far from.
    Far,
    /// Pools have no more than they may.
    Limit,
    /// A claim can be bought as planned, and every type it names fits.
    Purchase,
    /// As many different values stay possible as the pool asks for, unless the claim gives that up and may; and launch is
    /// asked for as many, or for no more than there are.
    MinValues,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}", self.rule, self.subject, self.found)
    }
}

/// Why a plan is not to be told as an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan is not legal, which is a mistake in this program: {0}")]
pub struct Illegal(pub Finding);

/// Refuses a plan that is not legal under this policy, by the first that is found.
pub fn ensure_legal(policy: MinValuesPolicy, snapshot: &Snapshot, made: &Plan) -> Result<(), Illegal> {
    match plan_under(policy, snapshot, made).into_iter().next() {
        None => Ok(()),
        Some(found) => Err(Illegal(found)),
    }
}

/// Everything in a plan that is not as it must be; nothing if the plan is legal. For whoever does not know under which
/// policy it was made: claims may give up `minValues`.
pub fn plan(snapshot: &Snapshot, plan: &Plan) -> Vec<Finding> {
    plan_under(MinValuesPolicy::BestEffort, snapshot, plan)
}

/// The same of a plan that was made under this policy.
pub fn plan_under(policy: MinValuesPolicy, snapshot: &Snapshot, plan: &Plan) -> Vec<Finding> {
    let mut findings = totals::every_pod_once(snapshot, plan);
    // Where numbers point nowhere, looking further makes no sense.
    if !findings.is_empty() {
        return findings;
    }
    findings.extend(totals::limits(snapshot, plan));
    findings.extend(purchase::claims(policy, snapshot, plan));
    let mut places = place::all(snapshot, plan);
    let mut census = Census::new(snapshot, &places);
    for placement in &plan.placements {
        let at = match placement.on {
            Destination::Existing(node) => node,
            Destination::New(claim) => snapshot.nodes.len() + claim,
        };
        let member = &snapshot.pending.members[placement.pod];
        let subject = format!("{}/{} on {}", member.namespace, member.name, places[at].name);
        let Ok(pod) = &snapshot.pending.classes[member.class] else {
            findings.push(finding(
                Rule::Eligible,
                &subject,
                "the pod cannot be read".to_owned(),
            ));
            continue;
        };
        let mut broken = alone::look(snapshot, &places[at], pod);
        broken.extend(census.look(at, pod));
        findings.extend(
            broken
                .into_iter()
                .map(|(rule, found)| finding(rule, &subject, found)),
        );
        take(snapshot, &mut places[at], pod);
        census.count(at, pod, member.class);
    }
    findings.extend(places.iter().filter_map(Place::overfull));
    findings
}

fn take(snapshot: &Snapshot, place: &mut Place<'_>, pod: &Pod) {
    place.added.add(&pod.requests);
    place.used.add(&pod.requests);
    place.ports.extend(pod.ports.iter().cloned());
    for (driver, name) in volumes::attached(&snapshot.storage, pod) {
        place.volumes.entry(driver).or_default().insert(name);
    }
}

/// What is broken, and how.
type Broken = (Rule, String);

fn finding(rule: Rule, subject: &str, found: String) -> Finding {
    Finding {
        rule,
        subject: subject.to_owned(),
        found,
    }
}

#[cfg(test)]
mod tests;
