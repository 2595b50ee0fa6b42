//! What a story may name of the cloud: regions, profiles that are sold, zones of the region it plays in, and reasons for
//! which offerings are withheld. A name that is none of them would be waited for in vain, or be met by nothing at all.

use super::document::{Mistake, Place};
use crate::api::OfferingKey;
use crate::api::names::{WITHHELD_PREEMPTED, WITHHELD_QUOTA, WITHHELD_SHORTAGE, WITHHELD_STOPPING};
use crate::ibm::builtin;
use crate::sim::ibm;

/// All that the operator withholds offerings for.
const REASONS: &[&str] = &[
    WITHHELD_PREEMPTED,
    WITHHELD_STOPPING,
    WITHHELD_SHORTAGE,
    WITHHELD_QUOTA,
];

/// A region of IBM Cloud.
pub(super) fn region(place: &Place<'_>) -> Result<String, Mistake> {
    let name = place.text()?;
    let known: Vec<&str> = builtin::REGIONS.iter().map(|region| region.name).collect();
    if known.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(place.unknown("region", name, &known))
    }
}

/// A profile that IBM sells.
pub(super) fn profile(place: &Place<'_>, name: &str) -> Result<(), Mistake> {
    if builtin::find_profile(name).is_some() {
        Ok(())
    } else {
        Err(place.wrong(format!("{name:?} is no profile of IBM Cloud")))
    }
}

/// A zone of the region that the story plays in.
pub(super) fn zone(place: &Place<'_>, name: &str, region: &str) -> Result<(), Mistake> {
    let known = ibm::zones(region);
    if known.iter().any(|zone| zone == name) {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Err(place.unknown(&format!("zone of {region}"), name, &known))
}

/// An offering such as `spot:bxf-4x16:us-south-1`, or a whole class of them.
pub(super) fn offering(place: &Place<'_>, text: &str, region: &str) -> Result<OfferingKey, Mistake> {
    let key: OfferingKey = text.parse().map_err(|_| {
        place.wrong(format!(
            "{text:?} is no offering such as spot:bxf-4x16:us-south-1"
        ))
    })?;
    if let Some((sold, there)) = key.profile_and_zone() {
        profile(place, sold)?;
        zone(place, there, region)?;
    }
    Ok(key)
}

/// A reason for which the operator withholds offerings.
pub(super) fn reason(place: &Place<'_>, word: &str) -> Result<String, Mistake> {
    if REASONS.contains(&word) {
        Ok(word.to_owned())
    } else {
        Err(place.unknown("reason for which offerings are withheld", word, REASONS))
    }
}
