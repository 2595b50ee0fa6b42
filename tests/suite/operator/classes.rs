//! Classes: resolved, judged, kept while claims use them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use karpenter_ibm::api::{Condition, IBMNodeClass};
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{World, while_working};

impl World {
    pub(super) fn classes(&self) -> Api<IBMNodeClass> {
        Api::all(self.kube.admin())
    }

    /// Without the class that every world begins with.
    pub(super) async fn unclassed(&self) {
        self.classes()
            .delete("default", &DeleteParams::default())
            .await
            .unwrap();
    }

    /// A class like the usual one, but for some fields.
    pub(super) async fn add_class(&self, name: &str, change: &Value) {
        let mut class = self.class();
        class["metadata"]["name"] = json!(name);
        for (field, value) in change.as_object().unwrap() {
            class["spec"][field] = value.clone();
        }
        let class = serde_json::from_value(class).unwrap();
        self.classes()
            .create(&PostParams::default(), &class)
            .await
            .unwrap();
    }

    /// A claim for a class, of its name.
    async fn claim_for(&self, class: &str) {
        let claim = serde_json::from_value(json!({
            "metadata": {"name": class},
            "spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": class},
                "requirements": [],
            },
        }));
        let made = self
            .claims()
            .create(&PostParams::default(), &claim.unwrap())
            .await;
        made.unwrap();
    }

    pub(super) async fn change_class(&self, name: &str, change: &Value) {
        let patch = Patch::Merge(json!({"spec": change}));
        let changed = self.classes().patch(name, &PatchParams::default(), &patch).await;
        changed.unwrap();
    }

    /// The class, once it was judged so as it is written.
    pub(super) async fn until_judged(&self, name: &str, ready: &str, within: Duration) -> IBMNodeClass {
        let judged = async || {
            let class = self.classes().get(name).await.unwrap();
            class.readiness().is_some_and(|it| it.status == ready)
        };
        self.until(&format!("{name} judged {ready}"), within, judged)
            .await;
        self.classes().get(name).await.unwrap()
    }
}

fn condition(class: &IBMNodeClass, type_: &str) -> Condition {
    class.status.as_ref().unwrap().condition(type_).unwrap().clone()
}

fn minute() -> Duration {
    Duration::from_mins(1)
}

