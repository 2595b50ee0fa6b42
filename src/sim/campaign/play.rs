//! One seed, played in this process: what is drawn from it, and what came of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::calm::{self, Calm, world_of, worlds_before};
use super::line::{Breach, Line, Verdict};
use super::options::{Ask, Faults};
use crate::sim::faults::{Plan, Shape};
use crate::sim::history::Keep;
use crate::sim::mutants::{Mutant, UnknownMutant};
use crate::sim::scenario::{Action, LoadError, Scenario, Step};
use crate::sim::world::churn::{self, Demand};
use crate::sim::world::cluster::InstallError;
use crate::sim::world::compare::{compare, unasked};
use crate::sim::world::effects::Counts;
use crate::sim::world::recorder::Observer;
use crate::sim::world::{self, Outcome, Setup, product, workloads};

/// Two, as the chart has it: one leads.
const REPLICAS: usize = 2;
/// The name of the scenario, drawn from the seed, in which people ask for machines.
const CHURN: &str = "churn";
/// The name of the one in which they run workloads.
const WORKLOADS: &str = "workloads";
/// In one world of so many they do: one takes twice the time of the others.
const WORKLOADS_EVERY: u64 = 9;
/// In which of them.
const WORKLOADS_AT: u64 = 2;
/// Where scenarios are that are named without a path.
const SCENARIOS: &str = "examples/scenarios";

/// What a seed will be, before it is played.
#[derive(Clone, Debug)]
pub struct Cast {
    /// By which the scenario is asked for again.
    pub scenario_name: String,
    /// What is there, and what people do.
    pub scenario: Scenario,
    /// What goes wrong.
    pub plan: Plan,
    /// What is wrong with the operator.
    pub mutant: Option<Mutant>,
    /// How many machines there may be in all, where that is few.
    pub machines_max: Option<u64>,
}

/// Why a seed cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum CastError {
    /// The scenario cannot be read.
    #[error(transparent)]
    Scenario(#[from] LoadError),
    /// There is no such mutant.
    #[error("{0}; there are {names}", names = Mutant::ALL.map(Mutant::name).join(", "))]
    Mutant(#[from] UnknownMutant),
    /// A scenario that somebody wrote lasts as long as it says.
    #[error("--minutes: the scenario {0} says itself how long it lasts; leave one of them out")]
    Lasts(String),
    /// The plan cannot be read.
    #[error("cannot read the plan {}: {problem}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl Cast {
    /// Whether what people do is drawn, and not written by somebody.
    fn is_drawn(&self) -> bool {
        [CHURN, WORKLOADS].contains(&self.scenario_name.as_str())
    }
}

/// Draws from the seed whatever is not given.
pub fn cast(ask: &Ask) -> Result<Cast, CastError> {
    let (world, demand) = (world_of(ask.seed), demand(ask));
    let scenario_name = ask.scenario.as_deref().unwrap_or_else(|| drawn(ask.seed));
    let scenario = match scenario_name {
        CHURN => churn::draw(world, &demand),
        WORKLOADS => workloads::draw(world, demand.lasts),
        name if ask.lasts.is_some() => return Err(CastError::Lasts(name.to_owned())),
        name => Scenario::load(&file_of(name))?,
    };
    let plan = match (&ask.plan, ask.faults) {
        (Some(path), _) => read_plan(path)?,
        (None, Faults::Drawn) => Plan::draw(ask.seed, &shape(&scenario), scenario.lasts),
        (None, Faults::None) => Plan::none(),
    };
    let mutant = ask.mutant.as_deref().map(str::parse::<Mutant>).transpose()?;
    let is_churn = scenario_name == CHURN;
    let machines_max = is_churn.then(|| churn::machines_max(world)).flatten();
    Ok(Cast {
        scenario_name: scenario_name.to_owned(),
        scenario,
        plan,
        mutant,
        machines_max,
    })
}

/// What people do in the world of a seed that is not told.
fn drawn(seed: u64) -> &'static str {
    if worlds_before(seed) % WORKLOADS_EVERY == WORKLOADS_AT {
        WORKLOADS
    } else {
        CHURN
    }
}

/// What of a scenario a plan has to know.
fn shape(scenario: &Scenario) -> Shape {
    Shape {
        replicas: REPLICAS,
        moments: scenario.steps.iter().map(|step| step.at).collect(),
        departures: scenario
            .steps
            .iter()
            .filter(|step| gives_back(step))
            .map(|step| step.at)
            .collect(),
    }
}

