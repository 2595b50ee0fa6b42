//! What others do for a while and then take back: without that, pods would be held, or wait, for good.

use fastrand::Rng;
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::agent::{self, Agent};
use super::{Meddler, like, pods, provider_id};
use crate::api::names::{GROUP, IBM_GROUP, UNREGISTERED_TAINT};
use crate::sim::actors::volumes::{DETACHES, NEVER};
use crate::sim::faults::desk::Desk;
use crate::sim::faults::key::KeyFile;
use crate::sim::faults::names::MeddlingKind;

/// What somebody's agent puts on new Nodes until it is content with them.
const AGENT_TAINT: &str = "example.com/agent-is-missing";
/// Less than any machine has.
const LIMIT: (&str, &str) = ("cpu", "1");
/// How often somebody tries again whose change met another's.
const TRIES: usize = 5;

/// How something is taken back.
#[derive(Clone, Debug)]
pub enum Undo {
    /// The taint comes off this Node.
    Untaint(String),
    /// This budget goes: namespace and name.
    Budget(String, String),
    /// This pool has these limits again, if it had any.
    Limits(String, Option<Value>),
    /// This class is there again, as it was.
    Class(Box<DynamicObject>),
    /// New Nodes of this pool have these startup taints again, if any, and the agent is back.
    StartupTaints(String, Value, Agent),
    /// This Node goes, if it is still that one: name and uid.
    Node(String, Option<String>),
    /// This volume can be detached again.
    Detach(String),
    /// The operator's new key is where it reads it.
    Key,
}

/// Does it, if it can be done; how it is taken back.
pub(super) async fn meddle(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    match meddler.meddling.kind {
        MeddlingKind::TaintNewNode => taint(meddler, rng).await,
        MeddlingKind::BudgetOfNone => forbid_evictions(meddler, rng).await,
        MeddlingKind::SecondBudget => double_budget(meddler, rng).await,
        MeddlingKind::ClassDeleted => delete_class(meddler, rng).await,
        MeddlingKind::StartupTaintStays => agent::meddle(meddler, rng).await,
        MeddlingKind::StolenProviderId => steal_provider_id(meddler, rng).await,
        MeddlingKind::DetachStuck => hold_volume(meddler, rng).await,
        _ => lower_limits(meddler, rng).await,
    }
}

/// Takes it back. What is gone by then needs nothing.
pub(in crate::sim::faults) async fn take_back(desk: &Desk, undo: &Undo) {
    let client = desk.parts().server.admin();
    let done = match undo {
        Undo::Key => {
            let published = desk.parts().key_file.as_ref().map(KeyFile::publish);
            if let Some(Err(error)) = published {
                tracing::warn!(%error, "the new key is nowhere to be read");
            }
            Ok(())
        }
        Undo::Untaint(node) => untaint(&Api::all(client), node, AGENT_TAINT).await,
        Undo::Class(class) => make_anew(&classes(client), class).await,
        Undo::StartupTaints(pool, taints, agent) => {
            agent.comes_back();
            let patch = json!({"spec": {"template": {"spec": {"startupTaints": taints}}}});
            pools(client)
                .patch(pool, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map(drop)
        }
        Undo::Budget(namespace, name) => {
            let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, namespace);
            budgets.delete(name, &DeleteParams::default()).await.map(drop)
        }
        Undo::Node(name, uid) => {
            let same = DeleteParams::default().preconditions(Preconditions {
                uid: uid.clone(),
                resource_version: None,
            });
            let nodes: Api<Node> = Api::all(client);
            nodes.delete(name, &same).await.map(drop)
        }
        Undo::Detach(volume) => {
            let volumes: Api<PersistentVolume> = Api::all(client);
            let patch = Patch::Merge(json!({"metadata": {"annotations": {(DETACHES): null}}}));
            let params = PatchParams::default();
            volumes.patch(volume, &params, &patch).await.map(drop)
        }
        Undo::Limits(pool, limits) => {
            let (resource, _) = LIMIT;
            let limits = limits
                .as_ref()
                .map(|limits| json!({(resource): limits[resource]}));
            let patch = json!({"spec": {"limits": limits}});
            pools(client)
                .patch(pool, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map(drop)
        }
    };
    if let Err(error) = done {
        tracing::debug!(%error, ?undo, "there is nothing left to take back");
    }
}

pub(super) fn pools(client: kube::Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(GROUP, "v1", "NodePool");
    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, "nodepools"))
}

