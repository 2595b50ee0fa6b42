//! Laying an applied configuration over a live object, and taking fields out of one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::fieldset::{Element, FieldSet};
use super::shape::{MapType, Shape};

/// The live object with everything that the configuration gives a value. Nothing is taken away.
pub fn lay_over(live: &Value, configuration: &Value, shape: Shape<'_>) -> Value {
    match (live, configuration) {
        (Value::Object(live), Value::Object(new)) if shape.map_type() == MapType::Granular => {
            let mut merged = live.clone();
            for (name, value) in new {
                let value = match live.get(name) {
                    Some(old) => lay_over(old, value, shape.field(name)),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            merged.into()
        }
        (Value::Array(live), Value::Array(new)) if !live.is_empty() => {
            match (shape.elements(live), shape.elements(new)) {
                (Some(live_elements), Some(new_elements)) => {
                    let live = live_elements.into_iter().zip(live).collect();
                    let new = new_elements.into_iter().zip(new).collect();
                    weave(live, new, shape.items()).into()
                }
                _ => configuration.clone(),
            }
        }
        // To configure a container as null is to own it and nothing in it.
        (Value::Object(fields), Value::Null)
            if !fields.is_empty() && shape.map_type() == MapType::Granular =>
        {
            live.clone()
        }
        (Value::Array(items), Value::Null) if !items.is_empty() && shape.elements(items).is_some() => {
            live.clone()
        }
        _ => configuration.clone(),
    }
}

type Items<'a> = VecDeque<(Element, &'a Value)>;

/// Merges two lists. Elements of the configuration keep its order, elements that only the live list has stay before
/// the shared element that followed them.
fn weave(mut live: Items<'_>, mut new: Items<'_>, shape: Shape<'_>) -> Vec<Value> {
    let in_live: BTreeMap<Element, &Value> = live.iter().cloned().collect();
    let in_new: BTreeSet<Element> = new.iter().map(|(element, _)| element.clone()).collect();
    let mut shared: VecDeque<Element> = new
        .iter()
        .map(|(element, _)| element.clone())
        .filter(|element| in_live.contains_key(element))
        .collect();
    let mut woven = Vec::with_capacity(live.len() + new.len());
    loop {
        match (live.front(), new.front()) {
            (None, None) => return woven,
            (Some((element, item)), _) if !in_new.contains(element) => {
                woven.push((*item).clone());
                live.pop_front();
            }
            // A shared element that the configuration has elsewhere comes when its turn is there.
            (Some((element, _)), Some((next, _)))
                if element != next && shared.front().is_some_and(|shared| shared != element) =>
            {
                live.pop_front();
            }
            (Some(_), None) => {
                live.pop_front();
            }
            (_, Some((element, item))) => {
                woven.push(match in_live.get(element) {
                    Some(old) => lay_over(old, item, shape),
                    None => (*item).clone(),
                });
                if live.front().is_some_and(|(next, _)| next == element) {
                    live.pop_front();
                }
                if shared.front() == Some(element) {
                    shared.pop_front();
                }
                new.pop_front();
            }
        }
    }
}

/// The object without some fields. A container that loses all that is in it, and is not itself among them, becomes
/// null, as on a real server.
pub fn take_out(object: &Value, gone: &FieldSet, shape: Shape<'_>) -> Value {
    match object {
        Value::Object(fields) if !fields.is_empty() => {
            if shape.map_type() == MapType::Atomic {
                return Value::Null;
            }
            let kept = fields.iter().filter_map(|(name, value)| {
                let kept = keep(value, &Element::field(name), gone, shape.field(name))?;
                Some((name.clone(), kept))
            });
            let kept: Map<String, Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { kept.into() }
        }
        Value::Array(items) if !items.is_empty() => {
            let Some(elements) = shape.elements(items) else {
                return Value::Null;
            };
            let pairs = elements.iter().zip(items);
            let kept: Vec<Value> = pairs
                .filter_map(|(element, item)| keep(item, element, gone, shape.items()))
                .collect();
            if kept.is_empty() { Value::Null } else { kept.into() }
        }
        other => other.clone(),
    }
}

fn keep(value: &Value, element: &Element, gone: &FieldSet, shape: Shape<'_>) -> Option<Value> {
    if gone.has(element) {
        return None;
    }
    Some(match gone.below(element) {
        Some(below) => take_out(value, below, shape),
        None => value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::sim::kube::patch::compare::fields;
    use crate::sim::kube::patch::samples;
    use crate::sim::kube::patch::samples::pod;

    fn containers(names: &[&str]) -> Value {
        let items: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": items}})
    }

    #[test]
    fn lists_are_woven_together() {
        let schema = pod();
        let table: [(&[&str], &[&str], &[&str]); 7] = [
            (&["a"], &["b"], &["a", "b"]),
            (&["a", "b"], &["b", "a"], &["b", "a"]),
            (&["c"], &["c2", "c"], &["c2", "c"]),
            (
                &["x", "a", "y", "b", "z"],
                &["a", "b"],
                &["x", "a", "y", "b", "z"],
            ),
            (
                &["x", "a", "y", "b", "z"],
                &["b", "n", "a"],
                &["x", "y", "b", "z", "n", "a"],
            ),
            (&["a", "b"], &[], &["a", "b"]),
            (&[], &["a", "b"], &["a", "b"]),
        ];
        for (live, new, expected) in table {
            let merged = lay_over(
                &containers(live),
                &containers(new),
                Shape::of_object(Some(&schema)),
            );
            assert_eq!(merged, containers(expected), "{live:?} + {new:?}");
        }
    }

    #[test]
    fn what_is_atomic_is_taken_whole_and_the_rest_field_by_field() {
        let schema = pod();
        let live = json!({"spec": {"nodeSelector": {"a": "1"}, "containers": [{"name": "c", "image": "i"}]}});
        let new = json!({"spec": {"nodeSelector": {"b": "1"}, "containers": [{"name": "c", "args": ["x"]}]}});
        let expected = json!({"spec": {"nodeSelector": {"b": "1"}, "containers": [{"name": "c", "image": "i", "args": ["x"]}]}});
        assert_eq!(lay_over(&live, &new, Shape::of_object(Some(&schema))), expected);
    }

    #[test]
    fn a_container_that_loses_everything_becomes_null() {
        let gone = FieldSet::parse(&json!({"f:spec": {"f:a": {}}, "f:metadata": {"f:labels": {}}})).unwrap();
        let object = json!({"metadata": {"labels": {"x": "1"}, "name": "n"}, "spec": {"a": 1}});
        let expected = json!({"metadata": {"name": "n"}, "spec": null});
        assert_eq!(take_out(&object, &gone, Shape::of_object(None)), expected);
    }

    proptest! {
        #[test]
        fn laying_over_twice_is_laying_over_once(live in samples::object(), new in samples::object()) {
            let shape = Shape::of_object(None);
            let once = lay_over(&live, &new, shape);
            prop_assert_eq!(lay_over(&once, &new, shape), once);
        }

        #[test]
        fn what_is_taken_out_is_gone_and_the_rest_is_not(object in samples::object(), other in samples::object()) {
            let shape = Shape::of_object(None);
            let (all, gone) = (fields(&object, shape), fields(&other, shape));
            let left = fields(&take_out(&object, &gone, shape), shape);
            prop_assert!(left.intersection(&gone).difference(&all).is_empty());
            prop_assert!(all.without(&gone).difference(&left).is_empty());
        }
    }
}
