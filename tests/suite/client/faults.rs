//! What the cloud does wrong, and what the caller is told.

use std::collections::BTreeSet;

use karpenter_ibm::cloud::Effect;
use karpenter_ibm::ibm::vpc::instances::InstanceFilter;
use karpenter_ibm::ibm::vpc::types::AvailabilityClass;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};

use super::World;

#[tokio::test(start_paused = true)]
async fn a_lost_create_reply_is_settled_by_the_name_and_buys_one_machine() {
    for kind in [
        FaultKind::LostCreate,
        FaultKind::ServerErrorAfter,
        FaultKind::TruncatedJson,
        FaultKind::EmptyBody,
    ] {
        let world = World::new();
        world.client.tokens.token().await.unwrap();
        world
            .cloud
            .faults()
            .start(Fault::new(kind).on("instances.create").times(1));
        let order = world.order("kib-1", AvailabilityClass::Spot);
        let error = world.client.vpc.create_instance(&order).await.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{kind:?}: {error}");
        let posts = world
            .cloud
            .requests()
            .iter()
            .filter(|seen| seen.method == "POST" && seen.path.ends_with("/instances"))
            .count();
        assert_eq!(posts, 1, "{kind:?}");
        let filter = InstanceFilter {
            name: Some("kib-1".to_owned()),
            ..InstanceFilter::default()
        };
        let found = world.client.vpc.list_instances(&filter).await.unwrap();
        assert_eq!(found.len(), 1, "{kind:?}");
        let again = world.client.vpc.create_instance(&order).await.unwrap_err();
        assert_eq!(again.kind(), "name_taken", "{again}");
        assert_eq!(world.cloud.instances().len(), 1, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_a_list_is_whole_or_an_error() {
    // Reads that lag show the past: the one lie that a single list cannot see.
    let seen_through = FaultKind::ALL.iter().filter(|kind| **kind != FaultKind::ReadLag);
    for kind in seen_through {
        let world = World::new();
        world.fleet(20).await;
        let all: BTreeSet<String> = world
            .cloud
            .instances()
            .into_iter()
            .map(|truth| truth.id)
            .collect();
        world.cloud.faults().start(Fault::new(FaultKind::SmallPages));
        world.cloud.faults().start(Fault::new(*kind).probability(0.2));
        let mut whole = 0;
        for _ in 0..6 {
            if let Ok(listed) = world.client.vpc.list_instances(&InstanceFilter::default()).await {
                let listed: BTreeSet<String> = listed.into_iter().map(|instance| instance.id).collect();
                assert_eq!(listed, all, "{kind:?}");
                whole += 1;
            }
        }
        assert!(
            whole > 0 || *kind == FaultKind::PageMisses,
            "{kind:?} never let a list through"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_named_by_what_the_caller_may_do() {
    let table = [
        (FaultKind::CapacityRefused, "no_capacity"),
        (FaultKind::Forbidden, "forbidden"),
        (FaultKind::TokenExpired, "unauthorized"),
        (FaultKind::ServerError, "transient"),
        (FaultKind::HtmlError, "transient"),
        (FaultKind::Slow, "transient"),
        (FaultKind::RateLimit, "rate_limited"),
    ];
    for (kind, expected) in table {
        let world = World::new();
        world.client.tokens.token().await.unwrap();
        world.cloud.faults().start(Fault::new(kind).on("instances"));
        let order = world.order("kib-1", AvailabilityClass::Standard);
        let error = world.client.vpc.create_instance(&order).await.unwrap_err();
        assert_eq!(error.kind(), expected, "{kind:?}: {error}");
    }
}
