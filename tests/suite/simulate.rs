//! `simulate`, as a developer runs it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn simulate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_simulate"))
}

fn run(arguments: &[&str]) -> Output {
    simulate().args(arguments).output().unwrap()
}

/// A file with this text.
fn written(name: &str, text: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, text).unwrap();
    file
}

/// Refused with status 2 and a sentence that says these things.
fn assert_refused(output: &Output, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part}: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn a_range_that_is_none_is_refused_with_an_example() {
    assert_refused(&run(&["--seeds", "9..3"]), &["9..3", "0..2000"]);
}

#[test]
fn a_scenario_that_cannot_be_read_is_refused_by_file_line_and_field() {
    assert_refused(
        &run(&["--seeds", "0..2", "--scenario", "/nowhere/at-all.yaml"]),
        &["/nowhere/at-all.yaml"],
    );
    let file = written(
        "bad.yaml",
        "name: bad\nabout: a story\nsteps:\n- at: 1m\n  conjure: {}\n",
    );
    let file = file.to_str().unwrap();
    assert_refused(
        &run(&["--seeds", "0..2", "--scenario", file]),
        &["bad.yaml:5", "steps[0]", "conjure"],
    );
}

#[test]
fn a_plan_that_cannot_be_read_is_refused_by_its_name() {
    assert_refused(
        &run(&["--replay", "1", "--plan", "/nowhere/plan.yaml"]),
        &["/nowhere/plan.yaml"],
    );
}

/// The processes of a group that have not ended.
fn members(group: u32) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let stat = |path: &Path| fs::read_to_string(path.join("stat")).ok();
    let stats = all.filter_map(|entry| stat(&entry.path()));
    // After the name, which is in parentheses: state, parent, group.
    let is_member = |stat: &String| {
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        fields.first() != Some(&"Z") && fields.get(2) == Some(&group.to_string().as_str())
    };
    stats.filter(is_member).collect()
}

#[test]
fn control_c_ends_it_with_130_and_leaves_nothing_running() {
    let mut child = simulate()
        .args(["--seeds", "0..100000", "--minutes", "2", "--jobs", "2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = child.id();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(
        lines.next().unwrap().unwrap().starts_with('{'),
        "a first seed is through"
    );
    let sent = Command::new("kill")
        .args(["-INT", &group.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(said.iter().any(|line| line.contains("interrupted")), "{said:?}");
    // Who was told to end may take a moment.
    for _ in 0..100 {
        if members(group).is_empty() {
            return;
        }
        assert!(Command::new("sleep").arg("0.1").status().unwrap().success());
    }
    panic!("left running: {:?}", members(group));
}
