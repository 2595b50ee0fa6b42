//! Every name that others see: API groups, labels, annotations, taints, finalizers, condition types, reasons.
//!
//! Names under `karpenter.sh` and their meaning are upstream Karpenter's; names under `karpenter-ibm.sh` are ours.

/// The API group of NodePool and NodeClaim.
pub const GROUP: &str = "karpenter.sh";
/// The API group of what is particular to IBM Cloud.
pub const IBM_GROUP: &str = "karpenter-ibm.sh";

/// Label: the NodePool that a NodeClaim or Node belongs to.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// Label: how the machine is bought, one of the `CAPACITY_TYPE_*` values.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Label, `true` on a Node that has been matched to its NodeClaim.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// Label, `true` on a Node that is ready for work.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// Label: the `IBMNodeClass` that a NodeClaim or Node was made from; also how one of our Nodes is recognized.
pub const NODE_CLASS: &str = "karpenter-ibm.sh/ibmnodeclass";

/// Value of [`CAPACITY_TYPE`]: may be preempted.
pub const CAPACITY_TYPE_SPOT: &str = "spot";
/// Value of [`CAPACITY_TYPE`]: stays until given back.
pub const CAPACITY_TYPE_ON_DEMAND: &str = "on-demand";
/// Value of [`CAPACITY_TYPE`]: paid for in advance. Valid in manifests; we offer none.
pub const CAPACITY_TYPE_RESERVED: &str = "reserved";

/// Label: the zone of a Node.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Label: the region of a Node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Label: the machine profile of a Node.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Label: the processor architecture of a Node.
pub const ARCH: &str = "kubernetes.io/arch";
/// Label: the operating system of a Node.
pub const OS: &str = "kubernetes.io/os";
/// Label: the name a Node has on the network. Never part of a requirement: it is known only afterwards.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Label: the Windows build of a Node.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// Label: the series of a Node's machine profile, like `bxf` of `bxf-4x16`.
pub const INSTANCE_FAMILY: &str = "karpenter-ibm.sh/instance-family";
/// Label: the size of a Node's machine profile, like `4x16` of `bxf-4x16`.
pub const INSTANCE_SIZE: &str = "karpenter-ibm.sh/instance-size";
/// Label: how many virtual processors a Node's machine has.
pub const INSTANCE_CPU: &str = "karpenter-ibm.sh/instance-cpu";
/// Label: the nominal memory of a Node's machine, in MiB.
pub const INSTANCE_MEMORY: &str = "karpenter-ibm.sh/instance-memory";
/// Label: the model of a Node's GPUs in lower case, like `l40s`. Absent without GPUs.
pub const INSTANCE_GPU_NAME: &str = "karpenter-ibm.sh/instance-gpu-name";
/// Label: how many GPUs a Node has. Absent without GPUs.
pub const INSTANCE_GPU_COUNT: &str = "karpenter-ibm.sh/instance-gpu-count";
/// Label: the bandwidth of a Node's machine in Mb/s, network and volumes together, as its profile sells it.
pub const INSTANCE_NETWORK_BANDWIDTH: &str = "karpenter-ibm.sh/instance-network-bandwidth";

/// Labels that pods may select even where a NodePool does not define them, since every instance type says what they
/// are, or that they are absent.
pub const WELL_KNOWN_LABELS: [&str; 15] = [
    NODE_POOL,
    ZONE,
    REGION,
    INSTANCE_TYPE,
    ARCH,
    OS,
    CAPACITY_TYPE,
    WINDOWS_BUILD,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_CPU,
    INSTANCE_MEMORY,
    INSTANCE_GPU_NAME,
    INSTANCE_GPU_COUNT,
    INSTANCE_NETWORK_BANDWIDTH,
];

/// Older names of well-known labels and what they are read as.
pub const LABEL_ALIASES: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];

