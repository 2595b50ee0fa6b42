//! A run under faults against the run of the same world without any.
//!
//! A controller that deletes and rebuys a healthy machine ends in the right state and is still wrong: only the count of
//! what it did shows it. So creates and deletes are counted, object by object, and what exceeds the calm run must be
//! explained by machines or claims that really were lost: what was done to a claim, its machines and its Node, by what that
//! claim lost, each loss once. What was lost elsewhere explains only what is done to pods, which go from one to another.

use std::collections::BTreeMap;
use std::fmt;

use super::Outcome;
use super::effects::{Counts, Deed, Verb};
use crate::sim::invariants::Violation;
use crate::sim::scenario::{Action, Scenario};

/// Faults each strike of which may cost a machine or bring a claim more, so that pods move once more.
const COSTLY: &[&str] = &[
    "c9-start-fails",
    "c10-preemption",
    "c10-preemption-deletes",
    "c11-host-failure",
    "c13-partial-create",
    "c16-wrong-profile",
    "k9-created-and-deleted",
    "k10-recreated",
    "k14-delete-machine",
    "k14-strip-finalizer",
    "n4-stolen-provider-id",
];

/// Those of them after which a claim is bought for again without a trace of why: there is no machine that broke.
const TRACELESS: &[&str] = &["c13-partial-create", "c16-wrong-profile"];

/// What a run did more of than the calm one, without a reason.
pub fn compare(calm: &Counts, outcome: &Outcome) -> Vec<Violation> {
    let losses = |name: &&str| outcome.faults.get(*name).copied().unwrap_or_default();
    let excused: u64 = COSTLY.iter().map(losses).sum();
    let traceless: u64 = TRACELESS.iter().map(losses).sum();
    let mut found = Vec::new();
    let mut blame = |message| {
        found.push(Violation {
            id: "R1",
            at: outcome.simulated,
            message,
        });
    };
    for ((verb, kind), excess) in excesses(calm, outcome) {
        let verb = verb.as_str();
        let told = |those: &[Excess<'_>]| {
            let objects: Vec<String> = those.iter().map(ToString::to_string).collect();
            objects.join(", ")
        };
        let (sound, others): (Vec<_>, Vec<_>) = excess
            .into_iter()
            .partition(|one| is_sound(outcome, kind, one.object));
        let total: u64 = sound.iter().map(|one| one.more).sum();
        let unexplained = kind != "instances" || total > traceless;
        if !sound.is_empty() && unexplained {
            blame(format!(
                "{verb} {kind}: {}; nothing happened to them",
                told(&sound)
            ));
        }
        let (its_own, others): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|one| is_of_a_claim(kind) && !one.object.is_empty());
        let unexplained: Vec<_> = its_own
            .into_iter()
            .filter_map(|one| one.beyond(outcome))
            .collect();
        let total: u64 = unexplained.iter().map(|one| one.more).sum();
        // Where an order leaves no trace of why it came to nothing, nobody knows whose it was.
        if total > if kind == "instances" { traceless } else { 0 } {
            blame(format!(
                "{verb} {kind}: {}; beyond what they lost themselves",
                told(&unexplained)
            ));
        }
        let total: u64 = others.iter().map(|one| one.more).sum();
        if total > excused {
            blame(format!(
                "{verb} {kind}: {}; {excused} excused by losses",
                told(&others)
            ));
        }
    }
    found
}

/// Claims that the operator made in a world without a NodePool: there they are people's alone.
pub fn unasked(scenario: &Scenario, outcome: &Outcome) -> Option<Violation> {
    let is_made = |(deed, _): &(&Deed, &u64)| deed.verb == Verb::Create && deed.kind == "nodeclaims";
    let made = outcome.counts.iter().filter(is_made).map(|(_, count)| count);
    let made: u64 = made.sum();
    (made > 0 && !has_pools(scenario)).then(|| Violation {
        id: "R1",
        at: outcome.simulated,
        message: format!("create nodeclaims: {made} times; there is no NodePool to make one for"),
    })
}

/// Whether anybody ever writes a NodePool.
fn has_pools(scenario: &Scenario) -> bool {
    let applied = scenario.steps.iter().filter_map(|step| match &step.action {
        Action::Apply(manifests) => Some(manifests),
        _ => None,
    });
    let mut written = scenario.objects.iter().chain(applied.flatten());
    written.any(|object| object["kind"] == "NodePool")
}

/// Whether objects of a kind go by the name of their claim.
fn is_of_a_claim(kind: &str) -> bool {
    matches!(kind, "nodeclaims" | "instances" | "nodes")
}

/// Whether an object is a claim that joined and to which nothing happened, or its machine.
fn is_sound(outcome: &Outcome, kind: &str, object: &str) -> bool {
    matches!(kind, "nodeclaims" | "instances") && outcome.sound.contains(object)
}

/// How much more was done to one object.
struct Excess<'a> {
    object: &'a str,
    count: u64,
    more: u64,
}

impl Excess<'_> {
    /// What is left of it when everything is taken off that its claim lost.
    fn beyond(mut self, outcome: &Outcome) -> Option<Self> {
        let lost = outcome.losses.get(self.object).copied().unwrap_or_default();
        self.more = self.more.saturating_sub(lost);
        (self.more > 0).then_some(self)
    }
}

