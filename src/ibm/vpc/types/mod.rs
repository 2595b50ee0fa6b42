//! The wire, typed: what the API sends and takes.
//!
//! Decoding is lenient, because the API's properties "may expand": unknown enum values are kept as `Other`, unknown
//! fields of objects in `extra`, and only identities (`id`, `name`) are required.

use serde::{Deserialize, Deserializer, Serialize};

mod capability;
mod instance;
mod profile;
mod prototype;
mod resources;

pub use capability::Capability;
pub use instance::*;
pub use profile::*;
pub use prototype::*;
pub use resources::*;

/// Fields that this program does not know.
pub type Extra = serde_json::Map<String, serde_json::Value>;

/// A pointer to another resource. The API gives different subsets in different places.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crn: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl Reference {
    /// A reference by id, as requests need it.
    pub fn by_id(id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            ..Self::default()
        }
    }

    /// A reference by name, as requests need it for zones and profiles.
    pub fn by_name(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }
}

/// Lists may come as `null`; that is an empty list.
fn null_as_empty<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
