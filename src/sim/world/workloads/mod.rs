//! A scenario drawn from a seed: people run workloads, and the operator buys whatever their pods need.
//!
//! Deployments that spread over zones and nodes, with a disruption budget, that keep away from themselves, near others or
//! off each other's ports, a StatefulSet with volumes, a DaemonSet, and pods that nobody can serve; NodePools that buy
//! spot, on demand or both, one of which may have little only, with weights of their own or all the same. Workloads grow and
//! shrink, down to nothing, IBM takes a machine back, nodes expire, a pool is deleted, one is edited and reverted, daemons are
//! added and grow. No more than some forty pods at a time: a world costs what happens in it.

mod manifests;

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use crate::api::names::CAPACITY_TYPE;
use crate::sim::scenario::{Action, Machine, Scenario, Selector, Step, Target};

/// Before this a cluster has hardly any nodes, so there is nothing to take away.
const FIRST_NODES: Duration = Duration::from_mins(6);

/// The first machines are ordered by then,
const LAUNCHING_FROM: Duration = Duration::from_secs(10);
/// and have not joined yet.
const LAUNCHING_UNTIL: Duration = Duration::from_secs(90);
/// What was taken away is wanted back by then.
const WANTED_AGAIN: Duration = Duration::from_mins(4);

/// Nodes that are bought before this expire.
const EXPIRY_ENDS: Duration = Duration::from_mins(8);
/// After this all of them have, and their pods run elsewhere.
const EXPIRED_BY: Duration = Duration::from_mins(35);

/// In one world of so many a DaemonSet is added, and in one of as many a pool is edited.
const ONE_IN: u8 = 4;
/// What the pods of that DaemonSet ask for, in thousandths of a processor, and what they do when they have grown. It fits
/// beside whatever else is on a node: one that does not fit would only wait.
const PROBE_MILLIS: [u32; 2] = [25, 75];
/// They grow this soon.
const GROWN_WITHIN: Duration = Duration::from_mins(5);

/// A pool is edited between these, when whatever expires was settled,
const EDITED_FROM: Duration = Duration::from_mins(9);
const EDITED_UNTIL: Duration = Duration::from_mins(13);
/// and reverted so much later. Whether nodes have drifted is looked at every five minutes: some looks come between, and at
/// least three before everything is put right, so that then there is nothing left to find out.
const REVERTED_AFTER: Duration = Duration::from_mins(2);
const REVERTED_WITHIN: Duration = Duration::from_mins(7);

/// What people run in the world of a seed, and what becomes of it, for so long.
pub fn draw(seed: u64, lasts: Duration) -> Scenario {
    // Not the seed itself: the servers and the plan draw from that too.
    let mut rng = Rng::with_seed(seed ^ 0x3c6e_f372_fe94_f82b);
    // Chance of its own for what came later, so that the rest of each world stays as it was.
    let mut late = Rng::with_seed(seed ^ 0x510e_527f_ade6_82d1);
    let pools = Pools::draw(&mut rng, &mut late, lasts);
    let mut steps = Vec::new();
    let run = workloads(&pools, &mut rng);
    for manifest in run.into_iter().chain(neighbors(&mut late)) {
        steps.push(step(Duration::ZERO, Action::Apply(vec![manifest])));
    }
    steps.extend(changes(&pools, lasts, &mut rng));
    steps.extend(down_to_nothing(lasts, &mut late));
    // And for each thing that came later still.
    let mut added = Rng::with_seed(seed ^ 0xa54f_f53a_5f1d_36f1);
    steps.extend(more_daemons(lasts, &mut added));
    let mut edited = Rng::with_seed(seed ^ 0x9b05_688c_2b3e_6c1f);
    steps.extend(second_thoughts(&pools, lasts, &mut edited));
    steps.sort_by_key(|step| step.at);
    Scenario {
        name: format!("workloads-{seed}"),
        about: "People run workloads, which grow and shrink.".to_owned(),
        region: "us-south".to_owned(),
        objects: [manifests::class(), manifests::storage_class()]
            .into_iter()
            .chain(pools.manifests())
            .collect(),
        steps,
        lasts,
    }
}

/// The pools of a world.
struct Pools {
    /// What the one that serves everybody buys.
    general: &'static [&'static str],
    /// How long nodes of that one live, in minutes.
    expires_minutes: Option<u64>,
    /// Whether there is one that buys spot, and is tried first.
    spot: bool,
    /// What the smallest one may have, if there is one.
    limit: Option<(&'static str, u32)>,
    /// The weight of all of them, if none is tried before the others.
    same_weight: Option<u32>,
}

