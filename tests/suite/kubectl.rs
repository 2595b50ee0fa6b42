//! The real kubectl against the embedded API server, verb by verb.
//!
//! Each test has a server of its own on loopback. kubectl sends no credential to a plain-HTTP server, so whoever
//! reaches this one is its administrator.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::kube::identity::{Keys, User};
use karpenter_ibm::sim::kube::{ApiServer, Options};
use serde_json::Value;
use tokio::runtime::Runtime;

/// A server, and a kubectl that talks to it.
struct Cluster {
    url: String,
    /// kubectl's home: its caches, and the manifests of the test.
    home: PathBuf,
    _runtime: Runtime,
}

impl Cluster {
    fn start() -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let turn = STARTED.fetch_add(1, Ordering::Relaxed);
        let home = std::env::temp_dir().join(format!("karpenter-ibm-kubectl-{}-{turn}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let address = runtime.block_on(async {
            let server = ApiServer::new(Options {
                clock: Clock::system(),
                seed: 1,
                keys: Keys::Fixed,
            });
            let router = server.router().layer(from_fn(as_admin));
            let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                .await
                .unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move { axum::serve(listener, router).await });
            address
        });
        Self {
            url: format!("http://{address}"),
            home,
            _runtime: runtime,
        }
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(["--server", &self.url, "--cache-dir"])
            .arg(self.home.join("cache"))
            .args(words(arguments))
            .env("HOME", &self.home)
            .env("KUBECONFIG", self.home.join("none"))
            .env_remove("KUBECTL_PATH")
            .stdin(Stdio::null());
        command
    }

    fn output(&self, arguments: &str) -> Output {
        let output = self.command(arguments).output();
        output.unwrap_or_else(|error| {
            panic!(
                "cannot run kubectl ({error}): install kubectl 1.31 or later on PATH, or put the one that \
                 `hack/control-plane up` builds there by `eval \"$(hack/control-plane env)\"`"
            )
        })
    }

    /// Runs kubectl, which must succeed; what it printed.
    fn kubectl(&self, arguments: &str) -> String {
        let output = self.output(arguments);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "kubectl {arguments}\n{out}\n{err}");
        out.into_owned()
    }

    /// Runs kubectl, which must fail; what it complained.
    fn refused(&self, arguments: &str) -> String {
        let output = self.output(arguments);
        assert!(!output.status.success(), "kubectl {arguments} succeeded");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs kubectl beside the test.
    fn begin(&self, arguments: &str) -> Child {
        let mut command = self.command(arguments);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Writes a manifest and applies it.
    fn apply(&self, manifest: &str) -> String {
        let path = self.manifest(manifest);
        self.kubectl(&format!("apply -f {path}"))
    }

    fn manifest(&self, manifest: &str) -> String {
        static WRITTEN: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}.yaml", WRITTEN.fetch_add(1, Ordering::Relaxed));
        let path = self.home.join(name);
        std::fs::write(&path, manifest).unwrap();
        path.display().to_string()
    }

    fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.kubectl(&format!("{arguments} -o json"))).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
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

async fn as_admin(mut request: Request, next: Next) -> axum::response::Response {
    request.extensions_mut().insert(User::admin());
    next.run(request).await
}

/// The columns of each line, single-spaced.
fn rows(table: &str) -> Vec<String> {
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn version_says_which_release_the_server_is() {
    let cluster = Cluster::start();
    let text = cluster.kubectl("version");
    assert!(text.contains("Server Version: v1.35.4"), "{text}");
}
