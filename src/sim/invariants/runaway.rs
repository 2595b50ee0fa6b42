//! L11: nobody buys again and again. No two claims of one plan are made for the same pod, and while two that were made for
//! it are on their way, no third is made. Nor is one made for a pod for which two have come in vain: their nodes are ready,
//! nothing happened to them, and nobody is on them. Once that may be, where a node has less than its kind was thought to.
//!
//! A claim names its pods in the write that makes it. Pods that come later may take the room that it has, in the next plan
//! or on its node, so one more may follow. It is on its way until its node is ready or has pods, unless it has ended or is
//! being deleted, or its pool is. Two leaders that overlap may each make one, as neither can know of the other's.

use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::book::Book;
use super::claims::{conditions, is_true};
use super::{Check, Findings, Truth};
use crate::api::names::{NODE_INITIALIZED, NODE_POOL, NOMINATED_PODS};
use crate::sim::history::{Edge, Entry, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::stored::ObjectKey;

/// So long may pass between the look that a claim rests on and its arrival: no answer is waited for longer.
const BLIND: Duration = Duration::from_secs(30);
/// The claims of one plan are made within less than this, and the next plan is made later: pods are gathered for longer.
const ONE_PLAN: Duration = Duration::from_millis(500);

/// The claims that were made by replicas lately: when, by whom, and the name.
#[derive(Default)]
pub(super) struct Runaway {
    made: Vec<(Duration, usize, String)>,
}

impl Check for Runaway {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let (What::Request(request), Who::Replica { number, .. }) = (&entry.what, &entry.who) else {
            return;
        };
        let makes = request.edge == Edge::Kube
            && request.method == Method::POST
            && request.path.ends_with("/nodeclaims");
        if !makes {
            return;
        }
        let Ok(claim) = serde_json::from_slice::<Value>(&request.body) else {
            return;
        };
        let mut pods = pods_of(&claim);
        pods.retain(|pod| !has_a_place(pod, truth));
        let name = object::name(&claim).to_owned();
        let mut others = there(truth);
        in_vain(&name, &pods, &others, entry.at, book, truth, found);
        others.retain(|other| {
            is_on_its_way(other)
                && object::name(other) != name
                && self.is_known_to(*number, other, entry.at, book)
                && !has_pods(other, truth)
        });
        for pod in &pods {
            let its_own = others.iter().filter(|other| pods_of(other).contains(pod));
            let names: Vec<&str> = its_own.map(object::name).collect();
            let at_once = |name: &&str| {
                let mut made = self.made.iter();
                made.any(|(at, maker, made)| maker == number && made == name && entry.at < *at + ONE_PLAN)
            };
            if names.len() > 1 || names.iter().any(at_once) {
                let others = names.join(" and ");
                let message = format!("claim {name} is made for pod {pod}, for which {others} is on its way");
                found.blame("L11", entry.at, message);
            }
        }
        self.made.push((entry.at, *number, name));
        self.made.retain(|(at, _, _)| *at + BLIND >= entry.at);
    }
}

impl Runaway {
    /// Whether a replica must know of a claim: its own, or one that was there when it last looked.
    fn is_known_to(&self, replica: usize, claim: &Value, now: Duration, book: &Book) -> bool {
        let name = object::name(claim);
        let mine = self
            .made
            .iter()
            .any(|(_, maker, made)| *maker == replica && made == name);
        let seen = book.claims.get(object::uid(claim)).map(|facts| facts.seen);
        mine || seen.is_some_and(|seen| seen + BLIND < now)
    }
}

/// Blames a claim that is made for a pod whose needs the nodes that were bought for it did not meet.
fn in_vain(
    name: &str,
    pods: &[String],
    claims: &[Value],
    now: Duration,
    book: &Book,
    truth: &Truth<'_>,
    found: &mut Findings,
) {
    let came = |claim: &&Value| object::name(claim) != name && has_come_in_vain(claim, book, truth);
    let empty: Vec<&Value> = claims.iter().filter(came).collect();
    for pod in pods {
        let its_own = empty.iter().filter(|claim| pods_of(claim).contains(pod));
        let names: Vec<&str> = its_own.map(|claim| object::name(claim)).collect();
        if names.len() > 1 {
            let others = names.join(" and ");
            let message = format!("claim {name} is made for pod {pod}, for which {others} came in vain");
            found.blame("L11", now, message);
        }
    }
}

