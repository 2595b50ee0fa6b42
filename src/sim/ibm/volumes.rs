//! Block storage volumes and their profiles.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::fields::{Fields, join};
use super::geography::zone_reference;
use super::images::Image;
use super::instances::VolumeAttachment;
use super::network::{merge, stamp};
use super::state::{State, in_order};
use super::{groups, ids, names, page};

/// A volume profile as documented.
struct Profile {
    name: &'static str,
    family: &'static str,
    /// GB
    capacity: (u64, u64),
    boot_capacity_max: u64,
    generation: u8,
    /// Whether `iops` may be asked for.
    iops: bool,
}

/// Boot volumes of the first storage generation are limited to 250 GB.
const PROFILES: [Profile; 5] = [
    volume_profile("general-purpose", "tiered", (10, 16_000), 250, 1, false),
    volume_profile("5iops-tier", "tiered", (10, 9_600), 250, 1, false),
    volume_profile("10iops-tier", "tiered", (10, 4_800), 250, 1, false),
    volume_profile("custom", "custom", (10, 16_000), 250, 1, true),
    volume_profile("sdp", "defined_performance", (1, 32_000), 32_000, 2, true),
];

const fn volume_profile(
    name: &'static str,
    family: &'static str,
    capacity: (u64, u64),
    boot_capacity_max: u64,
    generation: u8,
    iops: bool,
) -> Profile {
    Profile {
        name,
        family,
        capacity,
        boot_capacity_max,
        generation,
        iops,
    }
}

/// A volume.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) zone: String,
    pub(super) capacity: u64,
    pub(super) iops: u64,
    pub(super) profile: &'static str,
    pub(super) user_tags: Vec<String>,
    pub(super) resource_group: String,
    /// The image a boot volume was made from.
    pub(super) image: Option<String>,
    pub(super) instance: Option<String>,
    pub(super) created_at: Timestamp,
}

/// Whether a volume holds the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Boot,
    Data,
}

/// A volume somebody asks for, with its attachment.
#[derive(Clone, Debug)]
pub(super) struct NewVolume {
    path: String,
    pub(super) attachment_name: Option<String>,
    pub(super) delete_with_instance: bool,
    name: Option<String>,
    capacity: Option<u64>,
    iops: Option<u64>,
    profile: Option<String>,
    user_tags: Vec<String>,
    resource_group: Option<String>,
}

impl NewVolume {
    /// The boot volume of an instance that does not ask for a particular one.
    pub(super) fn default_boot() -> Self {
        Self {
            path: "boot_volume_attachment.volume".into(),
            attachment_name: None,
            delete_with_instance: true,
            name: None,
            capacity: None,
            iops: None,
            profile: None,
            user_tags: Vec::new(),
            resource_group: None,
        }
    }

    /// The name of the volume's profile.
    pub(super) fn profile(&self) -> &str {
        self.profile.as_deref().unwrap_or("general-purpose")
    }
}

/// Reads a volume attachment. Attaching an existing volume is not supported.
pub(super) fn read(fields: &Fields<'_>, role: Role) -> Result<NewVolume, Refusal> {
    let mut new = NewVolume::default_boot();
    new.attachment_name = fields.text("name")?;
    // IBM deletes boot volumes by default and keeps the others.
    new.delete_with_instance = fields
        .flag("delete_volume_on_instance_delete")?
        .unwrap_or(role == Role::Boot);
    let volume = fields.object("volume")?;
    fields.done()?;
    let Some(volume) = volume else {
        return if role == Role::Boot {
            Ok(new)
        } else {
            fields.need("volume", None)
        };
    };
    volume.own_path().clone_into(&mut new.path);
    new.name = volume.text("name")?;
    new.capacity = volume.number("capacity")?;
    new.iops = volume.number("iops")?;
    volume.number("bandwidth")?;
    volume.reference("encryption_key", &[])?;
    new.user_tags = volume.texts("user_tags")?;
    new.resource_group = volume.reference("resource_group", &[])?;
    let profile = volume.reference("profile", &["name"])?;
    new.profile = Some(volume.need("profile", profile)?);
    volume.done()?;
    Ok(new)
}