/// Annotation on a pod, Node or NodeClaim: leave it where it is. `true`, or on a pod for how long.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Annotation on a NodePool and its NodeClaims: the hash of the template that was used.
pub const NODE_POOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Annotation beside [`NODE_POOL_HASH`]: how that hash was computed. Only equal versions are compared.
pub const NODE_POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// Annotation on an `IBMNodeClass` and the NodeClaims made from it: the hash of the class.
pub const NODE_CLASS_HASH: &str = "karpenter-ibm.sh/nodeclass-hash";
/// Annotation beside [`NODE_CLASS_HASH`]: how that hash was computed.
pub const NODE_CLASS_HASH_VERSION: &str = "karpenter-ibm.sh/nodeclass-hash-version";
/// Annotation on a NodeClaim, beside [`NODE_CLASS_HASH`]: what the class said its machine is made of, field by field, so
/// that a difference can be named.
pub const NODE_CLASS_FIELDS: &str = "karpenter-ibm.sh/nodeclass-fields";
/// Annotation on a NodeClaim: when its pods are removed at the latest (RFC 3339).
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Annotation on a NodeClaim: whether `minValues` was given up for it, `true` or `false`.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// The driver of block volumes of a VPC.
pub const BLOCK_DRIVER: &str = "vpc.block.csi.ibm.io";
/// Annotation on a NodeClaim: the device drivers that its pods wait for, separated by commas.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// Annotation on a NodeClaim: since when its machine has been found nowhere, neither by id nor by name (RFC 3339). What
/// is still not there after the cloud's visibility delay is gone.
pub const MACHINE_ABSENT_SINCE: &str = "karpenter-ibm.sh/machine-absent-since";
/// Annotation on a NodeClaim: until when an order for its machine that was repeated may still be carried out (RFC 3339).
/// The first order of an attempt needs none: it is bounded by the time of the allocation.
pub const ORDER_UNSETTLED_UNTIL: &str = "karpenter-ibm.sh/order-unsettled-until";
/// Annotation on a NodeClaim: the credential that its machine used to join, and the certificate request it was used for,
/// as `<jti>/<uid>`. A credential is good for one request.
pub const CERTIFICATE_REQUEST: &str = "karpenter-ibm.sh/certificate-request";
/// Annotation on a NodeClaim: the pods that it was made for, by uid, separated by commas. Nobody plans for them again while
/// it is on its way.
pub const NOMINATED_PODS: &str = "karpenter-ibm.sh/nominated-pods";
/// Annotation on a NodeClaim: since when its spot machine has been stopping (RFC 3339). Its Node takes no pods meanwhile.
pub const INTERRUPTED_SINCE: &str = "karpenter-ibm.sh/interrupted-since";
/// Annotation on an `IBMNodeClass`: the machines and claims whose deletion a person has confirmed, as the event
/// [`REASON_COLLECTION_STOPPED`] names them.
pub const CONFIRM_COLLECTION: &str = "karpenter-ibm.sh/confirm-collection";
/// Annotation on a NodePool: the provider it was written for.
pub const PROVIDER_COMPATIBILITY: &str = "compatibility.karpenter.sh/provider";

/// Taint (`NoSchedule`, no value) on a Node that is about to go.
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
/// Taint (`NoExecute`) that a Node carries until it is registered.
pub const UNREGISTERED_TAINT: &str = "karpenter.sh/unregistered";

/// Finalizer on NodeClaims and Nodes: the machine must be gone first.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

/// Finalizer on an `IBMNodeClass`: no NodeClaim may use it any more, and no machine of ours be left that only it shows.
pub const NODE_CLASS_FINALIZER: &str = "karpenter-ibm.sh/termination";

/// Keys of tags that begin like this are ours: nobody's tags may pretend to be.
pub const RESERVED_TAG_PREFIX: &str = "karpenter-ibm-";
/// Tag of a machine and its boot volume: the cluster it belongs to.
pub const TAG_CLUSTER: &str = "karpenter-ibm-cluster";
/// Tag of a machine and its boot volume: its NodeClaim.
pub const TAG_NODE_CLAIM: &str = "karpenter-ibm-nodeclaim";
/// Tag of a machine and its boot volume: its NodePool.
pub const TAG_NODE_POOL: &str = "karpenter-ibm-nodepool";

