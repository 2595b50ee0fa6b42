//! `pods/binding`: a pod gets its node, once.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{done, sent, set_condition};
use crate::sim::kube::admission::{self, Admission, Operation};
use crate::sim::kube::builtin::fields::{each, fill, text};
use crate::sim::kube::identity::User;
use crate::sim::kube::kind::Kind;
use crate::sim::kube::object;
use crate::sim::kube::read;
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::request::Ask;
use crate::sim::kube::server::{ApiServer, State, about};
use crate::sim::kube::write::commit;

/// Binds a pod to a node.
pub(super) async fn bind(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let binding = sent(ask, body, "v1", "Binding")?;
    let key = read::key(ask);
    if object::name(&binding) != key.name {
        return Err(Refusal::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    check_target(&binding["target"])?;
    let admission = Admission {
        kind,
        user,
        operation: Operation::Create,
        subresource: Some("binding"),
        old: None,
        dry_run: ask.options.dry_run,
    };
    admission::validating_webhooks(server, &admission, &binding).await?;
    let now = server.timestamp();
    {
        let mut state = server.state();
        let stored = state.store.get(&kind.table(), &key).cloned();
        let stored = stored.ok_or_else(|| Refusal::not_found(about(kind, &key.name)))?;
        let bound = bound(&state, kind, stored.value(), &binding, &now)?;
        if !ask.options.dry_run {
            commit(&mut state, kind, bound)?;
        }
    }
    server.announce();
    Ok(done())
}

/// A real server forgets to make these mistakes a 422, and so do its clients.
fn check_target(target: &Value) -> Result<(), Refusal> {
    let problem = match (text(target, "kind"), text(target, "name")) {
        ("" | "Node", name) if !name.is_empty() => return Ok(()),
        ("" | "Node", _) => "target.name: Required value".to_owned(),
        (kind, _) => {
            format!("target.kind: Unsupported value: \"{kind}\": supported values: \"Node\", \"<empty>\"")
        }
    };
    Err(Refusal::failure(problem))
}

/// The pod with its node.
fn bound(state: &State, kind: &Kind, mut pod: Value, binding: &Value, now: &str) -> Result<Value, Refusal> {
    let name = object::name(&pod).to_owned();
    for (what, field) in [("UID", "uid"), ("ResourceVersion", "resourceVersion")] {
        let (wanted, actual) = (object::meta(binding, field), object::meta(&pod, field));
        if !wanted.is_empty() && wanted != actual {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
            );
            return Err(Refusal::conflict(about(kind, &name), why));
        }
    }
    let node = text(&pod["spec"], "nodeName");
    let problem = if object::is_deleting(&pod) {
        Some(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ))
    } else if !node.is_empty() {
        Some(format!("pod {name} is already assigned to node \"{node}\""))
    } else if each(&pod["spec"], "schedulingGates").next().is_some() {
        Some(format!("pod {name} has non-empty .spec.schedulingGates"))
    } else {
        None
    };
    if let Some(problem) = problem {
        let about = About {
            group: "",
            kind: "pods/binding",
            name: &name,
        };
        return Err(Refusal::conflict(about, problem));
    }
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    object::object_mut(&mut pod["status"]).remove("nominatedNodeName");
    for field in ["annotations", "labels"] {
        for (key, value) in object::texts(&binding["metadata"][field]) {
            fill(&mut pod["metadata"], field, json!({}));
            pod["metadata"][field][key] = value.into();
        }
    }
    let node = text(&binding["target"], "name");
    admission::label_topology(state, node, &mut pod);
    set_condition(&mut pod, json!({"type": "PodScheduled", "status": "True"}), now);
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::trial::{Trial, pod};

    const PODS: &str = "/api/v1/namespaces/default/pods";

    async fn bind(trial: &Trial, name: &str, node: &str) -> (u16, Value) {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                             "target": {"kind": "Node", "name": node}});
        trial
            .send("POST", &format!("{PODS}/{name}/binding"), binding)
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_bound_once_and_carries_the_zone_of_its_node() {
        let trial = Trial::new();
        let labels = json!({"topology.kubernetes.io/zone": "us-south-1", "other": "x"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}});
        trial.create("/api/v1/nodes", node).await;
        trial.create(PODS, pod("p")).await;
        assert_eq!(bind(&trial, "p", "n").await.0, 201);
        let (_, bound) = trial.get(&format!("{PODS}/p")).await;
        assert_eq!(bound["spec"]["nodeName"], "n");
        assert_eq!(
            bound["metadata"]["labels"],
            json!({"topology.kubernetes.io/zone": "us-south-1"})
        );
        assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
        assert_eq!(bind(&trial, "p", "m").await.0, 409);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gated_pod_and_one_that_is_not_there_cannot_be_bound() {
        let trial = Trial::new();
        let mut gated = pod("g");
        gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
        trial.create(PODS, gated).await;
        assert_eq!(bind(&trial, "g", "n").await.0, 409);
        assert_eq!(bind(&trial, "missing", "n").await.0, 404);
    }
}