fn classes(client: kube::Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(IBM_GROUP, "v1alpha1", "IBMNodeClass");
    Api::all_with(
        client,
        &ApiResource::from_gvk_with_plural(&kind, "ibmnodeclasses"),
    )
}

/// The newest Node, as that is what such an agent waits for.
async fn taint(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    let nodes: Api<Node> = Api::all(meddler.client.clone());
    let mut there = nodes.list(&ListParams::default()).await?.items;
    let newest = there.iter().map(ResourceExt::creation_timestamp).max().flatten();
    there.retain(|node| node.creation_timestamp() == newest || meddler.meddling.target.is_some());
    there.retain(|node| !taints(node).iter().any(|taint| taint["key"] == AGENT_TAINT));
    let Some(node) = meddler.meddling.pick(&there, ResourceExt::name_any, rng) else {
        return Ok(None);
    };
    let name = node.name_any();
    meddler.tell(&format!("nodes/{name}"));
    let mut taints = taints(&node);
    taints.push(json!({"key": AGENT_TAINT, "effect": "NoExecute"}));
    let patch = json!({"spec": {"taints": taints}});
    nodes
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(Some(Undo::Untaint(name)))
}

/// Takes a taint off a Node, whoever else writes to it meanwhile.
pub(super) async fn untaint(nodes: &Api<Node>, name: &str, key: &str) -> Result<(), kube::Error> {
    let mut tried = 0;
    loop {
        let node = nodes.get(name).await?;
        let mut taints = taints(&node);
        taints.retain(|taint| taint["key"] != key);
        let patch = json!({
            "metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints},
        });
        tried += 1;
        match nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 && tried < TRIES => {}
            done => return done.map(drop),
        }
    }
}

fn taints(node: &Node) -> Vec<Value> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    taints
        .unwrap_or_default()
        .iter()
        .map(|taint| json!(taint))
        .collect()
}

/// Nobody may evict any pod that is labelled like one that is to leave, if any is.
async fn forbid_evictions(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    let Some(pod) = pods::some_pod(meddler, rng).await? else {
        return Ok(None);
    };
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("nobody-{:08x}", rng.u32(..)), "namespace": pod.namespace()},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": pod.labels()}},
    });
    create(meddler, serde_json::from_value(budget).ok()).await
}

/// Another budget for the pods of one that is there: pods with two of them cannot be evicted at all.
async fn double_budget(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    let budgets: Api<PodDisruptionBudget> = Api::all(meddler.client.clone());
    let there = budgets.list(&ListParams::default()).await?.items;
    let budget = meddler.meddling.pick(&there, ResourceExt::name_any, rng);
    let twin = budget.map(|budget| PodDisruptionBudget {
        metadata: ObjectMeta {
            name: Some(format!("{}-{:08x}", budget.name_any(), rng.u32(..))),
            namespace: budget.namespace(),
            ..ObjectMeta::default()
        },
        spec: budget.spec,
        status: None,
    });
    create(meddler, twin).await
}

async fn create(
    meddler: &Meddler<'_>,
    budget: Option<PodDisruptionBudget>,
) -> Result<Option<Undo>, kube::Error> {
    let Some(budget) = budget else { return Ok(None) };
    let (namespace, name) = (budget.namespace().unwrap_or_default(), budget.name_any());
    meddler.tell(&format!("poddisruptionbudgets/{namespace}/{name}"));
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(meddler.client.clone(), &namespace);
    budgets.create(&PostParams::default(), &budget).await?;
    Ok(Some(Undo::Budget(namespace, name)))
}

/// A pool may have less than it has.
async fn lower_limits(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    let pools = pools(meddler.client.clone());
    let mut there = pools.list(&ListParams::default()).await?.items;
    let (resource, amount) = LIMIT;
    // Of one that is low already it would not be known what it had.
    there.retain(|pool| pool.data["spec"]["limits"][resource] != amount);
    let Some(pool) = meddler.meddling.pick(&there, ResourceExt::name_any, rng) else {
        return Ok(None);
    };
    let name = pool.name_any();
    meddler.tell(&format!("nodepools/{name}"));
    let patch = json!({"spec": {"limits": {(resource): amount}}});
    pools
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    let before = pool.data["spec"].get("limits").cloned();
    Ok(Some(Undo::Limits(name, before)))
}

