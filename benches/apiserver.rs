//! What the embedded API server can hold, how fast it answers, and how fast news travels.
//!
//! Everything goes through kube's own client, in this process and on one thread, as in a simulation: the figures
//! include encoding and decoding on the client's side. `--small` does a hundredth of the work, to see that it runs.

#![expect(
    clippy::cast_precision_loss,
    reason = "counts far below 2^52, for people to read"
)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::kube::{ApiServer, Options};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let size = if std::env::args().any(|argument| argument == "--small") {
        Size::small()
    } else {
        Size::full()
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run(&size))
}

/// How much is done.
struct Size {
    nodes: usize,
    pods: usize,
    watchers: usize,
    rounds: usize,
}

impl Size {
    fn full() -> Self {
        Self {
            nodes: 5_000,
            pods: 50_000,
            watchers: 20,
            rounds: 20_000,
        }
    }

    fn small() -> Self {
        Self {
            nodes: 50,
            pods: 500,
            watchers: 20,
            rounds: 200,
        }
    }
}

async fn run(size: &Size) -> Result<()> {
    let clock = Clock::system();
    let server = ApiServer::new(Options {
        keys: karpenter_ibm::sim::kube::identity::Keys::Fixed,
        clock: clock.clone(),
        seed: 1,
    });
    let bench = Bench {
        client: server.admin(),
        clock,
    };
    bench.make_namespace().await?;
    let before = resident_bytes()?;
    bench.fill(size).await?;
    let grown = resident_bytes()?.saturating_sub(before);
    say("memory", grown as f64 / 1e6, "MB", "under 1,500");
    bench.read(size).await?;
    bench.list(size).await?;
    bench.fan_out(size).await?;
    bench.write(size).await
}

struct Bench {
    client: kube::Client,
    clock: Clock,
}

