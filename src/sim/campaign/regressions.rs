//! Histories that once failed, kept as plans of faults by name: they must never fail again.
//!
//! A plan and not only a seed, because what a seed draws changes with the code, and a plan does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::args::MINUTES_MAX;
use super::child::{Trial, TrialError};
use super::line::Line;
use super::options::Ask;
use crate::sim::faults::Plan;

/// A history that once failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regression {
    /// What was wrong.
    pub about: String,
    /// Where all other chance comes from.
    pub seed: u64,
    /// What people do.
    pub scenario: String,
    /// For how long, if not as long as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u64>,
    /// What goes wrong.
    pub plan: Plan,
}

/// Why regressions cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum RegressionError {
    /// A file cannot be read or written.
    #[error("{}", .0.display())]
    File(PathBuf, #[source] std::io::Error),
    /// A file is no regression.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The name is another one's.
    #[error("{} is there already; choose another name", .0.display())]
    Taken(PathBuf),
    /// Nothing can be run.
    #[error(transparent)]
    Trial(#[from] TrialError),
}

impl Regression {
    /// All of a folder, by name, in order.
    pub fn load_all(folder: &Path) -> Result<Vec<(String, Self)>, RegressionError> {
        let wrong = |error| RegressionError::File(folder.to_owned(), error);
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(wrong)? {
            files.push(entry.map_err(wrong)?.path());
        }
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
        files
            .iter()
            .map(|file| Ok((name_of(file), Self::load(file)?)))
            .collect()
    }

    fn load(file: &Path) -> Result<Self, RegressionError> {
        let text = fs::read_to_string(file).map_err(|error| RegressionError::File(file.to_owned(), error))?;
        let wrong = |problem| RegressionError::Format {
            path: file.to_owned(),
            problem,
        };
        let read: Self = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match read.minutes {
            Some(minutes) if minutes > MINUTES_MAX => Err(wrong(format!(
                "minutes: is {minutes}, and must be {MINUTES_MAX} at most"
            ))),
            _ => Ok(read),
        }
    }

    /// The file for a name that is free.
    pub fn vacant(folder: &Path, name: &str) -> Result<PathBuf, RegressionError> {
        let file = folder.join(format!("{name}.yaml"));
        if file.exists() {
            return Err(RegressionError::Taken(file));
        }
        Ok(file)
    }

    /// Keeps it under a name, which is free.
    pub fn save(&self, folder: &Path, name: &str) -> Result<PathBuf, RegressionError> {
        let file = Self::vacant(folder, name)?;
        let text = serde_saphyr::to_string(self).map_err(|error| RegressionError::Format {
            path: file.clone(),
            problem: error.to_string(),
        })?;
        fs::write(&file, text).map_err(|error| RegressionError::File(file.clone(), error))?;
        Ok(file)
    }

    /// Plays it; its plan is put into `folder`.
    pub async fn play(&self, folder: &Path, trial: &dyn Trial) -> Result<Line, RegressionError> {
        let file = folder.join("regression.yaml");
        let text = serde_saphyr::to_string(&self.plan).unwrap_or_default();
        fs::write(&file, text).map_err(|error| RegressionError::File(file.clone(), error))?;
        let ask = Ask {
            scenario: Some(self.scenario.clone()),
            plan: Some(file),
            lasts: self.minutes.map(Duration::from_mins),
            ..Ask::seed(self.seed)
        };
        Ok(trial.run(&ask).await?)
    }

    /// The faults of the plan that struck nobody in a run of it: where one did not, nothing was shown.
    pub fn missed(&self, line: &Line) -> Vec<&'static str> {
        let names = self.plan.injections.iter().map(|it| it.fault.name().as_str());
        let mut missed: Vec<&str> = names.filter(|name| !line.faults.contains_key(*name)).collect();
        missed.dedup();
        missed
    }
}

fn name_of(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::campaign::line::tests::fine;
    use crate::sim::faults::Shape;

    fn regression() -> Regression {
        let shape = Shape {
            replicas: 2,
            moments: Vec::new(),
            departures: Vec::new(),
        };
        Regression {
            about: "A machine was given up as soon as it was bought.".to_owned(),
            seed: 56,
            scenario: "churn".to_owned(),
            minutes: Some(40),
            plan: Plan::draw(56, &shape, Duration::from_mins(40)),
        }
    }

    #[test]
    fn what_is_kept_is_found_by_its_name() {
        let folder = std::env::temp_dir().join(format!("regressions-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        regression().save(&folder, "given-up-too-soon").unwrap();
        let again = regression().save(&folder, "given-up-too-soon").unwrap_err();
        assert!(
            again
                .to_string()
                .ends_with("given-up-too-soon.yaml is there already; choose another name"),
            "{again}"
        );
        let found = Regression::load_all(&folder).unwrap();
        assert_eq!(found, [("given-up-too-soon".to_owned(), regression())]);
        fs::write(folder.join("broken.yaml"), "seed: many").unwrap();
        let refused = Regression::load_all(&folder).unwrap_err().to_string();
        assert!(refused.contains("broken.yaml"), "{refused}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_history_that_would_not_end_is_refused() {
        let folder = std::env::temp_dir().join(format!("regressions-without-end-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let endless = Regression {
            minutes: Some(u64::MAX),
            ..regression()
        };
        endless.save(&folder, "endless").unwrap();
        let refused = Regression::load_all(&folder).unwrap_err().to_string();
        assert!(
            refused.contains("endless.yaml: minutes: is 18446744073709551615"),
            "{refused}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_fault_of_the_plan_that_strikes_nobody_is_told() {
        let regression = regression();
        let mut line = fine(56);
        assert!(!regression.missed(&line).is_empty());
        for injection in &regression.plan.injections {
            line.faults.insert(injection.fault.name().as_str().to_owned(), 1);
        }
        assert!(regression.missed(&line).is_empty());
    }

    #[test]
    fn every_history_that_is_kept_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
        let kept = Regression::load_all(&folder).unwrap();
        assert!(!kept.is_empty());
        assert!(kept.iter().all(|(_, regression)| !regression.about.is_empty()));
    }
}
