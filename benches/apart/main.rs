//! The operator alone: its binary in a process of its own, which reaches cluster and account over the network. So what is
//! measured is what it needs itself, in real time.
//!
//! `cargo bench --bench apart -- --claims=1000` buys a thousand machines at once; `--drain=100` lets a hundred nodes of
//! thirty pods leave at once; `--pods=1000` (with `--spread` over hostnames) is the way from pods to claims, which are
//! audited as one plan. The cluster is the embedded one, or where CONTROL_PLANE_URL is set (`hack/bench-control-plane`) a real one.

mod again;
mod nodes;
mod place;
mod process;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use karpenter_ibm::api::NodeClaim;
use karpenter_ibm::clock::Clock;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use place::{Place, Scheduler};
use process::Operator;
use serde_json::{Value, json};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// Requests of whoever makes objects here, at once.
const AT_ONCE: usize = 16;

/// Whether small pods are spread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spread {
    No,
    Hostnames,
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure())
}

async fn measure() -> Result<()> {
    let count = |name: &str| {
        let mut arguments = std::env::args();
        arguments.find_map(|argument| argument.strip_prefix(name)?.parse::<usize>().ok())
    };
    let place = Place::new().await?;
    let operator = Operator::start(&place).await?;
    if let Some(pods) = count("--pods=") {
        let is_spread = std::env::args().any(|argument| argument == "--spread");
        let spread = if is_spread { Spread::Hostnames } else { Spread::No };
        return from_pods(&place, &operator, pods, spread).await;
    }
    if let Some(nodes) = count("--drain=") {
        return drain(&place, &operator, nodes).await;
    }
    let claims = count("--claims=").unwrap_or(1000);
    let clock = Clock::system();
    let started = clock.instant();
    buy(&place, claims).await?;
    let took = clock.instant() - started;
    let minutes = per_minute(&place);
    say(&format!(
        "{claims} claims: all launched after {:.0} s; orders in each minute {:?}, requests {:?}, where the budget is {} \
         a minute; {}",
        took.as_secs_f64(),
        minutes.values().map(|it| it.0).collect::<Vec<_>>(),
        minutes.values().map(|it| it.1).collect::<Vec<_>>(),
        process::REQUESTS_PER_SECOND * 60,
        operator.cost()?,
    ))
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// Orders and requests in each minute.
fn per_minute(place: &Place) -> BTreeMap<i64, (usize, usize)> {
    let mut minutes: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
    for seen in place.cloud.requests().iter() {
        let minute = minutes.entry(seen.at.as_second() / 60).or_default();
        minute.0 += usize::from(seen.method == http::Method::POST && seen.path == "/v1/instances");
        minute.1 += 1;
    }
    minutes
}

/// Claims so many at once, until all are launched.
async fn buy(place: &Place, count: usize) -> Result<()> {
    let claims: Api<NodeClaim> = Api::all(place.client.clone());
    let made = stream::iter(0..count).map(|number| {
        let claims = claims.clone();
        async move {
            let claim = serde_json::from_value(claim(number))?;
            claims.create(&PostParams::default(), &claim).await?;
            anyhow::Ok(())
        }
    });
    made.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    until(async || {
        let all = claims.list(&ListParams::default()).await?;
        let is_launched =
            |claim: &&NodeClaim| claim.status.as_ref().is_some_and(|it| it.provider_id.is_some());
        Ok(all.items.iter().filter(is_launched).count() == count)
    })
    .await
}

/// Looks every second until it is so.
async fn until(mut done: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let clock = Clock::system();
    let end = clock.instant() + PATIENCE;
    while !done().await? {
        ensure!(clock.instant() < end, "not within {PATIENCE:?}");
        clock.sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

fn claim(number: usize) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("claim-{number}"), "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8"]},
            ],
        },
    })
}

/// Nodes with pods leave at once: what the operator has before, and at most meanwhile.
async fn drain(place: &Place, operator: &Operator, count: usize) -> Result<()> {
    buy(place, count).await?;
    nodes::join(place, count).await?;
    nodes::inhabit(place, count).await?;
    // Until nothing of that is news any more.
    Clock::system().sleep(Duration::from_secs(20)).await;
    let before = operator.memory_mb("VmRSS:")?;
    let most = nodes::leave(place, operator).await?;
    say(&format!(
        "{count} nodes of {} pods: {before} MB before they leave, {most} MB at most while they do; {}",
        nodes::PODS_EACH,
        operator.cost()?,
    ))
}

/// From pods to claims.
async fn from_pods(place: &Place, operator: &Operator, count: usize, spread: Spread) -> Result<()> {
    place.pool().await?;
    let clock = Clock::system();
    let (first, before) = (clock.instant(), operator.cpu_seconds()?);
    let made = stream::iter(0..count).map(|number| pod(place, number, spread));
    made.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let last_pod = clock.instant();
    let claims: Api<NodeClaim> = Api::all(place.client.clone());
    let mut last = (0, last_pod);
    // Over when none has come for ten seconds.
    while last.0 == 0 || last.1.elapsed() < Duration::from_secs(10) {
        clock.sleep(Duration::from_millis(100)).await;
        let now = claims.list_metadata(&ListParams::default()).await?.items.len();
        if now != last.0 {
            last = (now, clock.instant());
        }
        ensure!(first.elapsed() < PATIENCE, "{} claims", last.0);
    }
    say(&format!(
        "{count} pods: {} claims, the last {:.1} s after the first pod and {:.1} s after the last; {:.1} s of CPU for that, \
         {}",
        last.0,
        (last.1 - first).as_secs_f64(),
        last.1.saturating_duration_since(last_pod).as_secs_f64(),
        operator.cpu_seconds()? - before,
        operator.cost()?,
    ))?;
    again::look(place, count).await?;
    say("every pod has its place, and the audit finds nothing")
}

/// Half of them are small, and may be spread over hostnames; half are large.
async fn pod(place: &Place, number: usize, spread: Spread) -> Result<()> {
    let is_small = number.is_multiple_of(2);
    let requests = if is_small {
        json!({"cpu": "900m", "memory": "3100Mi"})
    } else {
        json!({"cpu": "3500m", "memory": "28Gi"})
    };
    let size = if is_small { "small" } else { "large" };
    let mut pod = json!({
        "metadata": {"name": format!("pod-{number}"), "labels": {"app": size}},
        "spec": {"containers": [{"name": "a", "image": "a", "resources": {"requests": requests}}]},
    });
    if spread == Spread::Hostnames && is_small {
        pod["spec"]["topologySpreadConstraints"] = json!([{
            "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": size}},
        }]);
    }
    let pods: Api<Pod> = Api::default_namespaced(place.client.clone());
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
        .await?;
    if place.scheduler == Scheduler::Real {
        return Ok(());
    }
    let refused = json!({"status": {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
    pods.patch_status(
        &format!("pod-{number}"),
        &PatchParams::default(),
        &Patch::Merge(refused),
    )
    .await?;
    Ok(())
}
