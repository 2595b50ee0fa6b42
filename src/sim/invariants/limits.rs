//! S4: no purchase is sent with which its NodePool would have more than it may, as a consistent read of claims and pools
//! saw it with all intents counted, the purchase's own included; nor later than five seconds after that read.
//!
//! Counted are machines, processors, GPUs and memory, of which a machine has at least so much of what is sold. What else
//! it has is known for certain only when it runs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::book::Book;
use super::purchases::bought_for;
use super::{Check, Findings, Truth};
use crate::api::names::NODE_POOL;
use crate::ibm::builtin::find_profile;
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
        let fresh = |path: &'static str| {
            let lately = self.0.get(&replica).into_iter().flatten();
            lately.filter(move |read| read.path == path && now.saturating_sub(read.sent) <= FRESH)
        };
        let name = object::name(&pool);
        let allows = |claims: &Read, pools: &Read| {
            let (claims, pools) = (items(&claims.body), items(&pools.body));
            let pool = pools.iter().find(|it| object::name(it) == name);
            let counts_itself = claims
                .iter()
                .any(|it| object::uid(it) == uid && it["status"]["allocation"].is_object());
            let within = |(resource, limit): (String, i64)| held(&claims, name, &resource) <= limit;
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
}

/// The name of the claim with that uid, and its pool.
fn pool_of(uid: &str, truth: &Truth<'_>) -> Option<(String, Value)> {
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

/// What is counted.
const COUNTED: [&str; 4] = ["cpu", "memory", "nodes", GPU];
const GPU: &str = "nvidia.com/gpu";
/// No node is taken to have less memory than this of what is sold, in hundredths.
const MEMORY_LEAST: i64 = 80;
const GIB: i64 = 1 << 30;

/// The limits that are judged: processors in thousandths, memory in bytes.
fn limits(pool: &Value) -> Vec<(String, i64)> {
    let written = |resource: &str| {
        let limit = &pool["spec"]["limits"][resource];
        let text = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
        let amount: Quantity = text.parse().ok().filter(|_| !limit.is_null())?;
        let amount = if resource == "cpu" {
            amount.millis_ceil()
        } else {
            amount.units_ceil()
        };
        Some((resource.to_owned(), amount))
    };
    COUNTED.into_iter().filter_map(written).collect()
}

/// What the claims of a pool hold of a resource.
fn held(claims: &[Value], pool: &str, resource: &str) -> i64 {
    let holding = claims.iter().filter(|claim| {
        claim["metadata"]["labels"][NODE_POOL] == pool && claim["status"]["allocation"].is_object()
    });
    let amount = |claim: &Value| {
        let profile = claim["status"]["allocation"]["profile"]
            .as_str()
            .and_then(find_profile);
        match (resource, profile) {
            ("nodes", _) => 1,
            ("cpu", Some(profile)) => i64::from(profile.vcpu) * 1000,
            ("memory", Some(profile)) => i64::from(profile.memory_gib) * GIB / 100 * MEMORY_LEAST,
            (GPU, Some(profile)) => profile.gpu.as_ref().map_or(0, |gpu| i64::from(gpu.count)),
            _ => 0,
        }
    };
    holding.map(amount).sum()
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
    async fn without_limits_nothing_has_to_be_read() {
        let mut stage = Stage::new().await;
        let uid = limited(&mut stage, &json!({})).await;
        buys(&mut stage, &uid);
        assert!(stage.blamed().is_empty());
    }

    #[test]
    fn memory_and_gpus_are_counted_too() {
        let limits = limits(&pool(
            &json!({"memory": "16Gi", "nvidia.com/gpu": 2, "example.com/other": 1}),
        ));
        assert_eq!(limits, [("memory".to_owned(), 16 * GIB), (GPU.to_owned(), 2)]);
        let three: Vec<Value> = ["1", "2", "3"].map(|uid| claim(uid, true)).into();
        assert!(
            held(&three, "default", "memory") > 16 * GIB,
            "three of eight are more than sixteen"
        );
        assert!(held(&three[..2], "default", "memory") <= 16 * GIB);
        let mut fast = claim("4", true);
        fast["status"]["allocation"]["profile"] = json!("gx2-8x64x1v100");
        assert_eq!(held(&[fast], "default", GPU), 1);
    }
}
