//! `karpenter-ibm demo` as its users meet it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The binary, with nothing of whoever runs the tests but a folder of its own.
fn demo(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter-ibm"));
    command
        .arg("demo")
        .args(args)
        .env_clear()
        .env("XDG_RUNTIME_DIR", folder)
        .stdin(Stdio::null());
    command
}

/// A folder that goes away with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("karpenter-ibm-demo-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// What commands have left for each other.
    fn left(&self) -> Vec<String> {
        let files = fs::read_dir(self.0.join("karpenter-ibm")).into_iter().flatten();
        files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ended(output: &Output, code: i32) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}{}", text(&output.stdout));
    said
}

/// What was said, done and expected, without what was seen in between and the bill: which of two claims is served first,
/// and what claims are called, hangs on the process's own hashes, which only `simulate` draws from the seed; so do times,
/// by seconds.
fn steps(told: &str) -> Vec<&str> {
    told.lines()
        .filter_map(|line| line.split_once("] "))
        .map(|(_, text)| text)
        .filter(|text| !text.starts_with(' ') && !text.contains(" paid for "))
        .map(|text| text.split_once(" the machine of ").map_or(text, |(done, _)| done))
        .collect()
}

/// What was seen of claims, machines, nodes, holds and events, whenever and in whichever order, with the pool's name for
/// that of a claim. Where each pod runs, and whether a node that goes is seen once more while it does, differs.
fn sights(told: &str) -> Vec<String> {
    let kinds = [
        "claim ",
        "the cloud ",
        "the machine ",
        "node ",
        "event ",
        "spot:",
        "on-demand:",
    ];
    let seen = told.lines().filter_map(|line| line.split_once("]   "));
    let seen = seen
        .map(|(_, text)| text)
        .filter(|text| kinds.iter().any(|kind| text.starts_with(kind)) && !text.ends_with(" is not ready"));
    let mut sights: Vec<String> = seen
        .map(|text| text.split(' ').map(nameless).collect::<Vec<_>>().join(" "))
        .collect();
    sights.sort();
    sights
}

/// A word without what is made up anew each time: the end of a claim's or pod's name, or a date.
fn nameless(word: &str) -> String {
    let bare = word.trim_end_matches([':', ';', ',']);
    if bare.parse::<jiff::Timestamp>().is_ok() {
        return "a date".to_owned();
    }
    let is_made_up = |part: &&str| part.len() >= 8 && part.chars().all(|c| c.is_ascii_hexdigit());
    match bare.split('-').find(is_made_up) {
        Some(part) => bare.split(part).next().unwrap_or_default().to_owned(),
        None => word.to_owned(),
    }
}

#[test]
fn the_script_tells_the_recorded_story_and_leaves_nothing_behind() {
    let folder = Folder::new("script");
    let picture = folder.0.join("demo.svg");
    let output = demo(&folder.0, &["--script", "--picture", picture.to_str().unwrap()])
        .output()
        .unwrap();
    ended(&output, 0);
    assert!(fs::read_to_string(picture).unwrap().ends_with("</svg>\n"));
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/scenarios/demo.transcript");
    let (told, golden) = (text(&output.stdout), fs::read_to_string(golden).unwrap());
    assert_eq!(steps(&told), steps(&golden));
    assert!(sights(&golden).len() > 100, "there is much to see");
    assert_eq!(sights(&told), sights(&golden));
    assert!(told.trim_end().ends_with("% saved"), "{told}");
    assert_eq!(folder.left(), [] as [&str; 0]);
}

