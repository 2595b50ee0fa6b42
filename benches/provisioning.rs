//! From the last pod's arrival to the last NodeClaim, on the embedded cluster, in real time.
//!
//! `cargo bench --bench provisioning -- [--pods 1000] [--require 5]`: half of the pods ask for 900m and 3100Mi, half for 3500m
//! and 28Gi. Prints how long it took beyond the batch window, how many times as long that is as the API server alone takes to
//! make as many claims for the same client, how many writes it took, and the most memory that this process, API server and
//! cloud included, has used. Where a ratio is required, the exit status is 1 unless one round in three keeps it.

mod stage;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_ibm::api::NodeClaim;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::ibm::{self, Cloud};
use karpenter_ibm::sim::kube::identity::User;
use karpenter_ibm::sim::kube::server::Auditor;
use karpenter_ibm::sim::kube::{ApiServer, Audit, write};
use karpenter_ibm::sim::world::cluster::Cluster;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

/// What else runs on the machine makes a round slower and never faster, so the best of so many counts.
const ROUNDS: usize = 3;

fn main() -> Result<()> {
    let asked = arguments()?;
    let most = asked.require.unwrap_or(f64::INFINITY);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        best = runtime.block_on(measure(asked.pods))?.min(best);
        if best <= most {
            return Ok(());
        }
    }
    bail!("the last claim took {best:.1} times as long as the API server alone takes, not {most}")
}

struct Arguments {
    pods: usize,
    /// How many times as long as the API server alone takes it may last.
    require: Option<f64>,
}

fn arguments() -> Result<Arguments> {
    let mut read = Arguments {
        pods: 1000,
        require: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || {
            let value = given.next();
            value.with_context(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            // What cargo itself says.
            "--bench" => {}
            "--pods" => read.pods = value()?.parse()?,
            "--require" => read.require = Some(value()?.parse()?),
            _ => bail!("{argument} is not understood"),
        }
    }
    Ok(read)
}

/// Counts what is made, by kind, and NodeClaims apart.
struct Counting {
    made: Arc<Mutex<BTreeMap<String, usize>>>,
    claims: Arc<AtomicUsize>,
}

impl Auditor for Counting {
    fn answered(&self, audit: &Audit<'_>) -> Option<u64> {
        if audit.method == http::Method::POST {
            let kind = audit.uri.path().rsplit('/').next().unwrap_or_default();
            if kind == "nodeclaims" {
                self.claims.fetch_add(1, Ordering::Relaxed);
            }
            if let Ok(mut made) = self.made.lock() {
                *made.entry(kind.to_owned()).or_default() += 1;
            }
        }
        None
    }

    fn delivered(&self, _: &User, _: u64, _: &Bytes) {}
}

/// One round: how many times as long as the API server alone it took.
async fn measure(pods: usize) -> Result<f64> {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse()?);
    let cloud = Cloud::new(ibm::Options::new("us-south", 7, clock.clone()));
    let kube = stage::cluster(&clock, &cloud)?;
    write::insert(&kube, pool());
    let writes: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let claims = Arc::new(AtomicUsize::new(0));
    kube.audit(Arc::new(Counting {
        made: writes.clone(),
        claims: claims.clone(),
    }));
    let plans = stage::Plans::default();
    let replica = plans.factory(stage::settings(&kube)?)(stage::edges(&kube, &cloud, &clock));
    let story = async {
        // Until the class is resolved and what is sold was read.
        clock.sleep(Duration::from_secs(5)).await;
        let all: Api<Pod> = Api::default_namespaced(kube.admin());
        for number in 0..pods {
            write::insert(&kube, pod(number));
            // A server forgets the status of what is made: the scheduler writes it.
            let refused = Patch::Merge(json!({"status": pod(number)["status"]}));
            let name = format!("pod-{number}");
            all.patch_status(&name, &PatchParams::default(), &refused).await?;
        }
        let arrived = clock.instant();
        let mut last = (claims.load(Ordering::Relaxed), arrived);
        // Over when none has come for three seconds.
        while last.0 == 0 || last.1.elapsed() < Duration::from_secs(3) {
            clock.sleep(Duration::from_millis(2)).await;
            let now = claims.load(Ordering::Relaxed);
            if now != last.0 {
                last = (now, clock.instant());
            }
        }
        anyhow::Ok(last.1 - arrived)
    };
    let took = tokio::select! {
        biased;
        took = story => took?,
        () = replica => bail!("the replica ended"),
    };
    let window = Duration::from_secs(1);
    let beyond = took.saturating_sub(window);
    let memory_mb = stage::peak_memory_mb()?;
    let made = writes.lock().map(|made| made.clone()).unwrap_or_default();
    let (claims, alone) = alone(&kube, &clock).await?;
    let times = beyond.as_secs_f64() / alone.as_secs_f64();
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{pods} pods: {claims} claims, the last {:.0} ms after the batch window of {} s: {times:.1} times the {:.0} ms that \
         the API server alone takes",
        beyond.as_secs_f64() * 1000.0,
        window.as_secs(),
        alone.as_secs_f64() * 1000.0,
    )?;
    writeln!(out, "objects made: {made:?}")?;
    writeln!(out, "most memory of the whole process: {memory_mb} MB")?;
    let looked = plans.look_again()?;
    writeln!(out, "plans that were looked at a second time: {looked}")?;
    Ok(times)
}

/// How many claims there are, and how long the API server takes to make as many that say the same, one after another, with
/// nobody else there.
async fn alone(kube: &ApiServer, clock: &Clock) -> Result<(usize, Duration)> {
    let claims: Api<NodeClaim> = Api::all(kube.retrying_client_as(Cluster::operator()));
    let mut all = claims.list(&ListParams::default()).await?.items;
    ensure!(!all.is_empty(), "there are no claims");
    for (number, claim) in all.iter_mut().enumerate() {
        claim.metadata = ObjectMeta {
            name: Some(format!("again-{number}")),
            labels: claim.metadata.labels.take(),
            annotations: claim.metadata.annotations.take(),
            owner_references: claim.metadata.owner_references.take(),
            ..ObjectMeta::default()
        };
        claim.status = None;
    }
    let begun = clock.instant();
    for claim in &all {
        claims.create(&PostParams::default(), claim).await?;
    }
    Ok((all.len(), begun.elapsed()))
}

/// A pool for everything.
fn pool() -> serde_json::Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
        }}},
    })
}

fn pod(number: usize) -> serde_json::Value {
    let requests = if number.is_multiple_of(2) {
        json!({"cpu": "900m", "memory": "3100Mi"})
    } else {
        json!({"cpu": "3500m", "memory": "28Gi"})
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number}"), "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "a", "image": "a", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    })
}
