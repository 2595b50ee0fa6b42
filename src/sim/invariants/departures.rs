//! How a Node is emptied. S6: a pod is deleted by us only when the time of its Node is nearly over, never before that;
//! else it is evicted. S7: an eviction names exactly the pod that was judged, and none that must not be disturbed; a
//! machine is deleted only after a consistent list of its Node's pods that was asked for at least five seconds after the
//! taint. S9: and only when nobody is left who must leave, and no volume is attached to it any more, unless its time is
//! over. S3: nobody is made to leave a Node that stays: that of a claim which is not being deleted, or of none of ours.
//!
//! Judged when the request is sent, on the pods as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::ownership::target;
use super::{Check, Findings, Truth};
use crate::api::names::{DISRUPTED_TAINT, DO_NOT_DISRUPT, TERMINATION_TIMESTAMP};
use crate::api::parse_go_duration;
use crate::clock::{between, later};
use crate::sim::history::{Edge, Entry, Request, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::request::Target;
use crate::sim::kube::stored::ObjectKey;

/// A pod may be bound just before the taint is seen.
const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// A pod that should have been gone so long ago is waited for no longer.
const STUCK_AFTER: Duration = Duration::from_mins(1);
/// Clocks of replicas are set wrong by faults; deadlines are judged with this much grace.
const SLACK: Duration = Duration::from_secs(2);

/// So long after a machine was last seen down it may be taken for dead, with nobody on it to list: reads lag by 15 seconds,
/// and a decision may be under way.
const TAKEN_FOR_DEAD: Duration = Duration::from_mins(1);
const PODS: &str = "/api/v1/pods";

#[derive(Default)]
pub(super) struct Departures {
    /// Since when each Node has been tainted, by name. Whether somebody else took the taint off in between is not asked: the
    /// operator puts it on again, and begins nothing anew.
    tainted: BTreeMap<String, Duration>,
    /// When the last consistent list of a Node's pods was asked for that was answered, by name; under no name one of all pods.
    /// By whichever replica: what one has found out is written into the claim, and the next goes on from there.
    listed: BTreeMap<String, Duration>,
    /// Machines that were asked to be deleted, by id. From then on one may go at any moment, whatever it was answered: pods
    /// that come when somebody takes the taint off are not the operator's to save, and asking again does them no harm.
    asked: BTreeSet<String>,
}

impl Check for Departures {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        for name in &book.changed.nodes {
            match stored(truth, "", "nodes", "", name) {
                None => drop(self.tainted.remove(name)),
                Some(node) if is_tainted(&node) => {
                    self.tainted.entry(name.clone()).or_insert(entry.at);
                }
                Some(_) if book.meddled.contains_key(&format!("nodes/{name}")) => {}
                Some(_) => drop(self.tainted.remove(name)),
            }
        }
        if let (What::Answer(answer), Some(sent)) = (&entry.what, &book.answered)
            && answer.status == Some(200)
            && let Some(node) = lists_pods_of(&sent.request)
        {
            let last = self.listed.entry(node).or_default();
            *last = sent.at.max(*last);
        }
        let (What::Request(request), Who::Replica { .. }) = (&entry.what, &entry.who) else {
            return;
        };
        match request.edge {
            Edge::Cloud if request.method == Method::DELETE => {
                self.gives_back(request, entry, book, truth, found);
            }
            Edge::Cloud => {}
            Edge::Kube => judge_pod(request, entry.at, book, truth, found),
        }
    }
}

