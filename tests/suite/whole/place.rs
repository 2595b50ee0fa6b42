//! A cluster to play in, embedded or real, and how an administrator, kubectl and the operator reach it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::actors::control_plane;
use karpenter_ibm::sim::actors::network::{Network, Tcp, kubeconfig};
use karpenter_ibm::sim::actors::{node_lifecycle, scheduler, volumes, workloads};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{ApiServer, Options, serve};
use karpenter_ibm::sim::world::chart;
use karpenter_ibm::sim::world::cluster::{ACCOUNT, JOINER, NAMESPACE};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

/// How long a definition takes until it is served, and rights until they hold, and more.
const SERVED_WITHIN: Duration = Duration::from_secs(20);

/// Where a cluster is, and whom it trusts.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) authority: String,
    pub(crate) admin: kube::Client,
    /// An administrator's, for kubectl.
    kubeconfig: PathBuf,
    /// Others wait for it while this lives.
    _turn: Option<MutexGuard<'static, ()>>,
}

/// Who has the real cluster: an operator there takes everything of its kinds for its own business.
static TURN: Mutex<()> = Mutex::const_new(());

impl Place {
    /// The embedded cluster, on a socket, with the controllers that a cluster has.
    pub(crate) async fn embedded() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = ApiServer::new(Options {
            clock: Clock::system(),
            seed: 1,
            keys: Keys::Fresh,
        });
        let listener = serve::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let (served, plane) = (server.clone(), server.admin());
        tokio::spawn(async move { serve::serve(&served, listener, CancellationToken::new()).await });
        tokio::spawn(async move {
            let rest = [scheduler::ACTOR, node_lifecycle::ACTOR, volumes::ACTOR];
            let actors: Vec<_> = workloads::ACTORS.into_iter().chain(rest).collect();
            control_plane::run(plane, Clock::system(), &actors).await;
        });
        let admin = server.identity().admin_credential();
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("whole-{}", std::process::id()));
        fs::write(&file, serve::kubeconfig(&server, &url)).unwrap();
        Self::new(
            url,
            server.identity().root_certificate(),
            &admin.certificate,
            &admin.key,
            file,
        )
    }

    /// The real one, where the environment names one (`eval "$(hack/control-plane env)"`).
    pub(crate) async fn real() -> Option<Self> {
        let Ok(url) = env::var("CONTROL_PLANE_URL") else {
            eprintln!("not run against a real control plane: CONTROL_PLANE_URL is not set");
            return None;
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        let path = |variable: &str| env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set"));
        let file = |variable: &str| fs::read_to_string(path(variable)).unwrap();
        let place = Self::new(
            url,
            file("CONTROL_PLANE_CA"),
            &file("CONTROL_PLANE_ADMIN_CERT"),
            &file("CONTROL_PLANE_ADMIN_KEY"),
            path("KUBECONFIG").into(),
        );
        let turn = Some(TURN.lock().await);
        Some(Self { _turn: turn, ..place })
    }

    fn new(url: String, authority: String, certificate: &str, key: &str, kubeconfig: PathBuf) -> Self {
        let user = AuthInfo {
            client_certificate_data: Some(BASE64_STANDARD.encode(certificate)),
            client_key_data: Some(BASE64_STANDARD.encode(key).into()),
            ..AuthInfo::default()
        };
        Self {
            admin: client(&url, &authority, user),
            url,
            authority,
            kubeconfig,
            _turn: None,
        }
    }

    /// What kubectl prints, each line single-spaced.
    pub(crate) fn kubectl(&self, arguments: &str) -> Vec<String> {
        let output = Command::new("kubectl")
            .args(arguments.split(' '))
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .unwrap();
        assert!(output.status.success(), "kubectl {arguments}: {output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let spaced = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        printed.lines().map(spaced).collect()
    }

    /// Applies an object, as soon as its kind is served.
    pub(crate) async fn apply(&self, object: &Value) {
        apply(&self.admin, object).await;
    }

    /// The operator's own client: a token of its account, with the rights that the chart gives it.
    pub(crate) async fn operator(&self) -> kube::Client {
        client(&self.url, &self.authority, operator(&self.admin).await)
    }
}

/// What an administrator applies before the operator is started: definitions, accounts, and the chart's rights.
pub(crate) async fn install(admin: &kube::Client) {
    for definition in definitions().unwrap() {
        apply(admin, &definition.object).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(admin, &namespace).await;
    for name in [ACCOUNT, JOINER] {
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
        apply(admin, &account).await;
    }
    for object in chart::objects().unwrap() {
        apply(admin, &object).await;
    }
}

/// Who the operator is in a cluster in which it is installed: a token of its account.
pub(crate) async fn operator(admin: &kube::Client) -> AuthInfo {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), NAMESPACE);
    let wanted = TokenRequest::default();
    let given = accounts
        .create_token_request(ACCOUNT, &PostParams::default(), &wanted)
        .await
        .unwrap();
    AuthInfo {
        token: given.status.and_then(|status| status.token).map(Into::into),
        ..AuthInfo::default()
    }
}

async fn apply(admin: &kube::Client, object: &Value) {
    let applied = async {
        while let Err(error) = try_apply(admin, object).await {
            eprintln!("{error}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let applied = tokio::time::timeout(SERVED_WITHIN, applied).await;
    applied.unwrap_or_else(|_| panic!("not applied: {object}"));
}

async fn try_apply(admin: &kube::Client, object: &Value) -> Result<(), kube::Error> {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion")
        .split_once('/')
        .unwrap_or(("", text("/apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("/kind"));
    let (resource, capabilities) = pinned_kind(admin, &kind).await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(admin.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(admin.clone(), text("/metadata/namespace"), &resource),
    };
    let params = PatchParams::apply("suite").force();
    api.patch(text("/metadata/name"), &params, &Patch::Apply(object))
        .await?;
    Ok(())
}

fn client(url: &str, authority: &str, user: AuthInfo) -> kube::Client {
    Tcp.client(&kubeconfig(url, authority, user)).unwrap()
}
