//! Many nodes leave at once: what is held in memory for it does not grow with their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use karpenter_ibm::api::CapacityType;
use karpenter_ibm::operator::Edges;
use karpenter_ibm::sim::ibm::Options;
use karpenter_ibm::sim::kube::write;
use kube::api::{DeleteParams, ListParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::json;
use tower::{BoxError, service_fn};

use super::{World, audited, while_working};

const PODS_EACH: usize = 30;
/// So many claims are worked on at once, each of which holds the pods of one Node.
const AT_ONCE: usize = 24;

/// How many requests about pods are under way, and were at most.
#[derive(Clone, Default)]
struct UnderWay {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    evictions: Arc<AtomicUsize>,
}

impl UnderWay {
    fn around(&self, mut edges: Edges) -> Edges {
        let (inner, counts) = (edges.kube, self.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (inner, counts) = (inner.clone(), counts.clone());
            async move {
                let query = request.uri().query().unwrap_or_default();
                let path = request.uri().path();
                let about_pods = path.contains("/pods") && !query.contains("watch=");
                if path.ends_with("/eviction") {
                    counts.evictions.fetch_add(1, Ordering::Relaxed);
                }
                if !about_pods {
                    return inner.send(request).await.map_err(BoxError::from);
                }
                let now = counts.now.fetch_add(1, Ordering::Relaxed) + 1;
                counts.most.fetch_max(now, Ordering::Relaxed);
                let answer = inner.send(request).await;
                counts.now.fetch_sub(1, Ordering::Relaxed);
                answer.map_err(BoxError::from)
            }
        });
        edges.kube = Client::new(service, "default");
        edges
    }
}

impl World {
    /// Nodes that are settled, with so many pods on each.
    async fn crowd(&self, nodes: usize) {
        self.settle(nodes, CapacityType::OnDemand).await;
        for node in 0..nodes {
            for pod in 0..PODS_EACH {
                write::insert(
                    &self.kube,
                    json!({
                        "apiVersion": "v1", "kind": "Pod",
                        "metadata": {"name": format!("shop-{node}-{pod}"), "namespace": "default"},
                        "spec": {
                            "nodeName": format!("claim-{node}"), "terminationGracePeriodSeconds": 1,
                            "containers": [{"name": "c", "image": "i"}],
                        },
                        "status": {"phase": "Running", "startTime": "2026-11-16T10:00:00Z"},
                    }),
                );
            }
        }
    }

    /// What kubelets do with pods that are told to go, all of them at once.
    async fn end_all_pods(&self) -> usize {
        let pods = self.pods().list(&ListParams::default()).await.unwrap().items;
        for pod in &pods {
            if pod.metadata.deletion_timestamp.is_some() {
                let now = DeleteParams::default().grace_period(0);
                self.pods().delete(&pod.name_any(), &now).await.unwrap();
            }
        }
        pods.len()
    }
}

/// The most requests about pods at once while so many nodes leave.
async fn most_at_once(nodes: usize) -> usize {
    let (world, counts) = (World::with(Options::make_roomy), UnderWay::default());
    world.crowd(nodes).await;
    let edges = counts.around(world.edges());
    let replica = audited::factory(World::settings("one"))(edges);
    while_working(replica, async {
        world.clock.sleep(Duration::from_secs(30)).await;
        for node in 0..nodes {
            world.delete(&format!("claim-{node}")).await;
        }
        world
            .until("all pods gone", Duration::from_mins(10), async || {
                world.end_all_pods().await == 0
            })
            .await;
    })
    .await;
    assert_eq!(
        counts.evictions.load(Ordering::Relaxed),
        nodes * PODS_EACH,
        "each once"
    );
    counts.most.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_hundred_nodes_of_thirty_pods_leave_a_few_at_a_time() {
    let most = most_at_once(100).await;
    eprintln!("{most} requests about pods at once");
    assert!(most <= AT_ONCE, "{most} at once");
}
