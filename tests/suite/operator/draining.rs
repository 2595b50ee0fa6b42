//! A claim with a Node and pods on it goes: everybody leaves in order, and only then the machine.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_ibm::sim::kube::write;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{World, while_working};

impl World {
    /// A claim whose Node takes pods.
    pub(super) async fn ready_node(&self, name: &str) {
        self.ready_node_of(name, &["spot", "on-demand"]).await;
    }

    pub(super) async fn ready_node_of(&self, name: &str, ways: &[&str]) {
        self.claim_of(name, "us-south-1", ways).await;
        self.make_node(name).await;
    }

    /// A claim whose Node has a pod that a disruption budget lets nobody evict.
    pub(super) async fn guarded_node(&self, name: &str) {
        self.ready_node(name).await;
        self.pod("shop-1", name, |_| ()).await;
        self.budget(0).await;
    }

    /// The Node of a claim that is there.
    pub(super) async fn make_node(&self, name: &str) {
        self.until_launched(name).await;
        self.join(name).await;
        self.until_registered(name).await;
        self.make_ready(name).await;
        self.until("ready", Duration::from_mins(1), async || {
            self.is_true(name, "Ready").await
        })
        .await;
    }

    pub(super) fn nodes(&self) -> Api<Node> {
        Api::all(self.kube.admin())
    }

    pub(super) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.kube.admin(), "default")
    }

    /// A pod that runs on a Node.
    pub(super) async fn pod(&self, name: &str, node: &str, change: impl FnOnce(&mut Value)) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "shop"}},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "c", "image": "i"}],
            },
            "status": {
                "phase": "Running", "startTime": "2026-11-16T10:00:00Z",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        change(&mut pod);
        let status = Patch::Merge(json!({"status": pod["status"]}));
        write::insert(&self.kube, pod);
        self.pods()
            .patch_status(name, &PatchParams::default(), &status)
            .await
            .unwrap();
    }

    /// The uid of a DaemonSet: a pod without its owner would be collected.
    async fn daemon_set(&self) -> String {
        write::insert(
            &self.kube,
            json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "default"},
                "spec": {
                    "selector": {"matchLabels": {"app": "agent"}},
                    "template": {
                        "metadata": {"labels": {"app": "agent"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
            }),
        );
        let sets: Api<k8s_openapi::api::apps::v1::DaemonSet> = Api::namespaced(self.kube.admin(), "default");
        sets.get("d").await.unwrap().uid().unwrap()
    }

    /// What a kubelet does with pods that are told to go: each second it ends them. The order in which they went.
    pub(super) async fn end_pods(&self, gone: &mut Vec<String>) {
        for pod in self.pods().list(&ListParams::default()).await.unwrap().items {
            if pod.metadata.deletion_timestamp.is_some() {
                let now = DeleteParams::default().grace_period(0);
                self.pods().delete(&pod.name_any(), &now).await.unwrap();
                gone.push(pod.name_any());
            }
        }
    }

    /// Lets pods end until the claim is gone; the order in which they went.
    pub(super) async fn until_emptied(&self, name: &str, within: Duration) -> Vec<String> {
        let mut gone = Vec::new();
        self.until("gone", within, async || {
            self.end_pods(&mut gone).await;
            self.read(name).await.is_none()
        })
        .await;
        gone
    }

    pub(super) async fn budget(&self, allowed: i32) {
        write::insert(
            &self.kube,
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "shop", "namespace": "default"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "shop"}}},
            }),
        );
        self.allow(allowed).await;
    }

    /// The budget allows so many disruptions from now on.
    pub(super) async fn allow(&self, disruptions: i32) {
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.kube.admin(), "default");
        let status = Patch::Merge(json!({"status": {
            "disruptionsAllowed": disruptions, "currentHealthy": 1 + disruptions, "desiredHealthy": 1,
            "expectedPods": 1, "observedGeneration": 9,
        }}));
        budgets
            .patch_status("shop", &PatchParams::default(), &status)
            .await
            .unwrap();
    }
}

