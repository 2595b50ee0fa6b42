//! What is done and said when time runs out after pods have had their turn. What is when it does before: `packing`.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn whoever_has_no_place_is_given_a_reason_though_there_is_no_time_to_find_out_why() {
    let hopeless = (0..150).map(|at| pod(&format!("p{at:03}"), &(20 + at).to_string()));
    let cluster = cluster().with(hopeless);
    let snapshot = cluster.snapshot();
    let found = passes::alone(&snapshot, cluster.options, &|| true).unwrap();
    let plan = plan_of(found, &|| false);
    assert_eq!(crate::audit::plan(&snapshot, &plan), []);
    let explained = |left: &&LeftOut| matches!(left.refusals[0].why, Why::Resource { .. });
    let number = plan.left_out.iter().filter(explained).count();
    assert_eq!((number, plan.left_out.len()), (100, 150));
    assert_eq!(
        plan.left_out[149].refusals[0].to_string(),
        "time ran out before it was found out what stood in its way"
    );
}

/// With room for more than came.
#[test]
fn claims_stay_as_they_were_opened_where_there_is_no_time_to_make_them_cheaper() {
    let cluster = cluster()
        .types(steep_types())
        .with(pods(20, |name| pod(name, "1200m")));
    let snapshot = cluster.snapshot();
    let mut problem = problem::Problem::new(&snapshot, cluster.options);
    let policy = run::Policy {
        order: run::Order::Apart,
        growth: run::Growth::Cheapest { look: 16 },
        opening: run::Opening::Roomy(run::Filling::Alike),
        gait: run::Gait::Free,
    };
    let mut place = |turns: usize| {
        let asked = AtomicUsize::new(0);
        let mut run = Run::new(&mut problem, policy);
        let in_time = || asked.fetch_add(1, Ordering::Relaxed) < turns;
        let rest = run.place_all(&in_time, &passes::Best::default());
        assert!(rest.classes.is_empty() && run.placed.len() == 20);
        (rest.out_of_time, run.price)
    };
    let (in_time, late) = (place(usize::MAX), place(1));
    assert_eq!((in_time.0, late.0), (false, true));
    assert!(in_time.1 <= late.1, "{in_time:?} and {late:?}");
}
