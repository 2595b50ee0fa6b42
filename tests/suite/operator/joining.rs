//! Machines that boot from the rendered document, between the chart's roles and the approver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fastrand::Rng;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use karpenter_ibm::api::{CapacityType, KubeletSettings};
use karpenter_ibm::bootstrap::{self, Family, Join, Packages, Reservation, Version};
use karpenter_ibm::controllers::{Context, approver, credentials};
use karpenter_ibm::ibm::builtin::find_profile;
use karpenter_ibm::operator::{self, Settings};
use karpenter_ibm::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources};
use karpenter_ibm::sim::actors::kubelet::behavior::Oddities;
use karpenter_ibm::sim::actors::kubelet::disk::Disk;
use karpenter_ibm::sim::actors::kubelet::machine::{Consoles, Machine};
use karpenter_ibm::sim::actors::kubelet::pods::Pace;
use karpenter_ibm::sim::actors::kubelet::{self, Guest, Power};
use karpenter_ibm::sim::actors::network::InProcess;
use karpenter_ibm::sim::ibm::Span;
use karpenter_ibm::sim::kube::certificates::request::write;
use karpenter_ibm::sim::kube::identity::keys::Key;
use karpenter_ibm::sim::kube::identity::{Keys, User};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::watch;

use super::{World, chart, while_working};

/// Where machines find the API server.
const URL: &str = "https://cluster.example:6443";
const MACHINE: &str = "0717_e21b7391-2ca2-4ab5-84a8-b92157a633b0";
const LIFETIME: Duration = Duration::from_mins(20);

/// A machine, and what it says.
pub(super) struct Booted {
    consoles: Consoles,
    id: String,
    /// Its power: when this is dropped, nobody presses the button any more.
    _power: watch::Sender<Power>,
}

impl Booted {
    fn says(&self, text: &str) -> bool {
        self.consoles.mentions(&self.id, text)
    }
}

/// Settings in which nobody says where the cluster is.
pub(super) fn settings(identity: &str) -> Settings {
    let mut settings = World::settings(identity);
    settings.controllers.cluster = None;
    settings
}

/// What the controller has in hand, as the user that the chart makes it.
pub(super) fn context(world: &World) -> Context {
    operator::context(&settings("one"), world.edges()).unwrap()
}

fn document(world: &World, node: &str, token: karpenter_ibm::secret::Secret) -> String {
    let join = Join {
        node_name: node.to_owned(),
        region: "us-south".to_owned(),
        capacity_type: CapacityType::Spot,
        endpoint: URL.to_owned(),
        authority: world.kube.identity().root_certificate(),
        token,
        kubelet: KubeletSettings {
            max_pods: Some(60),
            ..KubeletSettings::default()
        },
        reservation: Reservation {
            kube: Resources::new().with(CPU, 70).with(MEMORY, 1 << 30),
            system: Resources::new().with(CPU, 100).with(MEMORY, 256 << 20),
            eviction: Resources::new()
                .with(MEMORY, 100 << 20)
                .with(EPHEMERAL_STORAGE, 10 << 30),
        },
        labels: BTreeMap::from([
            ("team".to_owned(), "a".to_owned()),
            ("karpenter.sh/nodepool".to_owned(), "default".to_owned()),
            ("node-role.kubernetes.io/worker".to_owned(), String::new()),
        ]),
        taints: serde_json::from_value(json!([{"key": "a", "value": "b", "effect": "NoSchedule"}])).unwrap(),
        dns: vec!["172.21.0.10".to_owned()],
        family: Family::Debian,
        packages: Packages::of(None, Family::Debian, Version { major: 1, minor: 35 }),
        user_data: None,
        user_data_append: Some("#cloud-config\nruncmd:\n- [echo, hello]\n".to_owned()),
    };
    bootstrap::render(&join).unwrap().expose().to_owned()
}