/// Whether the node of a claim is ready, nothing happened to it, and nobody is there but daemons.
fn has_come_in_vain(claim: &Value, book: &Book, truth: &Truth<'_>) -> bool {
    let name = object::name(claim);
    let touched = ["nodeclaims", "nodes"].map(|kind| format!("{kind}/{name}"));
    let mut machines = book.machines_of(object::uid(claim));
    let whole = machines.any(|machine| machine.is_live() && machine.broken.is_none());
    !object::is_deleting(claim)
        && is_true(claim, NODE_INITIALIZED)
        && whole
        && !touched.iter().any(|it| book.meddled.contains_key(it))
        && is_ready(name, truth)
        && !has_guests(name, truth)
}

fn is_ready(node: &str, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let key = ObjectKey::new("", node);
    let node = state.store.get(&TableKey::of("", "nodes"), &key);
    node.is_some_and(|node| is_true(&node.shared(), "Ready"))
}

/// Whether pods are on a node that are no daemons.
fn has_guests(node: &str, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let pods = state.store.list(&TableKey::of("", "pods"), None);
    let mut there = pods.filter(|stored| stored.field("spec.nodeName") == node);
    there.any(|stored| {
        let pod = stored.shared();
        let owners = pod["metadata"]["ownerReferences"].as_array();
        !owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "DaemonSet"))
    })
}

/// Whether a pod has found a place or goes: then the claim is for what takes its place when its node goes.
fn has_a_place(uid: &str, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let mut pods = state.store.list(&TableKey::of("", "pods"), None);
    pods.any(|stored| {
        let pod = stored.shared();
        object::uid(&pod) == uid && (!stored.field("spec.nodeName").is_empty() || object::is_deleting(&pod))
    })
}

/// Whether pods are on the node of a claim, which has its name.
fn has_pods(claim: &Value, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let mut pods = state.store.list(&TableKey::of("", "pods"), None);
    pods.any(|stored| stored.field("spec.nodeName") == object::name(claim))
}

/// The claims that are there, but for those of pools that go: these go with them.
fn there(truth: &Truth<'_>) -> Vec<Value> {
    let mut claims = objects(truth, "nodeclaims");
    let pools = objects(truth, "nodepools");
    let stays = |name: &str| {
        let mut pools = pools.iter().filter(|pool| !object::is_deleting(pool));
        pools.any(|pool| object::name(pool) == name)
    };
    claims.retain(|claim| claim["metadata"]["labels"][NODE_POOL].as_str().is_none_or(stays));
    claims
}

fn objects(truth: &Truth<'_>, plural: &str) -> Vec<Value> {
    let state = truth.kube.state();
    let listed = state.store.list(&TableKey::of("karpenter.sh", plural), None);
    listed.map(|stored| stored.value()).collect()
}

/// The uids of the pods that a claim is made for.
pub(super) fn pods_of(claim: &Value) -> Vec<String> {
    let named = claim["metadata"]["annotations"][NOMINATED_PODS].as_str();
    let pods = named.unwrap_or_default().split(',').filter(|pod| !pod.is_empty());
    pods.map(str::to_owned).collect()
}

