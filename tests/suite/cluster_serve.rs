//! `karpenter-ibm cluster serve`, from the outside.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A directory of one test's own.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn command(kubeconfig: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter-ibm"));
    command.args(["cluster", "serve", "--kubeconfig"]).arg(kubeconfig);
    command
}

/// A cluster that is served until the test ends.
struct Served {
    child: Child,
    line: String,
}

impl Served {
    fn start(kubeconfig: &Path, more: &[&str]) -> Self {
        let mut child = command(kubeconfig)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        Self { child, line }
    }

    fn signal(&mut self, signal: &str) -> ExitStatus {
        let id = self.child.id().to_string();
        Command::new("kill").args([signal, &id]).status().unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test]
async fn it_says_where_it_listens_and_its_kubeconfig_works_for_its_owner_only() {
    let kubeconfig = directory("serve").join("kubeconfig");
    let served = Served::start(&kubeconfig, &["--crds"]);
    let port = served
        .line
        .strip_prefix("listening on https://127.0.0.1:")
        .unwrap();
    assert!(port.trim_end().parse::<u16>().is_ok(), "{}", served.line);
    let mode = fs::metadata(&kubeconfig).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let client = client(&kubeconfig).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert_eq!(
        namespaces.list(&ListParams::default()).await.unwrap().items.len(),
        4
    );
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    definitions.get("nodepools.karpenter.sh").await.unwrap();
}

#[test]
fn it_stops_when_told_to_and_may_be_started_again_over_its_own_kubeconfig() {
    let kubeconfig = directory("signals").join("kubeconfig");
    for signal in ["-TERM", "-INT"] {
        let mut served = Served::start(&kubeconfig, &[]);
        assert!(served.line.starts_with("listening on "), "{}", served.line);
        assert!(served.signal(signal).success(), "{signal}");
    }
}

#[test]
fn bad_input_ends_in_a_sentence_and_status_2() {
    let directory = directory("bad");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let foreign = directory.join("foreign");
    fs::write(&foreign, "apiVersion: v1\nkind: Config\n").unwrap();
    let cases: [(PathBuf, &str, &str); 5] = [
        (
            directory.join("a"),
            "0.0.0.0:0",
            "not an address of this machine alone",
        ),
        (directory.join("a"), &taken, "cannot listen on"),
        (directory.join("missing/a"), "127.0.0.1:0", "cannot write"),
        (directory.clone(), "127.0.0.1:0", "cannot write"),
        (foreign.clone(), "127.0.0.1:0", "left alone"),
    ];
    for (path, address, expected) in cases {
        let output = command(&path).args(["--listen", address]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
        assert!(said(&output).contains("hint: "), "{}", said(&output));
        assert!(output.stdout.is_empty());
    }
    assert!(fs::read_to_string(foreign).unwrap().starts_with("apiVersion"));
    let left: Vec<_> = fs::read_dir(&directory).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
