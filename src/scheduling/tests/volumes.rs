//! Volumes can be in some places only.

use std::slice::from_ref;

use super::*;
use crate::model::storage::{StorageClass, Volume, VolumeClaim};

fn zone(name: &str) -> Requirements {
    let mut requirements = Requirements::new();
    requirements.narrow(ZONES, &Values::one_of([name]));
    requirements
}

pub(super) fn storage(volumes: &[(&str, &[&str])]) -> Storage {
    let mut storage = Storage::default();
    for (name, zones) in volumes {
        let nodes = zones.iter().map(|name| zone(name)).collect();
        let volume = Volume {
            driver: Some("d".to_owned()),
            nodes,
            deleting: false,
        };
        storage.volumes.insert((*name).to_owned(), volume);
        let claim = VolumeClaim {
            volume: Some((*name).to_owned()),
            bound: true,
            ..VolumeClaim::default()
        };
        storage
            .claims
            .insert(("default".to_owned(), (*name).to_owned()), claim);
    }
    storage
}

pub(super) fn mounts(name: &str, claims: &[&str]) -> core::Pod {
    let volumes: Vec<Value> = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
        .collect();
    pod_with(name, "1", &json!({"volumes": volumes}))
}

pub(super) fn with(storage: Storage) -> Cluster {
    let mut base = cluster();
    base.storage = storage;
    base
}

#[test]
fn a_pod_goes_where_its_volume_is() {
    assert_eq!(
        zones(
            &with(storage(&[("v", &["z3"])]))
                .with([mounts("p", &["v"])])
                .solve()
        ),
        ["z3"].into()
    );
    let nowhere = with(storage(&[("v", &["nowhere"])]));
    assert!(!nowhere.with([mounts("p", &["v"])]).solve().all_placed());
}

#[test]
fn several_volumes_meet_where_all_can_be() {
    let two = storage(&[("v", &["z1", "z2"]), ("w", &["z2", "z3"])]);
    assert_eq!(
        zones(&with(two).with([mounts("p", &["v", "w"])]).solve()),
        ["z2"].into()
    );
    let apart = storage(&[("v", &["z1"]), ("w", &["z3"])]);
    assert!(!with(apart).with([mounts("p", &["v", "w"])]).solve().all_placed());
}

#[test]
fn a_class_of_storage_says_where_volumes_can_be_made() {
    let mut made = Storage::default();
    let class = StorageClass {
        driver: "d".to_owned(),
        nodes: vec![zone("z2")],
        ..StorageClass::default()
    };
    made.classes.insert("zonal".to_owned(), class);
    let ephemeral = json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate":
        {"spec": {"storageClassName": "zonal"}}}}]});
    assert_eq!(
        zones(&with(made).with([pod_with("p", "1", &ephemeral)]).solve()),
        ["z2"].into()
    );
}

#[test]
fn a_pod_whose_claim_is_missing_is_told_so_and_others_are_not_affected() {
    let solved = with(Storage::default())
        .with([mounts("p", &["gone"]), pod("q", "1")])
        .solve();
    assert_eq!(solved.words(), ["persistent volume claim gone does not exist"]);
    assert!(solved.place("q").is_some());
}

