//! The commonest write of all, a heartbeat: its sender gives values that are its own already other values.
//!
//! Then nothing changes in the record of ownership but the sender's time. This is seen from the objects and the record
//! as they are, without turning either into sets of fields; whatever is not plainly of this kind is left to them.

use serde_json::{Map, Value};

use super::managed::{UNOWNED, manager_name, subresource};
use crate::sim::kube::kind::Kind;
use crate::sim::kube::request::Ask;

/// The record of `new` if it is that of `old` but for the sender's time.
pub fn renewed(kind: &Kind, ask: &Ask, now: &str, old: &Value, new: &Value) -> Option<Value> {
    let entries = old["metadata"]["managedFields"].as_array()?;
    let own = entries.iter().position(|entry| is_sender(entry, kind, ask))?;
    let others: Vec<&Value> = (0..entries.len())
        .filter(|&index| index != own)
        .map(|index| &entries[index]["fieldsV1"])
        .collect();
    let (old, new) = (old.as_object()?, new.as_object()?);
    let mut found = Found::Nothing;
    for (name, (old, new)) in pairs(old, new)? {
        let own = below(&entries[own]["fieldsV1"], name);
        let others: Vec<&Value> = others.iter().filter_map(|fields| below(fields, name)).collect();
        found = match name {
            _ if old == new => found,
            "metadata" => found.and(metadata(old, new, own, &others)?),
            // What a path cannot change it cannot own either.
            "status" if subresource(ask).is_empty() && kind.has_subresource("status") => return None,
            "spec" if subresource(ask) == "status" => return None,
            _ => found.and(values(old, new, own, &others)?),
        };
    }
    let mut record = Value::Array(entries.clone());
    if found == Found::Values {
        touch(&mut record, own, now);
    }
    Some(record)
}

/// Which entry of a record is the sender's, if that one says that the field is its own, and no other does.
pub fn sole_owner(kind: &Kind, ask: &Ask, record: &Value, path: &[&str]) -> Option<usize> {
    let entries = record.as_array()?;
    let own = entries.iter().position(|entry| is_sender(entry, kind, ask))?;
    let owns = |entry: &Value| {
        let fields = Some(&entry["fieldsV1"]);
        path.iter()
            .fold(fields, |fields, name| below(fields?, name))
            .is_some()
    };
    let alone = |(index, entry): (usize, &Value)| owns(entry) == (index == own);
    entries.iter().enumerate().all(alone).then_some(own)
}

/// Gives an entry of a record its time.
pub fn touch(record: &mut Value, own: usize, now: &str) {
    if let Value::Array(entries) = record {
        entries[own]["time"] = now.into();
        entries.sort_by(|one, other| order(one).cmp(&order(other)));
    }
}

/// What differs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    /// Values of the sender's own.
    Values,
}

impl Found {
    fn and(self, other: Self) -> Self {
        if self == Self::Nothing { other } else { self }
    }
}

fn is_sender(entry: &Value, kind: &Kind, ask: &Ask) -> bool {
    entry["operation"] == "Update"
        && entry["manager"] == manager_name(ask).as_str()
        && entry["subresource"].as_str().unwrap_or_default() == subresource(ask)
        && entry["apiVersion"] == kind.api_version().as_str()
        && entry["time"].is_string()
}

/// As a record is sorted: appliers first, then by time, name, version and path.
fn order(entry: &Value) -> [&str; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"]
        .map(|name| entry[name].as_str().unwrap_or_default())
}

/// The fields of two objects side by side; `None` unless they have the same ones.
fn pairs<'a>(
    old: &'a Map<String, Value>,
    new: &'a Map<String, Value>,
) -> Option<impl Iterator<Item = (&'a str, (&'a Value, &'a Value))>> {
    let same = old.len() == new.len() && old.keys().zip(new.keys()).all(|(old, new)| old == new);
    same.then(|| {
        old.iter()
            .zip(new.values())
            .map(|((name, old), new)| (name.as_str(), (old, new)))
    })
}

fn metadata(old: &Value, new: &Value, own: Option<&Value>, others: &[&Value]) -> Option<Found> {
    let owned = |metadata: &Value| -> Option<Value> {
        let fields = metadata.as_object()?.iter();
        let fields = fields.filter(|(name, _)| !is_unowned(name));
        Some(
            fields
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect::<Map<_, _>>()
                .into(),
        )
    };
    values(&owned(old)?, &owned(new)?, own, others)
}

/// Whether a field of the metadata is not compared: it belongs to nobody, or is the record itself.
fn is_unowned(name: &str) -> bool {
    name == "managedFields" || UNOWNED.contains(&["metadata", name].as_slice())
}

/// Whether all that differs are values that the sender owns and nobody else does.
fn values(old: &Value, new: &Value, own: Option<&Value>, others: &[&Value]) -> Option<Found> {
    if old == new {
        return Some(Found::Nothing);
    }
    let own = own?;
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut found = Found::Nothing;
            for (name, (old, new)) in pairs(old, new)? {
                let others: Vec<&Value> = others.iter().filter_map(|fields| below(fields, name)).collect();
                found = found.and(values(old, new, below(own, name), &others)?);
            }
            Some(found)
        }
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_))
            if others.is_empty() =>
        {
            Some(Found::Values)
        }
        _ => None,
    }
}

/// What a set says of a field; `None` if the field is not in it.
fn below<'a>(fields: &'a Value, name: &str) -> Option<&'a Value> {
    fields
        .as_object()?
        .iter()
        .find_map(|(field, below)| (field.strip_prefix("f:") == Some(name)).then_some(below))
}