fn is_on_its_way(claim: &Value) -> bool {
    let ended = |condition: &Value| condition["status"] == "False";
    !object::is_deleting(claim) && !is_true(claim, NODE_INITIALIZED) && !conditions(claim).iter().any(ended)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, PostParams};
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::sim::kube::write;

    fn makes(stage: &mut Stage, replica: usize, name: &str, pods: &str) {
        let claim = json!({"metadata": {"name": name, "annotations": {NOMINATED_PODS: pods}}});
        let path = "/apis/karpenter.sh/v1/nodeclaims";
        stage.sends(replica, Edge::Kube, &Method::POST, path, &claim.to_string());
    }

    async fn made(pods: &str) -> Stage {
        let mut stage = Stage::new().await;
        makes(&mut stage, 0, "a", pods);
        stage.claim("a").await;
        let annotations = json!({"metadata": {"annotations": {NOMINATED_PODS: pods}}});
        stage.patch("a", annotations).await;
        stage
    }

    #[tokio::test(start_paused = true)]
    async fn no_second_claim_is_made_for_a_pod_while_the_first_is_on_its_way() {
        let mut stage = made("1,2").await;
        makes(&mut stage, 0, "b", "3");
        makes(&mut stage, 0, "a", "1,2");
        assert!(stage.blamed().is_empty(), "the same once more is the same");
        makes(&mut stage, 0, "b", "2,3");
        assert_eq!(stage.blamed(), ["L11"]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_more_is_made_by_a_later_plan_and_no_third() {
        let mut stage = made("1").await;
        stage.pass(1).await;
        makes(&mut stage, 0, "b", "1");
        stage.claim("b").await;
        stage
            .patch("b", json!({"metadata": {"annotations": {NOMINATED_PODS: "1"}}}))
            .await;
        assert!(stage.blamed().is_empty(), "pods that came later have its room");
        stage.pass(1).await;
        makes(&mut stage, 0, "c", "1");
        assert_eq!(stage.blamed(), ["L11"]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_made_after_the_first_has_come_or_failed() {
        for status in ["True", "False"] {
            let mut stage = made("1").await;
            stage.conditions("a", &[(NODE_INITIALIZED, status, 1)]).await;
            makes(&mut stage, 0, "b", "1");
            assert!(stage.blamed().is_empty(), "{status}");
        }
    }

    /// What else a stage lacks is not asked here.
    fn is_runaway(stage: &Stage) -> bool {
        stage.blamed().contains(&"L11")
    }

    /// A claim for a pod whose node has come.
    async fn came(stage: &mut Stage, name: &str, pod: &str) {
        let uid = stage.claim(name).await;
        let annotations = json!({"metadata": {"annotations": {NOMINATED_PODS: pod}}});
        stage.patch(name, annotations).await;
        stage.machine(&stage.name_of(&uid)).await;
        stage.pass(200).await;
        stage.conditions(name, &[(NODE_INITIALIZED, "True", 1)]).await;
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        write::insert(&stage.server, node);
        stage.look();
    }

    #[tokio::test(start_paused = true)]
    async fn no_third_is_made_for_a_pod_for_which_two_have_come_in_vain() {
        let mut stage = Stage::new().await;
        came(&mut stage, "a", "1").await;
        makes(&mut stage, 0, "b", "1");
        assert!(!is_runaway(&stage), "once may be");
        came(&mut stage, "b", "1").await;
        makes(&mut stage, 0, "c", "2");
        assert!(!is_runaway(&stage), "another pod");
        makes(&mut stage, 0, "c", "1");
        assert!(is_runaway(&stage));
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_made_again_where_somebody_or_something_had_a_hand_in_it() {
        for hand in ["tainted", "taken", "broken"] {
            let mut stage = Stage::new().await;
            came(&mut stage, "a", "1").await;
            came(&mut stage, "b", "1").await;
            match hand {
                "tainted" => stage.struck("k14-add-taint", "nodes/b"),
                "taken" => {
                    let pod = json!({
                        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                        "spec": {"nodeName": "b", "containers": []},
                    });
                    write::insert(&stage.server, pod);
                }
                _ => {
                    let machine = stage.name_of(&stage.uid_of_claim("b"));
                    stage.cloud.stop(&machine).unwrap();
                    stage.pass(60).await;
                }
            }
            makes(&mut stage, 0, "c", "1");
            assert!(!is_runaway(&stage), "{hand}: {:?}", stage.judge.violations());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_made_where_other_pods_took_the_room() {
        let mut stage = made("1").await;
        let pods: Api<Pod> = Api::namespaced(stage.server.admin(), "default");
        let pod = json!({"metadata": {"name": "other"},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]}});
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        makes(&mut stage, 0, "b", "1");
        assert!(stage.blamed().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_made_where_the_pool_of_the_first_goes() {
        let mut stage = made("1").await;
        stage
            .patch("a", json!({"metadata": {"labels": {NODE_POOL: "gone"}}}))
            .await;
        makes(&mut stage, 0, "b", "1");
        assert!(stage.blamed().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn another_leader_may_not_know_of_it_yet() {
        let mut stage = made("1").await;
        makes(&mut stage, 1, "b", "1");
        assert!(stage.blamed().is_empty());
        stage.pass(31).await;
        makes(&mut stage, 1, "c", "1");
        assert!(stage.blamed().is_empty(), "one more");
    }
}
