//! Regions, zones and data centers, and which profile has hardware where.
//!
//! The mapping from zone to data center differs per account in reality; this account's is the common one.

use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::ids;
use super::state::State;
use crate::ibm::builtin::{self, Profile};

/// The data centers behind zones 1, 2 and 3 of a region.
const DATA_CENTERS: [(&str, [&str; 3]); 13] = [
    ("au-syd", ["syd01", "syd04", "syd05"]),
    ("br-sao", ["sao01", "sao04", "sao05"]),
    ("ca-mon", ["mon01", "mon04", "mon05"]),
    ("ca-tor", ["tor01", "tor04", "tor05"]),
    ("eu-de", ["fra02", "fra04", "fra05"]),
    ("eu-es", ["mad02", "mad04", "mad05"]),
    ("eu-gb", ["lon04", "lon05", "lon06"]),
    ("in-che", ["che01", "che04", "che05"]),
    ("in-mum", ["mum01", "mum04", "mum05"]),
    ("jp-osa", ["osa21", "osa22", "osa23"]),
    ("jp-tok", ["tok02", "tok04", "tok05"]),
    ("us-east", ["wdc04", "wdc06", "wdc07"]),
    ("us-south", ["dal10", "dal12", "dal13"]),
];

/// The three zones of a region.
pub fn zones(region: &str) -> [String; 3] {
    [1, 2, 3].map(|number| format!("{region}-{number}"))
}

/// The region a zone lies in: `us-south` for `us-south-2`.
pub(super) fn region_of(zone: &str) -> &str {
    zone.rsplit_once('-').map_or(zone, |(region, _)| region)
}

/// The first four characters of a regional id. Four are recorded, the others follow the pattern.
pub(super) fn region_code(region: &str) -> String {
    match region {
        "us-south" => "r006".into(),
        "eu-de" => "r010".into(),
        "us-east" => "r014".into(),
        "au-syd" => "r026".into(),
        _ => format!("r0{:02}", 40 + position(region)),
    }
}

/// The first four characters of a zonal id: `0717` for us-south-1.
pub(super) fn zone_code(zone: &str) -> String {
    let number = zone.rsplit('-').next().unwrap_or("1");
    match region_of(zone) {
        "us-south" => format!("07{number}7"),
        region => format!("0{}{number}7", char::from(b'a' + position(region))),
    }
}

/// Where a region stands in the alphabet of regions; below 13.
fn position(region: &str) -> u8 {
    let before = DATA_CENTERS
        .iter()
        .take_while(|(name, _)| *name != region)
        .count();
    u8::try_from(before).unwrap_or_default()
}

/// The data center of a zone.
fn data_center(zone: &str) -> &'static str {
    let number: usize = zone.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(1);
    DATA_CENTERS
        .iter()
        .find(|(region, _)| *region == region_of(zone))
        .and_then(|(_, centers)| centers.get(number.wrapping_sub(1)).copied())
        .unwrap_or("dal10")
}

/// The zones of `region` in which `profile` has hardware. That says nothing about free capacity.
pub(super) fn zones_with(profile: &Profile, region: &str) -> Vec<String> {
    zones(region)
        .into_iter()
        .filter(|zone| has_hardware(profile, region, zone))
        .collect()
}

/// IBM documents flex profiles for every zone, fourth generation for us-south alone, and GPU profiles by region or by
/// data center.
fn has_hardware(profile: &Profile, region: &str, zone: &str) -> bool {
    let in_region = |regions: &str| regions.split(' ').any(|name| name == region);
    let in_center = |centers: &str| centers.split(' ').any(|name| name == data_center(zone));
    match (profile.series, profile.gpu.as_ref().map(|gpu| gpu.model)) {
        (_, Some("L4")) => {
            zone == "in-che-1" || in_region("br-sao ca-tor us-south us-east eu-de eu-gb au-syd jp-tok")
        }
        (_, Some("L40S")) => in_region("br-sao ca-tor us-south us-east eu-de eu-gb eu-es au-syd jp-tok"),
        (_, Some("A100 PCIe")) => in_region("us-east eu-de eu-gb jp-tok"),
        (_, Some("H100")) => in_center("dal10 wdc06 wdc07 tor05 sao01 fra04 lon05 mad05 syd04 tok05"),
        (_, Some("H200")) => in_center("wdc07 tor05 fra04 lon05 syd04 che01"),
        (_, Some("Gaudi 3")) => in_center("dal12 wdc06 wdc07 fra02"),
        (_, Some("B300")) => in_center("wdc07"),
        ("bx4" | "cx4" | "mx4" | "bx4d" | "cx4d" | "mx4d", _) => region == "us-south",
        ("bx2a", _) => region == "ca-tor",
        ("bx2" | "cx2" | "mx2" | "bx2d" | "cx2d" | "mx2d" | "gx2", _) => !in_region("ca-mon in-mum"),
        _ => true,
    }
}

