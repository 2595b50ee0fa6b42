//! The chart's accounts and roles in a cluster, without helm: the role files are plain objects.

use futures::future::BoxFuture;
use karpenter_ibm::sim::kube::identity::{User, service_account};
use karpenter_ibm::sim::kube::write;
use karpenter_ibm::sim::world::chart;
pub(super) use karpenter_ibm::sim::world::cluster::{ACCOUNT as CONTROLLER, JOINER};
use serde_json::{Value, json};

use super::{NAMESPACE, World, allocation, audited};

/// All rules of an account.
pub(super) fn rules(account: &str) -> Vec<Value> {
    chart::rules(account).unwrap()
}

/// All roles and bindings.
pub(super) fn objects() -> Vec<Value> {
    chart::objects().unwrap()
}

/// Applies accounts, roles and bindings.
pub(super) fn install(world: &World) {
    for account in [CONTROLLER, JOINER] {
        write::insert(
            &world.kube,
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": NAMESPACE},
            }),
        );
    }
    chart::install(&world.kube).unwrap();
}

/// The user that the controller is.
pub(super) fn user() -> User {
    service_account(NAMESPACE, CONTROLLER)
}

/// A replica with these rights and no others, which tells machines where the cluster is.
pub(super) fn replica(world: &World) -> BoxFuture<'static, ()> {
    audited::factory(allocation::settings(world, "one"))(world.edges())
}

#[test]
fn the_template_renders_every_file_and_the_chart_has_no_other() {
    let chart = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/karpenter-ibm");
    let template = std::fs::read_to_string(chart.join("templates/rbac.yaml")).unwrap();
    let mut files: Vec<String> = std::fs::read_dir(chart.join("files"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(
        files,
        [
            "controller.yaml",
            "events.yaml",
            "joiner.yaml",
            "leases.yaml",
            "release.yaml"
        ]
    );
    for file in files {
        assert!(template.contains(&format!("\"files/{file}\"")), "{file}");
    }
    assert!(
        !template.contains("verbs"),
        "a rule that is not in a file is read by nobody"
    );
}
