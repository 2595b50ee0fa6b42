//! The scheduler, node lifecycle and the volume controllers on the embedded API server, with nodes made by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::actors::control_plane;
use karpenter_ibm::sim::actors::{node_lifecycle, scheduler, volumes};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{ApiServer, Options};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A cluster whose control plane runs until it is dropped.
struct Cluster {
    client: Client,
    clock: Clock,
    _tasks: JoinSet<()>,
}

impl Cluster {
    fn start() -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock: clock.clone(),
            seed: 1,
            keys: Keys::Fixed,
        });
        let client = server.admin();
        let mut tasks = JoinSet::new();
        let (actors_client, actors_clock) = (client.clone(), clock.clone());
        tasks.spawn(async move {
            let actors = [scheduler::ACTOR, node_lifecycle::ACTOR, volumes::ACTOR];
            control_plane::run(actors_client, actors_clock, &actors).await;
        });
        Self {
            client,
            clock,
            _tasks: tasks,
        }
    }

    async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    async fn make<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        let path = K::url_path(&(), object.meta().namespace.as_deref());
        let request = kube::core::Request::new(path);
        let bytes = serde_json::to_vec(&object).unwrap();
        self.client
            .request(request.create(&PostParams::default(), bytes).unwrap())
            .await
            .unwrap()
    }

    /// A ready node that beats its heart until it is dropped from the set.
    async fn node(&self, name: &str, zone: &str) -> JoinSet<()> {
        let labels = json!({ZONE: zone, "kubernetes.io/hostname": name});
        self.make::<Node>(json!({"metadata": {"name": name, "labels": labels}}))
            .await;
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                           "lastHeartbeatTime": self.clock.now().to_string(),
                           "lastTransitionTime": self.clock.now().to_string()});
        let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
        let status = json!({"status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}});
        let nodes: Api<Node> = Api::all(self.client.clone());
        let params = PatchParams::default();
        nodes
            .patch_status(name, &params, &Patch::Merge(status))
            .await
            .unwrap();
        let (client, clock, name) = (self.client.clone(), self.clock.clone(), name.to_owned());
        let mut heart = JoinSet::new();
        heart.spawn(async move { beat(client, clock, name).await });
        heart
    }

    async fn pods(&self) -> BTreeMap<String, Pod> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let all = pods.list(&ListParams::default()).await.unwrap();
        all.into_iter().map(|pod| (pod.name_any(), pod)).collect()
    }

    async fn pod(&self, name: &str, spec: Value) {
        let mut pod = json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
                             "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        self.make::<Pod>(pod).await;
    }
}

async fn beat(client: Client, clock: Clock, name: String) {
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(client, "kube-node-lease");
    loop {
        let renewed = format!("{:.6}", clock.now());
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
                           "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}});
        let params = PatchParams::apply("kubelet").force();
        leases.patch(&name, &params, &Patch::Apply(lease)).await.unwrap();
        clock.sleep(Duration::from_secs(10)).await;
    }
}

fn place(pod: &Pod) -> Option<String> {
    pod.spec.as_ref().unwrap().node_name.clone()
}

fn spread() -> Value {
    json!({"topologySpreadConstraints": [{"maxSkew": 1, "minDomains": 3, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
           "labelSelector": {"matchLabels": {"app": "web"}}}]})
}

