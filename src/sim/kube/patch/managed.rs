//! Who owns which field after a write that is no apply: whoever changes a field owns it from then on.

use std::sync::LazyLock;

use serde_json::Value;

use super::Format;
use super::compare::compare;
use super::fieldset::FieldSet;
use super::managers::{Holding, Manager, Managers};
use super::renewal;
use super::shape::Shape;
use super::zero::zero;
use crate::sim::kube::kind::Kind;
use crate::sim::kube::object;
use crate::sim::kube::request::{Ask, Verb};
use crate::sim::kube::server::ApiServer;

/// The longest name of a manager, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// What belongs to nobody.
pub(super) const UNOWNED: [&[&str]; 10] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "generation"],
    &["metadata", "resourceVersion"],
];

/// Records the fields of a new object as its creator's.
pub fn created(kind: &Kind, ask: &Ask, server: &ApiServer, object: &mut Value) {
    if is_apply(ask) {
        return;
    }
    let managers = Managers::parse(&object["metadata"]["managedFields"]).unwrap_or_default();
    let nothing = match kind.custom() {
        Some(_) => Value::Object(serde_json::Map::new()),
        None => zero(Shape::of(kind)),
    };
    put(
        record(kind, ask, &server.timestamp(), managers, &nothing, object),
        object,
    );
}

/// Records changed fields as their changer's. `sent` is the record that came with the request, if any: an application
/// brings the new one, and so does a scale; another write may put one right.
pub fn updated(
    kind: &Kind,
    ask: &Ask,
    server: &ApiServer,
    old: &Value,
    sent: Option<Value>,
    object: &mut Value,
) {
    let sent = sent.unwrap_or_default();
    if is_apply(ask) || subresource(ask) == "scale" && kind.kind != "Scale" {
        put(sent, object);
        return;
    }
    let now = server.timestamp();
    let untouched = sent.is_null() || sent == old["metadata"]["managedFields"];
    let renewed = untouched.then(|| renewal::renewed(kind, ask, &now, old, object));
    let record = if let Some(record) = renewed.flatten() {
        debug_assert_eq!(record, reckoned(kind, ask, &now, old, &sent, object), "{object}");
        record
    } else {
        reckoned(kind, ask, &now, old, &sent, object)
    };
    put(record, object);
}

/// The record of a changed object; none where nobody began to keep one, or somebody wiped it.
fn reckoned(kind: &Kind, ask: &Ask, now: &str, old: &Value, sent: &Value, object: &Value) -> Value {
    let managers = known(ask, old, sent);
    if managers.is_empty() {
        return Value::Null;
    }
    record(kind, ask, now, managers, old, object)
}

/// Whether nothing differs but times in the record of ownership: a write that changes nothing emits nothing.
pub fn same(old: &Value, new: &Value) -> bool {
    same_but(old, new, "metadata", |old, new| {
        same_but(old, new, "managedFields", |old, new| {
            let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else {
                return old == new;
            };
            let pairs = || old.iter().zip(new);
            old.len() == new.len() && pairs().all(|(old, new)| same_but(old, new, "time", |_, _| true))
        })
    })
}

/// Whether two objects are the same, one of their fields compared in its own way.
fn same_but(old: &Value, new: &Value, special: &str, compare: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Some(old_fields), Some(new_fields)) = (old.as_object(), new.as_object()) else {
        return old == new;
    };
    let has = |fields: &serde_json::Map<String, Value>| usize::from(fields.contains_key(special));
    let others = |fields: &serde_json::Map<String, Value>| fields.len() - has(fields);
    others(old_fields) == others(new_fields)
        && compare(&old[special], &new[special])
        && old_fields
            .iter()
            .filter(|(name, _)| *name != special)
            .all(|(name, value)| new_fields.get(name) == Some(value))
}

/// The name under which a request owns what it writes: its own word for it, or the program that sends it.
pub fn manager_name(ask: &Ask) -> String {
    if let Some(name) = &ask.options.field_manager {
        return name.clone();
    }
    let program = ask.user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for character in program.chars().filter(|character| !character.is_control()) {
        if name.len() + character.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        name.push(character);
    }
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name
    }
}

/// The path below the object that a request is about, or nothing.
pub fn subresource(ask: &Ask) -> &str {
    ask.target.subresource.as_deref().unwrap_or_default()
}

/// The fields that a request to this path cannot change, whatever it says: the status at the object itself, the
/// specification at its status. At a pod's own paths a real server does not look.
pub fn out_of_reach(kind: &Kind, subresource: &str) -> FieldSet {
    match subresource {
        "" if kind.has_subresource("status") => FieldSet::of_fields(&["status"]),
        "status" => FieldSet::of_fields(&["spec"]),
        _ => FieldSet::default(),
    }
}

/// The fields that somebody can own.
pub fn ownable(fields: &FieldSet) -> FieldSet {
    static NOBODYS: LazyLock<FieldSet> = LazyLock::new(|| {
        let record = FieldSet::of_fields(&["metadata", "managedFields"]);
        UNOWNED
            .iter()
            .fold(record, |all, path| all.union(&FieldSet::of_fields(path)))
    });
    fields.difference(&NOBODYS)
}

fn is_apply(ask: &Ask) -> bool {
    ask.verb == Verb::Patch && ask.content_type == Format::APPLY
}

/// The record to go on with. At the object itself a client may write it, an empty one to wipe it; what is not a
/// record, or is none, leaves the old.
fn known(ask: &Ask, old: &Value, sent: &Value) -> Managers {
    let live = || Managers::parse(&old["metadata"]["managedFields"]).unwrap_or_default();
    if !subresource(ask).is_empty() {
        return live();
    }
    let is_blank = |entry: &Value| entry.as_object().is_some_and(serde_json::Map::is_empty);
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => Managers::default(),
        Some([entry]) if is_blank(entry) => Managers::default(),
        _ => Managers::parse(sent)
            .filter(|managers| !managers.is_empty())
            .unwrap_or_else(live),
    }
}

fn record(kind: &Kind, ask: &Ask, now: &str, mut managers: Managers, old: &Value, new: &Value) -> Value {
    let subresource = subresource(ask);
    let changes = compare(old, new, Shape::of(kind)).without(&out_of_reach(kind, subresource));
    let api_version = kind.api_version();
    let manager = Manager::updater(&manager_name(ask), subresource, &api_version);
    let written = ownable(&changes.written());
    let before = managers.get(&manager).cloned();
    if !written.is_empty() {
        let fields = before.map_or_else(FieldSet::default, |holding| holding.fields);
        let holding = Holding {
            fields: fields.difference(&changes.removed).union(&written),
            api_version,
            time: Some(now.to_owned()),
        };
        managers.set(manager.clone(), holding);
    } else if let Some(mut holding) = before {
        holding.fields = holding.fields.difference(&changes.removed);
        managers.set(manager.clone(), holding);
    }
    managers.take(&changes, &manager);
    managers.cap();
    managers.print().into()
}

/// Gives an object the record of another.
pub fn carry(from: &Value, object: &mut Value) {
    put(from["metadata"]["managedFields"].clone(), object);
}

/// Writes the record into an object.
pub fn write(managers: &Managers, object: &mut Value) {
    put(managers.print().into(), object);
}

fn put(record: Value, object: &mut Value) {
    let metadata = object::metadata_mut(object);
    if record.as_array().is_some_and(|entries| !entries.is_empty()) {
        metadata.insert("managedFields".to_owned(), record);
    } else {
        metadata.remove("managedFields");
    }
}