/// How pools rank of which none is preferred.
const SAME_WEIGHT: u32 = 10;

impl Pools {
    fn draw(rng: &mut Rng, late: &mut Rng, lasts: Duration) -> Self {
        let general: &[&str] = if rng.bool() {
            &["spot", "on-demand"]
        } else {
            &["on-demand"]
        };
        let limit = match rng.u8(..4) {
            0 => Some(("cpu", rng.u32(1..=2) * 4)),
            1 => Some(("nodes", rng.u32(1..=2))),
            _ => None,
        };
        Self {
            general,
            expires_minutes: (rng.bool() && lasts >= EXPIRED_BY).then(|| rng.u64(12..=20)),
            spot: rng.u8(..3) > 0,
            limit,
            same_weight: (late.u8(..3) == 0).then_some(SAME_WEIGHT),
        }
    }

    /// A pool that ranks like this, if they rank at all.
    fn pool(&self, name: &str, buys: &[&str], weight: u32, expires_minutes: Option<u64>) -> Value {
        let weight = self.same_weight.unwrap_or(weight);
        manifests::pool(name, buys, weight, expires_minutes)
    }

    /// The one that serves everybody, whose nodes live for so many minutes.
    fn general(&self, expires_minutes: Option<u64>) -> Value {
        self.pool("general", self.general, 1, expires_minutes)
    }

    fn manifests(&self) -> Vec<Value> {
        let mut all = vec![self.general(self.expires_minutes)];
        if self.spot {
            all.push(self.pool("spot", &["spot"], 10, None));
        }
        if let Some((resource, most)) = self.limit {
            let pool = self.pool("small", &["on-demand"], 5, None);
            all.push(manifests::limited(pool, resource, most));
        }
        all
    }
}

/// What people run.
fn workloads(pools: &Pools, rng: &mut Rng) -> Vec<Value> {
    let mut all = vec![
        manifests::web(rng.u32(4..=12), rng.u32(2..=6) * 125),
        manifests::api(rng.u32(3..=6), rng.u32(2..=8) * 125),
        manifests::api_budget(),
        manifests::agent(),
    ];
    if rng.bool() {
        all.push(manifests::db(rng.u32(1..=3), rng.bool()));
    }
    if pools.expires_minutes.is_some() {
        all.push(manifests::hermit());
    }
    if pools.limit.is_some() {
        all.push(manifests::picky(rng.u32(2..=8)));
    }
    if rng.bool() {
        all.push(manifests::giant());
    }
    if rng.u8(..3) == 0 {
        all.push(manifests::stray());
    }
    all
}

/// Those that mind who else is on their node, or near it.
fn neighbors(rng: &mut Rng) -> Vec<Value> {
    let all = [
        manifests::loner(rng.u32(2..=3)),
        manifests::friend(rng.u32(1..=2)),
        manifests::gate(2),
    ];
    all.into_iter().filter(|_| rng.u8(..3) == 0).collect()
}

/// In some worlds somebody takes the largest workload away altogether, half of the time while the first machines for it are on
/// their way, and mostly soon wants it back.
fn down_to_nothing(lasts: Duration, rng: &mut Rng) -> Vec<Step> {
    if rng.u8(..3) != 0 {
        return Vec::new();
    }
    let at = if rng.bool() {
        moment(rng, LAUNCHING_FROM.min(lasts), LAUNCHING_UNTIL.min(lasts))
    } else {
        moment(rng, LAUNCHING_UNTIL.min(lasts), lasts)
    };
    let scale = |replicas| Action::Scale {
        target: target("Deployment", "web"),
        replicas,
    };
    let mut steps = vec![step(at, scale(0))];
    if rng.u8(..4) > 0 {
        let by = lasts.min(at + WANTED_AGAIN);
        steps.push(step(moment(rng, at, by), scale(rng.u32(2..=12))));
    }
    steps
}

/// In some worlds somebody adds a DaemonSet while everything else runs, and half of the time its pods soon ask for more.
fn more_daemons(lasts: Duration, rng: &mut Rng) -> Vec<Step> {
    if rng.u8(..ONE_IN) != 0 {
        return Vec::new();
    }
    let [first, grown] = PROBE_MILLIS.map(|millis| Action::Apply(vec![manifests::probe(millis)]));
    let at = moment(rng, LAUNCHING_FROM.min(lasts), lasts);
    let mut steps = vec![step(at, first)];
    if rng.bool() {
        let by = lasts.min(at + GROWN_WITHIN);
        steps.push(step(moment(rng, at, by), grown));
    }
    steps
}