impl Departures {
    /// The deletion of a machine that lives and has a Node.
    fn gives_back(
        &mut self,
        request: &Request,
        entry: &Entry,
        book: &Book,
        truth: &Truth<'_>,
        found: &mut Findings,
    ) {
        let machine = target(request)
            .and_then(|id| book.machines.get(id))
            .filter(|it| it.is_live());
        let claim = machine.and_then(|it| book.claims.get(it.claim.as_ref()?));
        let Some((machine, claim)) = machine.zip(claim).filter(|(_, claim)| claim.gone.is_none()) else {
            return;
        };
        let node = stored(truth, "", "nodes", "", &claim.name);
        let is_its_own = |node: &Value| {
            node["spec"]["providerID"]
                .as_str()
                .is_some_and(|it| it.ends_with(&machine.id))
        };
        if !node.as_ref().is_some_and(is_its_own) {
            return;
        }
        if !self.asked.insert(machine.id.clone()) {
            return;
        }
        let name = &claim.name;
        let since = self.tainted.get(name);
        if since.is_none_or(|since| entry.at < *since + SETTLED_AFTER) {
            let message = format!("the machine of node {name} is deleted within five seconds of its taint");
            found.blame("S7", entry.at, message);
        } else if since.is_some_and(|since| !self.is_listed_since(name, *since + SETTLED_AFTER))
            && machine
                .broken
                .is_none_or(|broken| entry.at > broken + TAKEN_FOR_DEAD)
        {
            let message = format!(
                "the machine of node {name} is deleted, and nobody asked who is on it five seconds after its taint"
            );
            found.blame("S7", entry.at, message);
        }
        for pod in pods(truth, name).iter().filter(|pod| must_leave(pod, truth.now)) {
            let pod = object::name(pod);
            let message = format!("the machine of node {name} is deleted although pod {pod} is still there");
            found.blame("S9", entry.at, message);
        }
        for volume in attached(truth, name).iter().filter(|_| !is_over(name, truth)) {
            let message = format!("the machine of node {name} is deleted with volume {volume} attached");
            found.blame("S9", entry.at, message);
        }
    }

    fn is_listed_since(&self, node: &str, since: Duration) -> bool {
        let mut lists = [node, ""].into_iter().filter_map(|name| self.listed.get(name));
        lists.any(|asked| *asked >= since)
    }
}

/// The Node whose pods are asked for, all of them as they are; no name where those of all Nodes are.
fn lists_pods_of(request: &Request) -> Option<String> {
    let asks = request.edge == Edge::Kube && request.method == Method::GET && request.path == PODS;
    let query = request.query.replace("%3D", "=").replace("%3d", "=");
    let in_part = ["watch=", "limit=", "resourceVersion=", "labelSelector="];
    if !asks || in_part.iter().any(|option| query.contains(option)) {
        return None;
    }
    let selector = query
        .split('&')
        .find_map(|option| option.strip_prefix("fieldSelector="));
    match selector {
        None => Some(String::new()),
        Some(selector) => selector.strip_prefix("spec.nodeName=").map(str::to_owned),
    }
}

/// The volumes that are attached to a Node.
fn attached(truth: &Truth<'_>, node: &str) -> Vec<String> {
    let state = truth.kube.state();
    let attachments = state
        .store
        .list(&TableKey::of("storage.k8s.io", "volumeattachments"), None);
    attachments
        .map(|stored| stored.value())
        .filter(|it| it["spec"]["nodeName"] == node)
        .map(|it| object::name(&it).to_owned())
        .collect()
}

/// Whether the time is over that a Node's claim was given to end.
fn is_over(node: &str, truth: &Truth<'_>) -> bool {
    let claim = stored(truth, "karpenter.sh", "nodeclaims", "", node).unwrap_or_default();
    deadline(&claim).is_some_and(|deadline| later(truth.now, SLACK) >= deadline)
}

fn deadline(claim: &Value) -> Option<Timestamp> {
    let written = claim["metadata"]["annotations"][TERMINATION_TIMESTAMP].as_str();
    written.and_then(|text| text.parse().ok())
}

