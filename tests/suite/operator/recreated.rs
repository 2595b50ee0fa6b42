//! Claims that are made again under the same name, while something of the one before is still there.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::DeleteParams;

use super::{World, while_working};

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_made_again_outlives_the_node_of_the_one_before_it() {
    let world = World::new();
    while_working(world.replica(), async {
        world.ready_node("a").await;
        let before = world.machine_of("a").await;
        world.lose("a").await;
        // Our finalizer holds it while its machine is there.
        world.nodes().delete("a", &DeleteParams::default()).await.unwrap();
        let made = world.claim("a").await.uid();
        world.until_launched("a").await;
        let machine = world.machine_of("a").await;
        assert_ne!(machine, before);
        world
            .until("only what is new is left", Duration::from_mins(10), async || {
                let left = world.nodes().get_opt("a").await.unwrap();
                left.is_none() && world.living().iter().all(|it| it.id == machine)
            })
            .await;
        let claim = world.read("a").await.unwrap();
        assert_eq!((claim.uid(), world.machine_of("a").await), (made, machine));
        assert!(!world.is_deleting("a").await);
        assert!(world.told("NodeDeleted").await.is_empty());
        world.join("a").await;
        world.until_registered("a").await;
    })
    .await;
}