/// Somebody takes the finalizer off a class that a claim is about to buy for.
#[tokio::test(start_paused = true)]
async fn a_claim_on_order_whose_class_was_forced_out_says_that_there_is_none() {
    let world = World::new();
    let outage = Fault::new(FaultKind::ServerError).on("instances.create");
    world.cloud.faults().start(outage);
    while_working(world.replica(), async {
        world.claim("a").await;
        world
            .until("on order", minute(), async || world.orders() > 0)
            .await;
        world.unclassed().await;
        let forced = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let params = PatchParams::default();
        world.classes().patch("default", &params, &forced).await.unwrap();
        world
            .until("it says so", minute(), async || {
                let launched = world.condition("a", "Launched").await;
                let why = launched.and_then(|it| it.message).unwrap_or_default();
                why == "there is no IBMNodeClass default"
            })
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_class_says_what_it_stands_for_and_is_not_written_again() {
    let world = World::new();
    let account = world.cloud.account();
    while_working(world.replica(), async {
        let class = world.until_judged("default", "True", minute()).await;
        let status = class.status.clone().unwrap();
        assert_eq!(status.resolved_image_id, Some(account.image.clone()));
        let image = status.resolved_image.clone().unwrap();
        assert_eq!(image.name, "ibm-ubuntu-24-04-4-minimal-amd64-6");
        assert_eq!(image.architecture.as_deref(), Some("amd64"));
        assert_eq!(
            status.resolved_security_groups,
            Some(vec![account.security_group.clone()])
        );
        assert_eq!(
            status.resolved_resource_group_id,
            Some(account.resource_group.clone())
        );
        let zones: Vec<&str> = status.zones().into_iter().collect();
        assert_eq!(zones, account.zones);
        assert_eq!(condition(&class, "Ready").observed_generation, Some(1));
        assert_eq!(
            class.annotations()["karpenter-ibm.sh/nodeclass-hash"],
            class.hash()
        );
        world.clock.sleep(Duration::from_mins(30)).await;
        let later = world.classes().get("default").await.unwrap();
        assert_eq!(later.resource_version(), class.resource_version());
    })
    .await;
}

/// Classes that name what is not there or cannot be used: what of them is wrong, and why they are not ready.
fn wrong(world: &World) -> Vec<(&'static str, Value, &'static str)> {
    let other_vpc = world.cloud.add_vpc("other");
    let foreign_group = world.cloud.add_security_group("foreign", &other_vpc);
    let foreign_subnet = world.cloud.add_subnet(
        "foreign",
        &other_vpc,
        "us-south-1",
        Ipv4Addr::new(10, 9, 0, 0),
        24,
    );
    let nowhere = "r006-00000000-0000-4000-8000-000000000000";
    vec![
        ("vpc", json!({"vpc": nowhere}), "VPCNotFound"),
        ("subnet", json!({"subnet": foreign_subnet}), "SubnetNotFound"),
        (
            "group",
            json!({"securityGroups": [foreign_group]}),
            "SecurityGroupNotFound",
        ),
        ("image", json!({"image": "ibm-nothing"}), "ImageNotFound"),
        (
            "obsolete",
            json!({"image": "ibm-ubuntu-20-04-6-minimal-amd64-8"}),
            "ImageNotUsable",
        ),
        ("key", json!({"sshKeys": [nowhere]}), "KeyNotFound"),
        (
            "resources",
            json!({"resourceGroup": "nothing"}),
            "ResourceGroupNotFound",
        ),
        (
            "target",
            json!({"placementTarget": nowhere}),
            "PlacementTargetNotFound",
        ),
        ("region", json!({"region": "eu-de"}), "WrongRegion"),
        (
            "tags",
            json!({"placementStrategy": {"subnetSelection": {"requiredTags": {"a": "b"}}}}),
            "NoSubnet",
        ),
        (
            "addresses",
            json!({"placementStrategy": {"subnetSelection": {"minimumAvailableIPs": 9999}}}),
            "NoFreeAddress",
        ),
        (
            "ours",
            json!({"tags": {"Karpenter-IBM-nodeclaim": "another"}}),
            "InvalidTags",
        ),
        ("case", json!({"tags": {"team": "a", "Team": "b"}}), "InvalidTags"),
    ]
}

/// Tags that IBM Cloud would not keep do not even become part of a class.
#[tokio::test(start_paused = true)]
async fn tags_that_cannot_be_are_refused_with_the_class() {
    let world = World::new();
    let many: BTreeMap<String, String> = (0..101).map(|n| (format!("key-{n}"), "a".to_owned())).collect();
    for (tags, words) in [
        (json!({"team": "\u{1f600}"}), "should match"),
        (json!({"\u{1f600}": "a"}), "a tag's key is"),
        (json!({"team": "a".repeat(124)}), "at most 128 characters"),
        (json!(many), "must have at most 100"),
    ] {
        let patch = Patch::Merge(json!({"spec": {"tags": tags}}));
        let refused = world
            .classes()
            .patch("default", &PatchParams::default(), &patch)
            .await;
        let why = refused.unwrap_err().to_string();
        assert!(why.contains(words), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_a_class_names_must_exist_and_nothing_is_bought_otherwise() {
    let world = World::new();
    let cases = wrong(&world);
    for (name, change, _) in &cases {
        world.add_class(name, change).await;
    }
    while_working(world.replica(), async {
        for (name, _, reason) in &cases {
            let class = world.until_judged(name, "False", minute()).await;
            assert_eq!(
                condition(&class, "Ready").reason.as_deref(),
                Some(*reason),
                "{name}"
            );
            world.claim_for(name).await;
        }
        world.clock.sleep(minute() * 2).await;
        for (name, ..) in &cases {
            let status = world.read(name).await.unwrap().status;
            assert!(status.is_none_or(|it| it.allocation.is_none()), "{name}");
        }
        assert_eq!(world.orders(), 0);
        let usual = world.until_judged("default", "True", minute()).await;
        assert_eq!(usual.name_any(), "default", "others are not affected");
        world.claim("usual").await;
        world.until_launched("usual").await;
        assert_eq!(world.orders(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_deleted_after_the_class_was_ready_stops_purchases_and_says_why() {
    let world = World::new();
    let key = world.cloud.account().key;
    world.change_class("default", &json!({"sshKeys": [key]})).await;
    while_working(world.replica(), async {
        world.until_judged("default", "True", minute()).await;
        world.ready_node("before").await;
        world.clock.sleep(minute()).await;
        world.cloud.remove_key(&key);
        let before = world.cloud.requests().count();
        let class = world.until_judged("default", "False", minute() * 6).await;
        let ready = condition(&class, "Ready");
        assert_eq!(ready.reason.as_deref(), Some("KeyNotFound"));
        assert!(ready.message.unwrap().contains(&key));
        world.claim("a").await;
        world.clock.sleep(minute() * 10).await;
        let status = world.read("a").await.unwrap().status;
        assert!(status.is_none_or(|it| it.allocation.is_none()));
        assert!(world.note("LaunchBlocked").await.unwrap().contains(&key));
        assert!(!world.is_deleting("before").await, "what runs goes on");
        assert_eq!(writes_since(&world, before), [""; 0]);
    })
    .await;
}

/// What was written to the cloud since the request of that number, but for tokens.
fn writes_since(world: &World, before: u64) -> Vec<String> {
    let requests = world.cloud.requests();
    let writes = requests.since(before).filter(|seen| {
        seen.method != http::Method::GET
            && !seen.path.contains("/identity/")
            && !seen.path.contains("/search")
    });
    writes
        .map(|seen| format!("{} {}", seen.method, seen.path))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_keeps_what_was_resolved_says_so_and_passes() {
    let world = World::new();
    while_working(world.replica(), async {
        let before = world.until_judged("default", "True", minute()).await;
        world
            .cloud
            .faults()
            .start(Fault::new(FaultKind::ServerError).on("subnets.list"));
        world
            .until("the failure is told", Duration::from_mins(10), async || {
                let class = world.classes().get("default").await.unwrap();
                condition(&class, "Resolved").status == "False"
            })
            .await;
        let during = world.classes().get("default").await.unwrap();
        assert_eq!(condition(&during, "Ready"), condition(&before, "Ready"));
        assert_eq!(
            during.status.unwrap().resolved_subnets,
            before.status.unwrap().resolved_subnets
        );
        world.cloud.faults().clear();
        world
            .until("it is over", Duration::from_mins(2), async || {
                let class = world.classes().get("default").await.unwrap();
                condition(&class, "Resolved").status == "True"
            })
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_class_stays_while_a_claim_uses_it_and_says_who() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.unclassed().await;
        world
            .until("it says who", minute(), async || {
                let class = world.classes().get("default").await.unwrap();
                let ready = condition(&class, "Ready");
                ready.reason.as_deref() == Some("Deleting") && ready.message.unwrap().contains(": a;")
            })
            .await;
        assert_eq!(world.reasons().await, ["WaitingForNodeClaims"]);
        world.clock.sleep(Duration::from_mins(10)).await;
        assert!(world.classes().get_opt("default").await.unwrap().is_some());
        world.delete("a").await;
        world.until_gone("a").await;
        world
            .until("the class is gone", minute(), async || {
                world.classes().get_opt("default").await.unwrap().is_none()
            })
            .await;
        assert!(world.cloud.instances().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn subnets_are_found_by_their_tags() {
    let world = World::new();
    let account = world.cloud.account();
    world.cloud.tag_subnet(&account.subnets[1], "pool:nodes");
    let tags = json!({"placementStrategy": {"subnetSelection": {"requiredTags": {"pool": "nodes"}}}});
    world.change_class("default", &tags).await;
    while_working(world.replica(), async {
        let class = world
            .until_judged("default", "True", Duration::from_mins(20))
            .await;
        let subnets = class.status.unwrap().resolved_subnets.unwrap();
        let ids: Vec<&String> = subnets.iter().map(|subnet| &subnet.id).collect();
        assert_eq!(ids, [&account.subnets[1]]);
        world.claim_in("a", &account.zones[1]).await;
        world.until_launched("a").await;
        assert_eq!(world.living()[0].subnet, account.subnets[1]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn on_a_dedicated_host_spot_is_not_bought_and_on_demand_is() {
    let world = World::new();
    let (host, hosts) = (
        world.cloud.account().dedicated_host,
        world.cloud.add_host_group("hosts"),
    );
    world.add_class("group", &json!({"placementTarget": hosts})).await;
    world
        .change_class("default", &json!({"placementTarget": host}))
        .await;
    while_working(world.replica(), async {
        for name in ["default", "group"] {
            let class = world.until_judged(name, "True", minute()).await;
            let message = condition(&class, "Ready").message.unwrap();
            assert!(message.contains("no spot"), "{message}");
        }
        world.claim_of("a", "us-south-1", &["spot"]).await;
        world.until_gone("a").await;
        assert!(world.cloud.instances().is_empty());
        assert_eq!(world.reasons().await, ["InsufficientCapacity"]);
        world.claim_of("b", "us-south-1", &["on-demand"]).await;
        world.until_launched("b").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_tagged_and_one_that_cannot_be_is_launched_all_the_same() {
    let world = World::new();
    world
        .change_class("default", &json!({"tags": {"team": "a"}}))
        .await;
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let tags = world.living()[0].tags.clone();
        for tag in [
            "team:a",
            "karpenter-ibm-nodeclaim:a",
            "karpenter-ibm-nodepool:default",
        ] {
            assert!(tags.contains(tag), "{tags:?}");
        }
        world.cloud.faults().start(Fault::new(FaultKind::TagFails));
        world.claim("b").await;
        world.until_launched("b").await;
    })
    .await;
}
