use serde_json::{Value, json};

use super::*;

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
    Resolved {
        class: serde_json::from_value(class).unwrap(),
        image: Some("image".to_owned()),
        resource_group: Some("g".to_owned()),
    }
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
fn a_class_that_was_judged_as_it_is_written_can_be_used_where_it_has_subnets() {
    let usable = |zone| complete(&resolved("True", 2, None), zone, "spot").unwrap();
    assert_eq!(usable("us-south-1"), Ok(()));
    assert!(
        usable("us-south-2")
            .unwrap_err()
            .0
            .contains("no subnet in zone us-south-2")
    );
}

#[test]
fn a_class_that_is_not_ready_says_why_and_one_that_is_not_judged_yet_is_waited_for() {
    let refused = complete(&resolved("False", 2, None), "us-south-1", "spot").unwrap();
    assert!(refused.unwrap_err().0.contains("there is no VPC"));
    for not_yet in [resolved("True", 1, None), resolved("Unknown", 2, None)] {
        let answer = complete(&not_yet, "us-south-1", "spot");
        assert!(matches!(answer, Err(ReadError::Unresolved(_))));
    }
}

#[test]
fn on_dedicated_hosts_nothing_is_bought_as_spot() {
    let dedicated = resolved("True", 2, Some("DedicatedHostGroup"));
    let spot = complete(&dedicated, "us-south-1", "spot").unwrap();
    assert!(spot.unwrap_err().0.contains("no spot"));
    assert_eq!(complete(&dedicated, "us-south-1", "on-demand").unwrap(), Ok(()));
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
async fn nothing_is_ordered_from_a_class_that_changed_since_it_was_resolved() {
    let stale = resolved("True", 1, None);
    assert_eq!(stale.order(&claim(), &allocation(), None, Instant::now()), None);
}
