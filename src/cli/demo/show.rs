//! What is to be shown, from what was asked for: everything is checked before anything starts.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Args;
use crate::cli::{BadInput, draft};
use crate::ibm::builtin;
use crate::sim::scenario::{Action, LoadError, Scenario};

/// The story that is told when no other is asked for.
const STORY: &str = include_str!("../../../examples/scenarios/demo.yaml");
/// What it refers to.
const FILES: &[(&str, &str)] = &[(
    "../spot-with-on-demand-fallback.yaml",
    include_str!("../../../examples/spot-with-on-demand-fallback.yaml"),
)];
/// What there is to see when no story is told.
const NO_STORY: &str =
    "A cluster without nodes and an account without machines: apply pods, and machines come for them.";
/// Beyond this an hour passes in a second, and no client keeps up.
const SPEED_MAX: f64 = 3600.0;

/// How simulated time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tempo {
    /// So many times as fast as the wall clock.
    Times(f64),
    /// As fast as things can happen.
    Unbounded,
}

/// What happens after the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Afterwards {
    /// The stage stays open until the user ends it.
    Open,
    /// It is over.
    Over,
}

/// A performance, with everything that it needs.
pub(super) struct Show {
    pub(super) scenario: Scenario,
    /// What is applied when the story is over, so that whoever has the stage then finds NodePools.
    pub(super) encore: Vec<Value>,
    pub(super) tempo: Tempo,
    pub(super) afterwards: Afterwards,
    pub(super) seed: u64,
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) listen: SocketAddr,
    pub(super) cloud_listen: SocketAddr,
    pub(super) picture: Option<Canvas>,
}

/// Where the picture is put.
pub(super) struct Canvas {
    pub(super) path: PathBuf,
    /// What keeps those who read from a pipe until there is something to read.
    _open: Option<File>,
}

impl Show {
    /// Checks what was asked for.
    pub(super) fn new(args: &Args) -> Result<Self, BadInput> {
        if !(args.speed > 0.0 && args.speed <= SPEED_MAX) {
            return Err(BadInput::new(format!(
                "--speed must be above 0 and at most {SPEED_MAX}"
            )));
        }
        let region = args.region.as_deref().map(known).transpose()?;
        let mut scenario = scenario(args.script.as_ref().and_then(Option::as_deref), region)?;
        let mut encore = pools(&scenario);
        if args.no_story {
            scenario.objects.append(&mut encore);
            scenario.steps.clear();
            NO_STORY.clone_into(&mut scenario.about);
        }
        let (tempo, afterwards) = match args.script {
            Some(_) => (Tempo::Unbounded, Afterwards::Over),
            None => (Tempo::Times(args.speed), Afterwards::Open),
        };
        Ok(Self {
            scenario,
            encore,
            tempo,
            afterwards,
            seed: args.seed,
            kubeconfig: args.kubeconfig.clone(),
            listen: args.listen,
            cloud_listen: args.cloud_listen,
            picture: args.picture.as_deref().map(drawable).transpose()?,
        })
    }
}

fn scenario(path: Option<&Path>, region: Option<&str>) -> Result<Scenario, BadInput> {
    let read = match path {
        Some(path) => Scenario::load_in(path, region),
        None => Scenario::parse_in("demo.yaml", STORY, FILES, region),
    };
    read.map_err(|error| {
        let problem = BadInput::new(error.to_string());
        match error {
            LoadError::Mistake(mistake) => match mistake.hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            },
            LoadError::Unreadable { .. } => problem.hint("--script takes the path of a scenario, or none"),
        }
    })
}

/// The NodePools that a story applies: without any, pods of whoever has the stage would find nothing.
fn pools(scenario: &Scenario) -> Vec<Value> {
    let applied = scenario.steps.iter().filter_map(|step| match &step.action {
        Action::Apply(manifests) => Some(manifests),
        _ => None,
    });
    let pools = applied
        .flatten()
        .filter(|manifest| manifest["kind"] == "NodePool");
    pools.cloned().collect()
}

/// A file that can be written. What is there stays until there is a picture.
fn drawable(path: &Path) -> Result<Canvas, BadInput> {
    match draft::check(path) {
        Ok(open) => Ok(Canvas {
            path: path.to_owned(),
            _open: open,
        }),
        Err(error) => Err(BadInput::new(format!(
            "--picture: cannot write {}: {error}",
            path.display()
        ))),
    }
}

fn known(region: &str) -> Result<&str, BadInput> {
    if builtin::find_region(region).is_some() {
        return Ok(region);
    }
    let known = builtin::REGIONS.map(|region| region.name).join(", ");
    let problem = BadInput::new(format!("`{region}` is not a region of IBM Cloud VPC"));
    Err(problem.hint(format!("--region may be one of {known}")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn show(args: &[&str]) -> Result<Show, BadInput> {
        let words = ["demo"].iter().chain(args);
        Show::new(&Cli::try_parse_from(words).unwrap().args)
    }

    #[test]
    fn whoever_has_the_stage_finds_pools_after_the_story_and_without_one() {
        let names = |pools: &[Value]| {
            let pools = pools.iter().filter(|object| object["kind"] == "NodePool");
            pools
                .map(|pool| pool["metadata"]["name"].to_string())
                .collect::<Vec<_>>()
        };
        let demo = [r#""spot-first""#, r#""on-demand-fallback""#];
        let told = show(&[]).unwrap();
        assert_eq!(names(&told.encore), demo);
        assert!(names(&told.scenario.objects).is_empty());
        let untold = show(&["--no-story"]).unwrap();
        assert!(untold.encore.is_empty());
        assert_eq!(names(&untold.scenario.objects), demo);
    }

    #[test]
    fn a_story_that_names_a_zone_is_refused_in_another_region_before_it_is_played() {
        let path = std::env::temp_dir().join(format!("karpenter-ibm-show-{}.yaml", std::process::id()));
        let steps = "steps:\n  - drain: {profile: bxf-4x16, zone: us-south-1}\n";
        fs::write(&path, format!("name: x\nabout: y\n{steps}")).unwrap();
        let script = format!("--script={}", path.display());
        assert_eq!(show(&[&script]).unwrap().scenario.region, "us-south");
        let refused = show(&[&script, "--region", "eu-de"]).map(|show| show.scenario.region);
        assert_eq!(
            refused.unwrap_err().to_string(),
            format!(
                "{}:4: steps[0].drain.zone: \"us-south-1\" is no zone of eu-de",
                path.display()
            )
        );
        assert_eq!(show(&["--region", "eu-de"]).unwrap().scenario.region, "eu-de");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_picture_stays_what_it_was_until_there_is_another() {
        let path = std::env::temp_dir().join(format!("karpenter-ibm-show-{}.svg", std::process::id()));
        fs::write(&path, "<svg/>").unwrap();
        let picture = path.to_str().unwrap();
        show(&["--script", "--picture", picture]).unwrap();
        assert!(show(&["--script=/nonexistent/x.yaml", "--picture", picture]).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "<svg/>");
        fs::remove_file(&path).unwrap();
    }
}
