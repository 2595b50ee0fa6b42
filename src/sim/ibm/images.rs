//! Images: the stock ones that every region has, one of them deprecated and one obsolete.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::faults::FaultKind;
use super::network::{group_matches, merge, stamp};
use super::state::{State, in_order};
use super::{groups, ids, page, profiles};

/// An image.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) name: String,
    /// `ubuntu-24-04-amd64`
    pub(super) os: String,
    pub(super) family: String,
    pub(super) version: String,
    pub(super) status: ImageStatus,
    pub(super) visibility: &'static str,
    /// GB
    pub(super) minimum_provisioned_size: u64,
    pub(super) resource_group: String,
    pub(super) created_at: Timestamp,
}

/// The status of an image; a deprecated one still boots, an obsolete one does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageStatus {
    Available,
    Deprecated,
    Obsolete,
}

impl ImageStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Deprecated => "deprecated",
            Self::Obsolete => "obsolete",
        }
    }
}

/// The stock images: name, operating system, family, version, status.
pub(super) const STOCK: [(&str, &str, &str, &str, ImageStatus); 6] = [
    (
        "ibm-ubuntu-24-04-4-minimal-amd64-6",
        "ubuntu-24-04-amd64",
        "Ubuntu Linux",
        "24.04 LTS",
        ImageStatus::Available,
    ),
    (
        "ibm-ubuntu-24-04-3-minimal-amd64-4",
        "ubuntu-24-04-amd64",
        "Ubuntu Linux",
        "24.04 LTS",
        ImageStatus::Deprecated,
    ),
    (
        "ibm-ubuntu-22-04-5-minimal-amd64-9",
        "ubuntu-22-04-amd64",
        "Ubuntu Linux",
        "22.04 LTS",
        ImageStatus::Available,
    ),
    (
        "ibm-ubuntu-20-04-6-minimal-amd64-8",
        "ubuntu-20-04-amd64",
        "Ubuntu Linux",
        "20.04 LTS",
        ImageStatus::Obsolete,
    ),
    (
        "ibm-redhat-9-6-minimal-amd64-3",
        "red-9-amd64",
        "Red Hat Enterprise Linux",
        "9.x",
        ImageStatus::Available,
    ),
    (
        "ibm-debian-12-11-minimal-amd64-2",
        "debian-12-amd64",
        "Debian GNU/Linux",
        "12.x",
        ImageStatus::Available,
    ),
];

impl State {
    /// Adds an image; 10 GB is what stock Linux images need.
    pub(super) fn add_image(
        &mut self,
        stock: (&str, &str, &str, &str, ImageStatus),
        visibility: &'static str,
    ) -> String {
        let (name, os, family, version, status) = stock;
        let (sequence, id) = (self.next_sequence(), self.regional_id());
        let image = Image {
            sequence,
            id: id.clone(),
            name: name.into(),
            os: os.into(),
            family: family.into(),
            version: version.into(),
            status,
            visibility,
            minimum_provisioned_size: 10,
            resource_group: self.default_group(),
            created_at: self.now,
        };
        self.images.insert(id.clone(), image);
        id
    }
}

/// What images go by, and what they say before.
const WITHDRAWALS: &[FaultKind] = &[FaultKind::ImageDeleted, FaultKind::ImageDeprecated];

/// `GET /v1/images`: `status` and `user_data_format` are lists separated by commas.
pub(super) fn list(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    state.misses(WITHDRAWALS, None, ask);
    let among = |list: &str, value: &str| list.split(',').any(|wanted| wanted == value);
    let images = state.images.values().filter(|image| {
        state.has_image(&image.id)
            && group_matches(ask, &image.resource_group)
            && ask.query("name").is_none_or(|name| name == image.name)
            && ask
                .query("visibility")
                .is_none_or(|visibility| visibility == image.visibility)
            && ask
                .query("status")
                .is_none_or(|list| among(list, state.image_status(image).as_str()))
            && ask
                .query("user_data_format")
                .is_none_or(|list| among(list, "cloud_init"))
            && ask.query("remote.account.id").is_none_or(|id| id == "null")
    });
    let items = in_order(images.map(|image| (image, image.sequence, image.id.as_str())));
    let page = page::cut(ask, &mut state.faults, &items)?;
    Ok(page.answer(&state.region, "images", "images", |id| {
        state.images.get(id).map(|image| body(state, image))
    }))
}

/// `GET /v1/images/{id}`
pub(super) fn get(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    state.misses(WITHDRAWALS, Some(ask.param("id")), ask);
    let image = find(state, ask)?;
    Ok(Answer::ok(body(state, image)).with_etag("W/\"1\"".into()))
}

/// `GET /v1/images/{id}/instance_profiles`: the profiles that can boot it.
pub(super) fn list_instance_profiles(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let id = find(state, ask)?.id.clone();
    let items = profiles::offered(state);
    let page = page::cut(ask, &mut state.faults, &items)?;
    let path = format!("images/{id}/instance_profiles");
    Ok(page.answer(&state.region, &path, "instance_profiles", |name| {
        Some(profiles::reference(&state.region, name))
    }))
}

/// The reference to an image inside an instance.
pub(super) fn reference(state: &State, image: &Image) -> Value {
    json!({
        "id": image.id, "name": image.name, "crn": ids::crn(&state.region, "image", &image.id),
        "href": ids::href(&state.region, &format!("images/{}", image.id)), "resource_type": "image",
    })
}

fn find<'a>(state: &'a State, ask: &Ask) -> Result<&'a Image, Refusal> {
    let id = ask.param("id");
    state
        .images
        .get(id)
        .filter(|_| state.has_image(id))
        .ok_or_else(|| Refusal::not_found("image", id))
}

fn body(state: &State, image: &Image) -> Value {
    let mut body = reference(state, image);
    let status = state.image_status(image);
    let vendor = image.family.split(' ').next().unwrap_or_default();
    let fields = json!({
        "allowed_use": { "api_version": "2025-07-01", "bare_metal_server": "false", "instance": "true" },
        "catalog_offering": { "managed": false },
        "created_at": stamp(image.created_at),
        "encryption": "none",
        "file": { "size": 1, "checksums": { "sha256": format!("{:064x}", ids::fingerprint(&image.name)) } },
        "minimum_provisioned_size": image.minimum_provisioned_size,
        "operating_system": {
            "name": image.os, "family": image.family, "vendor": vendor, "version": image.version,
            "architecture": "amd64", "display_name": format!("{} {} (amd64)", image.family, image.version),
            "dedicated_host_only": false, "allow_user_image_creation": true, "user_data_format": "cloud_init",
            "href": ids::href(&state.region, &format!("operating_systems/{}", image.os)),
        },
        "owner_type": if image.visibility == "public" { "provider" } else { "user" },
        "resource_group": groups::reference(state, &image.resource_group),
        "status": status.as_str(),
        "status_reasons": [],
        "user_data_format": "cloud_init",
        "visibility": image.visibility,
        "zones": super::geography::zones(&state.region).map(|zone| super::geography::zone_reference(&zone)),
    });
    merge(&mut body, fields);
    if status != ImageStatus::Available {
        body["deprecation_at"] = json!(stamp(image.created_at));
    }
    if status == ImageStatus::Obsolete {
        body["obsolescence_at"] = json!(stamp(image.created_at));
    }
    body
}
