//! A scenario drawn from a seed: people ask for machines and give them back, at times of their own.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::sim::scenario::{Action, Scenario, Step, Target};

/// How much people want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The most machines.
    pub claims: usize,
    /// Pods that run on them.
    pub pods: usize,
    /// For how long anybody does anything.
    pub lasts: Duration,
}

impl Demand {
    /// Ten machines and fifty pods, over forty minutes.
    pub const USUAL: Self = Self {
        claims: 10,
        pods: 50,
        lasts: Duration::from_mins(40),
    };
}

/// What is sold, and how: bx2 is not sold as spot.
const OFFERINGS: [(&str, &str); 5] = [
    ("bxf-4x16", "spot"),
    ("bxf-8x32", "spot"),
    ("bxf-4x16", "on-demand"),
    ("bxf-8x32", "on-demand"),
    ("bx2-4x16", "on-demand"),
];
const ZONES: [&str; 3] = ["${zone-1}", "${zone-2}", "${zone-3}"];

/// A machine has started, booted and joined after this, mostly.
const ON_ITS_WAY: Duration = Duration::from_mins(3);

/// What people do in the world of a seed.
pub fn draw(seed: u64, demand: &Demand) -> Scenario {
    // Not the seed itself: the servers and the plan draw from that too.
    let mut rng = Rng::with_seed(seed ^ 0xd1b5_4a32_d192_ed03);
    let mut steps = vec![apply(Duration::ZERO, deployment(demand.pods))];
    for number in 0..rng.usize(demand.claims.div_ceil(2)..=demand.claims) {
        let name = format!("claim-{number}");
        // A third of them at once, as when a deployment is scaled up.
        let at = if rng.u8(..3) == 0 {
            Duration::ZERO
        } else {
            moment(&mut rng, Duration::ZERO, demand.lasts)
        };
        steps.push(apply(at, claim(&name, &mut rng)));
        if rng.bool() {
            // Some change their mind while the machine is on its way.
            let by = if rng.u8(..3) == 0 {
                demand.lasts.min(at + ON_ITS_WAY)
            } else {
                demand.lasts
            };
            steps.push(delete(moment(&mut rng, at, by), &name));
        }
    }
    steps.sort_by_key(|step| step.at);
    Scenario {
        name: format!("churn-{seed}"),
        about: "People ask for machines and give them back.".to_owned(),
        region: "us-south".to_owned(),
        objects: [class()].into_iter().chain(limited_pool(seed)).collect(),
        steps,
        lasts: demand.lasts,
    }
}

/// In every fourth world the pool of the claims has less than they ask for. Its machines are for nobody else: the pods
/// that wait do not tolerate its taint.
fn limited_pool(seed: u64) -> Option<Value> {
    // Chance of its own, so that the other worlds stay as they were.
    let mut rng = Rng::with_seed(seed ^ 0x6a09_e667_f3bc_c908);
    if rng.u8(..4) != 0 {
        return None;
    }
    let nodes = rng.u32(2..=4);
    let limits = match rng.u8(..4) {
        0 => json!({"cpu": rng.u32(8..=20).to_string()}),
        1 => json!({"nodes": nodes.to_string()}),
        2 => json!({"pods": (110 * nodes).to_string()}),
        _ => json!({"ephemeral-storage": format!("{}G", 100 * nodes)}),
    };
    Some(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "limits": limits,
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": [],
                "taints": [{"key": "example.com/reserved", "effect": "NoSchedule"}],
            }},
        },
    }))
}

/// How many machines there may be in all, in a world where that is few: in one of four of those whose pool has no limit. The
/// others are for that limit alone.
pub fn machines_max(seed: u64) -> Option<u64> {
    // Chance of its own, so that people do what they did.
    let mut rng = Rng::with_seed(seed ^ 0x1f83_d9ab_fb41_bd6b);
    let few = rng.u8(..4) == 0 && limited_pool(seed).is_none();
    few.then(|| rng.u64(2..=4))
}

fn moment(rng: &mut Rng, from: Duration, until: Duration) -> Duration {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(rng.u64(millis(from)..=millis(until)))
}

fn apply(at: Duration, manifest: Value) -> Step {
    Step {
        at,
        line: 0,
        action: Action::Apply(vec![manifest]),
    }
}

fn delete(at: Duration, claim: &str) -> Step {
    let target = Target {
        api_version: None,
        kind: "NodeClaim".to_owned(),
        namespace: None,
        name: claim.to_owned(),
    };
    Step {
        at,
        line: 0,
        action: Action::Delete(target),
    }
}

fn class() -> Value {
    json!({
        "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
        "spec": {"region": "${region}", "vpc": "${vpc}", "image": "${image}"},
    })
}

fn claim(name: &str, rng: &mut Rng) -> Value {
    let (profile, capacity_type) = OFFERINGS[rng.usize(..OFFERINGS.len())];
    let zone = ZONES[rng.usize(..ZONES.len())];
    let only = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            "requirements": [
                only("node.kubernetes.io/instance-type", profile),
                only("topology.kubernetes.io/zone", zone),
                only("karpenter.sh/capacity-type", capacity_type),
            ],
        },
    })
}

fn deployment(pods: usize) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "web", "image": "web:1",
                    "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
                }]},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_the_scenario() {
        assert_eq!(draw(3, &Demand::USUAL), draw(3, &Demand::USUAL));
        assert_ne!(draw(3, &Demand::USUAL), draw(4, &Demand::USUAL));
    }

    #[test]
    fn in_some_worlds_claims_ask_for_more_than_their_pool_may_have() {
        let limited = (0..100).filter(|seed| draw(*seed, &Demand::USUAL).objects.len() == 2);
        assert!((15..40).contains(&limited.count()));
    }

    #[test]
    fn in_some_worlds_claims_ask_for_more_machines_than_there_may_be_in_all() {
        let few: Vec<u64> = (0..200).filter(|seed| machines_max(*seed).is_some()).collect();
        assert!((20..60).contains(&few.len()), "{few:?}");
        for seed in few {
            let scenario = draw(seed, &Demand::USUAL);
            assert_eq!(scenario.objects.len(), 1, "its pool has no limit");
            let applied = |step: &&Step| matches!(step.action, Action::Apply(_));
            let claims = scenario.steps.iter().filter(applied).count() - 1;
            let most = machines_max(seed).unwrap();
            assert!(u64::try_from(claims).unwrap() > most, "seed {seed}");
        }
    }

    #[test]
    fn everything_happens_in_order_and_in_time_and_what_is_deleted_was_there() {
        for seed in 0..100 {
            let scenario = draw(seed, &Demand::USUAL);
            assert!(scenario.steps.is_sorted_by_key(|step| step.at));
            assert!(scenario.steps.iter().all(|step| step.at <= scenario.lasts));
            for (place, step) in scenario.steps.iter().enumerate() {
                if let Action::Delete(target) = &step.action {
                    let applied = |step: &Step| matches!(&step.action, Action::Apply(manifests) if manifests[0]["metadata"]["name"] == target.name.as_str());
                    assert!(scenario.steps[..place].iter().any(applied), "seed {seed}");
                }
            }
        }
    }
}
