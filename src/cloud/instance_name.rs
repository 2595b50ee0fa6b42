//! The name of a machine: `kib-<8 hex of the cluster id>-<32 hex of the claim's uid>`.
//!
//! The API has no idempotency key, so the name is it: derived from the claim alone, the same after any restart, and
//! different for every claim. A create that may have happened is settled by looking the name up.

use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "kib-";

/// The cluster a machine belongs to: eight hexadecimal digits of a hash of the kube-system namespace's UID, so two
/// clusters in one account never touch each other's machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterId(u32);

impl ClusterId {
    /// Derived from the UID of the kube-system namespace, which lives exactly as long as the cluster.
    pub fn from_kube_system_uid(uid: &str) -> Self {
        // FNV-1a, 32 bits: fixed for all time, since the names of running machines hang on it.
        let hash = uid.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        Self(hash)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The one name under which the machine of a claim is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceName {
    cluster: ClusterId,
    claim: u128,
}

/// A name that is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a machine of ours")]
pub struct NotOurs(String);

impl InstanceName {
    /// The name for a claim of a cluster; `None` if the claim's uid is not a UUID.
    pub fn new(cluster: ClusterId, claim_uid: &str) -> Option<Self> {
        let groups: Vec<&str> = claim_uid.split('-').collect();
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        (lengths == [8, 4, 4, 4, 12])
            .then(|| hex(&groups.concat()))
            .flatten()
            .map(|claim| Self { cluster, claim })
    }

    /// Whose machine a name belongs to, be it the name itself or that of a failed attempt.
    pub fn of_machine(text: &str) -> Option<Self> {
        let attempt = |digits: &str| digits.parse::<u32>().ok();
        match text.rsplit_once("-x") {
            Some((name, digits)) => attempt(digits).and_then(|_| name.parse().ok()),
            None => text.parse().ok(),
        }
    }

    /// The cluster it belongs to.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The uid of the claim, in its usual form.
    pub fn claim_uid(&self) -> String {
        let hex = format!("{:032x}", self.claim);
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// The name that the machine of a failed attempt is given, to free its own at once.
    pub fn of_failed_attempt(&self, attempt: u32) -> String {
        of_attempt(&self.to_string(), attempt)
    }
}

impl fmt::Display for InstanceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{:032x}", self.cluster, self.claim)
    }
}

impl FromStr for InstanceName {
    type Err = NotOurs;

    /// Reads the exact form back; the name of a failed attempt is not one.
    fn from_str(text: &str) -> Result<Self, NotOurs> {
        let parse = || {
            let (cluster, claim) = text.strip_prefix(PREFIX)?.split_once('-')?;
            if cluster.len() != 8 || claim.len() != 32 {
                return None;
            }
            let cluster = ClusterId(u32::try_from(hex(cluster)?).ok()?);
            Some(Self {
                cluster,
                claim: hex(claim)?,
            })
        };
        parse().ok_or_else(|| NotOurs(text.to_owned()))
    }
}

/// The name of one attempt under a name.
pub(super) fn of_attempt(name: &str, attempt: u32) -> String {
    format!("{name}-x{attempt}")
}

/// Lower-case hexadecimal only: `from_str_radix` would also take upper case and a sign, and two texts would be one name.
fn hex(text: &str) -> Option<u128> {
    let canonical = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    canonical.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLUSTER: &str = "3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d";

    #[test]
    fn the_name_never_changes_between_releases() {
        let name = InstanceName::new(
            ClusterId::from_kube_system_uid(CLUSTER),
            "0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4",
        );
        assert_eq!(
            name.unwrap().to_string(),
            "kib-8b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4"
        );
    }

    #[test]
    fn names_of_others_are_not_ours() {
        for foreign in [
            "",
            "kib-8b19fa72",
            "kib-8b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4-x1",
            "kib-8B19FA72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4",
            "kib-8b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c",
            "kib-+b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4",
            "xkib-8b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4",
        ] {
            assert!(foreign.parse::<InstanceName>().is_err(), "{foreign}");
        }
    }

    #[test]
    fn the_machine_of_a_failed_attempt_is_still_ours() {
        let name: InstanceName = "kib-8b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4".parse().unwrap();
        assert_eq!(InstanceName::of_machine(&name.to_string()), Some(name));
        assert_eq!(InstanceName::of_machine(&name.of_failed_attempt(3)), Some(name));
        for foreign in [
            "kib-1",
            "x-x1",
            "kib-8b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4-xy",
        ] {
            assert_eq!(InstanceName::of_machine(foreign), None, "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn names_are_legal_injective_and_read_back(cluster in any::<[u8; 16]>(), a in any::<u128>(), b in any::<u128>()) {
            let cluster = ClusterId::from_kube_system_uid(&format!("{cluster:?}"));
            let name = |claim| InstanceName { cluster, claim };
            let legal = regex::Regex::new("^([a-z]|[a-z][-a-z0-9]*[a-z0-9])$").unwrap();
            let text = name(a).to_string();
            prop_assert!(legal.is_match(&text) && text.len() == 45);
            prop_assert!(legal.is_match(&name(a).of_failed_attempt(u32::MAX)));
            prop_assert!(name(a).of_failed_attempt(u32::MAX).len() <= 63);
            prop_assert_eq!(text.parse::<InstanceName>().unwrap(), name(a));
            prop_assert_eq!(InstanceName::new(cluster, &name(a).claim_uid()), Some(name(a)));
            prop_assert_eq!(name(a).to_string() == name(b).to_string(), a == b);
        }
    }
}
