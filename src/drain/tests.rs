use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    let begin: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
    begin + jiff::SignedDuration::from_secs(seconds)
}

fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "resourceVersion": "7", "labels": {"app": "shop"},
            "annotations": {}, "ownerReferences": [],
        },
        "spec": {"containers": [], "terminationGracePeriodSeconds": 30},
        "status": {
            "phase": "Running", "startTime": at(0).to_string(), "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

fn plain(name: &str) -> Pod {
    pod(name, |_| ())
}

fn owned_by(pod: &mut Value, kind: &str) {
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "o"}]);
}

fn tiers() -> Vec<Pod> {
    let critical = |pod: &mut Value| pod["spec"]["priorityClassName"] = "system-node-critical".into();
    vec![
        pod("d", |pod| {
            critical(pod);
            owned_by(pod, "DaemonSet");
        }),
        pod("c", critical),
        pod("b", |pod| owned_by(pod, "DaemonSet")),
        plain("a"),
    ]
}

fn budget(name: &str, allowed: i32) -> PodDisruptionBudget {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "shop"}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3},
    }))
    .unwrap()
}

fn drain(pods: &[Pod], budgets: &[PodDisruptionBudget], deadline: Option<i64>, now: i64) -> Drain {
    next_evictions(pods, budgets, &Refused::new(), deadline.map(at), at(now))
}

fn evicted(drain: &Drain) -> Vec<&str> {
    drain.evictions.iter().map(|it| it.pod.name.as_str()).collect()
}

fn waits(pods: &[Pod], budgets: &[PodDisruptionBudget], now: i64) -> Vec<String> {
    let drain = drain(pods, budgets, None, now);
    drain.waiting.iter().map(ToString::to_string).collect()
}

#[test]
fn daemons_go_after_others_and_critical_pods_after_both() {
    let mut pods = tiers();
    for name in ["a", "b", "c", "d"] {
        let drain = drain(&pods, &[], None, 0);
        assert_eq!(evicted(&drain), [name]);
        assert!(drain.evictions.iter().all(|it| it.manner == Manner::Evict));
        assert_eq!(drain.waiting.len(), pods.len() - 1);
        pods.retain(|pod| pod.metadata.name.as_deref() != Some(name));
    }
    assert!(drain(&pods, &[], None, 0).is_done());
}

#[test]
fn a_high_number_alone_makes_no_pod_critical() {
    let important = pod("a", |pod| pod["spec"]["priority"] = 2_000_000_001.into());
    assert_eq!(Tier::of(&important), Tier::Usual);
}

#[test]
fn a_tier_waits_for_the_terminating_pods_of_the_one_before() {
    let going = pod("a", |pod| {
        pod["metadata"]["deletionTimestamp"] = at(30).to_string().into();
    });
    let daemon = pod("b", |pod| owned_by(pod, "DaemonSet"));
    let pods = [going, daemon];
    assert!(evicted(&drain(&pods, &[], None, 60)).is_empty());
    assert_eq!(evicted(&drain(&pods, &[], None, 91)), ["b"], "a is stuck");
}

#[test]
fn what_need_not_leave_is_neither_evicted_nor_waited_for() {
    let tolerating = pod("tolerating", |pod| {
        pod["spec"]["tolerations"] = json!([{"key": "karpenter.sh/disrupted", "operator": "Exists"}]);
    });
    let mirror = pod("mirror", |pod| {
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    });
    let statics = pod("static", |pod| owned_by(pod, "Node"));
    let done = pod("done", |pod| pod["status"]["phase"] = "Succeeded".into());
    let failed = pod("failed", |pod| pod["status"]["phase"] = "Failed".into());
    let stuck = pod("stuck", |pod| {
        pod["metadata"]["deletionTimestamp"] = at(-61).to_string().into();
    });
    assert!(
        drain(
            &[tolerating, mirror, statics, done, failed, stuck],
            &[],
            Some(0),
            0
        )
        .is_done()
    );
}

#[test]
fn a_pod_that_is_not_to_be_disrupted_holds_the_node_and_says_until_when() {
    let annotated = |value: &str| {
        pod("a", |pod| {
            pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": value});
        })
    };
    assert_eq!(
        waits(&[annotated("true")], &[], 0),
        ["default/a: its annotation says that it is not to be disrupted"]
    );
    assert_eq!(
        waits(&[annotated("1h")], &[], 3599),
        ["default/a: its annotation says that it is not to be disrupted before 2026-11-16T11:00:00Z"]
    );
    assert!(waits(&[annotated("1h")], &[], 3600).is_empty());
    for (written, seconds) in [("1.5h", 5400), ("1h0.5m", 3630), ("500ms", 1)] {
        assert_eq!(
            waits(&[annotated(written)], &[], seconds - 1).len(),
            1,
            "{written}"
        );
        assert!(waits(&[annotated(written)], &[], seconds).is_empty(), "{written}");
    }
    let unborn = pod("a", |pod| {
        pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "1s"});
        pod["status"] = json!({"phase": "Pending"});
    });
    assert_eq!(waits(&[unborn], &[], 9999).len(), 1);
}

