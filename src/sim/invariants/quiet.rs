//! L4: when all is well nothing is done any more. L10: soon after its credentials are valid again, the operator works
//! with them.

use std::time::Duration;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::sim::history::{Edge, Entry, What, Who};
use crate::sim::world::effects::{Deed, Verb, effect};

/// What nodes report is looked at, and classes are resolved anew, every five minutes: what changed before all was well may
/// be written down that much later.
const ROUND: Duration = Duration::from_secs(330);

/// How soon after healing nobody is refused for want of rights any more.
const WORKS_AGAIN: Duration = Duration::from_mins(1);

pub(super) struct Quiet;

impl Check for Quiet {
    fn observe(&mut self, entry: &Entry, book: &Book, _: &Truth<'_>, found: &mut Findings) {
        let (What::Answer(answer), Some(sent), Who::Replica { .. }) =
            (&entry.what, &book.answered, &entry.who)
        else {
            return;
        };
        let (request, status) = (&sent.request, answer.status);
        let deed = effect(request.edge, &request.method, &request.path);
        // A machine that goes down by itself is a reason to act at any time.
        let quiet = book
            .quiet_since
            .is_some_and(|since| since <= sent.at && book.machine_changed < since);
        let calm_for = book.quiet_since.map(|since| sent.at.saturating_sub(since));
        let unreasoned = |deed: &Deed| needs_a_reason(deed, calm_for.unwrap_or_default());
        if quiet && deed.as_ref().is_some_and(unreasoned) && status.is_some_and(|status| status < 300) {
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

/// Time alone is the reason to take away a record of what was withheld, which stays for as long again as that was.
fn needs_a_reason(deed: &Deed, calm_for: Duration) -> bool {
    match (deed.verb, deed.kind.as_str()) {
        (Verb::Delete, "unavailableofferings") => false,
        (Verb::Update, "ibmnodeclasses/status") => calm_for > ROUND,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

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
        write(&mut stage, class, Some(200));
        assert!(stage.blamed().is_empty());
        stage.pass(ROUND.as_secs() + 1).await;
        write(&mut stage, class, Some(200));
        assert_eq!(stage.blamed(), ["L4"]);
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
}
