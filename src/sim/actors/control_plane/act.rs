//! Carries out one write, and applies its answer to the view.
//!
//! The answer of a binding or an eviction does not show the pod, so the pod is read again: whoever decides next must
//! count it where it is now.

use http::Request as HttpRequest;
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Request};
use serde_json::{Value, json};

use super::next::{Act, Preconditions, Target};
use crate::sim::actors::view::{Change, Kind, View};

/// What a write changed in the view.
pub(super) type Changed = (Kind, Change);

/// Writes on behalf of one actor.
pub(super) struct Writer<'a> {
    pub(super) client: &'a Client,
    pub(super) actor: &'static str,
}

impl Writer<'_> {
    /// Does it, or says why not. Nothing is tried twice: the actor is asked again and may want something else by then.
    pub(super) async fn carry_out(&self, act: Act, view: &mut View) -> kube::Result<Changed> {
        match act {
            Act::Create {
                kind,
                namespace,
                object,
            } => {
                let request = Request::new(kind.path(&namespace)).create(&self.post(), bytes(&object)?);
                self.write(kind, built(request)?, view).await
            }
            Act::Patch { target, patch } => {
                let request = at(&target).patch(&target.name, &self.patching(), &Patch::Merge(&patch));
                self.write(target.kind, built(request)?, view).await
            }
            Act::PatchStatus { target, patch } => {
                let patch = Patch::Merge(&patch);
                let request = at(&target).patch_subresource("status", &target.name, &self.patching(), &patch);
                self.write(target.kind, built(request)?, view).await
            }
            Act::Delete {
                target,
                preconditions,
                grace,
            } => self.delete(&target, preconditions, grace, view).await,
            Act::Evict {
                target,
                preconditions,
            } => self.evict(&target, &preconditions, view).await,
            Act::Bind { target, uid, node } => self.bind(&target, &uid, &node, view).await,
        }
    }

    fn post(&self) -> PostParams {
        PostParams {
            field_manager: Some(self.actor.to_owned()),
            ..PostParams::default()
        }
    }

    fn patching(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.actor.to_owned()),
            ..PatchParams::default()
        }
    }

    async fn write(
        &self,
        kind: Kind,
        request: HttpRequest<Vec<u8>>,
        view: &mut View,
    ) -> kube::Result<Changed> {
        let object: Value = self.client.request(request).await?;
        let change = view.accept(kind, object).map_err(kube::Error::SerdeError)?;
        Ok((kind, change))
    }

    async fn delete(
        &self,
        target: &Target,
        preconditions: Preconditions,
        grace: Option<u32>,
        view: &mut View,
    ) -> kube::Result<Changed> {
        let uid = preconditions.uid.clone().unwrap_or_default();
        let parameters = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(kube::api::Preconditions {
                uid: preconditions.uid,
                resource_version: preconditions.resource_version,
            }),
            ..DeleteParams::background()
        };
        let request = at(target).delete(&target.name, &parameters);
        let answer: Value = self.client.request(built(request)?).await?;
        let change = if is_going(&answer) {
            view.accept(target.kind, answer)
                .map_err(kube::Error::SerdeError)?
        } else {
            view.bury(target.kind, &uid)
        };
        Ok((target.kind, change))
    }

    async fn evict(
        &self,
        target: &Target,
        preconditions: &Preconditions,
        view: &mut View,
    ) -> kube::Result<Changed> {
        let options = json!({"preconditions": {"uid": preconditions.uid,
                                               "resourceVersion": preconditions.resource_version}});
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": options,
                              "metadata": {"name": target.name, "namespace": target.namespace}});
        self.subresource(target, "eviction", &eviction).await?;
        self.look_again(target, view).await
    }

    async fn bind(&self, target: &Target, uid: &str, node: &str, view: &mut View) -> kube::Result<Changed> {
        let binding = json!({"apiVersion": "v1", "kind": "Binding",
                             "metadata": {"name": target.name, "namespace": target.namespace, "uid": uid},
                             "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        self.subresource(target, "binding", &binding).await?;
        self.look_again(target, view).await
    }

    async fn subresource(&self, target: &Target, name: &str, body: &Value) -> kube::Result<()> {
        let request = at(target).create_subresource(name, &target.name, &self.post(), bytes(body)?);
        let _: Value = self.client.request(built(request)?).await?;
        Ok(())
    }

    async fn look_again(&self, target: &Target, view: &mut View) -> kube::Result<Changed> {
        let request = at(target).get(&target.name, &GetParams::default());
        match self.write(target.kind, built(request)?, view).await {
            // It went at once; the watch will say so.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok((target.kind, Change::Nothing)),
            other => other,
        }
    }
}

/// Whether the answer to a deletion shows an object that stays for a while. What goes at once is answered by a `Status`
/// or by what it was; a pod that goes at once shows a grace period of zero.
fn is_going(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let waits = metadata["deletionGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds > 0);
    let held = metadata["finalizers"]
        .as_array()
        .is_some_and(|held| !held.is_empty());
    metadata["deletionTimestamp"].is_string() && (waits || held)
}

fn at(target: &Target) -> Request {
    Request::new(target.kind.path(&target.namespace))
}

fn built(
    request: Result<HttpRequest<Vec<u8>>, kube::core::request::Error>,
) -> kube::Result<HttpRequest<Vec<u8>>> {
    request.map_err(kube::Error::BuildRequest)
}

fn bytes(object: &Value) -> kube::Result<Vec<u8>> {
    serde_json::to_vec(object).map_err(kube::Error::SerdeError)
}
