//! One seed, one history.

use karpenter_ibm::sim::ibm::{Answers, FaultPlan, Options};
use proptest::prelude::*;
use serde_json::Value;

use super::{Api, options};

/// Everything a busy hour says, in one text.
async fn history(seed: u64, faults: FaultPlan) -> Vec<String> {
    let api = Api::to(Options {
        answers: Answers::Realistic,
        faults,
        ..options(seed)
    })
    .await;
    let mut told = vec![api.token.clone()];
    let mut tell = |what: Result<super::Said, _>| match what {
        Ok(said) => told.push(format!("{} {}", said.status, said.body)),
        Err(error) => told.push(format!("{error}")),
    };
    for number in 0..6 {
        let prototype = api.spot(&format!("i{number}"));
        tell(api.try_call("POST", "/v1/instances", Some(prototype)).await);
    }
    for step in 0..40 {
        api.pass(20).await;
        tell(api.try_call("GET", "/v1/instances?limit=4", None).await);
        let names: Vec<String> = api.cloud.instances().into_iter().map(|one| one.id).collect();
        if step == 10
            && let Some(id) = names.first()
        {
            let _ = api.cloud.preempt(id);
        }
        if step == 20
            && let Some(id) = names.last()
        {
            tell(api.try_call("DELETE", &format!("/v1/instances/{id}"), None).await);
        }
    }
    told.push(serde_json::to_string(&api.cloud.instances()).unwrap());
    told
}

fn in_virtual_time<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(story)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn the_same_seed_gives_the_same_history(seed in any::<u64>()) {
        let plan = || FaultPlan::draw(&mut fastrand::Rng::with_seed(seed));
        let first = in_virtual_time(history(seed, plan()));
        prop_assert_eq!(first, in_virtual_time(history(seed, plan())));
    }
}

#[test]
fn another_seed_gives_another_history() {
    let plan = FaultPlan::default;
    assert_ne!(
        in_virtual_time(history(1, plan())),
        in_virtual_time(history(2, plan()))
    );
}

#[test]
fn a_fault_changes_no_id() {
    use karpenter_ibm::sim::ibm::{Fault, FaultKind};
    let ids = |plan: FaultPlan| {
        in_virtual_time(async {
            let api = Api::to(Options {
                faults: plan,
                ..options(3)
            })
            .await;
            for number in 0..3 {
                let _ = api
                    .try_call(
                        "POST",
                        "/v1/instances",
                        Some(api.prototype(&format!("i{number}"))),
                    )
                    .await;
            }
            api.cloud
                .instances()
                .into_iter()
                .map(|one| one.id)
                .collect::<Vec<_>>()
        })
    };
    let lost = Fault::new(FaultKind::LostCreate).probability(0.5);
    let quiet = ids(FaultPlan::default());
    assert_eq!(quiet.len(), 3);
    assert_eq!(quiet, ids(FaultPlan(vec![lost])));
}

#[test]
fn timestamps_have_milliseconds() {
    let body = in_virtual_time(async {
        let api = Api::to(options(1)).await;
        api.post("/v1/instances", api.prototype("a")).await.body
    });
    assert_eq!(body["created_at"], Value::from("2026-11-16T00:00:00.000Z"));
}
