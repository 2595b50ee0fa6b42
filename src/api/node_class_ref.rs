//! Which class a NodePool or NodeClaim is made from.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::pattern::API_GROUP;
use super::violation::{Field, Violations};

/// A reference to the class with the particulars of the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct NodeClassRef {
    /// API group of the class: `karpenter-ibm.sh`.
    #[schemars(extend("pattern" = API_GROUP.text))]
    #[x_kube(validation = ("self != ''", "group may not be empty"))]
    pub group: String,
    /// Kind of the class: `IBMNodeClass`.
    #[x_kube(validation = ("self != ''", "kind may not be empty"))]
    pub kind: String,
    /// Name of the class.
    #[x_kube(validation = ("self != ''", "name may not be empty"))]
    pub name: String,
}

impl NodeClassRef {
    pub(super) fn validate(&self, at: Field<'_>, found: &mut Violations) {
        API_GROUP.check(&self.group, at.at("group"), found);
        found.require(!self.group.is_empty(), at.at("group"), "group may not be empty");
        found.require(!self.kind.is_empty(), at.at("kind"), "kind may not be empty");
        found.require(!self.name.is_empty(), at.at("name"), "name may not be empty");
    }
}