/// A kubelet on a machine with this document.
fn boot(world: &World, id: &str, address: [u8; 4], user_data: &str) -> (BoxFuture<'static, ()>, Booted) {
    let (power, consoles) = (watch::Sender::new(Power::On), Consoles::default());
    let guest = Guest {
        machine: Machine {
            id: id.to_owned(),
            name: "kib-0".to_owned(),
            zone: "us-south-1".to_owned(),
            profile: find_profile("bxf-2x8").unwrap(),
            address: address.into(),
            storage_gb: 100,
            user_data: user_data.to_owned(),
            metadata_service: true,
            boots: 0,
        },
        disk: Disk::default(),
        network: Arc::new(InProcess::new(world.kube.clone(), URL)),
        clock: world.clock.clone(),
        power: power.subscribe(),
        consoles: consoles.clone(),
        keys: Keys::Fixed,
        behaviors: Vec::new(),
        oddities: Oddities::default(),
        pace: Pace::default(),
        ready_after: Span::seconds(0, 0),
        rng: Rng::with_seed(1),
    };
    let booted = Booted {
        consoles,
        id: id.to_owned(),
        _power: power,
    };
    (kubelet::run(guest).boxed(), booted)
}

/// A claim whose machine runs, with a credential for it.
async fn running_claim(world: &World, name: &str, jti: &str) {
    world.claim(name).await;
    let status = json!({"status": {
        "providerID": format!("ibm:///us-south/{MACHINE}"),
        "conditions": [{"type": "Launched", "status": "True", "lastTransitionTime": "2026-11-16T10:00:00Z"}],
        "allocation": {
            "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "spot", "attempt": 1,
            "subnet": "0717-0ef923f3-26e4-4b10-9e5d-574c634aef14", "instanceName": "kib-0",
            "since": "2026-11-16T10:00:00Z", "credentials": [{"attempt": 1, "jti": jti}],
        },
    }});
    world
        .claims()
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

/// Boots the machine of a claim that the controller launched, with a credential that its allocation names.
pub(super) async fn boot_for(
    world: &World,
    context: &Context,
    name: &str,
) -> (BoxFuture<'static, ()>, Booted) {
    let minted = credentials::mint(context, LIFETIME).await.unwrap();
    let recorded = json!({"status": {"allocation": {"credentials": [{"attempt": 1, "jti": minted.jti}]}}});
    world
        .claims()
        .patch_status(name, &PatchParams::default(), &Patch::Merge(recorded))
        .await
        .unwrap();
    let provider_id = world.read(name).await.unwrap().status.unwrap().provider_id;
    let id = provider_id.unwrap().rsplit('/').next().unwrap().to_owned();
    let address = world.cloud.instance(&id).unwrap().address.unwrap();
    let user_data = document(world, name, minted.token);
    boot(world, &id, address.octets(), &user_data)
}

/// Boots the machine that was bought for a claim, with the document that it was bought with.
pub(super) async fn boot_bought(world: &World, name: &str) -> (BoxFuture<'static, ()>, Booted) {
    let provider_id = world.read(name).await.unwrap().status.unwrap().provider_id;
    let id = provider_id.unwrap().rsplit('/').next().unwrap().to_owned();
    let machine = world.cloud.instance(&id).unwrap();
    let address = machine.address.unwrap();
    boot(world, &id, address.octets(), &machine.user_data.unwrap())
}

/// The machine of a claim is bought, boots, and joins. A Node that is in its way may take ten minutes to go.
pub(super) async fn until_joined(world: &World, name: &str) {
    world.until_launched(name).await;
    let (machine, _booted) = boot_bought(world, name).await;
    let registered = world.until("registered", Duration::from_mins(10), async || {
        world.is_true(name, "Registered").await
    });
    while_working(machine, registered).await;
}

pub(super) async fn node(world: &World, name: &str) -> Option<Node> {
    let nodes: Api<Node> = Api::all(world.kube.admin());
    nodes.get_opt(name).await.unwrap()
}

async fn denials(world: &World) -> Vec<String> {
    let requests: Api<CertificateSigningRequest> = Api::all(world.kube.admin());
    let requests = requests.list(&ListParams::default()).await.unwrap().items;
    let conditions = requests
        .into_iter()
        .filter_map(|it| it.status?.conditions)
        .flatten();
    conditions
        .filter(|condition| condition.type_ == "Denied")
        .filter_map(|condition| condition.reason)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_machine_boots_from_the_document_and_becomes_the_node_that_it_says() {
    let world = World::new();
    let context = context(&world);
    let minted = credentials::mint(&context, LIFETIME).await.unwrap();
    running_claim(&world, "node-a", &minted.jti).await;
    let user_data = document(&world, "node-a", minted.token);
    let (machine, booted) = boot(&world, MACHINE, [10, 240, 0, 4], &user_data);
    let working = async { _ = tokio::join!(biased; approver::run(context), machine) };
    while_working(working, async {
        world
            .until("joined", Duration::from_mins(2), async || {
                node(&world, "node-a").await.is_some()
            })
            .await;
    })
    .await;
    let node = node(&world, "node-a").await.unwrap();
    let spec = node.spec.unwrap();
    assert_eq!(
        spec.provider_id.as_deref(),
        Some(format!("ibm:///us-south/{MACHINE}").as_str())
    );
    let taints: Vec<String> = spec
        .taints
        .unwrap()
        .iter()
        .map(|it| {
            format!(
                "{}={}:{}",
                it.key,
                it.value.as_deref().unwrap_or_default(),
                it.effect
            )
        })
        .collect();
    assert!(taints.contains(&"a=b:NoSchedule".to_owned()), "{taints:?}");
    assert!(
        taints.contains(&"karpenter.sh/unregistered=:NoExecute".to_owned()),
        "{taints:?}"
    );
    let labels = node.metadata.labels.unwrap();
    assert_eq!(labels["team"], "a");
    assert_eq!(labels["karpenter.sh/nodepool"], "default");
    assert!(!labels.contains_key("node-role.kubernetes.io/worker"));
    assert!(booted.says("kubelet --config=/etc/kubernetes/kubelet.yaml"));
    let status = node.status.unwrap();
    assert_eq!(status.capacity.unwrap()["pods"].0, "60");
    let claim = world.read("node-a").await.unwrap();
    assert!(
        claim.metadata.annotations.unwrap()["karpenter-ibm.sh/certificate-request"].starts_with(&minted.jti)
    );
}

#[tokio::test(start_paused = true)]
async fn a_stolen_credential_makes_no_second_node_and_no_other_one() {
    let world = World::new();
    let context = context(&world);
    let minted = credentials::mint(&context, LIFETIME).await.unwrap();
    running_claim(&world, "node-a", &minted.jti).await;
    running_claim(&world, "node-b", "another").await;
    let own = document(&world, "node-a", minted.token.clone());
    let other = document(&world, "node-b", minted.token);
    let (machine, _first) = boot(&world, MACHINE, [10, 240, 0, 4], &own);
    let working = async {
        let rest = async {
            world.clock.sleep(Duration::from_mins(1)).await;
            let (thief, _second) = boot(&world, "0717_thief", [10, 240, 0, 5], &own);
            let (liar, _third) = boot(&world, "0717_liar", [10, 240, 0, 6], &other);
            tokio::join!(biased; thief, liar)
        };
        _ = tokio::join!(biased; approver::run(context), machine, rest);
    };
    while_working(working, async {
        world
            .until("both are refused", Duration::from_mins(3), async || {
                denials(&world).await.len() >= 2
            })
            .await;
    })
    .await;
    let mut reasons = denials(&world).await;
    reasons.sort();
    reasons.dedup();
    assert_eq!(reasons, ["CredentialUsed", "OtherCredential"]);
    assert!(node(&world, "node-b").await.is_none());
    assert!(world.reasons().await.contains(&"CertificateRefused".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_has_expired_cannot_even_ask() {
    let world = World::new();
    let context = context(&world);
    let minted = credentials::mint(&context, LIFETIME).await.unwrap();
    running_claim(&world, "node-a", &minted.jti).await;
    let user_data = document(&world, "node-a", minted.token);
    world.clock.sleep(LIFETIME + Duration::from_mins(2)).await;
    let (machine, booted) = boot(&world, MACHINE, [10, 240, 0, 4], &user_data);
    let working = async { _ = tokio::join!(biased; approver::run(context), machine) };
    while_working(working, world.clock.sleep(Duration::from_mins(5))).await;
    assert!(booted.says("cannot create certificate signing request"));
    assert!(node(&world, "node-a").await.is_none());
}

/// How many rights the metric counts by which others approve.
async fn approved_by_others(world: &World) -> f64 {
    let edges = world.edges();
    let registry = edges.registry.clone();
    let context = operator::context(&settings("one"), edges).unwrap();
    while_working(approver::run(context), world.clock.sleep(Duration::from_secs(10))).await;
    let families = registry.gather();
    let family = families
        .iter()
        .find(|family| family.name() == "karpenter_ibm_certificates_approved_by_others");
    family.unwrap().get_metric()[0].get_gauge().get_value()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_would_approve_by_itself_is_noticed() {
    let world = World::new();
    assert!(approved_by_others(&world).await.abs() < 0.5);
    let bindings: Api<ClusterRoleBinding> = Api::all(world.kube.admin());
    let role = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
    let binding = serde_json::from_value(json!({
        "metadata": {"name": "too-generous"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"}],
    }));
    bindings
        .create(&PostParams::default(), &binding.unwrap())
        .await
        .unwrap();
    assert!((approved_by_others(&world).await - 1.0).abs() < 0.5);
}

/// A machine that asks in another's name: the claim that it was bought for says what became of its request.
#[tokio::test(start_paused = true)]
async fn the_condition_of_a_claim_says_that_its_certificate_request_was_refused_and_why() {
    let world = World::new();
    let replica = chart::replica(&world);
    while_working(replica, async {
        for name in ["node-a", "node-b"] {
            world.claim(name).await;
            world.until_launched(name).await;
        }
        let provider_id = world.read("node-a").await.unwrap().status.unwrap().provider_id;
        let id = provider_id.unwrap().rsplit('/').next().unwrap().to_owned();
        let bought = world.cloud.instance(&id).unwrap();
        let lies = bought.user_data.unwrap().replace("node-a", "node-b");
        let (machine, _booted) = boot(&world, &id, bought.address.unwrap().octets(), &lies);
        let given_up = world.until("given up", Duration::from_mins(20), async || {
            world.registration("node-a").await.is_some()
        });
        while_working(machine, given_up).await;
        let (reason, why) = world.registration("node-a").await.unwrap();
        assert_eq!(reason, "RegistrationTimeout");
        assert!(
            why.starts_with("the machine runs; its certificate request was refused: "),
            "{why}"
        );
        assert_eq!(world.note("RegistrationTimeout").await.as_ref(), Some(&why));
    })
    .await;
}

/// A machine that never asks: so does the claim.
#[tokio::test(start_paused = true)]
async fn the_condition_of_a_claim_says_that_its_machine_was_never_heard_of() {
    let world = World::new();
    while_working(chart::replica(&world), async {
        world.claim("node-a").await;
        world.until_launched("node-a").await;
        world
            .until("given up", Duration::from_mins(20), async || {
                world.registration("node-a").await.is_some()
            })
            .await;
        let (_, why) = world.registration("node-a").await.unwrap();
        assert!(
            why.contains("no certificate request was seen with its credential"),
            "{why}"
        );
    })
    .await;
}

impl World {
    /// Why a claim's machine is said not to have joined: reason and message.
    async fn registration(&self, name: &str) -> Option<(String, String)> {
        let conditions = self.read(name).await?.status?.conditions?;
        let failed = conditions
            .into_iter()
            .find(|it| it.type_ == "Registered" && it.status == "False")?;
        Some((failed.reason?, failed.message?))
    }
}

impl World {
    /// A kubelet asks, with the certificate that it has, for the certificate of a node: the words of the conditions of its
    /// request a while later, and whether the certificate came.
    async fn renewal(&self, by: &str, of: &str) -> Result<(Vec<String>, bool), kube::Error> {
        let requests: Api<CertificateSigningRequest> = Api::all(self.kube.client_as(User::node(by)));
        let key = Key::new(Keys::Fixed, &format!("renewal of {of} by {by}"));
        let text = write(&key, &format!("system:node:{of}"), &["system:nodes"], &[]);
        let name = format!("renewal-of-{of}-by-{by}");
        let request = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "request": BASE64_STANDARD.encode(text), "signerName": approver::SIGNER,
                "usages": ["digital signature", "client auth"],
            },
        }));
        requests.create(&PostParams::default(), &request.unwrap()).await?;
        self.clock.sleep(Duration::from_mins(2)).await;
        let requests: Api<CertificateSigningRequest> = Api::all(self.kube.admin());
        let status = requests.get(&name).await.unwrap().status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default().into_iter();
        Ok((
            conditions.map(|it| it.type_).collect(),
            status.certificate.is_some(),
        ))
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_renews_its_own_certificate_and_nobody_elses() {
    let world = World::new();
    while_working(chart::replica(&world), async {
        for name in ["node-a", "node-b"] {
            world.claim(name).await;
            until_joined(&world, name).await;
        }
        let own = world.renewal("node-a", "node-a").await.unwrap();
        assert_eq!(own, (vec!["Approved".to_owned()], true));
        let refused = world.renewal("node-a", "node-b").await.unwrap_err();
        assert!(
            refused.to_string().contains("can only create a node CSR"),
            "{refused}"
        );
    })
    .await;
}
