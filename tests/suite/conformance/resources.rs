//! Where the resources of the suite are found.

/// A resource by its plural name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    plural: &'static str,
    /// `api/v1` or `apis/apps/v1`.
    root: &'static str,
    scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Namespaced,
    Cluster,
}
use Scope::{Cluster, Namespaced};

const RESOURCES: [(&str, Scope, &str); 10] = [
    (
        "api/v1",
        Namespaced,
        "configmaps endpoints events limitranges persistentvolumeclaims pods podtemplates replicationcontrollers resourcequotas secrets serviceaccounts services",
    ),
    ("api/v1", Cluster, "namespaces nodes persistentvolumes"),
    (
        "apis/apps/v1",
        Namespaced,
        "controllerrevisions daemonsets deployments replicasets statefulsets",
    ),
    ("apis/batch/v1", Namespaced, "cronjobs jobs"),
    ("apis/coordination.k8s.io/v1", Namespaced, "leases"),
    ("apis/policy/v1", Namespaced, "poddisruptionbudgets"),
    (
        "apis/rbac.authorization.k8s.io/v1",
        Namespaced,
        "roles rolebindings",
    ),
    (
        "apis/rbac.authorization.k8s.io/v1",
        Cluster,
        "clusterroles clusterrolebindings",
    ),
    ("apis/discovery.k8s.io/v1", Namespaced, "endpointslices"),
    (super::WIDGETS, Namespaced, "widgets"),
];
const CLUSTER_RESOURCES: [(&str, &str); 8] = [
    (
        "apis/admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations validatingwebhookconfigurations",
    ),
    ("apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
    ("apis/authentication.k8s.io/v1", "selfsubjectreviews tokenreviews"),
    (
        "apis/authorization.k8s.io/v1",
        "selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews",
    ),
    ("apis/certificates.k8s.io/v1", "certificatesigningrequests"),
    ("apis/node.k8s.io/v1", "runtimeclasses"),
    ("apis/scheduling.k8s.io/v1", "priorityclasses"),
    (
        "apis/storage.k8s.io/v1",
        "csidrivers csinodes storageclasses volumeattachments",
    ),
];

impl Resource {
    /// The resource of that name.
    pub(super) fn find(plural: &str) -> Self {
        let all = RESOURCES.iter().copied().chain(
            CLUSTER_RESOURCES
                .iter()
                .map(|(root, plurals)| (*root, Cluster, *plurals)),
        );
        let mut all = all.flat_map(|(root, scope, plurals)| {
            plurals.split(' ').map(move |plural| Self { plural, root, scope })
        });
        all.find(|resource| resource.plural == plural)
            .unwrap_or_else(|| panic!("the suite knows no {plural}"))
    }

    /// The path of all its objects, in a namespace where it has one.
    pub(super) fn collection(self, namespace: &str) -> String {
        let Self { plural, root, scope } = self;
        match scope {
            Namespaced => format!("/{root}/namespaces/{namespace}/{plural}"),
            Cluster => format!("/{root}/{plural}"),
        }
    }
}
