//! S2: no machine is changed or deleted that is not ours: by name and resource group, as both are atomic at create.

use http::Method;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::sim::history::{Edge, Entry, Request, What, Who};

pub(super) struct Ownership;

impl Check for Ownership {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let (What::Request(request), Who::Replica { .. }) = (&entry.what, &entry.who) else {
            return;
        };
        if request.edge != Edge::Cloud || request.method == Method::GET {
            return;
        }
        let foreign = target(request)
            .and_then(|id| book.machines.get(id))
            .filter(|machine| machine.claim.is_none() && machine.gone.is_none());
        if let Some(machine) = foreign {
            let (method, name) = (&request.method, &machine.name);
            found.blame("S2", entry.at, format!("{method} of {name}, which is not ours"));
        }
        if request.path.starts_with("/v3/tags/") {
            tags_ours_only(entry, request, book, truth, found);
        }
    }
}

/// The id of the machine that a request is about.
pub(super) fn target(request: &Request) -> Option<&str> {
    let rest = request.path.strip_prefix("/v1/instances/")?;
    rest.split('/').next().filter(|id| !id.is_empty())
}

fn tags_ours_only(entry: &Entry, request: &Request, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    let body = String::from_utf8_lossy(&request.body);
    for machine in truth.cloud.instances() {
        let ours = book
            .machines
            .get(&machine.id)
            .is_some_and(|known| known.claim.is_some());
        if !ours && body.contains(&machine.crn) {
            let name = &machine.name;
            found.blame(
                "S2",
                entry.at,
                format!("tags of {name}, which is not ours, are changed"),
            );
        }
    }
}