impl State {
    /// Checks a volume; a boot volume must also hold its image.
    pub(super) fn check_volume(&self, new: &NewVolume, role: Role, image: &Image) -> Result<(), Refusal> {
        let refuse =
            |code: &str, key: &str, message: String| Err(Refusal::field(code, join(&new.path, key), message));
        let Some(profile) = PROFILES.iter().find(|profile| profile.name == new.profile()) else {
            return refuse(
                "volume_profile_not_found",
                "profile",
                format!("No volume profile '{}'", new.profile()),
            );
        };
        if let Some(name) = &new.name {
            names::check(name, &join(&new.path, "name"))?;
            if self.volumes.values().any(|volume| volume.name == *name) {
                return Err(Refusal::taken(&join(&new.path, "name"), name));
            }
        }
        if new.iops.is_some() && !profile.iops {
            return refuse(
                "bad_field",
                "iops",
                format!("iops must not be given for '{}'", profile.name),
            );
        }
        let (min, max) = match role {
            Role::Boot => (image.minimum_provisioned_size, profile.boot_capacity_max),
            Role::Data => profile.capacity,
        };
        match (new.capacity, role) {
            (None, Role::Data) => refuse(
                "validation_required_field",
                "capacity",
                "capacity is required".into(),
            ),
            (Some(size), _) if size < min => refuse(
                "volume_capacity_too_small",
                "capacity",
                format!("capacity must be at least {min} GB"),
            ),
            (Some(size), _) if size > max => refuse(
                "volume_capacity_too_large",
                "capacity",
                format!("capacity must be at most {max} GB"),
            ),
            _ => Ok(()),
        }
    }

    /// Makes a checked volume.
    pub(super) fn make_volume(&mut self, new: NewVolume, zone: &str, image: Option<&Image>) -> Volume {
        /// The boot volume of a stock image that asks for no size.
        const BOOT_GB: u64 = 100;
        let profile = PROFILES
            .iter()
            .find(|profile| profile.name == new.profile())
            .map_or("sdp", |p| p.name);
        let capacity = new
            .capacity
            .unwrap_or_else(|| image.map_or(BOOT_GB, |i| i.minimum_provisioned_size.max(BOOT_GB)));
        Volume {
            sequence: self.next_sequence(),
            id: self.regional_id(),
            name: new.name.unwrap_or_else(|| ids::words(&mut self.rng)),
            zone: zone.into(),
            capacity,
            iops: new.iops.unwrap_or_else(|| (capacity * 3).max(3000)),
            profile,
            user_tags: new.user_tags,
            resource_group: new.resource_group.unwrap_or_else(|| self.default_group()),
            image: image.map(|image| image.id.clone()),
            instance: None,
            created_at: self.now,
        }
    }

    /// The instance of a volume is gone: the volume goes too if it was to, unless that is forgotten.
    pub(super) fn release_volume(&mut self, attachment: &VolumeAttachment, forgotten: bool) {
        if attachment.delete_with_instance && !forgotten {
            self.volumes.remove(&attachment.volume);
        } else if let Some(volume) = self.volumes.get_mut(&attachment.volume) {
            volume.instance = None;
        }
    }
}

impl Volume {
    fn crn(&self) -> String {
        ids::crn(&self.zone, "volume", &self.id)
    }

    /// The reference to the volume inside other resources.
    pub(super) fn reference(&self, region: &str) -> Value {
        json!({
            "id": self.id, "name": self.name, "crn": self.crn(), "resource_type": "volume",
            "href": ids::href(region, &format!("volumes/{}", self.id)),
        })
    }
}

/// `GET /v1/volumes`
pub(super) fn list(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let volumes = state.volumes.values().filter(|volume| {
        let image = volume.image.as_ref().and_then(|id| state.images.get(id));
        ask.query("name").is_none_or(|name| name == volume.name)
            && ask
                .query("attachment_state")
                .is_none_or(|wanted| wanted == attachment_state(volume))
            && ask
                .query("encryption")
                .is_none_or(|wanted| wanted == "provider_managed")
            && ask.query("zone.name").is_none_or(|zone| zone == volume.zone)
            && ask
                .query("tag")
                .is_none_or(|tag| volume.user_tags.iter().any(|own| own == tag))
            && ask
                .query("operating_system.family")
                .is_none_or(|f| image.is_some_and(|image| image.family == f))
            && ask
                .query("operating_system.architecture")
                .is_none_or(|a| image.is_some() && a == "amd64")
            && ask
                .query("storage_generation")
                .is_none_or(|g| g == generation(volume).to_string())
    });
    let items = in_order(volumes.map(|volume| (volume, volume.sequence, volume.id.as_str())));
    let page = page::cut(ask, &mut state.faults, &items)?;
    Ok(page.answer(&state.region, "volumes", "volumes", |id| {
        state.volumes.get(id).map(|v| body(state, v))
    }))
}