impl World {
    /// Gives a Node everything that a drain may meet: a pod that leaves, one that is deleted when the time is over, and
    /// one that stays with its volume.
    pub(super) async fn inhabit(&self, name: &str) {
        self.pod("leaves", name, |_| ()).await;
        self.budget(1).await;
        self.pod("held", name, |pod| {
            pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
        })
        .await;
        self.pod_that_stays(name).await;
        let deadline = self.clock.now() + jiff::SignedDuration::from_secs(40);
        let deadline = json!({"karpenter.sh/nodeclaim-termination-timestamp": deadline.to_string()});
        let patch = Patch::Merge(json!({"metadata": {"annotations": deadline}}));
        self.claims()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// A pod that does not mind that its Node goes, with a volume.
    async fn pod_that_stays(&self, node: &str) {
        self.attach("kept", node, "pv-2");
        write::insert(
            &self.kube,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "kept", "namespace": "default"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv-2",
                },
            }),
        );
        self.pod("stays", node, |pod| {
            pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
            pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "kept"}}]);
        })
        .await;
    }

    pub(super) fn attach(&self, name: &str, node: &str, volume: &str) {
        write::insert(
            &self.kube,
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
                "spec": {"attacher": "vpc.block.csi.ibm.io", "nodeName": node, "source": {"persistentVolumeName": volume}},
                "status": {"attached": true},
            }),
        );
    }
}

fn critical(pod: &mut Value) {
    pod["spec"]["priorityClassName"] = "system-cluster-critical".into();
    pod["spec"]["priority"] = 2_000_000_000.into();
}

fn daemon(uid: &str) -> impl FnOnce(&mut Value) {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": uid, "controller": true});
    move |pod| pod["metadata"]["ownerReferences"] = json!([owner])
}

