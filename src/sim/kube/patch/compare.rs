//! From objects to sets of fields: which fields an object has, and in which two objects differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fieldset::{Element, FieldSet};
use super::shape::{MapType, Shape};

/// In which fields two objects differ; no field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Only the old object has them.
    pub removed: FieldSet,
    /// Both have them, with different values.
    pub modified: FieldSet,
    /// Only the new object has them.
    pub added: FieldSet,
}

impl Changes {
    /// The fields that got a value.
    pub fn written(&self) -> FieldSet {
        self.modified.union(&self.added)
    }

    /// The same changes without some fields and what is below them.
    #[must_use]
    pub fn without(&self, fields: &FieldSet) -> Self {
        Self {
            removed: self.removed.without(fields),
            modified: self.modified.without(fields),
            added: self.added.without(fields),
        }
    }
}

/// In which fields two objects differ.
pub fn compare(old: &Value, new: &Value, shape: Shape<'_>) -> Changes {
    let mut changes = Changes::default();
    walk(Some(old), Some(new), shape, &mut Vec::new(), &mut changes);
    changes
}

/// Every field that an object gives a value: values, atomic containers, elements of lists, entries of maps and empty
/// maps. A structure is not a field of its own.
pub fn fields(value: &Value, shape: Shape<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(value, shape, &mut Vec::new(), &mut set);
    set
}

fn walk(
    old: Option<&Value>,
    new: Option<&Value>,
    shape: Shape<'_>,
    path: &mut Vec<Element>,
    changes: &mut Changes,
) {
    if old == new {
        return;
    }
    match (contents(old, shape), contents(new, shape)) {
        // An object where a list or a value was: nothing of the one is left in the other.
        (Contents::Map, Contents::List) | (Contents::List, Contents::Map) => {
            note(old, new, path, changes);
        }
        (Contents::Map, _) | (_, Contents::Map) => {
            for name in names(old, new) {
                path.push(Element::field(name));
                let (old, new) = (entry(old, name), entry(new, name));
                walk(old, new, shape.field(name), path, changes);
                path.pop();
            }
            note_container(old, new, path, changes);
        }
        (Contents::List, _) | (_, Contents::List) => {
            walk_lists(old, new, shape, path, changes);
            note_container(old, new, path, changes);
        }
        (Contents::Leaf, Contents::Leaf) => note(old, new, path, changes),
    }
}

/// What there is to look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    /// Entries.
    Map,
    /// Elements that are told apart.
    List,
    /// Nothing: a value, something empty, or a container that is one value.
    Leaf,
}

fn contents(value: Option<&Value>, shape: Shape<'_>) -> Contents {
    match value {
        Some(Value::Object(fields)) if !fields.is_empty() && shape.map_type() == MapType::Granular => {
            Contents::Map
        }
        Some(Value::Array(items)) if shape.elements(items).is_some_and(|items| !items.is_empty()) => {
            Contents::List
        }
        _ => Contents::Leaf,
    }
}

fn entry<'a>(value: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    value.and_then(|value| value.get(name))
}

fn names<'a>(old: Option<&'a Value>, new: Option<&'a Value>) -> BTreeSet<&'a str> {
    let fields = [old, new].into_iter().flatten().filter_map(Value::as_object);
    fields
        .flat_map(|fields| fields.keys().map(String::as_str))
        .collect()
}

fn walk_lists(
    old: Option<&Value>,
    new: Option<&Value>,
    shape: Shape<'_>,
    path: &mut Vec<Element>,
    changes: &mut Changes,
) {
    let mut items: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for (element, item) in elements(old, shape) {
        items.entry(element).or_default().0.push(item);
    }
    for (element, item) in elements(new, shape) {
        items.entry(element).or_default().1.push(item);
    }
    for (element, (old, new)) in items {
        path.push(element);
        match (old.as_slice(), new.as_slice()) {
            ([_] | [], [_] | []) => walk(
                old.first().copied(),
                new.first().copied(),
                shape.items(),
                path,
                changes,
            ),
            // Elements that are there twice cannot be told apart, so they are compared as one value.
            _ if old != new => note(old.first().copied(), new.first().copied(), path, changes),
            _ => {}
        }
        path.pop();
    }
}

fn elements<'a>(list: Option<&'a Value>, shape: Shape<'_>) -> Vec<(Element, &'a Value)> {
    let Some(Value::Array(items)) = list else {
        return Vec::new();
    };
    let elements = shape.elements(items).unwrap_or_default();
    elements.into_iter().zip(items).collect()
}

fn note(old: Option<&Value>, new: Option<&Value>, path: &[Element], changes: &mut Changes) {
    match (old, new) {
        (None, _) => changes.added.insert(path),
        (_, None) => changes.removed.insert(path),
        _ => changes.modified.insert(path),
    }
}

