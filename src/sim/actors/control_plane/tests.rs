//! The loop on the embedded server: it sees, decides once on all that is ready, and sees what it wrote.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use super::*;
use crate::sim::actors::view::Key;
use crate::sim::kube::identity::Keys;
use crate::sim::kube::watching::{Ending, Hold, Reads, Who};
use crate::sim::kube::{ApiServer, Options};

/// Keeps exactly one pod for each node, under the node's name, bound to it, and none for nodes that are not there.
fn one_for_each_node(view: &View, _: jiff::Timestamp) -> Next {
    let mut next = Next::default();
    for name in view.nodes.keys() {
        match view.pods.get(&Key::new("default", name)) {
            None => next.act(Act::create(Kind::Pod, "default", pod(name))),
            Some(pod) if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) => {
                next.act(Act::bind(pod, name));
            }
            Some(_) => {}
        }
    }
    for (key, pod) in &view.pods {
        if !view.nodes.contains_key(&key.name) && pod.metadata.deletion_timestamp.is_none() {
            next.act(Act::delete_now(pod.as_ref()));
        }
    }
    next
}

const ACTORS: [Actor; 1] = [Actor {
    name: "one-for-each-node",
    reads: &[Kind::Node, Kind::Pod],
    glances: &[Kind::Lease],
    next: one_for_each_node,
}];

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn node(name: &str) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn server() -> ApiServer {
    ApiServer::new(Options {
        clock: Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap()),
        seed: 1,
        keys: Keys::Fixed,
    })
}

async fn pods(server: &ApiServer) -> Vec<(String, String)> {
    let api: Api<Pod> = Api::default_namespaced(server.admin());
    let listed = api.list(&ListParams::default()).await.unwrap().items;
    listed
        .into_iter()
        .map(|pod| {
            (
                pod.metadata.name.unwrap(),
                pod.spec.unwrap().node_name.unwrap_or_default(),
            )
        })
        .collect()
}

fn started(server: &ApiServer) -> tokio::task::JoinHandle<()> {
    let (client, clock) = (server.admin(), server.clock().clone());
    tokio::spawn(async move { run(client, clock, &ACTORS).await })
}

#[tokio::test(start_paused = true)]
async fn an_actor_is_asked_until_what_it_wants_is_so() {
    let server = server();
    let nodes: Api<Node> = Api::all(server.admin());
    nodes.create(&PostParams::default(), &node("a")).await.unwrap();
    let running = started(&server);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(pods(&server).await, [("a".to_owned(), "a".to_owned())]);
    nodes.create(&PostParams::default(), &node("b")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(pods(&server).await.len(), 2);
    nodes
        .delete("a", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(pods(&server).await, [("b".to_owned(), "b".to_owned())]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_twice_while_the_watch_lags_behind() {
    let server = server();
    let nodes: Api<Node> = Api::all(server.admin());
    for name in ["a", "b", "c"] {
        nodes.create(&PostParams::default(), &node(name)).await.unwrap();
    }
    let revision = server.state().store.revision();
    let hold = Hold {
        revision,
        reads: Reads::Live,
    };
    let lag = server.watching().hold_back(Who::kind("", "pods"), hold);
    let running = started(&server);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let before = server.state().store.revision();
    assert_eq!(
        pods(&server).await.len(),
        3,
        "own writes are seen although no event came"
    );
    nodes.create(&PostParams::default(), &node("d")).await.unwrap();
    server.watching().lift(lag);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let written = server.state().store.revision() - before;
    assert_eq!(
        (pods(&server).await.len(), written),
        (4, 3),
        "a node, a pod, a binding"
    );
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_off_or_too_old_goes_on() {
    let server = server();
    let nodes: Api<Node> = Api::all(server.admin());
    let running = started(&server);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (index, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        match index % 3 {
            0 => server.watching().cut(),
            1 => {
                server.watching().end(Who::everyone(), Ending::Expired);
            }
            _ => {
                let now = server.state().store.revision();
                server.state().store.compact(now);
                server.watching().cut();
            }
        }
        nodes.create(&PostParams::default(), &node(name)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(pods(&server).await.len(), index + 1, "after {name}");
    }
    running.abort();
}
