//! Which version of a template a pod is of: a short hash of the template, spelled as Kubernetes spells it.
//!
//! The letters cannot be the ones that a real controller would choose, since that hashes a dump of Go's memory; what
//! matters is that the same template has the same hash.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::hash::{Arrays, fnv1a, of};

/// The label that tells a deployment's sets and their pods apart.
pub(super) const TEMPLATE_HASH: &str = "pod-template-hash";
/// The label that tells the pods of other controllers apart.
pub(super) const REVISION_HASH: &str = "controller-revision-hash";

/// The hash of a template; `collisions` makes it another.
pub(super) fn hash(template: &PodTemplateSpec, collisions: i32) -> String {
    let template = serde_json::to_value(template).unwrap_or_default();
    let mixed = format!("{:x} {collisions}", of(&template, Arrays::Lists));
    // 32 bits, as a real one has.
    speak_safely(fnv1a(mixed.as_bytes()) & 0xffff_ffff)
}

/// A number in letters and digits that spell no word.
fn speak_safely(number: u64) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let digits = number.to_string();
    digits
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(image: &str) -> PodTemplateSpec {
        serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "image": image}]}})).unwrap()
    }

    #[test]
    fn the_same_template_has_the_same_hash_and_others_have_others() {
        assert_eq!(hash(&template("a"), 0), hash(&template("a"), 0));
        assert_ne!(hash(&template("a"), 0), hash(&template("b"), 0));
        assert_ne!(hash(&template("a"), 0), hash(&template("a"), 1));
        assert!(
            hash(&template("a"), 0)
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        );
    }
}
