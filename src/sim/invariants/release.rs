//! S8: the finalizer of a claim comes off only when no machine of its name exists, and none appears later: a create whose
//! answer was lost may still be carried out for a minute.

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::cloud::InstanceName;
use crate::sim::history::Entry;
use crate::sim::kube::object;

pub(super) struct Release;

impl Check for Release {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        for change in book.changed.claims.iter().filter(|change| change.releases()) {
            let uid = object::uid(&change.after);
            // Whoever forces a finalizer off takes the blame, and the sweep the machine.
            let forced = book.claims.get(uid).is_none_or(|claim| claim.forced.is_some());
            let name = book.cluster.and_then(|cluster| InstanceName::new(cluster, uid));
            let Some(name) = name.filter(|_| !forced) else {
                continue;
            };
            let machine = truth.cloud.instance(&name.to_string());
            let ours = |group: &str| group == book.settings.resource_group;
            if let Some(machine) = machine.filter(|machine| ours(&machine.resource_group)) {
                let (claim, status) = (object::name(&change.after), machine.status);
                let message = format!(
                    "claim {claim} was released while its machine {} is {status}",
                    machine.id
                );
                found.blame("S8", entry.at, message);
            }
        }
        for id in &book.new_machines {
            let claim = book.machines.get(id).and_then(|machine| machine.claim.as_ref());
            let facts = claim.and_then(|uid| book.claims.get(uid));
            if let Some(claim) = facts.filter(|claim| claim.released.is_some() && claim.forced.is_none()) {
                let name = &claim.name;
                let message = format!("machine {id} of claim {name} appeared after the claim was released");
                found.blame("S8", entry.at, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;

    #[tokio::test(start_paused = true)]
    async fn a_claim_is_not_released_before_its_machine() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.delete("a").await;
        stage.delete_machine(&id).await;
        // Still on its way out.
        stage.release("a").await;
        assert_eq!(stage.blamed(), ["S8"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_is_released_after_its_machine() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.delete("a").await;
        stage.delete_machine(&id).await;
        stage.pass(200).await;
        stage.release("a").await;
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_appears_late_belongs_to_a_claim_that_was_released_too_early() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        stage.delete("a").await;
        stage.release("a").await;
        assert!(stage.blamed().is_empty());
        stage.machine(&stage.name_of(&uid)).await;
        assert_eq!(stage.blamed(), ["S8"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_forces_a_finalizer_off_takes_the_blame() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        stage.machine(&stage.name_of(&uid)).await;
        stage.delete("a").await;
        stage.struck("k14-strip-finalizer", "nodeclaims/a");
        stage.release("a").await;
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_namesake_is_another_claim() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        stage.struck("k10-recreated", "nodeclaims/a");
        stage.delete("a").await;
        stage.release("a").await;
        let uid = stage.claim("a").await;
        stage.machine(&stage.name_of(&uid)).await;
        assert!(stage.blamed().is_empty());
        stage.delete("a").await;
        stage.release("a").await;
        assert_eq!(stage.blamed(), ["S8"]);
    }
}
