//! What others do to the cluster and the account, through clean clients: people, other controllers, another cluster.
//!
//! Whom it hits is drawn from what is there at that moment, objects and machines in order of their names; where nothing
//! fits, nothing happens. Each act is told before it is done, with the name of its object.

use fastrand::Rng;
use k8s_openapi::api::core::v1::{Node, NodeAddress};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::desk::Desk;
use super::names::{FaultName, MeddlingKind};
use crate::api::names::{CAPACITY_TYPE, DO_NOT_DISRUPT, GROUP};

mod account;
mod agent;
mod lasting;
mod older;
mod pods;
#[cfg(test)]
mod tests;

pub use account::AccountError;
pub use lasting::Undo;
pub(super) use lasting::take_back;

/// What somebody else does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meddling {
    /// What is done.
    pub kind: MeddlingKind,
    /// To which object or machine, by name; drawn if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl Meddling {
    /// To whatever chance picks.
    pub fn new(kind: MeddlingKind) -> Self {
        Self { kind, target: None }
    }

    /// To that object or machine.
    #[must_use]
    pub fn to(mut self, name: &str) -> Self {
        self.target = Some(name.to_owned());
        self
    }

    /// One of those that there are: the target if it is among them, else by chance.
    fn pick<T: Clone>(&self, there: &[T], name: impl Fn(&T) -> String, rng: &mut Rng) -> Option<T> {
        match &self.target {
            Some(target) => there.iter().find(|one| name(one) == *target).cloned(),
            None => rng.choice(there).cloned(),
        }
    }
}

/// Somebody at work.
struct Meddler<'a> {
    desk: &'a Desk,
    meddling: &'a Meddling,
    client: Client,
}

/// Does it, if it can be done; how it is taken back, if it is.
pub(super) async fn meddle(desk: &Desk, meddling: &Meddling, rng: &mut Rng) -> Option<Undo> {
    let meddler = Meddler {
        desk,
        meddling,
        client: desk.parts().server.admin(),
    };
    let done = match meddling.kind {
        MeddlingKind::CreatedAndDeleted => meddler.flash_claim(rng).await,
        MeddlingKind::Recreated => meddler.recreate_claim(rng).await,
        MeddlingKind::StripFinalizer => meddler.strip_finalizer(rng).await,
        MeddlingKind::DeleteNode => meddler.delete_node(rng).await,
        MeddlingKind::ImpostorNode => meddler.pose_as_node(rng).await,
        MeddlingKind::OldVersion => {
            older::meddle(&meddler, rng);
            Ok(())
        }
        MeddlingKind::DeletePod | MeddlingKind::ForceDeletePod | MeddlingKind::UndisturbedPod => {
            pods::meddle(&meddler, rng).await
        }
        MeddlingKind::AddTaint
        | MeddlingKind::RemoveTaints
        | MeddlingKind::EditLabels
        | MeddlingKind::DoNotDisrupt => meddler.edit_node(rng).await,
        MeddlingKind::TaintNewNode
        | MeddlingKind::BudgetOfNone
        | MeddlingKind::SecondBudget
        | MeddlingKind::LimitsLowered
        | MeddlingKind::ClassDeleted
        | MeddlingKind::StartupTaintStays
        | MeddlingKind::StolenProviderId
        | MeddlingKind::DetachStuck => match lasting::meddle(&meddler, rng).await {
            Ok(undo) => return undo,
            Err(error) => Err(error),
        },
        MeddlingKind::KeyRotated => return account::rotate_key(desk, meddling, rng),
        MeddlingKind::DeleteMachine
        | MeddlingKind::ForeignMachine
        | MeddlingKind::TwinMachine
        | MeddlingKind::ConfusingMachine
        | MeddlingKind::NameTaken
        | MeddlingKind::PreemptedLeaving => {
            // What the account refuses did not happen to anybody.
            if let Err(error) = account::meddle(desk, meddling, rng).await {
                tracing::debug!(%error, kind = ?meddling.kind, "nothing came of it");
            }
            return None;
        }
    };
    if let Err(error) = done {
        tracing::debug!(%error, kind = ?meddling.kind, "nothing came of it");
    }
    None
}

