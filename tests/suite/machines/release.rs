//! What stands between a machine and its cluster: the operator's definitions, its rights and its approver, and for each
//! machine a claim with a credential and the document that is rendered for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_ibm::api::{CapacityType, KubeletSettings, NodeClaim};
use karpenter_ibm::bootstrap::{self, Family, Join, Packages, Reservation, Version};
use karpenter_ibm::clock::Clock;
use karpenter_ibm::controllers::{Context, credentials};
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::Transports;
use karpenter_ibm::operator::{self, ClusterAccess, Edges, PriceSource};
use karpenter_ibm::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources};
use karpenter_ibm::sim::actors::network::kubeconfig;
use karpenter_ibm::sim::ibm::Cloud;
use karpenter_ibm::sim::world::cluster::{API_KEY, NAMESPACE};
use karpenter_ibm::sim::world::product::{self, Alarm, Surroundings};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{REGION, Reached};
use crate::whole::place;

/// Longer than any machine here takes to ask.
const LIFETIME: Duration = Duration::from_hours(1);

/// The operator as machines meet it.
#[derive(Clone)]
pub(super) struct Release {
    admin: kube::Client,
    /// What the approver works with: the chart's rights, and no others.
    pub(super) context: Context,
}

impl Release {
    /// Installs it.
    pub(super) async fn install(reached: &Reached, cloud: &Cloud, clock: &Clock) -> Self {
        let admin = reached.admin.clone();
        place::install(&admin).await;
        let exchange = Arc::new(cloud.exchange());
        let edges = Edges {
            kube: operator_client(reached).await,
            ibm: Transports {
                cloud: exchange.clone(),
                metadata: exchange,
            },
            clock: clock.clone(),
            entropy: Entropy::seeded(1),
            registry: prometheus::Registry::new(),
            stop: CancellationToken::new(),
        };
        let surroundings = Surroundings {
            region: REGION.to_owned(),
            namespace: NAMESPACE.to_owned(),
            api_key: API_KEY.to_owned(),
            api_key_file: None,
            cluster: ClusterAccess {
                endpoint: reached.url.clone(),
                authority: reached.authority.clone(),
                dns: vec!["10.96.0.10".to_owned()],
            },
            config_file: None,
            prices: PriceSource::BuiltIn,
            machines_max: None,
            alarm: Alarm::none(),
        };
        let settings = product::settings(&surroundings, 0).unwrap();
        Self {
            admin,
            context: operator::context(&settings, edges).unwrap(),
        }
    }

    /// Makes a claim that waits for its node, with a credential of its own, and renders what its machine is told. The
    /// node does not take pods that nobody binds to it.
    pub(super) async fn user_data(&self, node: &str, capacity_type: CapacityType) -> String {
        let minted = credentials::mint(&self.context, LIFETIME).await.unwrap();
        let claim = serde_json::from_value(claim(node)).unwrap();
        let claims = self.claims();
        claims.create(&PostParams::default(), &claim).await.unwrap();
        let allocation = json!({
            "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "spot", "attempt": 1,
            "subnet": "0717-0ef923f3-26e4-4b10-9e5d-574c634aef14",
            "instanceName": node, "since": self.context.clock.now(),
            "credentials": [{"attempt": 1, "jti": minted.jti}],
        });
        self.patch(node, json!({"allocation": allocation})).await;
        let cluster = self.context.settings.cluster.clone().unwrap();
        let join = Join {
            node_name: node.to_owned(),
            region: REGION.to_owned(),
            capacity_type,
            endpoint: cluster.endpoint,
            authority: cluster.authority,
            token: minted.token,
            kubelet: KubeletSettings::default(),
            reservation: reservation(),
            labels: BTreeMap::new(),
            taints: serde_json::from_value(json!([{"key": "test.example/only", "effect": "NoSchedule"}]))
                .unwrap(),
            dns: cluster.dns,
            family: Family::Debian,
            packages: Packages::of(None, Family::Debian, Version { major: 1, minor: 35 }),
            user_data: None,
            user_data_append: None,
        };
        bootstrap::render(&join).unwrap().expose().to_owned()
    }

    /// The machine of a claim was bought and runs; from now on it may join.
    pub(super) async fn launched(&self, node: &str, id: &str) {
        let status = json!({
            "providerID": format!("ibm:///{REGION}/{id}"),
            "conditions": [self.condition("Launched")],
        });
        self.patch(node, status).await;
    }

    /// Its node has joined.
    pub(super) async fn registered(&self, node: &str) {
        let conditions = ["Launched", "Registered"].map(|type_| self.condition(type_));
        self.patch(node, json!({"conditions": conditions})).await;
    }

    /// Whether somebody waits for this node.
    pub(super) async fn awaits(&self, node: &str) -> bool {
        self.claims().get_opt(node).await.unwrap().is_some()
    }

    /// Forgets a node, if somebody waits for it.
    pub(super) async fn forget(&self, node: &str) {
        let _ = self.claims().delete(node, &DeleteParams::default()).await;
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.admin.clone())
    }

    fn condition(&self, type_: &str) -> Value {
        json!({"type": type_, "status": "True", "lastTransitionTime": self.context.clock.now()})
    }

    async fn patch(&self, node: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        self.claims().patch_status(node, &params, &patch).await.unwrap();
    }
}

/// The operator's own client: the one that is given, or one with a token of its account.
async fn operator_client(reached: &Reached) -> kube::Client {
    if let Some(given) = &reached.operator {
        return given.clone();
    }
    let user = place::operator(&reached.admin).await;
    let config = kubeconfig(&reached.url, &reached.authority, user);
    reached.network.client(&config).unwrap()
}

fn claim(node: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": node},
        "spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            "requirements": [],
        },
    })
}

fn reservation() -> Reservation {
    Reservation {
        kube: Resources::new().with(CPU, 100).with(MEMORY, 512 << 20),
        system: Resources::new().with(CPU, 100).with(MEMORY, 256 << 20),
        eviction: Resources::new()
            .with(MEMORY, 100 << 20)
            .with(EPHEMERAL_STORAGE, 10 << 30),
    }
}
