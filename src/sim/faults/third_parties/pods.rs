//! What people do to pods, mostly to those on nodes that go.

use fastrand::Rng;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::Meddler;
use crate::api::names::DO_NOT_DISRUPT;
use crate::sim::faults::names::MeddlingKind;

/// For so many more minutes a pod is not to be disturbed: longer than a drain takes, and over before the world must be as
/// it should.
const UNDISTURBED_MINUTES: std::ops::RangeInclusive<i64> = 1..=8;

/// Does it to a pod that is somewhere, if there is one.
pub(super) async fn meddle(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<(), kube::Error> {
    let Some(pod) = some_pod(meddler, rng).await? else {
        return Ok(());
    };
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    meddler.tell(&format!("pods/{namespace}/{name}"));
    let pods: Api<Pod> = Api::namespaced(meddler.client.clone(), &namespace);
    match meddler.meddling.kind {
        MeddlingKind::DeletePod => pods.delete(&name, &DeleteParams::default()).await.map(drop),
        MeddlingKind::ForceDeletePod => {
            let at_once = DeleteParams::default().grace_period(0);
            pods.delete(&name, &at_once).await.map(drop)
        }
        _ => {
            let minutes = minutes_old(meddler, &pod) + rng.i64(UNDISTURBED_MINUTES);
            let annotations = json!({(DO_NOT_DISRUPT): format!("{minutes}m")});
            let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
            pods.patch(&name, &PatchParams::default(), &patch).await.map(drop)
        }
    }
}

/// One that is on a node and stays for now; on a node that goes, if any does.
pub(super) async fn some_pod(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Pod>, kube::Error> {
    let claims = meddler.claims().list(&ListParams::default()).await?.items;
    let going = claims
        .iter()
        .filter(|claim| claim.meta().deletion_timestamp.is_some());
    let going: Vec<String> = going.map(ResourceExt::name_any).collect();
    let pods: Api<Pod> = Api::all(meddler.client.clone());
    let mut pods = pods.list(&ListParams::default()).await?.items;
    pods.retain(|pod| node(pod).is_some() && pod.metadata.deletion_timestamp.is_none());
    let leaves = |pod: &Pod| node(pod).is_some_and(|node| going.iter().any(|it| it == node));
    if pods.iter().any(leaves) {
        pods.retain(leaves);
    }
    Ok(meddler.meddling.pick(&pods, ResourceExt::name_any, rng))
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// How long a pod has been there, since what it asks for counts from then on.
fn minutes_old(meddler: &Meddler<'_>, pod: &Pod) -> i64 {
    let started = pod.status.as_ref().and_then(|status| status.start_time.clone());
    let now = meddler.desk.clock().now();
    started.map_or(0, |started| now.duration_since(started.0).as_mins())
}