/// The Lease that allocations in a zone need is called this, followed by the zone.
pub const ALLOCATOR_LEASE_PREFIX: &str = "karpenter-ibm-allocator-";

/// The Lease that the leading replica holds.
pub const LEADER_LEASE: &str = "karpenter-ibm-leader";

/// Condition of an `IBMNodeClass`: what it names was read from the cloud at the last try. If not, what was resolved before
/// stands.
pub const RESOLVED: &str = "Resolved";
/// Condition of NodePool, NodeClaim and `IBMNodeClass`: everything else that matters is true.
pub const READY: &str = "Ready";
/// Condition of a NodePool: [`validate_runtime`](crate::api::NodePool::validate_runtime) found nothing.
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
/// Condition of a NodePool: its `IBMNodeClass` exists and is ready.
pub const NODE_CLASS_READY: &str = "NodeClassReady";
/// Condition of a NodePool: the machines it bought lately have joined. Not part of [`READY`].
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";
/// Condition of a NodePool: none of its limits is used up. Not part of [`READY`].
pub const WITHIN_LIMITS: &str = "WithinLimits";
/// Condition of a NodeClaim: its machine runs.
pub const LAUNCHED: &str = "Launched";
/// Condition of a NodeClaim: its machine has joined as a Node.
pub const NODE_REGISTERED: &str = "Registered";
/// Condition of a NodeClaim: its Node is ready for work.
pub const NODE_INITIALIZED: &str = "Initialized";
/// Condition of a NodeClaim: nothing has happened on its Node for `consolidateAfter`.
pub const CONSOLIDATABLE: &str = "Consolidatable";
/// Condition of a NodeClaim: it is no longer what its NodePool or class asks for.
pub const DRIFTED: &str = "Drifted";
/// Condition of a NodeClaim: no pod that must be evicted is left on its Node.
pub const DRAINED: &str = "Drained";
/// Condition of a NodeClaim: no volume is attached to its Node any more.
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
/// Condition of a NodeClaim: its machine is being deleted.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// Condition of a NodeClaim: Node and machine agree with it.
pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
/// Condition of a NodeClaim: it is being disrupted; the reason says why.
pub const DISRUPTION_REASON: &str = "DisruptionReason";

/// Label on a Node that is about to go: load balancers send it nothing more. Its value is [`EXCLUDED_BY`].
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Value of [`EXCLUDE_FROM_LOAD_BALANCERS`]: who excluded it.
pub const EXCLUDED_BY: &str = "karpenter";

/// Reason of the condition [`DRAINED`]: pods are leaving.
pub const REASON_DRAINING: &str = "Draining";
/// Reason of the condition [`VOLUMES_DETACHED`]: its `terminationGracePeriod` is over.
pub const REASON_GRACE_ELAPSED: &str = "TerminationGracePeriodElapsed";
/// Reason of an event on a NodeClaim: pods do not leave its Node.
pub const REASON_FAILED_DRAINING: &str = "FailedDraining";
/// Reason of an event on a NodeClaim: volumes stay attached to its Node.
pub const REASON_AWAITING_VOLUMES: &str = "AwaitingVolumeDetachment";
/// Reason of an event on a NodeClaim: when its pods are removed at the latest.
pub const REASON_GRACE_EXPIRING: &str = "TerminationGracePeriodExpiring";

/// Disruption reason: its pods fit elsewhere for less.
pub const REASON_UNDERUTILIZED: &str = "Underutilized";
/// Disruption reason: no pod needs it.
pub const REASON_EMPTY: &str = "Empty";
/// Disruption reason: it is no longer what its NodePool or class asks for.
pub const REASON_DRIFTED: &str = "Drifted";

