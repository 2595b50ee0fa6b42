//! Strategic merge patches: lists are merged by key where the schema says so, and the patch can say what to delete,
//! replace, retain and how to order.
//!
//! A patch that contradicts itself is refused as a real API server does: 400 for a few malformed directives, 422 for
//! lists of lists, and 500 without a reason for all that it never expected.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::merge::discard_nulls;
use super::shape::{Contents, Shape, Strategy};
use crate::sim::kube::refusal::Refusal;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList";
const ORDER_PREFIX: &str = "$setElementOrder";

type Fields = Map<String, Value>;

/// Reads a patch: an object; null is one that changes nothing.
pub fn parse(body: &Bytes) -> Result<Value, Refusal> {
    let patch: Option<Fields> =
        serde_json::from_slice(body).map_err(|error| Refusal::bad_request(error.to_string()))?;
    Ok(patch.unwrap_or_default().into())
}

/// What the patch makes of an object of this shape.
pub fn apply(live: &Value, patch: &Value, shape: Shape<'_>) -> Result<Value, Refusal> {
    let empty = Fields::new();
    let live = live.as_object().unwrap_or(&empty);
    let patch = patch.as_object().unwrap_or(&empty);
    Ok(merge_maps(live, patch, shape)?.into())
}

fn merge_maps(live: &Fields, patch: &Fields, shape: Shape<'_>) -> Result<Fields, Refusal> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch
                .iter()
                .filter(|(name, _)| *name != DIRECTIVE)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()),
            Some("delete") => Ok(Fields::new()),
            _ => Err(unknown_directive(directive)),
        };
    }
    let mut merged = live.clone();
    let mut patch = patch.clone();
    if let Some(retained) = patch.remove(RETAIN_KEYS) {
        retain(&mut merged, &patch, &retained)?;
    }
    order_lists(&mut merged, &mut patch, shape)?;
    delete_from_lists(&mut merged, &mut patch)?;
    for (name, change) in patch {
        merge_field(&mut merged, name, change, shape)?;
    }
    Ok(merged)
}

fn merge_field(merged: &mut Fields, name: String, change: Value, shape: Shape<'_>) -> Result<(), Refusal> {
    if change.is_null() {
        merged.remove(&name);
        return Ok(());
    }
    let below = shape.field(&name);
    let new = match (merged.get(&name), change) {
        (Some(Value::Object(old)), Value::Object(change)) => match below.strategy(Contents::Map) {
            Strategy::Replace => Some(change.into()),
            Strategy::Merge(_) => Some(merge_maps(old, &change, below)?.into()),
        },
        (Some(Value::Array(old)), Value::Array(change)) => Some(merge_lists(old, change, below)?.into()),
        (_, mut new) => {
            discard_nulls(&mut new);
            without_directives(new)
        }
    };
    match new {
        Some(new) => merged.insert(name, new),
        None => merged.remove(&name),
    };
    Ok(())
}

/// Keeps only the fields that are named, all of the patch's among them.
fn retain(merged: &mut Fields, patch: &Fields, retained: &Value) -> Result<(), Refusal> {
    let malformed = || Refusal::bad_request("invalid patch format of retainKeys");
    let names: Vec<&str> = retained
        .as_array()
        .ok_or_else(malformed)?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let is_directive = |name: &str| name.starts_with(DELETE_PREFIX) || name.starts_with(ORDER_PREFIX);
    let stray = patch
        .iter()
        .any(|(name, value)| !value.is_null() && !is_directive(name) && !names.contains(&name.as_str()));
    if stray {
        return Err(malformed());
    }
    merged.retain(|name, _| names.contains(&name.as_str()));
    Ok(())
}

/// Merges the lists for which the patch gives an order, in that order, and takes them out of the patch.
fn order_lists(merged: &mut Fields, patch: &mut Fields, shape: Shape<'_>) -> Result<(), Refusal> {
    let orders: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(ORDER_PREFIX))
        .cloned()
        .collect();
    for directive in orders {
        let order = patch.remove(&directive).unwrap_or_default();
        let name = named_list(&directive)
            .ok_or_else(|| Refusal::bad_request("invalid patch format of setElementOrder list"))?;
        let order = elements(&order)?;
        let below = shape.field(name);
        let key = match below.strategy(Contents::List) {
            Strategy::Merge(key) => key,
            Strategy::Replace => None,
        };
        let change = patch.remove(name);
        let change = change.as_ref().map(elements).transpose()?;
        let old = merged.get(name).map(elements).transpose()?;
        if let Some(change) = change {
            check_order(change, order, key)?;
        }
        let count = |list: Option<&Vec<Value>>| list.map_or(0, Vec::len);
        if (old.is_some() || change.is_some()) && count(old) + count(change) == 0 {
            return Err(Refusal::failure("no elements in any of the given slices"));
        }
        let (live, all) = match (old, change) {
            (None, None) => continue,
            (Some(old), None) => (old.clone(), old.clone()),
            (None, Some(change)) => {
                let new = change.iter().cloned().filter_map(without_directives);
                (Vec::new(), new.collect())
            }
            (Some(old), Some(change)) => (old.clone(), merge_lists(old, change.clone(), below)?),
        };
        merged.insert(name.to_owned(), arranged(all, order, &live, key)?.into());
    }
    Ok(())
}

/// The list that a directive such as `$setElementOrder/containers` is about.
fn named_list(directive: &str) -> Option<&str> {
    directive.split_once('/').map(|(_, name)| name)
}

