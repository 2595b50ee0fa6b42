//! What is counted of pods that wait.

use kube::api::DeleteParams;
use prometheus::proto::Metric;
use serde_json::json;

use super::super::{World, audited, while_working};
use super::SOON;

/// A number of the family of that name which has no labels.
fn number(registry: &prometheus::Registry, name: &str, of: fn(&Metric) -> f64) -> f64 {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == name);
    of(&family.unwrap_or_else(|| panic!("no {name}")).get_metric()[0])
}

fn gauge(registry: &prometheus::Registry, name: &str) -> i64 {
    let value = number(registry, name, |metric| metric.get_gauge().get_value());
    value.to_string().parse().unwrap()
}

fn plans(registry: &prometheus::Registry) -> f64 {
    let name = "karpenter_ibm_provisioning_solve_duration_seconds";
    number(registry, name, |metric| {
        metric
            .get_histogram()
            .get_sample_count()
            .to_string()
            .parse()
            .unwrap()
    })
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_place_are_counted_and_none_is_when_nobody_waits_any_more() {
    let world = World::new();
    let edges = world.edges();
    let registry = edges.registry.clone();
    let replica = audited::factory(World::settings("one"))(edges);
    while_working(
        replica,
        Box::pin(async {
            world.pool("default", json!({})).await;
            for pod in ["a", "b"] {
                world.waiting(pod, json!({"nodeSelector": {"no": "where"}})).await;
            }
            let without = || gauge(&registry, "karpenter_ibm_pods_without_a_place");
            let pending = || gauge(&registry, "karpenter_ibm_pods_pending");
            world
                .until("both are counted", SOON, async || {
                    (without(), pending()) == (2, 2)
                })
                .await;
            assert!(plans(&registry) >= 1.0);
            assert_eq!(
                gauge(&registry, "karpenter_ibm_provisioning_queue_depth"),
                0,
                "between plans"
            );
            for pod in ["a", "b"] {
                let at_once = DeleteParams::default().grace_period(0);
                world.pods().delete(pod, &at_once).await.unwrap();
            }
            world
                .until("none is", SOON, async || (without(), pending()) == (0, 0))
                .await;
        }),
    )
    .await;
}