/// The Lease in the release namespace that keeps what was launched within the last hour. Nobody holds it.
pub const LAUNCHES_LEASE: &str = "karpenter-ibm-launches";
/// Annotation of that Lease: minutes, and how many machines were ordered in each.
pub const LAUNCHES: &str = "karpenter-ibm.sh/launches";

/// Reason of an IBMNodeClass that is not ready: the subnet that it names is not there.
pub const REASON_SUBNET_NOT_FOUND: &str = "SubnetNotFound";
/// The same: none of the subnets that are there can be used.
pub const REASON_NO_SUBNET: &str = "NoSubnet";

/// Reason of a NodeClaim's end: no offering that fits could be bought.
pub const REASON_INSUFFICIENT_CAPACITY: &str = "InsufficientCapacity";
/// Reason of a NodeClaim's end: one machine after another failed, for want of something else than capacity.
pub const REASON_LAUNCH_FAILED: &str = "LaunchFailed";
/// Reason of a NodeClaim's end: its machine runs and has not joined in time.
pub const REASON_REGISTRATION_TIMEOUT: &str = "RegistrationTimeout";
/// Reason of a NodeClaim's end: its Node has joined and did not become ready for work in time.
pub const REASON_INITIALIZATION_TIMEOUT: &str = "InitializationTimeout";
/// Reason of the condition [`LAUNCHED`] that is not known yet, and of an event: somebody must act before anything is
/// bought.
pub const REASON_LAUNCH_BLOCKED: &str = "LaunchBlocked";
/// The same: its machine's name is held by a machine that is not provably ours.
pub const REASON_NAME_TAKEN: &str = "NameTaken";
/// Reason of the condition [`NODE_REGISTERED`] that is not known yet: no Node of its name has appeared.
pub const REASON_NODE_NOT_FOUND: &str = "NodeNotFound";
/// The same, and of an event: the Node of its name is not that of its machine.
pub const REASON_NODE_MISMATCH: &str = "NodeMismatch";
/// The same: its machine does not run any more.
pub const REASON_MACHINE_NOT_RUNNING: &str = "MachineNotRunning";
/// Reason of the condition [`NODE_INITIALIZED`] that is not known yet: its Node is not ready.
pub const REASON_NODE_NOT_READY: &str = "NodeNotReady";
/// The same: somebody has yet to take a startup taint off.
pub const REASON_STARTUP_TAINTS: &str = "StartupTaintsExist";
/// The same: Kubernetes has yet to take a taint off.
pub const REASON_EPHEMERAL_TAINTS: &str = "KnownEphemeralTaintsExist";
/// The same: its Node does not report a resource that its pods want.
pub const REASON_RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
/// Reason of the condition [`LAUNCHED`] that is not known yet, and of an event: a breaker holds its purchase back.
pub const REASON_HELD_BACK: &str = "LaunchHeldBack";
/// Reason of an event on a NodeClaim: the cluster's definition of NodeClaims does not keep what is bought for it.
pub const REASON_FOREIGN_DEFINITIONS: &str = "ForeignDefinitions";
/// Reason of a NodeClaim's end, and before it of its condition: the cloud refuses its order, and would refuse it again.
pub const REASON_LAUNCH_REFUSED: &str = "LaunchRefused";
/// Reason of an event on a NodeClaim, or on a certificate request that is for none, and of the condition
/// [`NODE_REGISTERED`] that is not known yet: the certificate was refused.
pub const REASON_CERTIFICATE_REFUSED: &str = "CertificateRefused";
/// Reason of an event on NodeClaim and Node: IBM Cloud took the spot machine back.
pub const REASON_SPOT_PREEMPTION: &str = "SpotPreemption";

