//! The IBM client against the simulated IBM Cloud, in one process, on a paused clock.

mod endpoints;
mod faults;
mod network;
mod secrets;
mod time;

use std::sync::Arc;

use karpenter_ibm::clock::Clock;
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::endpoints::{Endpoints, Overrides};
use karpenter_ibm::ibm::http::{Exchange, Metrics};
use karpenter_ibm::ibm::iam::{Credentials, KeySource};
use karpenter_ibm::ibm::secret::Secret;
use karpenter_ibm::ibm::vpc::types::{AvailabilityClass, InstancePrototype, Order};
use karpenter_ibm::ibm::{Client, Config, Transports};
use karpenter_ibm::sim::ibm::{Cloud, Options};
use prometheus::{Registry, TextEncoder};

/// A client, the cloud it talks to, and what it measured.
struct World {
    cloud: Cloud,
    client: Client,
    clock: Clock,
    registry: Registry,
}

impl World {
    fn new() -> Self {
        Self::with("demo-api-key", |cloud| Arc::new(cloud.exchange()))
    }

    /// A world with another API key, and something between the client and the cloud.
    fn with(key: &str, between: impl FnOnce(&Cloud) -> Arc<dyn Exchange>) -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let mut options = Options::new("us-south", 7, clock.clone());
        options.api_keys = vec![key.to_owned()];
        let cloud = Cloud::new(options);
        let all = Some("http://127.0.0.1:9".to_owned());
        let endpoints = Endpoints::resolve(
            "us-south",
            &Overrides {
                all,
                ..Overrides::default()
            },
        )
        .unwrap();
        let credentials = Credentials::ApiKey(KeySource::Given(Secret::new(key.to_owned())));
        let exchange = between(&cloud);
        let transports = Transports {
            cloud: Arc::clone(&exchange),
            metadata: exchange,
        };
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, "us-south").unwrap();
        let config = Config::new(endpoints, credentials);
        let client = Client::new(config, transports, metrics, &clock, Entropy::seeded(1));
        Self {
            cloud,
            client,
            clock,
            registry,
        }
    }

    fn order(&self, name: &str, class: AvailabilityClass) -> InstancePrototype {
        let account = self.cloud.account();
        InstancePrototype::of(&Order {
            name: name.to_owned(),
            profile: "bxf-2x8".to_owned(),
            zone: account.zones[0].clone(),
            vpc: account.vpc,
            subnet: account.subnets[0].clone(),
            image: account.image,
            class,
        })
    }

    /// `count` spot machines.
    async fn fleet(&self, count: usize) {
        for number in 0..count {
            let order = self.order(&format!("spot-{number:03}"), AvailabilityClass::Spot);
            self.client.vpc.create_instance(&order).await.unwrap();
        }
    }

    fn metrics(&self) -> String {
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap()
    }

    /// How many requests went to a path that contains `part`.
    fn sent(&self, part: &str) -> usize {
        self.cloud
            .requests()
            .iter()
            .filter(|seen| seen.path.contains(part))
            .count()
    }
}
