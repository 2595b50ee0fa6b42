//! What a resource may be called.

use super::errors::Refusal;

/// The longest name.
const LENGTH_MAX: usize = 63;

/// Refuses a name that is not 1 to 63 lower-case letters, digits and inner hyphens, beginning with a letter.
pub(super) fn check(name: &str, path: &str) -> Result<(), Refusal> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let legal = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= LENGTH_MAX
        && name.chars().all(inner)
        && !name.ends_with('-');
    if legal {
        return Ok(());
    }
    let message =
        format!("'{name}' does not match ^([a-z]|[a-z][-a-z0-9]*[a-z0-9])$ or is longer than {LENGTH_MAX}");
    Err(Refusal::field("validation_invalid_name", path, message).blames("field", path, Some(name)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_follow_the_documented_pattern() {
        for legal in ["a", "kib-0a1b2c3d-0", &"a".repeat(63)] {
            assert!(check(legal, "name").is_ok(), "{legal}");
        }
        for illegal in ["", "A", "1a", "-a", "a-", "a_b", "a.b", &"a".repeat(64), "ä"] {
            assert!(check(illegal, "name").is_err(), "{illegal}");
        }
    }

    proptest! {
        #[test]
        fn the_check_agrees_with_the_pattern(name in "[a-zA-Z0-9_.-]{0,66}") {
            let pattern = regex::Regex::new("^([a-z]|[a-z][-a-z0-9]*[a-z0-9])$").unwrap();
            prop_assert_eq!(check(&name, "name").is_ok(), pattern.is_match(&name) && name.len() <= 63);
        }
    }
}
