//! Whether the machines that a pool bought lately have joined.
//!
//! Of the last four machines that joined, or were given up before they did, two failures are too many. What was found
//! stands in the pool's condition, and is carried on from there after a restart, as upstream; which machines told it is
//! memory. A template and a class as they were before a change say nothing of how they are now. A change of limits, weight
//! or replicas changes no machine: what was found still holds, unless it came while nobody looked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kube::ResourceExt;

use super::status;
use crate::api::{
    Condition, IBMNodeClass, NODE_CLASS_HASH_VERSION, NODE_POOL_HASH_VERSION, NodeClaim, NodeClaimTemplate,
    NodePool, names,
};
use crate::lifecycle::facts::Facts;

/// So many machines are looked back at.
const LOOK_BACK: usize = 4;
/// So many failures among them are too many.
const FAILURES_MAX: usize = 2;

/// What the last machines of a pool tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// They join.
    Healthy,
    /// They do not; this is the last failure.
    Unhealthy(String),
}

/// What became of the last machines, by the uid of their pool.
#[derive(Debug, Default)]
pub(super) struct Record(BTreeMap<String, Ring>);

#[derive(Debug)]
struct Ring {
    of: Source,
    last: VecDeque<Outcome>,
    /// Claims that are there and were counted, or tell of something else.
    counted: BTreeSet<String>,
}

/// What machines are made of. What was found of others says nothing of these. Of a class everything counts: what its hash
/// leaves out, like subnets and security groups, decides whether machines join.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    template: NodeClaimTemplate,
    class: Option<i64>,
}

/// What became of a machine.
#[derive(Clone, Debug)]
enum Outcome {
    /// It has joined.
    Joined,
    /// It was given up before, and why.
    Failed(String),
}

impl Record {
    /// Counts what became of the claims of a pool since the last look; says how it stands, if anything is known.
    pub(super) fn look(
        &mut self,
        pool: &NodePool,
        class: Option<&IBMNodeClass>,
        claims: &[&NodeClaim],
    ) -> Option<Health> {
        let of = Source {
            template: pool.spec.template.clone(),
            class: class.and_then(|class| class.metadata.generation),
        };
        let uid = pool.uid().unwrap_or_default();
        let is_same = self.0.get(&uid).map(|ring| ring.of == of);
        if is_same != Some(true) {
            // Where it was seen to change, the condition tells of what it was.
            let known = status::registration_known(pool, class).filter(|_| is_same.is_none());
            self.0.insert(uid.clone(), Ring::begin(of, known, claims));
        }
        let ring = self.0.get_mut(&uid)?;
        ring.count(claims, |claim| is_from(claim, pool, class));
        ring.health()
    }

    /// Keeps only these pools.
    pub(super) fn keep(&mut self, pools: &BTreeSet<String>) {
        self.0.retain(|pool, _| pools.contains(pool));
    }
}

impl Ring {
    /// Carries on what the condition says. Machines whose outcome is known by now told it before: they are part of that,
    /// or of what no longer holds. Where nothing is known of pool and class as they are, what was bought by now was
    /// bought from what they were.
    fn begin(of: Source, known: Option<&Condition>, claims: &[&NodeClaim]) -> Self {
        let failed = |it: &Condition| Outcome::Failed(it.message.clone().unwrap_or_default());
        let last = match known {
            Some(it) if it.status == "True" => vec![Outcome::Joined],
            Some(it) if it.status == "False" => vec![failed(it); FAILURES_MAX],
            Some(_) | None => Vec::new(),
        };
        let is_of_before =
            |claim: &&&NodeClaim| outcome(claim).is_some() || known.is_none() && is_bought(claim);
        let before = claims.iter().filter(is_of_before);
        Self {
            of,
            last: last.into(),
            counted: before.filter_map(|claim| claim.uid()).collect(),
        }
    }

    fn count(&mut self, claims: &[&NodeClaim], tells: impl Fn(&NodeClaim) -> bool) {
        let present: BTreeSet<String> = claims.iter().filter_map(|claim| claim.uid()).collect();
        self.counted.retain(|uid| present.contains(uid));
        for claim in claims {
            let Some((uid, outcome)) = claim.uid().zip(outcome(claim)) else {
                continue;
            };
            if self.counted.insert(uid) && tells(claim) {
                self.last.push_back(outcome);
            }
        }
        while self.last.len() > LOOK_BACK {
            self.last.pop_front();
        }
    }

