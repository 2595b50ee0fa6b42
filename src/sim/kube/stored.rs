//! An object as it is stored: encoded once, as the line that its watchers are sent.
//!
//! Whoever reads it shares those bytes: the line, the object inside it, and the metadata inside that are parts of one
//! allocation. What selectors and the collector look at stands beside it, so that neither has to decode. For a while
//! after it was written the decoded object is there too: most of what is written is soon written again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::kind::Kind;
use super::ownership::Ties;
use super::{object, selectable};

/// Where an object stands in its table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Unique in the namespace.
    pub name: String,
}

impl ObjectKey {
    /// The key of `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// What a watcher is told about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is new, to this watcher at least.
    Added,
    /// It is not what it was.
    Modified,
    /// It is gone, or no longer of those that are watched.
    Deleted,
}

impl Event {
    /// How a line with this event begins.
    fn prefix(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }

    /// The line that tells this event about an encoded object.
    pub fn line(self, object: &[u8]) -> Bytes {
        [self.prefix(), object, SUFFIX].concat().into()
    }
}

/// How every line ends.
const SUFFIX: &[u8] = b"}\n";

/// An object as it is stored.
#[derive(Debug)]
pub struct Stored {
    /// Where it stands.
    pub key: ObjectKey,
    /// The revision of the write that made it so.
    pub revision: u64,
    /// The whole object as JSON.
    pub body: Bytes,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Who owns it, and whether it is going.
    pub ties: Ties,
    /// What everybody is told who has watched it all along, and the line that says so, around `body`.
    event: Event,
    line: Bytes,
    /// Where in `body` its metadata stands.
    metadata: Range<usize>,
    /// Where in `body` its type ends, which comes first.
    type_ends: usize,
    /// The values of its selectable fields that are not empty.
    fields: Box<[(Box<str>, Box<str>)]>,
    /// The object as it was encoded, until it is forgotten.
    decoded: Mutex<Option<Arc<Value>>>,
}

impl Stored {
    /// Encodes an object, with its revision as `resourceVersion`, and remembers it decoded.
    pub fn encode(kind: &Kind, mut object: Value, revision: u64, event: Event) -> Self {
        object::metadata_mut(&mut object).insert("resourceVersion".to_owned(), revision.to_string().into());
        let (line, metadata, type_ends) = encode(object::object_mut(&mut object), event);
        let body = line.slice(event.prefix().len()..line.len() - SUFFIX.len());
        let fields = kind
            .selectable
            .iter()
            .map(|field| selectable::stored_name(field))
            .map(|field| (field, selectable::value(&object, field)))
            .filter(|(_, value)| !value.is_empty())
            .map(|(field, value)| (field.into(), value.into()))
            .collect();
        Self {
            key: ObjectKey::new(object::namespace(&object), object::name(&object)),
            revision,
            body,
            labels: object::labels(&object),
            ties: Ties::of(&object),
            event,
            line,
            metadata,
            type_ends,
            fields,
            decoded: Mutex::new(Some(Arc::new(object))),
        }
    }

    /// The object, decoded, to be changed.
    pub fn value(&self) -> Value {
        let remembered = self.decoded().as_ref().map(|object| Value::clone(object));
        // What was encoded from a value decodes to it.
        remembered.unwrap_or_else(|| serde_json::from_slice(&self.body).unwrap_or_default())
    }

    /// The object, decoded, to be looked at.
    pub fn shared(&self) -> Arc<Value> {
        let remembered = self.decoded().clone();
        remembered.unwrap_or_else(|| Arc::new(serde_json::from_slice(&self.body).unwrap_or_default()))
    }

    /// The object, decoded, to be changed into what takes its place: not copied unless somebody looks at it.
    pub(super) fn take(&self) -> Value {
        let remembered = self.decoded().take();
        remembered.map_or_else(|| self.value(), Arc::unwrap_or_clone)
    }

    /// Lets go of the decoded object, which takes several times the room of its bytes.
    pub(super) fn forget(&self) {
        self.decoded().take();
    }

    fn decoded(&self) -> MutexGuard<'_, Option<Arc<Value>>> {
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same object under a later revision: how it looked when it left a watcher's selection.
    #[must_use]
    pub fn left_at(&self, kind: &Kind, revision: u64) -> Self {
        Self::encode(kind, self.value(), revision, Event::Deleted)
    }

    /// The line that tells a watcher about it; shared, unless this watcher sees another event than most.
    pub fn line(&self, event: Event) -> Bytes {
        if event == self.event {
            self.line.clone()
        } else {
            event.line(&self.body)
        }
    }

    /// Its metadata alone, as `PartialObjectMetadata`.
    pub fn partial(&self) -> Bytes {
        const HEAD: &[u8] = br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;
        [HEAD, &self.body[self.metadata.clone()], b"}"].concat().into()
    }

    /// The object without its type, save the opening brace.
    pub fn untyped(&self) -> Bytes {
        self.body.slice(self.type_ends..)
    }