#[test]
fn where_a_volume_is_does_not_change_how_pods_are_counted() {
    let app = json!({"app": "a"});
    let fields = |claim: &str| {
        let mut fields = spread(ZONES, 1, &app, &json!({"minDomains": 3}));
        fields["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
        fields
    };
    let base = with(storage(&[("v1", &["z1"]), ("v2", &["z2"]), ("v3", &["z3"])]));
    let each = ["v1", "v2", "v3"].map(|claim| labelled(pod_with(claim, "1", &fields(claim)), &app));
    let solved = base.with(each).solve();
    assert!(solved.all_placed());
    assert_eq!(solved.skew(ZONES), [1, 1, 1]);
}

#[test]
fn a_volume_that_no_driver_attaches_counts_against_no_limit() {
    let mut all = storage(&[("nfs", &["z1"])]);
    for volume in all.volumes.values_mut() {
        volume.driver = None;
    }
    let mut there = node("n", 4, &[(ZONES, "z1")]);
    there.volume_limits.insert("d".to_owned(), 0);
    let solved = with(all).node(there).with([mounts("p", &["nfs"])]).solve();
    assert_eq!(solved.place("p").as_deref(), Some("n"));
}

/// A cluster with as many volumes as this, named `v0` and so on, whose types of so many processors attach so many.
fn attaching(limits: &[(i64, u32)], volumes: usize) -> Cluster {
    let names: Vec<String> = (0..volumes).map(|number| format!("v{number}")).collect();
    let all: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
    let types = limits.iter().map(|(cpu, limit)| {
        let mut kind = kind(&format!("type-{cpu:02}"), *cpu);
        kind.volume_limits.insert("d".to_owned(), *limit);
        kind
    });
    let types = Arc::new(types.collect());
    with(storage(&all)).pool(|pool| pool.types = types)
}

/// Small pods, each with a volume of its own.
fn one_each(count: usize) -> Vec<core::Pod> {
    let one = |number: usize| {
        let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": format!("v{number}")}}]);
        pod_with(&format!("p{number}"), "100m", &json!({"volumes": volume}))
    };
    (0..count).map(one).collect()
}

#[test]
fn a_new_node_is_planned_to_attach_no_more_volumes_than_its_type_can() {
    let solved = attaching(&[(8, 2)], 5).with(one_each(5)).solve();
    assert!(solved.all_placed());
    assert_eq!(solved.plan.claims.len(), 3);
}

#[test]
fn pods_that_share_a_volume_attach_it_once() {
    let same = |name: &str| {
        let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "v0"}}]);
        pod_with(name, "100m", &json!({"volumes": volume}))
    };
    let solved = attaching(&[(8, 1)], 1).with(["a", "b", "c"].map(same)).solve();
    assert!(solved.all_placed());
    assert_eq!(solved.plan.claims.len(), 1);
}

#[test]
fn a_type_that_can_attach_them_is_bought_although_a_cheaper_one_has_room() {
    let base = attaching(&[(1, 2), (2, 2), (8, 12)], 3);
    let solved = base.with([mounts("p", &["v0", "v1", "v2"])]).solve();
    assert!(solved.all_placed());
    let [claim] = &solved.plan.claims[..] else {
        panic!("{:?}", solved.plan.claims)
    };
    assert_eq!(claim.options, [2], "launch may choose no other");
}

#[test]
fn a_claim_that_grows_still_attaches_what_it_has() {
    // The next in price has room for both pods and attaches nothing.
    let base = attaching(&[(2, 2), (4, 0), (8, 12)], 2);
    let solved = base.with([mounts("p", &["v0", "v1"]), pod("q", "1")]).solve();
    assert!(solved.all_placed());
    for claim in &solved.plan.claims {
        let attaches = claim
            .pods
            .iter()
            .any(|pod| solved.snapshot.pending.members[*pod].name == "p");
        assert!(!attaches || !claim.options.contains(&1), "{claim:?}");
    }
}

#[test]
fn who_wants_more_volumes_than_any_type_attaches_is_told_so() {
    let base = attaching(&[(2, 1), (8, 2)], 3);
    let solved = base.with([mounts("p", &["v0", "v1", "v2"])]).solve();
    let [said] = &solved.words()[..] else {
        panic!("{:?}", solved.words())
    };
    assert!(
        said.ends_with("no more than 2 volumes of d can be attached"),
        "{said}"
    );
}

/// As of many StatefulSets: each pod has a volume of its own, and so is of a class of its own.
#[test]
fn twice_as_many_pods_with_volumes_of_their_own_take_hardly_more_than_twice_as_many_looks() {
    let looks = |pods: usize| {
        let base = attaching(&[(2, 4), (8, 12), (16, 12)], pods);
        base.with(one_each(pods)).looks()
    };
    for pods in [150, 300] {
        let (once, twice) = (looks(pods), looks(2 * pods));
        assert!(
            2 * twice <= 5 * once,
            "{once} for {pods}, {twice} for twice as many"
        );
    }
}

