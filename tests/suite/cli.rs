//! The binary as its users meet it: exit codes, words, and what it never says.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::kube::api::{ListParams, PostParams};
use k8s_openapi::api::events::v1::Event;
use karpenter_ibm::api::NodeClaim;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::actors::network;
use karpenter_ibm::sim::ibm::{Cloud, Options, Server};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{self, ApiServer};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::whole::place;

const CANARY: &str = "canary-key-9d2e4c";

/// The binary with an empty environment: no credentials of whoever runs the tests.
pub(super) fn binary(args: &[&str], env: &[(&str, &str)]) -> Command {
    // A command that should end and does not is a failure, not a hang.
    let mut command = Command::new("timeout");
    command.args(["120", env!("CARGO_BIN_EXE_karpenter-ibm")]);
    command
        .args(args)
        .env_clear()
        .envs(env.iter().copied())
        .stdin(Stdio::null());
    command
}

fn controller(env: &[(&str, &str)], args: &[&str]) -> Output {
    let args: Vec<&str> = ["controller", "--log-format", "text"]
        .iter()
        .chain(args)
        .copied()
        .collect();
    binary(&args, env).output().unwrap()
}

pub(super) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An environment, arguments, and the words that must be said about them.
type Case = (
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
    &'static [&'static str],
);

pub(super) const KEY: (&str, &str) = ("IBMCLOUD_API_KEY", CANARY);
pub(super) const REGION: (&str, &str) = ("IBMCLOUD_REGION", "us-south");

#[test]
fn a_wrong_setting_is_named_with_what_it_may_be_and_nothing_is_touched() {
    let table: [Case; 9] = [
        (
            &[REGION],
            &[],
            &["IBMCLOUD_API_KEY", "no credentials", "hint: set exactly one of"],
        ),
        (&[KEY], &[], &["IBMCLOUD_REGION", "is not set", "us-south"]),
        (
            &[KEY, ("IBMCLOUD_REGION", "us-mars")],
            &[],
            &["IBMCLOUD_REGION", "us-mars", "eu-de"],
        ),
        (
            &[REGION, ("IBMCLOUD_API_KEY_FILE", "/nonexistent/key")],
            &[],
            &["IBMCLOUD_API_KEY_FILE", "/nonexistent/key"],
        ),
        (
            &[KEY, REGION, ("IBMCLOUD_TRUSTED_PROFILE", "p")],
            &[],
            &["more than one kind of credentials"],
        ),
        (
            &[KEY, REGION, ("IBMCLOUD_ENDPOINT", "http://example.com")],
            &[],
            &["ENDPOINT", "must use https"],
        ),
        (
            &[KEY, REGION, ("IBMCLOUD_ENDPOINT", "https://example.com")],
            &[],
            &["not a host of IBM Cloud"],
        ),
        (
            &[KEY, REGION],
            &["--ibm-burst", "0"],
            &["--ibm-burst", "1 to 1000"],
        ),
        (&[KEY, REGION], &["--listen", "nowhere"], &["--listen"]),
    ];
    for (env, args, words) in table {
        let output = controller(env, args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            words.iter().all(|word| said.contains(word)),
            "{words:?} not all in: {said}"
        );
        assert!(!said.contains(CANARY), "{said}");
        assert!(output.stdout.is_empty());
    }
}

/// How many simulators were started, so that each has a kubeconfig of its own.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A simulated IBM Cloud and an embedded cluster on ports of their own, for as long as this lives.
pub(super) struct Simulator {
    pub(super) url: String,
    pub(super) cloud: Cloud,
    pub(super) cluster: ApiServer,
    /// An administrator's.
    pub(super) kubeconfig: PathBuf,
    /// The operator's own, with the chart's rights and no others.
    operator: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl Drop for Simulator {
    fn drop(&mut self) {
        for file in [&self.kubeconfig, &self.operator] {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Simulator {
    pub(super) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let mut options = Options::new("us-south", 1, clock.clone());
        options.api_keys = vec![CANARY.to_owned()];
        let cloud = Cloud::new(options);
        let cluster = ApiServer::new(kube::Options {
            clock,
            seed: 1,
            keys: Keys::Fixed,
        });
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let kubeconfig = std::env::temp_dir().join(format!("karpenter-ibm-{}-{number}", std::process::id()));
        let operator = kubeconfig.with_extension("operator");
        let url = runtime.block_on(async {
            let anywhere = "127.0.0.1:0".parse().unwrap();
            let server = Server::bind(cloud.clone(), anywhere).await.unwrap();
            let url = format!("http://{}", server.address());
            tokio::spawn(server.run(CancellationToken::new()));
            let listener = kube::serve::listen(anywhere).await.unwrap();
            let address = format!("https://{}", listener.local_addr().unwrap());
            std::fs::write(&kubeconfig, kube::serve::kubeconfig(&cluster, &address)).unwrap();
            place::install(&cluster.admin()).await;
            let own = place::operator(&cluster.admin()).await;
            let own = network::kubeconfig(&address, &cluster.identity().root_certificate(), own);
            std::fs::write(&operator, serde_json::to_string(&own).unwrap()).unwrap();
            let cluster = cluster.clone();
            tokio::spawn(
                async move { kube::serve::serve(&cluster, listener, CancellationToken::new()).await },
            );
            url
        });
        Self {
            url,
            cloud,
            cluster,
            kubeconfig,
            operator,
            runtime,
        }
    }

    /// Asks for a machine, as a user would, and waits until one was bought.
    fn buy(&self) {
        let account = self.cloud.account();
        let class = json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "spec": {"region": "us-south", "vpc": account.vpc, "image": account.image},
        });
        kube::write::insert(&self.cluster, class);
        let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
            "spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": [
                    requirement("node.kubernetes.io/instance-type", "bxf-2x8"),
                    requirement("topology.kubernetes.io/zone", "us-south-1"),
                    requirement("karpenter.sh/capacity-type", "spot"),
                ],
            },
        });
        self.runtime.block_on(async {
            let claims: ::kube::Api<NodeClaim> = ::kube::Api::all(self.cluster.admin());
            let claim = serde_json::from_value(claim).unwrap();
            claims.create(&PostParams::default(), &claim).await.unwrap();
            let bought = async {
                while self.cloud.instances().is_empty() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            if tokio::time::timeout(Duration::from_mins(1), bought)
                .await
                .is_err()
            {
                let claim = claims.get("a").await.unwrap();
                let events: ::kube::Api<Event> = ::kube::Api::all(self.cluster.admin());
                let events = events.list(&ListParams::default()).await.unwrap().items;
                let notes: Vec<_> = events.into_iter().map(|event| event.note).collect();
                panic!("nothing was bought: {:?}, {notes:?}", claim.status);
            }
        });
    }
}

