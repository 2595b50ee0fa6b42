//! A running process: checks what it was given, then works until it is told to stop.

use kube::client::ClientBuilder;
use prometheus::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::util::MapResponseLayer;

use super::answer::InTime;
use super::cluster;
use super::edges::{self, Edges};
use super::push::PushSettings;
use super::serve;
use super::settings::{SettingError, Settings};
use super::slim::slim;
use crate::clock::Clock;
use crate::cloud;
use crate::controllers::compute::Place;
use crate::controllers::context::ClusterAccess;
use crate::controllers::{Compute, Context};
use crate::entropy::Entropy;
use crate::ibm::http::Metrics;
use crate::ibm::prices::{Catalog, Prices};
use crate::ibm::{Client, Transports};

/// Why the process did not start, or stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong, as IBM Cloud told us.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// IBM Cloud could not be asked.
    #[error("cannot start")]
    Cloud(#[from] cloud::Error),
    /// Nothing says which cluster to work for.
    #[error("there is no cluster to work for")]
    NoCluster(#[source] Box<kube::config::InferConfigError>),
    /// The Kubernetes API refused or did not answer.
    #[error("the Kubernetes API cannot be used")]
    Kube(#[from] Box<kube::Error>),
    /// The address for health and metrics is not to be had.
    #[error("cannot listen on {0}")]
    Listen(std::net::SocketAddr, #[source] std::io::Error),
    /// The health and metrics server broke.
    #[error("the health and metrics server stopped")]
    Serve(#[from] std::io::Error),
    /// The HTTP client cannot be built.
    #[error("cannot set up TLS")]
    Tls(#[from] reqwest::Error),
    /// A metric is registered twice: a mistake in this program.
    #[error("cannot register metrics")]
    Metrics(#[from] prometheus::Error),
}

/// Runs until `stop`. Credentials and region are proved before anything else is done.
pub async fn run(mut settings: Settings, stop: CancellationToken) -> Result<(), StartError> {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, &settings.region)?;
    let (clock, entropy, transports) = (Clock::system(), Entropy::from_system(), Transports::network()?);
    let client = Client::new(
        settings.ibm.clone(),
        transports.clone(),
        metrics,
        &clock,
        entropy.clone(),
    );
    prove(&client, &settings.region).await?;
    let (kube, access) = cluster(&settings).await?;
    settings.controllers.cluster = access;
    let edges = Edges {
        kube,
        ibm: transports,
        clock: clock.clone(),
        entropy,
        registry: registry.clone(),
        stop: stop.clone(),
    };
    let prices = Prices::new(
        Catalog::new(client.catalog.clone()),
        &settings.region,
        clock.clone(),
    );
    let mut context = edges::context_with(&settings, edges, &client, prices.clone())?;
    context.compute = Compute::new(Place::Apart);

    let listen = settings.listen;
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| StartError::Listen(listen, error))?;
    let address = listener.local_addr().unwrap_or(listen);
    tracing::info!(%address, region = settings.region, "serving health and metrics");
    let readiness = context.definitions.readiness();
    let served = serve::serve(listener, serve::router(registry, readiness), stop.clone());
    let pushed = push(settings.push.take(), &context, stop.clone()).await?;
    let discounts = context.discounts.clone();
    tokio::select! {
        biased;
        ended = async { tokio::join!(biased; served, edges::lead(context, stop)) } => ended.0?,
        () = settings.discounts.follow(&discounts, &clock) => {}
        () = prices.run() => {}
        ended = pushed => ended?,
    }
    tracing::info!("stopped");
    Ok(())
}

/// Takes the cloud's own words about preemptions, if that is configured; else for ever nothing.
async fn push(
    settings: Option<PushSettings>,
    context: &Context,
    stop: CancellationToken,
) -> Result<impl Future<Output = std::io::Result<()>> + use<>, StartError> {
    let listener = match &settings {
        Some(push) => {
            let listener = TcpListener::bind(push.listen).await;
            Some(listener.map_err(|error| StartError::Listen(push.listen, error))?)
        }
        None => None,
    };
    let (notices, clock) = (context.notices.clone(), context.clock.clone());
    Ok(async move {
        match settings.zip(listener) {
            Some((push, listener)) => {
                let address = push.listen;
                tracing::info!(%address, "taking notifications of preemptions");
                serve::serve(
                    listener,
                    super::push::router(push.secret, notices, clock),
                    stop.clone(),
                )
                .await?;
                // It has stopped as it was told to: the rest stops in its own time.
                std::future::pending().await
            }
            None => std::future::pending().await,
        }
    })
}

/// A client of the cluster that the environment names, a kubeconfig or the cluster this runs in; and how machines reach
/// it.
async fn cluster(settings: &Settings) -> Result<(kube::Client, Option<ClusterAccess>), StartError> {
    let config = kube::Config::infer()
        .await
        .map_err(|error| StartError::NoCluster(Box::new(error)))?;
    tracing::info!(url = %config.cluster_url, "working for a cluster");
    let access = cluster::access(settings, &config);
    if access.is_none() {
        tracing::warn!(
            "machines are not told where the API server is: set --cluster-endpoint, or spec.bootstrap of each class"
        );
    }
    let client = ClientBuilder::try_from(config).map_err(Box::new)?;
    let client = client.with_layer(&MapResponseLayer::new(slim));
    Ok((client.with_layer(&InTime::default()).build(), access))
}

/// One token and one read show that credentials and region are what they should be.
async fn prove(client: &Client, region: &str) -> Result<(), StartError> {
    client.tokens.token().await.map_err(credentials_or_cloud)?;
    client
        .vpc
        .get_region(region)
        .await
        .map_err(credentials_or_cloud)?;
    tracing::info!(region, "credentials and region are accepted");
    Ok(())
}

fn credentials_or_cloud(error: cloud::Error) -> StartError {
    match error {
        cloud::Error::Unauthorized(answer) => StartError::Setting(SettingError {
            setting: "IBMCLOUD_API_KEY, IBMCLOUD_API_KEY_FILE or IBMCLOUD_TRUSTED_PROFILE",
            problem: format!("IBM Cloud does not accept the credentials: {}", answer.message),
            may_be: "an API key or trusted profile that exists, is enabled and belongs to the right account"
                .to_owned(),
        }),
        other => StartError::Cloud(other),
    }
}
