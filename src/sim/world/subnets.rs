//! Subnets that people choose by a tag, in worlds in which Global Search lags.
//!
//! Search is asked only where a class requires tags, so that one that lags met nobody. There the class requires one that the
//! subnets have from the start: what may be bought is what may be in the calm play of the same world. While search lags
//! somebody tags one more, which the operator is to learn of late and come to no harm by.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::json;

use crate::sim::faults::{Fault, Injection, Plan};
use crate::sim::ibm::{Cloud, FaultKind};
use crate::sim::scenario::Scenario;

/// The tag, as a class has it.
const KEY: &str = "cluster";
const VALUE: &str = "ours";

/// When search that lags has learned of everything: what it learns when all was put right already, would be written into
/// the status of a class when nobody may do anything any more.
const LEARNED_WITHIN: Duration = Duration::from_mins(10);

/// Subnets that nobody has tagged yet, by the place in the plan of the fault under which somebody does.
#[derive(Debug, Default)]
pub(super) struct Untagged(BTreeMap<usize, String>);

impl Untagged {
    /// Makes the account and the classes ready, where search is to lag.
    pub(super) fn prepare(cloud: &Cloud, scenario: &mut Scenario, plan: &Plan) -> Self {
        let injections = plan.injections.iter().enumerate();
        let lagging: Vec<(usize, &Injection)> = injections.filter(|(_, it)| lets_search_lag(it)).collect();
        if lagging.is_empty() {
            return Self::default();
        }
        let classes = scenario.objects.iter_mut();
        for class in classes.filter(|object| object["kind"] == "IBMNodeClass") {
            class["spec"]["placementStrategy"] = json!({"subnetSelection": {"requiredTags": {KEY: VALUE}}});
        }
        let account = cloud.account();
        for subnet in &account.subnets {
            cloud.begin_with_tag(subnet, &tag());
        }
        let ends = scenario.lasts.max(plan.ends());
        let in_time = lagging
            .iter()
            .filter(|(_, injection)| injection.at + LEARNED_WITHIN <= ends);
        // Beside the first zone's own subnet, one after the other.
        let places = in_time.map(|(place, _)| *place).zip(32..64);
        let zone = account.zones.first().cloned().unwrap_or_default();
        let made = places.map(|(place, number)| {
            let network = Ipv4Addr::new(10, 240, number, 0);
            let name = format!("spare-{number}");
            (place, cloud.add_subnet(&name, &account.vpc, &zone, network, 24))
        });
        Self(made.collect())
    }

    /// Somebody tags the subnet that is for this fault of the plan; which it was.
    pub(super) fn tag_for(&mut self, place: usize, cloud: &Cloud) -> Option<String> {
        let subnet = self.0.remove(&place)?;
        cloud.tag_subnet(&subnet, &tag());
        Some(subnet)
    }
}

fn tag() -> String {
    format!("{KEY}:{VALUE}")
}

fn lets_search_lag(injection: &Injection) -> bool {
    matches!(&injection.fault, Fault::Cloud(fault) if fault.kind == FaultKind::SearchLag)
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::Value;

    use super::*;
    use crate::sim::history::Keep;
    use crate::sim::ibm;
    use crate::sim::invariants::stage::Stage;
    use crate::sim::world::{Setup, Verdict, product, run};

    fn scenario() -> Scenario {
        let class = json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "spec": {"region": "${region}", "vpc": "${vpc}", "image": "${image}"},
        });
        Scenario {
            name: "alone".to_owned(),
            about: String::new(),
            region: "us-south".to_owned(),
            objects: vec![class],
            steps: Vec::new(),
            lasts: Duration::from_mins(13),
        }
    }

    fn plan(kind: FaultKind, minute: u64) -> Plan {
        Plan {
            injections: vec![Injection {
                at: Duration::from_mins(minute),
                lasts: Duration::from_secs(10),
                stream: 1,
                fault: Fault::Cloud(ibm::Fault::new(kind)),
            }],
        }
    }

    /// How many subnets search finds by the tag.
    async fn found(stage: &Stage) -> usize {
        let query = json!({"query": format!("type:subnet AND tags:\"{}\"", tag())});
        let answer = stage
            .cloud_says(Method::POST, "/v3/resources/search", &query.to_string())
            .await;
        answer["items"].as_array().unwrap().len()
    }

    #[tokio::test(start_paused = true)]
    async fn search_that_lags_learns_late_of_a_subnet_and_knew_the_others_from_the_start() {
        let mut stage = Stage::new().await;
        let mut scenario = scenario();
        let plan = plan(FaultKind::SearchLag, 2);
        let mut untagged = Untagged::prepare(&stage.cloud, &mut scenario, &plan);
        let required = "/spec/placementStrategy/subnetSelection/requiredTags/cluster";
        assert_eq!(scenario.objects[0].pointer(required), Some(&Value::from("ours")));
        assert_eq!(found(&stage).await, 3);
        stage.cloud.faults().start(ibm::Fault::new(FaultKind::SearchLag));
        assert!(untagged.tag_for(0, &stage.cloud).is_some());
        assert_eq!(untagged.tag_for(0, &stage.cloud), None);
        stage.pass(300).await;
        assert_eq!(found(&stage).await, 3);
        stage.pass(301).await;
        assert_eq!(found(&stage).await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn where_search_does_not_lag_or_begins_to_when_it_is_too_late_nobody_tags_anything() {
        for (kind, minute, changes) in [(FaultKind::TagFails, 2, false), (FaultKind::SearchLag, 4, true)] {
            let stage = Stage::new().await;
            let mut own = scenario();
            let mut untagged = Untagged::prepare(&stage.cloud, &mut own, &plan(kind, minute));
            assert_eq!(untagged.tag_for(0, &stage.cloud), None, "{kind:?}");
            assert_eq!(own != scenario(), changes, "{kind:?}");
        }
    }

    #[test]
    fn the_operator_meets_it() {
        let outcome = run(Setup {
            seed: 1,
            scenario: scenario(),
            plan: plan(FaultKind::SearchLag, 2),
            product: product::product(),
            replicas: 1,
            machines_max: None,
            quiet: Duration::ZERO,
            keep: Keep::All,
            observers: Vec::new(),
        })
        .unwrap();
        assert_eq!(outcome.verdict, Verdict::Passed, "{:?}", outcome.violations);
        assert!(
            outcome.faults.contains_key("c14-search-lag"),
            "{:?}",
            outcome.faults
        );
    }
}
