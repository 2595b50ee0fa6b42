//! Where the operator works: a cluster and an account, both behind sockets on loopback.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::api::{IBMNodeClass, NodePool};
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::ibm::{self, Cloud, Server, Span};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{ApiServer, Options, serve};
use karpenter_ibm::sim::world::chart;
use karpenter_ibm::sim::world::cluster::{ACCOUNT, JOINER, NAMESPACE};
use kube::api::PostParams;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A cluster and an account.
pub(crate) struct Place {
    /// An administrator's.
    pub(crate) client: Client,
    /// The operator's own, as a file: with the rights that the chart gives it, and no others.
    pub(crate) operator: PathBuf,
    /// The account.
    pub(crate) cloud: Cloud,
    /// Where the account is reached.
    pub(crate) endpoint: String,
    /// Who says which pods find no node.
    pub(crate) scheduler: Scheduler,
}

/// Who looks for nodes for pods.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// The scheduler of a real control plane.
    Real,
    /// Nobody: whoever makes a pod says it.
    Absent,
}

impl Place {
    pub(crate) async fn new() -> Result<Self> {
        // The second time it is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let cloud = account();
        let server = Server::bind(cloud.clone(), "127.0.0.1:0".parse()?).await?;
        let endpoint = format!("http://{}", server.address());
        tokio::spawn(server.run(CancellationToken::new()));
        let (scheduler, kubeconfig) = match env::var("CONTROL_PLANE_URL") {
            Ok(_) => (
                Scheduler::Real,
                env::var("KUBECONFIG").context("KUBECONFIG is not set")?.into(),
            ),
            Err(_) => (Scheduler::Absent, embedded().await?),
        };
        let admin = Kubeconfig::read_from(&kubeconfig)?;
        let config = Config::from_custom_kubeconfig(admin.clone(), &KubeConfigOptions::default()).await?;
        let place = Self {
            client: Client::try_from(config)?,
            operator: env::temp_dir().join(format!("karpenter-ibm-apart-operator-{}", std::process::id())),
            cloud,
            endpoint,
            scheduler,
        };
        place.install().await?;
        place.admit(admin).await?;
        Ok(place)
    }

    /// Writes how the operator reaches the cluster: as an administrator does, but as itself.
    async fn admit(&self, mut kubeconfig: Kubeconfig) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), NAMESPACE);
        let wanted = TokenRequest::default();
        let given = accounts
            .create_token_request(ACCOUNT, &PostParams::default(), &wanted)
            .await?;
        let token = given.status.context("no token is given")?.token;
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(AuthInfo {
                token: token.clone().map(Into::into),
                ..AuthInfo::default()
            });
        }
        Ok(std::fs::write(
            &self.operator,
            serde_json::to_string(&kubeconfig)?,
        )?)
    }

    async fn install(&self) -> Result<()> {
        for definition in definitions()? {
            self.make::<CustomResourceDefinition>(&definition.object).await?;
        }
        self.make::<Namespace>(&json!({"metadata": {"name": NAMESPACE}}))
            .await?;
        for name in [ACCOUNT, JOINER] {
            self.make_in_release::<ServiceAccount>(&json!({"metadata": {"name": name}}))
                .await?;
        }
        for object in chart::objects()? {
            match object["kind"].as_str().unwrap_or_default() {
                "ClusterRole" => self.make::<ClusterRole>(&object).await?,
                "ClusterRoleBinding" => self.make::<ClusterRoleBinding>(&object).await?,
                "Role" => self.make_in_release::<Role>(&object).await?,
                "RoleBinding" => self.make_in_release::<RoleBinding>(&object).await?,
                kind => anyhow::bail!("{kind} in the chart is not known here"),
            }
        }
        let account = self.cloud.account();
        let class = json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "spec": {"region": "us-south", "vpc": account.vpc, "image": account.image},
        });
        self.make::<IBMNodeClass>(&class).await
    }

    /// A pool for everything.
    pub(crate) async fn pool(&self) -> Result<()> {
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            }}},
        });
        self.make::<NodePool>(&pool).await
    }

    /// Makes an object, as soon as its kind is served.
    async fn make<K: Made>(&self, object: &Value) -> Result<()> {
        Self::make_with::<K>(&Api::all(self.client.clone()), object).await
    }

    /// Makes one in the namespace of the release.
    async fn make_in_release<K>(&self, object: &Value) -> Result<()>
    where
        K: Made + kube::Resource<Scope = NamespaceResourceScope>,
    {
        Self::make_with::<K>(&Api::namespaced(self.client.clone(), NAMESPACE), object).await
    }

    async fn make_with<K: Made>(objects: &Api<K>, object: &Value) -> Result<()> {
        let object: K = serde_json::from_value(object.clone())?;
        for _ in 0..100 {
            match objects.create(&PostParams::default(), &object).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.is_already_exists() => return Ok(()),
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
            Clock::system().sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("{} is not served", K::kind(&()))
    }
}

/// What can be made.
trait Made: kube::Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug {}

impl<K> Made for K where
    K: kube::Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug
{
}

/// The embedded cluster; where its kubeconfig is.
async fn embedded() -> Result<PathBuf> {
    let server = ApiServer::new(Options {
        clock: Clock::system(),
        seed: 1,
        keys: Keys::Fresh,
    });
    let listener = serve::listen("127.0.0.1:0".parse()?).await?;
    let url = format!("https://{}", listener.local_addr()?);
    let file = env::temp_dir().join(format!("karpenter-ibm-apart-{}", std::process::id()));
    std::fs::write(&file, serve::kubeconfig(&server, &url))?;
    tokio::spawn(async move { serve::serve(&server, listener, CancellationToken::new()).await });
    Ok(file)
}

/// An account in which thousands of machines have room, and start at once.
fn account() -> Cloud {
    let mut options = ibm::Options::new("us-south", 7, Clock::system());
    options.make_roomy();
    options.timings.pending = Span::seconds(1, 2);
    options.timings.starting = Span::seconds(2, 5);
    options.timings.starting_tail = Span::seconds(2, 5);
    options.timings.deleting = Span::seconds(2, 5);
    Cloud::new(options)
}