fn elements(list: &Value) -> Result<&Vec<Value>, Refusal> {
    list.as_array()
        .ok_or_else(|| Refusal::failure(format!("expected a list, but received {list}")))
}

/// What the patch puts into a list must stand in the order that it gives, and be in it.
fn check_order(change: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Refusal> {
    if change.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut places = order.iter();
    for item in change.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let identity = identity(item, key)?;
        let mut found = false;
        for place in places.by_ref() {
            if self::identity(place, key)? == identity {
                found = true;
                break;
            }
        }
        if !found {
            return Err(Refusal::failure(
                "the order in the patch list doesn't match the $setElementOrder list",
            ));
        }
    }
    Ok(())
}

/// Takes values out of lists of values.
fn delete_from_lists(merged: &mut Fields, patch: &mut Fields) -> Result<(), Refusal> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(DELETE_PREFIX))
        .cloned()
        .collect();
    for directive in directives {
        let gone = patch.remove(&directive).unwrap_or_default();
        let name = named_list(&directive)
            .ok_or_else(|| Refusal::bad_request("invalid patch format of primitive list"))?;
        if let (Some(Value::Array(list)), Value::Array(gone)) = (merged.get_mut(name), gone) {
            list.retain(|item| !gone.contains(item));
        }
    }
    Ok(())
}

fn merge_lists(old: &[Value], change: Vec<Value>, shape: Shape<'_>) -> Result<Vec<Value>, Refusal> {
    let Strategy::Merge(key) = shape.strategy(Contents::List) else {
        return Ok(change);
    };
    let Some(first) = old.iter().chain(&change).next() else {
        return Ok(Vec::new());
    };
    if first.is_array() {
        return Err(Refusal::unprocessable("lists of lists are not supported"));
    }
    let same_type = |item: &Value| std::mem::discriminant(item) == std::mem::discriminant(first);
    if !old.iter().chain(&change).all(same_type) {
        return Err(Refusal::failure("list element types are not identical"));
    }
    if first.is_object() {
        let key = key.ok_or_else(|| Refusal::failure("cannot merge lists without merge key"))?;
        return merge_lists_of_maps(old, change, key, shape.items());
    }
    let mut merged: Vec<Value> = Vec::new();
    for item in old.iter().chain(&change) {
        if !merged.contains(item) {
            merged.push(item.clone());
        }
    }
    arranged(merged, &change, old, None)
}

fn merge_lists_of_maps(
    old: &[Value],
    change: Vec<Value>,
    key: &str,
    shape: Shape<'_>,
) -> Result<Vec<Value>, Refusal> {
    let mut live = old.to_vec();
    let mut items = Vec::new();
    let mut replaces = false;
    for item in change {
        match item.get(DIRECTIVE) {
            None => items.push(item),
            Some(Value::String(delete)) if delete == "delete" => {
                let gone = identity(&item, Some(key))?;
                live.retain(|item| item.get(key) != Some(gone));
            }
            Some(Value::String(replace)) if replace == "replace" => replaces = true,
            Some(directive) => return Err(unknown_directive(directive)),
        }
    }
    if replaces {
        return Ok(items);
    }
    let mut merged = live.clone();
    for item in &items {
        let identity = identity(item, Some(key))?;
        let known = merged.iter_mut().find(|known| known.get(key) == Some(identity));
        match (known, item) {
            (Some(Value::Object(known)), Value::Object(item)) => *known = merge_maps(known, item, shape)?,
            (_, item) => merged.push(item.clone()),
        }
    }
    arranged(merged, &items, &live, Some(key))
}

/// What tells an element of a list from the others.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Result<&'a Value, Refusal> {
    match key {
        None => Ok(item),
        Some(key) => item.get(key).ok_or_else(|| {
            Refusal::failure(format!("map: {item} does not contain declared merge key: {key}"))
        }),
    }
}

/// Elements that `order` names in that order, the rest in the live list's, and both woven together so that what stood
/// before a named element in the live list still does.
fn arranged(
    items: Vec<Value>,
    order: &[Value],
    live: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Refusal> {
    for item in items.iter().chain(order) {
        identity(item, key)?;
    }
    let same = |a: &Value, b: &Value| match key {
        Some(key) => a.get(key) == b.get(key),
        None => a == b,
    };
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item));
    let (mut named, mut rest): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    rest.sort_by_key(|item| place(live, item).unwrap_or(usize::MAX));
    let mut woven = Vec::with_capacity(named.len() + rest.len());
    let (mut named, mut rest) = (named.into_iter().peekable(), rest.into_iter().peekable());
    while let (Some(next_named), Some(next_rest)) = (named.peek(), rest.peek()) {
        let rest_first = match (place(live, next_rest), place(live, next_named)) {
            (Some(rest), Some(named)) => rest < named,
            _ => false,
        };
        woven.extend(if rest_first { rest.next() } else { named.next() });
    }
    woven.extend(named);
    woven.extend(rest);
    Ok(woven)
}

/// A value that is new, without the parts of it that were meant for an old one. As on a real server, directives other
/// than `$patch` stay, and are fields that nobody knows.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_directives).collect(),
        )),
        other => Some(other),
    }
}

fn unknown_directive(directive: &Value) -> Refusal {
    Refusal::failure(format!("unknown patch type: {directive}"))
}

#[cfg(test)]
mod tests;
