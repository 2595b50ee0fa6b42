//! What the operator's owner allows classes to use, before the cloud is asked and again before anything is ordered.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use karpenter_ibm::controllers::node_class::AllowLists;
use karpenter_ibm::sim::ibm::{Account, Fault, FaultKind};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{World, audited, while_working};

/// What a class that names something is refused by: the list, and its name.
type Case = (
    fn(&Account) -> Value,
    fn(&mut AllowLists) -> &mut BTreeSet<String>,
    &'static str,
);

const CASES: [Case; 7] = [
    (
        |account| json!({"securityGroups": [account.security_group]}),
        |allowed| &mut allowed.security_groups,
        "--allowed-security-groups",
    ),
    (
        |account| json!({"subnet": account.subnets[0]}),
        |allowed| &mut allowed.subnets,
        "--allowed-subnets",
    ),
    (
        |account| json!({"image": account.image}),
        |allowed| &mut allowed.images,
        "--allowed-images",
    ),
    (
        |account| json!({"sshKeys": [account.key]}),
        |allowed| &mut allowed.keys,
        "--allowed-keys",
    ),
    (
        |account| json!({"resourceGroup": account.resource_group}),
        |allowed| &mut allowed.resource_groups,
        "--allowed-resource-groups",
    ),
    // A name must be looked up; an id need not.
    (
        |_| json!({"resourceGroup": "demo"}),
        |allowed| &mut allowed.resource_groups,
        "--allowed-resource-groups",
    ),
    (
        |account| json!({"trustedProfile": account.trusted_profile}),
        |allowed| &mut allowed.trusted_profiles,
        "--allowed-trusted-profiles",
    ),
];

/// What a class is resolved by.
const ABOUT_CLASSES: [&str; 6] = [
    "/v1/vpcs",
    "/v1/subnets",
    "/v1/images",
    "/v1/keys",
    "/v1/security_groups",
    "/v2/resource_groups",
];

impl World {
    /// A world whose only class is different.
    async fn of_class(change: fn(&Account) -> Value) -> Self {
        let world = Self::new();
        world.unclassed().await;
        world.add_class("default", &change(&world.cloud.account())).await;
        world
    }

    /// A replica that allows something else only.
    fn strict(&self, list: fn(&mut AllowLists) -> &mut BTreeSet<String>) -> BoxFuture<'static, ()> {
        let mut settings = Self::settings("one");
        list(&mut settings.controllers.allowed).insert("another".to_owned());
        audited::factory(settings)(self.edges())
    }

    /// Takes the right away to write what was found of a class.
    async fn forbid_judging(&self) {
        let roles: Api<ClusterRole> = Api::all(self.kube.admin());
        for mut role in roles.list(&ListParams::default()).await.unwrap() {
            let is_status = |rule: &PolicyRule| {
                let mut resources = rule.resources.iter().flatten();
                resources.any(|it| it == "ibmnodeclasses/status")
            };
            let Some(rules) = role.rules.as_mut().filter(|rules| rules.iter().any(is_status)) else {
                continue;
            };
            rules.retain(|rule| !is_status(rule));
            let name = role.name_any();
            roles.replace(&name, &PostParams::default(), &role).await.unwrap();
        }
    }
}

fn minutes(count: u64) -> Duration {
    Duration::from_mins(count)
}

#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_is_refused_before_the_cloud_is_asked() {
    for (change, list, setting) in CASES {
        let world = World::of_class(change).await;
        while_working(world.strict(list), async {
            let class = world.until_judged("default", "False", minutes(1)).await;
            let ready = class.readiness().unwrap().clone();
            assert_eq!(ready.reason.as_deref(), Some("NotAllowed"), "{setting}");
            assert!(ready.message.unwrap().contains(setting), "{setting}");
            world.claim("a").await;
            world.clock.sleep(minutes(5)).await;
            let requests = world.cloud.requests();
            let asked = requests.iter().map(|it| it.path.as_str());
            let about = asked.filter(|path| ABOUT_CLASSES.iter().any(|it| path.starts_with(it)));
            assert_eq!(about.collect::<Vec<_>>(), Vec::<&str>::new(), "{setting}");
            assert_eq!(world.orders(), 0, "{setting}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_with_tighter_lists_nothing_is_ordered_for_a_class_that_was_ready() {
    for (change, list, setting) in CASES {
        let world = World::of_class(change).await;
        while_working(world.replica(), async {
            world.until_judged("default", "True", minutes(1)).await;
            // One order is under way when the replica ends: its intent is written, and nothing was bought.
            let fails = Fault::new(FaultKind::ServerError).on("instances.create");
            world.cloud.faults().start(fails);
            world.claim("intended").await;
            world
                .until("the intent is written", minutes(1), async || {
                    let claim = world.read("intended").await.unwrap();
                    claim.status.is_some_and(|it| it.allocation.is_some())
                })
                .await;
        })
        .await;
        world.cloud.faults().clear();
        world.claim("new").await;
        let before = world.orders();
        // Nobody judges the class anew meanwhile: what was found before the restart still stands.
        world.forbid_judging().await;
        while_working(world.strict(list), async {
            world.clock.sleep(minutes(3)).await;
            let class = world.classes().get("default").await.unwrap();
            assert!(class.resolution().is_some(), "{setting}: it was judged anew");
            assert_eq!(world.orders(), before, "{setting}");
            assert!(world.cloud.instances().is_empty(), "{setting}");
        })
        .await;
    }
}
