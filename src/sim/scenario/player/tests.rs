//! Plays scenarios on an API server and a cloud that nothing else lives in: what the operator would do, the steps do.

use std::sync::{Mutex, PoisonError};

use super::*;
use crate::api::crd::definitions;
use crate::sim::ibm;
use crate::sim::kube::identity::Keys;
use crate::sim::kube::{ApiServer, Options, write};

struct Played {
    lines: Vec<String>,
    failure: Option<String>,
    crashes: Vec<Crash>,
    hands: Hands,
}

#[derive(Default)]
struct Listener(Vec<String>);

impl Audience for Listener {
    fn hear(&mut self, line: Line) {
        self.0.push(line.to_string());
    }
}

async fn played(steps: &str) -> Played {
    played_in(&format!("name: x\nabout: x\nsteps:\n{steps}")).await
}

async fn played_in(text: &str) -> Played {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
    let server = ApiServer::new(Options {
        clock: clock.clone(),
        seed: 1,
        keys: Keys::Fixed,
    });
    for definition in definitions().unwrap() {
        write::insert(&server, definition.object);
    }
    let crashes: Arc<Mutex<Vec<Crash>>> = Arc::default();
    let seen = crashes.clone();
    let hands = Hands {
        client: server.admin(),
        cloud: Cloud::new(ibm::Options::new("us-south", 1, clock.clone())),
        clock,
        crash: Arc::new(move |crash| seen.lock().unwrap().push(crash)),
        configuration: None,
        findings: Findings::default(),
    };
    let scenario = Scenario::parse("test.yaml", text).unwrap();
    let mut listener = Listener::default();
    let outcome = Player::new(&hands, &mut listener).play(&scenario).await;
    let crashes = crashes.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Played {
        lines: listener.0,
        failure: outcome.err().map(|failure| failure.to_string()),
        crashes,
        hands,
    }
}

const WEB: &str = "
  - at: 5s
    apply:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: a, image: a}]}
";