impl Bench {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "shop")
    }

    async fn make_namespace(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}}))?;
        namespaces.create(&PostParams::default(), &shop).await?;
        Ok(())
    }

    async fn fill(&self, size: &Size) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let all: Vec<Node> = (0..size.nodes).map(node).collect::<Result<_>>()?;
        let bytes = serde_json::to_vec(&all)?.len() / all.len();
        say("a node's JSON as sent", bytes as f64, "bytes", "");
        self.time("create a node", size.nodes, async |number| {
            nodes.create(&PostParams::default(), &all[number]).await?;
            Ok(())
        })
        .await?;
        let sample = pod(0)?;
        say(
            "a pod's JSON as sent",
            serde_json::to_vec(&sample)?.len() as f64,
            "bytes",
            "",
        );
        self.time("create a pod", size.pods, async |number| {
            self.pods().create(&PostParams::default(), &pod(number)?).await?;
            Ok(())
        })
        .await?;
        // A new pod has no status but what its kubelet says.
        self.time("merge-patch a pod's whole status", size.pods, async |number| {
            let patch = json!({"status": pod(number)?.status});
            let (name, params) = (pod_name(number), PatchParams::default());
            self.pods()
                .patch_status(&name, &params, &Patch::Merge(&patch))
                .await?;
            Ok(())
        })
        .await
    }

    async fn read(&self, size: &Size) -> Result<()> {
        let pods = self.pods();
        let path = format!("/api/v1/namespaces/shop/pods/{}", pod_name(0));
        let stored = self
            .client
            .request_text(http::Request::get(path).body(Vec::new())?)
            .await?;
        say("a pod's JSON as stored", stored.len() as f64, "bytes", "");
        self.time(
            "get a pod, decoded by the client (under 100)",
            size.rounds,
            async |number| {
                pods.get(&pod_name(number * 7 % size.pods)).await?;
                Ok(())
            },
        )
        .await?;
        self.time("get a pod, as bytes (under 100)", size.rounds, async |number| {
            let path = format!(
                "/api/v1/namespaces/shop/pods/{}",
                pod_name(number * 7 % size.pods)
            );
            let request = http::Request::get(path).body(Vec::new())?;
            self.client.request_text(request).await?;
            Ok(())
        })
        .await
    }

    async fn list(&self, size: &Size) -> Result<()> {
        let pods = self.pods();
        self.time("list 500 pods, decoded by the client", 20, async |_| {
            pods.list(&ListParams::default().limit(500)).await?;
            Ok(())
        })
        .await?;
        self.time("list all pods in pages of 500, as bytes", 1, async |_| {
            let (mut token, mut seen) = (String::new(), 0);
            loop {
                let path = format!("/api/v1/pods?limit=500&continue={token}");
                let text = self
                    .client
                    .request_text(http::Request::get(path).body(Vec::new())?)
                    .await?;
                seen += text.matches("\"hostIP\"").count();
                match text
                    .split_once("\"continue\":\"")
                    .and_then(|(_, rest)| rest.split_once('"'))
                {
                    Some((next, _)) => next.clone_into(&mut token),
                    None => break,
                }
            }
            ensure!(seen >= size.pods, "{seen} pods listed");
            Ok(())
        })
        .await
    }

    /// From the moment a change is sent until the last watcher has decoded it.
    async fn fan_out(&self, size: &Size) -> Result<()> {
        let latest = self.pods().list(&ListParams::default().limit(1)).await?;
        let version = latest.metadata.resource_version.context("a list has a version")?;
        let mut watchers = Vec::new();
        for _ in 0..size.watchers {
            let stream = self.pods().watch(&WatchParams::default(), &version).await?;
            watchers.push(stream.boxed());
        }
        let rounds = size.rounds / 100;
        let name = format!("patch a pod, told to {} watchers (under 5,000)", size.watchers);
        self.time(&name, rounds, async |number| {
            let patch = json!({"metadata": {"annotations": {"round": number.to_string()}}});
            let told = watchers.iter_mut().map(async |stream| {
                loop {
                    match stream.try_next().await?.context("a watch lasts")? {
                        WatchEvent::Modified(_) => return anyhow::Ok(()),
                        WatchEvent::Bookmark(_) => {}
                        other => anyhow::bail!("unexpected {other:?}"),
                    }
                }
            });
            let patched = async {
                self.pods()
                    .patch(
                        &pod_name(number % size.pods),
                        &PatchParams::default(),
                        &Patch::Merge(&patch),
                    )
                    .await?;
                Ok(())
            };
            futures::future::try_join(patched, try_join_all(told)).await?;
            Ok(())
        })
        .await
    }

    async fn write(&self, size: &Size) -> Result<()> {
        let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), "shop");
        self.time("create a small ConfigMap", size.rounds, async |number| {
            let metadata = json!({"name": format!("c-{number}")});
            let config = serde_json::from_value(json!({"metadata": metadata, "data": {"key": "value"}}))?;
            configs.create(&PostParams::default(), &config).await?;
            Ok(())
        })
        .await?;
        self.time("merge-patch a pod's condition", size.rounds, async |number| {
            let condition = json!({"type": "Ready", "status": if number % 2 == 0 { "True" } else { "False" }});
            let patch = json!({"status": {"phase": "Running", "message": number.to_string(), "conditions": [condition]}});
            let name = pod_name(number * 7 % size.pods);
            self.pods().patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            Ok(())
        })
        .await?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        self.time(
            "apply a label to a node, server-side",
            size.rounds / 10,
            async |number| {
                let metadata =
                    json!({"name": node_name(number % size.nodes), "labels": {"round": number.to_string()}});
                let patch = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
                let params = PatchParams::apply("bench").force();
                nodes
                    .patch(&node_name(number % size.nodes), &params, &Patch::Apply(&patch))
                    .await?;
                Ok(())
            },
        )
        .await?;
        self.renew_a_lease(size).await
    }

    async fn renew_a_lease(&self, size: &Size) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "shop");
        let spec = json!({"holderIdentity": "a", "leaseDurationSeconds": 15});
        let lease = serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": spec}))?;
        let mut lease = leases.create(&PostParams::default(), &lease).await?;
        self.time("replace a Lease", size.rounds, async |number| {
            let spec = lease.spec.as_mut().context("a Lease that was sent whole")?;
            spec.lease_transitions = Some(i32::try_from(number)?);
            lease = leases.replace("l", &PostParams::default(), &lease).await?;
            Ok(())
        })
        .await
    }

    /// Does something many times; says what one time takes.
    async fn time(
        &self,
        what: &str,
        times: usize,
        mut once: impl AsyncFnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let mut all = Vec::with_capacity(times);
        for number in 0..times {
            let start = self.clock.instant();
            once(number).await?;
            all.push(start.elapsed());
        }
        all.sort();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let mean = micros(all.iter().sum::<Duration>()) / times as f64;
        let (median, late) = (micros(all[times / 2]), micros(all[times * 99 / 100]));
        say(
            what,
            mean,
            "µs",
            &format!("median {median:.0}, 99 % under {late:.0}, {times} times"),
        );
        Ok(())
    }
}