/// An eviction, or the deletion of a pod.
fn judge_pod(request: &Request, at: Duration, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    let is_eviction = request.method == Method::POST && request.path.ends_with("/eviction");
    if !is_eviction && request.method != Method::DELETE {
        return;
    }
    let path = request.path.trim_end_matches("/eviction");
    let Some(target) = Target::parse(path).filter(|it| it.plural == "pods") else {
        return;
    };
    let (namespace, name) = (
        target.namespace.unwrap_or_default(),
        target.name.unwrap_or_default(),
    );
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let Some(pod) = stored(truth, "", "pods", &namespace, &name) else {
        return;
    };
    let named = if is_eviction {
        &body["deleteOptions"]["preconditions"]
    } else {
        &body["preconditions"]
    };
    // Another of its name may be elsewhere by now.
    let is_meant = named["uid"].is_null() || named["uid"] == object::uid(&pod);
    if let Some(node) = pod["spec"]["nodeName"]
        .as_str()
        .filter(|node| is_meant && stays(node, book, truth))
    {
        let message = format!("pod {name} is made to leave node {node}, which stays");
        found.blame("S3", at, message);
    }
    if is_eviction {
        if !named["uid"].is_string() || !named["resourceVersion"].is_string() {
            found.blame("S7", at, format!("an eviction of pod {name} does not say which"));
        }
        let same = named["resourceVersion"] == pod["metadata"]["resourceVersion"];
        if same && is_protected(&pod, truth.now) {
            found.blame(
                "S7",
                at,
                format!("pod {name} is evicted although it is not to be disturbed"),
            );
        }
    } else if !may_be_deleted(&pod, &body, truth) {
        found.blame(
            "S6",
            at,
            format!("pod {name} is deleted before the time of its node is over"),
        );
    }
}

/// Whether a Node is that of a claim which is not being deleted, or has nothing to do with us. Whose it is its machine
/// says, whose name has the claim's uid in it: of a claim that was forced out and made anew under its name, the Node that is
/// there is the first one's, and that a claim of one uid is deleted is never taken back. So nobody can have been shown
/// otherwise, and no time has to pass.
fn stays(node: &str, book: &Book, truth: &Truth<'_>) -> bool {
    let Some(stored) = stored(truth, "", "nodes", "", node) else {
        return false;
    };
    let id = stored["spec"]["providerID"].as_str().unwrap_or_default();
    let machine = book.machines.values().find(|machine| id.ends_with(&machine.id));
    let owner = machine.and_then(|machine| book.claims.get(machine.claim.as_ref()?));
    match owner {
        Some(claim) => claim.name == node && claim.deleting.is_none() && claim.gone.is_none(),
        None => book.claims.values().all(|claim| claim.name != node),
    }
}

/// Whether a pod is not to be disturbed: ever, or for so long after it started.
fn is_protected(pod: &Value, now: Timestamp) -> bool {
    let written = pod["metadata"]["annotations"][DO_NOT_DISRUPT].as_str();
    let length = written
        .and_then(parse_go_duration)
        .filter(|length| !length.is_zero());
    let started = pod["status"]["startTime"].as_str();
    let started = started.and_then(|it| it.parse::<Timestamp>().ok());
    let lasts = |length| started.is_none_or(|start| later(start, length) > later(now, SLACK));
    written == Some("true") || length.is_some_and(lasts)
}

/// Whether so little time is left for a pod's Node that it must be deleted now; one that leaves already is left the time
/// that it has, but for what lies after its Node's.
fn may_be_deleted(pod: &Value, options: &Value, truth: &Truth<'_>) -> bool {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let claim = stored(truth, "karpenter.sh", "nodeclaims", "", node).unwrap_or_default();
    let Some(deadline) = deadline(&claim) else {
        return false;
    };
    let grace = pod["spec"]["terminationGracePeriodSeconds"]
        .as_u64()
        .unwrap_or(30);
    let Some(own) = end(pod) else {
        return between(truth.now, deadline) <= Duration::from_secs(grace) + SLACK;
    };
    let given = options["gracePeriodSeconds"].as_u64().unwrap_or(grace);
    later(truth.now, Duration::from_secs(given) + SLACK) >= own.min(deadline)
}

