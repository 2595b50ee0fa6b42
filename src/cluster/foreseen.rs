//! Whether it can be foreseen what the kube-scheduler will say of a pod that it has not come to yet.
//!
//! At fifty writes a second, its usual limit, the last of a thousand pods is refused after twenty seconds. Whoever asks only
//! for what plans know to be there or not there need not wait for that word. Of the others only the scheduler knows: it gives
//! up preferences for a node that is there, where plans would rather buy one; it may have chosen a node whose volume is being
//! made, for minutes and without a word; and it may remove others from a node for one of more priority.

use k8s_openapi::api::core::v1::{Affinity, PodSpec};

/// Others may let pods wait on purpose.
const USUAL_SCHEDULER: &str = "default-scheduler";

/// Whether plans know what the kube-scheduler will say of such a pod.
pub(super) fn is_foreseeable(spec: &PodSpec) -> bool {
    !is_held(spec) && !has_preferences(spec) && !waits_for_what_it_uses(spec) && !may_displace(spec)
}

/// Whether nobody is to place it now, or somebody of whom it is not known how fast he is.
fn is_held(spec: &PodSpec) -> bool {
    let is_others = spec
        .scheduler_name
        .as_deref()
        .is_some_and(|name| name != USUAL_SCHEDULER);
    is_others || !none(spec.scheduling_gates.as_ref())
}

fn has_preferences(spec: &PodSpec) -> bool {
    let spreads = spec.topology_spread_constraints.iter().flatten();
    let mut spreads = spreads.map(|spread| spread.when_unsatisfiable.as_str());
    spec.affinity.as_ref().is_some_and(prefers) || spreads.any(|otherwise| otherwise != "DoNotSchedule")
}

fn prefers(affinity: &Affinity) -> bool {
    let nodes = affinity.node_affinity.as_ref();
    let near = affinity.pod_affinity.as_ref();
    let apart = affinity.pod_anti_affinity.as_ref();
    let nodes = nodes.and_then(|it| it.preferred_during_scheduling_ignored_during_execution.as_ref());
    let near = near.and_then(|it| it.preferred_during_scheduling_ignored_during_execution.as_ref());
    let apart = apart.and_then(|it| it.preferred_during_scheduling_ignored_during_execution.as_ref());
    !(none(nodes) && none(near) && none(apart))
}

fn waits_for_what_it_uses(spec: &PodSpec) -> bool {
    let mut volumes = spec.volumes.iter().flatten();
    let is_made =
        volumes.any(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some());
    is_made || !none(spec.resource_claims.as_ref())
}

fn may_displace(spec: &PodSpec) -> bool {
    spec.priority.is_some_and(|priority| priority > 0) && spec.preemption_policy.as_deref() != Some("Never")
}

fn none<T>(list: Option<&Vec<T>>) -> bool {
    list.is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn foreseeable(spec: &Value) -> bool {
        let mut whole = json!({"containers": []});
        whole
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        is_foreseeable(&serde_json::from_value(whole).unwrap())
    }

    #[test]
    fn what_a_pod_demands_is_known_before_the_scheduler_says_so() {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {}});
        let spread = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
        for spec in [
            json!({}),
            json!({"schedulerName": "default-scheduler", "schedulingGates": []}),
            json!({"nodeSelector": {"zone": "a"}, "topologySpreadConstraints": [spread]}),
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
            json!({"volumes": [{"name": "a", "emptyDir": {}}]}),
            json!({"priority": 0}),
            json!({"priority": 5, "preemptionPolicy": "Never"}),
        ] {
            assert!(foreseeable(&spec), "{spec}");
        }
    }

    #[test]
    fn what_a_pod_prefers_mounts_or_displaces_is_the_schedulers_to_say() {
        let node = json!({"weight": 1, "preference": {}});
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {}});
        let pod = json!({"weight": 1, "podAffinityTerm": term});
        let spread = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"});
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for spec in [
            json!({"schedulerName": "batch"}),
            json!({"schedulingGates": [{"name": "quota"}]}),
            json!({"affinity": {"nodeAffinity": {preferred: [node]}}}),
            json!({"affinity": {"podAffinity": {preferred: [pod]}}}),
            json!({"affinity": {"podAntiAffinity": {preferred: [pod]}}}),
            json!({"topologySpreadConstraints": [spread]}),
            json!({"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}]}),
            json!({"volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}),
            json!({"resourceClaims": [{"name": "card"}]}),
            json!({"priority": 5}),
        ] {
            assert!(!foreseeable(&spec), "{spec}");
        }
    }
}
