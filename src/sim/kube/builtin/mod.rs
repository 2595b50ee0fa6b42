//! The kinds that come with Kubernetes: their shapes, their defaults, their rules.
//!
//! Everything here is a function of objects; what a server adds from what else it stores is in `admission`.

pub mod amounts;
mod conform;
mod defaults;
mod descriptions;
pub mod fields;
pub mod label_selector;
pub mod qos;
mod settled;
mod shapes;
pub mod strategy;
mod validation;
pub mod words;

pub use conform::{Mismatch, conform, unknown};
pub use descriptions::describe;
pub use shapes::open_api;

pub use defaults::apply as apply_defaults;
pub use validation::{new_event, problems};

/// The classes that a server makes itself, for what the cluster cannot do without.
pub fn priority_classes() -> [serde_json::Value; 2] {
    const SYSTEM: i64 = 2_000_000_000;
    let class = |name: &str, value: i64, description: &str| {
        serde_json::json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority",
        })
    };
    [
        class(
            "system-cluster-critical",
            SYSTEM,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        class(
            "system-node-critical",
            SYSTEM + 1000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ]
}
