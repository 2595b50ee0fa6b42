//! Clusters so small that every place can be tried: nobody is left out who could still be let in.
//!
//! The judge is `audit`, which does not know how plans are made. A plan is extended by each pod that it leaves out, on each
//! node, and on each claim of the plan and a claim of its own, as each type in each zone and capacity type; none of these may
//! be legal.

use proptest::prelude::*;

use super::laws::{any_nodes, any_pods, namespaces};
use super::*;

fn any_tiny() -> impl Strategy<Value = Cluster> {
    // What costs less need not have fewer processors: by taking another type, a claim may give limits something back.
    let types = prop::collection::vec((1_i64..9, 1_u64..5), 1..4);
    let limit = prop_oneof![
        3 => Just(None),
        2 => (0_i64..12).prop_map(|cpu| Some((CPU, cpu * 1000))),
        1 => (1_i64..3).prop_map(|nodes| Some(("nodes", nodes))),
    ];
    let terms = prop::collection::vec(prop::option::weighted(0.4, (any_term(), any_term())), 3);
    let drawn = (types, any_nodes(), any_pods(4), limit, terms);
    drawn.prop_map(|(types, mut nodes, mut pods, limit, terms)| {
        let types = types
            .iter()
            .enumerate()
            .map(|(at, (cpu, dear))| {
                let mut kind = kind(&format!("t{at}"), *cpu);
                for offering in &mut kind.offerings {
                    let price = offering.price.map(|price| price.nanos() * dear);
                    offering.price = price.and_then(Price::from_nanos);
                }
                kind
            })
            .collect();
        nodes.truncate(2);
        pods.truncate(3);
        for (pod, terms) in pods.iter_mut().zip(terms) {
            if let Some((one, other)) = terms {
                ask_for_one_of(pod, &json!([one, other]));
            }
        }
        let mut base = cluster().types(types).with(pods);
        base.namespaces = namespaces();
        base.nodes = nodes;
        base.pools[0].limits = limit.map(|(name, most)| Resources::new().with(name, most));
        // What pods would merely like keeps nobody out, and audit does not look at it.
        base.options.preferences = Preferences::Ignore;
        base
    })
}

/// What a pod may ask of its node.
fn any_term() -> impl Strategy<Value = Value> {
    let asked = prop_oneof![
        prop::sample::select(vec!["t0", "t1", "t2"]).prop_map(|name| (INSTANCE_TYPE, name)),
        prop::sample::select(vec!["z1", "z2", "z3"]).prop_map(|zone| (ZONES, zone)),
        prop::sample::select(vec!["spot", "on-demand"]).prop_map(|sold| (CAPACITY, sold)),
    ];
    asked.prop_map(
        |(key, value)| json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}),
    )
}

/// Has a pod ask for one of these terms, unless it asks something of its node already.
fn ask_for_one_of(pod: &mut core::Pod, terms: &Value) {
    let affinity = pod.spec.as_mut().unwrap().affinity.get_or_insert_default();
    if affinity.node_affinity.is_none() {
        let asked = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        affinity.node_affinity = serde_json::from_value(asked).unwrap();
    }
}

/// A plan with one more pod on a place.
fn with_pod(plan: &Plan, pod: usize, on: Destination) -> Plan {
    let mut with = plan.clone();
    with.placements.push(Placement { pod, on });
    for left in &mut with.left_out {
        left.pods.retain(|other| *other != pod);
    }
    with.left_out.retain(|left| !left.pods.is_empty());
    with
}

/// A claim for nobody that asks for nothing beside its pool.
fn empty(snapshot: &Snapshot) -> NewClaim {
    NewClaim {
        pool: 0,
        requirements: snapshot.pools[0].requirements.clone(),
        requests: Resources::new(),
        pods: Vec::new(),
        options: Vec::new(),
        cheapest: Cheapest {
            instance_type: 0,
            zone: String::new(),
            capacity_type: CapacityType::OnDemand,
            price: None,
        },
        min_values: MinValues::Kept,
    }
}

/// A claim with one more pod, that can be bought in one way only.
fn taking(
    snapshot: &Snapshot,
    claim: &NewClaim,
    (pod, term): (usize, &Requirements),
    (kind, offering): (usize, &Offering),
) -> NewClaim {
    let class = snapshot.pending.members[pod].class;
    let mut requirements = claim.requirements.and(term);
    requirements.narrow(ZONE, &Values::one_of([offering.zone.as_str()]));
    requirements.narrow(CAPACITY_TYPE, &Values::one_of([offering.capacity_type.as_str()]));
    let mut requests = claim.requests.clone();
    requests.add(&snapshot.pending.classes[class].as_ref().unwrap().requests);
    NewClaim {
        pool: claim.pool,
        requirements,
        requests,
        pods: [&claim.pods[..], &[pod]].concat(),
        options: vec![u32::try_from(kind).unwrap()],
        cheapest: Cheapest {
            instance_type: kind,
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            price: offering.price,
        },
        min_values: claim.min_values,
    }
}

/// Every plan with one more pod.
fn extensions(snapshot: &Snapshot, plan: &Plan, pod: usize) -> Vec<Plan> {
    let nodes = 0..snapshot.nodes.len();
    let mut all: Vec<Plan> = nodes
        .map(|node| with_pod(plan, pod, Destination::Existing(node)))
        .collect();
    let class = snapshot.pending.members[pod].class;
    let terms = &snapshot.pending.classes[class].as_ref().unwrap().node_terms;
    for (kind, sort) in snapshot.pools[0].types.iter().enumerate() {
        for (offering, term) in sort
            .offerings
            .iter()
            .flat_map(|sold| terms.iter().map(move |term| (sold, term)))
        {
            for at in 0..=plan.claims.len() {
                let mut with = with_pod(plan, pod, Destination::New(at));
                if at == plan.claims.len() {
                    with.claims.push(empty(snapshot));
                }
                with.claims[at] = taking(snapshot, &with.claims[at], (pod, term), (kind, offering));
                all.push(with);
            }
        }
    }
    all
}

/// Who is left out and could be let in, and by which plan.
fn could_be_let_in(snapshot: &Snapshot, plan: &Plan) -> Option<(String, Plan)> {
    let mut left = plan.left_out.iter().flat_map(|left| left.pods.iter().copied());
    left.find_map(|pod| {
        let better = extensions(snapshot, plan, pod);
        let legal = better
            .into_iter()
            .find(|plan| crate::audit::plan(snapshot, plan).is_empty())?;
        Some((snapshot.pending.members[pod].name.clone(), legal))
    })
}

#[test]
fn a_pod_that_is_left_out_for_nothing_is_found() {
    let solved = cluster().with([pod("p", "1")]).solve();
    let lazy = Plan {
        left_out: vec![LeftOut::of(
            vec![0],
            vec![Refusal {
                place: Where::Everywhere,
                why: Why::Taken,
            }],
        )],
        ..Plan::default()
    };
    assert!(could_be_let_in(&solved.snapshot, &lazy).is_some());
    assert!(could_be_let_in(&solved.snapshot, &solved.plan).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(768))]

    #[test]
    fn nobody_is_left_out_who_could_still_be_let_in(cluster in any_tiny()) {
        let solved = cluster.solve();
        let missed = could_be_let_in(&solved.snapshot, &solved.plan);
        prop_assert!(missed.is_none(), "{:?}: {:?}", missed, solved.words());
    }
}