#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn say(what: &str, value: f64, unit: &str, note: &str) {
    println!("{what:<58} {value:>10.0} {unit:<5} {note}");
}

/// How much memory the process holds.
fn resident_bytes() -> Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    let kilobytes: usize = kilobytes.context("the kernel tells the resident size")?.parse()?;
    Ok(kilobytes * 1024)
}

fn pod_name(number: usize) -> String {
    format!("checkout-7d9c5b6f4d-{number:05}")
}

fn node_name(number: usize) -> String {
    format!("kib-0a1b2c3d-{number:032x}")
}

/// A pod as a Deployment makes it and a kubelet has reported on it.
fn pod(number: usize) -> Result<Pod> {
    let node = node_name(number / 10);
    let probe = |path: &str| {
        json!({"httpGet": {"path": path, "port": 8080, "scheme": "HTTP"}, "initialDelaySeconds": 5, "periodSeconds": 10,
               "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3})
    };
    let env: Vec<Value> = (0..4)
        .map(|index| json!({"name": format!("SETTING_{index}"), "value": format!("a value of some length {index}")}))
        .collect();
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/shop/{name}:1.42.0"), "env": env,
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
            "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"),
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent", "securityContext": {"allowPrivilegeEscalation": false},
        })
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-16T10:00:00Z"});
    let status_of = |name: &str| {
        json!({"name": name, "ready": true, "restartCount": 0, "started": true, "image": name, "imageID": "sha256:0123456789abcdef",
               "containerID": "containerd://0123456789abcdef", "state": {"running": {"startedAt": "2026-11-16T10:00:00Z"}}})
    };
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": pod_name(number), "namespace": "shop", "generateName": "checkout-7d9c5b6f4d-",
            "labels": {"app": "checkout", "pod-template-hash": "7d9c5b6f4d", "team": "payments", "tier": "web"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
        },
        "spec": {
            "nodeName": node, "restartPolicy": "Always", "schedulerName": "default-scheduler", "priority": 0,
            "serviceAccountName": "default", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
            "containers": [container("checkout")],
            "volumes": [{"name": "token", "emptyDir": {}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "checkout"}}}],
        },
        "status": {
            "phase": "Running", "podIP": "172.17.0.1", "hostIP": "10.240.0.5", "startTime": "2026-11-16T10:00:00Z", "qosClass": "Burstable",
            "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
            "containerStatuses": [status_of("checkout")],
        },
    }))?)
}

/// A node as its kubelet reports it.
fn node(number: usize) -> Result<Node> {
    let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi", "hugepages-2Mi": "0"});
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": format!("Kubelet{kind}"), "message": "kubelet says so, in a sentence of usual length",
               "lastHeartbeatTime": "2026-11-16T10:00:00Z", "lastTransitionTime": "2026-11-16T10:00:00Z"})
    };
    let images: Vec<Value> = (0..20)
        .map(|index| json!({"names": [format!("registry.example.com/shop/image-{index}@sha256:0123456789abcdef0123456789abcdef")], "sizeBytes": 123_456_789}))
        .collect();
    Ok(serde_json::from_value(json!({
        "metadata": {"name": node_name(number), "labels": {
            "kubernetes.io/hostname": node_name(number), "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "bx2-4x16", "topology.kubernetes.io/zone": "us-south-1",
            "topology.kubernetes.io/region": "us-south", "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot",
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        }},
        "spec": {"providerID": format!("ibm:///us-south/0717_{number:08}"), "podCIDR": "172.17.0.0/24"},
        "status": {
            "capacity": amounts, "allocatable": amounts, "images": images,
            "addresses": [{"type": "InternalIP", "address": "10.240.0.5"}, {"type": "Hostname", "address": node_name(number)}],
            "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                           condition("PIDPressure", "False"), condition("Ready", "True")],
            "nodeInfo": {"architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "containerd://2.0.0", "kernelVersion": "6.8.0",
                         "kubeProxyVersion": "", "kubeletVersion": "v1.35.4", "machineID": "m", "operatingSystem": "linux",
                         "osImage": "Ubuntu 24.04", "systemUUID": "u"},
        },
    }))?)
}
