//! S3, of claims that never had a machine: a replica deletes one only when it has come to its end and says so, as where
//! nothing is left to buy for it. Nobody knows why it did so otherwise, and the pods that it is for wait for nothing.
//!
//! Or when it has lived as long as it may, when somebody deletes its Node, and when its pool says how many there are to be. A
//! Node of its name that is older than it is that of a claim before it, and no reason. What goes with its pool is collected
//! by the API server, and not by replicas. Whatever became of one that others forced is theirs.

use http::Method;
use serde_json::Value;

use super::book::Book;
use super::claims::conditions;
use super::removals::has_expired;
use super::{Check, Findings, Truth};
use crate::api::names::{LAUNCHED, NODE_POOL};
use crate::sim::history::{Edge, Entry, Request, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::request::Target;
use crate::sim::kube::stored::ObjectKey;

pub(super) struct Unbought;

impl Check for Unbought {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let (What::Request(request), Who::Replica { .. }) = (&entry.what, &entry.who) else {
            return;
        };
        let claim = deleted(request).and_then(|name| stored("karpenter.sh", "nodeclaims", &name, truth));
        let Some(claim) = claim.filter(|claim| is_meant(request, claim) && is_wanted(claim, book)) else {
            return;
        };
        if !has_ended(&claim) && !is_due(&claim, book, truth) {
            let message = format!(
                "DELETE of nodeclaims/{}, which has no machine yet and has not come to its end",
                object::name(&claim)
            );
            found.blame("S3", entry.at, message);
        }
    }
}

/// The name of the claim that a request deletes.
fn deleted(request: &Request) -> Option<String> {
    if request.edge != Edge::Kube || request.method != Method::DELETE {
        return None;
    }
    let target = Target::parse(&request.path).filter(|it| it.plural == "nodeclaims");
    target?.name
}

/// Whether it is this claim that is to be deleted, and not one before it that had its name.
fn is_meant(request: &Request, claim: &Value) -> bool {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let named = &body["preconditions"]["uid"];
    named.is_null() || named == object::uid(claim)
}

/// Whether a claim stays if nobody deletes it, has never had a machine, and was never forced by others.
fn is_wanted(claim: &Value, book: &Book) -> bool {
    let uid = object::uid(claim);
    let facts = book.claims.get(uid);
    facts.is_some_and(|facts| facts.forced.is_none() && !facts.stripped)
        && !object::is_deleting(claim)
        && book.machines_of(uid).next().is_none()
}

/// Whether it says that nothing is bought for it any more.
fn has_ended(claim: &Value) -> bool {
    let ended = |condition: &Value| condition["type"] == LAUNCHED && condition["status"] == "False";
    conditions(claim).iter().any(ended)
}

fn is_due(claim: &Value, book: &Book, truth: &Truth<'_>) -> bool {
    let pool = claim["metadata"]["labels"][NODE_POOL].as_str();
    let pool = pool.and_then(|pool| stored("karpenter.sh", "nodepools", pool, truth));
    let is_of_few = pool.is_some_and(|pool| pool["spec"]["replicas"].is_number());
    has_expired(claim, truth) || is_of_few || has_lost_its_node(claim, book, truth)
}

/// Whether somebody deletes its Node, or did: of one that is gone nobody can say whose it was where several claims had the
/// name.
fn has_lost_its_node(claim: &Value, book: &Book, truth: &Truth<'_>) -> bool {
    let name = object::name(claim);
    if let Some(node) = stored("", "nodes", name, truth) {
        return object::is_deleting(&node) && born(&node) >= born(claim);
    }
    let namesakes = book.claims.values().filter(|facts| facts.name == name);
    book.nodes.contains(name) && namesakes.count() == 1
}

/// Written alike for all, so that the later one is the greater.
fn born(object: &Value) -> &str {
    object::meta(object, "creationTimestamp")
}

