//! Whether a claim is still what its NodePool asks for.

use kube::ResourceExt;

use super::Drift;
use crate::api::{NODE_POOL_HASH_VERSION, NodeClaim, NodePool, names};
use crate::model::Requirements;

/// How a claim differs from what its pool asks for: by the hash of the template, or by labels that the pool does not
/// allow any more. Hashes are compared only if they were computed in the same way.
pub fn pool_drift(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    template_drift(claim, pool).or_else(|| requirements_drift(claim, pool))
}

fn template_drift(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    let annotation = |key: &str| claim.annotations().get(key).map(String::as_str);
    let hash = annotation(names::NODE_POOL_HASH)?;
    let is_comparable = annotation(names::NODE_POOL_HASH_VERSION) == Some(NODE_POOL_HASH_VERSION);
    (is_comparable && hash != pool.hash()).then(|| Drift {
        reason: names::DRIFT_NODE_POOL,
        message: format!(
            "the template of NodePool {} was different when the claim was made",
            pool.name_any()
        ),
    })
}

fn requirements_drift(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    // What has no meaning is told by the pool's own status, and proves nothing about nodes.
    let wanted = Requirements::from_api(&pool.spec.template.spec.requirements).ok()?;
    let unmet = wanted.unmet_by(claim.labels())?;
    Some(Drift {
        reason: names::DRIFT_REQUIREMENTS,
        message: format!("NodePool {}: {unmet}", pool.name_any()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(labels: &Value, requirements: &Value) -> NodePool {
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": {
                "requirements": requirements, "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            }}},
        }))
        .unwrap()
    }

    fn claim(of: &NodePool, version: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "c", "labels": {names::ZONE: "a"}, "annotations": {
                names::NODE_POOL_HASH: of.hash(), names::NODE_POOL_HASH_VERSION: version,
            }},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        }))
        .unwrap()
    }

    fn reason(claim: &NodeClaim, pool: &NodePool) -> Option<&'static str> {
        pool_drift(claim, pool).map(|drift| drift.reason)
    }

    #[test]
    fn another_template_is_drift_if_its_hash_was_computed_in_the_same_way() {
        let (before, now) = (
            pool(&json!({}), &json!([])),
            pool(&json!({"team": "b"}), &json!([])),
        );
        assert_eq!(
            reason(&claim(&before, NODE_POOL_HASH_VERSION), &now),
            Some(names::DRIFT_NODE_POOL)
        );
        assert_eq!(reason(&claim(&before, "v0"), &now), None);
        assert_eq!(reason(&claim(&now, NODE_POOL_HASH_VERSION), &now), None);
    }

    #[test]
    fn labels_that_the_pool_does_not_allow_any_more_are_drift() {
        let zone = |zone: &str| json!([{"key": names::ZONE, "operator": "In", "values": [zone]}]);
        let now = pool(&json!({}), &zone("b"));
        assert_eq!(
            reason(&claim(&now, NODE_POOL_HASH_VERSION), &now),
            Some(names::DRIFT_REQUIREMENTS)
        );
        let still = pool(&json!({}), &zone("a"));
        assert_eq!(reason(&claim(&still, NODE_POOL_HASH_VERSION), &still), None);
    }
}
