//! Volumes: whether they can be used, where they can be, and how many a node attaches.

use super::*;
use crate::model::storage::{StorageClass, Unusable};

const DRIVER: &str = "disk";

fn zones(all: &[&str]) -> Vec<Requirements> {
    let one = |zone: &&str| {
        let mut term = Requirements::new();
        term.narrow(ZONE, &Values::one_of([*zone]));
        term
    };
    all.iter().map(one).collect()
}

fn mounts(claim: &str) -> Value {
    json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]})
}

/// A node in the first zone, and a claim to a volume that is there.
fn with_volume(pending: &[(&str, Value)], claims: &[&str]) -> Snapshot {
    let mut snapshot = snapshot(pending);
    snapshot.nodes.push(node("n", "z1"));
    for claim in claims {
        let key = ("default".to_owned(), (*claim).to_owned());
        let bound = VolumeClaim {
            volume: Some((*claim).to_owned()),
            bound: true,
            ..VolumeClaim::default()
        };
        let volume = Volume {
            driver: Some(DRIVER.to_owned()),
            ..Volume::default()
        };
        snapshot.storage.claims.insert(key, bound);
        snapshot.storage.volumes.insert((*claim).to_owned(), volume);
    }
    snapshot
}

/// A change to what is known of volumes.
type Change<'c> = &'c dyn Fn(&mut Snapshot);

#[test]
fn a_volume_is_there_bound_usable_and_may_be_on_the_node() {
    let claim = |snapshot: &mut Snapshot, change: fn(&mut VolumeClaim)| {
        snapshot.storage.claims.values_mut().for_each(change);
    };
    let volume = |snapshot: &mut Snapshot, change: fn(&mut Volume)| {
        snapshot.storage.volumes.values_mut().for_each(change);
    };
    let changes: [(Change<'_>, bool); 9] = [
        (&|_| {}, true),
        (&|all| claim(all, |claim| claim.bound = false), false),
        (
            &|all| claim(all, |claim| claim.unusable = Some(Unusable::Lost)),
            false,
        ),
        (&|all| all.storage.claims.clear(), false),
        (&|all| volume(all, |volume| volume.deleting = true), false),
        (&|all| volume(all, |volume| volume.nodes = zones(&["z1"])), true),
        (&|all| volume(all, |volume| volume.nodes = zones(&["z2"])), false),
        (
            &|all| volume(all, |volume| volume.nodes = zones(&["z2", "z1"])),
            true,
        ),
        (&|all| all.storage.volumes.clear(), false),
    ];
    for (at, (change, held)) in changes.into_iter().enumerate() {
        let mut snapshot = with_volume(&[("a", mounts("data"))], &["data"]);
        let default = ("default".to_owned(), class(&[], Some(1)));
        snapshot.storage.classes.extend([default]);
        change(&mut snapshot);
        assert_eq!(broken(&snapshot, &put(&[0])), found(held, Rule::Volume), "{at}");
    }
}

fn class(nodes: &[&str], default_since: Option<i64>) -> StorageClass {
    StorageClass {
        driver: DRIVER.to_owned(),
        immediate: false,
        nodes: zones(nodes),
        default_since,
    }
}

/// A claim that no volume is made for yet: the class that it names, the classes that there are, and whether it will do.
#[test]
fn a_volume_that_is_made_when_its_pod_is_placed_goes_by_its_class() {
    let immediate = StorageClass {
        immediate: true,
        ..class(&["z1"], None)
    };
    for (named, classes, held) in [
        (Some("c"), vec![("c", class(&[], None))], true),
        (Some("c"), vec![("c", class(&["z2", "z1"], None))], true),
        (Some("c"), vec![("c", class(&["z2"], None))], false),
        (Some("c"), vec![("c", immediate)], false),
        (Some("c"), vec![("d", class(&[], Some(1)))], false),
        (
            Some("c"),
            vec![("c", class(&["z1"], None)), ("d", class(&["z2"], Some(1)))],
            true,
        ),
        (None, vec![("c", class(&["z1"], None))], false),
        (
            None,
            vec![("c", class(&["z1"], Some(2))), ("d", class(&["z2"], Some(1)))],
            true,
        ),
        (
            None,
            vec![("c", class(&["z2"], Some(2))), ("d", class(&["z1"], Some(1)))],
            false,
        ),
    ] {
        let made_with_pod = json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "storageClassName": named}}}}]});
        for spec in [mounts("data"), made_with_pod] {
            let mut snapshot = with_volume(&[("a", spec.clone())], &["data"]);
            snapshot.storage.volumes.clear();
            for claim in snapshot.storage.claims.values_mut() {
                *claim = VolumeClaim {
                    class: named.map(str::to_owned),
                    ..VolumeClaim::default()
                };
            }
            let there = classes.iter().cloned();
            snapshot.storage.classes = there.map(|(name, class)| (name.to_owned(), class)).collect();
            assert_eq!(
                broken(&snapshot, &put(&[0])),
                found(held, Rule::Volume),
                "{named:?} {classes:?} {spec}"
            );
        }
    }
}

