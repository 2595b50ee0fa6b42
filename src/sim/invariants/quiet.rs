//! L4: when all is well nothing is done any more. L10: soon after its credentials are valid again, the operator works
//! with them: a minute after healing it is refused no more; and whoever has asked the cloud before does not fall silent,
//! but has had an answer from it that is no refusal by the time of the second poll.

use std::time::Duration;

use super::book::{Book, Sent};
use super::claims::is_true;
use super::machine::Machine;
use super::manners::service;
use super::purchases::bought_for;
use super::{Check, Findings, Truth};
use crate::ibm::http::retry_after::RETRY_AFTER_MAX;
use crate::sim::history::{Edge, Entry, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::world::effects::{Deed, Verb, effect};

/// What nodes report is looked at, and classes are resolved anew, every five minutes: what changed before all was well may
/// be written down that much later.
const ROUND: Duration = Duration::from_secs(330);

/// So long after the last change of a machine nothing follows from it any more: the one in its place joins within four
/// minutes of running, what its node has is written at most a round later, and pods leave a dead node within another five.
const CONSEQUENCES: Duration = Duration::from_mins(15);

/// How soon after healing nobody is refused for want of rights any more.
const WORKS_AGAIN: Duration = Duration::from_mins(1);

/// How soon after healing the cloud has answered somebody: somebody leads after 20 s, whoever failed last waits for 30, and a
/// poll a minute later may be lost to a request that was still stuck.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20 + 30 + 2 * 62);
/// From when a service is asked again that did not want to be, to an answer: a poll.
const ASKED_AGAIN: Duration = Duration::from_secs(62);

#[derive(Default)]
pub(super) struct Quiet {
    /// Whether anybody has asked for machines yet. Without a class that is ready there is nothing to ask for.
    asks: bool,
    /// When that was last answered.
    answered: Option<Duration>,
    /// Until when it may yet be that the cloud does not want to be asked.
    closed: Duration,
}

impl Quiet {
    /// Takes note of what the cloud says.
    fn hear(&mut self, sent: &Sent, status: Option<u16>, at: Duration) {
        if sent.request.edge != Edge::Cloud {
            return;
        }
        if status == Some(429) {
            self.closed = at + RETRY_AFTER_MAX;
        }
        if service(&sent.request.path) == "VPC" {
            self.asks = true;
            if status.is_some_and(|status| status < 300) {
                self.answered = Some(at);
            }
        }
    }
}

impl Check for Quiet {
    fn look(&mut self, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let now = truth.since_start;
        let Some(healed) = book.healed_at.filter(|_| self.asks) else {
            return;
        };
        let due = (healed + ANSWERED_WITHIN).max(self.closed + ASKED_AGAIN);
        let is_silent = now > due && self.answered.is_none_or(|answered| answered < healed);
        if is_silent && is_a_class_ready(truth) {
            found.blame(
                "L10",
                now,
                "nobody has had an answer from the cloud since all was put right",
            );
        }
    }

    fn observe(&mut self, entry: &Entry, book: &Book, _: &Truth<'_>, found: &mut Findings) {
        let (What::Answer(answer), Some(sent), Who::Replica { .. }) =
            (&entry.what, &book.answered, &entry.who)
        else {
            return;
        };
        let (request, status) = (&sent.request, answer.status);
        self.hear(sent, status, entry.at);
        let deed = effect(request.edge, &request.method, &request.path);
        let quiet = book.quiet_since.is_some_and(|since| is_quiet(sent, since));
        let calm_for = book.quiet_since.map(|since| sent.at.saturating_sub(since));
        let unreasoned = |deed: &Deed| needs_a_reason(deed, calm_for.unwrap_or_default());
        let unreasoned = deed.as_ref().is_some_and(unreasoned) && !is_wanted(sent, book);
        if quiet && unreasoned && status.is_some_and(|status| status < 300) {
            let message = format!("{} {} although nothing happened", request.method, request.path);
            found.blame("L4", entry.at, message);
        }
        let refused = request.edge == Edge::Cloud && matches!(status, Some(401 | 403));
        let late = book
            .healed_at
            .is_some_and(|healed| sent.at > healed + WORKS_AGAIN);
        if refused && late {
            let message = format!("{} {} is still refused", request.method, request.path);
            found.blame("L10", entry.at, message);
        }
    }
}

fn is_a_class_ready(truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let table = TableKey::of("karpenter-ibm.sh", "ibmnodeclasses");
    let mut classes = state.store.list(&table, None);
    classes.any(|class| is_true(&class.shared(), "Ready"))
}

/// Whether nothing had happened, when it was sent, that is a reason to act: a machine that goes down by itself is one at
/// any time, for as long as everything may take that follows from it.
fn is_quiet(sent: &Sent, since: Duration) -> bool {
    let changed = sent.machine_changed;
    sent.at >= since && (changed < since || sent.at.saturating_sub(changed) >= CONSEQUENCES)
}

/// Whether it buys for a claim that waits for its machine, which is always right.
fn is_wanted(sent: &Sent, book: &Book) -> bool {
    let claim = bought_for(&sent.request);
    claim.is_some_and(|claim| {
        let mut earlier = book.machines_of(&claim).filter(|machine| machine.seen < sent.at);
        !earlier.any(Machine::is_live)
    })
}

/// Time alone is the reason to take away a record of what was withheld, which stays for as long again as that was.
fn needs_a_reason(deed: &Deed, calm_for: Duration) -> bool {
    match (deed.verb, deed.kind.as_str()) {
        (Verb::Delete, "unavailableofferings") => false,
        (Verb::Update, "ibmnodeclasses/status" | "nodepools/status") => calm_for > ROUND,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;

    const CLAIM: &str = "/apis/karpenter.sh/v1/nodeclaims/a";

    fn write(stage: &mut Stage, path: &str, status: Option<u16>) {
        let number = stage.sends(0, Edge::Kube, &Method::PATCH, path, "{}");
        stage.hears(0, number, status, "{}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_done_when_all_is_well() {
        let mut stage = Stage::new().await;
        write(&mut stage, CLAIM, Some(200));
        stage.pass(1).await;
        stage.settles();
        write(
            &mut stage,
            "/apis/coordination.k8s.io/v1/namespaces/x/leases/leader",
            Some(200),
        );
        stage.see_cloud();
        write(&mut stage, CLAIM, Some(409));
        assert!(stage.blamed().is_empty());
        write(&mut stage, CLAIM, Some(200));
        assert_eq!(stage.blamed(), ["L4"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_withheld_is_forgotten_when_its_time_has_come() {
        let mut stage = Stage::new().await;
        stage.pass(1).await;
        stage.settles();
        let offering = "/apis/karpenter-ibm.sh/v1alpha1/unavailableofferings/spot.all";
        let number = stage.sends(0, Edge::Kube, &Method::DELETE, offering, "");
        stage.hears(0, number, Some(200), "{}");
        assert!(stage.blamed().is_empty());
        write(&mut stage, offering, Some(200));
        assert_eq!(stage.blamed(), ["L4"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_class_learned_is_written_within_its_round_and_not_later() {
        let mut stage = Stage::new().await;
        stage.pass(1).await;
        stage.settles();
        let class = "/apis/karpenter-ibm.sh/v1alpha1/ibmnodeclasses/default/status";
        let pool = "/apis/karpenter.sh/v1/nodepools/default/status";
        write(&mut stage, class, Some(200));
        write(&mut stage, pool, Some(200));
        assert!(stage.blamed().is_empty());
        stage.pass(ROUND.as_secs() + 1).await;
        write(&mut stage, class, Some(200));
        write(&mut stage, pool, Some(200));
        assert_eq!(stage.blamed(), ["L4", "L4"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_goes_down_is_a_reason_to_act() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.pass(200).await;
        stage.settles();
        stage.pass(10).await;
        stage.delete_machine(&id).await;
        write(&mut stage, CLAIM, Some(200));
        assert!(!stage.blamed().contains(&"L4"), "{:?}", stage.judge.violations());
        // It is gone for good within three minutes.
        stage.pass(200).await;
        stage.pass(CONSEQUENCES.as_secs()).await;
        write(&mut stage, CLAIM, Some(200));
        assert!(stage.blamed().contains(&"L4"), "not for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn what_happens_to_the_machines_of_others_is_none() {
        let mut stage = Stage::new().await;
        let billing = stage.machine("billing").await;
        stage.pass(200).await;
        stage.settles();
        stage.pass(10).await;
        stage.delete_machine(&billing).await;
        write(&mut stage, CLAIM, Some(200));
        assert_eq!(stage.blamed(), ["L4"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_deed_itself_changes_is_no_reason_for_it() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.pass(200).await;
        // That it runs by now is no news later.
        stage.see_cloud();
        stage.pass(1).await;
        stage.settles();
        stage.pass(10).await;
        let path = format!("/v1/instances/{id}");
        let number = stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        stage.cloud_says(Method::DELETE, &path, "").await;
        stage.hears(0, number, Some(204), "");
        assert!(stage.blamed().contains(&"L4"), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_valid_key_works_again_after_a_minute() {
        let mut stage = Stage::new().await;
        stage.judge.healed(Duration::ZERO);
        for (seconds, blamed) in [(30, 0), (40, 1)] {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let number = stage.sends(0, Edge::Cloud, &Method::GET, "/v1/instances", "");
            stage.hears(0, number, Some(401), "");
            assert_eq!(stage.blamed().len(), blamed);
        }
        assert_eq!(stage.blamed(), ["L10"]);
    }

    /// A class that is ready. To create one would be to begin without a status.
    fn add_class(stage: &Stage) {
        let class = json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass",
            "metadata": {"name": "default"}, "spec": {},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let mut state = stage.server.state();
        let kind = state
            .registry
            .by_kind("karpenter-ibm.sh", "IBMNodeClass")
            .unwrap();
        state.store.put(&kind, class);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_was_refused_does_not_fall_silent() {
        for (asked, answered, closed, blamed) in [
            (true, false, false, &["L10"][..]),
            (true, true, false, &[]),
            (true, false, true, &[]),
            (false, false, false, &[]),
        ] {
            let mut stage = Stage::new().await;
            add_class(&stage);
            if asked {
                let number = stage.sends(0, Edge::Cloud, &Method::GET, "/v1/instances", "");
                stage.hears(0, number, Some(401), "");
            }
            // Nobody looks at the cloud meanwhile: time passes without a request.
            tokio::time::sleep(Duration::from_secs(1)).await;
            if closed {
                let number = stage.sends(0, Edge::Cloud, &Method::GET, "/v1/instances", "");
                stage.hears(0, number, Some(429), "");
            }
            stage.judge.healed(Duration::from_secs(1));
            if answered {
                tokio::time::sleep(Duration::from_secs(100)).await;
                stage.see_cloud();
            }
            let passed = if answered { 100 } else { 0 };
            tokio::time::sleep(Duration::from_secs(176 - passed)).await;
            stage.looks();
            assert_eq!(stage.blamed(), blamed, "{asked} {answered} {closed}");
        }
    }
}
