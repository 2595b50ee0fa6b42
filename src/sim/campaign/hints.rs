//! What may have been meant where a scenario cannot be read.

use std::path::Path;

use super::play::CastError;
use crate::sim::scenario::LoadError;

/// Scenarios that are drawn and are in no file.
const DRAWN: [&str; 2] = ["churn", "workloads"];

/// What helps whoever is told of this error, if anything does.
pub(super) fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(CastError::Scenario(error)) = error.downcast_ref() {
        return of(error, &DRAWN);
    }
    of(error.downcast_ref()?, &[])
}

/// What was meant, or else which scenarios there are beside these.
fn of(error: &LoadError, others: &[&str]) -> Option<String> {
    match error {
        LoadError::Mistake(mistake) => mistake.hint.clone(),
        LoadError::Unreadable { path, .. } => {
            let mut names = scenarios_in(path.parent()?);
            if names.is_empty() {
                return None;
            }
            names.extend(others.iter().map(|name| (*name).to_owned()));
            Some(format!("there are {}", names.join(", ")))
        }
    }
}

/// The names of the scenarios of a folder, in order.
fn scenarios_in(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = files
        .map(|file| file.path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::campaign::options::Ask;
    use crate::sim::campaign::play::cast;
    use crate::sim::scenario::Scenario;

    fn asked(name: &str) -> Ask {
        Ask {
            scenario: Some(name.to_owned()),
            ..Ask::seed(0)
        }
    }

    #[test]
    fn whoever_asks_for_a_scenario_that_is_not_there_is_told_which_ones_are() {
        let hint = hint(&cast(&asked("nosuch")).unwrap_err().into()).unwrap();
        assert!(hint.starts_with("there are answer-lost, "), "{hint}");
        assert!(hint.ends_with(", preempted, churn, workloads"), "{hint}");
        for name in hint["there are ".len()..].split(", ") {
            assert!(cast(&asked(name)).is_ok(), "{name}");
        }
        assert_eq!(
            super::hint(&cast(&asked("/nowhere/nosuch.yaml")).unwrap_err().into()),
            None
        );
    }

    #[test]
    fn a_mistake_in_a_scenario_says_what_may_have_been_meant() {
        let refused = Scenario::parse("x.yaml", "name: x\nabuot: y\n").unwrap_err();
        assert_eq!(hint(&refused.into()).as_deref(), Some("did you mean `about`?"));
    }
}
