//! `simulate`, as a developer runs it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

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
    for range in ["9..3", "many", "4..", "0..-1"] {
        assert_refused(&run(&["--seeds", range]), &[range, "0..2000"]);
    }
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
        &["bad.yaml:5", "steps[0]", "conjure", "hint: one of: at, apply"],
    );
}

#[test]
fn whoever_asks_for_a_scenario_that_is_not_there_is_told_which_ones_are() {
    let asked = simulate()
        .args(["--scenario", "nosuch"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert_refused(
        &asked,
        &["nosuch.yaml: No such file", "hint: there are answer-lost, "],
    );
    assert_eq!(
        said(&asked).matches("No such file").count(),
        1,
        "{}",
        said(&asked)
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

/// Looks every tenth of a second, for at most a minute.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        assert!(Command::new("sleep").arg("0.1").status().unwrap().success());
    }
    panic!("not within a minute: {what}");
}

/// One that is interrupted: in a group of its own, with a folder of its own for temporary files.
struct Interrupted {
    child: Child,
    folder: PathBuf,
}

/// A signal that ends it: as `kill` has it, and its number.
type Signal = (&'static str, i32);
const CONTROL_C: Signal = ("-INT", 2);
const TERMINAL_CLOSED: Signal = ("-HUP", 1);
const STOPPED: Signal = ("-TERM", 15);

impl Interrupted {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let folder = folder(name);
        // Whoever runs the tests may have been told to outlive a terminal, which is handed down.
        let child = Command::new("env")
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_simulate")])
            .args(arguments)
            .env("TMPDIR", &folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    /// Sends a signal, and says what was said after it. Nothing is left: no process, and no file.
    fn interrupt(mut self, (signal, number): Signal, whom: Whom) -> String {
        let group = self.child.id();
        let target = match whom {
            Whom::Everybody => format!("-{group}"),
            Whom::Parent => group.to_string(),
        };
        let sent = Command::new("kill").args([signal, "--", &target]).status();
        assert!(sent.unwrap().success());
        // Who writes more than a pipe holds would wait for a reader for ever.
        drop(self.child.stdout.take());
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(128 + number), "{said}");
        until("nobody is left", || members(group).is_empty());
        fs::remove_dir(self.folder.join("tests/regressions")).unwrap();
        fs::remove_dir(self.folder.join("tests")).unwrap();
        let left: Vec<_> = fs::read_dir(&self.folder).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        said
    }
}

/// To whom a signal goes.
#[derive(Clone, Copy)]
enum Whom {
    /// As a terminal sends it.
    Everybody,
    /// As somebody sends it who knows one process.
    Parent,
}

#[test]
fn control_c_ends_it_with_130_and_leaves_nothing_running() {
    let campaign = ["--seeds", "0..100000", "--minutes", "2", "--jobs", "2"];
    let mut running = Interrupted::start("interrupted-campaign", &campaign);
    let mut first = String::new();
    let mut lines = BufReader::new(running.child.stdout.take().unwrap());
    lines.read_line(&mut first).unwrap();
    assert!(first.starts_with('{'), "a first seed is through: {first}");
    let said = running.interrupt(CONTROL_C, Whom::Parent);
    assert!(
        said.contains("interrupted: the runs under way were ended, their seeds are not counted"),
        "{said}"
    );
    let mut page = String::new();
    lines.read_to_string(&mut page).unwrap();
    let last = page.lines().last().unwrap_or_default();
    assert!(last.contains(" passed, ") && last.ends_with(" failed"), "{page}");
    assert!(
        page.contains("verdicts: "),
        "what is known by then is told: {page}"
    );
}

#[test]
fn a_campaign_ends_when_nobody_reads_what_it_prints() {
    let mut campaign = simulate()
        .args(["--seeds", "0..100000", "--calm", "--minutes", "1", "--jobs", "2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(campaign.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.starts_with('{'), "{first}");
    until("the campaign has ended", || {
        campaign.try_wait().unwrap().is_some()
    });
    let output = campaign.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn lines_of_seeds_go_into_a_file_on_request() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lines.json");
    let campaign = [
        "--seeds",
        "1",
        "--calm",
        "--minutes",
        "1",
        "--json",
        file.to_str().unwrap(),
    ];
    let output = run(&campaign);
    let text = said(&output);
    assert_eq!(text.lines().last(), Some("1 passed, 0 failed"));
    assert!(text.contains("1 seed, ") && !text.contains('{'), "{text}");
    let line: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(line["verdict"], "ok");
}

#[test]
fn a_failing_seed_is_told_of_at_once_with_the_command_that_replays_it() {
    let file = written("failing.yaml", LIMITED);
    let file = file.to_str().unwrap();
    let campaign = ["--seeds", "0", "--minutes", "1", "--plan", file];
    let output = run(&[&campaign[..], &HASTY].concat());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("seed 0: safety:S15: cargo run "), "{told}");
    assert!(
        told.contains(&format!(
            "--replay 0 --mutant ignored-retry-after --plan {file} --minutes 1"
        )),
        "{told}"
    );
}

#[test]
fn whoever_ends_it_is_answered_whatever_is_under_way() {
    let plan = written("interrupted.yaml", LIMITED);
    let shrink = [
        "--shrink",
        "0",
        "--minutes",
        "1",
        "--plan",
        plan.to_str().unwrap(),
    ];
    let shrink = [&shrink[..], &HASTY].concat();
    let (seed, replay) = (
        ["--seed", "0", "--minutes", "600"],
        ["--replay", "0", "--minutes", "600"],
    );
    let cases: [(&str, &[&str], Signal, Whom); 9] = [
        ("seed", &seed, CONTROL_C, Whom::Everybody),
        ("seed-alone", &seed, CONTROL_C, Whom::Parent),
        ("replay", &replay, CONTROL_C, Whom::Everybody),
        ("replay-stopped", &replay, STOPPED, Whom::Parent),
        ("replay-hung-up", &replay, TERMINAL_CLOSED, Whom::Everybody),
        ("seed-hung-up-alone", &seed, TERMINAL_CLOSED, Whom::Parent),
        (
            "transcript",
            &["--transcript", "demo"],
            CONTROL_C,
            Whom::Everybody,
        ),
        ("shrink", &shrink, CONTROL_C, Whom::Parent),
        ("regressions", &["--regressions"], STOPPED, Whom::Parent),
    ];
    for (name, arguments, signal, whom) in cases {
        let running = Interrupted::start(&format!("interrupted-{name}"), arguments);
        let group = running.child.id();
        // It and the run that it waits for.
        until(name, || members(group).len() == 2);
        let said = running.interrupt(signal, whom);
        assert!(said.contains("interrupted: the run"), "{name}: {said}");
    }
}

/// A folder of its own, with one for regressions in it as the project has.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("tests/regressions")).unwrap();
    folder
}

fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    simulate().args(arguments).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    let (said, talked) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(said),
        String::from_utf8_lossy(talked)
    )
}

/// The second fault makes whoever does not wait as he is told ask too early; the first does nobody any harm.
const LIMITED: &str = "injections:
- at: 1s
  lasts: 1m
  stream: 7
  fault: {kube: {kind: k11-duplicates, percent: 100}}
- at: 1s
  lasts: 1m
  stream: 1
  fault: {cloud: {kind: rate-limit, probability: 1.0, times: 4, retry_after: seconds}}
";
const HASTY: [&str; 2] = ["--mutant", "ignored-retry-after"];

#[test]
fn a_failing_seed_is_shrunk_to_the_faults_that_it_needs() {
    let folder = folder("shrunk");
    fs::write(folder.join("plan.yaml"), LIMITED).unwrap();
    let shrink = ["--shrink", "0", "--plan", "plan.yaml", "--minutes", "1"];
    let output = run_in(&folder, &[&shrink[..], &HASTY].concat());
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("safety:S15, with 1 of 2 faults"), "{text}");
    assert!(
        text.contains("rate-limit") && !text.contains("duplicates"),
        "{text}"
    );
    let command = "--replay 0 --scenario churn --mutant ignored-retry-after --plan shrunk.yaml --minutes 1";
    assert!(text.trim_end().ends_with(command), "{text}");
    fs::write(folder.join("shrunk.yaml"), &output.stdout).unwrap();
    let arguments: Vec<&str> = command.split(' ').collect();
    let replayed = run_in(&folder, &arguments);
    let text = said(&replayed);
    assert_eq!(text.lines().last(), Some("verdict: safety:S15"), "{text}");
    let kept = [&shrink[..], &HASTY, &["--save", "asked-too-early"]].concat();
    assert_refused(
        &run_in(&folder, &kept),
        &["--save", "ignored-retry-after is a broken variant"],
    );
}

