//! What else becomes of machines, in this process.

use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use karpenter_ibm::api::CapacityType;
use karpenter_ibm::sim::actors::kubelet::behavior::{Behavior, Oddity};
use karpenter_ibm::sim::actors::machines::MachineOptions;
use karpenter_ibm::sim::ibm::{HostFailure, Options};
use karpenter_ibm::sim::kube::ApiServer;
use karpenter_ibm::sim::kube::identity::Keys;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::{REGION, URL, World, embedded, within, world};

#[tokio::test(start_paused = true)]
async fn a_machine_with_a_wrong_token_never_joins_and_says_why() {
    let (world, _server) = world(1).await;
    let wrong = world
        .user_data("node-a")
        .await
        .replace(r#"\"token\": \""#, r#"\"token\": \"x"#);
    let id = world.create("node-a", &wrong).await;
    world.clock.sleep(Duration::from_mins(30)).await;
    assert_eq!(world.ready("node-a").await, None);
    assert!(
        world.consoles.mentions(&id, "Unauthorized"),
        "{:?}",
        world.consoles.read(&id)
    );
}

#[tokio::test(start_paused = true)]
async fn whatever_keeps_a_machine_from_joining_is_on_its_console() {
    let (world, _server) = world(1).await;
    let good = world.user_data("node-a").await;
    let cases = [
        (
            "empty",
            "#cloud-config\n{}\n".to_owned(),
            "nothing starts a kubelet",
        ),
        ("nonsense", "hello".to_owned(), "cloud-init: unhandled user data"),
        (
            "elsewhere",
            good.replace(URL, "https://10.0.0.9:6443"),
            "connection refused",
        ),
        (
            "no-config",
            good.replace(
                r#""path": "/etc/kubernetes/kubelet.yaml""#,
                r#""path": "/x.yaml""#,
            ),
            "failed to load kubelet config file",
        ),
        (
            "bad-flag",
            good.replace("--hostname-override", "--hostname"),
            "unknown flag: --hostname",
        ),
    ];
    let mut ids = Vec::new();
    for (name, user_data, expected) in cases {
        ids.push((world.create(name, &user_data).await, expected));
    }
    world.clock.sleep(Duration::from_mins(10)).await;
    for (id, expected) in ids {
        assert!(
            world.consoles.mentions(&id, expected),
            "{:?}",
            world.consoles.read(&id)
        );
    }
    assert_eq!(
        world
            .nodes()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_on_a_failed_host_comes_back_with_its_disk_and_asks_for_nothing() {
    let (world, _server) = world(1).await;
    let id = world.create_node("node-a").await;
    world.until_ready("node-a").await;
    world.bind_pod("web", "node-a", json!({})).await;
    world.clock.sleep(Duration::from_mins(1)).await;
    world.cloud.fail_host(&id, Some(HostFailure::Restart)).unwrap();
    let last = world.renewed("node-a").await;
    world.clock.sleep(Duration::from_secs(12)).await;
    assert_eq!(
        world.renewed("node-a").await,
        last,
        "a machine that is off says nothing"
    );
    world.clock.sleep(Duration::from_mins(3)).await;
    assert!(world.renewed("node-a").await > last);
    world.until_ready("node-a").await;
    let requests: Api<CertificateSigningRequest> = Api::all(world.client.clone());
    assert_eq!(
        requests.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
    let pod = world.pods().get("web").await.unwrap().status.unwrap();
    assert_eq!(pod.container_statuses.unwrap()[0].restart_count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_machine_is_silent_from_that_moment_on() {
    let (world, _server) = world(1).await;
    let id = world.create_node("node-a").await;
    world.until_ready("node-a").await;
    world
        .call("DELETE", &format!("/v1/instances/{id}"), &Value::Null)
        .await;
    assert_eq!(world.cloud.instance(&id).unwrap().status, "deleting");
    world.clock.sleep(Duration::from_millis(1)).await;
    let last = world.renewed("node-a").await;
    world.clock.sleep(Duration::from_mins(5)).await;
    assert_eq!(world.renewed("node-a").await, last);
    assert_eq!(
        world.ready("node-a").await.unwrap().0,
        "True",
        "nobody was there to say otherwise"
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_grace_period_a_stopped_machine_says_nothing_any_more() {
    let (world, _server) = world(1).await;
    let abrupt = world.release.user_data("node-a", CapacityType::OnDemand).await;
    world.create("node-a", &abrupt).await;
    world.until_ready("node-a").await;
    world.cloud.preempt("node-a").unwrap();
    world.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(world.ready("node-a").await.unwrap().0, "True");
}

#[tokio::test(start_paused = true)]
async fn machines_misbehave_as_they_are_told() {
    let (server, clock) = embedded(1);
    let machines = MachineOptions::new(1, Keys::Fixed);
    let oddities = machines.oddities.clone();
    let options = Options::new(REGION, 1, clock);
    let world = World::new(within(&server), options, machines).await;
    let odd = |behavior| {
        oddities.add(
            1,
            Oddity {
                behavior,
                percent: 100,
                left: None,
            },
        );
    };
    odd(Behavior::NeverJoins);
    world.create_node("node-never").await;
    world.clock.sleep(Duration::from_mins(4)).await;
    odd(Behavior::LessMemory { percent: 20 });
    world.create_node("node-less").await;
    world.until_ready("node-less").await;
    odd(Behavior::Flaps { every: 60, lasts: 30 });
    world.create_node("node-flaps").await;
    world.until_ready("node-flaps").await;
    world
        .until("it is not ready", Duration::from_secs(61), async || {
            world.ready("node-flaps").await.unwrap().0 == "False"
        })
        .await;
    world
        .until("it is ready again", Duration::from_secs(31), async || {
            world.ready("node-flaps").await.unwrap().0 == "True"
        })
        .await;
    oddities.remove(1);
    for _ in 0..20 {
        world.clock.sleep(Duration::from_secs(10)).await;
        assert_eq!(
            world.ready("node-flaps").await.unwrap().0,
            "True",
            "flapping is over"
        );
    }
    assert_eq!(world.ready("node-never").await, None);
    let less = world
        .nodes()
        .get("node-less")
        .await
        .unwrap()
        .status
        .unwrap()
        .capacity
        .unwrap();
    let kib: u64 = less["memory"].0.trim_end_matches("Ki").parse().unwrap();
    assert!(kib < 8 * 1024 * 1024 * 80 / 100, "{kib}");
}

/// Ten nodes for a while: how often the cluster was written to, and all that is left in it.
async fn ten_nodes(seed: u64, lasts: Duration) -> (u64, Vec<Value>) {
    let (world, server) = world(seed).await;
    for number in 0..10 {
        let name = format!("node-{number}");
        world.create_node(&name).await;
    }
    world.clock.sleep(Duration::from_mins(4)).await;
    let before = revision(&server);
    world.clock.sleep(lasts).await;
    let written = revision(&server) - before;
    let state = server.state();
    let mut left = Vec::new();
    for table in state.store.tables() {
        left.extend(state.store.list(table, None).map(|stored| stored.value()));
    }
    (written, left)
}

fn revision(server: &ApiServer) -> u64 {
    server.state().store.revision()
}

#[tokio::test(start_paused = true)]
async fn ten_quiet_nodes_cost_little_more_than_their_leases() {
    let (written, _) = ten_nodes(7, Duration::from_mins(20)).await;
    // 120 renewals and 4 reports each.
    assert!((1200..=1250).contains(&written), "{written}");
}

#[tokio::test(start_paused = true)]
async fn one_seed_is_one_history() {
    let first = ten_nodes(7, Duration::from_mins(1)).await;
    let second = ten_nodes(7, Duration::from_mins(1)).await;
    assert!(first == second, "the same seed left another cluster behind");
}