    /// The value of a selectable field, empty if it has none.
    pub fn field(&self, name: &str) -> &str {
        match name {
            "metadata.name" => &self.key.name,
            "metadata.namespace" => &self.key.namespace,
            other => {
                let stored = selectable::stored_name(other);
                let found = self.fields.iter().find(|(field, _)| **field == *stored);
                found.map_or("", |(_, value)| value)
            }
        }
    }
}

/// An object as a line, its type first; where in the object its metadata stands, and where its type ends.
fn encode(fields: &Map<String, Value>, event: Event) -> (Bytes, Range<usize>, usize) {
    // Most pods and nodes fit; a buffer that grows by doubling would copy them ten times.
    const USUAL_BYTES: usize = 6 << 10;
    let prefix = event.prefix();
    let mut line = Vec::with_capacity(USUAL_BYTES);
    line.extend_from_slice(prefix);
    // Where there is no type, after the brace.
    let (mut metadata, mut type_ends) = (0..0, 1);
    let is_type = |name: &str| matches!(name, "apiVersion" | "kind");
    let first = fields.iter().filter(|(name, _)| is_type(name));
    let rest = fields.iter().filter(|(name, _)| !is_type(name));
    for (index, (name, value)) in first.chain(rest).enumerate() {
        line.push(if index == 0 { b'{' } else { b',' });
        write_json(&mut line, name);
        line.push(b':');
        let start = line.len() - prefix.len();
        write_json(&mut line, value);
        if is_type(name) {
            // After the comma that follows.
            type_ends = line.len() - prefix.len() + 1;
        }
        if name == "metadata" {
            metadata = start..line.len() - prefix.len();
        }
    }
    line.push(b'}');
    line.extend_from_slice(SUFFIX);
    // Kept for as long as the object is: not a byte more than it needs.
    (line.into_boxed_slice().into(), metadata, type_ends)
}

fn write_json(line: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    // Memory takes every byte, and keys of JSON objects are texts: it cannot fail.
    let _ = serde_json::to_writer(line, value);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::sim::kube::registry::Registry;

    fn pods() -> Arc<Kind> {
        Registry::default().find("", "v1", "pods").unwrap()
    }

    fn pod(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n", "labels": {"a": "b"}},
               "spec": {"nodeName": "node-1"}, "status": {"phase": ""}})
    }

    #[test]
    fn the_object_and_its_metadata_are_parts_of_the_line() {
        let stored = Stored::encode(&pods(), pod("a"), 7, Event::Modified);
        let line: Value = serde_json::from_slice(&stored.line(Event::Modified)).unwrap();
        assert_eq!(line, json!({"type": "MODIFIED", "object": stored.value()}));
        assert_eq!(stored.value()["metadata"]["resourceVersion"], "7");
        let partial: Value = serde_json::from_slice(&stored.partial()).unwrap();
        assert_eq!(partial["metadata"], stored.value()["metadata"]);
        assert_eq!(partial["kind"], "PartialObjectMetadata");
    }

    #[test]
    fn an_object_is_shown_without_its_type_too() {
        let untyped = |object: &Value| {
            let stored = Stored::encode(&pods(), object.clone(), 7, Event::Added);
            let text = [b"{", &stored.untyped()[..]].concat();
            serde_json::from_slice::<Value>(&text).unwrap()
        };
        let mut expected = pod("a");
        expected["metadata"]["resourceVersion"] = "7".into();
        let fields = expected.as_object_mut().unwrap();
        fields.retain(|name, _| name != "apiVersion" && name != "kind");
        assert_eq!(untyped(&pod("a")), expected);
        assert_eq!(untyped(&expected), expected);
    }

    #[test]
    fn watchers_that_see_the_same_event_share_its_bytes() {
        let stored = Stored::encode(&pods(), pod("a"), 7, Event::Added);
        let (one, other) = (stored.line(Event::Added), stored.line(Event::Added));
        assert_eq!(one.as_ptr(), other.as_ptr());
        let rare: Value = serde_json::from_slice(&stored.line(Event::Deleted)).unwrap();
        assert_eq!(rare["type"], "DELETED");
    }

    #[test]
    fn selectable_fields_are_beside_the_object_and_empty_where_it_has_none() {
        let stored = Stored::encode(&pods(), pod("a"), 7, Event::Added);
        let read = [
            "spec.nodeName",
            "status.phase",
            "metadata.name",
            "spec.hostNetwork",
        ];
        assert_eq!(
            read.map(|field| stored.field(field)),
            ["node-1", "", "a", "false"]
        );
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(texts in prop::collection::btree_map(any::<String>(), any::<String>(), 0..8)) {
            let mut object = pod("a");
            object["data"] = json!(texts);
            object["metadata"]["annotations"] = json!(texts);
            let stored = Stored::encode(&pods(), object.clone(), 9, Event::Added);
            object["metadata"]["resourceVersion"] = "9".into();
            prop_assert_eq!(&stored.value(), &object);
            prop_assert_eq!(&*stored.shared(), &object);
            stored.forget();
            prop_assert_eq!(&stored.value(), &object);
            prop_assert_eq!(&*stored.shared(), &object);
            let partial: Value = serde_json::from_slice(&stored.partial()).unwrap();
            prop_assert_eq!(&partial["metadata"], &object["metadata"]);
        }
    }
}
