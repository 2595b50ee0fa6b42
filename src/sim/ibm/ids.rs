//! Identifiers, CRNs, addresses of resources and generated names, in the shapes the real cloud uses.
//!
//! What belongs to an account is drawn from the simulator's seed; what the real catalogue fixes for everybody (plan
//! ids) is derived from the name alone, so that two simulators agree on it.

use fastrand::Rng;

use super::geography;
use crate::hash;

/// The account everything belongs to: 32 hexadecimal digits, as IBM's are.
pub(super) const ACCOUNT: &str = "4329073d16d2f3663f74bfa955259139";

/// The 64 words generated names are made of.
const WORDS: [&str; 64] = [
    "acorn", "amber", "anchor", "apron", "arrow", "attic", "badge", "basket", "beacon", "birch", "bonnet",
    "brisk", "bronze", "candle", "canyon", "cedar", "chisel", "cobalt", "copper", "coral", "cradle", "crisp",
    "dapper", "delta", "drift", "ember", "fable", "falcon", "fern", "flint", "gable", "gangway", "garnet",
    "ginger", "glide", "granite", "harbor", "hazel", "hollow", "ivory", "jasper", "joyful", "kettle",
    "lantern", "ledger", "linen", "maple", "meadow", "mellow", "nimble", "oasis", "orbit", "paddle",
    "pebble", "plume", "quarry", "quill", "rising", "saddle", "spruce", "tundra", "velvet", "walnut",
    "zephyr",
];

/// A random (version 4) UUID.
pub(super) fn uuid(rng: &mut Rng) -> String {
    let bits = rng.u128(..);
    let hex = format!("{bits:032x}");
    let variant = ['8', '9', 'a', 'b'][rng.usize(..4)];
    format!(
        "{}-{}-4{}-{variant}{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

/// The UUID that belongs to `text` in every simulator.
pub(super) fn stable_uuid(text: &str) -> String {
    uuid(&mut Rng::with_seed(fingerprint(text)))
}

/// A fixed number for a text, the same in every build.
pub(super) fn fingerprint(text: &str) -> u64 {
    hash::fnv1a(text.as_bytes())
}

/// `r006-<uuid>`: VPCs, images, keys, security groups, volumes, placement groups.
pub(super) fn regional(region: &str, rng: &mut Rng) -> String {
    format!("{}-{}", geography::region_code(region), uuid(rng))
}

/// `0717-<uuid>`: subnets, virtual network interfaces, attachments, reserved IPs.
pub(super) fn zonal(zone: &str, rng: &mut Rng) -> String {
    format!("{}-{}", geography::zone_code(zone), uuid(rng))
}

/// `0717_<uuid>`: instances, the only ids with an underscore.
pub(super) fn instance(zone: &str, rng: &mut Rng) -> String {
    format!("{}_{}", geography::zone_code(zone), uuid(rng))
}

/// 32 hexadecimal digits: resource groups.
pub(super) fn hex32(rng: &mut Rng) -> String {
    format!("{:032x}", rng.u128(..))
}

/// A name of four words, as given to resources that were created without one.
pub(super) fn words(rng: &mut Rng) -> String {
    let mut word = || WORDS[rng.usize(..WORDS.len())];
    format!("{}-{}-{}-{}", word(), word(), word(), word())
}

/// A CRN; `location` is a region or, for zonal resources, instances and volumes, a zone.
pub(super) fn crn(location: &str, kind: &str, id: &str) -> String {
    format!("crn:v1:bluemix:public:is:{location}:a/{ACCOUNT}::{kind}:{id}")
}

/// The address of a resource below `/v1`, as the regional endpoint writes it.
pub(super) fn href(region: &str, path: &str) -> String {
    format!("https://{region}.iaas.cloud.ibm.com/v1/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_shapes_of_the_real_cloud() {
        let mut rng = Rng::with_seed(1);
        let hex = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
        let matches = |pattern: String, text: String| regex::Regex::new(&pattern).unwrap().is_match(&text);
        assert!(matches(format!("^r006-{hex}$"), regional("us-south", &mut rng)));
        assert!(matches(format!("^0717-{hex}$"), zonal("us-south-1", &mut rng)));
        assert!(matches(format!("^0737_{hex}$"), instance("us-south-3", &mut rng)));
        assert!(matches("^[a-z]+(-[a-z]+){3}$".into(), words(&mut rng)));
    }

    #[test]
    fn a_plan_has_one_id_in_all_simulators_and_plans_differ() {
        assert_eq!(stable_uuid("bxf-4x16"), stable_uuid("bxf-4x16"));
        assert_ne!(stable_uuid("bxf-4x16"), stable_uuid("bxf-2x8"));
    }
}
