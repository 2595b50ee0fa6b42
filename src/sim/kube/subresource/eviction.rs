//! `pods/eviction`: a deletion that disruption budgets have a say in.
//!
//! Everything is decided and written under one lock: the budget is charged and the pod deleted, or neither. A pod that
//! does not run yet or any more is not protected; one that is not ready only while the budget needs it.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{done, sent, set_condition};
use crate::sim::kube::admission::{self, Admission, Operation};
use crate::sim::kube::builtin::fields::{each, text};
use crate::sim::kube::builtin::label_selector;
use crate::sim::kube::delete::{self, Manner};
use crate::sim::kube::identity::User;
use crate::sim::kube::kind::{Kind, TableKey};
use crate::sim::kube::object;
use crate::sim::kube::read;
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::request::Ask;
use crate::sim::kube::schema::{Cause, Reason};
use crate::sim::kube::server::{ApiServer, State, about};
use crate::sim::kube::store::ObjectKey;
use crate::sim::kube::write::{commit, is_finished, remove};

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// Evictions that the disruption controller has not confirmed; beyond so many something is wrong.
const UNCONFIRMED_MAX: usize = 2000;
/// What a client is told to wait while a budget is being worked out.
const RETRY_SECONDS: u32 = 10;

/// Evicts a pod.
pub(super) async fn evict(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let eviction = sent(ask, body, "policy/v1", "Eviction")?;
    let key = read::key(ask);
    if object::name(&eviction) != key.name {
        return Err(Refusal::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let mut manner = Manner::default();
    manner.read(&eviction["deleteOptions"]);
    if ask.options.dry_run {
        manner.rehearse();
    }
    let admission = Admission {
        kind,
        user,
        operation: Operation::Create,
        subresource: Some("eviction"),
        old: None,
        dry_run: manner.is_dry_run(),
    };
    admission::validating_webhooks(server, &admission, &eviction).await?;
    let evicted = {
        let mut state = server.state();
        try_evict(server, &mut state, kind, &key, manner)
    };
    server.announce();
    evicted.map(|()| done())
}

fn try_evict(
    server: &ApiServer,
    state: &mut State,
    kind: &Kind,
    key: &ObjectKey,
    manner: Manner,
) -> Result<(), Refusal> {
    let stored = state.store.get(&kind.table(), key).cloned();
    let pod = stored
        .ok_or_else(|| Refusal::not_found(about(kind, &key.name)))?
        .value();
    if is_protected(&pod) {
        match budgets(state, &pod).as_slice() {
            [] => {}
            [budget] if needs_no_charge(&pod, budget) => {}
            [budget] => charge(server, state, &pod, budget.clone(), &manner)?,
            _ => {
                return Err(Refusal::failure(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        }
    }
    finish(server, state, kind, key, pod, manner)
}

/// Whether budgets count the pod: it runs, and nobody has asked for its end.
fn is_protected(pod: &Value) -> bool {
    let ended_or_waiting = matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed" | "Pending");
    !ended_or_waiting && !object::is_deleting(pod)
}

fn budgets(state: &State, pod: &Value) -> Vec<Value> {
    let labels = object::labels(pod);
    let table = TableKey::of("policy", "poddisruptionbudgets");
    let all = state.store.list(&table, Some(object::namespace(pod)));
    all.map(|stored| stored.value())
        .filter(|budget| label_selector::selects(&budget["spec"]["selector"], &labels))
        .collect()
}

/// A pod that is not ready is not among the healthy ones that the budget counts.
fn needs_no_charge(pod: &Value, budget: &Value) -> bool {
    let ready = each(&pod["status"], "conditions").any(|c| c["type"] == "Ready" && c["status"] == "True");
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
    let enough = count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0;
    !ready && (always || enough)
}

/// Takes one disruption from the budget, or says why there is none.
fn charge(
    server: &ApiServer,
    state: &mut State,
    pod: &Value,
    mut budget: Value,
    manner: &Manner,
) -> Result<(), Refusal> {
    let name = object::name(&budget).to_owned();
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let refuse = |seconds, message| {
        let cause = Cause::new("", Reason::DisruptionBudget, message);
        Err(Refusal::too_many_requests(REFUSED, seconds).with_causes(vec![cause]))
    };
    if count("observedGeneration") < object::generation(&budget) {
        let message = format!("The disruption budget {name} is still being processed by the server.");
        return refuse(RETRY_SECONDS, message);
    }
    let forbidden = |why: &str| {
        let about = About {
            group: "policy",
            kind: "poddisruptionbudget",
            name: &name,
        };
        Err(Refusal::forbidden(about, why))
    };
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    let unconfirmed = budget["status"]["disruptedPods"]
        .as_object()
        .map_or(0, serde_json::Map::len);
    if unconfirmed > UNCONFIRMED_MAX {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        return refuse(0, why_none(&budget));
    }
    if manner.is_dry_run() {
        return Ok(());
    }
    let now = server.timestamp();
    budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
    if allowed == 1 {
        say_exhausted(&mut budget, &now);
    }
    object::object_mut(&mut budget["status"]["disruptedPods"])
        .insert(object::name(pod).to_owned(), now.into());
    if let Some(kind) = state.registry.find("policy", "v1", "poddisruptionbudgets") {
        commit(state, &kind, budget)?;
    }
    Ok(())
}

fn why_none(budget: &Value) -> String {
    let name = object::name(budget);
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let condition = each(&budget["status"], "conditions")
        .find(|c| c["type"] == "DisruptionAllowed" && c["status"] == "False")
        .filter(|c| !text(c, "message").is_empty());
    let said = |condition: &Value| {
        (
            text(condition, "reason").to_owned(),
            text(condition, "message").to_owned(),
        )
    };
    let (healthy, needed) = (count("currentHealthy"), count("desiredHealthy"));
    match condition.map(said) {
        Some((reason, message)) if reason == "SyncFailed" => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
            )
        }
        _ if healthy <= needed => {
            format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
            )
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

/// The budget's own condition follows at once, before its controller looks again.
fn say_exhausted(budget: &mut Value, now: &str) {
    let mut condition = json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        "observedGeneration": budget["status"]["observedGeneration"].clone(), "lastTransitionTime": now,
    });
    let fields = object::object_mut(&mut budget["status"]);
    let list = fields.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    match list.iter_mut().find(|known| known["type"] == "DisruptionAllowed") {
        Some(known) => {
            if known["status"] == "False" {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            condition["message"] = known["message"].clone();
            *known = condition;
        }
        None => list.push(condition),
    }
}

/// Marks the pod as disrupted, and deletes it.
fn finish(
    server: &ApiServer,
    state: &mut State,
    kind: &Kind,
    key: &ObjectKey,
    mut pod: Value,
    mut manner: Manner,
) -> Result<(), Refusal> {
    delete::check(kind, &pod, &manner)?;
    if manner.is_dry_run() {
        return Ok(());
    }
    let reason = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                        "message": "Eviction API: evicting"});
    let before = pod.clone();
    set_condition(&mut pod, reason, &server.timestamp());
    if pod != before {
        pod = commit(state, kind, pod)?.value();
    }
    if manner.version().is_some() {
        manner.at_version(object::meta(&pod, "resourceVersion"));
    }
    let marked = delete::marked(server.clock(), kind, pod.clone(), &manner);
    if is_finished(&marked) {
        remove(state, kind, key, marked);
    } else if marked != pod {
        commit(state, kind, marked)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::trial::{Trial, pod, why};

    const PODS: &str = "/api/v1/namespaces/default/pods";
    const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

    fn eviction(name: &str, options: &Value) -> Value {
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options})
    }

    /// A pod that runs on a node and is selected by `app=a`.
    async fn running(trial: &Trial, name: &str, ready: &str) -> Value {
        let mut object = pod(name);
        object["metadata"]["labels"] = json!({"app": "a"});
        object["spec"]["nodeName"] = "n".into();
        object["spec"]["automountServiceAccountToken"] = false.into();
        trial.create(PODS, object.clone()).await;
        object["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        trial.put(&format!("{PODS}/{name}/status"), object).await
    }

    async fn budget(trial: &Trial, name: &str, status: Value) {
        let mut object = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
                                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
        let made = trial.create(BUDGETS, object.clone()).await;
        object["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
        object["status"] = status;
        trial.put(&format!("{BUDGETS}/{name}/status"), object).await;
    }

    fn counts(allowed: i64, healthy: i64, desired: i64) -> Value {
        json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
               "desiredHealthy": desired, "expectedPods": healthy})
    }

    async fn evict(trial: &Trial, name: &str, options: Value) -> (u16, Value) {
        trial
            .send(
                "POST",
                &format!("{PODS}/{name}/eviction"),
                eviction(name, &options),
            )
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_is_charged_and_then_says_no() {
        let trial = Trial::new();
        running(&trial, "p", "True").await;
        running(&trial, "q", "True").await;
        budget(&trial, "b", counts(1, 2, 1)).await;
        assert_eq!(evict(&trial, "p", Value::Null).await.0, 201);
        let (_, left) = trial.get(&format!("{PODS}/p")).await;
        assert_eq!(left["metadata"]["deletionGracePeriodSeconds"], 30);
        let condition = left["status"]["conditions"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .clone();
        assert_eq!(condition["type"], "DisruptionTarget");
        let (_, charged) = trial.get(&format!("{BUDGETS}/b")).await;
        assert_eq!(charged["status"]["disruptionsAllowed"], 0);
        assert!(charged["status"]["disruptedPods"].get("p").is_some());
        let (code, answer) = evict(&trial, "q", Value::Null).await;
        assert_eq!(code, 429);
        assert_eq!(
            why(&answer),
            ("TooManyRequests".to_owned(), vec!["DisruptionBudget".to_owned()])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_that_lags_behind_asks_for_patience() {
        let trial = Trial::new();
        running(&trial, "p", "True").await;
        budget(
            &trial,
            "b",
            json!({"disruptionsAllowed": 5, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}),
        )
        .await;
        let (code, answer) = evict(&trial, "p", Value::Null).await;
        assert_eq!((code, &answer["details"]["retryAfterSeconds"]), (429, &json!(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn two_budgets_are_one_too_many() {
        let trial = Trial::new();
        running(&trial, "p", "True").await;
        budget(&trial, "a", counts(1, 2, 1)).await;
        budget(&trial, "b", counts(1, 2, 1)).await;
        assert_eq!(evict(&trial, "p", Value::Null).await.0, 500);
    }

    #[tokio::test(start_paused = true)]
    async fn preconditions_protect_against_mistaken_identity() {
        let trial = Trial::new();
        let pod = running(&trial, "p", "True").await;
        let (code, _) = evict(&trial, "p", json!({"preconditions": {"uid": "another"}})).await;
        assert_eq!(code, 409);
        let (code, _) = evict(&trial, "p", json!({"preconditions": {"resourceVersion": "1"}})).await;
        assert_eq!(code, 409);
        let meta = &pod["metadata"];
        let right =
            json!({"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}});
        assert_eq!(evict(&trial, "p", right).await.0, 201);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_is_not_ready_goes_if_enough_others_are() {
        let trial = Trial::new();
        running(&trial, "p", "False").await;
        budget(&trial, "b", counts(0, 1, 1)).await;
        assert_eq!(evict(&trial, "p", Value::Null).await.0, 201);
        let (_, untouched) = trial.get(&format!("{BUDGETS}/b")).await;
        assert!(untouched["status"].get("disruptedPods").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_rehearsal_changes_nothing_and_a_pending_pod_is_not_protected() {
        let trial = Trial::new();
        running(&trial, "p", "True").await;
        budget(&trial, "b", counts(1, 2, 1)).await;
        let path = format!("{PODS}/p/eviction?dryRun=All");
        assert_eq!(
            trial.send("POST", &path, eviction("p", &Value::Null)).await.0,
            201
        );
        let (_, left) = trial.get(&format!("{BUDGETS}/b")).await;
        assert_eq!(left["status"]["disruptionsAllowed"], 1);
        let mut pending = pod("w");
        pending["metadata"]["labels"] = json!({"app": "a"});
        trial.create(PODS, pending).await;
        assert_eq!(evict(&trial, "w", Value::Null).await.0, 201);
        assert_eq!(trial.get(&format!("{PODS}/w")).await.0, 404);
    }
}
