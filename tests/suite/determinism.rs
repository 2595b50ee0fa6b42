//! One seed, one history: `simulate` plays a seed the same way in every process, byte for byte.

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    command.args(arguments).output().expect("simulate runs")
}

/// The hash of the history of a seed.
fn trace(seed: u64) -> String {
    let output = simulate(&["--seed", &seed.to_string(), "--minutes", "2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let line: Option<serde_json::Value> = text
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok());
    let trace = line.and_then(|line| line["trace"].as_str().map(str::to_owned));
    trace.unwrap_or_else(|| panic!("seed {seed}: {text}\n{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_seed_has_one_history_and_different_seeds_have_different_ones() {
    let first: Vec<String> = (0..3).map(trace).collect();
    let second: Vec<String> = (0..3).map(trace).collect();
    assert_eq!(first, second);
    let distinct: std::collections::BTreeSet<&String> = first.iter().collect();
    assert_eq!(distinct.len(), first.len());
}

#[test]
fn a_trace_is_the_same_line_by_line() {
    let arguments = ["--seed", "3", "--minutes", "2", "--trace"];
    let (first, second) = (simulate(&arguments), simulate(&arguments));
    let lines = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let (first, second) = (lines(&first), lines(&second));
    // The last line also tells how long it took, which is not part of the history.
    let entries = |text: &'_ str| text.lines().filter(|line| !line.starts_with('{')).count();
    assert_eq!(entries(&first), entries(&second));
    let both = first.lines().zip(second.lines());
    let differs = both
        .filter(|(line, _)| !line.starts_with('{'))
        .find(|(a, b)| a != b);
    assert_eq!(differs, None);
    assert!(first.lines().count() > 100);
}