#[tokio::test(start_paused = true)]
async fn steps_happen_at_their_time_and_are_told() {
    let steps = format!(
        "  - say: Good morning.{WEB}  - at: 1m\n    scale: {{kind: Deployment, name: web, replicas: 3}}
  - at: 2m\n    delete: {{kind: Deployment, name: web}}\n"
    );
    let played = played(&steps).await;
    assert_eq!(played.failure, None);
    assert_eq!(
        played.lines,
        [
            "[00:00] Good morning.",
            "[00:05] > somebody applies Deployment web",
            "[01:00] > somebody scales Deployment web to 3",
            "[02:00] > somebody deletes Deployment web",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_bill_tells_what_was_paid_and_a_configuration_needs_a_file() {
    let played = played("  - bill: all\n  - configure: \"spotDiscountFactor: 0.5\"\n").await;
    assert_eq!(
        played.lines,
        [
            "[00:00] > the bill, at the prices of the cloud",
            "[00:00] = $0.0000 paid for 00:00 of spot and 00:00 on demand; all on demand $0.0000: 0 % saved",
        ]
    );
    let failure = played.failure.unwrap();
    assert!(
        failure.contains("the operator has no configuration file here"),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_happens_by_itself_is_told_when_it_is_seen() {
    let pod = "
  - at: 3s
    apply:
      apiVersion: v1
      kind: Pod
      metadata: {name: a}
      spec: {containers: [{name: a, image: a}]}
  - expect: {within: 5s, pods: 1 pending}
";
    let played = played(pod).await;
    assert_eq!(played.failure, None);
    assert_eq!(
        played.lines,
        [
            "[00:03] > somebody applies Pod a",
            "[00:03]   pod a waits for a node",
            "[00:03] = 1 pod pending"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_expectation_has_its_time_and_no_more() {
    let played = played("  - at: 10s\n    expect: {within: 30s, nodes: 1 ready}\n").await;
    assert_eq!(
        played.failure.as_deref(),
        Some("step 1 (line 4): expected 1 node ready within 30s, but there are no nodes")
    );
    let elapsed = played.hands.clock.now().to_string();
    assert_eq!(elapsed, "2026-11-16T10:00:40Z");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_cannot_be_done_says_why_and_where() {
    let table = [
        (
            "  - delete: {kind: NodeClaim, name: a}",
            "step 1 (line 4): deleting NodeClaim a: ",
        ),
        (
            "  - delete: {kind: Zebra, name: a}",
            "step 1 (line 4): the group of the kind Zebra is not known",
        ),
        (
            "  - delete: {apiVersion: zoo/v1, kind: Zebra, name: a}",
            "step 1 (line 4): asking what a Zebra is: ",
        ),
        (
            "  - preempt: {claim: a}",
            "step 1 (line 4): no claim holds the machine meant by claim a",
        ),
        (
            "  - stop-machine: {selector: a=b}",
            "step 1 (line 4): no claim holds the machine meant by a=b",
        ),
    ];
    for (steps, said) in table {
        let failure = played(steps).await.failure.unwrap_or_default();
        assert!(failure.starts_with(said), "{failure}\n{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_zone_of_another_region_than_that_of_the_cloud_is_refused_while_it_is_played() {
    let drain = "  - drain: {profile: bxf-4x16, zone: eu-de-1}\n";
    let played = played_in(&format!("name: x\nabout: x\nregion: eu-de\nsteps:\n{drain}")).await;
    let failure = played.failure.unwrap_or_default();
    assert!(
        failure.starts_with("step 1 (line 5): there is no zone \"eu-de-1\""),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_refuses_is_told_in_its_own_words_alone() {
    let played = played("  - delete: {kind: ConfigMap, name: nosuch}\n").await;
    let failure = played.failure.unwrap_or_default();
    assert!(
        failure.contains("deleting ConfigMap nosuch: ") && failure.contains("not found"),
        "{failure}"
    );
    assert!(
        !failure.contains("Status {") && !failure.contains("ApiError"),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_refused_is_named() {
    let zebra = "{apiVersion: zoo.example/v1, kind: Zebra, metadata: {name: a}}";
    let played = played_in(&format!("name: x\nabout: x\nobjects: [{zebra}]\nsteps: []\n")).await;
    let failure = played.failure.unwrap();
    assert!(
        failure.starts_with("Zebra a, one of the objects: asking what a Zebra is: "),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn faults_and_crashes_reach_those_they_are_for() {
    let steps = "
  - fault: {kind: lost-create, times: 2, operation: instances.create}
  - fault: {kind: rate-limit, for: 1m, percent: 20}
  - crash: {after-effects: 3}
";
    let played = played(steps).await;
    let crash = Crash {
        replica: 0,
        after_effects: 3,
    };
    assert_eq!(played.crashes, [crash]);
    let faults = played.hands.cloud.faults();
    let active: Vec<&str> = faults.active().iter().map(|fault| fault.kind.as_str()).collect();
    assert_eq!(active, ["lost-create", "rate-limit"]);
    played.hands.clock.sleep(Duration::from_mins(2)).await;
    assert_eq!(faults.active().len(), 1, "the one with an end has ended");
}

/// A claim that holds a spot machine, made by hand.
async fn holding(hands: &Hands) {
    let account = hands.cloud.account();
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": "a", "labels": { "team": "x" } },
        "spec": {
            "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }],
            "nodeClassRef": { "group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default" },
        },
    });
    apply(&hands.client, &claim).await.unwrap();
    let claims: Api<crate::api::NodeClaim> = Api::all(hands.client.clone());
    let uid = claims.get("a").await.unwrap().metadata.uid.unwrap();
    let name = format!("kib-00000000-{}", uid.replace('-', ""));
    let body = json!({
        "name": name, "profile": { "name": "bxf-4x16" }, "zone": { "name": account.zones[0] },
        "vpc": { "id": account.vpc }, "image": { "id": account.image }, "keys": [{ "id": account.key }],
        "availability": { "class": "spot" }, "availability_policy": { "preemption": "stop" },
        "reservation_affinity": { "policy": "disabled" },
        "primary_network_attachment": { "virtual_network_interface": { "subnet": { "id": account.subnets[0] } } },
    });
    create(&hands.cloud, &body).await;
    let allocation = json!({
        "profile": "bxf-4x16", "zone": account.zones[0], "capacityType": "spot", "subnet": account.subnets[0],
        "instanceName": name, "attempt": 1, "since": "2026-11-16T10:00:00Z",
    });
    let status = Patch::Merge(json!({ "status": { "allocation": allocation } }));
    claims
        .patch_status("a", &PatchParams::default(), &status)
        .await
        .unwrap();
}

/// Sends a create to the cloud over its router, as a client would.
async fn create(cloud: &Cloud, body: &Value) {
    use tower::ServiceExt;
    let send = async |path: &str, body: String, kind: &str, token: &str| {
        let request = http::Request::post(path)
            .header("content-type", kind)
            .header("authorization", format!("Bearer {token}"))
            .body(axum::body::Body::from(body))
            .unwrap();
        let answer = cloud.router().oneshot(request).await.unwrap();
        let status = answer.status();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        assert!(
            status.is_success(),
            "{status} {}",
            String::from_utf8_lossy(&bytes)
        );
        serde_json::from_slice::<Value>(&bytes).unwrap()
    };
    let grant = "grant_type=urn:ibm:params:oauth:grant-type:apikey&apikey=demo-api-key".to_owned();
    let form = "application/x-www-form-urlencoded";
    let token = send("/identity/token", grant, form, "").await["access_token"].clone();
    let path = "/v1/instances?version=2026-07-01&generation=2";
    send(
        path,
        body.to_string(),
        "application/json",
        token.as_str().unwrap(),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_found_by_its_claim_and_by_labels() {
    for step in ["preempt: {claim: a}", "preempt: {selector: team=x}"] {
        let hands = played("  []").await.hands;
        holding(&hands).await;
        hands.clock.sleep(Duration::from_mins(5)).await;
        let text = format!(
            "name: x\nabout: x\nsteps:\n  - {step}\n  - expect: {{within: 2m, machines: 1 stopped}}\n"
        );
        let scenario = Scenario::parse("test.yaml", &text).unwrap();
        let mut listener = Listener::default();
        Player::new(&hands, &mut listener).play(&scenario).await.unwrap();
        let lines = listener.0;
        let said = |text: &str| lines.iter().any(|line| line.contains(text));
        assert!(said("IBM preempts the machine of a"), "{lines:?}");
        assert!(
            said("the machine of a is stopped: stopped_by_preemption"),
            "{lines:?}"
        );
    }
}
