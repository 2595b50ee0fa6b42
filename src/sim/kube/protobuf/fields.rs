//! The fields of messages, from `fields.txt`; read once per process.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const TEXT: &str = include_str!("fields.txt");

static DATA: LazyLock<Data> = LazyLock::new(|| Data::read(TEXT));

/// The fields of a message by number.
pub(super) type Fields = BTreeMap<u64, Field>;

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// As JSON calls it.
    pub(super) name: &'static str,
    pub(super) type_name: Type,
    pub(super) many: Many,
}

/// How often a field may occur, and how it then looks in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Many {
    /// Once; only a pointer tells zero from nothing.
    One {
        pointer: bool,
    },
    List,
    Map,
    /// Its fields are those of the message around it.
    Embedded,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Bytes,
    Bool,
    Integer,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON inside.
    Json,
    /// A named list of texts.
    Strings,
    Message(&'static str),
}

#[derive(Default)]
struct Data {
    kinds: BTreeMap<&'static str, &'static str>,
    messages: BTreeMap<&'static str, Fields>,
}

/// The message of a kind. `DeleteOptions` belongs to every group.
pub(super) fn message_of(api_version: &str, kind: &str) -> Option<&'static str> {
    let key = match kind {
        "DeleteOptions" => "meta.k8s.io/v1 DeleteOptions".to_owned(),
        _ => format!("{api_version} {kind}"),
    };
    DATA.kinds.get(key.as_str()).copied()
}

/// The fields of a message; none if nobody knows it.
pub(super) fn of(message: &str) -> &'static Fields {
    static NONE: Fields = BTreeMap::new();
    DATA.messages.get(message).unwrap_or(&NONE)
}

impl Data {
    fn read(text: &'static str) -> Self {
        let mut data = Self::default();
        for line in text.lines() {
            if let Some((kind, message)) = line.split_once(" = ") {
                data.kinds.insert(kind, message);
            } else if let Some((message, fields)) = line.split_once(':') {
                let fields = fields.split(',').filter_map(field).collect();
                data.messages.insert(message, fields);
            }
        }
        data
    }
}

/// `2 spec core.v1.PodSpec*`
fn field(text: &'static str) -> Option<(u64, Field)> {
    let mut words = text.split_whitespace();
    let (number, name, type_name) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let (type_name, pointer) = type_name
        .strip_suffix('*')
        .map_or((type_name, false), |type_name| (type_name, true));
    let (type_name, many) = match (type_name.strip_prefix("[]"), type_name.strip_prefix("{}")) {
        (Some(type_name), _) => (type_name, Many::List),
        (_, Some(type_name)) => (type_name, Many::Map),
        (None, None) if name == "-" => (type_name, Many::Embedded),
        (None, None) => (type_name, Many::One { pointer }),
    };
    let type_name = match type_name {
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "bool" => Type::Bool,
        "int" => Type::Integer,
        "meta.v1.Time" => Type::Time,
        "meta.v1.MicroTime" => Type::MicroTime,
        "api.resource.Quantity" => Type::Quantity,
        "util.intstr.IntOrString" => Type::IntOrString,
        "meta.v1.FieldsV1" | "runtime.RawExtension" => Type::Json,
        list if list.ends_with(".ExtraValue") => Type::Strings,
        message => Type::Message(message),
    };
    Some((
        number,
        Field {
            name,
            type_name,
            many,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::registry::Registry;

    #[test]
    fn every_built_in_kind_but_definitions_can_be_read() {
        for kind in Registry::default().all() {
            let expected = kind.group != "apiextensions.k8s.io";
            let known = message_of(&kind.api_version(), &kind.kind).is_some();
            assert_eq!(known, expected, "{} {}", kind.api_version(), kind.kind);
        }
        assert_eq!(
            message_of("apps/v1", "DeleteOptions"),
            Some("meta.v1.DeleteOptions")
        );
    }

    #[test]
    fn every_message_that_a_field_refers_to_is_there() {
        for (message, fields) in &DATA.messages {
            for field in fields.values() {
                if let Type::Message(name) = field.type_name {
                    assert!(DATA.messages.contains_key(name), "{name} in {message}");
                }
            }
        }
    }

    #[test]
    fn fields_are_read_from_their_short_form() {
        let read = |text: &'static str| field(text).map(|(number, f)| (number, f.name, f.type_name, f.many));
        let message = Type::Message("core.v1.VolumeSource");
        assert_eq!(
            read("2 - core.v1.VolumeSource"),
            Some((2, "-", message, Many::Embedded))
        );
        let replicas = (1, "replicas", Type::Integer, Many::One { pointer: true });
        assert_eq!(read(" 1 replicas int*"), Some(replicas));
        assert_eq!(
            read("3 labels {}string"),
            Some((3, "labels", Type::Text, Many::Map))
        );
        assert_eq!(
            read("3 items []bytes"),
            Some((3, "items", Type::Bytes, Many::List))
        );
    }
}
