//! Instance profiles: `GET /v1/instance/profiles`, whose shape depends on the date the caller asks for.

use jiff::civil::{Date, date};
use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::faults::FaultKind;
use super::network::merge;
use super::state::State;
use super::{geography, ids, page};
use crate::ibm::builtin::{self, Profile};

/// From this date on the list comes in pages.
const PAGED_FROM: Date = date(2026, 4, 7);
/// From this date on `vcpu_count` may be an enum, and `supported_vcpu_count` is gone.
const VCPU_ENUM_FROM: Date = date(2026, 9, 1);

/// What makes profiles say less.
const WITHDRAWALS: &[FaultKind] = &[FaultKind::ProfileWithdrawn, FaultKind::ZoneWithdrawn];

/// `GET /v1/instance/profiles`
pub(super) fn list(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    state.misses(WITHDRAWALS, None, ask);
    let items = offered(state);
    let in_pages = ask.version >= PAGED_FROM;
    let page = in_pages.then(|| page::cut(ask, &mut state.faults, &items));
    let page = page.transpose()?;
    let show = |name: &str| builtin::find_profile(name).map(|profile| body(state, profile, ask.version));
    let Some(page) = page else {
        let profiles: Vec<Value> = items.iter().filter_map(|(_, name)| show(name)).collect();
        return Ok(Answer::ok(json!({ "profiles": profiles })));
    };
    Ok(page.answer(&state.region, "instance/profiles", "profiles", show))
}

/// `GET /v1/instance/profiles/{name}`
pub(super) fn get(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    state.misses(&[FaultKind::ProfileWithdrawn], Some(ask.param("name")), ask);
    state.misses(&[FaultKind::ZoneWithdrawn], None, ask);
    let profile = find(state, ask.param("name"))?;
    Ok(Answer::ok(body(state, profile, ask.version)))
}

/// The profile of that name, if the region has it.
pub(super) fn find(state: &State, name: &str) -> Result<&'static Profile, Refusal> {
    let offered =
        |profile: &&Profile| state.sells(name) && !geography::zones_with(profile, &state.region).is_empty();
    builtin::find_profile(name)
        .filter(offered)
        .ok_or_else(|| Refusal::not_found("instance profile", name).blames("field", "profile", Some(name)))
}

/// The profiles that the region has, with their place in the list.
pub(super) fn offered(state: &State) -> Vec<(u64, String)> {
    let names = builtin::profiles().iter().map(|profile| profile.name.to_owned());
    (1..)
        .zip(names)
        .filter(|(_, name)| find(state, name).is_ok())
        .collect()
}

/// The reference to a profile inside an instance.
pub(super) fn reference(region: &str, name: &str) -> Value {
    json!({
        "name": name, "href": ids::href(region, &format!("instance/profiles/{name}")),
        "resource_type": "instance_profile",
    })
}

/// The maker of the CPU; flex profiles take what there is.
pub(super) fn manufacturer(profile: &Profile) -> Option<&'static str> {
    match profile.series {
        series if is_flex(series) => None,
        "bx2a" => Some("amd"),
        _ => Some("intel"),
    }
}

/// How volume bandwidth is shared by default.
pub(super) fn qos_mode(profile: &Profile) -> &'static str {
    if is_flex(profile.series) {
        "pooled"
    } else {
        "weighted"
    }
}

fn is_flex(series: &str) -> bool {
    series.ends_with('f')
}

fn is_fourth_generation(series: &str) -> bool {
    series.contains('4')
}

fn fixed(value: impl Into<Value>) -> Value {
    json!({ "type": "fixed", "value": value.into() })
}

