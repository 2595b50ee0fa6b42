//! Pods that workloads stand for, as their controllers would make them.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodCondition, PodSpec, PodTemplateSpec,
    Volume,
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

/// The pods of a StatefulSet, and the claims to volumes, as they are written in it, that come with each.
pub(in crate::cli) fn stateful(
    workload: Workload<'_>,
    template: &PodTemplateSpec,
    volume_claims: &[PersistentVolumeClaim],
) -> (Vec<Pod>, Vec<PersistentVolumeClaim>) {
    let (mut all, mut claims) = (Vec::new(), Vec::new());
    for mut pod in workload.pods(template) {
        for written in volume_claims {
            let name = format!("{}-{}", written.name_any(), pod.name_any());
            let mut claim = written.clone();
            claim.metadata.name = Some(name.clone());
            claim.metadata.namespace = Some(workload.namespace.to_owned());
            claims.push(claim);
            let volume = Volume {
                name: written.name_any(),
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

/// How many pods a Job runs at a time: none once it is over or while it is suspended, and no more than have yet to succeed.
/// Where it is not said how many have to, the first that does ends it.
pub(in crate::cli) fn running(job: &Job) -> i32 {
    let status = job.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|it| it.conditions.iter().flatten());
    let is_over =
        conditions.any(|it| ["Complete", "Failed"].contains(&it.type_.as_str()) && it.status == "True");
    let spec = job.spec.as_ref();
    if is_over || spec.is_some_and(|spec| spec.suspend == Some(true)) {
        return 0;
    }
    let succeeded = status.and_then(|it| it.succeeded).unwrap_or_default();
    let most = match spec.and_then(|spec| spec.completions) {
        Some(completions) => completions.saturating_sub(succeeded),
        None if succeeded > 0 => 0,
        None => i32::MAX,
    };
    let parallel = spec.and_then(|spec| spec.parallelism).unwrap_or(1);
    parallel.min(most)
}

/// Whether the workload of a pod makes no other for it: it is neither over nor on its way out.
pub(in crate::cli) fn is_active(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// As it is once the API server has taken it and its scheduler has found no node for it, if nothing else keeps it: then it
/// counts, however young it is and whoever places it.
pub(in crate::cli) fn refused(mut pod: Pod) -> Pod {
    if let Some(spec) = &mut pod.spec
        && spec.host_network == Some(true)
    {
        take_ports(spec);
    }
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

/// On the network of its node a pod's ports are the node's. The API server writes that into pods, and not into templates.
fn take_ports(spec: &mut PodSpec) {
    let init = spec.init_containers.iter_mut().flatten();
    let containers = spec.containers.iter_mut().chain(init);
    for port in containers.flat_map(|container| container.ports.iter_mut().flatten()) {
        if port.host_port.is_none_or(|number| number == 0) {
            port.host_port = Some(port.container_port);
        }
    }
}
