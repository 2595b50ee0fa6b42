//! S17: a Node counts as a claim's only if name, provider id and address are those of its machine. S21: what claim and
//! Node say of type, zone and capacity type is what the machine really is, also after adoption.

use std::time::Duration;

use serde_json::Value;

use super::book::{Book, Machine};
use super::claims::is_true;
use super::{Check, Findings, Truth};
use crate::api::names::{
    CAPACITY_TYPE, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT, INSTANCE_TYPE, LAUNCHED, NODE_REGISTERED,
    ZONE,
};
use crate::sim::history::Entry;
use crate::sim::ibm::Class;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::stored::ObjectKey;

pub(super) struct Trust;

impl Check for Trust {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        for change in book.changed.claims.iter().filter(|change| !change.deleted) {
            let claim = &change.after;
            let newly = |kind| {
                is_true(claim, kind) && !change.before.as_ref().is_some_and(|before| is_true(before, kind))
            };
            if newly(NODE_REGISTERED) {
                registered(claim, entry.at, book, truth, found);
            }
            if newly(LAUNCHED) {
                describes(claim, Labels::WhereSet, entry.at, book, found);
            }
        }
    }

    fn settled(&self, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let state = truth.kube.state();
        for stored in state
            .store
            .list(&TableKey::of("karpenter.sh", "nodeclaims"), None)
        {
            let claim = stored.value();
            if is_true(&claim, LAUNCHED) && !object::is_deleting(&claim) {
                describes(&claim, Labels::All, truth.since_start, book, found);
            }
        }
    }
}

/// Which labels must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Labels {
    /// Those that are must be right.
    WhereSet,
    /// All.
    All,
}

fn machine<'a>(claim: &Value, book: &'a Book) -> Option<&'a Machine> {
    let provider = claim["status"]["providerID"].as_str()?;
    let id = provider.rsplit('/').next()?;
    book.machines.get(id)
}

fn registered(claim: &Value, at: Duration, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    let name = object::name(claim);
    let mut blame = |why: String| found.blame("S17", at, format!("claim {name} is registered, but {why}"));
    let Some(machine) = machine(claim, book) else {
        return blame("its provider id is that of no machine".to_owned());
    };
    if machine.claim.as_deref() != Some(object::uid(claim)) {
        return blame(format!("machine {} is not its own", machine.name));
    }
    if !book.nodes.contains(name) {
        return blame("there never was a Node of its name".to_owned());
    }
    let state = truth.kube.state();
    let node = state
        .store
        .get(&TableKey::of("", "nodes"), &ObjectKey::new("", name));
    // A Node that is gone by now was there when the operator looked.
    let Some(node) = node.map(|stored| stored.value()) else {
        return;
    };
    if node["spec"]["providerID"] != claim["status"]["providerID"] {
        blame(format!(
            "its Node's provider id is {}",
            node["spec"]["providerID"]
        ));
    }
    let addresses = node["status"]["addresses"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let agrees = |address: &String| addresses.iter().any(|known| known["address"] == *address);
    if !machine.address.as_ref().is_some_and(agrees) {
        blame(format!(
            "its Node does not have the address {:?}",
            machine.address
        ));
    }
}

fn describes(claim: &Value, labels: Labels, at: Duration, book: &Book, found: &mut Findings) {
    let name = object::name(claim);
    let Some(machine) = machine(claim, book) else {
        return;
    };
    if book.meddled.contains_key(&format!("nodeclaims/{name}")) {
        return;
    }
    let capacity = match machine.class {
        Class::Spot => CAPACITY_TYPE_SPOT,
        Class::Standard => CAPACITY_TYPE_ON_DEMAND,
    };
    let really = [
        (INSTANCE_TYPE, machine.profile),
        (ZONE, machine.zone.as_str()),
        (CAPACITY_TYPE, capacity),
    ];
    for (label, value) in really {
        let said = claim["metadata"]["labels"][label].as_str();
        let wrong = match said {
            Some(said) => said != value,
            None => labels == Labels::All,
        };
        if wrong {
            let message = format!("claim {name} says {label} is {said:?}, its machine is {value}");
            found.blame("S21", at, message);
        }
    }
}
