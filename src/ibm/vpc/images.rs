//! Images and SSH keys: what a machine starts with.

use super::types::{Image, Key};
use super::{Vpc, list, on};
use crate::cloud::Error;
use crate::ibm::http::Operation;

const LIST_IMAGES: Operation = list("list images");
const GET_IMAGE: Operation = on("get image", "image");
const LIST_KEYS: Operation = list("list keys");
const GET_KEY: Operation = on("get key", "key");

/// Which images to list.
#[derive(Clone, Debug, Default)]
pub struct ImageFilter {
    /// Exactly this name.
    pub name: Option<String>,
    /// `public` or `private`.
    pub visibility: Option<&'static str>,
}

impl Vpc {
    /// Every image that passes the filter, usable or not.
    pub async fn list_images(&self, filter: &ImageFilter) -> Result<Vec<Image>, Error> {
        let filters: Vec<_> = [
            ("name", filter.name.as_deref()),
            ("visibility", filter.visibility),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        self.list(
            LIST_IMAGES,
            &["images"],
            "images",
            |image: &Image| &image.id,
            &filters,
        )
        .await
    }

    /// One image.
    pub async fn get_image(&self, id: &str) -> Result<Image, Error> {
        self.get(GET_IMAGE, &["images", id], id).await
    }

    /// Every SSH key of the region.
    pub async fn list_keys(&self) -> Result<Vec<Key>, Error> {
        self.list(LIST_KEYS, &["keys"], "keys", |key: &Key| &key.id, &[])
            .await
    }

    /// One SSH key.
    pub async fn get_key(&self, id: &str) -> Result<Key, Error> {
        self.get(GET_KEY, &["keys", id], id).await
    }
}
