//! Pods that workloads stand for, as their controllers would make them.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodCondition, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

/// More pods than this are no plan that anybody reads: a hundred times what one cluster is built for.
pub(in crate::cli) const PODS_MAX: usize = 100_000;

/// One pod of a template. Its uid is made from its name, so that the same file is the same cluster.
pub(in crate::cli) fn pod(template: &PodTemplateSpec, namespace: String, name: String) -> Pod {
    let written = template.metadata.clone().unwrap_or_default();
    let pod = Pod {
        metadata: ObjectMeta {
            uid: Some(format!("{namespace}/{name}")),
            namespace: Some(namespace),
            name: Some(name),
            labels: written.labels,
            annotations: written.annotations,
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    };
    refused(pod)
}

/// The pods of a workload.
pub(in crate::cli) fn pods(
    template: &PodTemplateSpec,
    namespace: &str,
    name: &str,
    replicas: i32,
) -> impl Iterator<Item = Pod> {
    let number = usize::try_from(replicas).unwrap_or_default().min(PODS_MAX);
    (0..number).map(move |at| pod(template, namespace.to_owned(), format!("{name}-{at}")))
}

/// The pods of a StatefulSet, and the claims to volumes that come with them.
pub(in crate::cli) fn stateful(set: &StatefulSet, namespace: &str) -> (Vec<Pod>, Vec<PersistentVolumeClaim>) {
    let spec = &set.spec;
    let (mut all, mut claims) = (Vec::new(), Vec::new());
    for mut pod in pods(
        &spec.template,
        namespace,
        &set.name_any(),
        spec.replicas.unwrap_or(1),
    ) {
        for template in spec.volume_claim_templates.iter().flatten() {
            let name = format!("{}-{}", template.name_any(), pod.name_any());
            let mut claim = template.clone();
            claim.metadata.name = Some(name.clone());
            claim.metadata.namespace = Some(namespace.to_owned());
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

/// As it is once the kube-scheduler has found no node for it, if nothing else keeps it: only then it counts.
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
