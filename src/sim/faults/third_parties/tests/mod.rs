use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::*;
use crate::api::NodeClaim;
use crate::api::crd::definitions;
use crate::clock::Clock;
use crate::cloud::InstanceName;
use crate::ibm::http::Exchange;
use crate::sim::actors::kubelet::behavior::Oddities;
use crate::sim::faults::{Fault, Injection, KeyFile, Parts};
use crate::sim::history::What;
use crate::sim::ibm::{self, Cloud};
use crate::sim::kube::identity::Keys;
use crate::sim::kube::{ApiServer, Options};

mod lasting;
mod older;

/// What people do in the account by, and what the operator begins with.
const PEOPLES_KEY: &str = "demo-api-key";
const FIRST_KEY: &str = "operators-key";

struct Town {
    server: ApiServer,
    cloud: Cloud,
    desk: Desk,
    key_file: KeyFile,
    told: Arc<Mutex<Vec<String>>>,
}

impl Town {
    async fn new() -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock: clock.clone(),
            seed: 1,
            keys: Keys::Fixed,
        });
        let kinds: Api<CustomResourceDefinition> = Api::all(server.admin());
        for definition in definitions().unwrap() {
            let definition = serde_json::from_value(definition.object).unwrap();
            kinds.create(&PostParams::default(), &definition).await.unwrap();
        }
        let mut account = ibm::Options::new("us-south", 1, clock.clone());
        account.api_keys = [PEOPLES_KEY, FIRST_KEY].map(str::to_owned).into();
        let cloud = Cloud::new(account);
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&told);
        let key_file = KeyFile::new(FIRST_KEY).unwrap();
        let desk = Desk::new(Parts {
            server: server.clone(),
            cloud: cloud.clone(),
            operator: "operator".to_owned(),
            clocks: Vec::new(),
            oddities: Oddities::default(),
            api_key: PEOPLES_KEY.to_owned(),
            key_file: Some(key_file.clone()),
            sink: Arc::new(move |what| {
                if let What::Fault { name, detail } = what {
                    heard.lock().unwrap().push(format!("{name} {detail}"));
                }
            }),
            witness: Arc::new(|_| Box::new(|_, _| {})),
        });
        Self {
            server,
            cloud,
            desk,
            key_file,
            told,
        }
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.server.admin())
    }

    async fn claim(&self, name: &str) -> NodeClaim {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "finalizers": ["karpenter.sh/termination"]},
            "spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            },
        });
        let claim = serde_json::from_value(claim).unwrap();
        self.claims()
            .create(&PostParams::default(), &claim)
            .await
            .unwrap()
    }

    async fn node(&self, name: &str) {
        let nodes: Api<Node> = Api::all(self.server.admin());
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }

    async fn meddle(&self, kind: MeddlingKind) -> Vec<String> {
        self.desk
            .start(&Injection {
                at: Duration::ZERO,
                lasts: Duration::ZERO,
                stream: 3,
                fault: Fault::ThirdParty(Meddling::new(kind)),
            })
            .await;
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_rotated_and_the_file_says_so_when_that_is_over() {
    let town = Town::new().await;
    let read = || std::fs::read_to_string(town.key_file.path()).unwrap();
    let mut keys = vec![read()];
    for _ in 0..2 {
        let told = town.meddle(MeddlingKind::KeyRotated).await;
        assert_eq!(told, ["c6-key-rotated all tokens"]);
        assert_eq!(Some(&read()), keys.last(), "it still says the old one");
        town.desk.clear().await;
        keys.push(read());
    }
    assert!(keys[1].starts_with("rotated-"), "{}", keys[1]);
    // What people do in the account goes on with their own.
    let mut served = Vec::new();
    for key in [PEOPLES_KEY, FIRST_KEY, &keys[1]] {
        let form = format!("grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey={key}");
        let request = http::Request::post("https://iam/identity/token")
            .body(form.into())
            .unwrap();
        let answer = town.cloud.exchange().exchange(request).await.unwrap();
        served.push(answer.status().as_u16());
    }
    // The same stream draws the same key.
    assert_eq!((served, &keys[1]), (vec![200, 400, 200], &keys[2]));
}

#[tokio::test(start_paused = true)]
async fn where_there_is_nothing_nothing_happens() {
    let town = Town::new().await;
    for kind in [
        MeddlingKind::Recreated,
        MeddlingKind::StripFinalizer,
        MeddlingKind::DeleteNode,
        MeddlingKind::AddTaint,
        MeddlingKind::DeleteMachine,
        MeddlingKind::NameTaken,
    ] {
        assert_eq!(town.meddle(kind).await, [""; 0], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_recreated_under_its_name_with_another_uid() {
    let town = Town::new().await;
    let before = town.claim("a").await;
    assert_eq!(
        town.meddle(MeddlingKind::Recreated).await,
        ["k10-recreated nodeclaims/a"]
    );
    let after = town.claims().get("a").await.unwrap();
    assert_ne!(before.metadata.uid, after.metadata.uid);
    assert_eq!(before.spec, after.spec);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_stripped_from_the_claim_that_goes() {
    let town = Town::new().await;
    town.claim("a").await;
    town.claim("b").await;
    town.claims().delete("b", &DeleteParams::default()).await.unwrap();
    let told = town.meddle(MeddlingKind::StripFinalizer).await;
    assert_eq!(told, ["k14-strip-finalizer nodeclaims/b"]);
    assert!(town.claims().get_opt("b").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_claim_comes_and_goes() {
    let town = Town::new().await;
    town.claim("a").await;
    assert_eq!(town.meddle(MeddlingKind::CreatedAndDeleted).await.len(), 1);
    let claims = town.claims().list(&ListParams::default()).await.unwrap();
    assert_eq!(claims.items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nodes_are_edited_and_deleted() {
    let town = Town::new().await;
    town.node("n").await;
    let nodes: Api<Node> = Api::all(town.server.admin());
    town.meddle(MeddlingKind::AddTaint).await;
    town.meddle(MeddlingKind::EditLabels).await;
    town.meddle(MeddlingKind::DoNotDisrupt).await;
    let node = nodes.get("n").await.unwrap();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap();
    assert!(taints.iter().any(|taint| taint.key == "example.com/maintenance"));
    assert_eq!(node.labels()[CAPACITY_TYPE], "reserved");
    assert_eq!(node.annotations()[DO_NOT_DISRUPT], "true");
    town.meddle(MeddlingKind::RemoveTaints).await;
    let taints = nodes.get("n").await.unwrap().spec.and_then(|spec| spec.taints);
    assert_eq!(taints.unwrap_or_default(), []);
    assert_eq!(
        town.meddle(MeddlingKind::DeleteNode).await,
        ["k14-delete-node nodes/n"]
    );
    assert!(nodes.get_opt("n").await.unwrap().is_none());
}

/// A pod that has been on a node for half an hour.
async fn pod(town: &Town, name: &str, node: &str) {
    let pods: Api<Pod> = Api::namespaced(town.server.admin(), "default");
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let started = Patch::Merge(json!({"status": {"startTime": "2026-11-16T09:30:00Z"}}));
    pods.patch_status(name, &PatchParams::default(), &started)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn pods_are_touched_on_nodes_that_go_if_any_does() {
    let town = Town::new().await;
    let pods: Api<Pod> = Api::namespaced(town.server.admin(), "default");
    assert_eq!(town.meddle(MeddlingKind::DeletePod).await, [""; 0]);
    pod(&town, "a", "stays").await;
    pod(&town, "b", "goes").await;
    pod(&town, "c", "stays").await;
    town.claim("goes").await;
    town.claims()
        .delete("goes", &DeleteParams::default())
        .await
        .unwrap();
    let told = town.meddle(MeddlingKind::UndisturbedPod).await;
    assert_eq!(told, ["k14-undisturbed-pod pods/default/b"]);
    let wish = pods.get("b").await.unwrap().annotations()[DO_NOT_DISRUPT].clone();
    let minutes: u64 = wish.strip_suffix('m').unwrap().parse().unwrap();
    assert!(
        (31..=38).contains(&minutes),
        "{wish}: it has been there for half an hour"
    );
    town.meddle(MeddlingKind::DeletePod).await;
    let leaving = pods.get("b").await.unwrap();
    assert!(leaving.metadata.deletion_timestamp.is_some());
    let told = town.meddle(MeddlingKind::ForceDeletePod).await;
    assert!(
        told[0].ends_with("/a") || told[0].ends_with("/c"),
        "b goes already: {told:?}"
    );
    let names = pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(names.len(), 2, "one is gone at once");
}

#[tokio::test(start_paused = true)]
async fn a_spot_machine_is_taken_back_only_while_its_claim_goes() {
    let town = Town::new().await;
    let claim = town.claim("a").await;
    let cluster = account::cluster(&town.desk).unwrap();
    let name = InstanceName::new(cluster, claim.metadata.uid.as_deref().unwrap()).unwrap();
    let account = town.cloud.account();
    account::Stranger { desk: &town.desk }
        .send(
            http::Method::POST,
            "/v1/instances",
            Some(&json!({
                "name": name.to_string(), "profile": {"name": "bxf-2x8"}, "image": {"id": account.image},
                "zone": {"name": account.zones[0]}, "vpc": {"id": account.vpc},
                "availability": {"class": "spot"}, "availability_policy": {"preemption": "stop"},
                "primary_network_attachment": {
                    "name": "eth0",
                    "virtual_network_interface": {"subnet": {"id": account.subnets[0]}, "auto_delete": true},
                },
            })),
        )
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(town.meddle(MeddlingKind::PreemptedLeaving).await, [""; 0]);
    town.claims().delete("a", &DeleteParams::default()).await.unwrap();
    let told = town.meddle(MeddlingKind::PreemptedLeaving).await;
    assert_eq!(told, [format!("c10-preempted-leaving {name}")]);
    assert_eq!(town.cloud.instance(&name.to_string()).unwrap().status, "stopping");
}

#[tokio::test(start_paused = true)]
async fn machines_of_others_appear_beside_ours() {
    let town = Town::new().await;
    let ours = town.cloud.account().resource_group;
    town.meddle(MeddlingKind::ForeignMachine).await;
    town.meddle(MeddlingKind::ConfusingMachine).await;
    town.meddle(MeddlingKind::TwinMachine).await;
    let groups: Vec<bool> = town
        .cloud
        .instances()
        .iter()
        .map(|machine| machine.resource_group == ours)
        .collect();
    assert_eq!(groups, [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_claim_is_taken_by_a_machine_that_is_not_ours() {
    let town = Town::new().await;
    town.claim("a").await;
    let told = town.meddle(MeddlingKind::NameTaken).await;
    let machine = town.cloud.instances().remove(0);
    assert_eq!(told, [format!("c2-name-taken {}", machine.name)]);
    assert!(machine.name.parse::<crate::cloud::InstanceName>().is_ok());
    assert_eq!(town.meddle(MeddlingKind::DeleteMachine).await, [""; 0]);
    assert_eq!(town.cloud.instances()[0].status, "pending");
}

#[tokio::test(start_paused = true)]
async fn an_impostor_makes_the_node_of_a_machine_that_has_not_joined() {
    let town = Town::new().await;
    let launched =
        |node: Value| json!({"status": {"providerID": "ibm:///us-south/0717_1", "nodeName": node}});
    for (name, node) in [("a", json!("a")), ("b", Value::Null)] {
        town.claim(name).await;
        let status = Patch::Merge(launched(node));
        let (claims, params) = (town.claims(), PatchParams::default());
        claims.patch_status(name, &params, &status).await.unwrap();
    }
    let told = town.meddle(MeddlingKind::ImpostorNode).await;
    assert_eq!(told, ["k14-impostor-node nodes/b"]);
    let nodes: Api<Node> = Api::all(town.server.admin());
    let node = nodes.get("b").await.unwrap();
    assert_eq!(node.spec.unwrap().provider_id.unwrap(), "ibm:///us-south/0717_1");
    assert_eq!(node.status.unwrap().addresses.unwrap()[0].address, "192.0.2.66");
}
