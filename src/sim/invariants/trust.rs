//! S17: a Node counts as a claim's only if name, provider id and address are those of its machine. S21: what claim and
//! Node say of type, zone and capacity type is what the machine really is, also after adoption.

use std::time::Duration;

use serde_json::Value;

use super::book::Book;
use super::claims::is_true;
use super::machine::Machine;
use super::{Check, Findings, Truth};
use crate::api::names::{
    CAPACITY_TYPE, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT, INSTANCE_TYPE, LAUNCHED, NODE_REGISTERED,
    ZONE,
};
use crate::sim::history::Entry;
use crate::sim::ibm::Class;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::stored::ObjectKey;

/// How soon after somebody else wrote it an object says again what is so: it is put right at most twice a minute.
const PUT_RIGHT: Duration = Duration::from_mins(2);

pub(super) struct Trust;

impl Check for Trust {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        for change in book.changed.claims.iter().filter(|change| !change.deleted) {
            let claim = &change.after;
            let newly = |kind| {
                is_true(claim, kind)
                    && !change
                        .before
                        .as_deref()
                        .is_some_and(|before| is_true(before, kind))
            };
            if newly(NODE_REGISTERED) {
                registered(claim, entry.at, book, truth, found);
            }
            if newly(LAUNCHED) {
                describes(claim, Labels::WhereSet, entry.at, book, found);
            }
        }
    }

    fn settled(&self, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        for claim in claims(truth) {
            if is_true(&claim, LAUNCHED) && !object::is_deleting(&claim) {
                describes(&claim, Labels::All, truth.since_start, book, found);
            }
            if is_true(&claim, NODE_REGISTERED) && !object::is_deleting(&claim) {
                node_describes(&claim, truth, book, found);
            }
        }
    }
}

fn claims(truth: &Truth<'_>) -> Vec<Value> {
    let state = truth.kube.state();
    let table = TableKey::of("karpenter.sh", "nodeclaims");
    let claims = state.store.list(&table, None).map(|stored| stored.value());
    claims.collect()
}

/// Which labels must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Labels {
    /// Those that are must be right.
    WhereSet,
    /// All.
    All,
}

fn machine<'a>(claim: &Value, book: &'a Book) -> Option<&'a Machine> {
    let provider = claim["status"]["providerID"].as_str()?;
    let id = provider.rsplit('/').next()?;
    book.machines.get(id)
}

