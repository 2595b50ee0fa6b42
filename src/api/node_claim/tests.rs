use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::money::Price;

#[test]
fn a_price_is_exact_decimal_digits() {
    for (nanos, text) in [
        (1, "0.000000001"),
        (66_470_000, "0.06647"),
        (1_000_000_000, "1"),
        (12_500_000_000, "12.5"),
        (10_000_000_000, "10"),
        (9_999_999_999_999_999_999, "9999999999.999999999"),
    ] {
        let price = WrittenPrice(Price::from_nanos(nanos).unwrap());
        assert_eq!(price.to_string(), text);
        assert_eq!(text.parse::<WrittenPrice>(), Ok(price));
    }
    for wrong in [
        "0",
        "0.0",
        "00.5",
        "0.50",
        ".5",
        "5.",
        "-1",
        "1e3",
        "10000000000",
        "0.0000000001",
        "",
        "$1",
    ] {
        assert!(wrong.parse::<WrittenPrice>().is_err(), "{wrong}");
    }
}

#[test]
fn a_price_too_high_to_be_true_is_cut_where_the_grammar_ends() {
    let price = WrittenPrice(Price::from_nanos(u64::MAX).unwrap());
    assert_eq!(price.to_string(), "9999999999.999999999");
}

#[test]
fn an_allocation_reads_and_writes_as_it_is_documented() {
    let written = json!({
        "profile": "bxf-4x16", "zone": "us-south-1", "capacityType": "spot", "price": "0.06647",
        "subnet": "0717-0ef923f3-26e4-4b10-9e5d-574c634aef14",
        "instanceName": "kib-0a1b2c3d-00112233445566778899aabbccddeeff",
        "instanceID": "0717_e21b7391-2ca2-4ab5-84a8-b92157a633b0", "attempt": 2,
        "credentials": [{"attempt": 2, "jti": "5b1c7d9e"}], "since": "2026-11-16T00:00:00Z",
    });
    let allocation: Allocation = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(allocation.price.map(|price| price.0.nanos()), Some(66_470_000));
    assert_eq!(serde_json::to_value(&allocation).unwrap(), written);
}

#[test]
fn runtime_validation_judges_taints_and_requirements() {
    let claim: NodeClaim = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
        "spec": {
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a b"]}],
            "taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}],
        },
    }))
    .unwrap();
    assert_eq!(claim.validate(), Ok(()));
    let fields: Vec<String> = claim
        .validate_runtime()
        .unwrap_err()
        .into_iter()
        .map(|it| it.field)
        .collect();
    assert_eq!(fields, ["spec.taints[1]", "spec.requirements[0].values[0]"]);
}

proptest! {
    #[test]
    fn every_price_survives_being_written(nanos in 1u64..10_000_000_000_000_000_000) {
        let price = WrittenPrice(Price::from_nanos(nanos).unwrap());
        prop_assert_eq!(price.to_string().parse::<WrittenPrice>(), Ok(price));
    }
}
