//! Which kinds there are: those of Kubernetes that the product reads or writes, and every CRD applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::kind::{Custom, Kind, Nature, ScalePaths, Scope, Verbs};
use super::object;
use super::schema::{Schema, SchemaError};

/// A line of the table of built-in kinds: group, version, kind, plural, scope, short names, categories,
/// subresources, selectable fields. Lists are separated by spaces.
type Line = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Scope,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

use Scope::{Cluster, Namespaced};

const POD_FIELDS: &str = "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork \
                          status.phase status.podIP status.nominatedNodeName";
const EVENT_FIELDS: &str = "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid \
                            involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath \
                            reason reportingComponent source type";

#[rustfmt::skip]
const BUILT_IN: &[Line] = &[
    ("", "v1", "ConfigMap", "configmaps", Namespaced, "cm", "", "", ""),
    ("", "v1", "Endpoints", "endpoints", Namespaced, "ep", "", "", ""),
    ("", "v1", "Event", "events", Namespaced, "ev", "", "", EVENT_FIELDS),
    ("", "v1", "LimitRange", "limitranges", Namespaced, "limits", "", "", ""),
    ("", "v1", "Namespace", "namespaces", Cluster, "ns", "", "status finalize", "status.phase"),
    ("", "v1", "Node", "nodes", Cluster, "no", "", "status", "spec.unschedulable"),
    ("", "v1", "PersistentVolume", "persistentvolumes", Cluster, "pv", "", "status", ""),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Namespaced, "pvc", "", "status", ""),
    ("", "v1", "Pod", "pods", Namespaced, "po", "all", "status eviction binding ephemeralcontainers resize", POD_FIELDS),
    ("", "v1", "PodTemplate", "podtemplates", Namespaced, "", "", "", ""),
    ("", "v1", "ReplicationController", "replicationcontrollers", Namespaced, "rc", "all", "status scale", "status.replicas"),
    ("", "v1", "ResourceQuota", "resourcequotas", Namespaced, "quota", "", "status", ""),
    ("", "v1", "Secret", "secrets", Namespaced, "", "", "", "type"),
    ("", "v1", "Service", "services", Namespaced, "svc", "all", "status", "spec.clusterIP spec.type"),
    ("", "v1", "ServiceAccount", "serviceaccounts", Namespaced, "sa", "", "token", ""),
    ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", Cluster, "", "api-extensions", "", ""),
    ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", Cluster, "", "api-extensions", "", ""),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", Cluster, "crd crds", "api-extensions", "status", ""),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", Namespaced, "", "", "", ""),
    ("apps", "v1", "DaemonSet", "daemonsets", Namespaced, "ds", "all", "status", ""),
    ("apps", "v1", "Deployment", "deployments", Namespaced, "deploy", "all", "status scale", ""),
    ("apps", "v1", "ReplicaSet", "replicasets", Namespaced, "rs", "all", "status scale", "status.replicas"),
    ("apps", "v1", "StatefulSet", "statefulsets", Namespaced, "sts", "all", "status scale", ""),
    ("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", Cluster, "", "", "", ""),
    ("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", Cluster, "", "", "", ""),
    ("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", Namespaced, "", "", "", ""),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", Cluster, "", "", "", ""),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", Cluster, "", "", "", ""),
    ("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", Cluster, "", "", "", ""),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", Namespaced, "hpa", "all", "status", ""),
    ("batch", "v1", "CronJob", "cronjobs", Namespaced, "cj", "all", "status", ""),
    ("batch", "v1", "Job", "jobs", Namespaced, "", "all", "status", "status.successful"),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", Cluster, "csr", "", "status approval", "spec.signerName"),
    ("coordination.k8s.io", "v1", "Lease", "leases", Namespaced, "", "", "", ""),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", Namespaced, "", "", "", ""),
    ("events.k8s.io", "v1", "Event", "events", Namespaced, "ev", "", "", "regarding.kind regarding.namespace regarding.name regarding.uid regarding.apiVersion regarding.resourceVersion regarding.fieldPath reason reportingController type"),
    ("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", Cluster, "", "", "", ""),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", Namespaced, "pdb", "", "status", ""),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", Cluster, "", "", "", ""),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", Cluster, "", "", "", ""),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", Namespaced, "", "", "", ""),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", Namespaced, "", "", "", ""),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", Cluster, "pc", "", "", ""),
    ("storage.k8s.io", "v1", "CSIDriver", "csidrivers", Cluster, "", "", "", ""),
    ("storage.k8s.io", "v1", "CSINode", "csinodes", Cluster, "", "", "", ""),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", Cluster, "sc", "", "", ""),
    ("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", Cluster, "", "", "status", ""),
];

/// All kinds by group, version and plural.
#[derive(Clone, Debug)]
pub struct Registry {
    kinds: BTreeMap<(String, String, String), Arc<Kind>>,
}

impl Default for Registry {
    fn default() -> Self {
        let mut registry = Self {
            kinds: BTreeMap::new(),
        };
        for line in BUILT_IN {
            registry.add(built_in(line));
        }
        registry
    }
}

impl Registry {
    /// Whether there is anything in a group; the core always is.
    pub fn has_group(&self, group: &str) -> bool {
        group.is_empty() || self.all().any(|kind| kind.group == group)
    }

