use serde_json::{Value, json};

use super::*;
use crate::cloud::{Subnet, Usable};
use crate::model::Placement;

const NAME: &str = "kib-8b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4";

fn resolved(status: &str, observed: i64, placement: Option<&str>) -> Resolved {
    let class = json!({
        "metadata": {"name": "default", "generation": 2},
        "spec": {
            "region": "us-south", "vpc": "v", "image": "i", "sshKeys": ["k"], "placementTarget": "p",
            "trustedProfile": "t", "tags": {"team": "a"},
            "blockDeviceMappings": [
                {"volumeSpec": {"capacity": 200, "profile": "sdp", "iops": 3000, "deleteOnTermination": false}},
                {"deviceName": "root", "rootVolume": true, "volumeSpec": {
                    "capacity": 100, "encryptionKeyID": "crn:key", "tags": ["b:c"],
                }},
            ],
        },
        "status": {
            "resolvedImageID": "image", "resolvedResourceGroupID": "g", "resolvedPlacement": placement,
            "resolvedSecurityGroups": ["s"], "resolvedSubnets": [{"id": "n", "zone": "us-south-1"}],
            "conditions": [{
                "type": "Ready", "status": status, "reason": "R", "message": "there is no VPC",
                "lastTransitionTime": "2026-11-16T10:00:00Z", "observedGeneration": observed,
            }],
        },
    });
    let class = serde_json::from_value(class).unwrap();
    Resolved::new(class, Some("g".to_owned()), &AllowLists::default())
}

/// A class that was found ready, by the lists of today.
fn under(allowed: &AllowLists) -> Resolved {
    let before = resolved("True", 2, None);
    Resolved::new(before.class, before.resource_group, allowed)
}

fn claim() -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": "a", "labels": {"karpenter.sh/nodepool": "spot"}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
    }))
    .unwrap()
}

fn allocation() -> Allocation {
    let written: Value = json!({
        "profile": "bxf-4x16", "zone": "us-south-1", "capacityType": "spot", "subnet": "n", "instanceName": NAME,
        "attempt": 1, "since": "2026-11-16T10:00:00Z",
    });
    serde_json::from_value(written).unwrap()
}

#[test]
fn a_class_that_was_judged_as_it_is_written_can_be_used() {
    assert_eq!(
        usable(Some(&resolved("True", 2, None)), "default").unwrap(),
        Ok(())
    );
    let missing = usable(None, "default").unwrap().unwrap_err();
    assert!(missing.0.contains("there is no IBMNodeClass default"));
}

#[test]
fn a_class_that_is_not_ready_says_why_and_one_that_is_not_judged_yet_is_waited_for() {
    let refused = usable(Some(&resolved("False", 2, None)), "default").unwrap();
    assert!(refused.unwrap_err().0.contains("there is no VPC"));
    for not_yet in [resolved("True", 1, None), resolved("Unknown", 2, None)] {
        let answer = usable(Some(&not_yet), "default");
        assert!(matches!(answer, Err(ReadError::Unresolved(_))));
    }
}

#[test]
fn of_the_networks_subnets_those_of_the_class_come_into_question_and_full_ones_have_no_address() {
    let subnet = |id: &str, free| Subnet {
        id: id.to_owned(),
        zone: "us-south-1".to_owned(),
        free,
        cidr: None,
        state: Usable::Yes,
    };
    let class = resolved("True", 2, Some("DedicatedHost"));
    let all = [subnet("n", 7), subnet("other", 7)];
    let free = |avoided: &[&str]| {
        let avoided = avoided.iter().map(|id| (*id).to_owned()).collect();
        let subnets = class.subnets(&all, &avoided);
        subnets
            .iter()
            .map(|it| (it.id.clone(), it.free))
            .collect::<Vec<_>>()
    };
    assert_eq!(free(&[]), [("n".to_owned(), 7)]);
    assert_eq!(free(&["n"]), [("n".to_owned(), 0)]);
    let facts = class.facts(Vec::new());
    assert_eq!(facts.placement, Placement::Dedicated);
    assert_eq!(
        (facts.boot_volume_bytes, facts.arch.as_str()),
        (100_000_000_000, "amd64")
    );
}

#[tokio::test]
async fn an_order_holds_everything_that_the_class_says() {
    let resolved = resolved("True", 2, None);
    let order = resolved
        .order(&claim(), &allocation(), Some("x".to_owned()), Instant::now())
        .unwrap();
    assert_eq!(order.image, "image");
    assert_eq!(order.security_groups, ["s"]);
    assert_eq!(order.ssh_keys, ["k"]);
    assert_eq!(order.placement_target.as_deref(), Some("p"));
    assert_eq!(order.trusted_profile.as_deref(), Some("t"));
    assert_eq!(order.boot_volume.device.as_deref(), Some("root"));
    assert_eq!(order.boot_volume.capacity_gb, Some(100));
    assert_eq!(order.boot_volume.encryption_key.as_deref(), Some("crn:key"));
    assert_eq!(order.boot_volume.afterwards, Afterwards::Deleted);
    let [data] = order.data_volumes.try_into().unwrap();
    assert_eq!((data.capacity_gb, data.iops), (Some(200), Some(3000)));
    assert_eq!(data.afterwards, Afterwards::Kept);
    let tags: Vec<&str> = order.tags.iter().map(String::as_str).collect();
    let expected = [
        "karpenter-ibm-cluster:8b19fa72",
        "karpenter-ibm-nodeclaim:a",
        "karpenter-ibm-nodepool:spot",
        "team:a",
    ];
    assert_eq!(tags, expected);
}

#[tokio::test]
async fn nothing_is_ordered_that_the_lists_of_today_refuse() {
    let one = |text: &str| BTreeSet::from([text.to_owned()]);
    let order = |allowed: &AllowLists| {
        let class = under(allowed);
        let is_usable = usable(Some(&class), "default").unwrap().is_ok();
        let order = class.order(&claim(), &allocation(), None, Instant::now());
        (is_usable, order.is_some())
    };
    let usual = AllowLists::default();
    assert_eq!(order(&usual), (true, true));
    for refusing in [
        AllowLists {
            keys: one("other"),
            ..usual.clone()
        },
        AllowLists {
            images: one("other"),
            ..usual.clone()
        },
        AllowLists {
            security_groups: one("s"),
            ..usual.clone()
        },
        AllowLists {
            resource_groups: one("g"),
            ..usual.clone()
        },
        AllowLists {
            trusted_profiles: one("other"),
            ..usual.clone()
        },
    ] {
        assert_eq!(order(&refusing), (false, false), "{refusing:?}");
    }
    // The class leaves its subnet open: those that are allowed may be used.
    let elsewhere = AllowLists {
        subnets: one("other"),
        ..usual
    };
    assert_eq!(order(&elsewhere), (true, false));
    let all = [Subnet {
        id: "n".to_owned(),
        zone: "us-south-1".to_owned(),
        free: 7,
        cidr: None,
        state: Usable::Yes,
    }];
    assert!(under(&elsewhere).subnets(&all, &BTreeSet::new()).is_empty());
}

#[tokio::test]
async fn nothing_is_ordered_from_a_class_that_changed_since_it_was_resolved() {
    let stale = resolved("True", 1, None);
    assert_eq!(stale.order(&claim(), &allocation(), None, Instant::now()), None);
}
