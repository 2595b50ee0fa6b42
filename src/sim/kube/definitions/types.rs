//! The types of CEL expressions, as far as a schema gives them.

use serde_json::Value;

/// The type of a value in a rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type<'a> {
    /// Whatever it turns out to be, or what is not worked out here.
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Null,
    Timestamp,
    Duration,
    List(Box<Self>),
    /// A map from texts.
    Map(Box<Self>),
    /// An object with the fields that its schema names.
    Object(&'a Value),
    /// A whole object of the kind, or one within it, with its metadata.
    Resource(&'a Value),
    /// The metadata of such an object: its name.
    Metadata,
}

impl<'a> Type<'a> {
    /// The type of the values of a schema; none if rules cannot get at them.
    pub(super) fn of(schema: &'a Value) -> Option<Self> {
        if schema["x-kubernetes-int-or-string"] == true {
            return Some(Self::Dyn);
        }
        Some(match schema["type"].as_str().unwrap_or_default() {
            "array" => Self::List(Box::new(Self::of(&schema["items"])?)),
            "object" if schema["additionalProperties"].is_object() => {
                Self::Map(Box::new(Self::of(&schema["additionalProperties"])?))
            }
            "object" if schema["x-kubernetes-embedded-resource"] == true => Self::Resource(schema),
            "object" => Self::Object(schema),
            "string" => match schema["format"].as_str().unwrap_or_default() {
                "byte" => Self::Bytes,
                "duration" => Self::Duration,
                "date" | "date-time" => Self::Timestamp,
                _ => Self::Text,
            },
            "boolean" => Self::Bool,
            "number" => Self::Double,
            "integer" => Self::Int,
            _ => return None,
        })
    }

    /// The type of a field, if a value of this type can have it.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        match self {
            Self::Dyn => Some(Self::Dyn),
            Self::Map(values) => Some((**values).clone()),
            Self::Object(schema) => declared(schema, name),
            Self::Resource(schema) => match name {
                "apiVersion" | "kind" => Some(Self::Text),
                "metadata" => Some(Self::Metadata),
                _ => declared(schema, name),
            },
            Self::Metadata => matches!(name, "name" | "generateName").then_some(Self::Text),
            _ => None,
        }
    }

    /// Whether a value of one type can stand where one of the other does.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let is_compound = |of: &Self| {
            matches!(
                of,
                Self::Object(_) | Self::Resource(_) | Self::Map(_) | Self::List(_)
            )
        };
        match (self, other) {
            // An object is never null, but nothing is lost by asking.
            (Self::Null, compound) | (compound, Self::Null) if is_compound(compound) => true,
            (Self::List(one), Self::List(other)) | (Self::Map(one), Self::Map(other)) => {
                one.agrees_with(other)
            }
            // A literal map can be compared with an object, which a real server finds out later.
            (Self::Dyn, _)
            | (_, Self::Dyn)
            | (Self::Object(_), Self::Object(_) | Self::Map(_))
            | (Self::Map(_), Self::Object(_)) => true,
            (one, other) => one == other,
        }
    }

    /// The narrower of two types that agree.
    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::List(one), Self::List(other)) => Self::List(Box::new(one.join(*other))),
            (Self::Dyn, other) => other,
            (one, _) => one,
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Dyn | Self::Int | Self::Uint | Self::Double)
    }

    /// The name of the type, for people.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Dyn => "dyn".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Uint => "uint".to_owned(),
            Self::Double => "double".to_owned(),
            Self::Text => "string".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::List(items) => format!("list({})", items.name()),
            Self::Map(values) => format!("map(string, {})", values.name()),
            Self::Object(_) | Self::Resource(_) | Self::Metadata => "object".to_owned(),
        }
    }
}

fn declared<'a>(schema: &'a Value, name: &str) -> Option<Type<'a>> {
    let properties = schema["properties"].as_object()?;
    let (_, schema) = properties
        .iter()
        .find(|(known, _)| *known == name || escape(known).as_deref() == Some(name))?;
    Type::of(schema)
}

/// A field's name as rules write it; none if they cannot.
fn escape(name: &str) -> Option<String> {
    const RESERVED: [&str; 20] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
    ];
    let starts = |character: char| character.is_ascii_alphabetic() || character == '_';
    if !name.starts_with(starts) {
        return None;
    }
    if RESERVED.contains(&name) || name == "while" {
        return Some(format!("__{name}__"));
    }
    let name = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    name.chars()
        .all(|character| character.is_ascii_alphanumeric() || character == '_')
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_rules_write_them() {
        for (name, escaped) in [
            ("size", Some("size")),
            ("namespace", Some("__namespace__")),
            ("x-y.z/w", Some("x__dash__y__dot__z__slash__w")),
            ("a__b", Some("a__underscores__b")),
            ("7up", None),
            ("a b", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