    fn health(&self) -> Option<Health> {
        let failures = self.last.iter().filter_map(|outcome| match outcome {
            Outcome::Joined => None,
            Outcome::Failed(why) => Some(why),
        });
        let failures: Vec<&String> = failures.collect();
        let last = failures.last().filter(|_| failures.len() >= FAILURES_MAX);
        match last {
            Some(last) => Some(Health::Unhealthy((*last).clone())),
            None if self.last.len() > failures.len() => Some(Health::Healthy),
            None => None,
        }
    }
}

/// What became of a claim's machine: `None` while that is open. Want of capacity says nothing about joining.
fn outcome(claim: &NodeClaim) -> Option<Outcome> {
    if claim.is(names::NODE_REGISTERED) {
        return Some(Outcome::Joined);
    }
    let end = claim.end()?;
    (end.reason != names::REASON_INSUFFICIENT_CAPACITY)
        .then(|| Outcome::Failed(format!("{}: {}", end.reason, end.message)))
}

/// Whether a machine was bought for a claim.
fn is_bought(claim: &NodeClaim) -> bool {
    let has_id = claim.allocation().is_some_and(|it| it.instance_id.is_some());
    has_id || claim.is_launched()
}

/// Whether a claim was made from pool and class as they are now, as far as it bears their hashes. One that waited when
/// they changed is bought as it says itself, so it tells of what they were.
fn is_from(claim: &NodeClaim, pool: &NodePool, class: Option<&IBMNodeClass>) -> bool {
    let bears = |(stamp, version): (&str, &str), current: &str, hash: &dyn Fn() -> String| {
        let stamps = claim.annotations();
        let is_comparable = stamps.get(version).is_none_or(|version| version == current);
        let stamp = stamps.get(stamp).filter(|_| is_comparable);
        stamp.is_none_or(|stamp| *stamp == hash())
    };
    let of_pool = (names::NODE_POOL_HASH, names::NODE_POOL_HASH_VERSION);
    let of_class = (names::NODE_CLASS_HASH, names::NODE_CLASS_HASH_VERSION);
    bears(of_pool, NODE_POOL_HASH_VERSION, &|| pool.hash())
        && class.is_none_or(|class| bears(of_class, NODE_CLASS_HASH_VERSION, &|| class.hash()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(uid: &str, type_: &str, status: &str, reason: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": uid, "uid": uid},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"conditions": [{
                "type": type_, "status": status, "reason": reason, "message": "m",
                "lastTransitionTime": "2026-11-16T10:00:00Z",
            }]},
        }))
        .unwrap()
    }

    fn joined(uid: &str) -> NodeClaim {
        claim(uid, "Registered", "True", "Registered")
    }

    fn failed(uid: &str) -> NodeClaim {
        claim(uid, "Registered", "False", names::REASON_REGISTRATION_TIMEOUT)
    }

    fn pool(generation: i64, taints: &Value) -> NodePool {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "p", "generation": generation},
            "spec": {"template": {"spec": {
                "requirements": [], "taints": taints,
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            }}},
        }))
        .unwrap()
    }

    fn tainted() -> Value {
        json!([{"key": "t", "effect": "NoSchedule"}])
    }

    fn class(generation: i64, image: &str) -> IBMNodeClass {
        serde_json::from_value(json!({
            "metadata": {"name": "default", "generation": generation},
            "spec": {"region": "us-south", "vpc": "v", "image": image},
        }))
        .unwrap()
    }

    /// A pool as it was first written, and the record of somebody who has seen it since then.
    fn watched() -> (NodePool, Record) {
        let (pool, mut record) = (pool(1, &json!([])), Record::default());
        assert_eq!(record.look(&pool, None, &[]), None);
        (pool, record)
    }

    fn is_unhealthy(health: Option<&Health>) -> bool {
        matches!(health, Some(Health::Unhealthy(_)))
    }

    #[test]
    fn nothing_is_said_before_a_machine_has_joined_or_failed() {
        let (pool, mut record) = watched();
        let open = claim("a", "Launched", "True", "Launched");
        assert_eq!(record.look(&pool, None, &[&open]), None);
        assert_eq!(record.look(&pool, None, &[&joined("a")]), Some(Health::Healthy));
    }

    #[test]
    fn two_failures_among_the_last_four_are_too_many_and_later_success_makes_up_for_them() {
        let (pool, mut record) = watched();
        assert_eq!(
            record.look(&pool, None, &[&failed("a")]),
            None,
            "one failure alone says little"
        );
        let unhealthy = record.look(&pool, None, &[&failed("a"), &failed("b")]);
        assert!(is_unhealthy(unhealthy.as_ref()), "{unhealthy:?}");
        let all: Vec<NodeClaim> = ["c", "d", "e"].map(joined).into();
        assert_eq!(
            record.look(&pool, None, &all.iter().collect::<Vec<_>>()),
            Some(Health::Healthy)
        );
    }

    #[test]
    fn each_machine_counts_once() {
        let (pool, mut record) = watched();
        for _ in 0..5 {
            assert_eq!(record.look(&pool, None, &[&failed("a")]), None);
        }
    }

    #[test]
    fn failures_of_a_pool_or_class_as_they_were_are_not_those_of_what_they_are_and_one_success_then_is_enough()
     {
        let first = pool(1, &json!([]));
        let changes = [
            (pool(2, &tainted()), class(7, "i")),
            (first.clone(), class(8, "i")),
        ];
        for (pool, class_now) in changes {
            let (mut record, class_before) = (Record::default(), class(7, "i"));
            record.look(&first, Some(&class_before), &[]);
            let (a, b) = (failed("a"), failed("b"));
            let told = record.look(&first, Some(&class_before), &[&a, &b]);
            assert!(is_unhealthy(told.as_ref()), "{told:?}");
            assert_eq!(record.look(&pool, Some(&class_now), &[&a, &b]), None);
            let told = record.look(&pool, Some(&class_now), &[&a, &b, &joined("c")]);
            assert_eq!(told, Some(Health::Healthy));
        }
    }

    #[test]
    fn machines_on_their_way_when_pool_or_class_change_tell_of_what_these_were() {
        let (old, seventh) = (pool(1, &json!([])), class(7, "i"));
        for (pool, class) in [
            (pool(2, &tainted()), seventh.clone()),
            (old.clone(), class(8, "j")),
        ] {
            let mut record = Record::default();
            let open = ["a", "b"].map(|uid| {
                let mut claim = claim(uid, "Launched", "True", "Launched");
                claim.status.as_mut().unwrap().provider_id = Some(format!("ibm:///us-south/{uid}"));
                claim
            });
            assert_eq!(record.look(&old, Some(&seventh), &[]), None);
            assert_eq!(record.look(&pool, Some(&class), &[&open[0], &open[1]]), None);
            let late = ["a", "b"].map(failed);
            assert_eq!(record.look(&pool, Some(&class), &[&late[0], &late[1]]), None);
            let own = ["c", "d"].map(failed);
            let told = record.look(&pool, Some(&class), &[&own[0], &own[1]]);
            assert!(is_unhealthy(told.as_ref()), "{told:?}");
        }
    }

    #[test]
    fn a_claim_that_was_made_from_another_template_says_nothing_of_this_one() {
        let (old, new) = (pool(1, &json!([])), pool(2, &tainted()));
        let made_from = |pool: &NodePool, uid: &str| {
            let mut claim = failed(uid);
            claim.metadata.annotations = Some([(names::NODE_POOL_HASH.to_owned(), pool.hash())].into());
            claim
        };
        let mut record = Record::default();
        record.look(&new, None, &[]);
        let others = ["a", "b"].map(|uid| made_from(&old, uid));
        assert_eq!(record.look(&new, None, &[&others[0], &others[1]]), None);
        let own = ["c", "d"].map(|uid| made_from(&new, uid));
        let told = record.look(&new, None, &[&own[0], &own[1]]);
        assert!(is_unhealthy(told.as_ref()), "{told:?}");
    }

    #[test]
    fn a_change_that_changes_no_machine_takes_nothing_from_what_is_known() {
        let (mut pool, mut record) = watched();
        for (at, uid) in ["a", "b"].into_iter().enumerate() {
            let changed = json!({"cpu": at.to_string()});
            pool.spec.limits = serde_json::from_value(changed).unwrap();
            pool.spec.weight = Some(9);
            pool.metadata.generation = pool.metadata.generation.map(|generation| generation + 1);
            let told = record.look(&pool, None, &[&failed(uid)]);
            assert_eq!(is_unhealthy(told.as_ref()), uid == "b", "{told:?}");
        }
        pool.spec.template.spec.requirements = serde_json::from_value(json!([
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-south-2"]},
        ]))
        .unwrap();
        assert_eq!(
            record.look(&pool, None, &[]),
            None,
            "others are bought from here on"
        );
    }

    /// As after a restart: nobody remembers which claims were there when the class changed.
    #[test]
    fn a_claim_whose_machine_was_made_from_another_class_says_nothing_of_this_one() {
        let (pool, old, mut new) = (pool(1, &json!([])), class(7, "i"), class(8, "i"));
        new.spec.ssh_keys = Some(vec!["key".to_owned()]);
        assert_ne!(old.hash(), new.hash());
        let made_from = |class: &IBMNodeClass, version: &str, uid: &str| {
            let mut claim = failed(uid);
            let stamps = [
                (names::NODE_CLASS_HASH, class.hash()),
                (names::NODE_CLASS_HASH_VERSION, version.to_owned()),
            ];
            let stamps = stamps.map(|(key, value)| (key.to_owned(), value));
            claim.metadata.annotations = Some(stamps.into());
            claim
        };
        let told = |class: &IBMNodeClass, version: &str| {
            let mut record = Record::default();
            record.look(&pool, Some(&new), &[]);
            let both = ["a", "b"].map(|uid| made_from(class, version, uid));
            record.look(&pool, Some(&new), &[&both[0], &both[1]])
        };
        assert_eq!(told(&old, NODE_CLASS_HASH_VERSION), None);
        let own = told(&new, NODE_CLASS_HASH_VERSION);
        assert!(is_unhealthy(own.as_ref()), "{own:?}");
        let unknown = told(&old, "v0");
        assert!(
            is_unhealthy(unknown.as_ref()),
            "hashes of two kinds are not compared"
        );
    }

    fn with_condition(mut pool: NodePool, status: &str, generation: i64) -> NodePool {
        let status = json!({"conditions": [{
            "type": "NodeRegistrationHealthy", "status": status, "reason": "R", "message": "no route",
            "lastTransitionTime": "2026-11-16T10:00:00Z", "observedGeneration": generation,
        }]});
        pool.status = serde_json::from_value(status).unwrap();
        pool
    }

    #[test]
    fn after_a_restart_what_was_found_is_carried_on_and_machines_that_had_joined_before_tell_nothing_new() {
        let all: Vec<NodeClaim> = ["a", "b", "c", "d"].map(joined).into();
        let there: Vec<&NodeClaim> = all.iter().collect();
        let told = |pool: &NodePool| Record::default().look(pool, None, &there);
        let pool = pool(3, &json!([]));
        let no_route = Some(Health::Unhealthy("no route".to_owned()));
        assert_eq!(told(&pool), None);
        assert_eq!(told(&with_condition(pool.clone(), "Unknown", 3)), None);
        assert_eq!(told(&with_condition(pool.clone(), "False", 2)), None);
        assert_eq!(told(&with_condition(pool.clone(), "False", 3)), no_route);
        let healthy = with_condition(pool.clone(), "True", 3);
        assert_eq!(told(&healthy), Some(Health::Healthy));
        let mut record = Record::default();
        record.look(&healthy, None, &there);
        let (e, f) = (failed("e"), failed("f"));
        let one = record.look(&healthy, None, &[there.clone(), vec![&e]].concat());
        assert_eq!(one, Some(Health::Healthy), "one failure after a success");
        let two = record.look(&healthy, None, &[there.clone(), vec![&e, &f]].concat());
        assert!(is_unhealthy(two.as_ref()), "{two:?}");
    }
}