#[test]
fn whoever_brings_no_other_volume_goes_to_a_node_that_has_more_than_it_can_attach() {
    let mut there = node("n", 4, &[]);
    there.volume_limits.insert("d".to_owned(), 1);
    let on_it = ["default/v0", "default/v1"].map(str::to_owned);
    there.volumes.insert("d".to_owned(), on_it.into());
    for (claims, goes) in [
        (&["v0"][..], true),
        (&["v0", "v1"][..], true),
        (&["v2"][..], false),
        (&["v0", "v2"][..], false),
    ] {
        let base = attaching(&[(8, 12)], 3).node(there.clone());
        let solved = base.with([mounts("p", claims)]).solve();
        assert_eq!(solved.place("p").as_deref() == Some("n"), goes, "{claims:?}");
    }
}

#[test]
fn a_node_takes_pods_until_it_attaches_as_many_volumes_as_it_can() {
    let mut there = node("n", 8, &[]);
    there.volume_limits.insert("d".to_owned(), 3);
    there
        .volumes
        .insert("d".to_owned(), ["default/other".to_owned()].into());
    let base = attaching(&[(8, 12)], 4).node(there);
    let solved = base.with(one_each(4)).with([pod("plain", "50m")]).solve();
    assert!(solved.all_placed());
    assert_eq!(solved.places()["n"].len(), 3, "{:?}", solved.places());
    assert_eq!(solved.place("plain").as_deref(), Some("n"));
}

#[test]
fn where_a_volume_is_holds_beside_each_term_and_is_never_given_up() {
    let with_terms = |terms: &Value| {
        let mut fields = required(terms);
        fields["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]);
        let pod = pod_with("p", "1", &fields);
        with(storage(&[("v", &["z3"])])).with([pod]).solve()
    };
    let term = |key: &str, value: &str| json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
    let second = with_terms(&json!([term("team", "nobody"), term(CAPACITY, "on-demand")]));
    assert_eq!(zones(&second), ["z3"].into());
    let neither = with_terms(&json!([term(ZONES, "z1"), term(CAPACITY, "spot")]));
    assert!(
        !neither.all_placed(),
        "there is no spot in z3, and z1 is elsewhere"
    );
    let mut wish = mounts("p", &["v"]);
    let prefers = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "preference": term(ZONES, "z1")}]}});
    wish.spec.as_mut().unwrap().affinity = serde_json::from_value(prefers).unwrap();
    let solved = with(storage(&[("v", &["z3"])])).with([wish]).solve();
    assert_eq!(zones(&solved), ["z3"].into());
}

/// A local disk is where the pod asks to be anyway, so it changes nothing but what is told.
#[test]
fn whoever_has_no_volumes_is_not_told_of_those_of_another() {
    let mut disk = storage(&[("disk", &["z9"])]);
    for volume in disk.volumes.values_mut() {
        volume.driver = None;
    }
    let there = json!({"nodeSelector": {ZONES: "z9"}});
    let mut stored = there.clone();
    stored["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let stored = pod_with("a-stored", "1", &stored);
    let plain = pod_with("b-plain", "1", &there);
    let words = |pods: &[core::Pod]| {
        let mut words = with(disk.clone()).with(pods.iter().cloned()).solve().words();
        words.sort();
        words
    };
    let (one, two) = (words(from_ref(&stored)), words(from_ref(&plain)));
    assert_ne!(one, two);
    let mut each = [one, two].concat();
    each.sort();
    assert_eq!(words(&[stored, plain]), each);
}

/// By its number the only zone that is sold would be the last of a hundred.
#[test]
fn a_place_that_can_be_had_counts_however_many_come_before_it_that_cannot() {
    let names: Vec<String> = (0..99).map(|at| format!("a{at:02}")).collect();
    let mut zones_of: Vec<&str> = names.iter().map(String::as_str).collect();
    zones_of.push("z2");
    for volumes in [&["v"][..], &["v", "w"]] {
        let all: Vec<(&str, &[&str])> = volumes.iter().map(|name| (*name, &zones_of[..])).collect();
        let solved = with(storage(&all)).with([mounts("p", volumes)]).solve();
        assert!(solved.all_placed(), "{:?}", solved.words());
        assert_eq!(zones(&solved), ["z2"].into());
    }
}
