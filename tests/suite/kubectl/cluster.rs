//! A server on loopback in this process, and a kubectl that talks to it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{ApiServer, Options, serve};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// A cluster of one test's own.
pub(super) struct Cluster {
    pub(super) server: ApiServer,
    /// kubectl's home: its configuration, its caches, and the manifests of the test.
    home: PathBuf,
    _runtime: Runtime,
}

impl Cluster {
    pub(super) fn start() -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let turn = STARTED.fetch_add(1, Ordering::Relaxed);
        let home =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kubectl-{}-{turn}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (server, url) = runtime.block_on(async {
            let server = ApiServer::new(Options {
                clock: Clock::system(),
                seed: 1,
                keys: Keys::Fixed,
            });
            let listener = serve::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let url = format!("https://{}", listener.local_addr().unwrap());
            let served = server.clone();
            tokio::spawn(async move { serve::serve(&served, listener, CancellationToken::new()).await });
            (server, url)
        });
        std::fs::write(home.join("kubeconfig"), serve::kubeconfig(&server, &url)).unwrap();
        Self {
            server,
            home,
            _runtime: runtime,
        }
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(words(arguments))
            .env("HOME", &self.home)
            .env("KUBECONFIG", self.home.join("kubeconfig"))
            .current_dir(&self.home)
            .stdin(Stdio::null());
        command
    }

    fn output(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap_or_else(|error| {
            panic!(
                "cannot run kubectl ({error}): put kubectl 1.31 or later on PATH; \
                 `hack/control-plane up && eval \"$(hack/control-plane env)\"` builds one and does so"
            )
        })
    }

    /// Runs kubectl, which must succeed; what it printed.
    pub(super) fn kubectl(&self, arguments: &str) -> String {
        let (out, err, success) = self.run(arguments);
        assert!(success, "kubectl {arguments}\n{out}\n{err}");
        out
    }

    /// Runs kubectl, which must fail; what it complained.
    pub(super) fn refused(&self, arguments: &str) -> String {
        let (out, err, success) = self.run(arguments);
        assert!(!success, "kubectl {arguments} succeeded: {out}");
        err
    }

    /// What kubectl printed and complained, and whether it succeeded.
    pub(super) fn run(&self, arguments: &str) -> (String, String, bool) {
        let output = self.output(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            text(&output.stdout),
            text(&output.stderr),
            output.status.success(),
        )
    }

    /// Begins a kubectl that runs beside the test.
    pub(super) fn begin(&self, arguments: &str) -> Running {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines }
    }

    /// Writes a manifest and applies it.
    pub(super) fn apply(&self, manifest: &str) -> String {
        let file = self.manifest(manifest);
        self.kubectl(&format!("apply -f {file}"))
    }

    /// Writes a manifest; the name of its file.
    pub(super) fn manifest(&self, manifest: &str) -> String {
        static WRITTEN: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}.yaml", WRITTEN.fetch_add(1, Ordering::Relaxed));
        std::fs::write(self.home.join(&name), manifest).unwrap();
        name
    }

    /// An object as JSON.
    pub(super) fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.kubectl(&format!("{arguments} -o json"))).unwrap()
    }

    /// Writes the status of an object, as its controller would.
    pub(super) fn set_status(&self, object: &str, status: &Value) {
        let patch = serde_json::json!({ "status": status });
        self.kubectl(&format!(
            "patch {object} --subresource=status --type=merge -p '{patch}'"
        ));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// A kubectl that runs beside the test, until it is dropped.
pub(super) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    /// The next line that it prints, single-spaced.
    pub(super) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Waits for its end; whether it succeeded.
    pub(super) fn succeeds(mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Splits at spaces outside single quotes, as a shell does.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut quoted, mut word) = (Vec::new(), false, String::new());
    for character in text.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            other => word.push(other),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// The columns of each line, single-spaced.
pub(super) fn rows(table: &str) -> Vec<String> {
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}
