//! What is known of a class: whether it can be used, and what its names stand for in the cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IBMNodeClass;
use crate::api::condition::Condition;
use crate::api::{names, schema};
use crate::quantity::Quantity;
use crate::resources::{EPHEMERAL_STORAGE, MEMORY, PODS, Resources};

const PLACEMENTS: [&str; 3] = ["PlacementGroup", "DedicatedHost", "DedicatedHostGroup"];

/// What is known of a class. How many addresses are free is not: the cloud owns that number, and it changes with every
/// machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IBMNodeClassStatus {
    /// What is true of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Option<Vec<Condition>>,
    /// Id of the image that new nodes boot.
    #[serde(default, rename = "resolvedImageID", skip_serializing_if = "Option::is_none")]
    pub resolved_image_id: Option<String>,
    /// What that image is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_image: Option<ResolvedImage>,
    /// The subnets that new nodes may stand in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub resolved_subnets: Option<Vec<ResolvedSubnet>>,
    /// Ids of the security groups that new nodes are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub resolved_security_groups: Option<Vec<String>>,
    /// Id of the resource group of nodes. Recorded when the class is first resolved, and never changed.
    #[serde(
        default,
        rename = "resolvedResourceGroupID",
        skip_serializing_if = "Option::is_none"
    )]
    pub resolved_resource_group_id: Option<String>,
    /// What the placement target is. On a dedicated host or group there are no spot machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = PLACEMENTS))]
    pub resolved_placement: Option<String>,
    /// What nodes were seen to have, where that may be less than was promised for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["profile"]))]
    pub observed_capacity: Option<Vec<ObservedCapacity>>,
}

/// What nodes of a profile were seen to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedCapacity {
    /// Name of the profile.
    pub profile: String,
    /// Id of the image that they booted. Another keeps more or less memory to itself.
    #[serde(rename = "imageID")]
    pub image_id: String,
    /// Hash of the class that they were made from. Another volume or kubelet makes another node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_hash: Option<String>,
    /// The least memory that one of them reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// The least disk that one of them reported. The volume is the class's, so nodes of other profiles have no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<String>,
    /// The smallest number of pods that one of them takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<String>,
}

impl ObservedCapacity {
    /// As amounts. What is no amount is left out: it was written by somebody else.
    pub fn amounts(&self) -> Resources {
        let written = [
            (MEMORY, self.memory.as_ref()),
            (EPHEMERAL_STORAGE, self.ephemeral_storage.as_ref()),
            (PODS, self.pods.as_ref()),
        ];
        let mut amounts = Resources::new();
        for (resource, text) in written {
            if let Some(Ok(amount)) = text.map(|text| text.parse::<Quantity>()) {
                amounts.set(resource, amount.units_ceil());
            }
        }
        amounts
    }
}

/// What an image is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedImage {
    /// Name of the image.
    pub name: String,
    /// Processor architecture, like `amd64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Operating system, like `ubuntu-24-04-amd64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
}

/// A subnet that new nodes may stand in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedSubnet {
    /// Id of the subnet.
    pub id: String,
    /// Zone of the subnet.
    pub zone: String,
    /// Its addresses, in the notation of CIDR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
}

/// What a placement target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementKind {
    /// Machines stand apart from each other.
    PlacementGroup,
    /// Machines stand on one host that nobody else uses.
    DedicatedHost,
    /// Machines stand on hosts that nobody else uses.
    DedicatedHostGroup,
}

impl PlacementKind {
    /// As the status has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PlacementGroup => PLACEMENTS[0],
            Self::DedicatedHost => PLACEMENTS[1],
            Self::DedicatedHostGroup => PLACEMENTS[2],
        }
    }

    /// Whether spot machines may be placed there: IBM sells none on hosts that somebody has to himself.
    pub fn allows_spot(self) -> bool {
        self == Self::PlacementGroup
    }
}

impl FromStr for PlacementKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let all = [
            Self::PlacementGroup,
            Self::DedicatedHost,
            Self::DedicatedHostGroup,
        ];
        all.into_iter().find(|kind| kind.as_str() == text).ok_or(())
    }
}

impl IBMNodeClassStatus {
    /// The condition of a type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        let conditions = self.conditions.as_deref().unwrap_or_default();
        conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// The zones in which new nodes may stand.
    pub fn zones(&self) -> BTreeSet<&str> {
        let subnets = self.resolved_subnets.as_deref().unwrap_or_default();
        subnets.iter().map(|subnet| subnet.zone.as_str()).collect()
    }

    /// What the placement target is, if there is one.
    pub fn placement(&self) -> Option<PlacementKind> {
        self.resolved_placement.as_deref()?.parse().ok()
    }
}

impl IBMNodeClass {
    /// What nodes of each profile were seen to have, of those that were made as new ones are made: from the same image
    /// and of the same ingredients.
    pub fn observed(&self) -> BTreeMap<String, Resources> {
        let Some(status) = &self.status else {
            return BTreeMap::new();
        };
        let hash = Some(self.hash());
        let current = |seen: &&ObservedCapacity| {
            Some(&seen.image_id) == status.resolved_image_id.as_ref() && seen.node_class_hash == hash
        };
        let seen = status.observed_capacity.iter().flatten().filter(current);
        seen.map(|seen| (seen.profile.clone(), seen.amounts())).collect()
    }

    /// The verdict on the class as it is written now; `None` while only an earlier writing was judged.
    pub fn readiness(&self) -> Option<&Condition> {
        let ready = self.status.as_ref()?.condition(names::READY)?;
        let is_current = ready.observed_generation == self.metadata.generation;
        Some(ready).filter(|ready| is_current && ready.status != "Unknown")
    }

    /// The id of the resource group that its machines are in, whether or not the class can be used now. With their names it
    /// marks machines as ours, so what was recorded once stays.
    pub fn recorded_group(&self) -> Option<&str> {
        self.status.as_ref()?.resolved_resource_group_id.as_deref()
    }

    /// The subnets that new machines may stand in, perhaps none, if that was told for the class as it is written now;
    /// whatever else is wrong with it.
    pub fn usable_subnets(&self) -> Option<&[ResolvedSubnet]> {
        let ready = self.readiness()?;
        // What a class that is to go says is of earlier.
        if self.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let is_none = [names::REASON_SUBNET_NOT_FOUND, names::REASON_NO_SUBNET]
            .iter()
            .any(|reason| ready.reason.as_deref() == Some(*reason));
        let found = self.status.as_ref()?.resolved_subnets.as_deref();
        found.or_else(|| is_none.then_some(&[]))
    }

    /// What the class stands for, if that was resolved for the class as it is written now and nothing is wrong with it.
    pub fn resolution(&self) -> Option<&IBMNodeClassStatus> {
        let is_ready = self.readiness().is_some_and(|ready| ready.status == "True");
        self.status.as_ref().filter(|_| is_ready)
    }
}
