use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::*;
use crate::sim::actors::control_plane::{Act, Target};
use crate::sim::actors::scheduler::samples::{add, carry_out, on, pod, view, zoned};
use crate::sim::actors::view::Key;

fn at(seconds: i64) -> Timestamp {
    let epoch: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
    epoch + SignedDuration::from_secs(seconds)
}

/// Asks again and again at a moment until nothing is left to do; returns when to ask next.
fn settle(view: &mut View, seconds: i64) -> Option<Timestamp> {
    for _ in 0..20 {
        let next = next(view, at(seconds));
        if next.acts.is_empty() {
            return next.again_at;
        }
        carry_out(view, &next, at(seconds));
    }
    panic!("it never comes to rest");
}

fn using(name: &str, node: &str) -> Pod {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
    on(node, pod(name, &json!({}), json!({"volumes": [volume]})))
}

fn claim(class: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "1",
                     "annotations": annotations, "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": "10Gi"}}},
    })
}

fn cluster(class: &str, annotations: &Value) -> View {
    let mut view = view(&[zoned("a1", "a"), zoned("b1", "b"), zoned("b2", "b")], &[]);
    for (name, mode) in [("late", "WaitForFirstConsumer"), ("early", "Immediate")] {
        add::<StorageClass>(
            &mut view,
            json!({"metadata": {"name": name}, "provisioner": "disk.example.com", "volumeBindingMode": mode}),
        );
    }
    add::<PersistentVolumeClaim>(&mut view, claim(class, annotations));
    view
}

fn selected(node: &str) -> Value {
    json!({claims::SELECTED_NODE: node})
}

fn phase(view: &View) -> (String, String) {
    let claim = view.claims[&Key::new("default", "c")].status.clone();
    let volume = view.volumes["pvc-u"].status.clone();
    (claim.unwrap().phase.unwrap(), volume.unwrap().phase.unwrap())
}

fn reaches(view: &View) -> Vec<&str> {
    let volume = &view.volumes["pvc-u"];
    let nodes = view.nodes.iter();
    nodes
        .filter(|(_, node)| claims::reaches(volume, node))
        .map(|(name, _)| name.as_str())
        .collect()
}

#[test]
fn a_volume_is_made_in_the_zone_of_the_first_consumer() {
    let mut view = cluster("late", &json!({}));
    settle(&mut view, 0);
    assert!(view.volumes.is_empty(), "nobody uses it yet");
    let mut view = cluster("late", &selected("b1"));
    settle(&mut view, 0);
    assert_eq!(phase(&view), ("Bound".to_owned(), "Bound".to_owned()));
    assert_eq!(reaches(&view), ["b1", "b2"]);
}

#[test]
fn a_choice_of_a_node_that_is_gone_is_taken_back() {
    let mut view = cluster("late", &selected("gone"));
    settle(&mut view, 0);
    assert_eq!(
        claims::selected_node(&view.claims[&Key::new("default", "c")]),
        None
    );
    assert!(view.volumes.is_empty());
}

#[test]
fn a_claim_that_does_not_wait_gets_its_volume_in_some_zone() {
    let mut view = cluster("early", &json!({}));
    settle(&mut view, 0);
    assert_eq!(phase(&view), ("Bound".to_owned(), "Bound".to_owned()));
    assert!([vec!["a1"], vec!["b1", "b2"]].contains(&reaches(&view)));
}

#[test]
fn a_volume_that_is_there_is_taken_before_one_is_made() {
    let mut view = cluster("early", &json!({}));
    add::<PersistentVolume>(
        &mut view,
        json!({"metadata": {"name": "spare", "resourceVersion": "1", "uid": "spare"},
               "spec": {"storageClassName": "early", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "20Gi"}}}),
    );
    settle(&mut view, 0);
    assert_eq!(
        claims::volume_name(&view.claims[&Key::new("default", "c")]),
        Some("spare")
    );
    assert_eq!(view.volumes.len(), 1);
}

fn attached(view: &View) -> Vec<(&str, bool)> {
    let each = view.attachments.values();
    each.map(|one| {
        (
            one.spec.node_name.as_str(),
            one.status.as_ref().is_some_and(|status| status.attached),
        )
    })
    .collect()
}

#[test]
fn a_volume_is_attached_and_detached_in_its_own_time() {
    let mut view = cluster("late", &selected("b1"));
    settle(&mut view, 0);
    view.apply(using("p", "b1"));
    assert_eq!(settle(&mut view, 10), Some(at(15)));
    assert_eq!(attached(&view), [("b1", false)]);
    assert_eq!(settle(&mut view, 15), None);
    assert_eq!(attached(&view), [("b1", true)]);

    // The pod moves: the new node waits until the old one has let go.
    view.bury(Kind::Pod, "p");
    view.apply(using("q", "b2"));
    assert_eq!(settle(&mut view, 20), Some(at(25)));
    assert_eq!(attached(&view), [("b1", true)]);
    settle(&mut view, 25);
    assert_eq!(attached(&view), [("b2", false)]);
}