/// A container that both have is not itself changed by what is in it.
fn note_container(old: Option<&Value>, new: Option<&Value>, path: &[Element], changes: &mut Changes) {
    if old.is_none() || new.is_none() {
        note(old, new, path, changes);
    } else if old.is_some_and(is_scalar) || new.is_some_and(is_scalar) {
        changes.modified.insert(path);
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array() && !value.is_null()
}

fn collect(value: &Value, shape: Shape<'_>, path: &mut Vec<Element>, set: &mut FieldSet) {
    match value {
        Value::Object(entries) if shape.map_type() == MapType::Granular => {
            for (name, value) in entries {
                path.push(Element::field(name));
                collect(value, shape.field(name), path, set);
                let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
                if is_empty || !shape.declares(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Value::Array(items) => match shape.elements(items) {
            None => set.insert(path),
            Some(elements) => {
                for (element, item) in elements.into_iter().zip(items) {
                    path.push(element);
                    collect(item, shape.items(), path, set);
                    set.insert(path);
                    path.pop();
                }
            }
        },
        _ => set.insert(path),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::sim::kube::patch::fieldset::path_text;
    use crate::sim::kube::patch::samples;
    use crate::sim::kube::patch::samples::pod;

    fn texts(set: &FieldSet) -> Vec<String> {
        set.paths().iter().map(|path| path_text(path)).collect()
    }

    fn changed(old: &Value, new: &Value) -> (Vec<String>, Vec<String>, Vec<String>) {
        let schema = pod();
        let changes = compare(old, new, Shape::of_object(Some(&schema)));
        (
            texts(&changes.removed),
            texts(&changes.modified),
            texts(&changes.added),
        )
    }

    fn none() -> Vec<String> {
        Vec::new()
    }

    #[test]
    fn fields_are_values_elements_and_entries() {
        let schema = pod();
        let object = json!({
            "metadata": {"labels": {"a": "1"}, "annotations": {}, "finalizers": ["x"]},
            "spec": {"nodeSelector": {"a": "1"}, "tolerations": [{}], "containers": [{"name": "c", "ports": [{"containerPort": 1}]}]},
        });
        assert_eq!(
            texts(&fields(&object, Shape::of_object(Some(&schema)))),
            [
                ".metadata.annotations",
                ".metadata.finalizers[=\"x\"]",
                ".metadata.labels.a",
                ".spec.containers[name=\"c\"]",
                ".spec.containers[name=\"c\"].name",
                ".spec.containers[name=\"c\"].ports[containerPort=1,protocol=\"TCP\"]",
                ".spec.containers[name=\"c\"].ports[containerPort=1,protocol=\"TCP\"].containerPort",
                ".spec.nodeSelector",
                ".spec.tolerations",
            ]
        );
    }

    #[test]
    fn a_new_container_is_itself_added_and_an_old_one_is_not_touched() {
        let labels = |labels: Value| json!({"metadata": {"labels": labels}});
        let a = || labels(json!({"a": "1"}));
        let added = vec![".metadata.labels".to_owned(), ".metadata.labels.a".to_owned()];
        assert_eq!(
            changed(&json!({"metadata": {}}), &a()),
            (none(), none(), added.clone())
        );
        assert_eq!(changed(&a(), &json!({"metadata": {}})), (added, none(), none()));
        let (b, both) = (
            vec![".metadata.labels.b".to_owned()],
            labels(json!({"a": "1", "b": "2"})),
        );
        assert_eq!(changed(&a(), &both), (none(), none(), b.clone()));
        assert_eq!(changed(&both, &a()), (b, none(), none()));
    }

    #[test]
    fn atomic_containers_change_as_one_value() {
        let spec = |spec: Value| json!({"spec": spec});
        let old = spec(json!({"nodeSelector": {"a": "1"}, "tolerations": [{"key": "a"}]}));
        let new = spec(json!({"nodeSelector": {"a": "1", "b": "1"}, "tolerations": []}));
        let modified = vec![".spec.nodeSelector".to_owned(), ".spec.tolerations".to_owned()];
        assert_eq!(changed(&old, &new), (none(), modified, none()));
    }

    #[test]
    fn the_order_of_a_keyed_list_is_no_change() {
        let list = |items: Value| json!({"status": {"conditions": items}});
        let old = list(json!([{"type": "A", "status": "1"}, {"type": "B", "status": "1"}]));
        let new = list(json!([{"type": "B", "status": "2"}, {"type": "A", "status": "1"}]));
        let modified = vec![".status.conditions[type=\"B\"].status".to_owned()];
        assert_eq!(changed(&old, &new), (none(), modified, none()));
    }

    proptest! {
        #[test]
        fn only_equal_objects_do_not_differ(a in samples::object(), b in samples::object()) {
            let shape = Shape::of_object(None);
            prop_assert_eq!(compare(&a, &a, shape), Changes::default());
            prop_assert_eq!(compare(&a, &b, shape) == Changes::default(), a == b);
        }

        #[test]
        fn there_and_back_swaps_added_and_removed(a in samples::object(), b in samples::object()) {
            let shape = Shape::of_object(None);
            let (there, back) = (compare(&a, &b, shape), compare(&b, &a, shape));
            prop_assert_eq!(there.added, back.removed);
            prop_assert_eq!(there.modified, back.modified);
        }
    }
}
