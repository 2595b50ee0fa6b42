use serde_json::{Value, json};

use super::*;
use crate::cloud::{Image, ImageState};

const VPC: &str = "r006-cd031a72-f3d8-46cf-af44-0d76e89cd51e";
const GROUP: &str = "r006-2f6c3b1a-7b8e-4a52-9c8d-1f0e5d3c2b1a";
const KEY: &str = "r006-5d9f8c7b-1a2b-4c3d-8e4f-5a6b7c8d9e0f";
const TARGET: &str = "0717-84e4793a-7cd8-4a7b-b253-818aa19d0512";

fn subnet_id(number: u8) -> String {
    format!("0717-0ef923f3-26e4-4b10-9e5d-00000000000{number}")
}

fn class(change: &Value) -> IBMNodeClass {
    let mut spec = json!({"region": "us-south", "vpc": VPC, "image": "ibm-a"});
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "default"}, "spec": spec})).unwrap()
}

fn subnet(number: u8, free: u64) -> Subnet {
    Subnet {
        id: subnet_id(number),
        zone: format!("us-south-{number}"),
        free,
        cidr: None,
        state: Usable::Yes,
    }
}

fn facts() -> Facts {
    Facts {
        network: Some(Network {
            state: Usable::Yes,
            default_security_group: Some("default-group".to_owned()),
        }),
        subnets: vec![subnet(1, 100), subnet(2, 5)],
        tagged: None,
        security_groups: BTreeSet::from([GROUP.to_owned()]),
        keys: BTreeSet::from([KEY.to_owned()]),
        images: vec![Image {
            id: "image-id".to_owned(),
            name: "ibm-a".to_owned(),
            state: ImageState::Available,
            operating_system: Some("ubuntu-24-04-amd64".to_owned()),
            architecture: Some("amd64".to_owned()),
            minimum_gb: Some(20),
            created_at: None,
        }],
        resource_group: Some("group-id".to_owned()),
        placement: None,
    }
}

fn verdict(change: &Value, facts: &Facts) -> Verdict {
    judge(&class(change), facts, &AllowLists::default())
}

fn reasons(problems: &[Problem]) -> Vec<&'static str> {
    problems.iter().map(|problem| problem.reason).collect()
}

fn refused(change: &Value, facts: &Facts) -> Vec<&'static str> {
    reasons(&verdict(change, facts).problems)
}

fn ids(verdict: &Verdict) -> Vec<&str> {
    verdict.subnets.iter().map(|subnet| subnet.id.as_str()).collect()
}

#[test]
fn a_class_that_names_little_gets_the_defaults_of_account_and_network() {
    let verdict = verdict(&json!({}), &facts());
    assert_eq!(verdict.problems, []);
    assert_eq!(ids(&verdict), [subnet_id(1), subnet_id(2)]);
    assert_eq!(verdict.security_groups, ["default-group"]);
    assert_eq!(verdict.resource_group.as_deref(), Some("group-id"));
    assert_eq!(verdict.image.unwrap().0, "image-id");
}

#[test]
fn whatever_is_named_must_exist() {
    let mut nothing = facts();
    nothing.resource_group = None;
    nothing.images.clear();
    nothing.keys.clear();
    nothing.security_groups.clear();
    for (change, reason) in [
        (json!({"resourceGroup": "x"}), "ResourceGroupNotFound"),
        (json!({}), "ImageNotFound"),
        (json!({"sshKeys": [KEY]}), "KeyNotFound"),
        (json!({"securityGroups": [GROUP]}), "SecurityGroupNotFound"),
        (json!({"subnet": subnet_id(9)}), "SubnetNotFound"),
        (json!({"placementTarget": TARGET}), "PlacementTargetNotFound"),
        (json!({"zone": "us-south-3"}), "NoSubnet"),
    ] {
        assert!(refused(&change, &nothing).contains(&reason), "{change}");
    }
    nothing.network = None;
    assert_eq!(refused(&json!({}), &nothing), ["VPCNotFound"]);
}

#[test]
fn another_resource_group_than_the_recorded_one_is_a_problem() {
    let judged = |recorded: &str| {
        let mut class = class(&json!({}));
        class.status = serde_json::from_value(json!({"resolvedResourceGroupID": recorded})).unwrap();
        reasons(&judge(&class, &facts(), &AllowLists::default()).problems)
    };
    assert_eq!(judged("group-id"), Vec::<&str>::new());
    assert_eq!(judged("another"), ["ResourceGroupChanged"]);
}

#[test]
fn every_problem_is_told_with_the_field_to_change() {
    let verdict = verdict(&json!({"sshKeys": ["r006-x"], "zone": "us-south-3"}), &facts());
    let told: Vec<&str> = verdict.problems.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("zone us-south-3"), "{told:?}");
    assert!(
        told[1].contains("r006-x") && told[1].contains("spec.sshKeys"),
        "{told:?}"
    );
}

