//! A stage for tests of the judge: real servers, and a history that is written by hand.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Judge, Settings, Truth, Violation};
use crate::api::NodeClaim;
use crate::api::crd::definitions;
use crate::api::names::TERMINATION_FINALIZER;
use crate::clock::Clock;
use crate::cloud::{ClusterId, InstanceName};
use crate::ibm::http::Exchange;
use crate::sim::history::{Answer, CarriedOut, Edge, Entry, Request, What, Who};
use crate::sim::ibm::{self, Cloud};
use crate::sim::kube::identity::Keys;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::stored::ObjectKey;
use crate::sim::kube::{ApiServer, Options, object};

pub(in crate::sim) const CANARY: &str = "canary-api-key-7";

pub(in crate::sim) struct Stage {
    pub(in crate::sim) server: ApiServer,
    pub(in crate::sim) cloud: Cloud,
    pub(in crate::sim) judge: Judge,
    clock: Clock,
    started: tokio::time::Instant,
    requests: u64,
}

impl Stage {
    /// A cluster with our definitions, an account, and nothing else.
    pub(in crate::sim) async fn new() -> Self {
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
        let cloud = Cloud::new(ibm::Options::new("us-south", 1, clock.clone()));
        let mut settings = Settings::new(cloud.account().resource_group);
        settings.canaries = vec![CANARY.to_owned()];
        let judge = Judge::new(settings);
        let started = clock.instant();
        Self {
            server,
            cloud,
            judge,
            clock,
            started,
            requests: 0,
        }
    }

