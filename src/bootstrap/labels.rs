//! Which labels a kubelet may put on its own Node.
//!
//! A kubelet that is told any other under `kubernetes.io` or `k8s.io` exits, and the API server's NodeRestriction would
//! refuse them too; they are set when the Node is registered.

use std::collections::BTreeMap;

use super::{RenderError, legal};

/// Labels under `kubernetes.io` that kubelets set, one by one.
const KUBELETS_OWN: [&str; 10] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// Domains under `kubernetes.io` whose labels, and those of their subdomains, kubelets may set.
const KUBELETS_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Whether a kubelet may put this label on its own Node.
pub fn may_be_set_by_kubelet(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| {
        let rest = domain.strip_suffix(parent);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if !within("kubernetes.io") && !within("k8s.io") {
        return true;
    }
    KUBELETS_OWN.contains(&label) || KUBELETS_DOMAINS.into_iter().any(within)
}

/// The labels as the kubelet's flag has them.
pub(super) fn flag(labels: &BTreeMap<String, String>) -> Result<String, RenderError> {
    let mut pairs = Vec::new();
    for (key, value) in labels {
        legal("the key of a label", key, |c| is_of_label(c) || c == '/')?;
        if !value.is_empty() {
            legal("the value of a label", value, is_of_label)?;
        }
        if may_be_set_by_kubelet(key) {
            pairs.push(format!("{key}={value}"));
        }
    }
    Ok(pairs.join(","))
}

fn is_of_label(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_is_told_only_labels_that_it_accepts() {
        for label in [
            "team",
            "example.com/team",
            "karpenter.sh/nodepool",
            "karpenter-ibm.sh/instance-family",
            "topology.kubernetes.io/zone",
            "kubernetes.io/arch",
            "node.kubernetes.io/anything",
            "x.kubelet.kubernetes.io/y",
            "mykubernetes.io/x",
        ] {
            assert!(may_be_set_by_kubelet(label), "{label}");
        }
        for label in [
            "kubernetes.io/role",
            "node-role.kubernetes.io/worker",
            "node-restriction.kubernetes.io/secure",
            "k8s.io/x",
            "x.k8s.io/y",
        ] {
            assert!(!may_be_set_by_kubelet(label), "{label}");
        }
    }
}