/// In some worlds somebody has nodes of the pool that serves everybody labeled, and thinks better of it minutes later.
fn second_thoughts(pools: &Pools, lasts: Duration, rng: &mut Rng) -> Vec<Step> {
    if rng.u8(..ONE_IN) != 0 || lasts < EXPIRED_BY {
        return Vec::new();
    }
    let at = moment(rng, EDITED_FROM, EDITED_UNTIL);
    let reverted = moment(rng, at + REVERTED_AFTER, at + REVERTED_WITHIN);
    let general = pools.general(None);
    let edited = manifests::labeled(general.clone());
    vec![
        step(at, Action::Apply(vec![edited])),
        step(reverted, Action::Apply(vec![general])),
    ]
}

/// What becomes of it.
fn changes(pools: &Pools, lasts: Duration, rng: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..rng.u8(2..=5) {
        let (name, most) = if rng.bool() { ("web", 20) } else { ("api", 10) };
        let target = target("Deployment", name);
        let replicas = rng.u32(2..=most);
        let at = moment(rng, Duration::from_mins(1).min(lasts), lasts);
        steps.push(step(at, Action::Scale { target, replicas }));
    }
    let from = FIRST_NODES.min(lasts);
    for _ in 0..rng.u8(..3) {
        let labels = BTreeMap::from([(CAPACITY_TYPE.to_owned(), "spot".to_owned())]);
        let taken = Action::Preempt(Machine::Selected(Selector(labels)));
        steps.push(step(moment(rng, from, lasts), taken));
    }
    if pools.expires_minutes.is_some() {
        // Nobody would ever be done if the nodes that take their place expired as well.
        steps.push(step(EXPIRY_ENDS, Action::Apply(vec![pools.general(None)])));
    }
    if pools.spot && rng.u8(..4) == 0 {
        let gone = Action::Delete(target("NodePool", "spot"));
        steps.push(step(moment(rng, from, lasts), gone));
    }
    steps
}

fn target(kind: &str, name: &str) -> Target {
    Target {
        api_version: None,
        kind: kind.to_owned(),
        namespace: None,
        name: name.to_owned(),
    }
}

fn step(at: Duration, action: Action) -> Step {
    Step { at, line: 0, action }
}

