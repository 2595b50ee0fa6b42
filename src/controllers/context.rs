//! The only way in for effects: the cluster, the cloud, time and chance.

use std::sync::Arc;
use std::time::Duration;

use super::compute::Compute;
use super::definitions::Definitions;
use super::discounts::Discounts;
use super::events::Events;
use super::interruption::Notices;
use super::metrics::Metrics;
use super::node_class::AllowLists;
use super::server_time::ServerTime;
use super::unavailable::{Holds, Unavailable};
use super::zones::Zones;
use crate::allocation::Breakers;
use crate::clock::Clock;
use crate::cloud::Cloud;
use crate::cluster::Cluster;
use crate::entropy::Entropy;
use crate::lifecycle::Limits;
use crate::scheduling::Options;

/// What every controller is given. Clones are the same.
#[derive(Clone)]
pub struct Context {
    /// The Kubernetes API.
    pub client: kube::Client,
    /// The cloud.
    pub cloud: Arc<dyn Cloud>,
    /// The cluster as this process knows it.
    pub cluster: Cluster,
    /// What is not to be bought for a while.
    pub unavailable: Unavailable,
    /// Where it may be bought.
    pub zones: Zones,
    /// What spot costs where the user says so.
    pub discounts: Discounts,
    /// Time.
    pub clock: Clock,
    /// Time as the API server has it, for what is reckoned from its stamps.
    pub server_time: ServerTime,
    /// Chance.
    pub entropy: Entropy,
    /// Where plans are computed.
    pub compute: Compute,
    /// Closes the provisioner's batch window at once.
    pub hurry: Arc<tokio::sync::Notify>,
    /// Words about machines that may be about to go.
    pub notices: Notices,
    /// Whether the cluster's definitions keep what is written.
    pub definitions: Definitions,
    /// Where people are told what happens.
    pub events: Events,
    /// Where it is counted.
    pub metrics: Metrics,
    /// What was configured.
    pub settings: Arc<Settings>,
}

/// What controllers need to be told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The region of the provider ids.
    pub region: String,
    /// The namespace of Leases: that of the release.
    pub namespace: String,
    /// Who this replica is, as `<namespace>/<pod>`.
    pub identity: String,
    /// The ServiceAccount, in that namespace, with whose tokens machines ask for their certificates.
    pub joiner: String,
    /// How long things may take.
    pub limits: Limits,
    /// Where machines find the cluster; without it only classes that bring their own user data, or say it themselves,
    /// can be used.
    pub cluster: Option<ClusterAccess>,
    /// Bounds on what is bought in all.
    pub breakers: Breakers,
    /// For how long offerings are withheld.
    pub holds: Holds,
    /// What classes may use.
    pub allowed: AllowLists,
    /// For how long pods are gathered before they are planned for.
    pub batch: Batch,
    /// How they are planned for.
    pub planning: Options,
    /// How long a plan may take. Pods that have no place by then are planned for in the next pass.
    pub planning_max: Duration,
    /// How often classes are resolved anew, and machines compared with them.
    pub resolve_every: Duration,
    /// How often all spot machines are looked at.
    pub interruption_poll: Duration,
    /// What is done about what nobody answers for.
    pub collecting: Collecting,
    /// How often cloud and cluster are compared.
    pub sweep_every: Duration,
    /// How much later what looks like garbage must look so again.
    pub sweep_again_after: Duration,
}

/// For how long pods are gathered before they are planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Until none has come for so long.
    pub idle: Duration,
    /// In all.
    pub max: Duration,
}

impl Default for Batch {
    /// Upstream's: a Deployment that is scaled up has made all its pods by then.
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(1),
            max: Duration::from_secs(10),
        }
    }
}

/// What is done about what nobody answers for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collecting {
    /// It is deleted.
    #[default]
    Delete,
    /// It is reported, and left.
    Report,
}

/// How machines reach the cluster that they are to join, where their class does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAccess {
    /// Where the API server is, `https://host:port`.
    pub endpoint: String,
    /// The certificates that it is known by, PEM.
    pub authority: String,
    /// The name servers of the cluster.
    pub dns: Vec<String>,
}

/// What the chart calls the account when nothing else is said.
const JOINER_DEFAULT: &str = "karpenter-ibm-joiner";

impl Settings {
    /// The user that machines are before they are nodes.
    pub fn joiner_user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.joiner)
    }

    /// The usual times, for a replica in a region.
    pub fn new(region: &str, namespace: &str, identity: &str) -> Self {
        Self {
            region: region.to_owned(),
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            joiner: JOINER_DEFAULT.to_owned(),
            limits: Limits::default(),
            cluster: None,
            breakers: Breakers::default(),
            holds: Holds::default(),
            allowed: AllowLists::default(),
            batch: Batch::default(),
            planning: Options::default(),
            // Longer than any plan that was ever measured takes.
            planning_max: Duration::from_secs(30),
            resolve_every: Duration::from_mins(5),
            interruption_poll: Duration::from_mins(1),
            collecting: Collecting::Delete,
            sweep_every: Duration::from_mins(2),
            sweep_again_after: Duration::from_secs(30),
        }
    }
}
