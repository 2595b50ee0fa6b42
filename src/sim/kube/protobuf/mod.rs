//! Built-in kinds in protobuf: what typed Go clients, kubectl's own among them, send.
//!
//! Only read, never written: every such client also takes JSON answers. Field numbers and names come from `fields.txt`,
//! made by `hack/protobuf-data`. What is read is what the same client would have sent as JSON: a zero that stands for
//! nothing is left out, embedded structures are part of what embeds them, and times, quantities and the like are text.

mod fields;
mod wire;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use fields::{Field, Many, Type};
use wire::{Raw, records};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The first bytes of every such body.
const MAGIC: &[u8] = b"k8s\0";

/// How deep messages may nest; the deepest of Kubernetes, a pod template's affinity, has 14 levels.
const DEPTH_MAX: usize = 32;

/// Why bytes are not an object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// Not even an envelope.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    /// An envelope around something that cannot be read.
    #[error("malformed protobuf: {0}")]
    Malformed(&'static str),
    /// A kind that is not built in.
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\" in protobuf")]
    UnknownKind {
        /// `apps/v1`
        api_version: String,
        /// `Deployment`
        kind: String,
    },
}

/// Reads an object.
pub fn object(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoPrefix)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for (number, record) in records(envelope)? {
        match number {
            1 => {
                for (number, record) in records(record.bytes()?)? {
                    match number {
                        1 => api_version = record.text()?,
                        2 => kind = record.text()?,
                        _ => {}
                    }
                }
            }
            2 => raw = record.bytes()?,
            _ => {}
        }
    }
    let Some(name) = fields::message_of(&api_version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut object = message(name, raw, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(object.into())
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, ProtobufError> {
    if depth > DEPTH_MAX {
        return Err(ProtobufError::Malformed("nested too deeply"));
    }
    let known = fields::of(name);
    let mut object = Map::new();
    for (number, record) in records(bytes)? {
        // A field of a newer release than this server's is one it does not know.
        let Some(field) = known.get(&number) else {
            continue;
        };
        read(field, &record, depth, &mut object)?;
    }
    Ok(object)
}

fn read(
    field: &Field,
    record: &Raw<'_>,
    depth: usize,
    object: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    match field.many {
        Many::Embedded => {
            if let Type::Message(name) = field.type_name {
                object.extend(message(name, record.bytes()?, depth + 1)?);
            }
        }
        Many::One { pointer } => {
            let value = value(field.type_name, record, depth)?;
            if pointer || !is_zero(&value) {
                object.insert(field.name.to_owned(), value);
            }
        }
        Many::List => {
            let list = object.entry(field.name).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(value(field.type_name, record, depth)?);
            }
        }
        Many::Map => {
            let (mut key, mut entry) = (String::new(), None);
            for (number, record) in records(record.bytes()?)? {
                match number {
                    1 => key = record.text()?,
                    2 => entry = Some(value(field.type_name, &record, depth)?),
                    _ => {}
                }
            }
            let map = object.entry(field.name).or_insert_with(|| json!({}));
            map[key] = entry.unwrap_or_else(|| absent(field.type_name));
        }
    }
    Ok(())
}

/// What a map's value is when it is not even written.
fn absent(type_name: Type) -> Value {
    match type_name {
        Type::Message(_) => json!({}),
        Type::Strings => json!([]),
        _ => json!(""),
    }
}

/// Only a pointer tells these from nothing.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(_) | Value::Bool(true) => false,
    }
}

fn value(type_name: Type, record: &Raw<'_>, depth: usize) -> Result<Value, ProtobufError> {
    Ok(match type_name {
        Type::Text => record.text()?.into(),
        Type::Bytes => BASE64_STANDARD.encode(record.bytes()?).into(),
        Type::Bool => (record.number()? != 0).into(),
        Type::Integer => record.number()?.into(),
        Type::Message(name) => message(name, record.bytes()?, depth + 1)?.into(),
        Type::Strings => {
            let items = records(record.bytes()?)?;
            let texts: Result<Vec<String>, _> = items.iter().map(|(_, item)| item.text()).collect();
            texts?.into()
        }
        Type::Time => time(record.bytes()?, Precision::Seconds)?,
        Type::MicroTime => time(record.bytes()?, Precision::Microseconds)?,
        Type::Quantity => only(record.bytes()?)?
            .map_or(Ok("0".to_owned()), Raw::text)?
            .into(),
        Type::IntOrString => int_or_string(record.bytes()?)?,
        Type::Json => match only(record.bytes()?)? {
            Some(raw) => serde_json::from_slice(raw.bytes()?)
                .map_err(|_| ProtobufError::Malformed("not JSON inside"))?,
            None => Value::Null,
        },
    })
}

/// The field 1 of a message that has no other.
fn only(bytes: &[u8]) -> Result<Option<Raw<'_>>, ProtobufError> {
    let first = records(bytes)?.into_iter().find(|(number, _)| *number == 1);
    Ok(first.map(|(_, record)| record))
}

#[derive(Clone, Copy)]
enum Precision {
    Seconds,
    Microseconds,
}

/// A time; one that is not set is an empty message.
fn time(bytes: &[u8], precision: Precision) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanos) = (0, 0);
    for (number, record) in records(bytes)? {
        match number {
            1 => seconds = record.number()?,
            2 => nanos = record.number()?,
            _ => {}
        }
    }
    if bytes.is_empty() || (seconds, nanos) == (0, 0) {
        return Ok(Value::Null);
    }
    let out_of_range = |_| ProtobufError::Malformed("a time out of range");
    Ok(match precision {
        Precision::Seconds => Timestamp::from_second(seconds).map_err(out_of_range)?.to_string(),
        Precision::Microseconds => {
            let nanos = i32::try_from(nanos).unwrap_or_default();
            let time = Timestamp::new(seconds, nanos).map_err(out_of_range)?;
            format!("{time:.6}")
        }
    }
    .into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for (field, record) in records(bytes)? {
        match field {
            1 => is_text = record.number()? == 1,
            2 => number = record.number()?,
            3 => text = record.text()?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

#[cfg(test)]
mod tests;
