//! Pods that workloads stand for, as their controllers would make them.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodCondition, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

/// More pods than this are no plan that anybody reads: a hundred times what one cluster is built for.
pub(in crate::cli) const PODS_MAX: usize = 100_000;

/// A workload of which pods are made.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Workload<'w> {
    pub(in crate::cli) kind: &'w str,
    pub(in crate::cli) namespace: &'w str,
    pub(in crate::cli) name: &'w str,
    /// How many pods it makes.
    pub(in crate::cli) replicas: usize,
}

impl Workload<'_> {
    /// One of its pods. The uid is made from names, so that the same file is the same cluster; the kind is in it, since
    /// workloads of several kinds may have one name.
    fn pod(&self, template: &PodTemplateSpec, at: usize) -> Pod {
        let written = template.metadata.clone().unwrap_or_default();
        let pod = Pod {
            metadata: ObjectMeta {
                uid: Some(format!("{}/{}/{}-{at}", self.kind, self.namespace, self.name)),
                namespace: Some(self.namespace.to_owned()),
                name: Some(format!("{}-{at}", self.name)),
                labels: written.labels,
                annotations: written.annotations,
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        };
        refused(pod)
    }

    /// All of its pods.
    pub(in crate::cli) fn pods(&self, template: &PodTemplateSpec) -> impl Iterator<Item = Pod> {
        (0..self.replicas).map(move |at| self.pod(template, at))
    }
}

/// The pods of a StatefulSet, and the claims to volumes that come with them.
pub(in crate::cli) fn stateful(
    set: &StatefulSet,
    workload: Workload<'_>,
) -> (Vec<Pod>, Vec<PersistentVolumeClaim>) {
    let spec = &set.spec;
    let (mut all, mut claims) = (Vec::new(), Vec::new());
    for mut pod in workload.pods(&spec.template) {
        for template in spec.volume_claim_templates.iter().flatten() {
            let name = format!("{}-{}", template.name_any(), pod.name_any());
            let mut claim = template.clone();
            claim.metadata.name = Some(name.clone());
            claim.metadata.namespace = Some(workload.namespace.to_owned());
            claims.push(claim);
            let volume = Volume {
                name: template.name_any(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: name,
                    read_only: None,
                }),
                ..Volume::default()
            };
            if let Some(spec) = &mut pod.spec {
                spec.volumes.get_or_insert_default().push(volume);
            }
        }
        all.push(pod);
    }
    (all, claims)
}

/// As it is once its scheduler has found no node for it, if nothing else keeps it: then it counts, however young it is and
/// whoever places it.
pub(in crate::cli) fn refused(mut pod: Pod) -> Pod {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let has_node = node.is_some_and(|node| !node.is_empty());
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    let is_held = gates.is_some_and(|gates| !gates.is_empty());
    if !has_node && !is_held {
        let conditions = pod
            .status
            .get_or_insert_default()
            .conditions
            .get_or_insert_default();
        conditions.retain(|it| it.type_ != "PodScheduled");
        conditions.push(PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some("Unschedulable".to_owned()),
            ..PodCondition::default()
        });
    }
    pod
}