/// Whether a machine goes by it: that of a claim which is deleted, or of a pool.
fn gives_back(step: &Step) -> bool {
    matches!(&step.action, Action::Delete(target) if target.kind.starts_with("Node"))
}

/// How much people want, and for how long.
fn demand(ask: &Ask) -> Demand {
    Demand {
        lasts: ask.lasts.unwrap_or(Demand::USUAL.lasts),
        ..Demand::USUAL
    }
}

/// The file of a scenario that is given by name or path.
pub(super) fn file_of(name: &str) -> PathBuf {
    let path = Path::new(name);
    let bare = path.extension().is_none() && path.components().count() == 1;
    if bare {
        Path::new(SCENARIOS).join(name).with_extension("yaml")
    } else {
        path.to_owned()
    }
}

fn read_plan(path: &Path) -> Result<Plan, CastError> {
    let wrong = |problem: String| CastError::Plan {
        path: path.to_owned(),
        problem,
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let plan: Plan = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    plan.check(REPLICAS).map_err(|error| wrong(error.to_string()))?;
    Ok(plan)
}

/// A seed that was played.
pub struct Played {
    /// What was played.
    pub cast: Cast,
    /// What came of it.
    pub outcome: Outcome,
    /// What went wrong in its world without faults.
    calm: Vec<Breach>,
}

/// Plays a seed. All entropy of this process must come from the seed already.
///
/// Where something goes wrong in it, it is compared with a play of the same world without that, by the operator as it
/// is: what was done more often than then must have a reason. What goes wrong in that play counts as well, unless the seed
/// is to show what is wrong with a mutant. The calm play comes second, so that the history of a seed is the same whether
/// another seed has played it already.
pub fn play(ask: &Ask, keep: Keep, observers: Vec<Observer>) -> anyhow::Result<Played> {
    let cast = cast(ask)?;
    let mut outcome = run(ask.seed, &cast, world::quiet(ask.seed), keep, observers)?;
    outcome.violations.extend(unasked(&cast.scenario, &outcome));
    let mut breaches = Vec::new();
    if !cast.plan.injections.is_empty() || cast.mutant.is_some() {
        let calm = calm_play(ask, &cast)?;
        outcome.violations.extend(compare(&calm.counts, &outcome));
        if cast.mutant.is_none() {
            breaches = calm.breaches;
            breaches.retain(|breach| cast.is_drawn() || !is_unmet(breach));
        }
    }
    Ok(Played {
        cast,
        outcome,
        calm: breaches,
    })
}

/// Whether something is blamed for not having happened: in a story that somebody wrote it may be what its faults bring.
fn is_unmet(breach: &Breach) -> bool {
    world::Verdict::Unmet.lack() == Some(breach.id.as_str())
}

/// The play of the same world in which nothing goes wrong.
fn calm_play(ask: &Ask, cast: &Cast) -> Result<Calm, InstallError> {
    let calm = Cast {
        plan: Plan::none(),
        mutant: None,
        ..cast.clone()
    };
    calm::play(ask.calm_plays.as_deref(), ask.seed, || {
        run(ask.seed, &calm, Duration::ZERO, Keep::Last(0), Vec::new())
            .map(|outcome| Calm::of(&calm.scenario, &outcome))
    })
}

fn run(
    seed: u64,
    cast: &Cast,
    quiet: Duration,
    keep: Keep,
    observers: Vec<Observer>,
) -> Result<Outcome, InstallError> {
    world::run(Setup {
        seed: world_of(seed),
        scenario: cast.scenario.clone(),
        plan: cast.plan.clone(),
        product: cast.mutant.map_or_else(product::product, product::mutant),
        replicas: REPLICAS,
        machines_max: cast.machines_max,
        quiet,
        keep,
        observers,
    })
}

impl Played {
    /// What it came to, as a line of a report.
    pub fn line(&self, ask: &Ask, real: Duration) -> Line {
        let outcome = &self.outcome;
        let own = outcome.violations.iter().map(Breach::from);
        let breaches: Vec<Breach> = own.chain(self.calm.iter().cloned()).collect();
        let counts = |hits: &BTreeMap<&'static str, u64>| {
            hits.iter()
                .map(|(name, times)| ((*name).to_owned(), *times))
                .collect()
        };
        Line {
            seed: ask.seed,
            scenario: self.cast.scenario_name.clone(),
            mutant: ask.mutant.clone(),
            options: ask.options(),
            verdict: self.verdict(&breaches),
            breaches,
            unmet: outcome.unmet.clone(),
            deeds: deeds(&outcome.counts),
            faults: counts(&outcome.faults),
            probes: counts(&outcome.probes.hits),
            requests: outcome.requests,
            effects: outcome.effects,
            simulated_seconds: outcome.simulated.as_secs(),
            real_millis: u64::try_from(real.as_millis()).unwrap_or(u64::MAX),
            trace: format!("{:016x}", outcome.trace),
        }
    }

    fn verdict(&self, breaches: &[Breach]) -> Verdict {
        match self.outcome.verdict.lack() {
            None => Verdict::of(breaches),
            Some(lack) => Verdict::Liveness(lack.to_owned()),
        }
    }
}

