//! `simulate --shrink`: the fewest faults with which a seed still fails, as a plan that replays it.

use std::path::Path;
use std::process::ExitCode;

use super::args::Args;
use super::child::Trial;
use super::command::say;
use super::line::{Line, Verdict};
use super::options::Ask;
use super::play::{self, Cast};
use super::progress::Trying;
use super::regressions::Regression;
use super::report::replay_of;
use super::shrink::shrink;
use super::so_far::SoFar;
use crate::sim::faults::{Injection, Plan};

/// How many runs shrinking may take.
const RUNS_MAX: u64 = 300;
/// What the plan is called in the command that replays it.
const FILE: &str = "shrunk.yaml";

/// Runs shorter and shorter plans, and prints the shortest that still fails in the same way. It is kept in `regressions`
/// if it is to be.
pub(super) async fn shorten(
    args: &Args,
    ask: &Ask,
    (scratch, regressions): (&Path, &Path),
    trial: &dyn Trial,
    so_far: &SoFar,
) -> anyhow::Result<ExitCode> {
    if let Some(name) = &args.save {
        savable(args, regressions, name)?;
    }
    let cast = play::cast(ask)?;
    let all = &cast.plan.injections;
    let bar = Trying::new();
    bar.run(0, all.len(), all.len());
    let first = trial.run(ask).await?;
    if first.verdict == Verdict::Ok {
        drop(bar);
        say(&format!("seed {} does not fail: nothing to shrink", ask.seed))?;
        return Ok(ExitCode::FAILURE);
    }
    let file = scratch.join(FILE);
    let with = Ask {
        plan: Some(file.clone()),
        scenario: Some(cast.scenario_name.clone()),
        ..ask.clone()
    };
    let (mut runs, mut left) = (0, all.len());
    let fails = async |injections: &[Injection]| -> anyhow::Result<bool> {
        runs += 1;
        bar.run(runs, left, all.len());
        let plan = Plan {
            injections: injections.to_vec(),
        };
        std::fs::write(&file, serde_saphyr::to_string(&plan)?)?;
        let fails = trial.run(&with).await?.verdict.is_like(&first.verdict);
        if fails {
            left = injections.len();
            so_far.shrunk(page(ask, &cast, &first, &plan, runs)?);
        }
        Ok(fails)
    };
    let shrunk = shrink(all, RUNS_MAX, fails).await?;
    drop(bar);
    let plan = Plan {
        injections: shrunk.kept,
    };
    say(&page(ask, &cast, &first, &plan, shrunk.runs)?)?;
    if let Some(name) = &args.save {
        let kept = regression(args, ask.seed, cast, &first, plan).save(regressions, name)?;
        say(&format!("# kept as {}", kept.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether what fails can be kept under this name.
fn savable(args: &Args, regressions: &Path, name: &str) -> anyhow::Result<()> {
    if let Some(mutant) = &args.mutant {
        anyhow::bail!(
            "--save keeps what the operator itself does wrong, and {mutant} is a broken variant of it; leave out --save or \
             --mutant"
        );
    }
    Regression::vacant(regressions, name)?;
    Ok(())
}

fn regression(args: &Args, seed: u64, cast: Cast, first: &Line, plan: Plan) -> Regression {
    let about = first.breaches.first().map(|breach| breach.message.clone());
    Regression {
        about: about.or_else(|| first.unmet.first().cloned()).unwrap_or_default(),
        seed,
        scenario: cast.scenario_name,
        minutes: args.minutes,
        plan,
    }
}

/// A plan as a file of its own: what it shows, and the command that replays it, are comments.
fn page(ask: &Ask, cast: &Cast, first: &Line, plan: &Plan, runs: u64) -> anyhow::Result<String> {
    let again = Ask {
        plan: Some(FILE.into()),
        scenario: Some(cast.scenario_name.clone()),
        ..ask.clone()
    };
    Ok(format!(
        "# seed {} of {}: {}, with {} of {} faults, after {runs} runs\n{}\n# replay, with this page as {FILE}:\n#   {}",
        ask.seed,
        cast.scenario_name,
        first.verdict,
        plan.injections.len(),
        cast.plan.injections.len(),
        serde_saphyr::to_string(plan)?.trim_end(),
        replay_of(ask.seed, &again.options())
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::sim::campaign::line::tests::fine;

    #[test]
    fn what_is_left_is_a_plan_that_names_the_command_which_replays_it() {
        let ask = Ask {
            mutant: Some("stale-list".to_owned()),
            ..Ask::seed(3)
        };
        let cast = play::cast(&ask).unwrap();
        let first = Line {
            verdict: Verdict::Crash,
            ..fine(3)
        };
        let plan = Plan {
            injections: cast.plan.injections[..1].to_vec(),
        };
        let page = page(&ask, &cast, &first, &plan, 7).unwrap();
        let said = format!(
            "crash, with 1 of {} faults, after 7 runs",
            cast.plan.injections.len()
        );
        assert!(page.contains(&said), "{page}");
        let read: Plan = serde_saphyr::from_str(&page).unwrap();
        assert_eq!(read, plan);
        let command = "cargo run --release --bin simulate -- --replay 3 --scenario churn --mutant stale-list --plan shrunk.yaml";
        assert!(page.ends_with(command), "{page}");
    }

    #[test]
    fn what_a_broken_variant_does_wrong_is_not_kept() {
        let args = Args::parse_from(["simulate", "--shrink", "1", "--save", "x", "--mutant", "deaf"]);
        let refused = savable(&args, Path::new("/nowhere"), "x")
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("--save") && refused.contains("deaf is a broken variant"),
            "{refused}"
        );
        let args = Args::parse_from(["simulate", "--shrink", "1", "--save", "x"]);
        assert!(savable(&args, Path::new("/nowhere"), "x").is_ok());
    }
}
