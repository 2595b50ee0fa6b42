//! Requests and limits.

use serde_json::{Value, json};

use super::findings::{Findings, amount};
use super::words;
use crate::quantity::Quantity;

const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether more of it can be promised than there is: only of what everything needs.
fn is_overcommitted(name: &str) -> bool {
    !is_huge_pages(name) && (!name.contains('/') || name.contains("kubernetes.io/"))
}

fn is_integer_resource(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// The resources of a container.
pub(super) fn requirements(found: &mut Findings, at: &str, resources: &Value) {
    let (requests, limits) = (&resources["requests"], &resources["limits"]);
    let (mut huge, mut common) = (false, false);
    for (list, amounts) in [("limits", limits), ("requests", requests)] {
        for (name, value) in amounts.as_object().into_iter().flatten() {
            let at = format!("{at}.{list}[{name}]");
            container_resource(found, &at, name);
            quantity(found, &at, name, value);
            huge |= is_huge_pages(name);
            common |= name == "cpu" || name == "memory";
        }
    }
    for (name, request) in requests.as_object().into_iter().flatten() {
        match limits.get(name) {
            Some(limit) if amount(request) != amount(limit) && !is_overcommitted(name) => {
                let detail = format!("must be equal to {name} limit of {}", amount(limit));
                found.invalid(&format!("{at}.requests"), request, detail);
            }
            Some(limit) if amount(request) > amount(limit) => {
                let detail = format!("must be less than or equal to {name} limit of {}", amount(limit));
                found.invalid(&format!("{at}.requests"), request, detail);
            }
            None if !is_overcommitted(name) => found.required(
                &format!("{at}.limits"),
                "Limit must be set for non overcommitable resources",
            ),
            _ => {}
        }
    }
    if huge && !common {
        found.forbidden(at, "HugePages require cpu or memory");
    }
}

fn container_resource(found: &mut Findings, at: &str, name: &str) {
    let value = json!(name);
    let before = found.0.len();
    found.word(at, &value, words::qualified_name);
    let well_formed = found.0.len() == before;
    if !name.contains('/') {
        if !STANDARD.contains(&name) && !is_huge_pages(name) && well_formed {
            found.invalid(at, &value, "must be a standard resource type or fully qualified");
            found.invalid(at, &value, "must be a standard resource for containers");
        }
    } else if !well_formed || name.starts_with("requests.") {
        found.invalid(at, &value, "doesn't follow extended resource name standard");
    }
}

fn quantity(found: &mut Findings, at: &str, name: &str, value: &Value) {
    let quantity = amount(value);
    if quantity < Quantity::ZERO {
        found.invalid(at, value, "must be greater than or equal to 0");
    }
    if is_integer_resource(name) && quantity.nanos() % 1_000_000_000 != 0 {
        found.invalid(at, value, "must be an integer");
    }
}