fn registered(claim: &Value, at: Duration, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    let name = object::name(claim);
    let mut blame = |why: String| found.blame("S17", at, format!("claim {name} is registered, but {why}"));
    let Some(machine) = machine(claim, book) else {
        return blame("its provider id is that of no machine".to_owned());
    };
    if machine.claim.as_deref() != Some(object::uid(claim)) {
        return blame(format!("machine {} is not its own", machine.name));
    }
    if !book.nodes.contains(name) {
        return blame("there never was a Node of its name".to_owned());
    }
    let state = truth.kube.state();
    let node = state
        .store
        .get(&TableKey::of("", "nodes"), &ObjectKey::new("", name));
    // A Node that is gone by now was there when the operator looked.
    let Some(node) = node.map(|stored| stored.value()) else {
        return;
    };
    if node["spec"]["providerID"] != claim["status"]["providerID"] {
        blame(format!(
            "its Node's provider id is {}",
            node["spec"]["providerID"]
        ));
    }
    let addresses = node["status"]["addresses"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let agrees = |address: &String| addresses.iter().any(|known| known["address"] == *address);
    if !machine.address.as_ref().is_some_and(agrees) {
        blame(format!(
            "its Node does not have the address {:?}",
            machine.address
        ));
    }
}

fn describes(claim: &Value, labels: Labels, at: Duration, book: &Book, found: &mut Findings) {
    if let Some(machine) = machine(claim, book) {
        let said = ("nodeclaims", claim);
        compare(said, machine, labels, at, book, found);
    }
}

/// The Node of a claim says the same.
fn node_describes(claim: &Value, truth: &Truth<'_>, book: &Book, found: &mut Findings) {
    let state = truth.kube.state();
    let key = ObjectKey::new("", object::name(claim));
    let node = state.store.get(&TableKey::of("", "nodes"), &key);
    if let Some((node, machine)) = node.map(|stored| stored.value()).zip(machine(claim, book)) {
        compare(
            ("nodes", &node),
            machine,
            Labels::All,
            truth.since_start,
            book,
            found,
        );
    }
}

fn compare(
    (plural, object): (&str, &Value),
    machine: &Machine,
    labels: Labels,
    at: Duration,
    book: &Book,
    found: &mut Findings,
) {
    let name = object::name(object);
    let touched = book.meddled.get(&format!("{plural}/{name}"));
    let excused = |touched: &Duration| match labels {
        // A claim that somebody made anew has the labels of another until its own machine is known.
        Labels::WhereSet => true,
        Labels::All => at.saturating_sub(*touched) <= PUT_RIGHT,
    };
    if touched.is_some_and(excused) {
        return;
    }
    let capacity = match machine.class {
        Class::Spot => CAPACITY_TYPE_SPOT,
        Class::Standard => CAPACITY_TYPE_ON_DEMAND,
    };
    let really = [
        (INSTANCE_TYPE, machine.profile),
        (ZONE, machine.zone.as_str()),
        (CAPACITY_TYPE, capacity),
    ];
    for (label, value) in really {
        let said = object["metadata"]["labels"][label].as_str();
        let wrong = match said {
            Some(said) => said != value,
            None => labels == Labels::All,
        };
        if wrong {
            let message = format!("{plural}/{name} says {label} is {said:?}, its machine is {value}");
            found.blame("S21", at, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::api::{Api, PostParams};
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;

    /// A claim whose machine runs; the machine's id and address.
    async fn launched(stage: &mut Stage) -> (String, String) {
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        stage.pass(200).await;
        let address = stage.cloud.instance(&id).unwrap().address.unwrap().to_string();
        (format!("ibm:///us-south/{id}"), address)
    }

    async fn node(stage: &mut Stage, provider_id: &str, address: &str) {
        let nodes: Api<Node> = Api::all(stage.server.admin());
        let mut node = Node::default();
        node.metadata.name = Some("a".to_owned());
        node.spec = serde_json::from_value(json!({ "providerID": provider_id })).unwrap();
        let made = nodes.create(&PostParams::default(), &node).await.unwrap();
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
        let patch = kube::api::Patch::Merge(status);
        let params = kube::api::PatchParams::default();
        nodes
            .patch_status(&made.metadata.name.unwrap(), &params, &patch)
            .await
            .unwrap();
        stage.look();
    }

    async fn register(stage: &mut Stage, provider_id: &str) {
        stage
            .patch("a", json!({"status": {"providerID": provider_id}}))
            .await;
        stage.conditions("a", &[(NODE_REGISTERED, "True", 1)]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_its_machine_is_trusted() {
        let mut stage = Stage::new().await;
        let (id, address) = launched(&mut stage).await;
        node(&mut stage, &id, &address).await;
        register(&mut stage, &id).await;
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_with_another_address_or_id_is_not_to_be_trusted() {
        for wrong in ["address", "id", "node"] {
            let mut stage = Stage::new().await;
            let (id, address) = launched(&mut stage).await;
            match wrong {
                "address" => node(&mut stage, &id, "10.0.0.9").await,
                "id" => node(&mut stage, "ibm:///us-south/0717_other", &address).await,
                _ => {}
            }
            register(&mut stage, &id).await;
            assert_eq!(stage.blamed(), ["S17"], "{wrong}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_describes_its_machine_as_it_is() {
        let mut stage = Stage::new().await;
        let (id, _) = launched(&mut stage).await;
        stage.patch("a", json!({"status": {"providerID": id}})).await;
        let labels = |profile: &str| json!({"metadata": {"labels": {(INSTANCE_TYPE): profile}}});
        stage.patch("a", labels("bxf-2x8")).await;
        stage.conditions("a", &[(LAUNCHED, "True", 1)]).await;
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
        // In the end all of them must be there.
        let missing = stage.unmet().iter().filter(|unmet| unmet.id == "S21").count();
        assert_eq!(missing, 2);
        stage.patch("a", labels("bxf-4x16")).await;
        let wrong = stage.unmet().iter().filter(|unmet| unmet.id == "S21").count();
        assert_eq!(wrong, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn so_does_its_node() {
        let mut stage = Stage::new().await;
        let (id, address) = launched(&mut stage).await;
        node(&mut stage, &id, &address).await;
        register(&mut stage, &id).await;
        let wrong = |stage: &Stage| stage.unmet().iter().filter(|unmet| unmet.id == "S21").count();
        assert_eq!(wrong(&stage), 3, "it says nothing");
        stage.struck("k14-edit-labels", "nodes/a");
        assert_eq!(wrong(&stage), 0, "somebody else's doing");
        stage.pass(121).await;
        assert_eq!(wrong(&stage), 3, "that is put right by now");
    }
}
