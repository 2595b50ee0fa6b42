//! The workload controllers on the embedded server, from the first pod to the last, with a stand-in for scheduler and
//! kubelets that binds pods, makes them ready, and lets them go.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::actors::{control_plane, workloads};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{ApiServer, Options};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const NODES: [&str; 3] = ["n-0", "n-1", "n-2"];
const BEAT: Duration = Duration::from_millis(500);

/// A cluster with three nodes on which everything lives but scheduler and kubelets, for which there is a stand-in.
struct World {
    server: ApiServer,
    _tasks: JoinSet<()>,
}

impl World {
    async fn new() -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock,
            seed: 1,
            keys: Keys::Fixed,
        });
        let nodes: Api<Node> = Api::all(server.admin());
        for name in NODES {
            let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            nodes.create(&PostParams::default(), &node).await.unwrap();
            // A new node is tainted as not ready, and nobody here looks after that.
            let ready = Patch::Merge(json!({"spec": {"taints": null}}));
            let patched = nodes.patch(name, &PatchParams::default(), &ready).await;
            patched.unwrap();
        }
        let mut tasks = JoinSet::new();
        let (client, clock) = (server.admin(), server.clock().clone());
        tasks.spawn(async move { control_plane::run(client, clock, &workloads::ACTORS).await });
        let client = server.admin();
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(BEAT).await;
                stand_in(&client).await;
            }
        });
        Self {
            server,
            _tasks: tasks,
        }
    }

    fn all<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::default_namespaced(self.server.admin())
    }

    async fn make<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        self.all().create(&PostParams::default(), &object).await.unwrap()
    }

    async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let api: Api<K> = self.all();
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn pods(&self) -> BTreeMap<String, Pod> {
        let pods = self.all::<Pod>().list(&ListParams::default()).await.unwrap();
        pods.into_iter()
            .map(|pod| (pod.metadata.name.clone().unwrap(), pod))
            .collect()
    }

    async fn names(&self) -> Vec<String> {
        self.pods().await.into_keys().collect()
    }

    /// What a budget says: expected, healthy, needed, allowed.
    async fn budget(&self) -> [Option<i32>; 4] {
        let budget: PodDisruptionBudget = self.all().get("web").await.unwrap();
        let status = budget.status.unwrap();
        assert_eq!(status.observed_generation, budget.metadata.generation);
        [
            status.expected_pods,
            status.current_healthy,
            status.desired_healthy,
            status.disruptions_allowed,
        ]
    }
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.into_iter().flatten();
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

/// What scheduler and kubelets would do about every pod in one beat.
async fn stand_in(client: &kube::Client) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for (turn, pod) in pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .enumerate()
    {
        let name = pod.metadata.name.clone().unwrap();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let status = async |status: Value| {
            let patch = Patch::Merge(json!({"status": status}));
            // It may have gone meanwhile.
            let _ = pods.patch_status(&name, &PatchParams::default(), &patch).await;
        };
        if pod.metadata.deletion_timestamp.is_some() {
            let _ = pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
        } else if pod.spec.as_ref().unwrap().node_name.is_none() {
            bind(
                &pods,
                &name,
                &pinned(&pod).unwrap_or(NODES[turn % NODES.len()].to_owned()),
            )
            .await;
        } else if phase == Some("Pending") {
            let now = pod.metadata.creation_timestamp.as_ref().unwrap().0.to_string();
            let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": now}]);
            status(json!({"phase": "Running", "conditions": ready})).await;
        } else if phase == Some("Running") && labels.contains_key("job-name") {
            status(json!({"phase": "Succeeded", "conditions": []})).await;
        }
    }
}

fn pinned(pod: &Pod) -> Option<String> {
    let spec = serde_json::to_value(pod.spec.as_ref()?).unwrap();
    let terms = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    terms[0]["matchFields"][0]["values"][0]
        .as_str()
        .map(str::to_owned)
}

async fn bind(pods: &Api<Pod>, name: &str, node: &str) {
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                         "target": {"kind": "Node", "name": node}});
    let _: Result<Value, _> = pods
        .create_subresource("binding", name, &PostParams::default(), &binding)
        .await;
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn deployment() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
           "template": template("v1")}})
}

fn budget() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"minAvailable": "60%", "selector": {"matchLabels": {"app": "web"}}}})
}

/// What `kubectl rollout status` looks at.
fn is_rolled_out(deployment: &Deployment) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    let wanted = deployment.spec.replicas;
    status.observed_generation == deployment.metadata.generation
        && status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status
            .conditions
            .into_iter()
            .flatten()
            .any(|one| one.reason.as_deref() == Some("NewReplicaSetAvailable"))
}

