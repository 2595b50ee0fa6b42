//! What machines are placed on: placement groups, dedicated hosts and groups of them.

use super::types::{DedicatedHost, PlacementGroup};
use super::{Vpc, list, on};
use crate::cloud::Error;
use crate::ibm::http::Operation;

const LIST: Operation = list("list placement groups");
const GET: Operation = on("get placement group", "placement_group");
const GET_HOST: Operation = on("get dedicated host", "dedicated_host");
const GET_HOST_GROUP: Operation = on("get dedicated host group", "dedicated_host_group");

impl Vpc {
    /// Every placement group of the region.
    pub async fn list_placement_groups(&self) -> Result<Vec<PlacementGroup>, Error> {
        self.list(
            LIST,
            &["placement_groups"],
            "placement_groups",
            |group: &PlacementGroup| &group.id,
            &[],
        )
        .await
    }

    /// One placement group.
    pub async fn get_placement_group(&self, id: &str) -> Result<PlacementGroup, Error> {
        self.get(GET, &["placement_groups", id], id).await
    }

    /// One dedicated host.
    pub async fn get_dedicated_host(&self, id: &str) -> Result<DedicatedHost, Error> {
        self.get(GET_HOST, &["dedicated_hosts", id], id).await
    }

    /// One group of dedicated hosts.
    pub async fn get_dedicated_host_group(&self, id: &str) -> Result<DedicatedHost, Error> {
        self.get(GET_HOST_GROUP, &["dedicated_host", "groups", id], id)
            .await
    }
}