/// `GET /v1/volumes/{id}`
pub(super) fn get(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let id = ask.param("id");
    let volume = state.volumes.get(id).ok_or_else(|| not_found(id))?;
    Ok(Answer::ok(body(state, volume)).with_etag("W/\"1\"".into()))
}

/// `DELETE /v1/volumes/{id}`: 204, unless it is attached.
pub(super) fn delete(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let id = ask.param("id");
    let volume = state.volumes.get(id).ok_or_else(|| not_found(id))?;
    ask.if_match("W/\"1\"")?;
    if volume.instance.is_some() {
        return Err(Refusal::conflict(
            "volume_still_attached",
            format!("The volume '{id}' is still attached"),
        ));
    }
    state.volumes.remove(id);
    Ok(Answer::no_content())
}

/// `GET /v1/volume/profiles`
pub(super) fn list_profiles(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let items: Vec<(u64, String)> = (1..)
        .zip(PROFILES.iter().map(|profile| profile.name.to_owned()))
        .collect();
    let page = page::cut(ask, &mut state.faults, &items)?;
    Ok(page.answer(&state.region, "volume/profiles", "profiles", |name| {
        PROFILES
            .iter()
            .find(|profile| profile.name == name)
            .map(|profile| profile_body(&state.region, profile))
    }))
}

/// `GET /v1/volume/profiles/{name}`
pub(super) fn get_profile(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let name = ask.param("name");
    PROFILES
        .iter()
        .find(|profile| profile.name == name)
        .map(|profile| Answer::ok(profile_body(&state.region, profile)))
        .ok_or_else(|| Refusal::not_found("volume profile", name))
}

fn not_found(id: &str) -> Refusal {
    Refusal {
        code: "volume_not_found".into(),
        ..Refusal::not_found("volume", id)
    }
}

fn attachment_state(volume: &Volume) -> &'static str {
    if volume.instance.is_some() {
        "attached"
    } else {
        "unattached"
    }
}

fn generation(volume: &Volume) -> u8 {
    PROFILES
        .iter()
        .find(|profile| profile.name == volume.profile)
        .map_or(1, |profile| profile.generation)
}

fn body(state: &State, volume: &Volume) -> Value {
    let mut body = volume.reference(&state.region);
    let attached = volume.instance.as_ref().and_then(|id| state.instances.get(id));
    let attachments: Vec<Value> = attached
        .iter()
        .flat_map(|instance| {
            instance
                .volumes
                .iter()
                .map(move |attachment| (instance, attachment))
        })
        .filter(|(_, attachment)| attachment.volume == volume.id)
        .map(|(instance, attachment)| {
            json!({
                "id": attachment.id, "name": attachment.name,
                "delete_volume_on_instance_delete": attachment.delete_with_instance,
                "instance": { "id": instance.id, "name": instance.name, "crn": instance.crn() },
                "type": if volume.image.is_some() { "boot" } else { "data" },
            })
        })
        .collect();
    let fields = json!({
        "active": attached.is_some_and(|instance| instance.holds_host),
        "attachment_state": attachment_state(volume),
        "bandwidth": 393,
        "busy": false,
        "capacity": volume.capacity,
        "created_at": stamp(volume.created_at),
        "encryption": "provider_managed",
        "health_reasons": [],
        "health_state": "ok",
        "iops": volume.iops,
        "profile": {
            "name": volume.profile,
            "href": ids::href(&state.region, &format!("volume/profiles/{}", volume.profile)),
        },
        "resource_group": groups::reference(state, &volume.resource_group),
        "status": "available",
        "status_reasons": [],
        "storage_generation": generation(volume),
        "user_tags": volume.user_tags,
        "volume_attachments": attachments,
        "zone": zone_reference(&volume.zone),
    });
    merge(&mut body, fields);
    body
}

fn profile_body(region: &str, profile: &Profile) -> Value {
    let (min, max) = profile.capacity;
    let iops = if profile.iops {
        json!({ "type": "dependent_range", "min": 100, "max": 64_000, "step": 1 })
    } else {
        json!({ "type": "dependent" })
    };
    json!({
        "name": profile.name,
        "family": profile.family,
        "href": ids::href(region, &format!("volume/profiles/{}", profile.name)),
        "capacity": { "type": "range", "min": min, "max": max, "step": 1, "default": min.max(10) },
        "boot_capacity": { "type": "range", "min": 10, "max": profile.boot_capacity_max, "step": 1, "default": 100 },
        "iops": iops,
        "bandwidth": { "type": "dependent" },
        "storage_generation": profile.generation,
    })
}