#[test]
fn a_wish_that_cannot_be_read_protects_nothing_and_is_said_with_the_eviction() {
    for (written, unread) in [("soon", Some("soon")), ("0s", Some("0s")), ("false", None)] {
        let pod = pod("a", |pod| {
            pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": written});
        });
        let drain = drain(&[pod], &[], None, 0);
        assert_eq!(evicted(&drain), ["a"]);
        assert_eq!(drain.evictions[0].unread_wish.as_deref(), unread);
    }
}

#[test]
fn a_budget_is_not_asked_for_more_than_it_has() {
    let pods = [plain("a"), plain("b"), plain("c")];
    let drain = drain(&pods, &[budget("shop", 1)], None, 0);
    assert_eq!(evicted(&drain), ["a"]);
    assert_eq!(
        drain.waiting[0].to_string(),
        "default/b: disruption budget shop allows no disruption now"
    );
}

/// kubernetes-sigs/karpenter#2361: evictions of such a pod fail for ever, and nothing else got on.
#[test]
fn a_pod_under_two_budgets_is_not_asked_for_and_others_go_on() {
    let other = pod("b", |pod| pod["metadata"]["labels"] = json!({"app": "other"}));
    let drain = drain(
        &[plain("a"), other],
        &[budget("one", 5), budget("two", 5)],
        None,
        0,
    );
    assert_eq!(evicted(&drain), ["b"]);
    assert_eq!(
        drain.waiting[0].why,
        Why::Budgets(vec!["one".to_owned(), "two".to_owned()])
    );
}

#[test]
fn pods_that_do_not_run_or_are_not_ready_are_left_to_the_server_to_judge() {
    let pending = pod("a", |pod| pod["status"]["phase"] = "Pending".into());
    let unready = pod("b", |pod| pod["status"]["conditions"] = json!([]));
    assert_eq!(
        evicted(&drain(&[pending, unready], &[budget("shop", 0)], None, 0)),
        ["a", "b"]
    );
}

#[test]
fn a_refusal_is_not_repeated_before_its_time() {
    let refused = Refused::from([("a".to_owned(), at(10))]);
    let at_time = |now| next_evictions(&[plain("a")], &[], &refused, None, at(now));
    assert_eq!(at_time(9).waiting[0].why, Why::Refused(at(10)));
    assert_eq!(evicted(&at_time(10)), ["a"]);
}

#[test]
fn a_deadline_deletes_each_pod_in_time_for_its_own_grace_whatever_protects_it() {
    let protected = pod("a", |pod| {
        pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
        pod["spec"]["terminationGracePeriodSeconds"] = 60.into();
    });
    let daemon = pod("b", |pod| owned_by(pod, "DaemonSet"));
    let pods = [protected, daemon];
    let at_time = |now| drain(&pods, &[budget("shop", 0)], Some(300), now);
    assert!(at_time(239).evictions.is_empty());
    let first = at_time(240);
    assert_eq!(evicted(&first), ["a"]);
    assert_eq!(first.evictions[0].manner, Manner::Delete(Duration::from_mins(1)));
    let second = at_time(271);
    assert_eq!(evicted(&second), ["a", "b"], "tiers do not hold a deadline up");
    assert_eq!(
        second.evictions[1].manner,
        Manner::Delete(Duration::from_secs(29))
    );
}

#[test]
fn a_pod_that_would_outlive_the_deadline_is_told_again_once() {
    let going = |end: i64| {
        pod("a", |pod| {
            pod["metadata"]["deletionTimestamp"] = at(end).to_string().into();
        })
    };
    let drained = drain(&[going(900)], &[], Some(300), 100);
    assert_eq!(
        drained.evictions[0].manner,
        Manner::Delete(Duration::from_secs(200))
    );
    assert!(drain(&[going(300)], &[], Some(300), 100).evictions.is_empty());
    let late = drain(&[going(900)], &[], Some(300), 400);
    assert_eq!(late.evictions[0].manner, Manner::Delete(Duration::from_secs(1)));
    assert!(drain(&[going(401)], &[], Some(300), 401).evictions.is_empty());
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let kinds = prop::sample::select(vec!["ReplicaSet", "DaemonSet", "Node"]);
    let phases = prop::sample::select(vec!["Pending", "Running", "Succeeded", "Failed"]);
    let notes = prop::sample::select(vec!["", "true", "1h", "soon"]);
    let end = prop::option::of(-200..200i64);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    ("[a-h]", kinds, phases, notes, end, flags, 0..120i64).prop_map(
        |(name, kind, phase, note, end, (critical, ready, tolerates), grace)| {
            pod(&name, |pod| {
                owned_by(pod, kind);
                pod["status"]["phase"] = phase.into();
                pod["spec"]["terminationGracePeriodSeconds"] = grace.into();
                if !note.is_empty() {
                    pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": note});
                }
                if let Some(end) = end {
                    pod["metadata"]["deletionTimestamp"] = at(end).to_string().into();
                }
                if critical {
                    pod["spec"]["priorityClassName"] = "system-cluster-critical".into();
                }
                if !ready {
                    pod["status"]["conditions"] = json!([]);
                }
                if tolerates {
                    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
                }
            })
        },
    )
}

