//! S8: the finalizer of a claim comes off only when no machine of its name exists, and none appears later: a create whose
//! answer was lost may still be carried out for a minute.

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::cloud::InstanceName;
use crate::sim::history::Entry;
use crate::sim::kube::object;

#[derive(Default)]
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
