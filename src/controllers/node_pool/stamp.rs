//! The hash of a pool's template, on the pool and on its claims. When a release computes it otherwise, claims are stamped
//! anew instead of drifting.

use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{Error, status};
use crate::api::{NODE_POOL_HASH_VERSION, NodeClaim, NodePool, names};
use crate::controllers::context::Context;
use crate::lifecycle::facts::Facts;

/// Stamps a pool, if it is not.
pub(super) async fn pool(context: &Context, known: &NodePool) -> Result<(), Error> {
    let stamps = status::stamps(known);
    let is_stamped = |pool: &NodePool| {
        let annotations = pool.annotations();
        stamps
            .iter()
            .all(|(key, value)| annotations.get(*key) == Some(value))
    };
    if is_stamped(known) {
        return Ok(());
    }
    // The template that the hash was computed from is the one that is stamped: its generation has not moved on.
    let pools: Api<NodePool> = Api::all(context.client.clone());
    let read = pools.get_opt(&known.name_any()).await;
    let Some(pool) = read.map_err(Error::kube("reading the pool"))? else {
        return Ok(());
    };
    if pool.metadata.generation != known.metadata.generation || is_stamped(&pool) {
        return Ok(());
    }
    let patch = json!({"metadata": {
        "resourceVersion": pool.resource_version(), "uid": pool.uid(), "annotations": stamps,
    }});
    let answer = pools
        .patch(&pool.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map_err(Error::kube("stamping the pool"))?;
    context.cluster.with(|index| index.note(&answer));
    Ok(())
}

/// Stamps the claims of a pool whose hash was computed in another way.
pub(super) async fn claims(context: &Context, pool: &NodePool) -> Result<(), Error> {
    let old: Vec<NodeClaim> = context.cluster.with(|index| {
        let claims = status::claims_of(index, &pool.name_any()).into_iter();
        claims
            .filter(|claim| restamped(claim, pool).is_some())
            .cloned()
            .collect()
    });
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    for known in old {
        let read = api.get_opt(&known.name_any()).await;
        let Some(claim) = read.map_err(Error::kube("reading a claim"))? else {
            continue;
        };
        let Some(annotations) = restamped(&claim, pool) else {
            continue;
        };
        let patch = json!({"metadata": {
            "resourceVersion": claim.resource_version(), "uid": claim.uid(), "annotations": annotations,
        }});
        match api
            .patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Ok(answer) => context.cluster.with(|index| index.note(&answer)),
            // It changed meanwhile or is gone: the next pass sees to it.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
            Err(error) => return Err(Error::kube("stamping a claim")(error)),
        }
    }
    Ok(())
}

/// What to write on a claim, if anything. One that has drifted keeps its hash, and stays drifted; one that bears none was
/// made by hand, and is compared with nothing.
fn restamped(claim: &NodeClaim, pool: &NodePool) -> Option<Value> {
    let version = claim.annotations().get(names::NODE_POOL_HASH_VERSION)?;
    if version == NODE_POOL_HASH_VERSION || claim.is_deleting() {
        return None;
    }
    if claim.is(names::DRIFTED) {
        return Some(json!({names::NODE_POOL_HASH_VERSION: NODE_POOL_HASH_VERSION}));
    }
    Some(json!(status::stamps(pool)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> NodePool {
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"template": {"spec": {
                "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            }}},
        }))
        .unwrap()
    }

    fn claim(version: Option<&str>, conditions: &Value) -> NodeClaim {
        let mut annotations = json!({names::NODE_POOL_HASH: "1"});
        if let Some(version) = version {
            annotations[names::NODE_POOL_HASH_VERSION] = json!(version);
        }
        serde_json::from_value(json!({
            "metadata": {"name": "a", "annotations": annotations},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn only_a_hash_that_was_computed_in_another_way_is_replaced() {
        assert_eq!(
            restamped(&claim(Some(NODE_POOL_HASH_VERSION), &json!([])), &pool()),
            None
        );
        assert_eq!(restamped(&claim(None, &json!([])), &pool()), None);
        let written = restamped(&claim(Some("v0"), &json!([])), &pool()).unwrap();
        assert_eq!(written[names::NODE_POOL_HASH], json!(pool().hash()));
    }

    #[test]
    fn a_drifted_claim_keeps_its_hash() {
        let drifted =
            json!([{"type": "Drifted", "status": "True", "lastTransitionTime": "2026-11-16T10:00:00Z"}]);
        let written = restamped(&claim(Some("v0"), &drifted), &pool()).unwrap();
        assert_eq!(
            written,
            json!({names::NODE_POOL_HASH_VERSION: NODE_POOL_HASH_VERSION})
        );
    }
}
