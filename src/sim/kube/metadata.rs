//! What every object's metadata must satisfy, whatever its kind.

use serde_json::{Value, json};

use super::kind::Kind;
use super::object;
use super::schema::Cause;

/// Everything that is wrong with the metadata.
pub fn problems(_kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object::name(object);
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if !is_subdomain(name) {
        causes.push(Cause::invalid(
            "metadata.name",
            &json!(name),
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'",
        ));
    }
    causes
}

/// An RFC 1123 subdomain.
fn is_subdomain(name: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}
