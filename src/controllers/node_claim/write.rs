//! The writes to a claim. Each carries the resourceVersion that it was computed from, so that what was computed from
//! an old claim is refused, and none is sent that changes nothing.

use std::collections::BTreeMap;

use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use super::Error;
use super::census::Moment;
use super::observe::Known;
use crate::api::{NodeClaim, NodeClaimStatus, names};
use crate::controllers::context::Context;
use crate::controllers::node_class;

/// Who owns what is written here.
const MANAGER: &str = "karpenter-ibm-lifecycle";

/// Adds our finalizer, and with it what the class says machines are made of, unless whoever made the claim has.
pub(super) async fn add_finalizer(context: &Context, known: &Known) -> Result<Known, Error> {
    let mut finalizers = known.claim.finalizers().to_vec();
    finalizers.push(names::TERMINATION_FINALIZER.to_owned());
    let mut change = json!({"finalizers": finalizers});
    let class = node_class::launch::class_of(context, &known.claim).await;
    let class = class.map_err(|source| Error::Kube {
        doing: "reading the node class",
        source: Box::new(source),
    })?;
    if let Some(class) = class
        && !known.claim.annotations().contains_key(names::NODE_CLASS_HASH)
    {
        change["annotations"] = node_class::stamp::annotations(&class);
    }
    metadata(context, known, "adding the finalizer", change).await
}

/// Takes our finalizer off; the claim is gone with the answer unless others hold it.
pub(super) async fn release_finalizer(context: &Context, known: &Known) -> Result<Known, Error> {
    let kept = known.claim.finalizers().iter();
    let kept: Vec<&String> = kept
        .filter(|name| *name != names::TERMINATION_FINALIZER)
        .collect();
    let change = json!({"finalizers": kept});
    metadata(context, known, "releasing the finalizer", change).await
}

/// Sets an annotation, or takes it off.
pub(super) async fn annotate(
    context: &Context,
    known: &Known,
    annotation: &str,
    value: Option<String>,
) -> Result<Known, Error> {
    if known.claim.annotations().get(annotation) == value.as_ref() {
        return Ok(known.clone());
    }
    let change = json!({"annotations": {annotation: value}});
    metadata(context, known, "annotating the claim", change).await
}

/// Sets labels.
pub(super) async fn label(
    context: &Context,
    known: &Known,
    labels: &BTreeMap<String, String>,
) -> Result<Known, Error> {
    metadata(context, known, "labeling the claim", json!({"labels": labels})).await
}

async fn metadata(
    context: &Context,
    known: &Known,
    doing: &'static str,
    mut change: Value,
) -> Result<Known, Error> {
    change["resourceVersion"] = json!(known.claim.resource_version());
    let patch = Patch::Merge(json!({"metadata": change}));
    let told_at = context.clock.instant();
    let answer = claims(context)
        .patch(&known.claim.name_any(), &PatchParams::default(), &patch)
        .await;
    told(answer, told_at, doing)
}

/// Writes what this controller owns of the status.
pub(super) async fn status(
    context: &Context,
    known: &Known,
    doing: &'static str,
    status: &NodeClaimStatus,
) -> Result<Known, Error> {
    let body = json!({
        "apiVersion": NodeClaim::api_version(&()),
        "kind": NodeClaim::kind(&()),
        "metadata": {
            "name": known.claim.name_any(),
            "uid": known.claim.uid(),
            "resourceVersion": known.claim.resource_version(),
        },
        "status": status,
    });
    let told_at = context.clock.instant();
    let answer = claims(context)
        .patch_status(
            &known.claim.name_any(),
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(body),
        )
        .await;
    told(answer, told_at, doing)
}

fn claims(context: &Context) -> Api<NodeClaim> {
    Api::all(context.client.clone())
}

fn told(
    answer: kube::Result<NodeClaim>,
    told_at: tokio::time::Instant,
    doing: &'static str,
) -> Result<Known, Error> {
    let claim = answer.map_err(|source| Error::Kube {
        doing,
        source: Box::new(source),
    })?;
    Ok(Known {
        claim,
        told_at,
        bought: None,
        moment: Moment::default(),
    })
}
