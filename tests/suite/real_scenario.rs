//! A scenario of `examples/scenarios` on a real control plane: the same file, the same operator with the chart's own
//! rights, machines and cloud simulated, time as it is.
//!
//! It needs a cluster of its own: the operator takes everything of its kinds for its own business.

#![cfg(feature = "sim")]

use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::Transports;
use karpenter_ibm::operator::{ClusterAccess, Edges};
use karpenter_ibm::sim::actors::machines::{self, MachineOptions};
use karpenter_ibm::sim::actors::network::{Network, Tcp, kubeconfig};
use karpenter_ibm::sim::ibm::{Cloud, Options, Span};
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::scenario::Scenario;
use karpenter_ibm::sim::scenario::player::{Hands, Line, play};
use karpenter_ibm::sim::world::chart;
use karpenter_ibm::sim::world::cluster::{ACCOUNT, API_KEY, JOINER, NAMESPACE};
use karpenter_ibm::sim::world::product::{Surroundings, product};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const REGION: &str = "us-south";
/// Waits between the steps are for those who watch: nobody does here.
const HURRY: u32 = 30;
/// How long a definition takes until it is served, and more.
const SERVED_WITHIN: Duration = Duration::from_secs(20);

/// Where the real cluster is, and whom it trusts.
struct Place {
    url: String,
    authority: String,
}

impl Place {
    fn of_environment() -> Option<(Self, kube::Client)> {
        let Ok(url) = env::var("CONTROL_PLANE_URL") else {
            eprintln!("not run against a real control plane: CONTROL_PLANE_URL is not set");
            return None;
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = |variable: &str| {
            let path = env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set"));
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let place = Self {
            url,
            authority: file("CONTROL_PLANE_CA"),
        };
        let admin = place.client(AuthInfo {
            client_certificate_data: Some(BASE64_STANDARD.encode(file("CONTROL_PLANE_ADMIN_CERT"))),
            client_key_data: Some(BASE64_STANDARD.encode(file("CONTROL_PLANE_ADMIN_KEY")).into()),
            ..AuthInfo::default()
        });
        Some((place, admin))
    }

    fn client(&self, user: AuthInfo) -> kube::Client {
        Tcp.client(&kubeconfig(&self.url, &self.authority, user)).unwrap()
    }
}

/// Applies an object, as soon as its kind is served.
async fn apply(client: &kube::Client, object: &Value) {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion")
        .split_once('/')
        .unwrap_or(("", text("/apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("/kind"));
    let (resource, capabilities) = pinned_kind(client, &kind).await.unwrap();
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), text("/metadata/namespace"), &resource),
    };
    let params = PatchParams::apply("suite").force();
    api.patch(text("/metadata/name"), &params, &Patch::Apply(object))
        .await
        .unwrap_or_else(|error| panic!("{object}: {error}"));
}

/// What an administrator applies before the operator is started.
async fn install(client: &kube::Client) {
    for definition in definitions().unwrap() {
        apply(client, &definition.object).await;
    }
    apply(
        client,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
    )
    .await;
    for name in [ACCOUNT, JOINER] {
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        apply(
            client,
            &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        )
        .await;
    }
    for object in chart::objects().unwrap() {
        apply(client, &object).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// The operator's own client: a token of its account, with the rights that the chart gives it.
async fn operator(place: &Place, admin: &kube::Client) -> kube::Client {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), NAMESPACE);
    let wanted = TokenRequest::default();
    let given = accounts
        .create_token_request(ACCOUNT, &PostParams::default(), &wanted)
        .await
        .unwrap();
    place.client(AuthInfo {
        token: given.status.and_then(|status| status.token).map(Into::into),
        ..AuthInfo::default()
    })
}

/// A cloud and machines that take no time.
fn hurried(clock: &Clock) -> (Cloud, MachineOptions) {
    let mut options = Options::new(REGION, 1, clock.clone());
    let at_once = Span::seconds(0, 0);
    (options.timings.pending, options.timings.starting) = (at_once, at_once);
    (options.timings.starting_tail, options.timings.stopping) = (at_once, at_once);
    options.api_keys = vec![API_KEY.to_owned()];
    let mut machines = MachineOptions::new(1, Keys::Fresh);
    (machines.boot, machines.ready_after) = (at_once, at_once);
    (Cloud::new(options), machines)
}

#[tokio::test]
#[ignore = "needs a real control plane of its own: hack/control-plane up, and env"]
async fn one_claim_is_bought_used_and_given_back_on_a_real_control_plane() {
    let Some((place, admin)) = Place::of_environment() else {
        return;
    };
    tokio::time::timeout(SERVED_WITHIN, install(&admin))
        .await
        .unwrap();
    let clock = Clock::system();
    let (cloud, options) = hurried(&clock);
    let mut actors = JoinSet::new();
    actors.spawn(machines::run(
        cloud.clone(),
        Arc::new(Tcp),
        clock.clone(),
        options,
    ));
    let surroundings = Surroundings {
        region: REGION.to_owned(),
        namespace: NAMESPACE.to_owned(),
        api_key: API_KEY.to_owned(),
        cluster: ClusterAccess {
            endpoint: place.url.clone(),
            authority: place.authority.clone(),
            dns: vec!["10.96.0.10".to_owned()],
        },
        config_file: None,
    };
    let exchange = Arc::new(cloud.exchange());
    let edges = Edges {
        kube: operator(&place, &admin).await,
        ibm: Transports {
            cloud: exchange.clone(),
            metadata: exchange,
        },
        clock: clock.clone(),
        entropy: Entropy::from_system(),
        registry: prometheus::Registry::new(),
    };
    let replica = product()(&surroundings, 0).unwrap();
    actors.spawn(replica(edges));

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scenarios/one-claim.yaml");
    let mut scenario = Scenario::load(&file).unwrap();
    for step in &mut scenario.steps {
        step.at /= HURRY;
    }
    let hands = Hands {
        client: admin,
        cloud,
        clock,
        crash: Arc::new(|_| ()),
        configuration: None,
    };
    let mut told = |line: Line| println!("{line}");
    play(&scenario, &hands, &mut told)
        .await
        .unwrap_or_else(|failure| panic!("{failure}"));
}