impl fmt::Display for Excess<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = if self.object.is_empty() { "?" } else { self.object };
        write!(f, "{object} {} times ({} more)", self.count, self.more)
    }
}

/// By what was done to which kind.
fn excesses<'a>(calm: &Counts, outcome: &'a Outcome) -> BTreeMap<(Verb, &'a str), Vec<Excess<'a>>> {
    let mut all: BTreeMap<(Verb, &str), Vec<Excess<'_>>> = BTreeMap::new();
    for (deed, &count) in outcome.counts.iter().filter(|(deed, _)| is_counted(deed)) {
        let usual = usual(calm, outcome, deed);
        if count > usual {
            let excess = Excess {
                object: &deed.object,
                count,
                more: count - usual,
            };
            all.entry((deed.verb, &deed.kind)).or_default().push(excess);
        }
    }
    all
}

/// Offerings are withheld as often as the cloud is short of something, and interfaces and volumes are swept as often as it
/// leaves them behind, which is what faults are about. How many claims are made for so many pods depends on when these
/// come; that none is made in vain is L11, and where there is no pool [`unasked`] counts them.
fn is_counted(deed: &Deed) -> bool {
    let by_faults = ["unavailableofferings", "virtual_network_interfaces", "volumes"];
    let for_pods = deed.verb == Verb::Create && deed.kind == "nodeclaims";
    deed.verb != Verb::Update && !for_pods && !by_faults.contains(&deed.kind.as_str())
}

/// How often something is done to an object without faults. Once is nothing strange: whether a claim that lives for
/// seconds gets a machine, and whether that becomes a Node before it is given back, is a matter of moments. But a claim to
/// which nothing happened, and which the calm run knows, is not deleted then; nor is its machine, if it was bought there and
/// kept.
fn usual(calm: &Counts, outcome: &Outcome, deed: &Deed) -> u64 {
    if is_sound(outcome, &deed.kind, &deed.object) && deed.verb == Verb::Delete && was_bought(calm, deed) {
        return calm.get(deed).copied().unwrap_or_default();
    }
    let calm = calm.get(deed).copied().unwrap_or_default();
    let once = u64::from(!deed.object.is_empty());
    let its_own = |object: &str| object == deed.object;
    let follows = match deed.kind.as_str() {
        // Each machine that was given back may have left a Node behind.
        "nodes" => done(outcome, (Verb::Delete, "instances"), its_own),
        // A pod whose name is given again, as those of a StatefulSet are, may have been on each of them.
        "pods" | "pods/eviction" => done(outcome, (Verb::Delete, "instances"), |_| true),
        // So is the name of a claim that is made for the same pods once more when the first is gone.
        "instances" => 1 + done(outcome, (Verb::Delete, "nodeclaims"), its_own),
        _ => 0,
    };
    calm.max(once).max(follows)
}

/// Whether a machine was bought for a claim in the calm run.
fn was_bought(calm: &Counts, deed: &Deed) -> bool {
    let bought = Deed {
        kind: "instances".to_owned(),
        verb: Verb::Create,
        object: deed.object.clone(),
    };
    calm.contains_key(&bought)
}

/// How often something was done to such objects of a kind.
fn done(outcome: &Outcome, (verb, kind): (Verb, &str), of: impl Fn(&str) -> bool) -> u64 {
    let such = |deed: &Deed| deed.kind == kind && deed.verb == verb && of(&deed.object);
    let such = outcome.counts.iter().filter(|(deed, _)| such(deed));
    such.map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use super::*;
    use crate::sim::history::{History, Keep};
    use crate::sim::probes::Probes;
    use crate::sim::world::churn::{self, Demand};
    use crate::sim::world::{Verdict, workloads};

    fn bought(object: &str) -> Deed {
        Deed {
            kind: "instances".to_owned(),
            verb: Verb::Create,
            object: object.to_owned(),
        }
    }

    /// A run in which claim a lost so many machines.
    fn outcome(bought: &[(Deed, u64)], preempted: u64) -> Outcome {
        Outcome {
            verdict: Verdict::Passed,
            violations: Vec::new(),
            unmet: Vec::new(),
            probes: Probes::default(),
            faults: BTreeMap::from([("c10-preemption", preempted)]),
            requests: 0,
            effects: 0,
            events: 0,
            simulated: Duration::ZERO,
            trace: 0,
            counts: bought.iter().cloned().collect(),
            sound: BTreeSet::new(),
            losses: BTreeMap::from([("a".to_owned(), preempted)]),
            history: History::new(Keep::All),
        }
    }

    #[test]
    fn a_purchase_too_many_is_a_violation_and_one_for_a_lost_machine_is_not() {
        let three = Counts::from([(bought("a"), 3)]);
        let run = |count, preempted| outcome(&[(bought("a"), count)], preempted);
        assert_eq!(compare(&three, &run(3, 0)), []);
        assert_eq!(compare(&three, &run(2, 0)), []);
        assert_eq!(compare(&three, &run(4, 1)), []);
        let excess = compare(&three, &run(5, 1));
        assert!(
            excess[0]
                .message
                .starts_with("create instances: a 5 times (1 more); beyond"),
            "{excess:?}"
        );
    }

    #[test]
    fn what_one_claim_lost_explains_nothing_that_was_done_to_another() {
        let calm = Counts::from([(bought("a"), 1), (bought("b"), 1)]);
        assert_eq!(compare(&calm, &outcome(&[(bought("a"), 3)], 2)), []);
        let excess = compare(&calm, &outcome(&[(bought("a"), 2), (bought("b"), 2)], 2));
        assert_eq!(excess.len(), 1, "{excess:?}");
        assert!(
            excess[0]
                .message
                .starts_with("create instances: b 2 times (1 more)"),
            "{excess:?}"
        );
    }

    #[test]
    fn an_order_that_left_no_trace_may_have_been_anybody_s() {
        let mut run = outcome(&[(bought("b"), 2)], 0);
        let calm = Counts::from([(bought("b"), 1)]);
        assert_eq!(compare(&calm, &run).len(), 1);
        run.faults.insert("c13-partial-create", 1);
        assert_eq!(compare(&calm, &run), []);
    }

    /// What was done to a claim, or to its machine.
    fn gone(kind: &str, object: &str) -> Deed {
        Deed {
            kind: kind.to_owned(),
            verb: Verb::Delete,
            object: object.to_owned(),
        }
    }

    #[test]
    fn a_claim_to_which_nothing_happened_is_not_given_up_even_once_whatever_was_lost_elsewhere() {
        let calm = Counts::from([(bought("a"), 1)]);
        for kind in ["nodeclaims", "instances"] {
            let mut run = outcome(&[(bought("a"), 1), (gone(kind, "a"), 1)], 7);
            assert_eq!(compare(&calm, &run), [], "its machine may have been lost");
            run.sound = BTreeSet::from(["a".to_owned()]);
            let excess = compare(&calm, &run);
            assert_eq!(excess.len(), 1, "{excess:?}");
            assert!(excess[0].message.contains("nothing happened"), "{excess:?}");
        }
    }

    #[test]
    fn a_claim_that_is_given_back_without_faults_or_never_had_a_machine_then_may_be_given_back() {
        let mut run = outcome(&[(bought("a"), 1), (gone("instances", "a"), 1)], 0);
        run.sound = BTreeSet::from(["a".to_owned()]);
        let calm = Counts::from([(bought("a"), 1), (gone("instances", "a"), 1)]);
        assert_eq!(compare(&calm, &run), []);
        assert_eq!(compare(&Counts::new(), &run), []);
    }

    #[test]
    fn a_pod_may_be_moved_once_from_each_machine_that_goes() {
        let evicted = Deed {
            kind: "pods/eviction".to_owned(),
            verb: Verb::Create,
            object: "db-0".to_owned(),
        };
        let gone = |claim: &str| Deed {
            verb: Verb::Delete,
            ..bought(claim)
        };
        let run = |times: u64| outcome(&[(evicted.clone(), times), (gone("a"), 1), (gone("b"), 1)], 0);
        assert_eq!(compare(&Counts::new(), &run(2)), []);
        assert_eq!(compare(&Counts::new(), &run(3)).len(), 1);
    }

    #[test]
    fn a_claim_that_is_made_again_has_a_machine_again() {
        let gone = gone("nodeclaims", "a");
        let run = |times: u64| outcome(&[(gone.clone(), 1), (bought("a"), times)], 0);
        assert_eq!(compare(&Counts::new(), &run(2)), []);
        assert_eq!(compare(&Counts::new(), &run(3)).len(), 1);
    }

    #[test]
    fn where_there_is_no_pool_the_operator_makes_no_claim() {
        let made = Deed {
            kind: "nodeclaims".to_owned(),
            ..bought("")
        };
        let run = outcome(&[(made, 2)], 9);
        let has_pool = |world: &Scenario| world.objects.iter().any(|it| it["kind"] == "NodePool");
        let drawn = (0..20).map(|seed| churn::draw(seed, &Demand::USUAL));
        let (pools, none): (Vec<Scenario>, Vec<Scenario>) = drawn.partition(has_pool);
        let blamed = unasked(&none[0], &run).unwrap();
        assert_eq!(blamed.id, "R1");
        assert!(blamed.message.contains("2 times"), "{}", blamed.message);
        assert_eq!(unasked(&none[0], &outcome(&[(bought("a"), 2)], 0)), None);
        for world in [&pools[0], &workloads::draw(0, Duration::from_mins(40))] {
            assert_eq!(unasked(world, &run), None);
        }
    }

    #[test]
    fn what_one_object_was_spared_does_not_pay_for_another() {
        let calm = Counts::from([(bought("a"), 1), (bought("b"), 1)]);
        let excess = compare(&calm, &outcome(&[(bought("a"), 2)], 0));
        assert_eq!(excess.len(), 1);
        assert!(
            excess[0]
                .message
                .starts_with("create instances: a 2 times (1 more)"),
            "{excess:?}"
        );
    }
}