/// When a pod that leaves is to be gone.
fn end(pod: &Value) -> Option<Timestamp> {
    let written = pod["metadata"]["deletionTimestamp"].as_str();
    written.and_then(|it| it.parse().ok())
}

fn is_tainted(node: &Value) -> bool {
    let taints = node["spec"]["taints"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    taints.iter().any(|taint| taint["key"] == DISRUPTED_TAINT)
}

/// Whether a machine must not go before this pod.
fn must_leave(pod: &Value, now: Timestamp) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let stuck = end(pod).is_some_and(|end| now >= later(end, STUCK_AFTER));
    let owners = list(&pod["metadata"]["ownerReferences"]);
    let is_static = owners.iter().any(|owner| owner["kind"] == "Node");
    let tolerates = list(&pod["spec"]["tolerations"]).iter().any(|it| {
        let key = it["key"].as_str().unwrap_or_default();
        let effect = it["effect"].as_str().unwrap_or_default();
        it["operator"] == "Exists"
            && (key.is_empty() || key == DISRUPTED_TAINT)
            && matches!(effect, "" | "NoSchedule")
    });
    !finished && !stuck && !is_static && !tolerates
}

fn pods(truth: &Truth<'_>, node: &str) -> Vec<Arc<Value>> {
    let state = truth.kube.state();
    let pods = state.store.list(&TableKey::of("", "pods"), None);
    pods.filter(|stored| stored.field("spec.nodeName") == node)
        .map(|stored| stored.shared())
        .collect()
}