/// How often what was done to each kind.
fn deeds(counts: &Counts) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (deed, count) in counts {
        *all.entry(format!("{} {}", deed.verb.as_str(), deed.kind))
            .or_default() += count;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_written_story_expects_is_not_asked_of_it_without_its_faults() {
        let breach = |id: &str| Breach {
            id: id.to_owned(),
            at_seconds: 1,
            message: String::new(),
        };
        assert!(is_unmet(&breach("unmet")));
        assert!(!is_unmet(&breach("unfinished")) && !is_unmet(&breach("S1")));
        let mut ask = Ask::seed(5);
        for (scenario, is_drawn) in [("churn", true), ("workloads", true), ("preempted", false)] {
            ask.scenario = Some(scenario.to_owned());
            assert_eq!(cast(&ask).unwrap().is_drawn(), is_drawn, "{scenario}");
        }
    }

    #[test]
    fn what_is_not_given_is_drawn_from_the_seed() {
        let drawn = cast(&Ask::seed(5)).unwrap();
        assert_eq!(drawn.scenario_name, "churn");
        assert_eq!(drawn.plan, cast(&Ask::seed(5)).unwrap().plan);
        let other = cast(&Ask::seed(6)).unwrap();
        assert_eq!(drawn.scenario, other.scenario, "they share a world");
        assert_ne!(drawn.plan, other.plan);
        assert_ne!(drawn.scenario, cast(&Ask::seed(8)).unwrap().scenario);
    }

    #[test]
    fn in_every_ninth_world_people_run_workloads() {
        let names: Vec<String> = (0..6)
            .map(|world| cast(&Ask::seed(world * 8 + 3)).unwrap().scenario_name)
            .collect();
        assert_eq!(names, ["churn", "churn", "workloads", "churn", "churn", "churn"]);
    }

    #[test]
    fn there_may_be_few_machines_in_some_worlds_in_which_people_ask_for_them_within_the_reach_of_a_hunt() {
        let casts = (0..200).step_by(8).map(|seed| cast(&Ask::seed(seed)).unwrap());
        let few: Vec<Cast> = casts.filter(|cast| cast.machines_max.is_some()).collect();
        let seeds: Vec<&str> = few.iter().map(|cast| cast.scenario.name.as_str()).collect();
        assert!((1..15).contains(&seeds.len()), "{seeds:?}");
        assert!(few.iter().all(|cast| cast.scenario_name == "churn"));
    }

    #[test]
    fn a_scenario_that_is_asked_for_by_name_is_drawn_from_any_seed() {
        let mut ask = Ask::seed(0);
        ask.scenario = Some("workloads".to_owned());
        assert_eq!(cast(&ask).unwrap().scenario.name, "workloads-0");
    }

    #[test]
    fn what_cannot_be_found_is_named() {
        let ask = |change: fn(&mut Ask)| {
            let mut ask = Ask::seed(1);
            change(&mut ask);
            cast(&ask).unwrap_err().to_string()
        };
        assert!(ask(|ask| ask.scenario = Some("nowhere".into())).contains("examples/scenarios/nowhere.yaml"));
        assert!(
            ask(|ask| {
                ask.scenario = Some("preemption".into());
                ask.lasts = Some(Duration::from_mins(2));
            })
            .contains("--minutes")
        );
        assert!(ask(|ask| ask.mutant = Some("tame".into())).contains("error-as-absence"));
        assert!(ask(|ask| ask.plan = Some("no.yaml".into())).contains("no.yaml"));
    }
}
