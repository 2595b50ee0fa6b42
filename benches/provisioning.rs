//! From the last pod's arrival to the last NodeClaim, on the embedded cluster, in real time.
//!
//! `cargo bench --bench provisioning -- [--pods 1000]`: half of the pods ask for 900m and 3100Mi, half for 3500m and 28Gi.
//! Prints how long it took beyond the batch window, how many writes it took, and the most memory that this process, API
//! server and cloud included, has used.

mod stage;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::ibm::{self, Cloud};
use karpenter_ibm::sim::kube::identity::User;
use karpenter_ibm::sim::kube::server::Auditor;
use karpenter_ibm::sim::kube::{Audit, write};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

fn main() -> Result<()> {
    let mut arguments = std::env::args();
    let pods = arguments.by_ref().find(|argument| argument == "--pods");
    let pods = pods
        .and_then(|_| arguments.next())
        .map_or(Ok(1000), |count| count.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure(pods))
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

async fn measure(pods: usize) -> Result<()> {
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
        () = replica => anyhow::bail!("the replica ended"),
    };
    let window = Duration::from_secs(1);
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{pods} pods: {} claims, the last {:.0} ms after the batch window of {} s",
        claims.load(Ordering::Relaxed),
        took.saturating_sub(window).as_secs_f64() * 1000.0,
        window.as_secs(),
    )?;
    if let Ok(writes) = writes.lock() {
        writeln!(out, "objects made: {writes:?}")?;
    }
    writeln!(
        out,
        "most memory of the whole process: {} MB",
        stage::peak_memory_mb()?
    )?;
    let looked = plans.look_again()?;
    writeln!(out, "plans that were looked at a second time: {looked}")?;
    Ok(())
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
