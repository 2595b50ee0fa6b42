//! Which claims have lived as long as they may.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use super::Limits;
use super::facts::Facts;
use crate::api::{Expiry, NodeClaim, names, parse_expiry};
use crate::clock::later;

/// A claim that is still there so long after its deletion is held by something of its own, a disruption budget or a volume:
/// a usual drain takes a minute or two. Were it counted for longer, a few such claims would end a pool's expiry for ever.
const LEAVES_WITHIN: Duration = Duration::from_mins(10);

/// So long a Node may work at least once it is ready, as the least `expireAfter` of a pool. A limit that is over before a
/// slow Node is ready would have its machine given back unused, and its successor's too.
const WORKS_MIN: Duration = Duration::from_mins(5);

/// When a claim has lived as long as it may; `None` for one that may live for ever, or whose limit cannot be read.
///
/// One whose Node was never ready for work is given the time that joining may take, and one whose Node became so late
/// some time to work within that: else machines would be bought and given back without anybody having used them.
pub fn expires_at(claim: &NodeClaim) -> Option<Timestamp> {
    let born = claim.metadata.creation_timestamp.as_ref()?;
    let Expiry::After(length) = parse_expiry(claim.spec.expire_after.as_deref()?)? else {
        return None;
    };
    let (due, latest) = (later(born.0, length), later(born.0, length.max(joining_max())));
    let ready = claim.since(names::NODE_INITIALIZED);
    Some(ready.map_or(latest, |ready| due.max(later(ready, WORKS_MIN).min(latest))))
}

/// The longest way of a claim to a Node that is ready for work: an hour. Counted from the claim's birth, which the API
/// server stamped. Its conditions bear the times of a clock that may have been wrong, so no claim lives longer by them.
fn joining_max() -> Duration {
    let usual = Limits::USUAL;
    usual.launch_gpu + usual.registration + usual.initialization
}

/// The claims that expire now, of each pool the oldest first.
///
/// Expiry waits for no budget. But a pool whose nodes were all made at once is not torn down at once: of each pool at
/// most a tenth, and at least five, are on their way out by this at any time. Those that leave for other reasons count;
/// those that have been leaving for ten minutes or more do not.
pub fn expired(claims: &[NodeClaim], now: Timestamp) -> Vec<&NodeClaim> {
    let mut pools: BTreeMap<&str, Vec<&NodeClaim>> = BTreeMap::new();
    for claim in claims {
        let pool = claim.labels().get(names::NODE_POOL).map_or("", String::as_str);
        pools.entry(pool).or_default().push(claim);
    }
    pools
        .into_values()
        .flat_map(|claims| expired_of_pool(&claims, now))
        .collect()
}

fn expired_of_pool<'a>(claims: &[&'a NodeClaim], now: Timestamp) -> Vec<&'a NodeClaim> {
    const AT_ONCE_MIN: usize = 5;
    let leaving = claims.iter().filter(|claim| is_leaving(claim, now)).count();
    let room = (claims.len() / 10).max(AT_ONCE_MIN).saturating_sub(leaving);
    let mut due: Vec<(Timestamp, String, &NodeClaim)> = claims
        .iter()
        .filter(|claim| !claim.is_deleting())
        .filter_map(|claim| {
            Some((
                expires_at(claim).filter(|at| *at <= now)?,
                claim.name_any(),
                *claim,
            ))
        })
        .collect();
    due.sort_by(|(at, name, _), (other_at, other, _)| (at, name).cmp(&(other_at, other)));
    due.into_iter().take(room).map(|(_, _, claim)| claim).collect()
}