/// From three pods to one, to three of another version, to none; the versions that objects had on the way.
async fn story(world: &World) -> Vec<u64> {
    let revision = || world.server.state().store.revision();
    let mut revisions = Vec::new();
    let deployments: Api<Deployment> = world.all();
    world.make::<PodDisruptionBudget>(budget()).await;
    world.make::<Deployment>(deployment()).await;
    pass(10).await;
    assert_eq!(world.names().await.len(), 3);
    assert!(is_rolled_out(&deployments.get("web").await.unwrap()));
    assert_eq!(world.budget().await, [Some(3), Some(3), Some(2), Some(1)]);
    revisions.push(revision());

    let dear = world.names().await[1].clone();
    let price = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "9"}}});
    world.patch::<Pod>(&dear, price).await;
    world
        .patch::<Deployment>("web", json!({"spec": {"replicas": 1}}))
        .await;
    pass(5).await;
    assert_eq!(world.names().await, [dear], "the two that cost less are gone");
    assert_eq!(world.budget().await, [Some(1), Some(1), Some(1), Some(0)]);
    revisions.push(revision());

    world
        .patch::<Deployment>("web", json!({"spec": {"replicas": 4}}))
        .await;
    pass(5).await;
    let before = world.names().await;
    world
        .patch::<Deployment>("web", json!({"spec": {"template": template("v2")}}))
        .await;
    roll_out(world).await;
    let after = world.names().await;
    assert_eq!(after.len(), 4);
    assert!(after.iter().all(|name| !before.contains(name)));
    let rolled = deployments.get("web").await.unwrap();
    assert!(is_rolled_out(&rolled));
    assert_eq!(
        rolled.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"],
        "2"
    );
    revisions.push(revision());

    deployments
        .delete("web", &DeleteParams::background())
        .await
        .unwrap();
    pass(5).await;
    assert_eq!(world.names().await, Vec::<String>::new());
    let sets = world
        .all::<ReplicaSet>()
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(sets.items.is_empty());
    assert_eq!(world.budget().await, [Some(0), Some(0), Some(0), Some(0)]);
    revisions.push(revision());
    revisions
}

/// Watches a rollout of four with a quarter of surge and a quarter unavailable: never more than five, never fewer than
/// three ready.
async fn roll_out(world: &World) {
    for _ in 0..200 {
        let pods = world.pods().await;
        let standing = || {
            pods.values()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        };
        assert!(standing().count() <= 5);
        assert!(standing().filter(|pod| is_ready(pod)).count() >= 3);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_grows_shrinks_rolls_and_leaves_nothing_behind() {
    story(&World::new().await).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_story_is_the_same_history() {
    let first = story(&World::new().await).await;
    assert_eq!(story(&World::new().await).await, first);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_when_everything_is_as_it_should_be() {
    let world = World::new().await;
    world.make::<PodDisruptionBudget>(budget()).await;
    world.make::<Deployment>(deployment()).await;
    pass(10).await;
    let settled = world.server.state().store.revision();
    pass(600).await;
    assert_eq!(world.server.state().store.revision(), settled);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_comes_in_order_with_its_claims_and_keeps_them() {
    let world = World::new().await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                       "resources": {"requests": {"storage": "1Gi"}}}});
    let set = json!({"metadata": {"name": "db"}, "spec": {"replicas": 3, "serviceName": "db",
        "selector": {"matchLabels": {"app": "web"}}, "template": template("v1"), "volumeClaimTemplates": [claim]}});
    world.make::<StatefulSet>(set).await;
    pass(10).await;
    assert_eq!(world.names().await, ["db-0", "db-1", "db-2"]);
    world
        .patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}}))
        .await;
    pass(5).await;
    assert_eq!(world.names().await, ["db-0"]);
    world
        .patch::<StatefulSet>("db", json!({"spec": {"template": template("v2")}}))
        .await;
    pass(5).await;
    let set: StatefulSet = world.all().get("db").await.unwrap();
    let status = set.status.unwrap();
    assert_eq!(status.current_revision, status.update_revision);
    assert_eq!(status.ready_replicas, Some(1));
    let claims = world
        .all::<PersistentVolumeClaim>()
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(claims.items.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_follows_the_nodes_and_pods_of_lost_nodes_are_collected() {
    let world = World::new().await;
    let set = json!({"metadata": {"name": "log"}, "spec": {"selector": {"matchLabels": {"app": "web"}},
                     "template": template("v1")}});
    world.make::<DaemonSet>(set).await;
    pass(5).await;
    let set: DaemonSet = world.all().get("log").await.unwrap();
    assert_eq!(set.status.unwrap().number_ready, 3);
    let nodes: Api<Node> = Api::all(world.server.admin());
    nodes.delete("n-1", &DeleteParams::default()).await.unwrap();
    pass(30).await;
    assert_eq!(world.names().await.len(), 3, "the node may come back");
    pass(30).await;
    assert_eq!(world.names().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_to_its_end() {
    let world = World::new().await;
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"metadata": {"name": "sum"}, "spec": {"completions": 5, "parallelism": 2,
                     "completionMode": "Indexed", "ttlSecondsAfterFinished": 100, "template": template}});
    world.make::<Job>(job).await;
    pass(30).await;
    let job: Job = world.all().get("sum").await.unwrap();
    let status = job.status.unwrap();
    assert_eq!((status.succeeded, status.active), (Some(5), None));
    assert_eq!(status.completed_indexes.as_deref(), Some("0-4"));
    assert_eq!(status.conditions.unwrap()[1].type_, "Complete");
    pass(100).await;
    assert!(world.all::<Job>().get_opt("sum").await.unwrap().is_none());
    assert_eq!(world.names().await, Vec::<String>::new());
}
