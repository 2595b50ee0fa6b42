use std::sync::{Arc, Mutex};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tower::util::MapRequestLayer;
use tower::{BoxError, ServiceBuilder};

use super::*;
use crate::api::NodeClaim;
use crate::api::crd::definitions;
use crate::clock::Clock;
use crate::sim::actors::kubelet::behavior::{Behavior, Oddities};
use crate::sim::faults::{Desk, Fault, Injection, Parts};
use crate::sim::history::{CarriedOut, What};
use crate::sim::ibm::{self, Cloud};
use crate::sim::kube::identity::{Keys, User};
use crate::sim::kube::{ApiServer, Options};

const OPERATOR: &str = "operator";

struct Bench {
    server: ApiServer,
    desk: Desk,
    clock: Clock,
    told: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new() -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock: clock.clone(),
            seed: 1,
            keys: Keys::Fixed,
        });
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&told);
        let desk = Desk::new(Parts {
            server: server.clone(),
            cloud: Cloud::new(ibm::Options::new("us-south", 1, clock.clone())),
            operator: OPERATOR.to_owned(),
            clocks: [(); 2]
                .map(|()| Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap()))
                .to_vec(),
            oddities: Oddities::default(),
            api_key: "demo-api-key".to_owned(),
            key_file: None,
            sink: Arc::new(move |what| {
                if let What::Fault { name, detail } = what {
                    heard.lock().unwrap().push(format!("{name} {detail}"));
                }
            }),
            witness: Arc::new(|_| Box::new(|_, _| {})),
        });
        Self {
            server,
            desk,
            clock,
            told,
        }
    }

    /// The operator's client.
    fn client(&self) -> Client {
        let user = User::named(OPERATOR, &["system:masters"]);
        let service = ServiceBuilder::new()
            .layer(MapRequestLayer::new(
                move |mut request: http::Request<kube::client::Body>| {
                    request.extensions_mut().insert(user.clone());
                    request
                },
            ))
            .layer(Layer::new(self.desk.clone()))
            .map_err(BoxError::from)
            .service(self.server.router());
        Client::new(service, "default")
    }

    fn configs(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client())
    }

    async fn start(&self, fault: KubeFault) -> Injection {
        let injection = injection(Fault::Kube(fault));
        self.desk.start(&injection).await;
        injection
    }

    async fn stored(&self, name: &str) -> bool {
        let configs: Api<ConfigMap> = Api::default_namespaced(self.server.admin());
        configs.get_opt(name).await.unwrap().is_some()
    }
}

fn injection(fault: Fault) -> Injection {
    Injection {
        at: Duration::ZERO,
        lasts: Duration::ZERO,
        stream: 5,
        fault,
    }
}

fn config(name: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.to_owned());
    config
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

