//! Placement groups.

use super::types::PlacementGroup;
use super::{Vpc, list, on};
use crate::cloud::Error;
use crate::ibm::http::Operation;

const LIST: Operation = list("list placement groups");
const GET: Operation = on("get placement group", "placement_group");

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
}
