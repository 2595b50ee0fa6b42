//! Instance profiles, regions and zones: what can be bought, and where.

use http::Method;
use serde::Deserialize;

use super::types::{InstanceProfile, Region, Zone};
use super::{Vpc, list, on};
use crate::cloud::Error;
use crate::ibm::http::Operation;

const LIST: Operation = list("list instance profiles");
const GET: Operation = on("get instance profile", "instance_profile");
const GET_REGION: Operation = on("get region", "region");
const LIST_ZONES: Operation = on("list zones", "region");

impl Vpc {
    /// Every profile of the region, about 200.
    pub async fn list_instance_profiles(&self) -> Result<Vec<InstanceProfile>, Error> {
        self.list(
            LIST,
            &["instance", "profiles"],
            "profiles",
            |profile: &InstanceProfile| &profile.name,
            &[],
        )
        .await
    }

    /// One profile.
    pub async fn get_instance_profile(&self, name: &str) -> Result<InstanceProfile, Error> {
        self.get(GET, &["instance", "profiles", name], name).await
    }

    /// One region.
    pub async fn get_region(&self, name: &str) -> Result<Region, Error> {
        self.get(GET_REGION, &["regions", name], name).await
    }

    /// The zones of a region; this list does not come in pages.
    pub async fn list_zones(&self, region: &str) -> Result<Vec<Zone>, Error> {
        #[derive(Deserialize)]
        struct Body {
            zones: Vec<Zone>,
        }
        let call = Self::call(LIST_ZONES, Method::GET, &["regions", region, "zones"]).about(region);
        Ok(self.api.fetch::<Body>(call).await?.zones)
    }
}
