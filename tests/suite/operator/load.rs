//! What the operator asks of the cloud: at rest as much for a thousand machines as for ten, but for pages; and for many
//! claims at once no more than it may.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_ibm::api::CapacityType;
use karpenter_ibm::cloud::{InstanceName, Order};
use karpenter_ibm::sim::ibm::{Options, Seen};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::{World, while_working};

/// As many machines on a page as are asked for.
pub(super) const PAGE: usize = 100;

impl World {
    /// Claims whose machines have been nodes for long.
    pub(super) async fn settle(&self, count: usize, capacity_type: CapacityType) {
        let account = self.cloud.account();
        let (cloud, cluster) = (self.seen(), self.cluster_id().await);
        for number in 0..count {
            let claim = self.claim(&format!("claim-{number}")).await;
            let name = InstanceName::new(cluster, &claim.uid().unwrap())
                .unwrap()
                .to_string();
            let order = Order {
                send_by: self.clock.instant() + Duration::from_hours(1),
                ..self.order(&name, capacity_type)
            };
            let machine = cloud.create(&order).await.unwrap();
            let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": "2026-11-16T10:00:00Z"});
            let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(condition);
            let held = json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}});
            let status = json!({"status": {
                "providerID": format!("ibm:///us-south/{}", machine.id),
                "conditions": conditions,
                "allocation": {
                    "profile": "bxf-2x8", "zone": account.zones[0], "capacityType": capacity_type.as_str(), "attempt": 1,
                    "subnet": account.subnets[0], "instanceName": name, "instanceID": machine.id,
                    "since": "2026-11-16T10:00:00Z",
                },
            }});
            let (claims, params, name) = (self.claims(), PatchParams::default(), claim.name_any());
            claims.patch(&name, &params, &Patch::Merge(held)).await.unwrap();
            let settled = claims.patch_status(&name, &params, &Patch::Merge(status)).await;
            settled.unwrap();
            let node = json!({
                "metadata": {"name": name},
                "spec": {"providerID": format!("ibm:///us-south/{}", machine.id)},
            });
            let node = serde_json::from_value(node).unwrap();
            self.nodes().create(&PostParams::default(), &node).await.unwrap();
        }
    }

    /// No ten seconds saw more requests than may be sent.
    pub(super) fn is_within_budget(&self) {
        let mut seconds: BTreeMap<i64, usize> = BTreeMap::new();
        for seen in self.cloud.requests().iter() {
            *seconds.entry(seen.at.as_second() / 10).or_default() += 1;
        }
        let most = seconds.values().max().unwrap();
        // Ten a second, and a burst of fifty.
        assert!(*most <= 10 * 10 + 50, "{most} requests within ten seconds");
    }
}

/// Whether a list grows with the machines.
fn is_of_machines(what: &str) -> bool {
    what.ends_with("/instances") || what.ends_with("interfaces")
}

/// Requests within ten quiet minutes: first pages and everything else by path, and following pages.
async fn at_rest(machines: usize, capacity_type: CapacityType) -> (BTreeMap<String, usize>, usize) {
    let world = World::with(Options::make_roomy);
    world.settle(machines, capacity_type).await;
    while_working(world.replica(), async {
        world.clock.sleep(Duration::from_mins(11)).await;
        let before = usize::try_from(world.cloud.requests().count()).unwrap();
        world.clock.sleep(Duration::from_mins(10)).await;
        let requests = world.cloud.requests();
        let lately = usize::try_from(requests.count()).unwrap() - before;
        let seen: Vec<(String, String)> = requests
            .iter()
            .map(|seen| (format!("{} {}", seen.method, seen.path), seen.query.clone()))
            .collect();
        let mut first = BTreeMap::new();
        let mut following = 0;
        for (what, query) in &seen[seen.len() - lately..] {
            if is_of_machines(what) && query.contains("start=") {
                following += 1;
            } else {
                *first.entry(what.clone()).or_default() += 1;
            }
        }
        assert_eq!(world.living().len(), machines);
        (first, following)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn calls_at_rest_are_the_same_for_ten_and_a_thousand_machines_but_for_a_page_per_hundred() {
    grows_by_pages_only(CapacityType::OnDemand).await;
}

/// The same of machines that may be preempted.
#[tokio::test(start_paused = true)]
async fn calls_at_rest_are_the_same_for_ten_and_a_thousand_spot_machines_but_for_a_page_per_hundred() {
    grows_by_pages_only(CapacityType::Spot).await;
}

async fn grows_by_pages_only(capacity_type: CapacityType) {
    let (few, no_more) = at_rest(10, capacity_type).await;
    assert_eq!(no_more, 0);
    let total = |requests: &BTreeMap<String, usize>| requests.values().sum::<usize>();
    let kind = capacity_type.as_str();
    eprintln!(
        "10 {kind} machines: {} calls in ten minutes: {few:#?}",
        total(&few)
    );
    for machines in [100, 1000] {
        let (same, following) = at_rest(machines, capacity_type).await;
        assert_eq!(same, few, "{machines} {kind} machines");
        let lists: usize = few
            .iter()
            .filter(|(what, _)| is_of_machines(what))
            .map(|(_, count)| count)
            .sum();
        let pages = machines.div_ceil(PAGE) - 1;
        eprintln!(
            "{machines} {kind} machines: {} calls and {following} following pages",
            total(&same)
        );
        assert!(
            following <= lists * pages,
            "{following} pages in {lists} lists of {machines}"
        );
    }
}

/// What buying many machines at once took.
struct Bought {
    /// Requests until the last order was sent.
    requests: usize,
    /// How long that took.
    took: Duration,
}

impl World {
    /// Claims so many at once, until all are launched.
    async fn buy_at_once(&self, count: usize) -> Bought {
        let (started, before) = (self.clock.now(), self.cloud.requests().count());
        for number in 0..count {
            self.claim(&format!("claim-{number}")).await;
        }
        self.until("all launched", Duration::from_mins(20), async || {
            self.living().iter().filter(|it| it.status == "running").count() == count
        })
        .await;
        for number in 0..count {
            self.until_launched(&format!("claim-{number}")).await;
        }
        let requests = self.cloud.requests();
        assert_eq!(before, 0, "nobody has asked for anything before");
        let is_order = |seen: &&Seen| seen.method == http::Method::POST && seen.path == "/v1/instances";
        let last = requests.iter().filter(is_order).last().unwrap().at;
        Bought {
            requests: requests.iter().take_while(|seen| seen.at <= last).count(),
            took: (last - started).try_into().unwrap(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_claims_at_once_are_all_launched_as_fast_as_the_budget_of_requests_allows() {
    const CLAIMS: usize = 200;
    let world = World::with(Options::make_roomy);
    while_working(world.replica(), async {
        let bought = world.buy_at_once(CLAIMS).await;
        assert_eq!(world.orders(), CLAIMS, "each is ordered once");
        assert_eq!(world.living().len(), CLAIMS, "and nothing else is there");
        world.is_within_budget();
        let each = bought.requests * 10 / CLAIMS;
        eprintln!(
            "{} requests for {CLAIMS} orders within {:?}",
            bought.requests, bought.took
        );
        // The look-up, the order, the tags, and a share of the lists in which machines on their way are looked at.
        assert!(each <= 40, "{each} requests for ten orders");
        // A budget that was idle for more than one window would have let them through sooner.
        let needs = Duration::from_millis(100) * u32::try_from(bought.requests.saturating_sub(50)).unwrap();
        let window = Duration::from_secs(10);
        assert!(
            bought.took <= needs + window,
            "{:?} where {needs:?} would do",
            bought.took
        );
    })
    .await;
}