#[tokio::test(start_paused = true)]
async fn pods_wait_for_nodes_then_lie_evenly_over_zones() {
    let cluster = Cluster::start();
    for number in 0..6 {
        cluster.pod(&format!("p{number}"), spread()).await;
    }
    cluster.wait(1).await;
    let waiting = cluster.pods().await;
    let conditions = waiting["p0"].status.clone().unwrap().conditions.unwrap();
    assert_eq!(conditions[0].reason.as_deref(), Some("Unschedulable"));
    let mut hearts = Vec::new();
    for (name, zone) in [("a1", "a"), ("b1", "b"), ("c1", "c"), ("c2", "c")] {
        hearts.push(cluster.node(name, zone).await);
    }
    cluster.wait(2).await;
    let mut zones: BTreeMap<String, usize> = BTreeMap::new();
    for pod in cluster.pods().await.values() {
        let node = place(pod).expect("every pod has a node");
        *zones.entry(node[..1].to_owned()).or_default() += 1;
    }
    assert_eq!(zones.into_values().collect::<Vec<_>>(), [2, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_falls_silent_is_tainted_and_loses_its_pods_after_five_minutes() {
    let cluster = Cluster::start();
    let silent = cluster.node("a1", "a").await;
    let _beating = cluster.node("b1", "b").await;
    cluster.pod("p", json!({"nodeSelector": {ZONE: "a"}})).await;
    cluster.pod("q", json!({"nodeSelector": {ZONE: "b"}})).await;
    cluster.wait(30).await;
    assert_eq!(place(&cluster.pods().await["p"]).as_deref(), Some("a1"));

    drop(silent);
    cluster.wait(60).await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let node = nodes.get("a1").await.unwrap();
    let taints = node.spec.unwrap().taints.unwrap();
    let taints: BTreeSet<_> = taints
        .iter()
        .map(|taint| (taint.key.as_str(), taint.effect.as_str()))
        .collect();
    let unreachable = "node.kubernetes.io/unreachable";
    assert_eq!(
        taints,
        [(unreachable, "NoExecute"), (unreachable, "NoSchedule")].into()
    );
    let conditions = node.status.unwrap().conditions.unwrap();
    let ready = conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_deref()),
        ("Unknown", Some("NodeStatusUnknown"))
    );
    assert!(cluster.pods().await["p"].metadata.deletion_timestamp.is_none());

    cluster.wait(300).await;
    let pods = cluster.pods().await;
    assert!(
        pods["p"].metadata.deletion_timestamp.is_some(),
        "nobody is there to confirm it"
    );
    assert!(pods["q"].metadata.deletion_timestamp.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_claim_gets_its_volume_in_the_zone_of_its_node() {
    let cluster = Cluster::start();
    let mut hearts = Vec::new();
    for (name, zone) in [("a1", "a"), ("b1", "b")] {
        hearts.push(cluster.node(name, zone).await);
    }
    let class = json!({"metadata": {"name": "late"}, "provisioner": "vpc.block.csi.ibm.io",
                       "volumeBindingMode": "WaitForFirstConsumer"});
    cluster.make::<StorageClass>(class).await;
    let claim = json!({"metadata": {"name": "data-db-0", "namespace": "default"},
                       "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                                "resources": {"requests": {"storage": "10Gi"}}}});
    cluster.make::<PersistentVolumeClaim>(claim).await;
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}});
    cluster
        .pod("db-0", json!({"volumes": [volume], "nodeSelector": {ZONE: "b"}}))
        .await;
    cluster.wait(2).await;

    assert_eq!(place(&cluster.pods().await["db-0"]).as_deref(), Some("b1"));
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client.clone());
    let claim = claims.get("data-db-0").await.unwrap();
    assert_eq!(claim.status.unwrap().phase.as_deref(), Some("Bound"));
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    let name = claim.spec.unwrap().volume_name.unwrap();
    let volume = serde_json::to_value(volumes.get(&name).await.unwrap()).unwrap();
    let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"][0]["values"], json!(["b"]));

    let attachments: Api<VolumeAttachment> = Api::all(cluster.client.clone());
    let attached = async || {
        let all = attachments.list(&ListParams::default()).await.unwrap().items;
        all.first()
            .map(|one| one.status.as_ref().is_some_and(|status| status.attached))
    };
    assert_eq!(attached().await, Some(false), "it takes five seconds");
    cluster.wait(6).await;
    assert_eq!(attached().await, Some(true));

    // Everything is given up: the pod, then the claim, the attachment, the volume.
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let params = DeleteParams::default();
    claims.delete("data-db-0", &params).await.unwrap();
    cluster.wait(1).await;
    assert!(
        claims.get_opt("data-db-0").await.unwrap().is_some(),
        "a pod uses it"
    );
    pods.delete("db-0", &params.clone().grace_period(0))
        .await
        .unwrap();
    cluster.wait(10).await;
    assert!(claims.get_opt("data-db-0").await.unwrap().is_none());
    assert!(volumes.get_opt(&name).await.unwrap().is_none());
    assert_eq!(attached().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_more_important_pod_takes_the_room_of_a_lesser_one() {
    let cluster = Cluster::start();
    let _heart = cluster.node("a1", "a").await;
    let asking = |cpu: &str| json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]);
    cluster.pod("small", json!({"containers": asking("3")})).await;
    cluster.wait(1).await;
    let class = json!({"metadata": {"name": "vip"}, "value": 1000});
    cluster
        .make::<k8s_openapi::api::scheduling::v1::PriorityClass>(class)
        .await;
    cluster
        .pod(
            "big",
            json!({"containers": asking("4"), "priorityClassName": "vip"}),
        )
        .await;
    cluster.wait(1).await;
    let pods = cluster.pods().await;
    assert!(pods["small"].metadata.deletion_timestamp.is_some());
    let status = pods["big"].status.clone().unwrap();
    assert_eq!(status.nominated_node_name.as_deref(), Some("a1"));
    let api: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    api.delete("small", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    cluster.wait(1).await;
    assert_eq!(place(&cluster.pods().await["big"]).as_deref(), Some("a1"));
}