/// `GET /v1/regions`: all regions, not in pages.
#[expect(clippy::unnecessary_wraps, reason = "the type of a handler")]
pub(super) fn list_regions(_state: &mut State, _ask: &Ask) -> Result<Answer, Refusal> {
    let regions: Vec<Value> = builtin::REGIONS
        .iter()
        .map(|region| region_body(region.name))
        .collect();
    Ok(Answer::ok(json!({ "regions": regions })))
}

/// `GET /v1/regions/{name}`
pub(super) fn get_region(_state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let name = known_region(ask.param("region"))?;
    Ok(Answer::ok(region_body(name)))
}

/// `GET /v1/regions/{name}/zones`: not in pages.
pub(super) fn list_zones(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let region = known_region(ask.param("region"))?;
    let zones: Vec<Value> = zones(region)
        .iter()
        .map(|zone| zone_body(state, region, zone))
        .collect();
    Ok(Answer::ok(json!({ "zones": zones })))
}

/// `GET /v1/regions/{name}/zones/{zone}`
pub(super) fn get_zone(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let region = known_region(ask.param("region"))?;
    zones(region)
        .iter()
        .find(|zone| *zone == ask.param("zone"))
        .map(|zone| Answer::ok(zone_body(state, region, zone)))
        .ok_or_else(|| Refusal::not_found("zone", ask.param("zone")))
}

/// The reference to a zone inside other resources.
pub(super) fn zone_reference(zone: &str) -> Value {
    let region = region_of(zone);
    json!({ "href": ids::href(region, &format!("regions/{region}/zones/{zone}")), "name": zone })
}

fn known_region(name: &str) -> Result<&'static str, Refusal> {
    builtin::find_region(name)
        .map(|region| region.name)
        .ok_or_else(|| Refusal::not_found("region", name))
}

fn region_body(name: &str) -> Value {
    json!({
        "name": name,
        "endpoint": format!("https://{name}.iaas.cloud.ibm.com"),
        "href": ids::href(name, &format!("regions/{name}")),
        "status": "available",
    })
}

fn zone_body(state: &State, region: &str, zone: &str) -> Value {
    let (home, center) = (&state.region, data_center(zone));
    let status = if state.is_open(zone) {
        "available"
    } else {
        "unavailable"
    };
    json!({
        "name": zone,
        "href": ids::href(home, &format!("regions/{region}/zones/{zone}")),
        "region": { "name": region, "href": ids::href(home, &format!("regions/{region}")) },
        "status": status,
        "data_center": center.to_uppercase(),
        "universal_name": format!("{region}-{center}-a"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones_of(profile: &str, region: &str) -> Vec<String> {
        zones_with(builtin::find_profile(profile).unwrap(), region)
    }

    #[test]
    fn flex_profiles_are_everywhere() {
        for region in builtin::REGIONS {
            assert_eq!(zones_of("bxf-4x16", region.name), zones(region.name));
        }
    }

    #[test]
    fn scarce_hardware_is_where_the_documentation_says() {
        assert_eq!(zones_of("gx3d-160x1792x8h100", "us-south"), ["us-south-1"]);
        assert_eq!(
            zones_of("gx3d-160x1792x8h100", "us-east"),
            ["us-east-2", "us-east-3"]
        );
        assert_eq!(zones_of("gx3-16x80x1l4", "in-che"), ["in-che-1"]);
        assert!(zones_of("bx4-4x16", "eu-de").is_empty());
        assert!(zones_of("bx2-4x16", "ca-mon").is_empty());
        assert!(zones_of("gx3d-24x120x1a100p", "us-south").is_empty());
    }

    #[test]
    fn every_builtin_region_has_its_data_centers() {
        let names: Vec<&str> = DATA_CENTERS.iter().map(|(region, _)| *region).collect();
        let regions: Vec<&str> = builtin::REGIONS.iter().map(|region| region.name).collect();
        assert_eq!(names, regions);
    }
}
