//! One story, told three times: a machine joins, runs a pod, is preempted, and falls silent.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::actors::network::{Network, Tcp};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{self as api_server, ApiServer, serve};
use kube::api::{Api, DeleteParams, ListParams};
use kube::config::Kubeconfig;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Reached, World, hurried, world};
use crate::whole::place::Place;

async fn live_and_die(world: &World, node: &str) {
    let id = world.create_node(node).await;
    world.until_ready(node).await;
    joined_properly(world, node, &id).await;

    world.bind_pod("web", node, json!({})).await;
    world.bind_pod("brief", node, json!({})).await;
    for pod in ["web", "brief"] {
        world
            .until("the pod runs", Duration::from_secs(30), async || {
                world
                    .phase(pod)
                    .await
                    .is_some_and(|(phase, _)| phase == "Running")
            })
            .await;
    }
    let params = DeleteParams::default().grace_period(5);
    world.pods().delete("brief", &params).await.unwrap();
    world
        .until("the deleted pod is gone", Duration::from_secs(10), async || {
            world.phase("brief").await.is_none()
        })
        .await;

    world.cloud.preempt(node).unwrap();
    world
        .until("the node says that it goes", Duration::from_secs(3), async || {
            world.ready(node).await == Some(("False".to_owned(), "node is shutting down".to_owned()))
        })
        .await;
    assert_eq!(world.cloud.instance(&id).unwrap().status, "stopping");
    world
        .until(
            "the pod is told why it ends",
            Duration::from_secs(4),
            async || world.phase("web").await == Some(("Failed".to_owned(), "Terminated".to_owned())),
        )
        .await;
    world
        .until("the machine is off", Duration::from_secs(40), async || {
            world.cloud.instance(&id).unwrap().status == "stopped"
        })
        .await;
    world.clock.sleep(Duration::from_secs(1)).await;
    let last = world.renewed(node).await;
    world.clock.sleep(Duration::from_secs(12)).await;
    assert_eq!(
        world.renewed(node).await,
        last,
        "a machine that is off says nothing"
    );
}

/// By a certificate that was asked for and approved, as the machine that it is, and with a Lease that goes with it.
async fn joined_properly(world: &World, node: &str, id: &str) {
    let requests: Api<CertificateSigningRequest> = Api::all(world.client.clone());
    let requests = requests.list(&ListParams::default()).await.unwrap().items;
    let own = requests.iter().find(|request| {
        let account = "system:serviceaccount:karpenter-ibm:karpenter-ibm-joiner";
        request.spec.username.as_deref() == Some(account)
            && request
                .status
                .as_ref()
                .is_some_and(|status| status.certificate.is_some())
    });
    assert!(own.is_some(), "{requests:?}");
    let nodes: Api<Node> = world.nodes();
    let registered = nodes.get(node).await.unwrap();
    let spec = registered.spec.unwrap();
    assert_eq!(spec.provider_id, Some(format!("ibm:///us-south/{id}")));
    assert!(
        spec.taints
            .unwrap_or_default()
            .iter()
            .any(|taint| taint.key == "test.example/only")
    );
    let labels = registered.metadata.labels.unwrap();
    assert_eq!(labels["kubernetes.io/hostname"], node);
    let status = registered.status.unwrap();
    assert_eq!(status.capacity.unwrap()["cpu"].0, "2");
    assert_eq!(status.allocatable.unwrap()["cpu"].0, "1800m");
    assert!(world.renewed(node).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn in_this_process_a_machine_joins_works_and_goes_with_notice() {
    let (world, _server) = world(1).await;
    live_and_die(&world, "node-a").await;
}

#[tokio::test]
async fn over_tcp_with_the_embedded_cluster_it_is_the_same() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = ApiServer::new(api_server::Options {
        clock: Clock::system(),
        seed: 1,
        keys: Keys::Fresh,
    });
    let listener = serve::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let (serving, told) = (server.clone(), stop.clone());
    let served = tokio::spawn(async move { serve::serve(&serving, listener, told).await });
    let admin = Kubeconfig::from_yaml(&serve::kubeconfig(&server, &url)).unwrap();
    let reached = Reached {
        admin: Tcp.client(&admin).unwrap(),
        operator: None,
        url: url.clone(),
        authority: server.identity().root_certificate(),
        network: Arc::new(Tcp),
    };
    let (options, machines) = hurried();
    let world = World::new(reached, options, machines).await;
    live_and_die(&world, "node-a").await;
    drop(world);
    stop.cancel();
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn over_tcp_with_a_real_cluster_it_is_the_same() {
    let Some(place) = Place::real().await else {
        return;
    };
    let reached = Reached {
        admin: place.admin.clone(),
        operator: None,
        url: place.url.clone(),
        authority: place.authority.clone(),
        network: Arc::new(Tcp),
    };
    let node = "suite-machine";
    let (options, machines) = hurried();
    let world = World::new(reached, options, machines).await;
    sweep(&world, node).await;
    live_and_die(&world, node).await;
    sweep(&world, node).await;
}

/// Others use the same cluster.
async fn sweep(world: &World, node: &str) {
    let at_once = DeleteParams::default().grace_period(0);
    for pod in ["web", "brief"] {
        let _ = world.pods().delete(pod, &at_once).await;
    }
    let _ = world.nodes().delete(node, &DeleteParams::default()).await;
    world.release.forget(node).await;
}