    pub(in crate::sim) fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.server.admin())
    }

    /// A claim with our finalizer; its uid.
    pub(in crate::sim) async fn claim(&mut self, name: &str) -> String {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "finalizers": [TERMINATION_FINALIZER]},
            "spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            },
        });
        let claim = serde_json::from_value(claim).unwrap();
        let made = self
            .claims()
            .create(&PostParams::default(), &claim)
            .await
            .unwrap();
        self.look();
        made.metadata.uid.unwrap()
    }

    /// Changes a claim, and its status with `status`.
    pub(in crate::sim) async fn patch(&mut self, name: &str, patch: Value) {
        let (params, status) = (PatchParams::default(), patch.get("status").is_some());
        let patch = Patch::Merge(patch);
        if status {
            self.claims().patch_status(name, &params, &patch).await.unwrap();
        } else {
            self.claims().patch(name, &params, &patch).await.unwrap();
        }
        self.look();
    }

    /// Gives a claim conditions, each with a status and a second of its transition.
    pub(in crate::sim) async fn conditions(&mut self, name: &str, conditions: &[(&str, &str, u8)]) {
        let condition = |&(kind, status, second): &(&str, &str, u8)| {
            json!({
                "type": kind, "status": status, "reason": kind, "message": "",
                "lastTransitionTime": format!("2026-11-16T10:00:{second:02}Z"),
            })
        };
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        self.patch(name, json!({"status": {"conditions": conditions}}))
            .await;
    }

    /// Somebody deletes a claim.
    pub(in crate::sim) async fn delete(&mut self, name: &str) {
        self.claims()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        self.look();
    }

    /// Our finalizer comes off.
    pub(in crate::sim) async fn release(&mut self, name: &str) {
        self.patch(name, json!({"metadata": {"finalizers": null}})).await;
    }

    /// Somebody holds a Lease of that name, or nobody.
    pub(in crate::sim) async fn hold(&mut self, name: &str, holder: Option<&str>) {
        let leases: Api<Lease> = Api::namespaced(self.server.admin(), "kube-system");
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        });
        let params = PatchParams::apply("replica").force();
        leases.patch(name, &params, &Patch::Apply(lease)).await.unwrap();
        self.look();
    }

    /// The uid of a pod.
    pub(in crate::sim) fn uid_of_pod(&self, name: &str) -> String {
        self.uid_of(&TableKey::of("", "pods"), &ObjectKey::new("default", name))
    }

    /// The uid of a claim.
    pub(in crate::sim) fn uid_of_claim(&self, name: &str) -> String {
        self.uid_of(
            &TableKey::of("karpenter.sh", "nodeclaims"),
            &ObjectKey::new("", name),
        )
    }

    fn uid_of(&self, table: &TableKey, key: &ObjectKey) -> String {
        let state = self.server.state();
        object::uid(&state.store.get(table, key).unwrap().value()).to_owned()
    }

    /// The name of a claim's machine.
    pub(in crate::sim) fn name_of(&self, uid: &str) -> String {
        let state = self.server.state();
        let key = ObjectKey::new("", "kube-system");
        let table = TableKey::of("", "namespaces");
        let namespace = state.store.get(&table, &key).unwrap().value();
        let cluster = ClusterId::from_kube_system_uid(object::uid(&namespace));
        InstanceName::new(cluster, uid).unwrap().to_string()
    }

    /// A machine in our resource group; its id.
    pub(in crate::sim) async fn machine(&mut self, name: &str) -> String {
        let group = self.cloud.account().resource_group;
        self.machine_in(name, &group).await
    }

    /// A machine; its id.
    pub(in crate::sim) async fn machine_in(&mut self, name: &str, group: &str) -> String {
        let prototype = self.prototype(name, group);
        self.buy(prototype).await
    }

    /// A spot machine in our resource group; its id.
    pub(in crate::sim) async fn spot_machine(&mut self, name: &str) -> String {
        let mut prototype = self.prototype(name, &self.cloud.account().resource_group);
        prototype["availability"] = json!({"class": "spot"});
        prototype["availability_policy"] = json!({"preemption": "stop"});
        self.buy(prototype).await
    }

    fn prototype(&self, name: &str, group: &str) -> Value {
        let account = self.cloud.account();
        json!({
            "name": name, "profile": {"name": "bxf-2x8"}, "image": {"id": account.image},
            "zone": {"name": "us-south-1"}, "vpc": {"id": account.vpc}, "resource_group": {"id": group},
            "primary_network_attachment": {
                "virtual_network_interface": {"subnet": {"id": account.subnets[0]}, "auto_delete": true},
            },
        })
    }

    async fn buy(&mut self, prototype: Value) -> String {
        let made = self
            .cloud_says(Method::POST, "/v1/instances", &prototype.to_string())
            .await;
        self.see_cloud();
        made["id"].as_str().unwrap().to_owned()
    }

    /// Somebody deletes a machine.
    pub(in crate::sim) async fn delete_machine(&mut self, id: &str) {
        self.cloud_says(Method::DELETE, &format!("/v1/instances/{id}"), "")
            .await;
        self.see_cloud();
    }

    /// Sends something to the cloud that the history does not know of.
    pub(in crate::sim) async fn cloud_says(&self, method: Method, path: &str, body: &str) -> Value {
        let form = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey=demo-api-key";
        let token = http::Request::post("https://iam/identity/token")
            .body(Bytes::from(form))
            .unwrap();
        let token = self.cloud.exchange().exchange(token).await.unwrap();
        let token: Value = serde_json::from_slice(token.body()).unwrap();
        let kind = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(method)
            .header("content-type", kind)
            .uri(format!("https://vpc{path}?version=2026-06-30&generation=2"))
            .header(
                "authorization",
                format!("Bearer {}", token["access_token"].as_str().unwrap()),
            )
            .body(Bytes::from(body.to_owned()))
            .unwrap();
        let answer = self.cloud.exchange().exchange(request).await.unwrap();
        assert!(answer.status().is_success(), "{:?}", answer.body());
        serde_json::from_slice(answer.body()).unwrap_or_default()
    }

    /// Lets time pass.
    pub(in crate::sim) async fn pass(&mut self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
        self.see_cloud();
    }

    pub(in crate::sim) fn replica(number: usize) -> Who {
        Who::Replica { number, life: 0 }
    }

    /// Shows the judge what happened.
    pub(in crate::sim) fn happens(&mut self, who: Who, what: What) {
        let at = self.clock.instant() - self.started;
        let truth = Truth {
            kube: &self.server,
            cloud: &self.cloud,
            now: self.clock.now(),
            since_start: at,
        };
        self.judge.observe(&Entry { at, who, what }, &truth);
    }

    /// Lets the judge look at what changed in the cluster.
    pub(in crate::sim) fn look(&mut self) {
        self.happens(Who::World, What::Turn("looked".to_owned()));
    }

    /// Replica 0 reads the cloud, so that the judge looks at it too.
    pub(in crate::sim) fn see_cloud(&mut self) {
        let number = self.sends(0, Edge::Cloud, &Method::GET, "/v1/instances", "");
        self.hears(0, number, Some(200), "{}");
    }

    pub(in crate::sim) fn struck(&mut self, name: &'static str, detail: &str) {
        let detail = detail.to_owned();
        self.happens(Who::World, What::Fault { name, detail });
    }

    pub(in crate::sim) fn turns(&mut self, replica: usize, turn: &str) {
        self.happens(Self::replica(replica), What::Turn(turn.to_owned()));
    }

    /// A replica sends something; its number.
    pub(in crate::sim) fn sends(
        &mut self,
        replica: usize,
        edge: Edge,
        method: &Method,
        path: &str,
        body: &str,
    ) -> u64 {
        self.sends_asking(replica, edge, method, (path, ""), body)
    }

    /// A replica reads something of the cluster; its number.
    pub(in crate::sim) fn asks(&mut self, replica: usize, path: &str, query: &str) -> u64 {
        self.sends_asking(replica, Edge::Kube, &Method::GET, (path, query), "")
    }

    fn sends_asking(
        &mut self,
        replica: usize,
        edge: Edge,
        method: &Method,
        (path, query): (&str, &str),
        body: &str,
    ) -> u64 {
        self.requests += 1;
        let request = Request {
            number: self.requests,
            edge,
            method: method.clone(),
            path: path.to_owned(),
            query: query.to_owned(),
            hash: 0,
            body: Bytes::from(body.to_owned()),
        };
        self.happens(Self::replica(replica), What::Request(request));
        self.requests
    }

    /// A replica is answered.
    pub(in crate::sim) fn hears(&mut self, replica: usize, number: u64, status: Option<u16>, body: &str) {
        self.hears_again_in(replica, number, status, body, None);
    }

    /// A replica is answered, and told when to come again.
    pub(in crate::sim) fn hears_again_in(
        &mut self,
        replica: usize,
        number: u64,
        status: Option<u16>,
        body: &str,
        again: Option<&str>,
    ) {
        let answer = Answer {
            number,
            carried_out: CarriedOut::Yes,
            status,
            hash: 0,
            body: Bytes::from(body.to_owned()),
            retry_after: again.map(str::to_owned),
        };
        self.happens(Self::replica(replica), What::Answer(answer));
    }

    /// Which invariants were violated, in order.
    pub(in crate::sim) fn blamed(&self) -> Vec<&'static str> {
        self.judge
            .violations()
            .iter()
            .map(|violation| violation.id)
            .collect()
    }

    /// What is not as it must be after healing.
    pub(in crate::sim) fn unmet(&self) -> Vec<Violation> {
        let truth = Truth {
            kube: &self.server,
            cloud: &self.cloud,
            now: self.clock.now(),
            since_start: self.clock.instant() - self.started,
        };
        self.judge.unmet(&truth)
    }

    /// Looks at how things get well.
    pub(in crate::sim) fn looks(&mut self) {
        let truth = Truth {
            kube: &self.server,
            cloud: &self.cloud,
            now: self.clock.now(),
            since_start: self.clock.instant() - self.started,
        };
        self.judge.look(&truth);
    }

    /// Looks whether everything is still as it must be.
    pub(in crate::sim) fn ends(&mut self) {
        let truth = Truth {
            kube: &self.server,
            cloud: &self.cloud,
            now: self.clock.now(),
            since_start: self.clock.instant() - self.started,
        };
        self.judge.must_be_met(&truth);
    }

    /// Everything is as it must be, and must stay so.
    pub(in crate::sim) fn settles(&mut self) {
        let truth = Truth {
            kube: &self.server,
            cloud: &self.cloud,
            now: self.clock.now(),
            since_start: self.clock.instant() - self.started,
        };
        self.judge.settled(&truth);
    }
}