impl Meddler<'_> {
    fn claims(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(GROUP, "v1", "NodeClaim");
        Api::all_with(
            self.client.clone(),
            &ApiResource::from_gvk_with_plural(&kind, "nodeclaims"),
        )
    }

    async fn some_claim(&self, rng: &mut Rng) -> Result<Option<DynamicObject>, kube::Error> {
        let claims = self.claims().list(&ListParams::default()).await?.items;
        Ok(self.meddling.pick(&claims, ResourceExt::name_any, rng))
    }

    async fn some_node(&self, rng: &mut Rng) -> Result<Option<Node>, kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let nodes = nodes.list(&ListParams::default()).await?.items;
        Ok(self.meddling.pick(&nodes, ResourceExt::name_any, rng))
    }

    fn tell(&self, object: &str) {
        self.desk.strike(FaultName::Meddling(self.meddling.kind), object);
    }

    /// A claim like another, gone before many have seen it.
    async fn flash_claim(&self, rng: &mut Rng) -> Result<(), kube::Error> {
        let Some(model) = self.some_claim(rng).await? else {
            return Ok(());
        };
        let name = format!("flash-{:08x}", rng.u32(..));
        self.tell(&format!("nodeclaims/{name}"));
        let claims = self.claims();
        claims
            .create(&PostParams::default(), &like(&model, &name))
            .await?;
        claims.delete(&name, &DeleteParams::default()).await.map(drop)
    }

    /// Forces a claim out and makes another of its name: the same name, another uid.
    async fn recreate_claim(&self, rng: &mut Rng) -> Result<(), kube::Error> {
        let Some(claim) = self.some_claim(rng).await? else {
            return Ok(());
        };
        let name = claim.name_any();
        self.tell(&format!("nodeclaims/{name}"));
        let claims = self.claims();
        if rng.bool() {
            // Gone before anybody hears that it goes: only a comparison of cloud and cluster shows its machine.
            self.strip(&name).await?;
        }
        claims.delete(&name, &DeleteParams::default()).await?;
        // Without finalizers it is gone already, and there is nothing to strip.
        let _ = self.strip(&name).await;
        claims
            .create(&PostParams::default(), &like(&claim, &name))
            .await
            .map(drop)
    }

    /// Preferably of one that is being deleted: that one is gone then, and its machine is nobody's. Half of the others
    /// are deleted too.
    async fn strip_finalizer(&self, rng: &mut Rng) -> Result<(), kube::Error> {
        let mut claims = self.claims().list(&ListParams::default()).await?.items;
        claims.retain(|claim| !claim.finalizers().is_empty());
        if claims
            .iter()
            .any(|claim| claim.metadata.deletion_timestamp.is_some())
        {
            claims.retain(|claim| claim.metadata.deletion_timestamp.is_some());
        }
        let Some(claim) = self.meddling.pick(&claims, ResourceExt::name_any, rng) else {
            return Ok(());
        };
        let name = claim.name_any();
        self.tell(&format!("nodeclaims/{name}"));
        self.strip(&name).await?;
        if claim.metadata.deletion_timestamp.is_none() && rng.bool() {
            self.claims().delete(&name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    async fn strip(&self, name: &str) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {"finalizers": null}});
        let params = PatchParams::default();
        self.claims()
            .patch(name, &params, &Patch::Merge(patch))
            .await
            .map(drop)
    }

    async fn delete_node(&self, rng: &mut Rng) -> Result<(), kube::Error> {
        let Some(node) = self.some_node(rng).await? else {
            return Ok(());
        };
        self.tell(&format!("nodes/{}", node.name_any()));
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes
            .delete(&node.name_any(), &DeleteParams::default())
            .await
            .map(drop)
    }

    /// A Node for a machine that has not joined yet: name and provider id are right, the address is not its own.
    async fn pose_as_node(&self, rng: &mut Rng) -> Result<(), kube::Error> {
        let claims = self.claims().list(&ListParams::default()).await?.items;
        let Some(claim) = self.unjoined(&claims, rng) else {
            return Ok(());
        };
        let name = claim.name_any();
        self.tell(&format!("nodes/{name}"));
        let mut node = Node::default();
        node.metadata.name = Some(name.clone());
        node.spec.get_or_insert_default().provider_id = provider_id(&claim).map(str::to_owned);
        node.status.get_or_insert_default().addresses = Some(vec![NodeAddress {
            type_: "InternalIP".to_owned(),
            address: "192.0.2.66".to_owned(),
        }]);
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.create(&PostParams::default(), &node).await.map(drop)
    }

    /// A claim whose machine is there and has not joined yet.
    fn unjoined(&self, claims: &[DynamicObject], rng: &mut Rng) -> Option<DynamicObject> {
        let mut waiting = claims.to_vec();
        waiting.retain(|claim| provider_id(claim).is_some() && claim.data["status"]["nodeName"].is_null());
        self.meddling.pick(&waiting, ResourceExt::name_any, rng)
    }

    async fn edit_node(&self, rng: &mut Rng) -> Result<(), kube::Error> {
        let Some(node) = self.some_node(rng).await? else {
            return Ok(());
        };
        let patch = edit(self.meddling.kind, &node);
        self.tell(&format!("nodes/{}", node.name_any()));
        let nodes: Api<Node> = Api::all(self.client.clone());
        let params = PatchParams::default();
        nodes
            .patch(&node.name_any(), &params, &Patch::Merge(patch))
            .await
            .map(drop)
    }
}

fn provider_id(claim: &DynamicObject) -> Option<&str> {
    claim.data["status"]["providerID"].as_str()
}

/// What becomes of a Node.
fn edit(kind: MeddlingKind, node: &Node) -> Value {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
    match kind {
        MeddlingKind::AddTaint => {
            let mut taints = json!(taints.unwrap_or_default());
            if let Some(taints) = taints.as_array_mut() {
                taints.push(json!({"key": "example.com/maintenance", "effect": "NoSchedule"}));
            }
            json!({"spec": {"taints": taints}})
        }
        MeddlingKind::RemoveTaints => json!({"spec": {"taints": null}}),
        MeddlingKind::EditLabels => {
            json!({"metadata": {"labels": {(CAPACITY_TYPE): "reserved", "example.com/team": "blue"}}})
        }
        _ => json!({"metadata": {"annotations": {(DO_NOT_DISRUPT): "true"}}}),
    }
}

/// A new object with the wishes and labels of another.
fn like(model: &DynamicObject, name: &str) -> DynamicObject {
    let mut twin = model.clone();
    twin.metadata = kube::core::ObjectMeta {
        name: Some(name.to_owned()),
        labels: model.metadata.labels.clone(),
        annotations: model.metadata.annotations.clone(),
        ..Default::default()
    };
    if let Some(data) = twin.data.as_object_mut() {
        data.remove("status");
    }
    twin
}
