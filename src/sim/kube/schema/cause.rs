//! Why an object is refused, in the words of an API server's `Status.details.causes`.

use std::fmt;

use serde_json::Value;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The field: `spec.template.spec.requirements[0].key`; empty for the whole object.
    pub field: String,
    /// What kind of mistake it is.
    pub reason: Reason,
    /// The mistake, for people.
    pub message: String,
}

/// What kind of mistake a cause reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The value is malformed or out of bounds, or a rule does not hold.
    Invalid,
    /// The field must be there.
    Required,
    /// The value is none of those allowed.
    NotSupported,
    /// The value may be there once only.
    Duplicate,
    /// What the value refers to is not there.
    NotFound,
    /// The text is too long.
    TooLong,
    /// The list or map has too many elements.
    TooMany,
    /// The value has another JSON type.
    TypeInvalid,
    /// A rule says that the value may not be there.
    Forbidden,
    /// The version asked for is ahead of the server's.
    ResourceVersionTooLarge,
    /// Another manager owns the field.
    ManagerConflict,
    /// A disruption budget does not allow it now.
    DisruptionBudget,
    /// The namespace is being deleted.
    NamespaceTerminating,
}

impl Reason {
    /// The name of the reason in a `Status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::ResourceVersionTooLarge => "ResourceVersionTooLarge",
            Self::ManagerConflict => "FieldManagerConflict",
            Self::DisruptionBudget => "DisruptionBudget",
            Self::NamespaceTerminating => "NamespaceTerminating",
        }
    }

    /// Whether it is said of a field, be it the whole object.
    pub fn is_about_a_field(self) -> bool {
        !matches!(
            self,
            Self::ResourceVersionTooLarge
                | Self::ManagerConflict
                | Self::DisruptionBudget
                | Self::NamespaceTerminating
        )
    }

    /// Whether CEL rules cannot be trusted with an object that has such a mistake.
    pub(super) fn stops_rules(self) -> bool {
        matches!(
            self,
            Self::NotSupported | Self::Required | Self::TooLong | Self::TooMany | Self::TypeInvalid
        )
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() {
            "<nil>"
        } else {
            &self.field
        };
        write!(f, "{field}: {}", self.message)
    }
}

impl Cause {
    /// A cause with its full message.
    pub fn new(field: &str, reason: Reason, message: String) -> Self {
        Self {
            field: field.to_owned(),
            reason,
            message,
        }
    }

    /// A value that is wrong.
    pub fn invalid(field: &str, value: &Value, detail: impl fmt::Display) -> Self {
        Self::new(
            field,
            Reason::Invalid,
            format!("Invalid value: {}: {detail}", shown(value)),
        )
    }

    /// A rule about an object or array does not hold; such values are not shown.
    pub(super) fn invalid_unshown(field: &str, detail: impl fmt::Display) -> Self {
        Self::new(field, Reason::Invalid, format!("Invalid value: {detail}"))
    }

    /// A value that is missing.
    pub fn required(field: &str, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self::new(field, Reason::Required, message)
    }

    /// A value that may not be there.
    pub fn forbidden(field: &str, detail: &str) -> Self {
        Self::new(field, Reason::Forbidden, format!("Forbidden: {detail}"))
    }

    /// A value that is there twice.
    pub fn duplicate(field: &str, value: &Value) -> Self {
        Self::new(
            field,
            Reason::Duplicate,
            format!("Duplicate value: {}", shown(value)),
        )
    }

    /// A reference to what is not there.
    pub fn not_found(field: &str, value: &Value) -> Self {
        Self::new(field, Reason::NotFound, format!("Not found: {}", shown(value)))
    }

    /// A value that is none of those allowed.
    pub fn not_supported(field: &str, value: &Value, supported: &[Value]) -> Self {
        let supported: Vec<String> = supported
            .iter()
            .map(|value| value.as_str().map_or_else(|| quoted(&value.to_string()), quoted))
            .collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            supported.join(", ")
        );
        Self::new(field, Reason::NotSupported, message)
    }

    /// A text that is longer than it may be.
    pub fn too_long(field: &str, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(
            field,
            Reason::TooLong,
            format!("Too long: may not be more than {max} {unit}"),
        )
    }

    /// A list or map with more elements than it may have.
    pub fn too_many(field: &str, actual: usize, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(
            field,
            Reason::TooMany,
            format!("Too many: {actual}: must have at most {max} {unit}"),
        )
    }

    pub(super) fn wrong_type(field: &str, actual: &str, expected: &str) -> Self {
        let actual = quoted(actual);
        let detail = format!("{field} in body must be of type {expected}: {actual}");
        Self::new(
            field,
            Reason::TypeInvalid,
            format!("Invalid value: {actual}: {detail}"),
        )
    }

    /// Whether it only remarks on other causes.
    pub fn is_remark(&self) -> bool {
        *self == Self::rules_not_checked()
    }

    pub(super) fn rules_not_checked() -> Self {
        let message = "Invalid value: null: some validation rules were not checked because the object was invalid; \
                       correct the existing errors to complete validation";
        Self::new("", Reason::Invalid, message.to_owned())
    }
}

/// A value as an API server shows it: texts quoted, the rest as JSON.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), quoted)
}

/// A text in quotes as Go writes it, which escapes characters that do not print as `\u2003`, not `\u{2003}`.
fn quoted(text: &str) -> String {
    let escaped = text.escape_debug().to_string();
    let (plain, codes) = escaped
        .split_once(r"\u{")
        .map_or((escaped.as_str(), None), |(a, b)| (a, Some(b)));
    let codes = codes
        .into_iter()
        .flat_map(|codes| codes.split(r"\u{"))
        .map(|part| {
            let (code, rest) = part.split_once('}').unwrap_or((part, ""));
            if code.len() > 4 {
                format!(r"\U{code:0>8}{rest}")
            } else {
                format!(r"\u{code:0>4}{rest}")
            }
        });
    // Rust escapes both quotes, Go leaves the single one.
    format!("\"{plain}{}\"", codes.collect::<String>()).replace(r"\'", "'")
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn texts_are_quoted_as_in_go() {
        assert_eq!(quoted("a\"b'c\\d\n"), r#""a\"b'c\\d\n""#);
        assert_eq!(quoted("*\u{2003}*é"), r#""*\u2003*é""#);
    }
}