fn find<'a>(pods: &'a [Pod], uid: &str) -> &'a Pod {
    pods.iter()
        .find(|pod| pod.metadata.uid.as_deref() == Some(uid))
        .unwrap()
}

proptest! {
    #[test]
    fn everybody_who_must_leave_leaves_or_waits_and_nobody_else(
        pods in prop::collection::btree_map("[a-h]", any_pod(), 0..8), now in -100..100i64,
    ) {
        // A name is a uid here, so there is one of each.
        let pods: Vec<Pod> = pods.into_values().collect();
        let distinct: std::collections::BTreeSet<_> = pods.iter().map(|pod| pod.metadata.uid.clone()).collect();
        prop_assume!(distinct.len() == pods.len());
        let drain = drain(&pods, &[], None, now);
        let told = drain.evictions.iter().map(|it| &it.pod.uid).chain(drain.waiting.iter().map(|it| &it.pod.uid));
        let mut told: Vec<&str> = told.map(String::as_str).collect();
        told.sort_unstable();
        let must = pods.iter().filter(|pod| leaves(pod, at(now)));
        let mut must: Vec<&str> = must.filter_map(|pod| pod.metadata.uid.as_deref()).collect();
        must.sort_unstable();
        prop_assert_eq!(told, must);
    }

    #[test]
    fn without_a_deadline_nobody_is_deleted_and_nobody_protected_is_evicted(
        pods in prop::collection::vec(any_pod(), 0..8), allowed in 0..3i32, now in -100..100i64,
    ) {
        let drain = drain(&pods, &[budget("shop", allowed)], None, now);
        let mut charged = 0;
        for eviction in &drain.evictions {
            prop_assert_eq!(eviction.manner, Manner::Evict);
            prop_assert!(eviction.resource_version.is_some() && !eviction.pod.uid.is_empty());
            let candidates = pods.iter().filter(|pod| pod.metadata.uid.as_ref() == Some(&eviction.pod.uid));
            let unprotected = |pod: &Pod| protection(pod, at(now)) == Protection::None;
            prop_assert!(candidates.clone().any(unprotected));
            let ready = |pod: &Pod| pod.status.as_ref().is_some_and(|it| {
                it.phase.as_deref() == Some("Running") && it.conditions.as_ref().is_some_and(|it| !it.is_empty())
            });
            charged += i32::from(candidates.clone().all(ready));
        }
        prop_assert!(charged <= allowed);
    }

    #[test]
    fn all_that_is_evicted_at_once_is_of_one_tier_the_first(
        pods in prop::collection::vec(any_pod(), 0..8), now in -100..100i64,
    ) {
        let first = pods.iter().filter(|pod| leaves(pod, at(now))).map(Tier::of).min();
        for eviction in drain(&pods, &[], None, now).evictions {
            let tiers = pods.iter().filter(|pod| pod.metadata.uid.as_ref() == Some(&eviction.pod.uid)).map(Tier::of);
            prop_assert!(tiers.into_iter().any(|tier| Some(tier) == first));
        }
    }

    #[test]
    fn nobody_is_deleted_while_more_time_is_left_than_it_asks_for(
        pod in any_pod(), deadline in 0..400i64, now in -100..400i64,
    ) {
        let pods = [pod];
        for eviction in drain(&pods, &[], Some(deadline), now).evictions {
            let pod = find(&pods, &eviction.pod.uid);
            let asked = pod.spec.as_ref().unwrap().termination_grace_period_seconds.unwrap();
            if let Manner::Delete(grace) = eviction.manner {
                let going = pod.metadata.deletion_timestamp.is_some();
                prop_assert!(going || deadline - now <= asked);
                prop_assert!(i64::try_from(grace.as_secs()).unwrap() <= (deadline - now).max(1));
            }
        }
    }
}
