//! After healing. L2: machines and claims match. L3: claims that are being deleted are gone. S18: network interfaces and
//! volumes went with their machines.

use serde_json::Value;

use super::book::Book;
use super::claims::{conditions, is_true};
use super::{Check, Findings, Truth};
use crate::api::names::LAUNCHED;
use crate::cloud::InstanceName;
use crate::sim::history::Entry;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

use super::book::own_name;

pub(super) struct Leftovers;

impl Check for Leftovers {
    fn observe(&mut self, _: &Entry, _: &Book, _: &Truth<'_>, _: &mut Findings) {}

    fn settled(&self, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let claims = claims(truth);
        leaks(&claims, book, truth, found);
        for claim in &claims {
            if object::is_deleting(claim) {
                let message = format!("claim {} is still being deleted", object::name(claim));
                found.blame("L3", truth.since_start, message);
            } else {
                has_its_machine(claim, book, truth, found);
            }
        }
        orphans(book, truth, found);
    }
}

fn claims(truth: &Truth<'_>) -> Vec<Value> {
    let state = truth.kube.state();
    let claims = state
        .store
        .list(&TableKey::of("karpenter.sh", "nodeclaims"), None);
    claims.map(|stored| stored.value()).collect()
}

/// Machines of ours without a claim.
fn leaks(claims: &[Value], book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    for machine in truth.cloud.instances() {
        let name = own_name(&machine.name).parse::<InstanceName>().ok();
        let ours = name.filter(|name| {
            machine.resource_group == book.settings.resource_group && Some(name.cluster()) == book.cluster
        });
        let Some(uid) = ours.map(|name| name.claim_uid()) else {
            continue;
        };
        let renamed = own_name(&machine.name) != machine.name;
        let claimed = claims.iter().any(|claim| object::uid(claim) == uid);
        if !claimed || renamed {
            let (name, status) = (&machine.name, machine.status);
            let message = format!("machine {name} ({status}) belongs to no claim");
            found.blame("L2", truth.since_start, message);
        }
    }
}

/// A claim has its machine, or says why not.
fn has_its_machine(claim: &Value, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    let name = book
        .cluster
        .and_then(|cluster| InstanceName::new(cluster, object::uid(claim)));
    let machine = name.and_then(|name| truth.cloud.instance(&name.to_string()));
    let explained = conditions(claim)
        .iter()
        .any(|condition| condition["type"] == LAUNCHED && condition["status"] == "False");
    let problem = match &machine {
        Some(machine) if machine.resource_group != book.settings.resource_group => return,
        Some(machine) if machine.status != "running" => format!("has a machine that is {}", machine.status),
        Some(_) if !is_true(claim, LAUNCHED) => "does not know that its machine runs".to_owned(),
        Some(_) => return,
        None if explained => return,
        None => "has no machine and does not say why".to_owned(),
    };
    let message = format!("claim {} {problem}", object::name(claim));
    found.blame("L2", truth.since_start, message);
}

/// What the cloud itself left behind is the cloud's.
fn orphans(book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    let made = book.strikes("c13-partial-create") + book.strikes("c13-auto-delete-ignored");
    if made > 0 {
        return;
    }
    for id in truth.cloud.orphans() {
        let message = format!("{id} outlived its machine");
        found.blame("S18", truth.since_start, message);
    }
}
