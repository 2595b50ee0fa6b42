//! Bad input: each row of what may be written or answered wrongly, and the reaction to it. Nothing is bought or deleted
//! for it, it is told why, and others go on.
//!
//! Rows that concern one value only stand beside that value: classes in `classes.rs`, tags and user data in
//! `controllers/node_class`, pages and headers in `ibm/http`.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use karpenter_ibm::sim::ibm::{Fault, FaultKind, InstanceTruth};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{World, audited, joining, while_working};

impl World {
    /// A machine of another cluster, alive, in the very resource group that is ours too.
    async fn machine_of_a_twin(&self) -> InstanceTruth {
        let twin = self.twin();
        while_working(twin.replica(), async {
            twin.claim("theirs").await;
            twin.until_launched("theirs").await;
        })
        .await;
        let [theirs] = self.living().try_into().unwrap();
        theirs
    }
}

/// Row "NodeClaim hand-made, without pool, with foreign provider id, edited status".
#[tokio::test(start_paused = true)]
async fn a_claim_whose_status_names_a_foreign_machine_neither_gets_it_nor_deletes_it() {
    let world = World::new();
    let foreign = world.machine_of_a_twin().await;
    let launched = json!({"type": "Launched", "status": "True", "reason": "Launched", "message": "",
        "lastTransitionTime": "2026-11-16T10:00:00Z"});
    for (name, conditions) in [("recorded", json!([])), ("launched", json!([launched]))] {
        world.claim(name).await;
        let edited = json!({"status": {
            "providerID": format!("ibm:///us-south/{}", foreign.id),
            "conditions": conditions,
            "allocation": {
                "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "spot", "attempt": 1,
                "subnet": foreign.subnet, "instanceName": foreign.name, "instanceID": foreign.id,
                "since": "2026-11-16T09:00:00Z",
            },
        }});
        let params = PatchParams::default();
        let patched = world
            .claims()
            .patch_status(name, &params, &Patch::Merge(edited))
            .await;
        patched.unwrap();
    }
    while_working(world.replica(), async {
        world.clock.sleep(Duration::from_mins(3)).await;
        for name in ["recorded", "launched"] {
            if world.read(name).await.is_some() {
                world.delete(name).await;
            }
        }
        for name in ["recorded", "launched"] {
            world.until_gone(name).await;
        }
        world.clock.sleep(Duration::from_mins(6)).await;
        let [left] = world.cloud.instances().try_into().unwrap();
        assert_eq!((left.id, left.name), (foreign.id.clone(), foreign.name.clone()));
    })
    .await;
}