fn moment(rng: &mut Rng, from: Duration, until: Duration) -> Duration {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(rng.u64(millis(from)..=millis(until)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_mins(40);

    fn kinds(scenario: &Scenario) -> Vec<String> {
        let applied = scenario.steps.iter().filter_map(|step| match &step.action {
            Action::Apply(manifests) => manifests[0]["kind"].as_str().map(str::to_owned),
            _ => None,
        });
        applied.collect()
    }

    #[test]
    fn the_seed_is_the_scenario() {
        assert_eq!(draw(3, LASTS), draw(3, LASTS));
        assert_ne!(draw(3, LASTS), draw(4, LASTS));
    }

    #[test]
    fn everything_happens_in_order_and_in_time() {
        for seed in 0..100 {
            for lasts in [LASTS, Duration::from_secs(30)] {
                let scenario = draw(seed, lasts);
                assert!(scenario.steps.is_sorted_by_key(|step| step.at));
                assert!(scenario.steps.iter().all(|step| step.at <= lasts));
            }
        }
    }

    #[test]
    fn every_kind_of_workload_and_of_loss_occurs_in_some_world() {
        let worlds: Vec<Scenario> = (0..100).map(|seed| draw(seed, LASTS)).collect();
        for kind in [
            "Deployment",
            "StatefulSet",
            "DaemonSet",
            "PodDisruptionBudget",
            "NodeClaim",
        ] {
            assert!(
                worlds
                    .iter()
                    .any(|world| kinds(world).iter().any(|it| it == kind)),
                "{kind}"
            );
        }
        let does = |wanted: fn(&Action) -> bool| {
            let in_world = |world: &&Scenario| world.steps.iter().any(|step| wanted(&step.action));
            worlds.iter().filter(in_world).count()
        };
        assert!(does(|action| matches!(action, Action::Preempt(_))) > 30);
        assert!(does(|action| matches!(action, Action::Delete(_))) > 5);
        let limited = |world: &&Scenario| world.objects.iter().any(|it| it["spec"]["limits"].is_object());
        assert!((30..70).contains(&worlds.iter().filter(limited).count()));
    }

    #[test]
    fn in_some_worlds_workloads_mind_their_neighbors_shrink_to_nothing_or_no_pool_is_preferred() {
        let worlds: Vec<Scenario> = (0..100).map(|seed| draw(seed, LASTS)).collect();
        let some = 15..60;
        for name in ["loner", "friend", "gate"] {
            let runs = |world: &&Scenario| {
                let is_it = |step: &Step| matches!(&step.action, Action::Apply(manifests) if manifests[0]["metadata"]["name"] == name);
                world.steps.iter().any(is_it)
            };
            assert!(some.contains(&worlds.iter().filter(runs).count()), "{name}");
        }
        let shrinks = |world: &&Scenario| {
            let is_it = |step: &Step| matches!(step.action, Action::Scale { replicas: 0, .. });
            world.steps.iter().any(is_it)
        };
        assert!(some.contains(&worlds.iter().filter(shrinks).count()));
        let is_level = |world: &&Scenario| {
            let pools = world.objects.iter().filter(|it| it["kind"] == "NodePool");
            let weights: Vec<&Value> = pools.map(|pool| &pool["spec"]["weight"]).collect();
            weights.len() > 1 && weights.iter().all(|weight| *weight == weights[0])
        };
        assert!(some.contains(&worlds.iter().filter(is_level).count()));
    }

    /// What is applied under that name, in order.
    fn applied<'a>(scenario: &'a Scenario, name: &str) -> Vec<(Duration, &'a Value)> {
        let steps = scenario.steps.iter().filter_map(|step| match &step.action {
            Action::Apply(manifests) => Some((step.at, &manifests[0])),
            _ => None,
        });
        steps
            .filter(|(_, manifest)| manifest["metadata"]["name"] == name)
            .collect()
    }

    #[test]
    fn in_some_worlds_small_daemons_are_added_and_in_some_of_those_they_grow() {
        let worlds: Vec<Scenario> = (0..100).map(|seed| draw(seed, LASTS)).collect();
        let probes: Vec<_> = worlds.iter().map(|world| applied(world, "probe")).collect();
        let in_worlds = |count: usize| probes.iter().filter(|probes| probes.len() == count).count();
        assert_eq!(in_worlds(0) + in_worlds(1) + in_worlds(2), worlds.len());
        assert!((5..30).contains(&in_worlds(1)), "{}", in_worlds(1));
        assert!((5..30).contains(&in_worlds(2)), "{}", in_worlds(2));
        let asked = |(_, probe): &(Duration, &Value)| {
            probe["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"].clone()
        };
        for probes in probes.iter().filter(|probes| !probes.is_empty()) {
            assert!(probes.iter().all(|(at, _)| *at >= LAUNCHING_FROM));
            assert_eq!(asked(&probes[0]), "25m");
            assert!(probes.get(1).is_none_or(|grown| asked(grown) == "75m"));
        }
    }

    #[test]
    fn in_some_worlds_a_pool_is_edited_and_left_as_it_was_long_before_the_end() {
        let label = |pool: &Value| pool["spec"]["template"]["metadata"]["labels"].is_object();
        let mut edits = 0;
        for seed in 0..100 {
            let world = draw(seed, LASTS);
            let written = applied(&world, "general");
            let Some(edit) = written.iter().position(|(_, pool)| label(pool)) else {
                continue;
            };
            edits += 1;
            assert_eq!(written.len(), edit + 2, "seed {seed}");
            let ((edited, labeled), (reverted, plain)) = (written[edit], written[edit + 1]);
            assert_eq!(*labeled, manifests::labeled(plain.clone()), "seed {seed}");
            assert!(reverted >= edited + REVERTED_AFTER, "seed {seed}");
            assert!(reverted + Duration::from_mins(15) <= LASTS, "seed {seed}");
            let before = written[..edit].last().map(|(_, pool)| *pool);
            let before = before.or_else(|| {
                world
                    .objects
                    .iter()
                    .find(|it| it["metadata"]["name"] == "general")
            });
            assert_eq!(before, Some(plain), "seed {seed}: it is as it was");
            let short = draw(seed, Duration::from_mins(20));
            let edited = applied(&short, "general").iter().any(|(_, pool)| label(pool));
            assert!(!edited, "seed {seed}: nobody is sure to notice in time");
        }
        assert!((15..60).contains(&edits), "{edits}");
    }

    #[test]
    fn a_world_has_no_more_than_some_fifty_pods() {
        for seed in 0..100 {
            let replicas = |step: &Step| match &step.action {
                Action::Apply(manifests) => manifests[0]["spec"]["replicas"].as_u64().unwrap_or_default(),
                _ => 0,
            };
            let pods: u64 = draw(seed, LASTS).steps.iter().map(replicas).sum();
            assert!((7..=40).contains(&pods), "seed {seed}: {pods}");
        }
    }
}
