//! The scenarios under `examples/scenarios`, each played and compared with its transcript.
//!
//! `UPDATE_TRANSCRIPTS=1` writes the transcripts, and the README's, in place of comparing them.

use std::fs;
use std::path::{Path, PathBuf};

use std::process::{Child, Command, Stdio};

use karpenter_ibm::sim::scenario::{Action, Scenario};

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
    tell_with(name, &[])
}

fn tell_with(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["--transcript", name])
        .args(arguments)
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
    compare(&tell(name), &path(name, "transcript"));
    let scenario = Scenario::load(&path(name, "yaml")).unwrap();
    assert_eq!(scenario.name, name, "a scenario is called as its file is");
}

fn compare(made: &str, recorded: &Path) {
    if updating() {
        fs::write(recorded, made).unwrap();
    }
    let golden = fs::read_to_string(recorded).unwrap_or_default();
    assert_eq!(
        made,
        golden,
        "{}: UPDATE_TRANSCRIPTS=1 takes what is told now",
        recorded.display()
    );
}

/// Whether every element of an XML text is closed, in order.
fn is_well_formed(text: &str) -> bool {
    let mut open = Vec::new();
    for tag in text.split('<').skip(1) {
        let Some((tag, words)) = tag.split_once('>') else {
            return false;
        };
        let name = tag.split_whitespace().next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(name) if open.pop() != Some(name) => return false,
            None if !tag.ends_with('/') => open.push(name),
            _ => {}
        }
        if tag.matches('"').count() % 2 == 1
            || words
                .replace("&amp;", "")
                .replace("&lt;", "")
                .replace("&gt;", "")
                .contains('&')
        {
            return false;
        }
    }
    open.is_empty()
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
    let drawn = std::env::temp_dir().join(format!("karpenter-ibm-picture-{}.svg", std::process::id()));
    let told = tell_with("demo", &["--picture", drawn.to_str().unwrap()]);
    compare(&told, &path("demo", "transcript"));
    let picture = fs::read_to_string(&drawn).unwrap();
    fs::remove_file(&drawn).unwrap();
    compare(&picture, &root().join("docs/demo.svg"));
    assert!(is_well_formed(&picture));
    let scenario = Scenario::load(&path("demo", "yaml")).unwrap();
    for step in &scenario.steps {
        if let Action::Say(phase) = &step.action {
            assert!(
                picture.contains(&format!(">{phase}<")),
                "the picture lacks: {phase}"
            );
        }
    }
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
fn what_is_not_closed_is_not_well_formed() {
    assert!(is_well_formed(
        r#"<svg a="1"><g/><text x="2">1 &lt; 2</text></svg>"#
    ));
    for wrong in ["<svg>", "<a><b></a></b>", r#"<a x="1></a>"#, "<a>R & D</a>", "<a"] {
        assert!(!is_well_formed(wrong), "{wrong}");
    }
}

/// The scenarios that there are.
fn names() -> Vec<String> {
    let files = fs::read_dir(root().join("examples/scenarios")).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Begins to play a scenario in a world of two replicas in which nothing goes wrong but what it says itself.
fn begin(name: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["--scenario", name, "--seed", "0", "--calm"])
        .current_dir(root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn what_the_demo_and_transcripts_play_a_world_plays_too() {
    let begun: Vec<(String, Child)> = names()
        .into_iter()
        .map(|name| {
            let child = begin(&name);
            (name, child)
        })
        .collect();
    for (name, child) in begun {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}{problem}");
        assert!(said.contains(r#""verdict":"ok""#), "{name}: {said}");
    }
}

#[test]
fn every_scenario_has_a_test() {
    assert_eq!(
        names(),
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