#[test]
fn a_node_attaches_no_more_volumes_than_it_can_and_each_once() {
    for (there, limit, held) in [
        (vec![], 1, true),
        (vec![], 0, false),
        (vec!["default/other"], 1, false),
        (vec!["default/other"], 2, true),
        (vec!["default/data"], 1, true),
        (vec!["default/data", "default/other"], 1, true),
    ] {
        let mut snapshot = with_volume(&[("a", mounts("data"))], &["data"]);
        let node = &mut snapshot.nodes[0];
        node.volume_limits = [(DRIVER.to_owned(), limit), ("another".to_owned(), 0)].into();
        let on_it = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        node.volumes = [
            (DRIVER.to_owned(), on_it(&there)),
            ("another".to_owned(), on_it(&["x"])),
        ]
        .into();
        assert_eq!(
            broken(&snapshot, &put(&[0])),
            found(held, Rule::Volume),
            "{there:?} {limit}"
        );
    }
}

#[test]
fn a_volume_that_is_made_when_its_pod_is_placed_is_attached_too() {
    for (limit, held) in [(1, true), (0, false)] {
        let mut snapshot = with_volume(&[("a", mounts("data"))], &["data"]);
        snapshot.storage.volumes.clear();
        snapshot
            .storage
            .claims
            .values_mut()
            .for_each(|claim| *claim = VolumeClaim::default());
        let default = ("default".to_owned(), class(&[], Some(1)));
        snapshot.storage.classes.extend([default]);
        snapshot.nodes[0].volume_limits = [(DRIVER.to_owned(), limit)].into();
        assert_eq!(
            broken(&snapshot, &put(&[0])),
            found(held, Rule::Volume),
            "{limit}"
        );
    }
}

#[test]
fn volumes_of_pods_that_a_plan_puts_together_are_counted_together() {
    for (second, limit, held) in [("data", 1, true), ("more", 1, false), ("more", 2, true)] {
        let all = [("a", mounts("data")), ("b", mounts(second))];
        let mut snapshot = with_volume(&all, &["data", "more"]);
        snapshot.nodes[0].volume_limits = [(DRIVER.to_owned(), limit)].into();
        assert_eq!(
            broken(&snapshot, &put(&[0, 0])),
            found(held, Rule::Volume),
            "{second} {limit}"
        );
    }
}

#[test]
fn claims_of_one_name_in_two_namespaces_are_two_volumes() {
    let all = [("a", mounts("data")), ("b", mounts("data"))];
    let mut snapshot = with_volume(&all, &["data"]);
    let other = ("other".to_owned(), "data".to_owned());
    let claim = snapshot.storage.claims.values().next().unwrap().clone();
    snapshot.storage.claims.insert(other, claim);
    snapshot.pending.classes.push(snapshot.pending.classes[0].clone());
    snapshot.pending.classes[1].as_mut().unwrap().namespace = "other".to_owned();
    snapshot.pending.members[1].class = 1;
    snapshot.nodes[0].volume_limits = [(DRIVER.to_owned(), 1)].into();
    assert_eq!(broken(&snapshot, &put(&[0, 0])), [Rule::Volume].into());
}
