//! What nodes really have is learnt from those that joined, and from no one else.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::effects::Effects;
use super::{World, audited, chart, joining, while_working};

impl World {
    /// The least memory that is known of nodes of a profile.
    async fn observed(&self, profile: &str) -> Option<String> {
        let class = self.classes().get("default").await.unwrap();
        let seen = class.status?.observed_capacity?;
        let of = seen.into_iter().find(|it| it.profile == profile);
        of.and_then(|it| it.memory)
    }

    /// A kubelet says how much memory its machine has.
    pub(super) async fn reports(&self, name: &str, memory: &str) {
        let nodes: Api<Node> = Api::all(self.kube.admin());
        let status = Patch::Merge(json!({"status": {"capacity": {"memory": memory}}}));
        let patched = nodes.patch_status(name, &PatchParams::default(), &status).await;
        patched.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_node_of_the_profile_reports_is_what_the_next_one_is_planned_with() {
    let world = World::new();
    let effects = Effects::without_end();
    let edges = effects.around(world.edges());
    while_working(audited::factory(World::settings("one"))(edges), async {
        world.ready_node("a").await;
        world.reports("a", "8115000Ki").await;
        world
            .until("seen", Duration::from_mins(6), async || {
                world.observed("bxf-2x8").await.is_some()
            })
            .await;
        assert_eq!(world.observed("bxf-2x8").await.as_deref(), Some("7924Mi"));
        let before = effects.count();
        world.clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(effects.count(), before, "written once");
        world.claim("b").await;
        world.until_launched("b").await;
        let capacity = |name: &'static str| {
            let world = &world;
            async move {
                let status = world.read(name).await.unwrap().status.unwrap();
                let memory = status.capacity.unwrap()["memory"].parse().unwrap();
                memory.units_ceil() >> 20
            }
        };
        assert_eq!(capacity("a").await, 7577, "a safe share of 8 GiB");
        assert_eq!(capacity("b").await, 7924, "what was seen");
        let class = world.classes().get("default").await.unwrap();
        assert_eq!(
            class.readiness().unwrap().status,
            "True",
            "the rest of the status stays"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_lies_or_has_not_joined_spoils_nothing() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        world.reports("a", "64Gi").await;
        world.claim("b").await;
        world.until_launched("b").await;
        world.join("b").await;
        world.reports("b", "1Gi").await;
        world.clock.sleep(Duration::from_mins(12)).await;
        assert_eq!(
            world.observed("bxf-2x8").await,
            None,
            "more than is sold, and no node of ours"
        );
        world.reports("a", "1Ki").await;
        world.clock.sleep(Duration::from_mins(6)).await;
        assert_eq!(
            world.observed("bxf-2x8").await.as_deref(),
            Some("6553Mi"),
            "80 % of 8 GiB"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_planned_is_what_the_kubelet_of_the_machine_reports() {
    let world = World::new();
    while_working(chart::replica(&world), async {
        world.claim("a").await;
        joining::until_joined(&world, "a").await;
        let claim = world.read("a").await.unwrap();
        assert_eq!(claim.name_any(), "a");
        let planned = claim.status.unwrap().allocatable.unwrap();
        let node = joining::node(&world, "a").await.unwrap();
        let reported = node.status.unwrap().allocatable.unwrap();
        for resource in ["cpu", "memory", "ephemeral-storage", "pods"] {
            let there: karpenter_ibm::quantity::Quantity = reported[resource].0.parse().unwrap();
            let planned = planned[resource].parse().unwrap();
            assert!(
                planned.nanos() <= there.nanos(),
                "{resource}: {planned} of {there}"
            );
            // Two formulas that disagree would be further apart than what is kept for safety.
            assert!(
                planned.nanos() * 100 >= there.nanos() * 85,
                "{resource}: {planned} of {there}"
            );
        }
    })
    .await;
}
