//! The quality of service that a pod's requests and limits buy.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::each;
use crate::quantity::Quantity;

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub fn class(spec: &Value) -> &'static str {
    let containers = || each(spec, "containers").chain(each(spec, "initContainers"));
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut all_limited = true;
    let pod_level = spec["resources"]
        .as_object()
        .is_some_and(|fields| !fields.is_empty());
    let resources: Vec<&Value> = if pod_level {
        vec![&spec["resources"]]
    } else {
        containers().map(|container| &container["resources"]).collect()
    };
    for resources in resources {
        add(&mut requests, &resources["requests"]);
        let mut own = Amounts::new();
        add(&mut own, &resources["limits"]);
        all_limited &= own.len() == COUNTED.len();
        add(&mut limits, &resources["limits"]);
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if all_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The resources that decide.
const COUNTED: [&str; 2] = ["cpu", "memory"];

type Amounts = BTreeMap<&'static str, i128>;

/// Adds what is more than nothing.
fn add(amounts: &mut Amounts, list: &Value) {
    for resource in COUNTED {
        let amount = list[resource]
            .as_str()
            .and_then(|text| text.parse::<Quantity>().ok());
        if let Some(amount) = amount.map(Quantity::nanos).filter(|nanos| *nanos > 0) {
            *amounts.entry(resource).or_default() += amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn guarantees_need_equal_requests_and_limits_of_both_resources_everywhere() {
        let of = |requests: Value, limits: Value| {
            class(&json!({"containers": [{"resources": {"requests": requests, "limits": limits}}]}))
        };
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(
            of(both.clone(), json!({"cpu": "1000m", "memory": "1024Mi"})),
            "Guaranteed"
        );
        assert_eq!(of(both, json!({"cpu": "2", "memory": "1Gi"})), "Burstable");
        assert_eq!(of(json!({"cpu": "1"}), json!({"cpu": "1"})), "Burstable");
        assert_eq!(of(json!({"cpu": "0"}), json!(null)), "BestEffort");
        assert_eq!(of(json!({"ibm.com/gpu": "1"}), json!(null)), "BestEffort");
    }
}