/// Whether a claim's deletion began lately. What says that it begins later than now was stamped by another clock than this.
fn is_leaving(claim: &NodeClaim, now: Timestamp) -> bool {
    let begun = claim.metadata.deletion_timestamp.as_ref();
    begun.is_some_and(|begun| now < later(begun.0, LEAVES_WITHIN))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(name: &str, pool: &str, born: &str, expire_after: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": born, "labels": {"karpenter.sh/nodepool": pool}},
            "spec": {
                "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
                "expireAfter": expire_after,
            },
        }))
        .unwrap()
    }

    fn names_of(claims: &[NodeClaim], now: &str) -> Vec<String> {
        expired(claims, now.parse().unwrap())
            .into_iter()
            .map(ResourceExt::name_any)
            .collect()
    }

    #[test]
    fn a_claim_expires_exactly_when_its_time_is_over() {
        let claims = [claim("a", "p", "2026-11-16T10:00:00Z", "12h")];
        assert!(names_of(&claims, "2026-11-16T21:59:59Z").is_empty());
        assert_eq!(names_of(&claims, "2026-11-16T22:00:00Z"), ["a"]);
    }

    /// Its Node is ready for work since then.
    fn initialized(mut claim: NodeClaim, since: &str) -> NodeClaim {
        let status = json!({"conditions": [{
            "type": "Initialized", "status": "True", "lastTransitionTime": since}]});
        claim.status = serde_json::from_value(status).unwrap();
        claim
    }

    #[test]
    fn a_claim_whose_node_was_never_ready_for_work_is_given_the_time_that_joining_may_take() {
        for limit in ["0s", "30s", "6m", "59m"] {
            let raw = [claim("a", "p", "2026-11-16T10:00:00Z", limit)];
            assert!(names_of(&raw, "2026-11-16T10:59:59Z").is_empty(), "{limit}");
            assert_eq!(names_of(&raw, "2026-11-16T11:00:00Z"), ["a"], "{limit}");
        }
        let claim = claim("a", "p", "2026-11-16T10:00:00Z", "9m");
        let ready = [initialized(claim, "2026-11-16T10:03:00Z")];
        assert!(names_of(&ready, "2026-11-16T10:08:59Z").is_empty());
        assert_eq!(names_of(&ready, "2026-11-16T10:09:00Z"), ["a"]);
    }

    #[test]
    fn a_claim_whose_node_became_ready_late_is_given_time_to_work_within_the_time_that_joining_may_take() {
        for (limit, ready, gone) in [
            ("0s", "10:20:00", "10:25:00"),
            ("5m", "10:01:00", "10:06:00"),
            ("5m", "10:45:00", "10:50:00"),
            ("48m", "10:45:00", "10:50:00"),
            ("55m", "10:45:00", "10:55:00"),
            ("5m", "10:58:00", "11:00:00"),
            ("2h", "11:59:00", "12:00:00"),
            // By a clock that was ahead, and by one that was behind.
            ("5m", "23:00:00", "11:00:00"),
            ("5m", "03:00:00", "10:05:00"),
        ] {
            let at = |time: &str| format!("2026-11-16T{time}Z").parse::<Timestamp>().unwrap();
            let raw = claim("a", "p", "2026-11-16T10:00:00Z", limit);
            let ready = initialized(raw, &at(ready).to_string());
            assert_eq!(expires_at(&ready), Some(at(gone)), "{limit}, {ready:?}");
        }
    }

    #[test]
    fn who_may_live_for_ever_does_and_who_is_unreadable_too() {
        let claims = [
            claim("a", "p", "2020-01-01T00:00:00Z", "Never"),
            claim("b", "p", "2020-01-01T00:00:00Z", "12 parsecs"),
            claim("c", "p", "2020-01-01T00:00:00Z", "2562047h"),
        ];
        assert!(names_of(&claims, "2026-11-16T10:00:00Z").is_empty());
    }

    #[test]
    fn a_pool_is_not_torn_down_at_once_and_the_oldest_go_first() {
        let mut claims: Vec<NodeClaim> = (0..20)
            .map(|n| {
                claim(
                    &format!("{n:02}"),
                    "p",
                    &format!("2026-11-16T10:00:{n:02}Z"),
                    "1h",
                )
            })
            .collect();
        claims.reverse();
        let now = "2026-11-17T10:00:00Z";
        assert_eq!(names_of(&claims, now), ["00", "01", "02", "03", "04"]);
        delete(&mut claims, "03", now);
        assert_eq!(names_of(&claims, now), ["03", "04"]);
    }

    /// The claims before that name have been leaving since then.
    fn delete(claims: &mut [NodeClaim], before: &str, since: &str) {
        for claim in claims.iter_mut().filter(|it| it.name_any().as_str() < before) {
            claim.metadata.deletion_timestamp = serde_json::from_value(json!(since)).unwrap();
        }
    }

    #[test]
    fn claims_that_cannot_leave_keep_the_others_from_expiring_for_ten_minutes_and_not_for_ever() {
        let mut claims: Vec<NodeClaim> = (0..20)
            .map(|n| claim(&format!("{n:02}"), "p", "2026-11-16T10:00:00Z", "1h"))
            .collect();
        delete(&mut claims, "05", "2026-11-17T10:00:00Z");
        assert!(names_of(&claims, "2026-11-17T10:09:59Z").is_empty());
        assert_eq!(
            names_of(&claims, "2026-11-17T10:10:00Z"),
            ["05", "06", "07", "08", "09"]
        );
        // These leave: of the next five, none yet.
        delete(&mut claims[5..], "10", "2026-11-17T10:10:00Z");
        assert!(names_of(&claims, "2026-11-17T10:11:00Z").is_empty());
    }
}