/// A class that a claim uses: its finalizer keeps it, and until it is there again nothing can be bought for the claim.
async fn delete_class(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    let claims = meddler.claims().list(&ListParams::default()).await?.items;
    let is_used = |class: &DynamicObject| {
        let uses = |claim: &DynamicObject| claim.data["spec"]["nodeClassRef"]["name"] == class.name_any();
        claims.iter().any(uses)
    };
    let classes = classes(meddler.client.clone());
    let mut there = classes.list(&ListParams::default()).await?.items;
    there.retain(|class| class.metadata.deletion_timestamp.is_none() && is_used(class));
    let Some(class) = meddler.meddling.pick(&there, ResourceExt::name_any, rng) else {
        return Ok(None);
    };
    let name = class.name_any();
    meddler.tell(&format!("ibmnodeclasses/{name}"));
    classes.delete(&name, &DeleteParams::default()).await?;
    Ok(Some(Undo::Class(Box::new(class))))
}

/// A Node for a machine that has not joined yet, with the provider id of another claim's machine: two Nodes have it then if
/// that one has joined. It takes no pods: no Node does whose kubelet registers it.
async fn steal_provider_id(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    let claims = meddler.claims().list(&ListParams::default()).await?.items;
    let Some(claim) = meddler.unjoined(&claims, rng) else {
        return Ok(None);
    };
    let others: Vec<&str> = claims
        .iter()
        .filter_map(provider_id)
        .filter(|id| Some(*id) != provider_id(&claim))
        .collect();
    let Some(stolen) = rng.choice(&others) else {
        return Ok(None);
    };
    let name = claim.name_any();
    meddler.tell(&format!("nodes/{name}"));
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {"providerID": stolen, "taints": [{"key": UNREGISTERED_TAINT, "effect": "NoExecute"}]},
    });
    let node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
    let nodes: Api<Node> = Api::all(meddler.client.clone());
    let made = nodes.create(&PostParams::default(), &node).await?;
    Ok(Some(Undo::Node(name, made.metadata.uid)))
}

/// A volume that is attached, and that nobody holds there already.
async fn hold_volume(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    let attachments: Api<VolumeAttachment> = Api::all(meddler.client.clone());
    let attachments = attachments.list(&ListParams::default()).await?.items;
    let attached: Vec<String> = attachments
        .into_iter()
        .filter_map(|attachment| attachment.spec.source.persistent_volume_name)
        .collect();
    let volumes: Api<PersistentVolume> = Api::all(meddler.client.clone());
    let mut there = volumes.list(&ListParams::default()).await?.items;
    there.retain(|volume| {
        attached.contains(&volume.name_any()) && !volume.annotations().contains_key(DETACHES)
    });
    let Some(volume) = meddler.meddling.pick(&there, ResourceExt::name_any, rng) else {
        return Ok(None);
    };
    let name = volume.name_any();
    meddler.tell(&format!("persistentvolumes/{name}"));
    let patch = Patch::Merge(json!({"metadata": {"annotations": {(DETACHES): NEVER}}}));
    volumes.patch(&name, &PatchParams::default(), &patch).await?;
    Ok(Some(Undo::Detach(name)))
}

/// Whoever deleted a class by mistake cannot take that back: he forces it out, if it is still there, and applies his manifest,
/// which says nothing of what others wrote on it.
async fn make_anew(classes: &Api<DynamicObject>, class: &DynamicObject) -> Result<(), kube::Error> {
    let name = class.name_any();
    let there = classes.get_opt(&name).await?;
    if there.is_some_and(|class| class.metadata.deletion_timestamp.is_some()) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        // It may have gone by itself meanwhile.
        let _ = classes.patch(&name, &PatchParams::default(), &patch).await;
    }
    let mut class = like(class, &name);
    class.metadata.annotations = None;
    classes.create(&PostParams::default(), &class).await.map(drop)
}
