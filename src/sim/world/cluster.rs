//! A cluster and an account to run in: what is there before anything happens.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::product::{Alarm, Surroundings};
use super::recorder::Recorder;
use super::{audit, chart};
use crate::api::crd::definitions;
use crate::clock::Clock;
use crate::operator::{ClusterAccess, PriceSource};
use crate::sim::ibm::{self, Answers, Cloud};
use crate::sim::kube::identity::{Keys, User, service_account};
use crate::sim::kube::{ApiServer, Options};

/// The namespace that the operator is installed in.
pub const NAMESPACE: &str = "karpenter-ibm";
/// The ServiceAccount that it runs as.
pub const ACCOUNT: &str = "karpenter-ibm";
/// The ServiceAccount with whose token machines ask for their certificates.
pub const JOINER: &str = "karpenter-ibm-joiner";
/// Where machines find the API server.
pub const URL: &str = "https://cluster.example:6443";
/// The API key of the operator.
pub const API_KEY: &str = "demo-api-key";
/// That of the people who have something to do in the account, which nobody rotates.
pub const PEOPLES_KEY: &str = "peoples-api-key";
/// A Monday morning: every run begins then.
const EPOCH: Timestamp = Timestamp::constant(1_794_823_200, 0);
/// The name server of its pods.
const DNS: &str = "10.96.0.10";

/// Both servers, and the clocks.
#[derive(Clone)]
pub struct Cluster {
    /// Kubernetes.
    pub server: ApiServer,
    /// IBM Cloud.
    pub cloud: Cloud,
    /// What time it is.
    pub clock: Clock,
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The product's own definitions cannot be written.
    #[error("writing the custom resource definitions")]
    Definitions(#[from] serde_json::Error),
    /// The chart's own files cannot be read.
    #[error("reading the chart's roles")]
    Chart(#[from] serde_saphyr::Error),
    /// The API server refused something that every installation has.
    #[error("installing the operator's surroundings")]
    Refused(#[from] Box<kube::Error>),
    /// There is no place for its configuration file.
    #[error("writing the operator's configuration file")]
    Configuration(#[from] std::io::Error),
    /// The operator refused its settings.
    #[error("setting the operator up")]
    Setting(#[from] crate::operator::SettingError),
}

impl Cluster {
    /// An empty cluster and an account in a region.
    pub fn new(seed: u64, region: &str) -> Self {
        let clock = Clock::simulated(EPOCH);
        let server = ApiServer::new(Options {
            clock: clock.clone(),
            seed,
            keys: Keys::Fixed,
        });
        let mut options = ibm::Options::new(region, seed, clock.clone());
        options.answers = Answers::Realistic;
        options.api_keys = vec![API_KEY.to_owned(), PEOPLES_KEY.to_owned()];
        Self {
            server,
            cloud: Cloud::new(options),
            clock,
        }
    }

    /// The operator as the API server knows it.
    pub fn operator() -> User {
        service_account(NAMESPACE, ACCOUNT)
    }

    /// Writes what others than replicas do into the history.
    pub fn audit(&self, recorder: &Recorder) {
        self.server.audit(audit::auditor(recorder, &Self::operator()));
    }

    /// Applies what an administrator applies before the operator is started: definitions, namespace, accounts, rights;
    /// and says what the operator is to be told. The alarm hears of its plans that are not legal.
    pub async fn install(&self, region: &str, alarm: Alarm) -> Result<Surroundings, InstallError> {
        for definition in definitions()? {
            create::<CustomResourceDefinition>(Api::all(self.server.admin()), definition.object).await?;
        }
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        create::<Namespace>(Api::all(self.server.admin()), namespace).await?;
        for account in [ACCOUNT, JOINER] {
            let accounts: Api<ServiceAccount> = Api::namespaced(self.server.admin(), NAMESPACE);
            create(accounts, json!({"metadata": {"name": account}})).await?;
        }
        chart::install(&self.server)?;
        Ok(Surroundings {
            region: region.to_owned(),
            namespace: NAMESPACE.to_owned(),
            api_key: API_KEY.to_owned(),
            api_key_file: None,
            cluster: ClusterAccess {
                endpoint: URL.to_owned(),
                authority: self.server.identity().root_certificate(),
                dns: vec![DNS.to_owned()],
            },
            config_file: None,
            prices: PriceSource::BuiltIn,
            machines_max: None,
            alarm,
        })
    }
}

async fn create<K>(api: Api<K>, object: Value) -> Result<(), InstallError>
where
    K: kube::Resource + DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object)
        .await
        .map_err(Box::new)?;
    Ok(())
}
