//! A reflector's store ends up equal to what is there, whatever happened to its watch on the way.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_ibm::sim::kube::ApiServer;
use karpenter_ibm::sim::kube::watching::Who;
use kube::api::{Api, DeleteParams, ListParams, PartialObjectMeta, PostParams};
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tokio::task::JoinHandle;

use super::disturbance::Disturbance;
use super::{old_is_fine, server, strategies};

/// What matters of an object: which one it is, and at which version.
type Known = BTreeMap<String, (String, String)>;

fn known<'a>(objects: impl Iterator<Item = &'a ConfigMap>) -> Known {
    objects
        .map(|object| {
            let metadata = &object.metadata;
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            (
                part(&metadata.name),
                (part(&metadata.uid), part(&metadata.resource_version)),
            )
        })
        .collect()
}

fn reflect(api: Api<ConfigMap>, config: watcher::Config) -> (Store<ConfigMap>, JoinHandle<()>) {
    let (reader, writer) = reflector::store();
    let stream = reflector::reflector(writer, watcher(api, config)).default_backoff();
    let task = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    (reader, task)
}

/// Makes, changes or deletes one of a few objects.
async fn write_something(api: &Api<ConfigMap>, rng: &mut fastrand::Rng) {
    let name = format!("c-{}", rng.u8(0..8));
    let object = json!({"metadata": {"name": name}, "data": {"value": rng.u32(..).to_string()}});
    let object: ConfigMap = serde_json::from_value(object).unwrap();
    // Whether it is there is a matter of luck; only the outcome counts.
    let _ = match rng.u8(0..4) {
        0 => api.delete(&name, &DeleteParams::default()).await.map(|_| ()),
        1 | 2 => api
            .replace(&name, &PostParams::default(), &object)
            .await
            .map(|_| ()),
        _ => api.create(&PostParams::default(), &object).await.map(|_| ()),
    };
}

/// Writes at random while all kinds of things happen to the watch, until they stop.
async fn bad_day(server: &ApiServer, api: &Api<ConfigMap>, rng: &mut fastrand::Rng) {
    let mut rules = Vec::new();
    for _ in 0..120 {
        write_something(api, rng).await;
        match rng.u8(0..6) {
            0 => {
                let disturbance = Disturbance::ALL[rng.usize(..Disturbance::ALL.len())];
                let past = rng.u64(2..=server.state().store.revision());
                rules.extend(disturbance.begin(server, Who::kind("", "configmaps"), past));
            }
            1 if !rules.is_empty() => server
                .watching()
                .lift(rules.swap_remove(rng.usize(..rules.len()))),
            2 => tokio::time::sleep(Duration::from_millis(rng.u64(..5_000))).await,
            _ => {}
        }
    }
    for rule in rules {
        server.watching().lift(rule);
    }
}

async fn agrees_in_the_end(api: &Api<ConfigMap>, store: &Store<ConfigMap>, story: &str) {
    let (mut there, mut kept) = (Known::new(), Known::new());
    // Longer than kube waits between two attempts, at most half a minute.
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        there = known(api.list(&ListParams::default()).await.unwrap().items.iter());
        kept = known(store.state().iter().map(AsRef::as_ref));
        if there == kept {
            return;
        }
    }
    assert_eq!(kept, there, "{story}");
}

#[tokio::test(start_paused = true)]
async fn a_reflector_agrees_with_the_server_after_a_bad_day() {
    for seed in 0..12 {
        for (strategy, config) in strategies() {
            let server = server();
            let api: Api<ConfigMap> = Api::default_namespaced(server.admin());
            let (store, task) = reflect(api.clone(), config);
            bad_day(&server, &api, &mut fastrand::Rng::with_seed(seed)).await;
            agrees_in_the_end(&api, &store, &format!("seed {seed}, {strategy}")).await;
            task.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reflector_is_sent_back_in_time_by_a_stale_server_and_comes_back() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.admin());
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let past = server.state().store.revision();
    api.create(&PostParams::default(), &object).await.unwrap();
    let (store, task) = reflect(api.clone(), old_is_fine());
    store.wait_until_ready().await.unwrap();
    assert_eq!(store.len(), 1);
    let rule = Disturbance::SentBack
        .begin(&server, Who::everyone(), past)
        .unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(store.len(), 0, "it has not happened yet");
    server.watching().lift(rule);
    agrees_in_the_end(&api, &store, "after the server caught up").await;
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn the_metadata_alone_can_be_reflected() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.admin());
    let (reader, writer) = reflector::store();
    let partial: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(server.admin());
    let stream = watcher(partial, watcher::Config::default());
    let stream = reflector::reflector(writer, stream).default_backoff();
    let task = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    let object = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"large": "text"}});
    let object: ConfigMap = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let kept = reader.state();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].metadata.labels.as_ref().unwrap()["x"], "y");
    task.abort();
}
