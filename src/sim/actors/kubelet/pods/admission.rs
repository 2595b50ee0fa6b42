//! Whether a pod fits: the last word is the kubelet's, in its own words.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::sim::actors::kubelet::node::{Amounts, amount_of};

/// Why a pod is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    /// `OutOfcpu`
    pub(super) reason: String,
    /// The sentence.
    pub(super) message: String,
}

/// What a pod asks for: its containers together, or its largest init container if that is more.
pub(super) fn requests(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else {
        return Amounts::new();
    };
    let mut total = Amounts::new();
    for container in &spec.containers {
        add(&mut total, &asked(container));
    }
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let asked = asked(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &asked);
            raise(&mut peak, &sidecars);
        } else {
            let mut with = sidecars.clone();
            add(&mut with, &asked);
            raise(&mut peak, &with);
        }
    }
    add(&mut total, &sidecars);
    raise(&mut total, &peak);
    for (resource, amount) in spec.overhead.iter().flatten() {
        *total.entry(resource.clone()).or_default() += amount_of(resource, &amount.0);
    }
    total.insert("pods".to_owned(), 1);
    total
}

/// Looks for the first resource of which too little is left.
pub(super) fn check(requests: &Amounts, used: &Amounts, allocatable: &Amounts) -> Result<(), Rejection> {
    for (resource, requested) in requests.iter().filter(|(_, requested)| **requested > 0) {
        let used = used.get(resource).copied().unwrap_or(0);
        let capacity = allocatable.get(resource).copied().unwrap_or(0);
        if requested.saturating_add(used) > capacity {
            return Err(Rejection {
                reason: format!("OutOf{resource}"),
                message: format!(
                    "Pod was rejected: Node didn't have enough resource: {resource}, requested: {requested}, used: \
                     {used}, capacity: {capacity}"
                ),
            });
        }
    }
    Ok(())
}

fn asked(container: &Container) -> Amounts {
    let requests = container
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    let requests = requests.into_iter().flatten();
    requests
        .map(|(resource, amount)| (resource.clone(), amount_of(resource, &amount.0)))
        .collect()
}

/// Adds amounts to others.
pub(super) fn add(total: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        let sum = total.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(total: &mut Amounts, to: &Amounts) {
    for (resource, amount) in to {
        let highest = total.entry(resource.clone()).or_default();
        *highest = (*highest).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    fn container(cpu: &str) -> serde_json::Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn init_containers_count_by_the_largest_and_sidecars_by_their_sum() {
        let mut sidecar = container("100m");
        sidecar["restartPolicy"] = json!("Always");
        let asked = requests(&pod(&json!({
            "containers": [container("200m"), container("300m")],
            "initContainers": [sidecar, container("1")],
            "overhead": {"cpu": "50m"},
        })));
        assert_eq!(asked["cpu"], 1150);
        assert_eq!(asked["pods"], 1);
    }

    #[test]
    fn a_pod_that_does_not_fit_is_told_what_is_missing() {
        let allocatable: Amounts = [("cpu".to_owned(), 2000), ("pods".to_owned(), 1)].into();
        let asked = requests(&pod(&json!({"containers": [container("1500m")]})));
        assert_eq!(check(&asked, &Amounts::new(), &allocatable), Ok(()));
        let rejected = check(&asked, &asked, &allocatable).unwrap_err();
        assert_eq!(rejected.reason, "OutOfcpu");
        assert!(
            rejected
                .message
                .ends_with("requested: 1500, used: 1500, capacity: 2000")
        );
        let none = requests(&pod(&json!({"containers": []})));
        assert_eq!(
            check(&none, &asked, &allocatable).unwrap_err().reason,
            "OutOfpods"
        );
    }
}
