//! The allocation as the single source of truth: one write records the decision, nothing copies it, and nothing cleans
//! it up.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use karpenter_ibm::controllers::context::ClusterAccess;
use karpenter_ibm::operator::Settings;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::effects::Effects;
use super::{NAMESPACE, World, audited, while_working};

/// Settings under which machines that are booted know the cluster.
pub(super) fn settings(world: &World, identity: &str) -> Settings {
    let mut settings = World::settings(identity);
    settings.controllers.cluster = Some(ClusterAccess {
        endpoint: "https://cluster.example:6443".to_owned(),
        authority: world.kube.identity().root_certificate(),
        dns: Vec::new(),
    });
    settings
}

/// The writes to the claim `a`, in order.
fn writes(effects: &Effects) -> Vec<String> {
    let log = effects.log();
    let of_claim = log.into_iter().filter_map(|(method, path)| {
        let part = path.split_once("/nodeclaims/a")?.1;
        Some(format!("{method} claim{part}"))
    });
    of_claim.collect()
}

#[tokio::test(start_paused = true)]
async fn one_write_records_the_decision_with_the_credential_and_deletion_cleans_nothing_up() {
    let world = World::new();
    let effects = Effects::without_end();
    let edges = effects.around(world.edges());
    while_working(audited::factory(settings(&world, "one"))(edges), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let claim = world.read("a").await.unwrap();
        let allocation = claim.status.unwrap().allocation.unwrap();
        let credentials = allocation.credentials.unwrap();
        assert_eq!((credentials.len(), credentials[0].attempt), (1, 1));
        let before = writes(&effects);
        let expected = [
            "PATCH claim",        // the finalizer
            "PATCH claim/status", // the decision
            "PATCH claim/status", // the machine's id
            "PATCH claim",        // its labels
            "PATCH claim/status", // launched
        ];
        assert_eq!(before, expected);
        let [machine] = world.living().try_into().unwrap();
        let document = machine.user_data.unwrap();
        assert!(document.starts_with("#cloud-config") && document.contains("https://cluster.example:6443"));
        world.delete("a").await;
        world.until_gone("a").await;
        let after = writes(&effects).split_off(before.len());
        let expected = [
            "PATCH claim", // the machine is seen nowhere
            "PATCH claim", // the finalizer goes, and with it the claim and its allocation
        ];
        assert_eq!(after, expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_node_bears_an_annotation_of_ours() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.join("a").await;
        world.until_registered("a").await;
        let nodes: Api<Node> = Api::all(world.kube.admin());
        let node = nodes.get("a").await.unwrap();
        assert!(node.annotations().is_empty(), "{:?}", node.annotations());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_leader_holds_the_leases_of_all_zones_and_after_a_crash_they_move_on_within_twenty_seconds() {
    let world = World::new();
    let leases: Api<Lease> = Api::namespaced(world.kube.admin(), NAMESPACE);
    let holders = async || {
        let all = leases.list(&ListParams::default()).await.unwrap();
        let zones = all
            .items
            .into_iter()
            .filter(|lease| lease.name_any().starts_with("karpenter-ibm-allocator-us-south-"));
        let holders: Vec<Option<String>> = zones.map(|it| it.spec?.holder_identity).collect();
        holders
    };
    let by = |replica: &str| vec![Some(format!("{NAMESPACE}/{replica}")); 3];
    let two = world.replica_named("two");
    let story = async {
        let first = async {
            world
                .until("held", Duration::from_secs(5), async || {
                    holders().await == by("one")
                })
                .await;
        };
        while_working(world.replica_named("one"), first).await;
        world
            .until("moved on", Duration::from_secs(20), async || {
                holders().await == by("two")
            })
            .await;
    };
    // The second waits from the beginning, a moment behind.
    let waiting = async {
        world.clock.sleep(Duration::from_secs(1)).await;
        two.await;
    };
    while_working(waiting, story).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_join_ends_its_claim_and_what_is_known_is_told() {
    let world = World::new();
    let replica = audited::factory(settings(&world, "one"))(world.edges());
    while_working(replica, async {
        world.claim("a").await;
        world.until_launched("a").await;
        let launched = world.clock.instant();
        world
            .until("gone", Duration::from_mins(20), async || {
                world.read("a").await.is_none()
            })
            .await;
        let took = world.clock.instant() - launched;
        assert!(
            took >= Duration::from_mins(15) && took < Duration::from_mins(18),
            "{took:?}"
        );
        let note = world.note("RegistrationTimeout").await.unwrap();
        assert!(
            note.contains("the machine runs; no certificate request was seen"),
            "{note}"
        );
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}