#[test]
fn a_step_that_does_not_happen_fails_the_script_by_its_name() {
    let folder = Folder::new("unmet");
    let steps = "name: x\nabout: y\nsteps:\n  - expect: {within: 1m, nodes: 1 ready}\n";
    let output = demo(&folder.0, &["--script", &folder.file("x.yaml", steps)])
        .output()
        .unwrap();
    let said = ended(&output, 1);
    let expected = "error: the scenario x failed: step 1 (line 4): expected 1 node ready within 60s, but there are no nodes";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn an_unreadable_scenario_names_file_line_and_field() {
    let folder = Folder::new("unreadable");
    let wrong = folder.file(
        "x.yaml",
        "name: x\nabout: y\nsteps:\n  - at: 5s\n    sya: Hello.\n",
    );
    let said = ended(&demo(&folder.0, &["--script", &wrong]).output().unwrap(), 2);
    assert!(
        said.contains(&format!("error: {wrong}:5: steps[0].sya: is no field here")),
        "{said}"
    );
    assert!(said.contains("hint: did you mean `say`?"), "{said}");
    let without = folder.file(
        "y.yaml",
        "name: y\nabout: y\nsteps:\n  - apply: {file: nosuch.yaml}\n",
    );
    let said = ended(&demo(&folder.0, &["--script", &without]).output().unwrap(), 2);
    assert!(
        said.contains(&format!("error: {without}:4: steps[0].apply.file: cannot read ")),
        "{said}"
    );
    let absent = demo(&folder.0, &["--script", "/nonexistent/x.yaml"])
        .output()
        .unwrap();
    assert!(ended(&absent, 2).contains("cannot read /nonexistent/x.yaml"));
}

#[test]
fn wrong_arguments_are_bad_input() {
    let folder = Folder::new("wrong");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let theirs = folder.file("theirs", "somebody's own\n");
    let elsewhere = folder.file(
        "x.yaml",
        "name: x\nabout: y\nsteps:\n  - drain: {profile: bxf-4x16, zone: us-south-1}\n",
    );
    let table: [(&[&str], &str); 9] = [
        (
            &["--listen", &taken],
            &format!("--listen: cannot listen on {taken}: Address already in use"),
        ),
        (
            &["--cloud-listen", &taken],
            &format!("--cloud-listen: cannot listen on {taken}: Address already in use"),
        ),
        (
            &["--script", &elsewhere, "--region", "eu-de"],
            ":4: steps[0].drain.zone: \"us-south-1\" is no zone of eu-de",
        ),
        (
            &["--listen", "0.0.0.0:0"],
            "is not an address of this machine alone",
        ),
        (&["--speed", "0"], "--speed must be above 0 and at most 3600"),
        (&["--kubeconfig", &theirs], "--kubeconfig: cannot write"),
        (&["--no-story", "--script"], "cannot be used with"),
        (&["--script", "--speed", "5"], "cannot be used with"),
        (
            &["--script", "--picture", "/nonexistent/x.svg"],
            "--picture: cannot write /nonexistent/x.svg",
        ),
    ];
    for (args, said) in table {
        let output = demo(&folder.0, args).output().unwrap();
        let heard = ended(&output, 2);
        assert!(heard.contains(said), "{args:?}: {heard}");
        let causes = heard.matches("already in use").count();
        assert!(causes <= 1, "a cause is told once: {heard}");
    }
    let picture = folder.file("x.svg", "<svg/>");
    let unread = demo(
        &folder.0,
        &["--script", "/nonexistent/x.yaml", "--picture", &picture],
    )
    .output();
    ended(&unread.unwrap(), 2);
    assert_eq!(fs::read_to_string(picture).unwrap(), "<svg/>");
    assert_eq!(fs::read_to_string(theirs).unwrap(), "somebody's own\n");
    assert_eq!(folder.left(), [] as [&str; 0]);
}

#[test]
fn a_runtime_folder_that_cannot_be_used_is_said_with_what_helps() {
    let folder = Folder::new("runtime");
    let file = PathBuf::from(folder.file("runtime", "a file"));
    let said = ended(&demo(&file, &["--no-story"]).output().unwrap(), 2);
    assert!(
        said.contains("error: writing to ") && said.contains("Not a directory"),
        "{said}"
    );
    assert!(
        said.contains("hint: --kubeconfig PATH names another") && said.contains("XDG_RUNTIME_DIR"),
        "{said}"
    );
    let (kubeconfig, short) = (folder.0.join("kc"), folder.file("x.yaml", SHORT));
    let script = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--script", &short];
    let said = ended(&demo(&file, &script).output().unwrap(), 0);
    assert!(
        said.contains("other commands will need --endpoint http://127.0.0.1:"),
        "{said}"
    );
}

/// A story that is soon over.
const SHORT: &str =
    "name: x\nabout: y\nsteps:\n  - say: Hello.\n  - at: 1m\n    say: And?\n  - at: 2m\n    say: Over.\n";

#[test]
fn a_script_whose_reader_has_had_enough_comes_to_its_verdict_all_the_same() {
    let folder = Folder::new("head");
    let picture = folder.0.join("x.svg");
    let play = |steps: &str| {
        let script = folder.file("x.yaml", steps);
        let mut command = demo(
            &folder.0,
            &["--script", &script, "--picture", picture.to_str().unwrap()],
        );
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        child.wait_with_output().unwrap()
    };
    let unmet = format!("{SHORT}  - expect: {{within: 1m, nodes: 1 ready}}\n");
    let said = ended(&play(&unmet), 1);
    assert!(said.contains("error: the scenario x failed: step 4"), "{said}");
    ended(&play(SHORT), 0);
    assert!(fs::read_to_string(picture).unwrap().contains(">Over.<"));
    assert_eq!(folder.left(), [] as [&str; 0]);
}

/// A demo that runs, and is ended with this.
struct Running(Child);

impl Running {
    /// Starts one, and waits for its first words and those after `until`.
    fn start(mut command: Command, until: &str) -> (Self, String, BufReader<std::process::ChildStderr>) {
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Self(child);
        let mut lines = BufReader::new(running.0.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains(until) {
            assert!(lines.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        (running, said, lines)
    }

    fn interrupt(&self) {
        self.send("-INT");
    }

    fn send(&self, signal: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The word after `key` in what was said.
fn word<'a>(said: &'a str, key: &str) -> &'a str {
    said.split_once(key)
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .unwrap()
}

#[test]
fn kubectl_and_cloud_work_while_it_runs_and_ctrl_c_leaves_nothing() {
    let folder = Folder::new("live");
    let command = demo(&folder.0, &["--no-story", "--speed", "60"]);
    let (mut running, said, mut rest) = Running::start(command, "--endpoint");
    assert!(said.contains("apply pods, and machines come for them"), "{said}");
    assert!(!said.contains("IBM takes one back"), "no story is told: {said}");
    assert!(said.contains("Time is simulated"), "{said}");
    let (kubeconfig, endpoint) = (word(&said, "export KUBECONFIG="), word(&said, "--endpoint "));
    let classes = Command::new("kubectl")
        .args(["get", "ibmnodeclasses,nodepools", "-o", "name"])
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    assert_eq!(
        text(&classes.stdout),
        "ibmnodeclass.karpenter-ibm.sh/default\nnodepool.karpenter.sh/on-demand-fallback\nnodepool.karpenter.sh/spot-first\n",
        "{}",
        text(&classes.stderr)
    );
    // It is found without being named, too.
    let cloud = Command::new(env!("CARGO_BIN_EXE_karpenter-ibm"))
        .args(["cloud", "ls"])
        .env_clear()
        .env("XDG_RUNTIME_DIR", &folder.0)
        .output()
        .unwrap();
    assert!(cloud.status.success(), "{}", text(&cloud.stderr));

    running.interrupt();
    let mut goodbye = String::new();
    rest.read_to_string(&mut goodbye).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(0), "{goodbye}");
    assert!(
        goodbye.contains("the demo has ended; nothing is left running"),
        "{goodbye}"
    );
    let address = endpoint.trim_start_matches("http://");
    assert!(TcpStream::connect(address).is_err(), "{address} still answers");
    assert_eq!(folder.left(), [] as [&str; 0]);
}

#[test]
fn whoever_meddles_with_the_story_has_the_stage() {
    let folder = Folder::new("meddled");
    // A minute a second: the story deletes the pool itself after 38 minutes, and kubectl may take its time to start where
    // everything else is tested meanwhile. Without the pool the first step fails within ten minutes.
    let (mut running, said, mut rest) = Running::start(demo(&folder.0, &["--speed", "60"]), "--endpoint");
    let kubeconfig = word(&said, "export KUBECONFIG=");
    let delete = || {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["delete", "nodepool", "spot-first", "--wait=false"]);
        kubectl.env("KUBECONFIG", kubeconfig).output().unwrap()
    };
    // It is applied after five simulated seconds.
    let deleted = (0..50).any(|_| delete().status.success());
    assert!(deleted, "{}", text(&delete().stderr));
    let mut told = String::new();
    let mut lines = BufReader::new(running.0.stdout.take().unwrap());
    while !told.contains("The stage is yours") {
        assert!(lines.read_line(&mut told).unwrap() > 0, "it ended: {told}");
    }
    assert!(told.contains("The story goes no further: "), "{told}");
    assert!(
        told.contains("> somebody applies NodePool spot-first, NodePool on-demand-fallback"),
        "{told}"
    );
    running.interrupt();
    let mut goodbye = String::new();
    rest.read_to_string(&mut goodbye).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(0), "{goodbye}");
    assert!(goodbye.contains("the demo has ended"), "{goodbye}");
}

#[test]
fn the_kubeconfig_is_named_so_that_it_is_found_from_anywhere() {
    let folder = Folder::new("absolute");
    let mut command = demo(&folder.0, &["--no-story", "--kubeconfig", "my kc"]);
    command.current_dir(&folder.0);
    let (running, said, _) = Running::start(command, "--endpoint");
    assert!(
        said.contains("  export KUBECONFIG='/") && said.contains("/my kc'"),
        "{said}"
    );
    assert!(folder.0.join("my kc").exists());
    drop(running);
}

#[test]
fn a_closed_terminal_leaves_nothing_and_neither_does_whoever_stops_it() {
    for signal in ["-HUP", "-QUIT", "-TERM"] {
        let folder = Folder::new(signal.trim_start_matches('-'));
        // Whoever runs the tests may have been told to outlive a terminal, which is handed down.
        let mut command = Command::new("/usr/bin/env");
        command
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_karpenter-ibm")])
            .args(["demo", "--no-story"])
            .env_clear()
            .env("XDG_RUNTIME_DIR", &folder.0)
            .stdin(Stdio::null());
        let (mut running, _, mut rest) = Running::start(command, "--endpoint");
        assert_ne!(folder.left(), [] as [&str; 0]);
        running.send(signal);
        let mut goodbye = String::new();
        rest.read_to_string(&mut goodbye).unwrap();
        assert_eq!(running.0.wait().unwrap().code(), Some(0), "{signal}: {goodbye}");
        assert_eq!(folder.left(), [] as [&str; 0], "{signal}");
    }
}

#[test]
fn a_script_that_is_interrupted_says_so_and_by_what() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let folder = Folder::new(&format!("interrupted{signal}"));
        let long = folder.file(
            "x.yaml",
            "name: x\nabout: y\nsteps:\n  - at: 9000h\n    say: At last.\n",
        );
        let (mut running, _, mut rest) = Running::start(demo(&folder.0, &["--script", &long]), "--endpoint");
        running.send(signal);
        let mut goodbye = String::new();
        rest.read_to_string(&mut goodbye).unwrap();
        assert_eq!(running.0.wait().unwrap().code(), Some(code), "{goodbye}");
        assert!(goodbye.contains("interrupted before the end"), "{goodbye}");
        assert_eq!(folder.left(), [] as [&str; 0]);
    }
}
