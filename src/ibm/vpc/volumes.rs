//! Block storage volumes.

use super::types::Volume;
use super::{Vpc, list, on};
use crate::cloud::Error;
use crate::ibm::http::Operation;

const LIST: Operation = list("list volumes");
const GET: Operation = on("get volume", "volume");
const DELETE: Operation = on("delete volume", "volume");

/// Which volumes to list.
#[derive(Clone, Debug, Default)]
pub struct VolumeFilter {
    /// Exactly this name.
    pub name: Option<String>,
    /// With this user tag.
    pub tag: Option<String>,
    /// `attached` or `unattached`.
    pub attachment_state: Option<&'static str>,
}

impl Vpc {
    /// Every volume that passes the filter.
    pub async fn list_volumes(&self, filter: &VolumeFilter) -> Result<Vec<Volume>, Error> {
        let filters: Vec<_> = [
            ("name", filter.name.as_deref()),
            ("tag", filter.tag.as_deref()),
            ("attachment_state", filter.attachment_state),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        self.list(
            LIST,
            &["volumes"],
            "volumes",
            |volume: &Volume| &volume.id,
            &filters,
        )
        .await
    }

    /// One volume.
    pub async fn get_volume(&self, id: &str) -> Result<Volume, Error> {
        self.get(GET, &["volumes", id], id).await
    }

    /// Asks for deletion; a volume that still hangs on a machine is a conflict.
    pub async fn delete_volume(&self, id: &str) -> Result<(), Error> {
        self.delete(DELETE, &["volumes", id], id).await
    }
}
