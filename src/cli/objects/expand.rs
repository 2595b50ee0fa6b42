//! Pods that workloads stand for, as their controllers would make them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodSpec, PodTemplateSpec,
    Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

/// More pods than this are no plan that anybody reads: a hundred times what one cluster is built for.
pub(in crate::cli) const PODS_MAX: usize = 100_000;

/// One pod of a template. Its uid is made from its name, so that the same file is the same cluster.
pub(in crate::cli) fn pod(template: &PodTemplateSpec, namespace: String, name: String) -> Pod {
    let written = template.metadata.clone().unwrap_or_default();
    let mut pod = Pod {
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
    if let Some(spec) = &mut pod.spec {
        requests_from_limits(spec);
    }
    pod
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

/// What the API server does when a pod is created: whoever says only how much is allowed asks for that much.
pub(in crate::cli) fn requests_from_limits(spec: &mut PodSpec) {
    let fill = |container: &mut Container| {
        let Some(resources) = &mut container.resources else {
            return;
        };
        let limits: BTreeMap<String, Quantity> = resources.limits.clone().unwrap_or_default();
        let requests = resources.requests.get_or_insert_default();
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    };
    spec.containers.iter_mut().for_each(fill);
    spec.init_containers.iter_mut().flatten().for_each(fill);
}
