//! Amounts of resources by name, and what a pod asks for in all.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::each;
use crate::quantity::Quantity;

/// How much of which resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(pub BTreeMap<String, Quantity>);

impl Amounts {
    /// Reads a list of resources; what is no quantity counts as nothing.
    pub fn of(list: &Value) -> Self {
        let entries = list.as_object().into_iter().flatten();
        let amount = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        Self(
            entries
                .filter_map(|(name, value)| Some((name.clone(), amount(value)?)))
                .collect(),
        )
    }

    /// Adds amounts. A sum is written as its first term, unless that is nothing.
    pub fn add(&mut self, more: &Self) {
        for (name, amount) in &more.0 {
            let sum = self.0.entry(name.clone()).or_insert(Quantity::ZERO);
            let notation = if sum.nanos() == 0 { *amount } else { *sum }.notation();
            *sum = Quantity::from_nanos(sum.nanos() + amount.nanos(), notation);
        }
    }

    /// Takes the greater of two amounts.
    pub fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let most = self.0.entry(name.clone()).or_insert(*amount);
            *most = (*most).max(*amount);
        }
    }

    /// As a list of resources.
    pub fn print(&self) -> Value {
        let entries = self
            .0
            .iter()
            .map(|(name, amount)| (name.clone(), amount.to_string().into()));
        Value::Object(entries.collect::<Map<_, _>>())
    }
}

/// What a pod may say for itself as a whole, in place of its containers.
const POD_LEVEL: [&str; 2] = ["cpu", "memory"];

/// The `requests` or `limits` of a whole pod: of all containers that run at the same time, at the worst time.
pub fn of_pod(spec: &Value, list: &str) -> Amounts {
    let its = |container: &Value| Amounts::of(&container["resources"][list]);
    let mut all = Amounts::default();
    for container in each(spec, "containers") {
        all.add(&its(container));
    }
    let (mut beside, mut worst) = (Amounts::default(), Amounts::default());
    for container in each(spec, "initContainers") {
        let mut now = its(container);
        if container["restartPolicy"] == "Always" {
            all.add(&now);
            beside.add(&now);
            now = beside.clone();
        } else {
            now.add(&beside);
        }
        worst.raise(&now);
    }
    all.raise(&worst);
    for (name, amount) in Amounts::of(&spec["resources"][list]).0 {
        if POD_LEVEL.contains(&name.as_str()) {
            all.0.insert(name, amount);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn a_pod_asks_for_its_worst_moment() {
        let mut sidecar = container("100m");
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({"containers": [container("500m"), container("500m")],
                          "initContainers": [container("2"), sidecar.clone(), container("3")]});
        assert_eq!(of_pod(&spec, "requests").print(), json!({"cpu": "3100m"}));
        let spec = json!({"containers": [container("4")], "initContainers": [sidecar]});
        assert_eq!(of_pod(&spec, "requests").print(), json!({"cpu": "4100m"}));
    }

    #[test]
    fn a_pod_may_say_what_it_asks_for_as_a_whole() {
        let spec =
            json!({"containers": [container("1")], "resources": {"requests": {"cpu": "3", "other": "1"}}});
        assert_eq!(of_pod(&spec, "requests").print(), json!({"cpu": "3"}));
    }

    #[test]
    fn a_sum_is_written_as_its_first_term() {
        let mut sum = Amounts::of(&json!({"memory": "0", "disk": "1Gi"}));
        sum.add(&Amounts::of(&json!({"memory": "1Gi", "disk": "1G"})));
        assert_eq!(sum.print()["memory"], "1Gi");
        assert_eq!(sum.print()["disk"], "2073741824");
    }
}
