//! A thousand claims at once: until all are launched, how often the cloud is asked, and how much memory that takes.
//!
//! Everything is in one process, on a clock that jumps: the operator, the API server and the account. So the memory is
//! that of all three. `--small` buys ten, to see that it runs; `--claims=100` as many.

mod stage;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use karpenter_ibm::api::NodeClaim;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::ibm::{Cloud, Options};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

/// How long it may take: a thousand machines and the requests for each, at ten a second.
const PATIENCE: Duration = Duration::from_hours(1);

fn main() -> Result<()> {
    let small = std::env::args().any(|argument| argument == "--small");
    let asked = std::env::args().find_map(|argument| argument.strip_prefix("--claims=")?.parse().ok());
    let claims = asked.unwrap_or(if small { 10 } else { 1000 });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let clock = Clock::system();
    let before = clock.instant();
    let bought = runtime.block_on(buy(claims))?;
    let took = Clock::system().instant() - before;
    writeln!(
        std::io::stdout(),
        "{claims} claims: the last ordered after {} s, all launched after {} s simulated ({:.1} s real); {} requests to \
         the cloud, at most {} within ten seconds; orders in each minute {:?}, requests {:?}, where the budget is 600 a \
         minute; {} MB at most",
        bought.ordered.as_secs(),
        bought.simulated.as_secs(),
        took.as_secs_f64(),
        bought.requests,
        bought.most,
        bought.minutes.values().map(|it| it.0).collect::<Vec<_>>(),
        bought.minutes.values().map(|it| it.1).collect::<Vec<_>>(),
        stage::peak_memory_mb()?,
    )?;
    Ok(())
}

/// What it took.
struct Bought {
    /// Until the last machine was ordered.
    ordered: Duration,
    /// Until the last machine was seen running.
    simulated: Duration,
    requests: usize,
    most: usize,
    /// Orders and requests in each minute.
    minutes: BTreeMap<i64, (usize, usize)>,
}

async fn buy(count: usize) -> Result<Bought> {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse()?);
    let mut account = Options::new("us-south", 7, clock.clone());
    account.make_roomy();
    let cloud = Cloud::new(account);
    let kube = stage::cluster(&clock, &cloud)?;
    let claims: Api<NodeClaim> = Api::all(kube.admin());
    let (started, began) = (clock.instant(), clock.now());
    let story = async {
        for number in 0..count {
            claims.create(&PostParams::default(), &claim(number)?).await?;
        }
        loop {
            clock.sleep(Duration::from_secs(5)).await;
            let running = cloud
                .instances()
                .iter()
                .filter(|it| it.status == "running")
                .count();
            if running == count && launched(&claims).await? == count {
                return Ok(());
            }
            ensure!(clock.instant() - started < PATIENCE, "{running} of {count} run");
        }
    };
    let plans = stage::Plans::default();
    let replica = plans.factory(stage::settings(&kube)?)(stage::edges(&kube, &cloud, &clock));
    tokio::select! {
        biased;
        told = story => told?,
        () = replica => anyhow::bail!("the operator ended"),
    }
    plans.look_again()?;
    let mut tens: BTreeMap<i64, usize> = BTreeMap::new();
    let mut minutes: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
    let mut last = began;
    for seen in cloud.requests().iter() {
        *tens.entry(seen.at.as_second() / 10).or_default() += 1;
        let minute = minutes
            .entry((seen.at.as_second() - began.as_second()) / 60)
            .or_default();
        minute.1 += 1;
        if seen.method == http::Method::POST && seen.path == "/v1/instances" {
            minute.0 += 1;
            last = seen.at;
        }
    }
    ensure!(
        minutes.values().map(|it| it.0).sum::<usize>() == count,
        "not each was ordered once"
    );
    Ok(Bought {
        ordered: (last - began).try_into()?,
        simulated: clock.instant() - started,
        requests: cloud.requests().iter().count(),
        most: tens.into_values().max().unwrap_or_default(),
        minutes,
    })
}

async fn launched(claims: &Api<NodeClaim>) -> Result<usize> {
    let all = claims.list(&kube::api::ListParams::default()).await?;
    let is_launched = |claim: &&NodeClaim| claim.status.as_ref().is_some_and(|it| it.provider_id.is_some());
    Ok(all.items.iter().filter(is_launched).count())
}

fn claim(number: usize) -> Result<NodeClaim> {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("claim-{number}"), "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8"]},
            ],
        },
    });
    serde_json::from_value(claim).context("a claim")
}
