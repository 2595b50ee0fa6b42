//! What a pod asks of its place, whoever else is there.

use super::place::Place;
use super::{Broken, Rule, meaning, volumes};
use crate::model::{HostPort, Pod, Snapshot, Standing};

/// What is broken if a pod goes to a place.
pub(super) fn look(snapshot: &Snapshot, place: &Place<'_>, pod: &Pod) -> Vec<Broken> {
    let mut broken = Vec::new();
    if place.standing == Standing::Leaving {
        broken.push((Rule::Eligible, "the node is leaving".to_owned()));
    }
    if !pod.devices.is_empty() {
        broken.push((Rule::Eligible, "the pod claims devices".to_owned()));
    }
    if let Some(taint) = meaning::repelled(place.taints, &pod.tolerations) {
        broken.push((Rule::Taint, format!("{taint} is not tolerated")));
    }
    if !pod.node_terms.iter().any(|term| place.labels.meet(term)) {
        broken.push((
            Rule::Labels,
            "no term of what it asks of labels is certain to be met".to_owned(),
        ));
    }
    for port in &pod.ports {
        if place.ports.iter().any(|taken| clash(port, taken)) {
            broken.push((Rule::Port, format!("{}/{} is taken", port.port, port.protocol)));
        }
    }
    broken.extend(
        volumes::look(snapshot, place, pod)
            .into_iter()
            .map(|found| (Rule::Volume, found)),
    );
    broken
}

/// Whether two ports are the same on some address.
fn clash(one: &HostPort, two: &HostPort) -> bool {
    one.port == two.port
        && one.protocol == two.protocol
        && (one.address.is_none() || two.address.is_none() || one.address == two.address)
}