    /// The kind behind a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.kinds
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
            .cloned()
    }

    /// The kind of a group by its name, in any version.
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<Arc<Kind>> {
        self.kinds
            .values()
            .find(|known| known.group == group && known.kind == kind)
            .cloned()
    }

    /// The kind of a group by its plural, in any version.
    pub fn by_plural(&self, group: &str, plural: &str) -> Option<Arc<Kind>> {
        self.kinds
            .values()
            .find(|known| known.group == group && known.plural == plural)
            .cloned()
    }

    /// Every kind, by group, version and plural.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.values()
    }

    fn add(&mut self, kind: Kind) {
        let key = (kind.group.clone(), kind.version.clone(), kind.plural.clone());
        self.kinds.insert(key, Arc::new(kind));
    }

    /// Makes the kinds of a CustomResourceDefinition known, and forgets versions that it no longer serves.
    pub fn define(&mut self, crd: &Value) -> Result<(), SchemaError> {
        let kinds = custom(crd)?;
        self.forget(crd);
        for kind in kinds {
            self.add(kind);
        }
        Ok(())
    }

    /// Forgets the kinds of a CustomResourceDefinition.
    pub fn forget(&mut self, crd: &Value) {
        let (group, plural) = (
            object::at(crd, "spec.group").as_str(),
            object::at(crd, "spec.names.plural").as_str(),
        );
        self.kinds.retain(|(its_group, _, its_plural), kind| {
            kind.custom().is_none()
                || group != Some(its_group.as_str())
                || plural != Some(its_plural.as_str())
        });
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn built_in(line: &Line) -> Kind {
    let &(group, version, kind, plural, scope, short_names, categories, subresources, selectable) = line;
    let verbs = if kind.ends_with("Review") {
        Verbs::CreateOnly
    } else {
        Verbs::All
    };
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        scope,
        short_names: words(short_names),
        categories: words(categories),
        subresources: words(subresources),
        verbs,
        selectable: words(selectable),
        nature: Nature::BuiltIn,
    }
}

/// The kinds that a definition serves, one per version.
fn custom(crd: &Value) -> Result<Vec<Kind>, SchemaError> {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let names = &spec["names"];
    let served = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|version| version["served"] == true);
    served
        .map(|version| {
            let scale = scale_paths(&version["subresources"]["scale"]);
            let has_status = version["subresources"]["status"].is_object();
            let subresources = [("status", has_status), ("scale", scale.is_some())];
            let selectable = version["selectableFields"].as_array().into_iter().flatten();
            let open_api = version["schema"]["openAPIV3Schema"].clone();
            let schema = Schema::compile(&open_api)?;
            Ok(Kind {
                group: text(&spec["group"]),
                version: text(&version["name"]),
                kind: text(&names["kind"]),
                plural: text(&names["plural"]),
                singular: match names["singular"].as_str() {
                    Some(singular) => singular.to_owned(),
                    None => text(&names["kind"]).to_lowercase(),
                },
                scope: if spec["scope"] == "Namespaced" {
                    Namespaced
                } else {
                    Cluster
                },
                short_names: list(&names["shortNames"]),
                categories: list(&names["categories"]),
                subresources: subresources
                    .iter()
                    .filter(|(_, has)| *has)
                    .map(|(name, _)| (*name).to_owned())
                    .collect(),
                verbs: Verbs::All,
                selectable: selectable
                    .filter_map(|field| field["jsonPath"].as_str())
                    .map(|path| path.trim_start_matches('.').to_owned())
                    .collect(),
                nature: Nature::Custom(Arc::new(Custom {
                    open_api,
                    schema,
                    columns: version["additionalPrinterColumns"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default(),
                    scale,
                })),
            })
        })
        .collect()
}

fn scale_paths(scale: &Value) -> Option<ScalePaths> {
    Some(ScalePaths {
        spec: scale["specReplicasPath"].as_str()?.to_owned(),
        status: scale["statusReplicasPath"].as_str()?.to_owned(),
        selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_makes_its_served_versions_known_and_its_removal_forgets_them() {
        let crd = json!({"spec": {
            "group": "karpenter.sh", "scope": "Cluster",
            "names": {"kind": "NodePool", "plural": "nodepools", "categories": ["karpenter"]},
            "versions": [
                {"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object"}}, "subresources": {"status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}}},
                {"name": "v1beta1", "served": false},
            ],
        }});
        let mut registry = Registry::default();
        registry.define(&crd).unwrap();
        let kind = registry.find("karpenter.sh", "v1", "nodepools").unwrap();
        assert_eq!((kind.singular.as_str(), kind.scope), ("nodepool", Cluster));
        assert!(kind.has_subresource("scale") && kind.has_subresource("status"));
        assert!(registry.find("karpenter.sh", "v1beta1", "nodepools").is_none());
        registry.forget(&crd);
        assert!(registry.find("karpenter.sh", "v1", "nodepools").is_none());
        assert!(registry.find("", "v1", "pods").is_some());
    }

    #[test]
    fn events_of_both_groups_are_the_same_objects() {
        let registry = Registry::default();
        let core = registry.find("", "v1", "events").unwrap();
        let new = registry.find("events.k8s.io", "v1", "events").unwrap();
        assert_eq!(core.table(), new.table());
    }
}