#[test]
fn subnets_are_chosen_by_id_zone_and_tag() {
    let mut facts = facts();
    let only = |change: Value, facts: &Facts| {
        let verdict = verdict(&change, facts);
        assert_eq!(verdict.problems, []);
        ids(&verdict).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(only(json!({"subnet": subnet_id(2)}), &facts), [subnet_id(2)]);
    assert_eq!(only(json!({"zone": "us-south-1"}), &facts), [subnet_id(1)]);
    facts.tagged = Some(BTreeSet::from([subnet_id(2), "of-another-vpc".to_owned()]));
    assert_eq!(only(json!({}), &facts), [subnet_id(2)]);
}

#[test]
fn a_subnet_that_is_full_stays_resolved_and_all_full_is_a_problem() {
    let minimum =
        |count: u64| json!({"placementStrategy": {"subnetSelection": {"minimumAvailableIPs": count}}});
    let some = verdict(&minimum(50), &facts());
    assert_eq!((some.problems.len(), some.subnets.len()), (0, 2));
    let none = verdict(&minimum(500), &facts());
    assert_eq!(reasons(&none.problems), ["NoFreeAddress"]);
    assert_eq!(none.subnets.len(), 2, "machines in them are where they should be");
}

#[test]
fn a_subnet_that_is_being_deleted_is_not_used() {
    let mut facts = facts();
    facts.subnets[0].state = Usable::No;
    assert_eq!(ids(&verdict(&json!({}), &facts)), [subnet_id(2)]);
}

#[test]
fn only_allowed_subnets_are_chosen() {
    let allowed = AllowLists {
        subnets: BTreeSet::from([subnet_id(2)]),
        ..AllowLists::default()
    };
    assert_eq!(
        ids(&judge(&class(&json!({})), &facts(), &allowed)),
        [subnet_id(2)]
    );
}

#[test]
fn on_dedicated_hosts_there_is_no_spot_and_only_the_zone_of_the_host() {
    let mut facts = facts();
    let target = json!({"placementTarget": TARGET});
    facts.placement = Some(Placement::DedicatedHost(Some("us-south-2".to_owned())));
    let placed = verdict(&target, &facts);
    assert_eq!(placed.placement, Some(PlacementKind::DedicatedHost));
    assert!(placed.notes[0].contains("no spot"), "{:?}", placed.notes);
    assert_eq!(ids(&placed), [subnet_id(2)]);
    facts.placement = Some(Placement::DedicatedHostGroup(None));
    assert!(!verdict(&target, &facts).placement.unwrap().allows_spot());
    facts.placement = Some(Placement::Group);
    let placed = verdict(&target, &facts);
    assert!(placed.placement.unwrap().allows_spot() && placed.notes.is_empty());
}

#[test]
fn a_root_volume_must_hold_the_image() {
    let root =
        |gb: u64| json!({"blockDeviceMappings": [{"rootVolume": true, "volumeSpec": {"capacity": gb}}]});
    assert_eq!(refused(&root(19), &facts()), ["RootVolumeTooSmall"]);
    assert_eq!(refused(&root(20), &facts()), Vec::<&str>::new());
}

/// A class with these tags, and a boot and a data volume of which one has tags of its own.
fn tagged(class: &Value, root: bool, tags: &Value) -> Value {
    let volume = |is_root: bool| {
        let tags = if is_root == root { tags.clone() } else { json!([]) };
        json!({"rootVolume": is_root, "volumeSpec": {"capacity": 100, "tags": tags}})
    };
    json!({"tags": class, "blockDeviceMappings": [volume(true), volume(false)]})
}

#[test]
fn tags_of_volumes_are_judged_like_those_of_the_class_and_beside_them() {
    let told = |change: &Value| {
        let problems = before_asking(&class(change), "us-south", &AllowLists::default());
        let told = problems.into_iter().map(|it| (it.reason, it.message));
        told.collect::<Vec<_>>()
    };
    let team = json!({"team": "a"});
    for (root, field) in [
        (true, "spec.blockDeviceMappings[0].volumeSpec.tags"),
        (false, "spec.blockDeviceMappings[1].volumeSpec.tags"),
    ] {
        for (tags, words) in [
            (json!(["Karpenter-IBM-cluster:x"]), "not Karpenter-IBM-cluster"),
            (json!(["karpenter-ibm-nodeclaim"]), "not karpenter-ibm-nodeclaim"),
            (json!(["disk:a", "Disk:b"]), "disk:a and Disk:b are the same tag"),
            (json!(["fast", "Fast"]), "fast and Fast are the same tag"),
            (json!(["disk:A", "disk:a"]), "disk:A and disk:a are the same tag"),
            (json!(["Team:b"]), "team:a and Team:b are the same tag"),
        ] {
            let told = told(&tagged(&team, root, &tags));
            assert_eq!(told.len(), 1, "{tags}: {told:?}");
            assert_eq!(told[0].0, "InvalidTags");
            assert!(
                told[0].1.starts_with(field) && told[0].1.contains(words),
                "{told:?}"
            );
        }
        let good = json!(["disk:a", "disk:b", "team:a", "fast", "my-karpenter-ibm"]);
        assert!(told(&tagged(&team, root, &good)).is_empty(), "{field}");
    }
}

#[test]
fn what_needs_no_cloud_to_be_wrong_is_told_before_it_is_asked() {
    let allowed = AllowLists {
        keys: BTreeSet::from(["other".to_owned()]),
        ..AllowLists::default()
    };
    for (change, reason) in [
        (json!({"region": "eu-de"}), "WrongRegion"),
        (json!({"zone": "eu-de-1"}), "Invalid"),
        (json!({"userData": "a\u{0}b"}), "Invalid"),
        (json!({"userData": "x".repeat(65_537)}), "Invalid"),
        (json!({"tags": {"Karpenter-IBM-cluster": "x"}}), "InvalidTags"),
        (json!({"tags": {"team": "a", "Team": "b"}}), "InvalidTags"),
        (json!({"tags": {"team": "\u{1f600}"}}), "Invalid"),
        (json!({"sshKeys": [KEY]}), "NotAllowed"),
    ] {
        let problems = before_asking(&class(&change), "us-south", &allowed);
        assert_eq!(reasons(&problems), [reason], "{change}");
    }
    assert_eq!(before_asking(&class(&json!({})), "us-south", &allowed), []);
}
