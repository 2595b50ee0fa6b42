//! One claim from the wish for a machine to its end.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node};
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{World, while_working};

#[tokio::test(start_paused = true)]
async fn a_claim_gets_a_machine_that_runs_and_says_which() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        let claim = world.read("a").await.unwrap();
        let [machine] = world.living().try_into().unwrap();
        let status = claim.status.clone().unwrap();
        let allocation = status.allocation.unwrap();
        assert_eq!(machine.status, "running");
        assert_eq!(allocation.instance_id.as_ref(), Some(&machine.id));
        assert_eq!(allocation.instance_name, machine.name);
        assert_eq!(
            status.provider_id,
            Some(format!("ibm:///us-south/{}", machine.id))
        );
        assert_eq!(machine.user_data.as_deref(), Some("#cloud-config\nhostname: a\n"));
        let labels = claim.labels();
        assert_eq!(labels["node.kubernetes.io/instance-type"], "bxf-2x8");
        assert_eq!(labels["topology.kubernetes.io/zone"], "us-south-1");
        assert_eq!(labels["karpenter.sh/capacity-type"], "spot");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_goes_after_its_machine() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("a").await;
        world.until_launched("a").await;
        world.delete("a").await;
        world.until_gone("a").await;
        assert!(
            world.cloud.instances().is_empty(),
            "{:?}",
            world.cloud.instances()
        );
        assert!(world.cloud.orphans().is_empty(), "{:?}", world.cloud.orphans());
    })
    .await;
}
