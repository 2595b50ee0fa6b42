//! S4: no purchase is sent with which its NodePool would have more than it may, as a consistent read of claims and pools
//! saw it with all intents counted, the purchase's own included; nor later than five seconds after that read. Nor one with
//! which there would be more machines than there may be in all, by such a read.
//!
//! Every resource counts that a pool may name. What a claim says of its machine counts as it says; of one that says nothing
//! yet, what its profile and its class make of it at least.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::book::Book;
use super::purchases::bought_for;
use super::{Check, Findings, Truth};
use crate::api::names::NODE_POOL;
use crate::ibm::builtin::{Gpu, Profile, find_profile};
use crate::quantity::Quantity;
use crate::sim::history::{Answer, Edge, Entry, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

/// How old a read may be that a purchase rests on.
const FRESH: Duration = Duration::from_secs(5);
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";

/// A list that a replica was given.
struct Read {
    sent: Duration,
    path: &'static str,
    body: Bytes,
}

/// The lists that replicas were given lately, by their number.
#[derive(Default)]
pub(super) struct Limits(BTreeMap<usize, VecDeque<Read>>);

impl Check for Limits {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let Who::Replica { number, .. } = entry.who else {
            return;
        };
        match &entry.what {
            What::Answer(answer) => self.remember(number, answer, book, entry.at),
            What::Request(request) => {
                if let Some(uid) = bought_for(request) {
                    self.judge(number, &uid, entry.at, truth, found);
                    if let Some(most) = book.settings.machines_max {
                        self.judge_all(number, &uid, most, entry.at, found);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Limits {
    fn remember(&mut self, replica: usize, answer: &Answer, book: &Book, now: Duration) {
        let Some(sent) = book.answered.as_ref().filter(|_| answer.status == Some(200)) else {
            return;
        };
        let request = &sent.request;
        let whole = !["watch=", "limit=", "resourceVersion="]
            .iter()
            .any(|option| request.query.contains(option));
        let path = [CLAIMS, POOLS].into_iter().find(|path| *path == request.path);
        let reads = request.edge == Edge::Kube && request.method == Method::GET && whole;
        let Some(path) = path.filter(|_| reads) else {
            return;
        };
        let lately = self.0.entry(replica).or_default();
        lately.push_back(Read {
            sent: sent.at,
            path,
            body: answer.body.clone(),
        });
        while lately
            .front()
            .is_some_and(|read| now.saturating_sub(read.sent) > FRESH)
        {
            lately.pop_front();
        }
    }

    fn judge(&self, replica: usize, uid: &str, now: Duration, truth: &Truth<'_>, found: &mut Findings) {
        let Some((claim, pool)) = pool_of(uid, truth) else {
            return;
        };
        if limits(&pool).is_empty() {
            return;
        }
        let fresh = |path: &'static str| self.fresh(replica, path, now);
        let name = object::name(&pool);
        let allows = |claims: &Read, pools: &Read| {
            let (claims, pools) = (items(&claims.body), items(&pools.body));
            let pool = pools.iter().find(|it| object::name(it) == name);
            let counts_itself = claims
                .iter()
                .any(|it| object::uid(it) == uid && it["status"]["allocation"].is_object());
            let least = |claim: &Value, resource: &str| least(claim, resource, truth);
            let within = |(resource, limit): (String, i64)| held(&claims, name, &resource, least) <= limit;
            counts_itself && pool.is_none_or(|pool| limits(pool).into_iter().all(within))
        };
        let allowed = fresh(CLAIMS).any(|claims| fresh(POOLS).any(|pools| allows(claims, pools)));
        if !allowed {
            let message = format!(
                "a machine is bought for claim {claim}, and no read of the last {FRESH:?} shows room in NodePool {name}"
            );
            found.blame("S4", now, message);
        }
    }

    /// The same for all machines of the cluster, whoever they are for.
    fn judge_all(&self, replica: usize, uid: &str, most: u64, now: Duration, found: &mut Findings) {
        let mut fresh = self.fresh(replica, CLAIMS, now);
        if !fresh.any(|claims| is_room(&claims.body, uid, most)) {
            let message = format!(
                "a machine is bought for the claim with uid {uid}, and no read of the last {FRESH:?} shows it among {most}"
            );
            found.blame("S4", now, message);
        }
    }

    /// What a replica was given within the last seconds.
    fn fresh(&self, replica: usize, path: &'static str, now: Duration) -> impl Iterator<Item = &Read> {
        let lately = self.0.get(&replica).into_iter().flatten();
        lately.filter(move |read| read.path == path && now.saturating_sub(read.sent) <= FRESH)
    }
}

/// Whether a read shows the intent of a claim, and no more of them in all than `most`.
fn is_room(claims: &Bytes, uid: &str, most: u64) -> bool {
    let claims = items(claims);
    let allocated = claims.iter().filter(|it| it["status"]["allocation"].is_object());
    let uids: Vec<&str> = allocated.map(object::uid).collect();
    uids.contains(&uid) && u64::try_from(uids.len()).is_ok_and(|count| count <= most)
}

/// Whether the pool of a claim has exactly as much of something as it may, with the claim's own machine.
pub(in crate::sim) fn is_reached_exactly(uid: &str, truth: &Truth<'_>) -> bool {
    let Some((_, pool)) = pool_of(uid, truth) else {
        return false;
    };
    let state = truth.kube.state();
    let listed = state
        .store
        .list(&TableKey::of("karpenter.sh", "nodeclaims"), None);
    let claims: Vec<Value> = listed.map(|stored| stored.value()).collect();
    drop(state);
    let name = object::name(&pool);
    let least = |claim: &Value, resource: &str| least(claim, resource, truth);
    let mut limits = limits(&pool).into_iter();
    limits.any(|(resource, limit)| held(&claims, name, &resource, least) == limit)
}

/// The name of the claim with that uid, and its pool.
pub(super) fn pool_of(uid: &str, truth: &Truth<'_>) -> Option<(String, Value)> {
    let state = truth.kube.state();
    let all = |plural: &str| {
        let listed = state.store.list(&TableKey::of("karpenter.sh", plural), None);
        listed.map(|stored| stored.value()).collect::<Vec<Value>>()
    };
    let claim = all("nodeclaims").into_iter().find(|it| object::uid(it) == uid)?;
    let pool = claim["metadata"]["labels"][NODE_POOL].as_str()?.to_owned();
    let found = all("nodepools").into_iter().find(|it| object::name(it) == pool)?;
    Some((object::name(&claim).to_owned(), found))
}

fn items(body: &Bytes) -> Vec<Value> {
    let list: Value = serde_json::from_slice(body).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// The limits that are judged: processors in thousandths, memory and disk in bytes. What is no amount limits nothing.
pub(super) fn limits(pool: &Value) -> Vec<(String, i64)> {
    let written = pool["spec"]["limits"].as_object().into_iter().flatten();
    let amounts = written.filter_map(|(resource, limit)| Some((resource.clone(), amount(resource, limit)?)));
    amounts.collect()
}

fn amount(resource: &str, written: &Value) -> Option<i64> {
    let text = written
        .as_str()
        .map_or_else(|| written.to_string(), str::to_owned);
    let amount: Quantity = text.parse().ok()?;
    Some(match resource {
        "cpu" => amount.millis_ceil(),
        _ => amount.units_ceil(),
    })
}

/// What the claims of a pool hold of a resource. `least` is what the machine of a claim that does not say has of it.
fn held(claims: &[Value], pool: &str, resource: &str, least: impl Fn(&Value, &str) -> i64) -> i64 {
    let holding = claims.iter().filter(|claim| {
        claim["metadata"]["labels"][NODE_POOL] == pool && claim["status"]["allocation"].is_object()
    });
    let has = |claim: &Value| match (resource, &claim["status"]["capacity"]) {
        ("nodes", _) => 1,
        (_, Value::Null) => least(claim, resource),
        (_, said) => amount(resource, &said[resource]).unwrap_or(0),
    };
    holding.map(has).sum()
}

/// No node is taken to have less memory than this of what is sold, in hundredths.
const MEMORY_LEAST: i64 = 80;
/// Nor less of the volume that it boots from: a GiB is for booting, and 5 % of the rest for the file system.
const DISK_LEAST: i64 = 93;
const PODS_DEFAULT: i64 = 110;
const VOLUME_GB_DEFAULT: i64 = 100;
const GIB: i64 = 1 << 30;

/// What the machine of a claim has of a resource at least, as its profile and its class have it.
fn least(claim: &Value, resource: &str, truth: &Truth<'_>) -> i64 {
    let profile = claim["status"]["allocation"]["profile"].as_str();
    let Some(profile) = profile.and_then(find_profile) else {
        return 0;
    };
    match resource {
        "cpu" => i64::from(profile.vcpu) * 1000,
        "memory" => i64::from(profile.memory_gib) * GIB / 100 * MEMORY_LEAST,
        "pods" => pods(&class_of(claim, truth), i64::from(profile.vcpu)),
        "ephemeral-storage" => disk(&class_of(claim, truth)),
        _ => cards(profile, resource),
    }
}

/// The class of a claim; nothing if it is gone.
fn class_of(claim: &Value, truth: &Truth<'_>) -> Value {
    let name = claim["spec"]["nodeClassRef"]["name"].as_str().unwrap_or_default();
    let state = truth.kube.state();
    let key = TableKey::of("karpenter-ibm.sh", "ibmnodeclasses");
    let mut classes = state.store.list(&key, None).map(|stored| stored.value());
    classes
        .find(|class| object::name(class) == name)
        .unwrap_or_default()
}

/// What nodes of a class were seen to have of something, at least.
fn seen(class: &Value, what: &str) -> Option<i64> {
    let profiles = class["status"]["observedCapacity"].as_array();
    let all = profiles.into_iter().flatten();
    all.filter_map(|of| amount(what, of.get(what)?)).min()
}

fn pods(class: &Value, vcpu: i64) -> i64 {
    let kubelet = &class["spec"]["kubelet"];
    let most = kubelet["maxPods"].as_i64().unwrap_or(PODS_DEFAULT);
    let per_core = kubelet["podsPerCore"].as_i64().filter(|per_core| *per_core > 0);
    let told = per_core.map_or(most, |per_core| most.min(per_core * vcpu));
    seen(class, "pods").map_or(told, |seen| told.min(seen))
}

fn disk(class: &Value) -> i64 {
    let volumes = class["spec"]["blockDeviceMappings"].as_array();
    let root = volumes.into_iter().flatten().find(|it| it["rootVolume"] == true);
    let gb = root.and_then(|root| root["volumeSpec"]["capacity"].as_i64());
    let told = gb.unwrap_or(VOLUME_GB_DEFAULT) * 1_000_000_000 / 100 * DISK_LEAST;
    seen(class, "ephemeralStorage").map_or(told, |seen| told.min(seen))
}

/// How many cards a profile has, if these are the ones that are asked about.
fn cards(profile: &Profile, resource: &str) -> i64 {
    let maker = |gpu: &Gpu| match gpu.manufacturer.to_lowercase().as_str() {
        "intel" => "habana.ai/gaudi".to_owned(),
        maker => format!("{maker}.com/gpu"),
    };
    let gpu = profile.gpu.as_ref().filter(|gpu| maker(gpu) == resource);
    gpu.map_or(0, |gpu| i64::from(gpu.count))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::api::NodePool;
    use kube::api::{Api, PostParams};

    fn claim(uid: &str, allocated: bool) -> Value {
        let allocation = if allocated {
            json!({"profile": "bxf-2x8"})
        } else {
            Value::Null
        };
        json!({
            "metadata": {"uid": uid, "labels": {NODE_POOL: "default"}}, "status": {"allocation": allocation},
        })
    }

    fn pool(limits: &Value) -> Value {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"limits": limits, "template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            }}},
        })
    }

    /// A claim of a pool with these limits; its uid.
    async fn limited(stage: &mut Stage, limits: &Value) -> String {
        let pools: Api<NodePool> = Api::all(stage.server.admin());
        let written = serde_json::from_value(pool(limits)).unwrap();
        pools.create(&PostParams::default(), &written).await.unwrap();
        let uid = stage.claim("a").await;
        let labels = json!({"metadata": {"labels": {NODE_POOL: "default"}}});
        stage.patch("a", labels).await;
        uid
    }

    fn reads(stage: &mut Stage, claims: &[Value], limits: &Value) {
        for (path, items) in [(CLAIMS, claims.to_vec()), (POOLS, vec![pool(limits)])] {
            let number = stage.sends(0, Edge::Kube, &Method::GET, path, "");
            stage.hears(0, number, Some(200), &json!({"items": items}).to_string());
        }
    }

    fn buys(stage: &mut Stage, uid: &str) {
        let order = json!({"name": stage.name_of(uid)}).to_string();
        stage.sends(0, Edge::Cloud, &Method::POST, "/v1/instances", &order);
    }

    #[tokio::test(start_paused = true)]
    async fn a_purchase_rests_on_a_young_read_that_shows_room_for_it() {
        let limits = json!({"cpu": "4", "nodes": 2});
        let cases: [(&str, usize, bool, u64, &[&str]); 5] = [
            ("within", 1, true, 0, &[]),
            ("at the limit", 2, true, 0, &[]),
            ("over it", 3, true, 0, &["S4"]),
            ("without its own intent", 1, false, 0, &["S4"]),
            ("too late", 1, true, 6, &["S4"]),
        ];
        for (name, count, own, later, blamed) in cases {
            let mut stage = Stage::new().await;
            let uid = limited(&mut stage, &limits).await;
            let mut claims: Vec<Value> = (1..count).map(|it| claim(&it.to_string(), true)).collect();
            claims.push(claim(&uid, own));
            reads(&mut stage, &claims, &limits);
            stage.pass(later).await;
            buys(&mut stage, &uid);
            assert_eq!(stage.blamed(), blamed, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_purchase_rests_on_a_young_read_that_shows_room_in_all() {
        let cases = [
            ("within", 3, 2, true, 0, true),
            ("at the bound", 2, 2, true, 0, true),
            ("over it", 2, 3, true, 0, false),
            ("without its own intent", 2, 1, false, 0, false),
            ("too late", 2, 1, true, 6, false),
        ];
        for (name, most, count, own, later, is_right) in cases {
            let blamed: &[&str] = if is_right { &[] } else { &["S4"] };
            let mut stage = Stage::new().await;
            stage.judge.book.settings.machines_max = Some(most);
            let uid = stage.claim("a").await;
            let mut claims: Vec<Value> = (1..count).map(|it| claim(&it.to_string(), true)).collect();
            claims.extend([claim(&uid, own), claim("waits", false)]);
            reads(&mut stage, &claims, &json!({}));
            stage.pass(later).await;
            buys(&mut stage, &uid);
            assert_eq!(stage.blamed(), blamed, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_limits_nothing_has_to_be_read() {
        let mut stage = Stage::new().await;
        let uid = limited(&mut stage, &json!({})).await;
        buys(&mut stage, &uid);
        assert!(stage.blamed().is_empty());
    }

    /// One purchase of a pool with this limit, whose read shows so many claims without a word about their machines.
    async fn blamed(limit: Value, claims: usize, profile: &str) -> Vec<&'static str> {
        let mut stage = Stage::new().await;
        let uid = limited(&mut stage, &limit).await;
        let mut all: Vec<Value> = (1..claims).map(|it| claim(&it.to_string(), true)).collect();
        all.push(claim(&uid, true));
        for claim in &mut all {
            claim["status"]["allocation"]["profile"] = json!(profile);
        }
        reads(&mut stage, &all, &limit);
        buys(&mut stage, &uid);
        stage.blamed()
    }

    #[tokio::test(start_paused = true)]
    async fn every_resource_that_a_pool_names_is_counted() {
        for (limit, most, profile) in [
            (json!({"cpu": "4"}), 2, "bxf-2x8"),
            (json!({"memory": "16Gi"}), 2, "bxf-2x8"),
            (json!({"nodes": 2}), 2, "bxf-2x8"),
            (json!({"pods": "220"}), 2, "bxf-2x8"),
            (json!({"ephemeral-storage": "200G"}), 2, "bxf-2x8"),
            (json!({"nvidia.com/gpu": 2}), 2, "gx2-8x64x1v100"),
        ] {
            let none: [&str; 0] = [];
            assert_eq!(blamed(limit.clone(), most, profile).await, none, "{limit}");
            assert_eq!(blamed(limit.clone(), most + 1, profile).await, ["S4"], "{limit}");
        }
        let unknown = json!({"example.com/other": 1});
        assert!(
            blamed(unknown, 9, "bxf-2x8").await.is_empty(),
            "no machine has it"
        );
    }

    #[test]
    fn what_a_claim_says_of_its_machine_counts() {
        let mut says = claim("1", true);
        says["status"]["capacity"] = json!({"pods": "20", "ephemeral-storage": "40Gi", "cpu": "2"});
        let both = [says, claim("2", true)];
        let held = |resource| held(&both, "default", resource, |_, _| 1);
        assert_eq!(held("pods"), 21);
        assert_eq!(held("ephemeral-storage"), 40 * GIB + 1);
        assert_eq!(held("cpu"), 2001);
        assert_eq!(held("nodes"), 2);
    }

    #[test]
    fn a_class_says_how_many_pods_and_how_much_disk_its_nodes_have() {
        let plain = json!({});
        assert_eq!((pods(&plain, 2), disk(&plain)), (110, 93_000_000_000));
        let class = json!({
            "spec": {
                "kubelet": {"maxPods": 60, "podsPerCore": 10},
                "blockDeviceMappings": [{"rootVolume": true, "volumeSpec": {"capacity": 200}}],
            },
            "status": {"observedCapacity": [{"profile": "bxf-2x8", "pods": "15", "ephemeralStorage": "40Gi"}]},
        });
        assert_eq!(
            (pods(&class, 1), pods(&class, 4), disk(&class)),
            (10, 15, 40 * GIB)
        );
    }
}
