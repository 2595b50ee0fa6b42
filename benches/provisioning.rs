//! From the last pod's arrival to the last NodeClaim, on the embedded cluster, in real time.
//!
//! `cargo bench --bench provisioning -- [--pods 1000]`: half of the pods ask for 900m and 3100Mi, half for 3500m and 28Gi.
//! Prints how long it took beyond the batch window, how many writes it took, and the most memory that this process, API
//! server and cloud included, has used.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::Transports;
use karpenter_ibm::ibm::secret::Secret;
use karpenter_ibm::operator::{self, Edges, RawSettings, Settings};
use karpenter_ibm::sim::ibm::{self, Cloud};
use karpenter_ibm::sim::kube::identity::{Keys, User};
use karpenter_ibm::sim::kube::{ApiServer, Audit, Options, write};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

const NAMESPACE: &str = "karpenter-ibm";

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

async fn measure(pods: usize) -> Result<()> {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse()?);
    let (kube, cloud) = servers(&clock)?;
    let writes: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let claims = Arc::new(AtomicUsize::new(0));
    let (counted, made) = (writes.clone(), claims.clone());
    kube.audit(Arc::new(move |audit: &Audit<'_>| {
        let last = audit.uri.path().rsplit('/').next().unwrap_or_default();
        if audit.method == http::Method::POST && last == "nodeclaims" {
            made.fetch_add(1, Ordering::Relaxed);
        }
        if let Ok(mut counted) = counted.lock()
            && audit.method == http::Method::POST
        {
            *counted.entry(last.to_owned()).or_default() += 1;
        }
    }));
    let replica = operator::factory(settings()?)(edges(&kube, &cloud, &clock));
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
    writeln!(out, "most memory of the whole process: {}", most_memory()?)?;
    Ok(())
}

fn servers(clock: &Clock) -> Result<(ApiServer, Cloud)> {
    let kube = ApiServer::new(Options {
        clock: clock.clone(),
        seed: 1,
        keys: Keys::Fixed,
    });
    for definition in definitions()? {
        write::insert(&kube, definition.object);
    }
    write::insert(
        &kube,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
    );
    let cloud = Cloud::new(ibm::Options::new("us-south", 7, clock.clone()));
    let account = cloud.account();
    write::insert(
        &kube,
        json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "spec": {"region": "us-south", "vpc": account.vpc, "image": account.image},
        }),
    );
    write::insert(
        &kube,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            }}},
        }),
    );
    Ok((kube, cloud))
}

fn settings() -> Result<Settings> {
    let raw = RawSettings {
        api_key: Some(Secret::new("demo-api-key".to_owned())),
        region: Some("us-south".to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        pod: Some("one".to_owned()),
        ..RawSettings::default()
    };
    let mut settings = Settings::validate(&raw)?;
    settings.controllers.user_data = Some("#cloud-config\n".to_owned());
    Ok(settings)
}

fn edges(kube: &ApiServer, cloud: &Cloud, clock: &Clock) -> Edges {
    let exchange = Arc::new(cloud.exchange());
    Edges {
        kube: kube.retrying_client_as(User::admin()),
        ibm: Transports {
            cloud: exchange.clone(),
            metadata: exchange,
        },
        clock: clock.clone(),
        entropy: Entropy::seeded(1),
        registry: prometheus::Registry::new(),
    }
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

fn most_memory() -> Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.context("no VmHWM")?.trim().to_owned())
}