fn body(state: &State, profile: &Profile, version: Date) -> Value {
    let region = &state.region;
    let mut body = reference(region, profile.name);
    let flex = is_flex(profile.series);
    let pooled = is_fourth_generation(profile.series);
    // The live API leaves `/zones/` out of these addresses.
    let zones: Vec<Value> = state
        .zones_selling(profile)
        .iter()
        .map(|zone| json!({ "name": zone, "href": ids::href(region, &format!("regions/{region}/{zone}")) }))
        .collect();
    let fields = json!({
        "family": profile.family,
        "status": profile.status,
        "availability_class": availability_class(profile),
        "bandwidth": fixed(profile.bandwidth_mbps),
        "cluster_network_attachment_count": { "type": "enum", "values": [0] },
        "confidential_compute_modes": { "type": "enum", "default": "disabled", "values": ["disabled"] },
        "memory": fixed(profile.memory_gib),
        "network_attachment_count": { "type": "range", "min": 1, "max": profile.network_attachments_max },
        "network_bandwidth_mode": fixed(if pooled { "pooled" } else { "divided" }),
        "network_interface_count": { "type": "range", "min": 1, "max": profile.network_attachments_max },
        "os_architecture": { "type": "enum", "default": "amd64", "values": ["amd64"] },
        "port_speed": fixed(profile.bandwidth_mbps.max(25_000)),
        "reservation_terms": { "type": "enum", "values": ["one_year", "three_year"] },
        "secure_boot_modes": { "type": "enum", "default": false, "values": [false] },
        "supported_cluster_network_profiles": [],
        "threads_per_core": { "type": "enum", "default": 2, "values": [2] },
        "vcpu_architecture": fixed("amd64"),
        "vcpu_burst_limit": fixed(if flex { 200 } else { 100 }),
        "vcpu_manufacturer": manufacturer(profile).map_or_else(|| json!({ "type": "dependent" }), fixed),
        "volume_bandwidth_qos_modes": {
            "type": "enum", "default": qos_mode(profile),
            "values": if flex { json!(["weighted", "pooled"]) } else { json!(["weighted"]) },
        },
        "zones": zones,
    });
    merge(&mut body, fields);
    merge(&mut body, sizes(profile, version));
    body
}

/// The fields whose presence or shape depends on the profile or on the version.
fn sizes(profile: &Profile, version: Date) -> Value {
    let shares = if profile.vcpu_percentages.is_empty() {
        vec![100]
    } else {
        profile.vcpu_percentages.clone()
    };
    let bandwidth_max = profile.bandwidth_mbps.saturating_sub(500);
    let disks: Vec<Value> = profile
        .disks
        .iter()
        .map(|(quantity, size)| {
            json!({
                "quantity": fixed(*quantity), "size": fixed(*size),
                "supported_interface_types": { "type": "enum", "default": "nvme", "values": ["nvme"] },
            })
        })
        .collect();
    let mut body = json!({
        "disks": disks,
        "total_volume_bandwidth": {
            "type": "range", "min": 500, "max": bandwidth_max, "step": 1, "default": profile.volume_bandwidth_mbps,
        },
        "vcpu_percentage": { "type": "enum", "default": 100, "values": shares },
        "vcpu_count": fixed(profile.vcpu),
    });
    let counts = if is_fourth_generation(profile.series) {
        vec![profile.vcpu / 2, profile.vcpu]
    } else {
        vec![profile.vcpu]
    };
    if version < VCPU_ENUM_FROM {
        body["supported_vcpu_count"] = json!({ "type": "enum", "default": profile.vcpu, "values": counts });
    } else if counts.len() > 1 {
        body["vcpu_count"] = json!({ "type": "enum", "default": profile.vcpu, "values": counts });
    }
    if let Some(numa) = profile.numa {
        body["numa_count"] = fixed(numa);
    }
    if let Some(gpu) = &profile.gpu {
        body["gpu_count"] = fixed(gpu.count);
        body["gpu_memory"] = fixed(gpu.memory_gib);
        body["gpu_manufacturer"] = json!({ "type": "enum", "values": [gpu.manufacturer] });
        body["gpu_model"] = json!({ "type": "enum", "values": [gpu.model] });
    }
    body
}

/// Both forms are seen for profiles that are not sold as spot: fixed, and an enum of one.
fn availability_class(profile: &Profile) -> Value {
    match (profile.spot, is_fourth_generation(profile.series)) {
        (true, _) => json!({ "type": "enum", "default": "standard", "values": ["standard", "spot"] }),
        (false, true) => json!({ "type": "enum", "default": "standard", "values": ["standard"] }),
        (false, false) => fixed("standard"),
    }
}