fn lost(error: kube::Error) -> CarriedOut {
    let kube::Error::Service(error) = error else {
        panic!("{error}")
    };
    error.downcast_ref::<Lost>().unwrap().carried_out
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_write_and_a_lost_write_leaves_nothing() {
    let bench = Bench::new();
    let params = PostParams::default();
    bench.start(KubeFault::new(KubeKind::AnswerLost).times(1)).await;
    let error = bench.configs().create(&params, &config("a")).await.unwrap_err();
    assert_eq!(lost(error), CarriedOut::Yes);
    assert!(bench.stored("a").await);
    bench.start(KubeFault::new(KubeKind::WriteLost).times(1)).await;
    let error = bench.configs().create(&params, &config("b")).await.unwrap_err();
    assert_eq!(lost(error), CarriedOut::No);
    assert!(!bench.stored("b").await);
    let told = bench.told.lock().unwrap().clone();
    assert_eq!(
        told,
        [
            "k2-answer-lost create configmaps",
            "k2-write-lost create configmaps"
        ]
    );
    let struck: Vec<_> = bench.desk.struck().into_iter().collect();
    assert_eq!(struck, [("k2-answer-lost", 1), ("k2-write-lost", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_server_error_after_the_effect_is_not_one_before() {
    let bench = Bench::new();
    let params = PostParams::default();
    bench.start(KubeFault::new(KubeKind::ServerError).times(1)).await;
    let error = bench.configs().create(&params, &config("a")).await.unwrap_err();
    assert!(code(&error) >= 500 && !bench.stored("a").await, "{error}");
    bench
        .start(KubeFault::new(KubeKind::ServerErrorAfter).times(1))
        .await;
    let error = bench.configs().create(&params, &config("a")).await.unwrap_err();
    assert!(code(&error) >= 500 && bench.stored("a").await, "{error}");
    // What is refused anyway is, and nothing else has gone wrong.
    bench.start(KubeFault::new(KubeKind::ServerErrorAfter)).await;
    let error = bench.configs().create(&params, &config("a")).await.unwrap_err();
    assert_eq!(code(&error), 409, "{error}");
    let told = bench.told.lock().unwrap().clone();
    assert_eq!(
        told,
        [
            "k4-server-error create configmaps",
            "k4-server-error-after create configmaps"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn only_writes_that_name_a_version_conflict() {
    let bench = Bench::new();
    let made = bench
        .configs()
        .create(&PostParams::default(), &config("a"))
        .await
        .unwrap();
    bench.start(KubeFault::new(KubeKind::Conflict)).await;
    let params = PatchParams::default();
    let patch = |version: Option<&String>| {
        Patch::Merge(json!({"metadata": {"resourceVersion": version}, "data": {"a": "b"}}))
    };
    let version = made.metadata.resource_version.as_ref();
    let error = bench
        .configs()
        .patch("a", &params, &patch(version))
        .await
        .unwrap_err();
    assert_eq!(code(&error), 409);
    bench.configs().patch("a", &params, &patch(None)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reads_pass_where_writes_fail() {
    let bench = Bench::new();
    let injection = bench.start(KubeFault::new(KubeKind::WritesFail)).await;
    bench.configs().list(&ListParams::default()).await.unwrap();
    let create = || async { bench.configs().create(&PostParams::default(), &config("a")).await };
    let refused = code(&create().await.unwrap_err());
    assert!(refused == 429 || refused >= 500, "{refused}");
    bench.desk.stop(&injection).await;
    create().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_one_resource_leaves_the_others_alone() {
    let bench = Bench::new();
    bench
        .start(KubeFault::new(KubeKind::Unreachable).on("secrets"))
        .await;
    bench.configs().list(&ListParams::default()).await.unwrap();
    bench.start(KubeFault::new(KubeKind::Unreachable)).await;
    let error = bench.configs().list(&ListParams::default()).await.unwrap_err();
    assert_eq!(lost(error), CarriedOut::No);
}

#[tokio::test(start_paused = true)]
async fn admission_refuses_as_a_webhook_or_a_rule_does() {
    let bench = Bench::new();
    bench.start(KubeFault::new(KubeKind::AdmissionRejects)).await;
    let mut codes = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let refused = bench.configs().create(&PostParams::default(), &config("a")).await;
        codes.insert(code(&refused.unwrap_err()));
    }
    assert_eq!(codes.into_iter().collect::<Vec<_>>(), [403, 422]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_does_not_take_its_write_along() {
    let bench = Bench::new();
    bench
        .start(KubeFault::new(KubeKind::Slow).delay(Duration::from_secs(5)))
        .await;
    let (configs, params, made) = (bench.configs(), PostParams::default(), config("a"));
    let write = configs.create(&params, &made);
    assert!(tokio::time::timeout(Duration::from_secs(1), write).await.is_err());
    assert!(!bench.stored("a").await);
    bench.clock.sleep(Duration::from_secs(5)).await;
    assert!(bench.stored("a").await);
}

#[tokio::test(start_paused = true)]
async fn watches_are_held_back_for_the_operator_alone_and_go_on_afterwards() {
    let bench = Bench::new();
    let injection = bench
        .start(KubeFault::new(KubeKind::BookmarksOnly).on("configmaps"))
        .await;
    let admin: Api<ConfigMap> = Api::default_namespaced(bench.server.admin());
    let seen = |configs: Api<ConfigMap>| async move {
        let params = WatchParams::default().timeout(10);
        let events: Vec<_> = configs
            .watch(&params, "1")
            .await
            .unwrap()
            .boxed()
            .try_collect()
            .await
            .unwrap();
        events
            .into_iter()
            .filter(|event| matches!(event, WatchEvent::Added(config) if config.metadata.name.as_deref() == Some("a")))
            .count()
    };
    admin.create(&PostParams::default(), &config("a")).await.unwrap();
    assert_eq!(seen(bench.configs()).await, 0);
    assert_eq!(seen(admin).await, 1);
    bench.desk.stop(&injection).await;
    assert_eq!(seen(bench.configs()).await, 1);
}

/// The kinds that strike watches and lists.
const WATCHES: [KubeKind; 9] = [
    KubeKind::WatchClosed,
    KubeKind::WatchExpired,
    KubeKind::BookmarksOnly,
    KubeKind::PagesForgotten,
    KubeKind::TimeTravel,
    KubeKind::Lag,
    KubeKind::Coalesced,
    KubeKind::Duplicates,
    KubeKind::Reordered,
];

#[tokio::test(start_paused = true)]
async fn a_watch_fault_that_meets_nobody_did_not_strike() {
    for kind in WATCHES {
        let bench = Bench::new();
        let admin: Api<ConfigMap> = Api::default_namespaced(bench.server.admin());
        let mut others = std::pin::pin!(admin.watch(&WatchParams::default(), "1").await.unwrap());
        let injection = bench
            .start(KubeFault::new(kind).delay(Duration::from_secs(2)))
            .await;
        // Things happen, others watch them, and the operator is not there.
        admin.create(&PostParams::default(), &config("a")).await.unwrap();
        others.try_next().await.unwrap();
        bench.configs().list(&ListParams::default()).await.unwrap();
        bench.desk.stop(&injection).await;
        assert!(bench.desk.struck().is_empty(), "{kind:?}");
        assert!(bench.told.lock().unwrap().is_empty(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_fault_strikes_where_it_meets_the_operator() {
    for kind in WATCHES {
        let bench = Bench::new();
        let nodes: Api<Node> = Api::all(bench.server.admin());
        let mut node = Node::default();
        for name in ["a", "b", "c", "d", "e"] {
            node.metadata.name = Some(name.to_owned());
            nodes.create(&PostParams::default(), &node).await.unwrap();
        }
        let seen = watcher(Api::<Node>::all(bench.client()), watcher::Config::default());
        let following = tokio::spawn(seen.default_backoff().for_each(|_| async {}));
        bench.clock.sleep(Duration::from_secs(1)).await;
        bench
            .start(KubeFault::new(kind).delay(Duration::from_secs(2)))
            .await;
        // A stream that was ended is opened anew after a moment of chance.
        bench.clock.sleep(Duration::from_secs(20)).await;
        node.metadata.name = Some("f".to_owned());
        nodes.create(&PostParams::default(), &node).await.unwrap();
        nodes.delete("f", &DeleteParams::default()).await.unwrap();
        bench.clock.sleep(Duration::from_secs(5)).await;
        let struck = bench.desk.struck();
        let name = crate::sim::faults::FaultName::Kube(kind).as_str();
        assert!(
            struck.len() == 1 && struck.contains_key(name),
            "{kind:?}: {struck:?}"
        );
        following.abort();
    }
}

async fn claim(bench: &Bench) -> NodeClaim {
    let kinds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(bench.server.admin());
    for definition in definitions().unwrap() {
        let definition = serde_json::from_value(definition.object).unwrap();
        kinds.create(&PostParams::default(), &definition).await.unwrap();
    }
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
        "spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
        },
    });
    let claim = serde_json::from_value(claim).unwrap();
    let claims: Api<NodeClaim> = Api::all(bench.server.admin());
    claims.create(&PostParams::default(), &claim).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn whatever_may_lag_is_known_to_the_server() {
    let bench = Bench::new();
    claim(&bench).await;
    for plural in crate::sim::faults::draw::watched() {
        let table = watches::table(plural);
        let state = bench.server.state();
        let kind = state.registry.by_plural(&table.group, &table.plural);
        assert!(kind.is_some(), "{table:?}");
    }
}

fn allocation() -> serde_json::Value {
    json!({"status": {"nodeName": "n", "allocation": {
        "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "spot", "attempt": 1,
        "subnet": "0717-b28a5d3c-6d1c-4a1e-9d7c-0a1b2c3d4e5f", "instanceName": "kib-1", "since": "2026-11-16T10:00:00Z",
    }}})
}

#[tokio::test(start_paused = true)]
async fn an_older_definition_drops_what_we_add_and_the_right_one_comes_back() {
    let bench = Bench::new();
    claim(&bench).await;
    let claims: Api<NodeClaim> = Api::all(bench.client());
    let write = || async {
        let patch = Patch::Merge(allocation());
        let claim = claims
            .patch_status("a", &PatchParams::default(), &patch)
            .await
            .unwrap();
        claim.status.unwrap().allocation.is_some()
    };
    let injection = bench.start(KubeFault::new(KubeKind::OldDefinition)).await;
    assert!(!write().await);
    bench.desk.stop(&injection).await;
    assert!(write().await);
}

#[tokio::test(start_paused = true)]
async fn a_newer_definition_adds_what_nobody_knows() {
    let bench = Bench::new();
    claim(&bench).await;
    bench.start(KubeFault::new(KubeKind::NewDefinition)).await;
    let claims: Api<NodeClaim> = Api::all(bench.client());
    let patch = Patch::Merge(allocation());
    let params = PatchParams::default();
    let read = claims.patch_status("a", &params, &patch).await.unwrap();
    assert!(read.status.unwrap().allocation.is_some());
    let state = bench.server.state();
    let stored = state
        .store
        .list(&watches::table("nodeclaims"), None)
        .next()
        .unwrap();
    assert!(
        stored.value()["status"]["futureVerdict"].is_string(),
        "{}",
        stored.value()
    );
}

#[tokio::test(start_paused = true)]
async fn the_latest_skew_holds_and_the_servers_clock_is_right() {
    let bench = Bench::new();
    let operator = bench.desk.parts().clocks[0].clone();
    let ahead = || operator.now().duration_since(bench.clock.now()).as_secs();
    let injections: Vec<_> = [60, -30]
        .map(|seconds| {
            injection(Fault::Skew {
                seconds,
                replica: None,
            })
        })
        .into_iter()
        .collect();
    bench.desk.start(&injections[0]).await;
    assert_eq!(ahead(), 60);
    bench.desk.start(&injections[1]).await;
    assert_eq!(ahead(), -30);
    bench.desk.stop(&injections[1]).await;
    assert_eq!(ahead(), 60);
    bench.desk.clear().await;
    assert_eq!(ahead(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_clocks_of_two_replicas_are_wrong_each_in_its_own_way() {
    let bench = Bench::new();
    let ahead = || {
        let clocks = bench.desk.parts().clocks.iter();
        let ahead = clocks.map(|clock| clock.now().duration_since(bench.clock.now()).as_secs());
        ahead.collect::<Vec<i64>>()
    };
    let skewed = |seconds, replica| injection(Fault::Skew { seconds, replica });
    let second = skewed(-30, Some(1));
    bench.desk.start(&skewed(60, None)).await;
    assert_eq!(ahead(), [60, 60]);
    bench.desk.start(&second).await;
    assert_eq!(ahead(), [60, -30]);
    bench.desk.stop(&second).await;
    assert_eq!(ahead(), [60, 60]);
    bench.desk.clear().await;
    assert_eq!(ahead(), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn machines_are_odd_for_as_long_as_it_is_on_and_each_is_told() {
    let bench = Bench::new();
    let oddities = bench.desk.parts().oddities.clone();
    let never = injection(Fault::Machine {
        behavior: Behavior::NeverJoins,
        machines: 1,
    });
    bench.desk.start(&never).await;
    let mut rng = fastrand::Rng::with_seed(1);
    let mut odd = 0;
    for _ in 0..20 {
        odd += oddities.draw("kib-1", &mut rng).len();
    }
    assert_eq!(odd, 1);
    assert_eq!(bench.desk.struck().get("n1-never-joins"), Some(&1));
    assert_eq!(bench.told.lock().unwrap().last().unwrap(), "n1-never-joins kib-1");
    let another = Injection { stream: 8, ..never };
    bench.desk.start(&another).await;
    bench.desk.clear().await;
    for _ in 0..20 {
        assert_eq!(oddities.draw("kib-2", &mut rng), []);
    }
}
