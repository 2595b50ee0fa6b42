//! S14: no write without a change. A write that changes nothing is answered with the version that was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::book::{Book, Sent};
use super::{Check, Findings, Truth};
use crate::sim::history::{Answer, Edge, Entry, What, Who};
use crate::sim::kube::object;
use crate::sim::world::effects::effect;

/// Replicas that overlap write the same at about the same time.
const OVERLAP: Duration = Duration::from_mins(2);

#[derive(Default)]
pub(super) struct Writes {
    /// Objects of which the last writer did not learn whether the write was carried out: it has to write again.
    unsure: BTreeSet<String>,
    /// Who wrote an object last, and when.
    last: BTreeMap<String, (Who, Duration)>,
}

impl Check for Writes {
    fn observe(&mut self, entry: &Entry, book: &Book, _: &Truth<'_>, found: &mut Findings) {
        let (What::Answer(answer), Some(sent)) = (&entry.what, &book.answered) else {
            return;
        };
        let (request, path) = (&sent.request, &sent.request.path);
        let writes = matches!(request.method, Method::PUT | Method::PATCH);
        // Leases are renewed whether or not time has passed.
        let counts = effect(request.edge, &request.method, path).is_some();
        if request.edge != Edge::Kube || !writes || !counts || request.query.contains("dryRun") {
            return;
        }
        let others = self
            .last
            .get(path)
            .is_some_and(|(who, at)| *who != sent.who && entry.at.saturating_sub(*at) < OVERLAP);
        if changed_nothing(answer, sent) && !self.unsure.contains(path) && !others {
            let message = format!("{} {path} changed nothing", sent.request.method);
            found.blame("S14", entry.at, message);
        }
        match answer.status {
            // Requests that were refused, or never sent on, left everything as it was.
            Some(status) if status < 500 => self.unsure.remove(path),
            _ => self.unsure.insert(path.clone()),
        };
        self.last.insert(path.clone(), (sent.who.clone(), entry.at));
    }
}

fn changed_nothing(answer: &Answer, sent: &Sent) -> bool {
    let object: Value = match answer.status {
        Some(200) => serde_json::from_slice(&answer.body).unwrap_or_default(),
        _ => return false,
    };
    let version = object["metadata"]["resourceVersion"].as_str();
    let version: Option<u64> = version.and_then(|version| version.parse().ok());
    // Whoever takes the last finalizer off is answered with what was there before the removal.
    let removed = object::is_deleting(&object) && object::finalizers(&object).is_empty();
    version.is_some_and(|version| version <= sent.revision) && !removed
}

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;
    use super::*;

    const PATH: &str = "/apis/karpenter.sh/v1/nodeclaims/a";

    /// A replica writes the claim, and is answered with its version, or not at all.
    async fn writes(stage: &mut Stage, replica: usize, change: Option<&str>, told: Option<u16>) {
        let number = stage.sends(replica, Edge::Kube, &Method::PATCH, PATH, "{}");
        if let Some(value) = change {
            let patch = serde_json::json!({"metadata": {"annotations": {"value": value}}});
            let params = kube::api::PatchParams::default();
            let patch = kube::api::Patch::Merge(patch);
            stage.claims().patch("a", &params, &patch).await.unwrap();
        }
        let claim = stage.claims().get("a").await.unwrap();
        stage.hears(replica, number, told, &serde_json::to_string(&claim).unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_changes_nothing_is_blamed() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        writes(&mut stage, 0, Some("1"), Some(200)).await;
        assert!(stage.blamed().is_empty());
        writes(&mut stage, 0, None, Some(200)).await;
        assert_eq!(stage.blamed(), ["S14"]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_heard_no_answer_may_write_again() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        for told in [None, Some(504)] {
            writes(&mut stage, 0, Some("1"), told).await;
            writes(&mut stage, 0, None, Some(200)).await;
            assert!(stage.blamed().is_empty(), "{told:?}");
        }
        writes(&mut stage, 0, None, Some(200)).await;
        assert_eq!(stage.blamed(), ["S14"]);
    }

    #[tokio::test(start_paused = true)]
    async fn two_leaders_at_once_may_write_the_same() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        writes(&mut stage, 0, Some("1"), Some(200)).await;
        writes(&mut stage, 1, None, Some(200)).await;
        assert!(stage.blamed().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn taking_the_last_finalizer_off_and_renewing_a_lease_are_fine() {
        let mut stage = Stage::new().await;
        let gone = r#"{"metadata":{"resourceVersion":"1","deletionTimestamp":"2026-11-16T10:00:00Z"}}"#;
        let lease = "/apis/coordination.k8s.io/v1/namespaces/x/leases/leader";
        for (path, body) in [(PATH, gone), (lease, r#"{"metadata":{"resourceVersion":"1"}}"#)] {
            let number = stage.sends(0, Edge::Kube, &Method::PATCH, path, "{}");
            stage.hears(0, number, Some(200), body);
        }
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_write_is_no_write() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        writes(&mut stage, 0, None, Some(409)).await;
        assert!(stage.blamed().is_empty());
    }
}
