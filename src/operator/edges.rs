//! The two edges of a replica, and what is built between them.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use super::cluster::with_name_server;
use super::run::StartError;
use super::settings::{PriceSource, Settings};
use super::{lease, zone_leases};
use crate::api::names;
use crate::clock::Clock;
use crate::cloud::ClusterId;
use crate::cluster::Cluster;
use crate::controllers::compute::Place;
use crate::controllers::events::Events;
use crate::controllers::{
    self, Compute, Context, Definitions, Discounts, Notices, ServerTime, Unavailable, Zones,
};
use crate::entropy::Entropy;
use crate::ibm::http::Metrics;
use crate::ibm::offerings::Kinds;
use crate::ibm::prices::{Catalog, Prices};
use crate::ibm::{Client, Machines, Transports};

/// Everything outside of a replica: exchanged between a cluster, a laptop and a simulation.
#[derive(Clone)]
pub struct Edges {
    /// The Kubernetes API.
    pub kube: kube::Client,
    /// IBM Cloud.
    pub ibm: Transports,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub entropy: Entropy,
    /// Where metrics are registered; one for each life of a replica.
    pub registry: Registry,
    /// Asks the replica to stop: it gives its Leases back and ends.
    pub stop: CancellationToken,
}

/// Makes replicas: each call is a new life with an empty memory, and dropping its future is a crash. It ends by itself
/// only when it is asked to.
pub type Factory = Arc<dyn Fn(Edges) -> BoxFuture<'static, ()> + Send + Sync>;

/// Wires a replica; nothing is sent yet. Its prices are the built-in ones.
pub fn context(settings: &Settings, edges: Edges) -> Result<Context, StartError> {
    wire(settings, edges).map(|(context, _)| context)
}

/// Wires a replica, and what keeps its prices fresh.
fn wire(settings: &Settings, edges: Edges) -> Result<(Context, Prices), StartError> {
    let metrics = Metrics::register(&edges.registry, &settings.region)?;
    let ibm = Client::new(
        settings.ibm.clone(),
        edges.ibm.clone(),
        metrics,
        &edges.clock,
        edges.entropy.clone(),
    );
    let prices = Prices::new(
        Catalog::new(ibm.catalog.clone()),
        &settings.region,
        edges.clock.clone(),
    );
    let context = context_with(settings, edges, &ibm, prices.clone())?;
    Ok((context, prices))
}

/// Like [`context`], around a client of IBM Cloud and prices that are there already.
pub(super) fn context_with(
    settings: &Settings,
    edges: Edges,
    ibm: &Client,
    prices: Prices,
) -> Result<Context, StartError> {
    let identity = &settings.controllers.identity;
    let kinds = Kinds::new(ibm.vpc.clone(), prices, edges.clock.clone());
    let metrics = controllers::metrics::Metrics::register(&edges.registry)?;
    let (kube, clock, holds) = (
        edges.kube.clone(),
        edges.clock.clone(),
        settings.controllers.holds,
    );
    Ok(Context {
        events: Events::new(edges.kube.clone(), edges.clock.clone(), identity),
        unavailable: Unavailable::new(kube, clock, holds, metrics.clone()),
        definitions: Definitions::new(metrics.clone()),
        metrics,
        server_time: ServerTime::new(edges.kube.clone(), edges.clock.clone()),
        zones: Zones::default(),
        cluster: Cluster::default(),
        // A history must not hang on which thread is faster; a process of its own asks for another place.
        compute: Compute::new(Place::Here),
        hurry: Arc::default(),
        notices: Notices::default(),
        discounts: Discounts::new(settings.discounts.at_start()),
        cloud: Arc::new(Machines::new(ibm, kinds)),
        settings: Arc::new(settings.controllers.clone()),
        client: edges.kube,
        clock: edges.clock,
        entropy: edges.entropy,
    })
}

/// Runs every controller while this replica leads: waits for leadership, and returns when it is lost or on `stop`,
/// giving it back in that case.
pub async fn control(context: Context, stop: CancellationToken) -> Result<(), StartError> {
    let lease = lease::Holding::of(&context, names::LEADER_LEASE);
    let zones = zone_leases::ZoneLeases::of(&context);
    let work = async {
        let cluster = cluster_id(&context).await?;
        let context = with_name_server(context.clone()).await.map_err(Box::new)?;
        zones.wait_for(&lease).await;
        zones.take().await;
        // Boxed: all controllers together make a large future.
        let controllers = controllers::run(context.clone(), cluster).boxed();
        tokio::select! {
            biased;
            () = lease.keep() => tracing::warn!("leadership is lost"),
            () = zones.keep() => {}
            () = controllers => {}
        }
        Ok(())
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {
            zones.release().await;
            lease.release().await;
            Ok(())
        }
        ended = work => ended,
    }
}

/// Replicas of the product: each leads, loses and leads again until it is dropped or asked to stop.
pub fn factory(settings: Settings) -> Factory {
    factory_of(settings, |edges| edges, |context| context)
}

/// Replicas of a variant of the product: with other edges, with another context.
pub fn factory_of(
    settings: Settings,
    edges: impl Fn(Edges) -> Edges + Send + Sync + 'static,
    change: impl Fn(Context) -> Context + Send + Sync + 'static,
) -> Factory {
    Arc::new(move |given| {
        let given = edges(given);
        let stop = given.stop.clone();
        let made = wire(&settings, given).map(|(context, prices)| (change(context), prices));
        let (configured, source) = (settings.discounts.clone(), settings.prices);
        async move {
            match made {
                Ok((context, prices)) => {
                    let (discounts, clock) = (context.discounts.clone(), context.clock.clone());
                    tokio::select! {
                        biased;
                        () = configured.follow(&discounts, &clock) => {}
                        () = keep_fresh(&prices, source) => {}
                        () = lead(context, stop) => {}
                    }
                }
                Err(error) => tracing::error!(%error, "a replica cannot be made"),
            }
        }
        .boxed()
    })
}

/// Keeps prices as fresh as their source is.
async fn keep_fresh(prices: &Prices, source: PriceSource) {
    match source {
        PriceSource::Catalog => prices.run().await,
        PriceSource::BuiltIn => std::future::pending().await,
    }
}

/// Leads whenever it can, until `stop`.
pub(super) async fn lead(context: Context, stop: CancellationToken) {
    while !stop.is_cancelled() {
        if let Err(error) = control(context.clone(), stop.clone()).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "starting again");
        }
        context.definitions.forget_all();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = pause(&context) => {}
        }
    }
}

/// Between one leadership and the next try.
async fn pause(context: &Context) {
    let wait = context.entropy.jitter(lease::RETRY);
    context.clock.sleep(wait).await;
}

/// The cluster's identity, which all names of machines hang on.
async fn cluster_id(context: &Context) -> Result<ClusterId, StartError> {
    let namespaces: Api<Namespace> = Api::all(context.client.clone());
    let system = namespaces.get("kube-system").await.map_err(Box::new)?;
    let uid = system.metadata.uid.unwrap_or_default();
    Ok(ClusterId::from_kube_system_uid(&uid))
}
