//! Mutants of planning for pods: each does its harm in a story that the product lives through without any.

use std::time::Duration;

use karpenter_ibm::sim::mutants::Mutant;
use serde_json::json;

use super::super::World;
use super::super::mutants::each;

impl World {
    /// How many claims there are when five pods of a processor each have waited for a while.
    async fn claims_for_five_pods(&self) -> usize {
        self.pool("default", json!({})).await;
        for pod in ["a", "b", "c", "d", "e"] {
            self.waiting(pod, json!({})).await;
        }
        self.clock.sleep(Duration::from_mins(1)).await;
        self.all_claims().await.len()
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_dawdles_makes_no_claim_in_time() {
    let made = each(Mutant::Dawdling, async |world: World| {
        world.claims_for_five_pods().await > 0
    });
    assert_eq!(made.await, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_that_doubles_makes_twice_as_many_claims_as_it_must() {
    let made = each(Mutant::Doubled, async |world: World| {
        world.claims_for_five_pods().await
    });
    let [product, mutant] = made.await;
    assert_eq!(mutant, 2 * product);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_startled_by_a_preemption_never_handles_it() {
    let seen = each(Mutant::Startled, async |world: World| {
        world.ready_node("a").await;
        world.preempt("a").await;
        world.clock.sleep(Duration::from_mins(3)).await;
        world.is_deleting("a").await
    });
    assert_eq!(seen.await, [true, false]);
}
