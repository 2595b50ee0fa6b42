//! All services of IBM Cloud behind one set of layers, one budget and one token.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::endpoints::{Endpoint, Endpoints};

use super::http::{Api, Budget, Exchange, Layers, Metrics};
use super::iam::grant::Grantors;
use super::iam::{Authorized, Credentials, Tokens};
use super::resource_groups::ResourceGroups;
use super::search::Search;
use super::tags::Tagging;
use super::vpc::Vpc;
use crate::clock::Clock;
use crate::entropy::Entropy;

/// What a client needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the services are.
    pub endpoints: Endpoints,
    /// Who we are.
    pub credentials: Credentials,
    /// Requests per second, on average, of the whole process.
    pub requests_per_second: NonZeroU32,
    /// Requests at once.
    pub burst: NonZeroU32,
    /// How long one exchange may take.
    pub deadline: Duration,
}

impl Config {
    /// IBM publishes no limit; 10 a second is a fifth of what the old backend was known to take, and one page of 100
    /// machines each second is far more than a large cluster needs.
    pub const REQUESTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero"); // evaluated by the compiler
    /// A burst as large as a start-up needs: the catalogue's pages, profiles, subnets, images, instances.
    pub const BURST: NonZeroU32 = NonZeroU32::new(50).expect("fifty is not zero"); // evaluated by the compiler
    /// A create answers in 1 to 4 s; half a minute is a fault.
    pub const DEADLINE: Duration = Duration::from_secs(30);

    /// The usual limits for these endpoints and credentials.
    pub fn new(endpoints: Endpoints, credentials: Credentials) -> Self {
        Self {
            endpoints,
            credentials,
            requests_per_second: Self::REQUESTS_PER_SECOND,
            burst: Self::BURST,
            deadline: Self::DEADLINE,
        }
    }
}

/// How requests travel.
#[derive(Clone)]
pub struct Transports {
    /// To IBM Cloud.
    pub cloud: Arc<dyn Exchange>,
    /// To the metadata service of this machine; never through a proxy.
    pub metadata: Arc<dyn Exchange>,
}

impl Transports {
    /// Over the network. A crypto provider must be installed before (`main` does).
    pub fn network() -> reqwest::Result<Self> {
        // A redirect could carry a token to a host that nobody allowed.
        let builder = || {
            reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .user_agent(AGENT)
        };
        let (cloud, metadata) = (builder().build()?, builder().no_proxy().build()?);
        Ok(Self {
            cloud: Arc::new(cloud),
            metadata: Arc::new(metadata),
        })
    }
}

const AGENT: &str = concat!("karpenter-ibm/", env!("CARGO_PKG_VERSION"));

/// The services.
#[derive(Clone)]
pub struct Client {
    /// Machines and what surrounds them.
    pub vpc: Vpc,
    /// Tags.
    pub tagging: Tagging,
    /// Resources by tag.
    pub search: Search,
    /// Resource groups.
    pub resource_groups: ResourceGroups,
    /// The catalogue's public entries, which need no token.
    pub catalog: Api,
    /// The token of all callers.
    pub tokens: Tokens,
}

impl Client {
    /// Wires the services; nothing is sent yet.
    pub fn new(
        config: Config,
        transports: Transports,
        metrics: Metrics,
        clock: &Clock,
        entropy: Entropy,
    ) -> Self {
        let layers = Layers {
            budget: Budget::new(config.requests_per_second, config.burst),
            metrics,
            deadline: config.deadline,
            clock: clock.clone(),
            entropy,
        };
        let once = layers.once(transports.cloud);
        let open = layers.again(Arc::clone(&once));
        let metadata = layers.again(layers.once(transports.metadata));
        let grantors = Grantors {
            iam: Api::new(config.endpoints.iam, Arc::clone(&open), clock.clone()),
            metadata: Api::new(Endpoint::instance_metadata(), metadata, clock.clone()),
        };
        let tokens = Tokens::new(grantors, config.credentials, clock.clone());
        let authorized = layers.again(Arc::new(Authorized::new(once, tokens.clone())));
        let api = |endpoint: Endpoint| Api::new(endpoint, Arc::clone(&authorized), clock.clone());
        Self {
            vpc: Vpc::new(api(config.endpoints.vpc)),
            tagging: Tagging::new(api(config.endpoints.tagging)),
            search: Search::new(api(config.endpoints.search)),
            resource_groups: ResourceGroups::new(api(config.endpoints.resource_manager)),
            catalog: Api::new(config.endpoints.catalog, open, clock.clone()),
            tokens,
        }
    }
}