/// Nobody buys a machine in it.
const IN_VAIN: &str = "name: in-vain\nabout: y\nlasts: 1m\nsteps:\n- expect: {within: 1m, nodes: 1 ready}\n";

#[test]
fn what_is_left_of_a_failing_seed_is_kept_as_a_regression() {
    let folder = folder("kept");
    fs::write(folder.join("in-vain.yaml"), IN_VAIN).unwrap();
    let shrink = [
        "--shrink",
        "0",
        "--calm",
        "--scenario",
        "in-vain.yaml",
        "--save",
        "nobody-buys",
    ];
    let output = run_in(&folder, &shrink);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("kept as tests/regressions/nobody-buys.yaml"),
        "{text}"
    );
    let kept = fs::read_to_string(folder.join("tests/regressions/nobody-buys.yaml")).unwrap();
    assert!(kept.contains("scenario: in-vain.yaml"), "{kept}");
    let again = run_in(&folder, &shrink);
    assert_refused(&again, &["nobody-buys.yaml is there already"]);
}

#[test]
fn a_seed_that_does_not_fail_cannot_be_shrunk() {
    let output = run(&["--shrink", "0", "--calm", "--minutes", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("does not fail"), "{}", said(&output));
}

#[test]
fn a_replay_with_a_plan_tells_what_went_wrong_by_that_plan_and_the_verdict() {
    let file = written("replayed.yaml", LIMITED);
    let replay = [
        "--replay",
        "0",
        "--minutes",
        "1",
        "--plan",
        file.to_str().unwrap(),
    ];
    let output = run(&replay);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("k11-duplicates") && text.contains("c7-rate-limit"),
        "{text}"
    );
    assert_eq!(text.lines().last(), Some("verdict: ok"));
    let output = run(&[&replay[..], &HASTY].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = said(&output);
    assert_eq!(text.lines().last(), Some("verdict: safety:S15"));
    let told = text.lines().filter(|line| line.contains("  S15: "));
    assert_eq!(told.count(), 1, "in the list at the end: {text}");
    let told = text.lines().filter(|line| line.contains("  VIOLATED S15: "));
    assert!(told.count() > 0, "in its place in the story: {text}");
}

#[test]
fn a_replay_tells_what_did_not_happen() {
    let file = written("in-vain.yaml", IN_VAIN);
    let output = run(&["--replay", "0", "--calm", "--scenario", file.to_str().unwrap()]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let told = "did not happen: step 1 (line 5): expected 1 node ready within 60s";
    assert!(text.contains(told), "{text}");
    assert_eq!(text.lines().last(), Some("verdict: liveness:unmet"));
}

#[test]
fn a_plan_with_an_unknown_fault_is_refused() {
    let file = written("unknown.yaml", &LIMITED.replace("k11-duplicates", "k99-meteor"));
    let file = file.to_str().unwrap();
    assert_refused(
        &run(&["--replay", "0", "--plan", file]),
        &["unknown.yaml", "k99-meteor"],
    );
}

#[test]
fn a_plan_with_what_cannot_be_is_refused_by_file_and_field() {
    let table = [
        ("crash: {replica: 7}", "injections[0].fault.crash.replica: is 7"),
        (
            "cloud: {kind: slow, probability: 7}",
            "injections[0].fault.cloud.probability: is 7",
        ),
        (
            "cloud: {kind: slow, probability: 1, often: 7}",
            "unknown field `often`",
        ),
    ];
    for (fault, problem) in table {
        let file = written(
            "impossible.yaml",
            &format!("injections:\n- at: 1s\n  stream: 1\n  fault: {{{fault}}}\n"),
        );
        let output = run(&["--replay", "0", "--plan", file.to_str().unwrap()]);
        assert_refused(&output, &["impossible.yaml", problem]);
    }
}

/// What each seed came to, in order, and the last line.
fn campaign(jobs: &str) -> (Vec<(u64, String)>, String) {
    let output = run(&["--seeds", "1..3", "--calm", "--minutes", "1", "--jobs", jobs]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let mut seeds: Vec<(u64, String)> = lines
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            (line["seed"].as_u64().unwrap(), line["trace"].to_string())
        })
        .collect();
    seeds.sort();
    (seeds, text.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn how_many_seeds_run_at_a_time_changes_nothing_of_what_they_come_to() {
    let alone = campaign("1");
    assert_eq!(alone.0.len(), 2);
    assert_eq!(alone.1, "2 passed, 0 failed");
    assert_eq!(campaign("2"), alone);
}

#[test]
fn a_campaign_that_its_time_ends_has_not_failed() {
    let ended = [
        "--seeds",
        "0..100000",
        "--for",
        "1s",
        "--at-least",
        "2",
        "--calm",
        "--minutes",
        "1",
    ];
    let output = run(&ended);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let passed: u64 = text
        .lines()
        .last()
        .and_then(|last| last.strip_suffix(" passed, 0 failed")?.parse().ok())
        .unwrap_or_else(|| panic!("{text}"));
    assert!((2..1000).contains(&passed), "{passed}");
}