#[test]
fn a_stuck_detachment_stays_until_it_is_freed() {
    for kind in [Kind::Node, Kind::Volume] {
        let mut view = cluster("late", &selected("b1"));
        settle(&mut view, 0);
        view.apply(using("p", "b1"));
        settle(&mut view, 10);
        settle(&mut view, 15);
        let name = if kind == Kind::Node { "b1" } else { "pvc-u" };
        let target = Target {
            kind,
            namespace: String::new(),
            name: name.to_owned(),
        };
        let annotate = |value: Value| Next {
            acts: vec![Act::Patch {
                target: target.clone(),
                patch: json!({"metadata": {"annotations": {DETACHES: value}}}),
            }],
            again_at: None,
        };
        carry_out(&mut view, &annotate(json!("never")), at(16));
        view.bury(Kind::Pod, "p");
        settle(&mut view, 20);
        assert_eq!(settle(&mut view, 1000), None);
        assert_eq!(attached(&view), [("b1", true)], "{kind:?}");
        carry_out(&mut view, &annotate(json!(null)), at(1001));
        settle(&mut view, 1001);
        assert_eq!(attached(&view), []);
    }
}

fn report_in_use(view: &mut View, ready: &str) {
    let mut node: Node = (*view.nodes["b1"]).clone();
    node.metadata.resource_version = Some("50".to_owned());
    let status = node.status.as_mut().unwrap();
    status.volumes_in_use = Some(vec!["kubernetes.io/csi/disk.example.com^vol-u".to_owned()]);
    let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": at(30).to_string()}]);
    status.conditions = serde_json::from_value(conditions).unwrap();
    view.apply(node);
}

#[test]
fn a_volume_in_use_is_detached_only_from_a_node_that_is_long_down() {
    for (ready, free) in [("True", None), ("Unknown", Some(at(390)))] {
        let mut view = cluster("late", &selected("b1"));
        settle(&mut view, 0);
        view.apply(using("p", "b1"));
        settle(&mut view, 10);
        settle(&mut view, 15);
        report_in_use(&mut view, ready);
        view.bury(Kind::Pod, "p");
        assert_eq!(settle(&mut view, 40), free, "Ready is {ready}");
        settle(&mut view, 390);
        settle(&mut view, 395);
        assert_eq!(attached(&view).is_empty(), free.is_some());
    }
}

#[test]
fn what_a_node_did_not_use_when_it_went_is_detached_at_once_and_the_rest_when_it_is_long_gone() {
    for (used, free) in [(false, 20), (true, 380)] {
        let mut view = cluster("late", &selected("b1"));
        settle(&mut view, 0);
        view.apply(using("p", "b1"));
        settle(&mut view, 10);
        settle(&mut view, 15);
        if used {
            report_in_use(&mut view, "True");
        }
        view.bury(Kind::Node, "b1");
        view.note_absence(at(20));
        if used {
            assert_eq!(settle(&mut view, 20), Some(at(free)));
        }
        assert_eq!(settle(&mut view, free), Some(at(free + 5)), "{used}");
        assert_eq!(attached(&view), [("b1", true)], "{used}");
        settle(&mut view, free + 5);
        assert_eq!(attached(&view), [], "{used}");
    }
}

#[test]
fn a_deleted_claim_goes_after_its_pod_and_takes_its_volume_along_once_that_is_detached() {
    let mut view = cluster("late", &selected("b1"));
    settle(&mut view, 0);
    view.apply(using("p", "b1"));
    settle(&mut view, 10);
    settle(&mut view, 15);
    let target = Target::of(view.claims[&Key::new("default", "c")].as_ref());
    let delete = Act::Delete {
        target,
        preconditions: crate::sim::actors::control_plane::Preconditions::default(),
        grace: None,
    };
    carry_out(
        &mut view,
        &Next {
            acts: vec![delete],
            again_at: None,
        },
        at(20),
    );
    settle(&mut view, 20);
    assert_eq!(view.claims.len(), 1, "a pod uses it");
    view.bury(Kind::Pod, "p");
    settle(&mut view, 30);
    assert!(view.claims.is_empty());
    assert_eq!(
        view.volumes["pvc-u"].status.as_ref().unwrap().phase.as_deref(),
        Some("Released")
    );
    settle(&mut view, 35);
    assert!(view.volumes.is_empty() && view.attachments.is_empty());
}
