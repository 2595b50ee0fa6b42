//! The chart's accounts and roles in a cluster, without helm: the role files are plain objects.

use karpenter_ibm::sim::kube::identity::{User, service_account};
use karpenter_ibm::sim::kube::write;
use serde_json::{Value, json};

use super::{NAMESPACE, World};

/// The account that the controller runs as.
pub(super) const CONTROLLER: &str = "karpenter-ibm";
/// The account that machines join with.
pub(super) const JOINER: &str = "karpenter-ibm-joiner";

/// A file of the chart, whose it is, and in which namespace it holds.
struct File {
    text: &'static str,
    account: &'static str,
    namespace: Option<&'static str>,
}

const FILES: [File; 4] = [
    File {
        text: include_str!("../../../charts/karpenter-ibm/files/controller.yaml"),
        account: CONTROLLER,
        namespace: None,
    },
    File {
        text: include_str!("../../../charts/karpenter-ibm/files/release.yaml"),
        account: CONTROLLER,
        namespace: Some(NAMESPACE),
    },
    File {
        text: include_str!("../../../charts/karpenter-ibm/files/events.yaml"),
        account: CONTROLLER,
        namespace: Some("default"),
    },
    File {
        text: include_str!("../../../charts/karpenter-ibm/files/joiner.yaml"),
        account: JOINER,
        namespace: None,
    },
];

/// All rules of an account.
pub(super) fn rules(account: &str) -> Vec<Value> {
    let files = FILES.iter().filter(|file| file.account == account);
    files
        .flat_map(|file| file.role()["rules"].as_array().unwrap().clone())
        .collect()
}

/// Applies accounts, roles and bindings; the user that the controller is.
pub(super) fn install(world: &World) -> User {
    for account in [CONTROLLER, JOINER] {
        write::insert(
            &world.kube,
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": NAMESPACE},
            }),
        );
    }
    for file in &FILES {
        let role = file.role();
        write::insert(&world.kube, file.binding(&role));
        write::insert(&world.kube, role);
    }
    service_account(NAMESPACE, CONTROLLER)
}

impl File {
    fn role(&self) -> Value {
        let mut role: Value = serde_saphyr::from_str(self.text).unwrap();
        if let Some(namespace) = self.namespace {
            role["metadata"]["namespace"] = json!(namespace);
        }
        role
    }

    fn binding(&self, role: &Value) -> Value {
        let kind = role["kind"].as_str().unwrap();
        json!({
            "apiVersion": role["apiVersion"], "kind": format!("{kind}Binding"), "metadata": role["metadata"],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role["metadata"]["name"],
            },
            "subjects": [{"kind": "ServiceAccount", "name": self.account, "namespace": NAMESPACE}],
        })
    }
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
        ["controller.yaml", "events.yaml", "joiner.yaml", "release.yaml"]
    );
    for file in files {
        assert!(template.contains(&format!("\"files/{file}\"")), "{file}");
    }
    assert!(
        !template.contains("verbs"),
        "a rule that is not in a file is read by nobody"
    );
}