/// Row "NodeClaim hand-made, without pool".
#[tokio::test(start_paused = true)]
async fn a_claim_without_a_pool_is_bought_for_like_any_other() {
    let world = World::new();
    let claim = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
        "spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            "requirements": [],
        },
    }));
    let made = world
        .claims()
        .create(&PostParams::default(), &claim.unwrap())
        .await;
    made.unwrap();
    while_working(world.replica(), async {
        world.until_launched("a").await;
        world.delete("a").await;
        world.until_gone("a").await;
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

/// Row "Node with our labels but no VM; with another cluster's id; name collision".
#[tokio::test(start_paused = true)]
async fn nodes_that_only_look_like_ours_are_left_alone_and_told_of() {
    let world = World::new();
    let theirs = world.machine_of_a_twin().await;
    let of_twin = format!("ibm:///us-south/{}", theirs.id);
    let nodes: Api<Node> = Api::all(world.kube.admin());
    let ours = json!({"karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true",
        "karpenter-ibm.sh/ibmnodeclass": "default"});
    for (name, provider_id) in [
        (
            "no-machine",
            "ibm:///us-south/0717_00000000-0000-4000-8000-000000000000",
        ),
        (
            "elsewhere",
            "ibm:///eu-de/02c7_00000000-0000-4000-8000-000000000000",
        ),
        ("other-cloud", "aws:///us-east-1a/i-0123"),
        ("twins", &of_twin),
    ] {
        let node = json!({"metadata": {"name": name, "labels": ours}, "spec": {"providerID": provider_id}});
        let node = serde_json::from_value(node).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    while_working(world.replica(), async {
        // A claim of the same name as a node that is somebody else's.
        world.clock.sleep(Duration::from_secs(2)).await;
        world.claim("other-cloud").await;
        world.until_launched("other-cloud").await;
        let address = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.1.1.1"}]}});
        let params = PatchParams::default();
        let patched = nodes
            .patch_status("other-cloud", &params, &Patch::Merge(address))
            .await;
        patched.unwrap();
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(world.all_nodes().await.len(), 4);
        assert_eq!(world.cloud.instance(&theirs.id), Some(theirs), "it is untouched");
        assert!(!world.is_true("other-cloud", "Registered").await);
        let note = world.note("NodeMismatch").await.unwrap();
        assert!(note.contains("other-cloud"), "{note}");
        let found = world.told("GarbageFound").await;
        let found: Vec<&str> = found.iter().map(|(about, _, _)| about.as_str()).collect();
        assert_eq!(found, ["Node elsewhere", "Node no-machine", "Node twins"]);
    })
    .await;
}

/// Row "Cloud: 200 with error body, 201 without id, empty list with total>0, dates in 1970/9999" and answers that are no
/// answers.
#[tokio::test(start_paused = true)]
async fn answers_that_say_nothing_buy_nothing_twice_and_delete_nothing() {
    for kind in [
        FaultKind::EmptyBody,
        FaultKind::TruncatedJson,
        FaultKind::HtmlError,
        FaultKind::ExtraFields,
        FaultKind::ErrorBody,
        FaultKind::MissingId,
        FaultKind::EmptyList,
        FaultKind::WrongDates,
    ] {
        let world = World::new();
        while_working(world.replica(), async {
            world.claim("before").await;
            world.until_launched("before").await;
            world.cloud.faults().start(Fault::new(kind).on("instances"));
            world.claim("a").await;
            world.clock.sleep(Duration::from_mins(10)).await;
            assert!(world.cloud.instances().len() <= 2, "{kind:?}");
            world.cloud.faults().clear();
            world.until_launched("a").await;
            assert_eq!(world.living().len(), 2, "{kind:?}");
            assert!(world.is_true("before", "Launched").await);
        })
        .await;
    }
}

/// The same row, for a Node that works: whatever the answers say while the sweep and the poll go on, it is left alone.
#[tokio::test(start_paused = true)]
async fn answers_that_are_wrong_take_no_node_away() {
    for kind in [
        FaultKind::ErrorBody,
        FaultKind::MissingId,
        FaultKind::EmptyList,
        FaultKind::WrongDates,
    ] {
        let world = World::new();
        while_working(world.replica(), async {
            world.ready_node("a").await;
            world.cloud.faults().start(Fault::new(kind));
            world.clock.sleep(Duration::from_mins(30)).await;
            assert_eq!(world.living().len(), 1, "{kind:?}");
            assert!(world.is_true("a", "Ready").await, "{kind:?}");
            let deletions = world.cloud.requests();
            let deletions = deletions.iter().filter(|it| it.method == http::Method::DELETE);
            assert_eq!(deletions.count(), 0, "{kind:?}");
        })
        .await;
    }
}

/// Global Search and Tagging answer 200 with an error: the class keeps the subnets that it found by their tags.
#[tokio::test(start_paused = true)]
async fn an_error_that_comes_as_a_success_is_not_an_absence_of_tags() {
    let world = World::new();
    for subnet in world.cloud.account().subnets {
        world.cloud.tag_subnet(&subnet, "kind:nodes");
    }
    let by_tag = json!({"placementStrategy": {"subnetSelection": {"requiredTags": {"kind": "nodes"}}}});
    world.change_class("default", &by_tag).await;
    while_working(world.replica(), async {
        let before = world
            .until_judged("default", "True", Duration::from_mins(15))
            .await;
        let subnets = before.status.unwrap().resolved_subnets;
        assert!(
            subnets.as_ref().is_some_and(|subnets| subnets.len() == 3),
            "{subnets:?}"
        );
        world.cloud.faults().start(Fault::new(FaultKind::ErrorBody));
        world.clock.sleep(Duration::from_mins(20)).await;
        let during = world.classes().get("default").await.unwrap();
        assert_eq!(during.readiness().unwrap().status, "True");
        assert_eq!(during.status.unwrap().resolved_subnets, subnets);
    })
    .await;
}

/// Row "401 on token refresh; 403 on one verb".
#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_stops_what_needs_it_and_nothing_else() {
    for operation in ["instances.list", "instances.create", "instances.delete"] {
        let world = World::new();
        while_working(world.replica(), async {
            world.ready_node("before").await;
            let forbidden = Fault::new(FaultKind::Forbidden).on(operation);
            world.cloud.faults().start(forbidden);
            world.clock.sleep(Duration::from_mins(15)).await;
            assert!(world.is_true("before", "Ready").await, "{operation}");
            assert_eq!(world.living().len(), 1, "{operation}");
            world.cloud.faults().clear();
            world.cloud.faults().start(Fault::new(FaultKind::IamDown));
            world.cloud.revoke_tokens();
            world.clock.sleep(Duration::from_mins(15)).await;
            assert_eq!(world.living().len(), 1, "{operation}");
            world.cloud.faults().clear();
            world.claim("after").await;
            world
                .until("works again", Duration::from_mins(3), async || {
                    world.is_true("after", "Launched").await
                })
                .await;
        })
        .await;
    }
}

/// Row "userData 64 KB+1, NUL, CRLF, invalid UTF-8, `EOF` line, `$(…)`, nested MIME", and a cluster that nobody names:
/// before a token is made or an intent written.
#[tokio::test(start_paused = true)]
async fn what_no_machine_could_start_with_is_told_at_the_class_and_costs_nothing() {
    let cases: [(Value, &str); 4] = [
        (json!({}), "ClusterUnknown"),
        (json!({"userDataAppend": "hello"}), "ClusterUnknown"),
        (
            json!({"userData": "#!/bin/sh\n", "userDataAppend": "hello"}),
            "UserDataInvalid",
        ),
        (json!({"userData": "a\u{0}b"}), "Invalid"),
    ];
    for (change, reason) in cases {
        let world = World::new();
        world.change_class("default", &change).await;
        // Nobody says where the cluster is.
        let replica = audited::factory(joining::settings("one"))(world.edges());
        while_working(replica, async {
            let class = world
                .until_judged("default", "False", Duration::from_mins(1))
                .await;
            let ready = class.readiness().unwrap().clone();
            assert_eq!(ready.reason.as_deref(), Some(reason), "{change}");
            world.claim("a").await;
            world.clock.sleep(Duration::from_mins(2)).await;
            let claim = world.read("a").await.unwrap();
            assert!(
                claim.status.is_none_or(|status| status.allocation.is_none()),
                "{change}"
            );
            let note = world.note("LaunchBlocked").await.unwrap();
            assert!(note.contains("is not ready"), "{note}");
            assert!(world.cloud.instances().is_empty());
        })
        .await;
    }
}

/// The same row, "invalid UTF-8": texts of an API are UTF-8, so bytes that are none are refused with the request that
/// brings them. A server or an editor that puts U+FFFD in their place has made a text of them, which is carried verbatim.
#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_text_do_not_become_user_data() {
    let world = World::new();
    let mut class = world.class();
    class["metadata"]["name"] = json!("bytes");
    class["spec"]["userData"] = json!("#!/bin/sh\n# BYTES\n");
    let mut body = serde_json::to_vec(&class).unwrap();
    let at = body.windows(5).position(|it| it == b"BYTES").unwrap();
    body[at] = 0xff;
    let request = http::Request::post("/apis/karpenter-ibm.sh/v1alpha1/ibmnodeclasses")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body);
    let answer = world.kube.admin().request::<Value>(request.unwrap()).await;
    let refused = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 400);
    assert!(refused, "{answer:?}");
    assert!(world.classes().get_opt("bytes").await.unwrap().is_none());

    let replaced = "#!/bin/sh\n# \u{fffd}YTES\n";
    world
        .change_class("default", &json!({"userData": replaced}))
        .await;
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        assert_eq!(world.living()[0].user_data.as_deref(), Some(replaced));
    })
    .await;
}

/// Row "Clock −1 h, +10 years": a machine is bought once, and given back, by whichever clock, and when it is set right.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_buys_nothing_twice_and_forgets_nothing() {
    for skew in [
        SignedDuration::from_hours(-1),
        SignedDuration::from_hours(24 * 3650),
    ] {
        let world = World::new();
        let (clock, replica) = world.replica_astray("one", skew);
        while_working(replica, async {
            world.claim("a").await;
            world.until_launched("a").await;
            world.claim("b").await;
            clock.sleep(Duration::from_secs(3)).await;
            clock.set_skew(SignedDuration::ZERO);
            world.until_launched("b").await;
            clock.sleep(Duration::from_mins(5)).await;
            assert_eq!((world.living().len(), world.orders()), (2, 2), "{skew}");
            clock.set_skew(skew);
            for name in ["a", "b"] {
                world.delete(name).await;
                world.until_gone(name).await;
            }
            assert!(world.cloud.instances().is_empty(), "{skew}");
        })
        .await;
    }
}
