//! The chart's roles in a cluster, without helm: its files are plain objects. What the operator does in the world it does
//! with these rights and no others.

use serde_json::{Value, json};

use super::cluster::{ACCOUNT, JOINER, NAMESPACE};
use crate::sim::kube::{ApiServer, write};

/// A file of the chart, whose it is, and in which namespace it holds.
struct File {
    text: &'static str,
    account: &'static str,
    namespace: Option<&'static str>,
}

const FILES: [File; 5] = [
    File {
        text: include_str!("../../../charts/karpenter-ibm/files/controller.yaml"),
        account: ACCOUNT,
        namespace: None,
    },
    File {
        text: include_str!("../../../charts/karpenter-ibm/files/release.yaml"),
        account: ACCOUNT,
        namespace: Some(NAMESPACE),
    },
    File {
        text: include_str!("../../../charts/karpenter-ibm/files/events.yaml"),
        account: ACCOUNT,
        namespace: None,
    },
    File {
        text: include_str!("../../../charts/karpenter-ibm/files/leases.yaml"),
        account: ACCOUNT,
        namespace: None,
    },
    File {
        text: include_str!("../../../charts/karpenter-ibm/files/joiner.yaml"),
        account: JOINER,
        namespace: None,
    },
];

/// Applies roles and bindings.
pub fn install(server: &ApiServer) -> Result<(), serde_saphyr::Error> {
    for object in objects()? {
        write::insert(server, object);
    }
    Ok(())
}

/// All roles, and after each its binding.
pub fn objects() -> Result<Vec<Value>, serde_saphyr::Error> {
    let mut objects = Vec::new();
    for file in &FILES {
        let role = file.role()?;
        let binding = file.binding(&role);
        objects.extend([role, binding]);
    }
    Ok(objects)
}

/// All rules of an account.
pub fn rules(account: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let mut rules = Vec::new();
    for file in FILES.iter().filter(|file| file.account == account) {
        rules.extend(file.role()?["rules"].as_array().cloned().unwrap_or_default());
    }
    Ok(rules)
}

impl File {
    fn role(&self) -> Result<Value, serde_saphyr::Error> {
        let mut role: Value = serde_saphyr::from_str(self.text)?;
        if let Some(namespace) = self.namespace {
            role["metadata"]["namespace"] = json!(namespace);
        }
        Ok(role)
    }

    fn binding(&self, role: &Value) -> Value {
        let kind = role["kind"].as_str().unwrap_or_default();
        json!({
            "apiVersion": role["apiVersion"], "kind": format!("{kind}Binding"), "metadata": role["metadata"],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role["metadata"]["name"],
            },
            "subjects": [{"kind": "ServiceAccount", "name": self.account, "namespace": NAMESPACE}],
        })
    }
}
