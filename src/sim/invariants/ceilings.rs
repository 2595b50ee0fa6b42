//! S4, on what is really there: when a purchase is sent, the machines of its NodePool that live and those that are ordered,
//! its own included, have no more than the pool may.
//!
//! Two reads that each show room for one may not both be used, which whoever looks at one read alone cannot see. Every
//! replica writes its intent before it reads, so of two that overlap one at least sees the other's.
//!
//! What nobody can promise is left out. A pool may have as much as it ever might: somebody may have lowered its limits since.
//! A machine counts once somebody holds its claim to it: that of a claim that is gone, was forced by somebody else, or has no
//! allocation on record is the sweep's. What came otherwise than it was ordered is more than anybody wanted. An older
//! definition drops allocations: a claim that has lost one to it was not counted by others for a while, and is not counted
//! here from then on; nobody else is excused for it, nor whoever takes one off when the definition is right again. And only
//! machines and processors are counted: of those a profile says exactly how many it has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::book::Book;
use super::limits::{limits, pool_of};
use super::purchases::bought_for;
use super::{Check, Findings, Truth};
use crate::api::names::NODE_POOL;
use crate::ibm::builtin::find_profile;
use crate::sim::history::{Entry, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::stored::ObjectKey;

/// What is counted.
const COUNTED: [&str; 2] = ["cpu", "nodes"];
/// What takes allocations off claims, so that others count without them.
const FORGETS: &str = "k16-old-definition";
/// Where a version of the definition of claims says what an allocation is.
const ALLOCATION: &str = "/schema/openAPIV3Schema/properties/status/properties/allocation";

#[derive(Default)]
pub(super) struct Ceilings {
    /// How far the pools have been read.
    read: u64,
    /// The most that each pool might ever have, by its name and by what; nothing where there was no limit once.
    most: BTreeMap<(String, &'static str), Option<i64>>,
    /// The profile that was ordered last for a claim, by its uid.
    ordered: BTreeMap<String, String>,
    /// Uids of claims that have lost what they were allocated while there was an older definition.
    pruned: BTreeSet<String>,
}

impl Check for Ceilings {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        self.read_pools(truth);
        self.follow_claims(book, truth);
        let (What::Request(request), Who::Replica { .. }) = (&entry.what, &entry.who) else {
            return;
        };
        let Some(uid) = bought_for(request) else {
            return;
        };
        let order: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let profile = order["profile"]["name"].as_str().unwrap_or_default();
        self.ordered.insert(uid.clone(), profile.to_owned());
        let Some((_, pool)) = pool_of(&uid, truth) else {
            return;
        };
        let pool = object::name(&pool).to_owned();
        for what in COUNTED {
            let Some(Some(most)) = self.most.get(&(pool.clone(), what)) else {
                continue;
            };
            let has = self.held(&pool, what, book, truth);
            if has > *most {
                let message = format!(
                    "NodePool {pool} has and is to have {has} of {what}, of which it may have {most} at the most"
                );
                found.blame("S4", entry.at, message);
            }
        }
    }
}

impl Ceilings {
    /// Takes note of limits that were raised, or lifted.
    fn read_pools(&mut self, truth: &Truth<'_>) {
        let state = truth.kube.state();
        let table = TableKey::of("karpenter.sh", "nodepools");
        let changed = state.store.changed_at(&table);
        if changed == self.read {
            return;
        }
        self.read = changed;
        for pool in state.store.list(&table, None).map(|stored| stored.value()) {
            let limits: BTreeMap<String, i64> = limits(&pool).into_iter().collect();
            for what in COUNTED {
                let now = limits.get(what).copied();
                let key = (object::name(&pool).to_owned(), what);
                let most = self.most.entry(key).or_insert(now);
                *most = most.zip(now).map(|(most, now)| most.max(now));
            }
        }
    }

    /// Takes note of claims that lose what they were allocated to an older definition.
    fn follow_claims(&mut self, book: &Book, truth: &Truth<'_>) {
        if book.strikes(FORGETS) == 0 {
            return;
        }
        let allocated = |claim: &Value| claim["status"]["allocation"].is_object();
        for change in &book.changed.claims {
            let was = change.before.as_deref().is_some_and(allocated);
            if was && !allocated(&change.after) && was_pruned(&change.after, truth) {
                self.pruned.insert(object::uid(&change.after).to_owned());
            }
        }
    }

    /// What the machines of a pool have that live or are ordered.
    fn held(&self, pool: &str, what: &str, book: &Book, truth: &Truth<'_>) -> i64 {
        let state = truth.kube.state();
        let table = TableKey::of("karpenter.sh", "nodeclaims");
        let claims = state.store.list(&table, None).map(|stored| stored.value());
        let of_pool = claims.filter(|claim| claim["metadata"]["labels"][NODE_POOL] == pool);
        of_pool.map(|claim| self.of(&claim, what, book)).sum()
    }

    /// What the machine of a claim has, if it lives or is ordered.
    fn of(&self, claim: &Value, what: &str, book: &Book) -> i64 {
        let uid = object::uid(claim);
        let Some(wanted) = claim["status"]["allocation"]["profile"].as_str() else {
            return 0;
        };
        let is_lost = book
            .claims
            .get(uid)
            .is_none_or(|facts| facts.forced.is_some() || facts.stripped)
            || self.pruned.contains(uid);
        let mut live = book.machines_of(uid).filter(|machine| machine.is_live());
        let machine = live.next();
        let is_ordered = || {
            let mut open = book.open.values();
            open.any(|sent| bought_for(&sent.request).as_deref() == Some(uid))
        };
        let is_as_ordered = self.ordered.get(uid).is_some_and(|ordered| ordered == wanted)
            && machine.is_none_or(|machine| machine.profile == wanted);
        if is_lost || !is_as_ordered || (machine.is_none() && !is_ordered()) {
            return 0;
        }
        match what {
            "nodes" => 1,
            _ => find_profile(wanted).map_or(0, |profile| i64::from(profile.vcpu) * 1000),
        }
    }
}

/// Whether the definition had no place for an allocation when a claim was written as it is.
fn was_pruned(claim: &Value, truth: &Truth<'_>) -> bool {
    let written = object::meta(claim, "resourceVersion").parse().unwrap_or(u64::MAX);
    let table = TableKey::of("apiextensions.k8s.io", "customresourcedefinitions");
    let key = ObjectKey::new("", "nodeclaims.karpenter.sh");
    let state = truth.kube.state();
    let definition = match state.store.at(&table, written) {
        Some(then) => then.get(&key),
        None => state.store.get(&table, &key),
    };
    let definition = definition.map(|stored| stored.value()).unwrap_or_default();
    let mut versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.any(|version| version.pointer(ALLOCATION).is_none())
}

#[cfg(test)]
mod tests {
    use http::Method;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::api::{Api, Patch, PatchParams};
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::api::NodePool;
    use crate::sim::history::Edge;
    use crate::sim::kube::write;

    fn pool(stage: &mut Stage, limits: &Value) {
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
                "spec": {"limits": limits, "template": {"spec": {
                    "requirements": [],
                    "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                }}},
            }),
        );
        stage.look();
    }

    /// A claim of the pool that is to have a machine; its uid.
    async fn intent(stage: &mut Stage, name: &str) -> String {
        let uid = stage.claim(name).await;
        let labels = json!({"metadata": {"labels": {NODE_POOL: "default"}}});
        stage.patch(name, labels).await;
        allocate(stage, name).await;
        uid
    }

    async fn allocate(stage: &mut Stage, name: &str) {
        let allocation = json!({
            "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "on-demand", "attempt": 1,
            "subnet": "0717-b28a5d3c-6d1c-4a1e-9d7c-0a1b2c3d4e5f", "instanceName": "kib-1",
            "since": "2026-11-16T10:00:00Z",
        });
        stage
            .patch(name, json!({"status": {"allocation": allocation}}))
            .await;
    }

    fn buys(stage: &mut Stage, uid: &str) -> u64 {
        let order = json!({"name": stage.name_of(uid), "profile": {"name": "bxf-2x8"}});
        stage.sends(0, Edge::Cloud, &Method::POST, "/v1/instances", &order.to_string())
    }

    /// Whether somebody was blamed for what is really there; that no read was made is blamed elsewhere.
    fn is_over(stage: &Stage) -> bool {
        let violations = stage.judge.violations().iter();
        let mut messages = violations.map(|violation| violation.message.as_str());
        messages.any(|message| message.contains("has and is to have"))
    }

    #[tokio::test(start_paused = true)]
    async fn what_lives_and_what_is_ordered_is_within_the_limits_of_its_pool() {
        for (limits, most) in [
            (json!({"nodes": 1}), 1),
            (json!({"cpu": "4"}), 2),
            (json!({"memory": "1Gi"}), 3),
            (json!({}), 3),
        ] {
            let mut stage = Stage::new().await;
            pool(&mut stage, &limits);
            for (count, name) in ["a", "b", "c"].into_iter().enumerate() {
                let uid = intent(&mut stage, name).await;
                let number = buys(&mut stage, &uid);
                // Of the second the answer has not come yet.
                if count != 1 {
                    stage.machine(&stage.name_of(&uid)).await;
                    stage.hears(0, number, Some(201), "{}");
                }
                assert_eq!(is_over(&stage), count >= most, "{limits} {name}");
            }
        }
    }

    /// Changes what the definition of claims says of allocations, or takes it out; what it said.
    async fn define(stage: &Stage, allocation: Option<Value>) -> Option<Value> {
        let definitions: Api<CustomResourceDefinition> = Api::all(stage.server.admin());
        let known = definitions.get("nodeclaims.karpenter.sh").await.unwrap();
        let mut versions = serde_json::to_value(known.spec.versions).unwrap();
        let status = ALLOCATION.trim_end_matches("/allocation");
        let status = versions[0].pointer_mut(status).unwrap().as_object_mut().unwrap();
        let before = match allocation {
            Some(allocation) => status.insert("allocation".to_owned(), allocation),
            None => status.remove("allocation"),
        };
        let changed = Patch::Merge(json!({"spec": {"versions": versions}}));
        let params = PatchParams::default();
        definitions
            .patch("nodeclaims.karpenter.sh", &params, &changed)
            .await
            .unwrap();
        before
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_nobodys_fault_is_not_counted() {
        let excuses = ["refused", "forced", "pruned", "gone"];
        let none = ["none", "another pruned", "an older form", "taken off later"];
        for excuse in excuses.into_iter().chain(none) {
            let mut stage = Stage::new().await;
            pool(&mut stage, &json!({"nodes": 1}));
            let first = intent(&mut stage, "a").await;
            let number = buys(&mut stage, &first);
            if excuse != "refused" {
                stage.machine(&stage.name_of(&first)).await;
            }
            stage.hears(0, number, Some(400), "{}");
            match excuse {
                "forced" => stage.struck("k14-strip-finalizer", "nodeclaims/a"),
                "pruned" | "taken off later" => {
                    stage.struck("k16-old-definition", "nodeclaims.karpenter.sh");
                    let before = define(&stage, None).await;
                    if excuse == "taken off later" {
                        define(&stage, before.clone()).await;
                    }
                    stage.patch("a", json!({"status": {"allocation": null}})).await;
                    define(&stage, before).await;
                    allocate(&mut stage, "a").await;
                }
                "another pruned" => stage.struck("k16-old-definition", "nodeclaims.karpenter.sh"),
                "an older form" => stage.struck("k16-old-version", "the stored form of a"),
                "gone" => {
                    stage.delete("a").await;
                    stage.release("a").await;
                }
                _ => {}
            }
            let second = intent(&mut stage, "b").await;
            buys(&mut stage, &second);
            assert_eq!(is_over(&stage), none.contains(&excuse), "{excuse}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_may_have_what_it_might_before_its_limits_were_lowered() {
        for (before, over) in [
            (json!({"nodes": 2}), false),
            (json!({"nodes": 1}), true),
            (json!({"cpu": "9"}), false),
        ] {
            let mut stage = Stage::new().await;
            pool(&mut stage, &before);
            let pools: Api<NodePool> = Api::all(stage.server.admin());
            let lowered = Patch::Merge(json!({"spec": {"limits": {"nodes": 1}}}));
            pools
                .patch("default", &PatchParams::default(), &lowered)
                .await
                .unwrap();
            for name in ["a", "b"] {
                let uid = intent(&mut stage, name).await;
                let number = buys(&mut stage, &uid);
                stage.machine(&stage.name_of(&uid)).await;
                stage.hears(0, number, Some(201), "{}");
            }
            assert_eq!(is_over(&stage), over, "{before}");
        }
    }
}
