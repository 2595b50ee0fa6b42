//! Claims with room for more than their first pod.

use super::*;

/// That there is a choice of types makes nothing dearer.
fn costs_no_more_than_with_any_one_type(pods: &[core::Pod]) {
    let price = |types: &[InstanceType]| {
        let solved = cluster().types(types.to_vec()).with(pods.iter().cloned()).solve();
        assert!(solved.all_placed(), "{:?}", solved.words());
        solved.plan.price_nanos()
    };
    let types = steep_types();
    let all = price(&types);
    for one in &types {
        let (number, alone) = (pods.len(), price(std::slice::from_ref(one)));
        assert!(
            all <= alone,
            "{number} pods: {all} with all types, {alone} with {}",
            one.name
        );
    }
}

#[test]
fn the_more_types_there_are_the_less_a_plan_costs() {
    for number in [1, 2, 3, 5, 13, 14, 26, 40, 64, 100, 333] {
        costs_no_more_than_with_any_one_type(&pods(number, |name| pod(name, "1200m")));
    }
}

/// As of many small Deployments with one replica each, whose next one is to be elsewhere.
#[test]
fn machines_that_pods_keep_free_of_their_like_are_filled_with_others() {
    for firmness in [neighbor, preferred_neighbor] {
        costs_no_more_than_with_any_one_type(&pods(64, |name| {
            let own = json!({"app": name});
            labelled(
                pod_with(name, "1200m", &firmness("podAntiAffinity", HOST, &own)),
                &own,
            )
        }));
    }
}

#[test]
fn machines_are_filled_with_as_many_as_a_spread_over_nodes_allows() {
    let web = json!({"app": "web"});
    let fields = spread(HOST, 5, &web, &json!({}));
    costs_no_more_than_with_any_one_type(&pods(40, |name| labelled(pod_with(name, "1200m", &fields), &web)));
}

/// As of hundreds of Deployments with two replicas each that would rather be in two zones: classes differ, and sizes do not.
#[test]
fn machines_are_filled_with_pods_of_many_small_classes() {
    let pairs = (0..600).map(|at| {
        let own = json!({"app": format!("d{}", at / 2)});
        let fields = spread(ZONES, 1, &own, &json!({"whenUnsatisfiable": "ScheduleAnyway"}));
        labelled(pod_with(&format!("p{at:03}"), "1200m", &fields), &own)
    });
    costs_no_more_than_with_any_one_type(&pairs.collect::<Vec<_>>());
}