fn stored(truth: &Truth<'_>, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
    let state = truth.kube.state();
    let stored = state
        .store
        .get(&TableKey::of(group, plural), &ObjectKey::new(namespace, name));
    stored.map(|stored| stored.value())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use kube::api::{Api, DeleteParams, Patch, PatchParams};
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::sim::kube::write;

    const EVICTION: &str = "/api/v1/namespaces/default/pods/p/eviction";
    const POD: &str = "/api/v1/namespaces/default/pods/p";

    /// A claim that is being deleted, its machine that runs, and its Node; the path of the machine.
    async fn leaving(stage: &mut Stage, taints: Value) -> String {
        let path = settled_in(stage, taints).await;
        stage.delete("a").await;
        path
    }

    /// The same of a claim that is not.
    async fn settled_in(stage: &mut Stage, taints: Value) -> String {
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.pass(200).await;
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
                "spec": {"providerID": format!("ibm:///us-south/{id}"), "taints": taints},
            }),
        );
        format!("/v1/instances/{id}")
    }

    /// A replica asks who is on the Node, and is told.
    fn lists(stage: &mut Stage, query: &str) {
        let number = stage.asks(0, PODS, query);
        stage.hears(0, number, Some(200), r#"{"items":[]}"#);
    }

    const ON_IT: &str = "&fieldSelector=spec.nodeName%3Da";

    fn taint() -> Value {
        json!([{"key": DISRUPTED_TAINT, "effect": "NoSchedule"}])
    }

    fn pod(stage: &Stage, tolerations: &Value) {
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                "spec": {"nodeName": "a", "containers": [], "tolerations": tolerations},
            }),
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_goes_when_its_node_was_tainted_and_is_empty() {
        let mut stage = Stage::new().await;
        let path = leaving(&mut stage, taint()).await;
        stage.look();
        pod(&stage, &json!([{"operator": "Exists"}]));
        stage.pass(5).await;
        lists(&mut stage, ON_IT);
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn not_right_after_the_taint_and_not_without_one() {
        for taints in [taint(), json!([])] {
            let mut stage = Stage::new().await;
            let path = leaving(&mut stage, taints).await;
            stage.look();
            stage.pass(4).await;
            stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
            assert_eq!(stage.blamed(), ["S7"]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nor_without_a_whole_list_of_its_pods_from_five_seconds_after_it() {
        for (query, at, blamed) in [
            (ON_IT, 4, &["S7"][..]),
            (ON_IT, 5, &[]),
            ("", 5, &[]),
            ("&fieldSelector=spec.nodeName%3Db", 5, &["S7"]),
            ("limit=1&fieldSelector=spec.nodeName%3Da", 5, &["S7"]),
        ] {
            let mut stage = Stage::new().await;
            let path = leaving(&mut stage, taint()).await;
            stage.look();
            stage.pass(at).await;
            lists(&mut stage, query);
            stage.pass(10).await;
            stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
            assert_eq!(stage.blamed(), blamed, "{query} {at}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_taint_that_is_off_counts_for_nothing_unless_somebody_else_took_it_off() {
        for (meddled, blamed) in [(false, &["S7"][..]), (true, &[])] {
            let mut stage = Stage::new().await;
            let path = leaving(&mut stage, taint()).await;
            stage.look();
            stage.pass(5).await;
            if meddled {
                stage.struck("k14-remove-taints", "nodes/a");
            }
            lists(&mut stage, ON_IT);
            let nodes: Api<Node> = Api::all(stage.server.admin());
            for taints in [json!([]), taint()] {
                let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
                nodes.patch("a", &PatchParams::default(), &patch).await.unwrap();
                stage.look();
            }
            stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
            assert_eq!(stage.blamed(), blamed, "{meddled}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_made_to_leave_a_node_that_stays() {
        let named = |uid: &str| {
            let named = json!({"uid": uid, "resourceVersion": "2"});
            json!({"deleteOptions": {"preconditions": named}}).to_string()
        };
        for (goes, its_own, blamed) in [(true, true, &[][..]), (false, true, &["S3"]), (false, false, &[])] {
            let mut stage = Stage::new().await;
            settled_in(&mut stage, taint()).await;
            if goes {
                stage.delete("a").await;
            }
            pod(&stage, &json!([]));
            let uid = stage.uid_of_pod("p");
            let meant = if its_own { uid.as_str() } else { "another" };
            stage.sends(0, Edge::Kube, &Method::POST, EVICTION, &named(meant));
            assert_eq!(stage.blamed(), blamed, "{goes} {its_own}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nor_one_of_somebody_else_but_that_of_a_claim_that_was_forced_out() {
        for (name, blamed) in [("b", &["S3"][..]), ("a", &[])] {
            let mut stage = Stage::new().await;
            stage.claim("a").await;
            write::insert(
                &stage.server,
                json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                    "spec": {"providerID": "other:///machine"},
                }),
            );
            write::insert(
                &stage.server,
                json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                    "spec": {"nodeName": name, "containers": []},
                }),
            );
            let named = r#"{"deleteOptions":{"preconditions":{"uid":null,"resourceVersion":"2"}}}"#;
            stage.sends(0, Edge::Kube, &Method::POST, EVICTION, named);
            let mut all = stage.blamed();
            all.retain(|id| *id == "S3");
            assert_eq!(all, blamed, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn not_while_a_pod_is_there_that_must_leave() {
        let mut stage = Stage::new().await;
        let path = leaving(&mut stage, taint()).await;
        stage.look();
        pod(&stage, &json!([]));
        stage.pass(5).await;
        lists(&mut stage, ON_IT);
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert_eq!(stage.blamed(), ["S9"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_comes_after_its_machine_was_asked_to_go_is_lost() {
        let mut stage = Stage::new().await;
        let path = leaving(&mut stage, taint()).await;
        stage.look();
        stage.pass(5).await;
        lists(&mut stage, ON_IT);
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        pod(&stage, &json!([]));
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn not_while_a_volume_is_attached_unless_its_time_is_over() {
        for (deadline, blamed) in [
            ("2026-11-16T11:00:00Z", &["S9"][..]),
            ("2026-11-16T10:03:00Z", &[]),
        ] {
            let mut stage = Stage::new().await;
            let path = leaving(&mut stage, taint()).await;
            stage.look();
            write::insert(
                &stage.server,
                json!({
                    "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "v"},
                    "spec": {"nodeName": "a", "attacher": "x", "source": {"persistentVolumeName": "pv"}},
                }),
            );
            let annotations = json!({TERMINATION_TIMESTAMP: deadline});
            stage
                .patch("a", json!({"metadata": {"annotations": annotations}}))
                .await;
            stage.pass(5).await;
            lists(&mut stage, ON_IT);
            stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
            assert_eq!(stage.blamed(), blamed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_eviction_says_which_pod_is_meant() {
        let mut stage = Stage::new().await;
        leaving(&mut stage, taint()).await;
        pod(&stage, &json!([]));
        let named = r#"{"deleteOptions":{"preconditions":{"uid":"1","resourceVersion":"2"}}}"#;
        stage.sends(0, Edge::Kube, &Method::POST, EVICTION, named);
        assert!(stage.blamed().is_empty());
        stage.sends(0, Edge::Kube, &Method::POST, EVICTION, "{}");
        assert_eq!(stage.blamed(), ["S7"]);
    }

    #[test]
    fn a_pod_that_is_not_to_be_disturbed_is_protected_ever_or_for_a_time_after_it_started() {
        let now: Timestamp = "2026-11-16T10:03:20Z".parse().unwrap();
        let is_protected = |wish: &str, started: Option<&str>| {
            let pod = json!({
                "metadata": {"annotations": {DO_NOT_DISRUPT: wish}}, "status": {"startTime": started},
            });
            super::is_protected(&pod, now)
        };
        let started = Some("2026-11-16T10:00:00Z");
        assert!(is_protected("true", started) && is_protected("10m", started));
        assert!(is_protected("0.1h", started) && !is_protected("500ms", started));
        assert!(
            !is_protected("2m", started) && !is_protected("soon", started) && !is_protected("0s", started)
        );
        assert!(is_protected("2m", None), "it has not started yet");
        assert!(!super::is_protected(&json!({}), now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_deleted_only_when_no_more_time_is_left_than_its_own() {
        let mut stage = Stage::new().await;
        leaving(&mut stage, taint()).await;
        pod(&stage, &json!([]));
        stage.sends(0, Edge::Kube, &Method::DELETE, POD, "");
        assert_eq!(stage.blamed(), ["S6"], "nobody said how long it may take");
        let mut stage = Stage::new().await;
        leaving(&mut stage, taint()).await;
        pod(&stage, &json!([]));
        let deadline = json!({TERMINATION_TIMESTAMP: "2026-11-16T10:04:00Z"});
        stage
            .patch("a", json!({"metadata": {"annotations": deadline}}))
            .await;
        stage.pass(15).await;
        stage.sends(0, Edge::Kube, &Method::DELETE, POD, "");
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_leaves_is_left_its_time_but_for_what_lies_after_its_nodes() {
        // The stage stands at 10:03:20, and the Node has 1000 seconds.
        for (own, passed, given, blamed) in [
            (400, 0, 0, &["S6"][..]),
            (400, 0, 390, &["S6"]),
            (400, 0, 400, &[]),
            (1600, 0, 1000, &[]),
            (10, 30, 0, &[]),
        ] {
            let mut stage = Stage::new().await;
            leaving(&mut stage, taint()).await;
            let deadline = json!({TERMINATION_TIMESTAMP: "2026-11-16T10:20:00Z"});
            stage
                .patch("a", json!({"metadata": {"annotations": deadline}}))
                .await;
            pod(&stage, &json!([]));
            let pods: Api<Pod> = Api::default_namespaced(stage.server.admin());
            let params = DeleteParams::default().grace_period(own);
            pods.delete("p", &params).await.unwrap();
            stage.pass(passed).await;
            let options = json!({"gracePeriodSeconds": given}).to_string();
            stage.sends(0, Edge::Kube, &Method::DELETE, POD, &options);
            assert_eq!(stage.blamed(), blamed, "{own} {given}");
        }
    }
}
