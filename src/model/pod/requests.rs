//! What a pod asks of its node.
//!
//! Containers and init containers that keep running count together; the others run one after another, each beside the
//! running ones that were started before it; overhead comes on top; what is asked for the pod as a whole replaces the
//! sum. A container that is being resized counts with the larger of what it asks and what it holds.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;

use super::InvalidPod;
use crate::quantity::Quantity;
use crate::resources::{PODS, Resources, amount_of, quantity_of};

/// The requests of a pod, itself included as one pod.
pub(super) fn requests(spec: &PodSpec, status: Option<&PodStatus>) -> Result<Resources, InvalidPod> {
    let mut total = of_containers(spec, status)?;
    if let Some(whole) = &spec.resources {
        for (name, amount) in &asked(Some(whole))? {
            total.set(name, *amount);
        }
    }
    if let Some(overhead) = &spec.overhead {
        total.add(&parse(overhead)?);
    }
    total.set(PODS, 1);
    Ok(total)
}

fn of_containers(spec: &PodSpec, status: Option<&PodStatus>) -> Result<Resources, InvalidPod> {
    let statuses = status.and_then(|status| status.container_statuses.as_deref());
    let init_statuses = status.and_then(|status| status.init_container_statuses.as_deref());
    let mut running = Resources::new();
    for container in &spec.containers {
        running.add(&of_container(container, statuses)?);
    }
    let Some(init) = &spec.init_containers else {
        return Ok(running);
    };
    let (mut sidecars, mut most) = (Resources::new(), Resources::new());
    for container in init {
        let mut needed = of_container(container, init_statuses)?;
        if container.restart_policy.as_deref() == Some("Always") {
            running.add(&needed);
            sidecars.add(&needed);
            most = most.larger(&sidecars);
        } else {
            needed.add(&sidecars);
            most = most.larger(&needed);
        }
    }
    Ok(running.larger(&most))
}

fn of_container(
    container: &Container,
    statuses: Option<&[ContainerStatus]>,
) -> Result<Resources, InvalidPod> {
    let wanted = asked(container.resources.as_ref())?;
    let held = statuses
        .into_iter()
        .flatten()
        .find(|status| status.name == container.name)
        .and_then(|status| status.allocated_resources.as_ref());
    Ok(match held {
        Some(held) => wanted.larger(&parse(held)?),
        None => wanted,
    })
}

/// Requests; where there is none for a resource that is limited, the limit, as the API server defaults it.
fn asked(resources: Option<&ResourceRequirements>) -> Result<Resources, InvalidPod> {
    let empty = BTreeMap::<String, Written>::new();
    let part = |list: Option<&BTreeMap<String, Written>>| parse(list.unwrap_or(&empty));
    let mut all = part(resources.and_then(|resources| resources.limits.as_ref()))?;
    for (name, amount) in &part(resources.and_then(|resources| resources.requests.as_ref()))? {
        all.set(name, *amount);
    }
    Ok(all)
}

/// What is written in a list; what cannot be read is told with its name.
fn parse(written: &BTreeMap<String, Written>) -> Result<Resources, InvalidPod> {
    let mut all = Resources::new();
    for (name, amount) in written {
        let amount: Quantity = amount.0.parse().map_err(|source| InvalidPod::Quantity {
            resource: name.clone(),
            source,
        })?;
        all.set(name, amount_of(name, amount));
    }
    Ok(all)
}

/// A negative amount as somebody wrote it; if it is the sum of several, in the notation of its resource.
pub(super) fn as_written(spec: &PodSpec, resource: &str, amount: i64) -> String {
    let containers = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    let parts = containers.filter_map(|container| container.resources.as_ref());
    let lists = parts
        .chain(&spec.resources)
        .flat_map(|part| [part.requests.as_ref(), part.limits.as_ref()]);
    let lists = lists.chain([spec.overhead.as_ref()]).flatten();
    let mut written = lists.filter_map(|list| Some(list.get(resource)?.0.as_str()));
    let is_same = |text: &&str| {
        text.parse::<Quantity>()
            .is_ok_and(|one| amount_of(resource, one) == amount)
    };
    written
        .find(is_same)
        .map_or_else(|| quantity_of(resource, amount).to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resources::{CPU, MEMORY};

    fn of(spec: Value, status: Value) -> Resources {
        requests(
            &serde_json::from_value(spec).unwrap(),
            Some(&serde_json::from_value(status).unwrap()),
        )
        .unwrap()
    }

    fn container(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(name: &str, cpu: &str) -> Value {
        json!({"name": name, "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn containers_add_up_and_the_pod_counts_as_one() {
        let sum = of(
            json!({"containers": [container("a", "1"), container("b", "500m")], "overhead": {"cpu": "100m", "memory": "1Ki"}}),
            json!({}),
        );
        assert_eq!((sum.get(CPU), sum.get(MEMORY), sum.get(PODS)), (1600, 1024, 1));
    }

    #[test]
    fn an_init_container_runs_beside_the_sidecars_started_before_it() {
        let first = json!({"containers": [container("a", "1")], "initContainers": [container("i", "3"), sidecar("s", "1")]});
        assert_eq!(
            of(first, json!({})).get(CPU),
            3000,
            "alone; later it is two containers of one"
        );
        let second = json!({"containers": [container("a", "1")], "initContainers": [sidecar("s", "1"), container("i", "3")]});
        assert_eq!(of(second, json!({})).get(CPU), 4000);
        let small = json!({"containers": [container("a", "5")], "initContainers": [sidecar("s", "1"), container("i", "3")]});
        assert_eq!(of(small, json!({})).get(CPU), 6000);
    }

    #[test]
    fn what_is_asked_for_the_whole_pod_replaces_the_sum() {
        let whole = json!({"containers": [container("a", "1")], "resources": {"requests": {"cpu": "3"}}});
        assert_eq!(of(whole, json!({})).get(CPU), 3000);
    }

    #[test]
    fn a_limit_without_a_request_is_the_request() {
        let limited = json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]});
        assert_eq!(of(limited, json!({})).get(CPU), 2000);
    }

    #[test]
    fn a_container_that_shrinks_counts_with_what_it_still_holds() {
        let held = json!({"containerStatuses": [{"name": "a", "image": "", "imageID": "", "ready": true,
            "restartCount": 0, "allocatedResources": {"cpu": "2"}}]});
        assert_eq!(
            of(json!({"containers": [container("a", "1")]}), held).get(CPU),
            2000
        );
    }
}
