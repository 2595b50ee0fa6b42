//! What a live cluster has, listed once.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::cli::BadInput;
use crate::cli::objects::Objects;

/// A cluster of 50,000 pods is listed in seconds; one that takes longer does not answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a cluster has.
pub(super) struct Live {
    pub(super) objects: Objects,
    /// Those of the pod's namespace.
    pub(super) events: Vec<Event>,
}

/// Lists everything that a decision about pods rests on, and the events of one namespace.
pub(super) async fn read(namespace: &str) -> anyhow::Result<Live> {
    let config = kube::Config::infer().await.map_err(|error| {
        BadInput::new(format!("there is no cluster to ask: {error}"))
            .hint("KUBECONFIG names a file that says where the cluster is")
    })?;
    let url = config.cluster_url.to_string();
    let client = Client::try_from(config)?;
    let read = Box::pin(list(client, namespace));
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(read) => read.with_context(|| format!("reading the cluster at {url}")),
        Err(_) => anyhow::bail!("the cluster at {url} does not answer"),
    }
}

async fn list(client: Client, namespace: &str) -> anyhow::Result<Live> {
    let objects = Objects {
        pods: all(&client).await?,
        pools: all(&client).await?,
        classes: all(&client).await?,
        nodes: all(&client).await?,
        claims: all(&client).await?,
        daemon_sets: all(&client).await?,
        namespaces: all(&client).await?,
        volume_claims: all(&client).await?,
        volumes: all(&client).await?,
        storage_classes: all(&client).await?,
        csi_nodes: all(&client).await?,
        budgets: all(&client).await?,
        withheld: all(&client).await?,
    };
    let events: Api<Event> = Api::namespaced(client, namespace);
    let events = events.list(&ListParams::default()).await;
    Ok(Live {
        objects,
        events: events.context("listing events")?.items,
    })
}

async fn all<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let listed = api.list(&ListParams::default()).await;
    Ok(listed
        .with_context(|| format!("listing {}", K::plural(&())))?
        .items)
}
