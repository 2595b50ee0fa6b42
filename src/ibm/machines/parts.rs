//! How the parts of a machine are named after it.
//!
//! A name is given with the order, so nothing can come between a part and what is to become of it: what a failed order or a
//! forgetful deletion leaves behind says itself whether it was to go with its machine. A volume named `-data-` was never
//! collected by any version, so it stays the name of those that stay.

use crate::cloud::{Afterwards, VolumeOrder};

/// A network interface.
pub(super) const INTERFACE: &str = "-vni";
/// What a machine boots from, which goes with it.
pub(super) const BOOT: &str = "-boot";
/// The same, to be kept.
const BOOT_KEPT: &str = "-boot-kept";
/// Data volumes that go with their machine, followed by a number.
pub(super) const SCRATCH: &str = "-scratch-";
/// Data volumes to be kept, followed by a number.
const DATA: &str = "-data-";

/// The name of a boot volume.
pub(super) fn boot(stem: &str, volume: &VolumeOrder) -> String {
    let part = match volume.afterwards {
        Afterwards::Deleted => BOOT,
        Afterwards::Kept => BOOT_KEPT,
    };
    format!("{stem}{part}")
}

/// The name of the data volume of that number.
pub(super) fn data(stem: &str, number: usize, volume: &VolumeOrder) -> String {
    let part = match volume.afterwards {
        Afterwards::Deleted => SCRATCH,
        Afterwards::Kept => DATA,
    };
    format!("{stem}{part}{number}")
}

/// What a part of that kind was named after; `None` if it is no such part.
pub(super) fn owner<'a>(name: &'a str, part: &str) -> Option<&'a str> {
    if part.ends_with('-') {
        let named = name.trim_end_matches(|c: char| c.is_ascii_digit());
        return (named.len() < name.len())
            .then(|| named.strip_suffix(part))
            .flatten();
    }
    name.strip_suffix(part)
}
