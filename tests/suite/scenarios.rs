//! The scenarios under `examples/scenarios`, each played and compared with its transcript.
//!
//! `UPDATE_TRANSCRIPTS=1` writes the transcripts, and the README's, in place of comparing them.

use std::fs;
use std::path::{Path, PathBuf};

use std::process::Command;

use karpenter_ibm::sim::scenario::Scenario;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn path(name: &str, ending: &str) -> PathBuf {
    root().join(format!("examples/scenarios/{name}.{ending}"))
}

fn updating() -> bool {
    std::env::var_os("UPDATE_TRANSCRIPTS").is_some()
}

/// What is told in a scenario, in a process all of whose chance comes from a seed: keys and the order in which hashes are
/// gone through would otherwise move things by a second.
fn tell(name: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["--transcript", name])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Plays a scenario, and compares what was told with what should be.
fn check(name: &str) {
    let scenario = Scenario::load(&path(name, "yaml")).unwrap();
    assert_eq!(scenario.name, name, "a scenario is called as its file is");
    let told = tell(name);
    if updating() {
        fs::write(path(name, "transcript"), &told).unwrap();
    }
    let golden = fs::read_to_string(path(name, "transcript")).unwrap_or_default();
    assert_eq!(
        told, golden,
        "{name}: UPDATE_TRANSCRIPTS=1 takes what is told now"
    );
}

#[test]
fn one_claim_is_bought_used_and_given_back() {
    check("one-claim");
}

#[test]
fn machines_are_bought_for_pods_that_wait() {
    check("pods");
}

#[test]
fn a_preempted_machine_is_seen_and_cleaned_up() {
    check("preempted");
}

#[test]
fn a_crash_in_the_middle_changes_nothing() {
    check("crash-in-the-middle");
}

#[test]
fn a_machine_whose_answer_was_lost_is_adopted() {
    check("answer-lost");
}

#[test]
fn the_demo_is_told_as_recorded() {
    check("demo");
    let (readme, told) = (
        root().join("README.md"),
        fs::read_to_string(path("demo", "transcript")).unwrap(),
    );
    let text = fs::read_to_string(&readme).unwrap();
    let (before, rest) = text.split_once("```transcript\n").unwrap();
    let (shown, after) = rest.split_once("```").unwrap();
    if updating() {
        fs::write(&readme, format!("{before}```transcript\n{told}```{after}")).unwrap();
    } else {
        assert_eq!(shown, told, "the README shows another story");
    }
}

#[test]
fn every_scenario_has_a_test() {
    let files = fs::read_dir(root().join("examples/scenarios")).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "answer-lost",
            "crash-in-the-middle",
            "demo",
            "one-claim",
            "pods",
            "preempted"
        ]
    );
}
