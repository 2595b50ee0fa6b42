//! Events of both groups are the same objects, stored as core events and shown in the shape that is asked for.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::kind::Kind;
use super::store::Stored;

/// Fields of a core event and what `events.k8s.io` calls them.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
];

/// Whether a kind shows core events under other names.
pub fn renames(kind: &Kind) -> bool {
    kind.group == "events.k8s.io"
}

/// A stored object as this kind shows it.
pub fn shown(kind: &Kind, stored: &Stored) -> Bytes {
    if renames(kind) {
        outwards(kind, stored.value()).to_string().into()
    } else {
        stored.body.clone()
    }
}

/// A stored object as an item of a list of this kind, in two pieces: only custom kinds repeat there what they are.
pub fn listed(kind: &Kind, stored: &Stored) -> (&'static [u8], Bytes) {
    if kind.custom().is_some() {
        (b"", stored.body.clone())
    } else if renames(kind) {
        (b"", untyped(outwards(kind, stored.value())).to_string().into())
    } else {
        (b"{", stored.untyped())
    }
}

/// An object as an item of a list.
pub fn item(kind: &Kind, object: Value) -> Value {
    let object = outwards(kind, object);
    if kind.custom().is_some() {
        object
    } else {
        untyped(object)
    }
}

fn untyped(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|field, _| field != "apiVersion" && field != "kind");
    }
    object
}

/// An object as this kind shows it.
pub fn outwards(kind: &Kind, object: Value) -> Value {
    if renames(kind) {
        renamed(object, &kind.api_version(), true)
    } else {
        object
    }
}

/// A sent object as it is stored.
pub fn stored(kind: &Kind, object: Value) -> Value {
    if renames(kind) {
        renamed(object, "v1", false)
    } else {
        object
    }
}

fn renamed(mut object: Value, api_version: &str, outwards: bool) -> Value {
    object["apiVersion"] = api_version.into();
    let Value::Object(fields) = object else {
        return object;
    };
    let rename = |field: String| {
        let pair = NAMES
            .iter()
            .map(|(core, new)| if outwards { (*core, *new) } else { (*new, *core) });
        pair.into_iter()
            .find(|(from, _)| *from == field)
            .map_or(field.clone(), |(_, to)| to.to_owned())
    };
    fields
        .into_iter()
        .map(|(field, value)| (rename(field), value))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_changes_its_words_and_nothing_else() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "a"}, "message": "m",
                          "count": 2, "reason": "SpotPreemption", "type": "Warning"});
        let new = renamed(core.clone(), "events.k8s.io/v1", true);
        assert_eq!(new["regarding"]["name"], "a");
        assert_eq!(
            (new["note"].as_str(), new["deprecatedCount"].as_i64()),
            (Some("m"), Some(2))
        );
        assert_eq!(renamed(new, "v1", false), core);
    }
}