#[tokio::test(start_paused = true)]
async fn everybody_leaves_in_order_before_the_machine_goes() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        let daemons = world.daemon_set().await;
        world.pod("agent", "a", daemon(&daemons)).await;
        world.pod("shop-1", "a", |_| ()).await;
        world.pod("shop-2", "a", |_| ()).await;
        world.pod("dns", "a", critical).await;
        world.pod("elsewhere", "b", |_| ()).await;
        world.delete("a").await;
        let mut gone = Vec::new();
        world
            .until("drained", Duration::from_mins(2), async || {
                world.end_pods(&mut gone).await;
                assert!(
                    gone.len() == 4 || world.living().len() == 1,
                    "the machine waits for its pods"
                );
                world.is_true("a", "Drained").await
            })
            .await;
        let node = world.nodes().get("a").await.unwrap();
        let taints = node.spec.unwrap().taints.unwrap();
        assert!(
            taints
                .iter()
                .any(|it| it.key == "karpenter.sh/disrupted" && it.effect == "NoSchedule")
        );
        world.until_gone("a").await;
        assert_eq!(gone, ["shop-1", "shop-2", "agent", "dns"]);
        assert!(world.nodes().get_opt("a").await.unwrap().is_none());
        assert!(world.pods().get_opt("elsewhere").await.unwrap().is_some());
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_bound_while_the_taint_is_written_leaves_too() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        world.delete("a").await;
        world
            .until("tainted", Duration::from_secs(5), async || {
                let node = world.nodes().get("a").await.unwrap();
                node.spec.unwrap().taints.is_some()
            })
            .await;
        world.clock.sleep(Duration::from_secs(2)).await;
        world.pod("late", "a", |_| ()).await;
        let gone = world.until_emptied("a", Duration::from_mins(6)).await;
        assert_eq!(gone, ["late"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_holds_the_node_until_it_allows_and_people_are_told_why() {
    let world = World::new();
    while_working(world.replica(), async {
        world.guarded_node("a").await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(10)).await;
        let pod = world.pods().get("shop-1").await.unwrap();
        assert!(pod.metadata.deletion_timestamp.is_none());
        assert_eq!(world.living().len(), 1);
        assert_eq!(world.reasons().await, ["FailedDraining"]);
        let note = world.note("FailedDraining").await.unwrap();
        assert!(
            note.contains("disruption budget shop allows no disruption now"),
            "{note}"
        );
        world.allow(1).await;
        let gone = world.until_emptied("a", Duration::from_mins(3)).await;
        assert_eq!(gone, ["shop-1"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_ends_what_protects_pods_and_each_has_its_own_grace() {
    let world = World::new();
    while_working(world.replica(), async {
        world
            .claim_with("a", json!({"terminationGracePeriod": "5m"}))
            .await;
        world.make_node("a").await;
        world
            .pod("shop-1", "a", |pod| {
                pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
                pod["spec"]["terminationGracePeriodSeconds"] = 60.into();
            })
            .await;
        world.budget(0).await;
        let asked = world.clock.now();
        world.delete("a").await;
        world
            .until("told to go", Duration::from_mins(6), async || {
                let pod = world.pods().get("shop-1").await.unwrap();
                pod.metadata.deletion_timestamp.is_some()
            })
            .await;
        let after = (world.clock.now() - asked).get_seconds();
        assert!((238..=245).contains(&after), "{after}");
        let gone = world.until_emptied("a", Duration::from_mins(3)).await;
        assert_eq!(gone, ["shop-1"]);
    })
    .await;
}

/// kubernetes-sigs/karpenter PR#1294, kubernetes-sigs/aws-ebs-csi-driver#1665: machines were killed before their volumes
/// were detached, and the next node waited more than six minutes for them.
#[tokio::test(start_paused = true)]
async fn volumes_are_detached_before_the_machine_goes_but_for_those_of_pods_that_stay() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        world.attach("one", "a", "pv-1");
        world.pod_that_stays("a").await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(3)).await;
        assert!(world.is_true("a", "Drained").await);
        assert_eq!(world.living().len(), 1, "a volume is attached");
        assert_eq!(world.reasons().await, ["AwaitingVolumeDetachment"]);
        let attachments: Api<k8s_openapi::api::storage::v1::VolumeAttachment> = Api::all(world.kube.admin());
        attachments.delete("one", &DeleteParams::default()).await.unwrap();
        world.until_gone("a").await;
    })
    .await;
}

/// aws/karpenter-provider-aws#8180, kubernetes-sigs/karpenter#2169, aws/karpenter-provider-aws#1166.
#[tokio::test(start_paused = true)]
async fn a_claim_on_a_dead_machine_does_not_wait_for_pods_that_nobody_ends() {
    let world = World::new();
    while_working(world.replica(), async {
        world.guarded_node("a").await;
        let [machine] = world.living().try_into().unwrap();
        world
            .cloud
            .fail_host(&machine.id, Some(karpenter_ibm::sim::ibm::HostFailure::Stop))
            .unwrap();
        world.delete("a").await;
        world.until_gone("a").await;
        assert!(world.nodes().get_opt("a").await.unwrap().is_none());
    })
    .await;
}

/// The same incidents: the machine was gone, nobody could end its pods, and for a week claim and Node waited for them.
#[tokio::test(start_paused = true)]
async fn a_drain_that_a_budget_blocks_is_over_when_somebody_deletes_the_machine_under_it() {
    let world = World::new();
    while_working(world.replica(), async {
        world.guarded_node("a").await;
        let machine = world.machine_of("a").await;
        world.delete("a").await;
        world.clock.sleep(Duration::from_mins(5)).await;
        assert!(!world.is_told_to_go("shop-1").await);
        assert_eq!(world.living().len(), 1, "a budget holds it");
        world.seen().delete(&machine).await.unwrap();
        world.unhealthy("a").await;
        world.until_gone("a").await;
        assert!(world.nodes().get_opt("a").await.unwrap().is_none());
        assert!(world.cloud.instances().is_empty() && world.cloud.orphans().is_empty());
        assert_eq!(world.orders(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_deletes_is_drained_and_takes_claim_and_machine_along() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        world.pod("shop-1", "a", |_| ()).await;
        world.nodes().delete("a", &DeleteParams::default()).await.unwrap();
        let gone = world.until_emptied("a", Duration::from_mins(6)).await;
        assert_eq!(gone, ["shop-1"]);
        assert!(world.nodes().get_opt("a").await.unwrap().is_none());
        assert!(world.cloud.instances().is_empty());
        assert_eq!(world.reasons().await, ["NodeDeleted"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_finalizer_was_forced_off_takes_its_claim_along_too() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        world
            .nodes()
            .patch("a", &PatchParams::default(), &bare)
            .await
            .unwrap();
        world.nodes().delete("a", &DeleteParams::default()).await.unwrap();
        world.until_gone("a").await;
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}
