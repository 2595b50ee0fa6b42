//! However a list comes, in pages of whatever size, begun anew in the midst of one or in another order: the plan is the same.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node as ApiNode, Pod as ApiPod};
use proptest::prelude::*;
use serde_json::json;

use super::tests::{claim, kind_of, limited_pool, now, pod};
use super::*;
use crate::api::NodeClaim;
use crate::scheduling::{Destination, Options, solve};

/// What there is: nodes, some with pods, pods that wait, and claims on their way for some of them.
#[derive(Clone, Debug)]
struct Objects {
    pods: Vec<ApiPod>,
    nodes: Vec<ApiNode>,
    claims: Vec<NodeClaim>,
}

fn any_objects() -> impl Strategy<Value = Objects> {
    (1_usize..30, 0_usize..4, 0_usize..4).prop_map(|(pods, nodes, claims)| {
        let on = |at: usize| (at.is_multiple_of(3) && nodes > 0).then(|| format!("n{}", at % nodes));
        let pods = (0..pods).map(|at| {
            let mut pod = pod(&format!("p{at:02}"), on(at).as_deref());
            pod.metadata.labels = Some([("app".to_owned(), format!("a{}", at % 2))].into());
            pod
        });
        let node = |at: usize| {
            let amounts = json!({"cpu": "4", "pods": "10"});
            serde_json::from_value(
                json!({"metadata": {"name": format!("n{at}"), "resourceVersion": "1"},
                "status": {"allocatable": amounts, "capacity": amounts}}),
            )
            .unwrap()
        };
        Objects {
            pods: pods.collect(),
            nodes: (0..nodes).map(node).collect(),
            claims: (0..claims)
                .map(|at| claim(&format!("c{at}"), &format!("p{:02}", 3 * at + 1), &json!({})))
                .collect(),
        }
    })
}

/// How lists come: so many objects to a page, the pages begun anew after so many of them, and the objects turned round.
#[derive(Clone, Copy, Debug)]
struct Manner {
    page: usize,
    broken_after: usize,
    turned: bool,
}

fn any_manner() -> impl Strategy<Value = Manner> {
    (1_usize..12, 0_usize..5, prop::bool::ANY).prop_map(|(page, broken_after, turned)| Manner {
        page,
        broken_after,
        turned,
    })
}

impl Manner {
    fn list<T: Clone>(self, all: &[T], index: &mut Index, begin: fn(&mut Index), tell: fn(&mut Index, &T)) {
        let mut all = all.to_vec();
        if self.turned {
            all.reverse();
        }
        begin(index);
        for object in all.chunks(self.page).take(self.broken_after).flatten() {
            tell(index, object);
        }
        begin(index);
        for page in all.chunks(self.page) {
            for object in page {
                tell(index, object);
            }
        }
    }
}

fn plan(objects: &Objects, manner: Manner) -> (BTreeMap<String, String>, u64, usize) {
    let mut index = Index::default();
    index.apply(&limited_pool("64"));
    manner.list(
        &objects.pods,
        &mut index,
        |index| index.pods.begin(),
        Index::apply_pod,
    );
    index.pods.finish();
    manner.list(
        &objects.nodes,
        &mut index,
        Index::begin::<ApiNode>,
        Index::apply::<ApiNode>,
    );
    index.finish::<ApiNode>();
    manner.list(
        &objects.claims,
        &mut index,
        Index::begin::<NodeClaim>,
        Index::apply::<NodeClaim>,
    );
    index.finish::<NodeClaim>();
    let types: Types = [(
        "p".to_owned(),
        Arc::new(vec![kind_of("small", 2), kind_of("large", 8)]),
    )]
    .into();
    let snapshot = index.situation(&types, &BTreeSet::new(), now()).snapshot;
    let plan = solve(&snapshot, Options::default(), &|| true);
    assert_eq!(crate::audit::plan(&snapshot, &plan), []);
    let name = |on: Destination| match on {
        Destination::Existing(node) => snapshot.nodes[node].name.clone(),
        Destination::New(claim) => {
            let pods = plan.claims[claim].members(&snapshot).map(|pod| pod.uid.as_str());
            pods.collect::<BTreeSet<&str>>()
                .into_iter()
                .collect::<Vec<&str>>()
                .join(",")
        }
    };
    let placed = plan.placements.iter();
    let placed = placed.map(|it| (snapshot.pending.members[it.pod].uid.clone(), name(it.on)));
    (placed.collect(), plan.price_nanos(), plan.pods_left_out())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_size_of_pages_and_the_order_of_lists_change_no_plan(objects in any_objects(), manner in any_manner()) {
        let plainly = Manner { page: 500, broken_after: 0, turned: false };
        prop_assert_eq!(plan(&objects, plainly), plan(&objects, manner));
    }
}