fn stored(group: &str, plural: &str, name: &str, truth: &Truth<'_>) -> Option<Value> {
    let state = truth.kube.state();
    let stored = state
        .store
        .get(&TableKey::of(group, plural), &ObjectKey::new("", name));
    stored.map(|stored| stored.value())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::sim::kube::write;

    const CLAIM: &str = "/apis/karpenter.sh/v1/nodeclaims/a";

    /// A replica deletes the claim `a`, that of this uid if it says so.
    fn deletes(stage: &mut Stage, uid: Option<&str>) {
        let named = json!({"preconditions": {"uid": uid}}).to_string();
        stage.sends(0, Edge::Kube, &Method::DELETE, CLAIM, &named);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_nothing_was_bought_for_yet_is_kept() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        stage.conditions("a", &[(LAUNCHED, "Unknown", 1)]).await;
        deletes(&mut stage, Some("of another"));
        assert!(stage.blamed().is_empty());
        deletes(&mut stage, Some(&uid));
        assert_eq!(stage.blamed(), ["S3"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_has_ended_is_due_or_was_forced_may_go() {
        for reason in [
            "told",
            "node",
            "node gone",
            "static",
            "forced",
            "deleted",
            "no pool",
            "none",
        ] {
            let mut stage = Stage::new().await;
            let uid = stage.claim("a").await;
            match reason {
                "told" => stage.conditions("a", &[(LAUNCHED, "False", 1)]).await,
                "node" => {
                    node(&stage).await;
                    delete_node(&stage).await;
                }
                "node gone" => {
                    node(&stage).await;
                    stage.look();
                    delete_node(&stage).await;
                    let_node_go(&stage).await;
                }
                "static" => {
                    write::insert(
                        &stage.server,
                        json!({
                            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
                            "spec": {"replicas": 1, "template": {"spec": {"requirements": [], "nodeClassRef": {
                                "group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default",
                            }}}},
                        }),
                    );
                    let labels = json!({"metadata": {"labels": {NODE_POOL: "p"}}});
                    stage.patch("a", labels).await;
                }
                "no pool" => {
                    let labels = json!({"metadata": {"labels": {NODE_POOL: "p"}}});
                    stage.patch("a", labels).await;
                }
                "forced" => stage.struck("k14-strip-finalizer", "nodeclaims/a"),
                "deleted" => stage.delete("a").await,
                _ => {}
            }
            deletes(&mut stage, Some(&uid));
            let is_kept = ["no pool", "none"].contains(&reason);
            assert_eq!(stage.blamed() == ["S3"], is_kept, "{reason}");
        }
    }

    /// A Node in the name of the claim, which something keeps when it is deleted.
    async fn node(stage: &Stage) {
        let nodes: Api<Node> = Api::all(stage.server.admin());
        let node = json!({"metadata": {"name": "a", "finalizers": ["example.com/kept"]}});
        let node = serde_json::from_value(node).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }

    async fn delete_node(stage: &Stage) {
        let nodes: Api<Node> = Api::all(stage.server.admin());
        nodes.delete("a", &DeleteParams::default()).await.unwrap();
    }

    async fn let_node_go(stage: &Stage) {
        let nodes: Api<Node> = Api::all(stage.server.admin());
        let let_go = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let params = PatchParams::default();
        nodes.patch("a", &params, &let_go).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_node_of_a_claim_before_it_is_no_reason() {
        for gone in [false, true] {
            let mut stage = Stage::new().await;
            stage.claim("a").await;
            node(&stage).await;
            stage.look();
            stage.delete("a").await;
            stage.release("a").await;
            delete_node(&stage).await;
            stage.pass(10).await;
            let uid = stage.claim("a").await;
            if gone {
                let_node_go(&stage).await;
            }
            deletes(&mut stage, Some(&uid));
            assert!(stage.blamed().contains(&"S3"), "gone: {gone}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_one_that_has_a_machine_another_judges() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        stage
            .cloud
            .fail_start(&stage.name_of(&uid), "cannot_start_capacity")
            .unwrap();
        stage.machine(&stage.name_of(&uid)).await;
        stage.pass(120).await;
        deletes(&mut stage, Some(&uid));
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }
}
