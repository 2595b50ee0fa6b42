//! What is to be shown, from what was asked for: everything is checked before anything starts.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Args;
use crate::cli::BadInput;
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
    pub(super) tempo: Tempo,
    pub(super) afterwards: Afterwards,
    pub(super) seed: u64,
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) listen: SocketAddr,
    pub(super) cloud_listen: SocketAddr,
    pub(super) picture: Option<PathBuf>,
}

impl Show {
    /// Checks what was asked for.
    pub(super) fn new(args: &Args) -> Result<Self, BadInput> {
        if !(args.speed > 0.0 && args.speed <= SPEED_MAX) {
            return Err(BadInput::new(format!(
                "--speed must be above 0 and at most {SPEED_MAX}"
            )));
        }
        let mut scenario = scenario(args.script.as_ref().and_then(Option::as_deref))?;
        if let Some(region) = &args.region {
            scenario.region = known(region)?;
        }
        if args.no_story {
            let pools = pools(&scenario);
            scenario.objects.extend(pools);
            scenario.steps.clear();
            NO_STORY.clone_into(&mut scenario.about);
        }
        let (tempo, afterwards) = match args.script {
            Some(_) => (Tempo::Unbounded, Afterwards::Over),
            None => (Tempo::Times(args.speed), Afterwards::Open),
        };
        Ok(Self {
            scenario,
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

fn scenario(path: Option<&Path>) -> Result<Scenario, BadInput> {
    let read = match path {
        Some(path) => Scenario::load(path),
        None => Scenario::parse_with("demo.yaml", STORY, FILES),
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

/// The path of a file that can be written: it is made empty.
fn drawable(path: &Path) -> Result<PathBuf, BadInput> {
    match fs::write(path, "") {
        Ok(()) => Ok(path.to_owned()),
        Err(error) => Err(BadInput::new(format!(
            "--picture: cannot write {}: {error}",
            path.display()
        ))),
    }
}

fn known(region: &str) -> Result<String, BadInput> {
    if builtin::find_region(region).is_some() {
        return Ok(region.to_owned());
    }
    let known = builtin::REGIONS.map(|region| region.name).join(", ");
    let problem = BadInput::new(format!("`{region}` is not a region of IBM Cloud VPC"));
    Err(problem.hint(format!("--region may be one of {known}")))
}