#[test]
fn credentials_that_ibm_cloud_refuses_are_bad_input() {
    let simulator = Simulator::start();
    let wrong = ("IBMCLOUD_API_KEY", "wrong-key-5f1c");
    let output = controller(&[wrong, REGION, ("IBMCLOUD_ENDPOINT", &simulator.url)], &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("does not accept the credentials"), "{said}");
    assert!(!said.contains("wrong-key-5f1c"), "{said}");
}

/// A process that is ended with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Machines must be told besides where the API server is: what the kubeconfig says is the loopback.
const SERVING: [&str; 5] = ["controller", "--listen", "127.0.0.1:0", "--log-format", "json"];

#[test]
fn the_controller_serves_health_and_metrics_buys_tells_no_secret_and_stops_when_told() {
    let simulator = Simulator::start();
    let key_file: PathBuf = std::env::temp_dir().join(format!("karpenter-ibm-key-{}", std::process::id()));
    std::fs::write(&key_file, format!("{CANARY}\n")).unwrap();
    let env = [
        REGION,
        ("IBMCLOUD_API_KEY_FILE", key_file.to_str().unwrap()),
        ("IBMCLOUD_ENDPOINT", simulator.url.as_str()),
        ("KUBECONFIG", simulator.operator.to_str().unwrap()),
        ("RUST_LOG", "trace"),
    ];
    let args = [&SERVING[..], &["--cluster-endpoint", "https://10.240.0.5:6443"]].concat();
    let mut running = Running(
        binary(&args, &env)
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut log = BufReader::new(running.0.stderr.take().unwrap());
    let mut heard = String::new();
    let address = loop {
        let start = heard.len();
        assert!(
            log.read_line(&mut heard).unwrap() > 0,
            "the controller ended: {heard}"
        );
        let line: serde_json::Value = serde_json::from_str(&heard[start..]).unwrap();
        if line["fields"]["message"] == "serving health and metrics" {
            break line["fields"]["address"].as_str().unwrap().to_owned();
        }
    };
    // Somebody has to go on reading: a log that nobody reads stops the one who writes it.
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        log.read_to_string(&mut rest).unwrap();
        rest
    });
    let get = |path: &str| {
        let url = format!("http://{address}{path}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let answer = reqwest::get(url).await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        })
    };
    assert_eq!(get("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get("/readyz"), (200, "ok\n".to_owned()));
    let (status, metrics) = get("/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains(r#"karpenter_ibm_api_requests_total{operation="fetch IAM token",region="us-south",status="200"} 1"#), "{metrics}");

    simulator.buy();

    let pid = running.0.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    heard += &rest.join().unwrap();
    assert!(running.0.wait().unwrap().success());
    std::fs::remove_file(key_file).unwrap();
    assert!(heard.contains("asked IBM Cloud"), "nothing was logged");
    for (place, text) in [("log", &heard), ("metrics", &metrics)] {
        assert!(!text.contains(CANARY), "the key is in the {place}");
        assert!(!text.contains("eyJ"), "a token is in the {place}");
    }
}

#[test]
fn without_a_cluster_the_controller_says_how_to_name_one() {
    let simulator = Simulator::start();
    let nowhere = ("KUBECONFIG", "/nonexistent/kubeconfig");
    let output = controller(
        &[KEY, REGION, ("IBMCLOUD_ENDPOINT", &simulator.url), nowhere],
        &[],
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for word in ["no cluster to work for", "hint: set KUBECONFIG"] {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
}

#[test]
fn the_demo_of_an_unknown_region_is_bad_input() {
    let output = binary(&["demo", "--region", "us-mars"], &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("hint: --region may be one of au-syd"));
}

/// There is no helm here: the template is read as text.
#[test]
fn what_the_chart_tells_the_controller_it_knows_and_every_value_has_a_default() {
    let chart = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("charts/karpenter-ibm");
    let template = std::fs::read_to_string(chart.join("templates/deployment.yaml")).unwrap();
    let values = std::fs::read_to_string(chart.join("values.yaml")).unwrap();
    let values: serde_json::Value = serde_saphyr::from_str(&values).unwrap();
    let help = binary(&["controller", "--help"], &[]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let lines = template.lines().map(str::trim);
    let flags: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix("- --")?.split('=').next())
        .collect();
    assert_eq!(
        flags,
        [
            "listen",
            "interruption-poll",
            "gc",
            "push-listen",
            "push-secret-file"
        ]
    );
    for flag in flags {
        assert!(help.contains(&format!("--{flag} <")), "--{flag}");
    }
    for after in template.split(".Values.").skip(1) {
        let path: String = after
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '.')
            .collect();
        let pointer = format!("/{}", path.replace('.', "/"));
        assert!(values.pointer(&pointer).is_some(), "{path}");
    }
}
