//! ReplicaSets: as many pods as are asked for.
//!
//! Finished pods and those being deleted do not count. Which ones go first when there are too many is in [`order`].
//! The view shows every pod that was created or deleted here before, so there are no expectations to keep.

mod order;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;

pub(super) use self::order::{Order, first_to_go};
use super::pods::{Owned, Tally, controller, count, from_template, is_active, is_terminating, size};
use super::status::{corrected, some};
use crate::sim::actors::control_plane::{Act, Actor, Next};
use crate::sim::actors::scheduler::labels;
use crate::sim::actors::view::{Kind, View};

/// The controller.
pub(super) const ACTOR: Actor = Actor {
    name: "replicaset-controller",
    reads: &[Kind::ReplicaSet, Kind::Pod],
    glances: &[],
    next,
};

/// How many pods are made or deleted at once for one set, as the real controller's burst limit.
const BURST_MAX: usize = 500;

/// What all replica sets of the view need.
pub(super) fn next(view: &View, now: Timestamp) -> Next {
    let owned = Owned::of(view);
    let mut next = Next::default();
    for set in view.replica_sets.values() {
        let pods = owned.by(&set.metadata);
        let active: Vec<&Pod> = pods.iter().copied().filter(|pod| is_active(pod)).collect();
        if set.metadata.deletion_timestamp.is_none() {
            manage(view, &owned, set, &active, now, &mut next);
        }
        report(set, pods, &active, now, &mut next);
    }
    next
}

fn wanted(set: &ReplicaSet) -> usize {
    size(set.spec.replicas.unwrap_or(1))
}

fn manage(
    view: &View,
    owned: &Owned<'_>,
    set: &ReplicaSet,
    active: &[&Pod],
    now: Timestamp,
    next: &mut Next,
) {
    let wanted = wanted(set);
    if let (Some(template), true) = (&set.spec.template, active.len() < wanted) {
        let pod = from_template(template, set);
        let missing = (wanted - active.len()).min(BURST_MAX);
        next.acts
            .extend(std::iter::repeat_with(|| Act::make(&pod)).take(missing));
    } else if active.len() > wanted {
        let related = related(view, owned, set);
        let spare = (active.len() - wanted).min(BURST_MAX);
        let order = Order::Replicas {
            related: &related,
            now,
        };
        let going = first_to_go(active, order);
        next.acts.extend(going.into_iter().take(spare).map(Act::delete));
    }
}

/// The pods of all sets with the same controller: of two sets of one deployment, either may lose its double.
fn related<'a>(view: &View, owned: &Owned<'a>, set: &ReplicaSet) -> Vec<&'a Pod> {
    let Some(above) = controller(&set.metadata) else {
        return owned.by(&set.metadata).to_vec();
    };
    let siblings = view
        .replica_sets
        .values()
        .filter(|other| controller(&other.metadata).is_some_and(|its| its.uid == above.uid));
    siblings
        .flat_map(|set| owned.by(&set.metadata))
        .copied()
        .collect()
}

fn report(set: &ReplicaSet, pods: &[&Pod], active: &[&Pod], now: Timestamp, next: &mut Next) {
    let spec = &set.spec;
    let tally = Tally::of(active.iter().copied(), spec.min_ready_seconds, now);
    let template = spec
        .template
        .as_ref()
        .and_then(|template| template.metadata.as_ref());
    let demanded = template
        .and_then(|metadata| metadata.labels.clone())
        .unwrap_or_default();
    let labeled = active.iter().filter(|pod| {
        let its = labels::of(&pod.metadata);
        demanded.iter().all(|(key, value)| its.get(key) == Some(value))
    });
    let old = set.status.as_ref();
    let status = ReplicaSetStatus {
        replicas: count(active),
        fully_labeled_replicas: some(count(labeled)),
        ready_replicas: some(tally.ready),
        available_replicas: some(tally.available),
        terminating_replicas: Some(count(pods.iter().filter(|pod| is_terminating(pod)))),
        observed_generation: set.metadata.generation,
        conditions: old.and_then(|status| status.conditions.clone()),
    };
    next.acts.extend(corrected(set, old, &status));
    if let Some(at) = tally.next {
        next.again(at);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::trial::{at, deeds, deleting, in_phase, named, on, owned, pod, ready, status, with};
    use super::*;

    fn set(replicas: i32) -> ReplicaSet {
        named(
            "web",
            json!({"spec": {"replicas": replicas, "minReadySeconds": 10, "selector": {"matchLabels": {"app": "web"}},
                   "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}}),
        )
    }

    fn own(pod: Pod) -> Pod {
        owned(pod, "ReplicaSet", "web")
    }

    fn seen(replicas: i32, pods: Vec<Pod>) -> Next {
        next(&with(with(View::default(), [set(replicas)]), pods), at(100))
    }

    #[test]
    fn missing_pods_are_made_from_the_template() {
        let wanted = seen(2, vec![own(pod("a")), pod("of-nobody")]);
        assert_eq!(deeds(&wanted), ["create Pod web-"]);
        let Act::Create { object, .. } = &wanted.acts[0] else {
            panic!("{wanted:?}")
        };
        assert_eq!(object["metadata"]["labels"], json!({"app": "web"}));
        assert_eq!(
            object["metadata"]["ownerReferences"],
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web",
                    "controller": true, "blockOwnerDeletion": true}])
        );
    }

    #[test]
    fn finished_and_leaving_pods_do_not_count() {
        let pods = vec![
            own(in_phase(pod("failed"), "Failed")),
            own(deleting(pod("going"))),
            own(pod("a")),
        ];
        assert_eq!(deeds(&seen(1, pods.clone())), Vec::<String>::new());
        assert_eq!(deeds(&seen(2, pods)), ["create Pod web-"]);
    }

    #[test]
    fn spare_pods_go_in_order() {
        let pods = vec![
            own(on(ready(pod("aged"), 10), "n")),
            own(on(ready(pod("new"), 90), "m")),
            own(pod("unplaced")),
        ];
        assert_eq!(deeds(&seen(1, pods)), ["delete unplaced", "delete new"]);
    }

    #[test]
    fn a_set_that_is_being_deleted_makes_nothing_more() {
        let mut going = set(3);
        going.metadata.deletion_timestamp = Some(at(1).into());
        let wanted = next(&with(View::default(), [going]), at(100));
        assert_eq!(deeds(&wanted), Vec::<String>::new());
    }

    #[test]
    fn the_status_counts_and_the_set_looks_again_when_a_pod_becomes_available() {
        let pods = vec![
            own(ready(pod("a"), 95)),
            own(ready(pod("b"), 50)),
            own(deleting(pod("c"))),
        ];
        let wanted = seen(2, pods);
        assert_eq!(
            status(&wanted, "web"),
            json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1, "terminatingReplicas": 1,
                   "observedGeneration": 1})
        );
        assert_eq!(wanted.again_at, Some(at(105)));
    }

    #[test]
    fn a_status_that_is_right_is_not_written() {
        let mut set = set(1);
        set.status = Some(
            serde_json::from_value(json!({"replicas": 1, "observedGeneration": 1, "terminatingReplicas": 0}))
                .unwrap(),
        );
        let view = with(with(View::default(), [set]), [own(pod("a"))]);
        assert_eq!(next(&view, at(1)), Next::default());
    }
}