/// Reason of an event on a pod: it waits for a node, or a claim to one, on which there is room for it.
pub const REASON_NOMINATED: &str = "Nominated";
/// Reason of an event on a pod: nothing can be bought or found for it.
pub const REASON_FAILED_SCHEDULING: &str = "FailedScheduling";
/// Reason of an event on a pod: what it asks for with `karpenter.sh/do-not-disrupt` cannot be read, and protects nothing.
pub const REASON_WISH_UNREADABLE: &str = "DoNotDisruptUnreadable";
/// Reason of an event on a NodeClaim, and of the condition [`NODE_REGISTERED`] that is not known yet: its machine is in the
/// cloud no more.
pub const REASON_MACHINE_VANISHED: &str = "MachineVanished";
/// Reason of an event on a NodeClaim: its machine was switched off, and stays so.
pub const REASON_MACHINE_STOPPED: &str = "MachineStopped";
/// Reason of an event on a NodeClaim: its machine has failed.
pub const REASON_MACHINE_FAILED: &str = "MachineFailed";
/// Reason of an event on a NodeClaim: somebody deleted its Node.
pub const REASON_NODE_DELETED: &str = "NodeDeleted";
/// Reason of a NodeClaim's end, and of an event: it has lived as long as it may.
pub const REASON_EXPIRED: &str = "Expired";
/// Reason of a NodeClaim's end, and of an event: its Node was unhealthy for too long.
pub const REASON_UNHEALTHY: &str = "Unhealthy";
/// Reason of an event on a NodeClaim: its Node is unhealthy, but so are too many of its pool.
pub const REASON_REPAIR_BLOCKED: &str = "NodeRepairBlocked";
/// Reason of an event on an `IBMNodeClass` or Node: something that belonged to no claim is deleted, or let go.
pub const REASON_COLLECTED: &str = "GarbageCollected";
/// Reason of an event on an `IBMNodeClass`, NodeClaim or Node: something belongs to nobody, and is left where it is.
pub const REASON_GARBAGE_FOUND: &str = "GarbageFound";
/// Reason of an event on an `IBMNodeClass`: so many machines, or remains of them, belong to no claim, or so many claims have a
/// machine that the cloud does not know or no Node any more, that a person must confirm their deletion.
pub const REASON_COLLECTION_STOPPED: &str = "CollectionStopped";

/// Reason of an event on any object: looking after it ended in a panic, a mistake in this program. Others do not wait for it.
pub const REASON_INTERNAL_ERROR: &str = "InternalError";

/// Drift reason: the template of the NodePool was different when the claim was made.
pub const DRIFT_NODE_POOL: &str = "NodePoolDrifted";
/// Drift reason: the NodePool does not allow what the node is any more.
pub const DRIFT_REQUIREMENTS: &str = "RequirementsDrifted";
/// Drift reason: the class says that machines are made of something else now.
pub const DRIFT_NODE_CLASS: &str = "NodeClassDrift";
/// Drift reason: new machines boot another image.
pub const DRIFT_IMAGE: &str = "ImageDrift";
/// Drift reason: the class does not use the machine's subnet any more.
pub const DRIFT_SUBNET: &str = "SubnetDrift";
/// Drift reason: the machine is not in the security groups of its class.
pub const DRIFT_SECURITY_GROUP: &str = "SecurityGroupDrift";

/// Reason of an `UnavailableOffering`: a machine of it was preempted.
pub const WITHHELD_PREEMPTED: &str = "Preempted";
/// Reason of an `UnavailableOffering`: a machine of it is being switched off, perhaps preempted.
pub const WITHHELD_STOPPING: &str = "Stopping";
/// Reason of an `UnavailableOffering`: the zone has no hardware left for it.
pub const WITHHELD_SHORTAGE: &str = "Shortage";
/// Reason of an `UnavailableOffering`: the account's quota is used up.
pub const WITHHELD_QUOTA: &str = "Quota";

/// What a label is read as: the current name of an alias, else itself.
pub fn current_label(label: &str) -> &str {
    LABEL_ALIASES
        .iter()
        .find(|(alias, _)| *alias == label)
        .map_or(label, |(_, current)| current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_label_is_read_as_its_current_name() {
        assert_eq!(current_label("beta.kubernetes.io/arch"), ARCH);
        assert_eq!(current_label(ARCH), ARCH);
        assert_eq!(current_label("team"), "team");
    }
}
