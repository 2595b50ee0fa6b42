//! Two clusters of the same name in one account and resource group: neither touches what is the other's.

use std::time::Duration;

use http::Method;
use kube::ResourceExt;

use super::effects::Effects;
use super::{World, audited, while_working};

/// What a cluster did to machines, by their ids.
fn touched(effects: &Effects) -> Vec<String> {
    let log = effects.log();
    let on_machines = log.into_iter().filter(|(method, path)| {
        matches!(*method, Method::DELETE | Method::PATCH) && path.contains("/v1/instances/")
    });
    on_machines
        .filter_map(|(_, path)| Some(path.rsplit_once('/')?.1.to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_twin_cluster_in_the_same_account_is_never_touched() {
    let one = World::new();
    let two = one.twin();
    let effects = [Effects::without_end(), Effects::without_end()];
    let replica = |world: &World, effects: &Effects| {
        audited::factory(World::settings("one"))(effects.around(world.edges()))
    };
    let both = async {
        tokio::join!(biased; replica(&one, &effects[0]), replica(&two, &effects[1]));
    };
    let machine_of = async |world: &World, name: &str| {
        let status = world.read(name).await.unwrap().status.unwrap();
        status.allocation.unwrap()
    };
    let owned = while_working(both, async {
        let mut owned = [Vec::new(), Vec::new()];
        for name in ["kept", "deleted", "orphaned"] {
            for (world, owned) in [&one, &two].into_iter().zip(&mut owned) {
                world.ready_node(name).await;
                owned.push(machine_of(world, name).await.instance_id.unwrap());
            }
        }
        let names = [machine_of(&one, "kept").await, machine_of(&two, "kept").await];
        assert_ne!(names[0].instance_name[..12], names[1].instance_name[..12]);
        one.delete("deleted").await;
        one.until_gone("deleted").await;
        // A machine without a claim: the sweep of its own cluster takes it, and only that.
        one.force_out(&owned[0][2]).await;
        one.silence("orphaned").await;
        one.until("swept", Duration::from_mins(6), async || {
            one.cloud.instance(&owned[0][2]).is_none()
        })
        .await;
        one.clock.sleep(Duration::from_mins(10)).await;
        owned
    })
    .await;
    let left: Vec<String> = one.living().into_iter().map(|machine| machine.id).collect();
    assert_eq!(left.len(), 4);
    assert!(
        owned[1].iter().all(|id| left.contains(id)),
        "the twin has all of its own"
    );
    for (effects, others) in effects.iter().zip([&owned[1], &owned[0]]) {
        let touched = touched(effects);
        assert!(touched.iter().all(|id| !others.contains(id)), "{touched:?}");
    }
    for (world, owned) in [(&one, &owned[0]), (&two, &owned[1])] {
        let machine = world.cloud.instance(&owned[0]).unwrap();
        let clusters = machine
            .tags
            .iter()
            .filter(|tag| tag.starts_with("karpenter-ibm-cluster:"));
        let own = &machine.name[4..12];
        assert_eq!(
            clusters.collect::<Vec<_>>(),
            [&format!("karpenter-ibm-cluster:{own}")]
        );
    }
    let nodes = two.all_nodes().await;
    assert_eq!(
        nodes.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
        ["deleted", "kept", "orphaned"]
    );
}
