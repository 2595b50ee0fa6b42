//! Whether an object is already what a server would write after reading it.
//!
//! Most of what is written has been through a server before, and is read several times on its way into the store.
//! Looking is far cheaper than making it so again. What this is not sure of, [`conform`](super::conform) settles.

use std::ops::RangeInclusive;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::conform::is_lost;
use super::shapes::{self, Field, Shape, Struct, Zero};
use crate::quantity::Quantity;

/// Whether reading `value` would find nothing unknown and change nothing. May be wrong in one direction only: `false`
/// of a value that is settled.
pub(super) fn is_settled(value: &Value, shape: &Shape) -> bool {
    passes(value, shape, Bar::Settled)
}

/// Whether reading `value` would find nothing unknown and nothing of a wrong type, whatever it would change. May be wrong in
/// the same direction.
pub(super) fn is_known(value: &Value, shape: &Shape) -> bool {
    passes(value, shape, Bar::Known)
}

/// How much is asked of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bar {
    Known,
    Settled,
}

fn passes(value: &Value, shape: &Shape, bar: Bar) -> bool {
    match (shape, value) {
        (_, Value::Null) if bar == Bar::Known => true,
        (Shape::Any, _)
        | (Shape::Text | Shape::IntOrString, Value::String(_))
        | (Shape::Bool, Value::Bool(_))
        | (Shape::Float, Value::Number(_))
        | (Shape::AnyObject, Value::Object(_)) => true,
        (Shape::Bytes, Value::String(text)) => STANDARD.decode(text.as_str()).is_ok(),
        (Shape::Int64, Value::Number(number)) => number.is_i64(),
        (Shape::Int32 | Shape::IntOrString, Value::Number(number)) => {
            number.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
        }
        (Shape::Quantity, Value::String(text)) => match bar {
            Bar::Known => text.parse::<Quantity>().is_ok(),
            Bar::Settled => is_canonical_amount(text),
        },
        (Shape::Time, Value::String(text)) => is_canonical_time(text.as_bytes()),
        (Shape::MicroTime, Value::String(text)) => is_canonical_micro_time(text.as_bytes()),
        (Shape::List(items), Value::Array(elements)) => {
            elements.iter().all(|element| passes(element, items, bar))
        }
        (Shape::Map(values), Value::Object(entries)) => {
            entries.values().all(|entry| passes(entry, values, bar))
        }
        (Shape::Struct(id), Value::Object(given)) => passes_as_struct(given, shapes::structure_of(*id), bar),
        _ => false,
    }
}

/// Both have their fields in the same order, so one walk finds what is unknown, and a count what is missing.
fn passes_as_struct(given: &Map<String, Value>, structure: &Struct, bar: Bar) -> bool {
    let mut known = structure.fields.iter();
    let mut always = 0;
    for (name, value) in given {
        let Some((_, field)) = known
            .find(|(known, _)| *known >= name)
            .filter(|(known, _)| *known == name)
        else {
            return false;
        };
        if !passes_as_field(field, value, bar) {
            return false;
        }
        always += usize::from(field.is_always_written());
    }
    bar == Bar::Known || always == structure.always
}

fn passes_as_field(field: &Field, value: &Value, bar: Bar) -> bool {
    match bar {
        Bar::Known => passes(value, &field.shape, bar),
        Bar::Settled if value.is_null() => field.default.is_none() && field.zero == Zero::Null,
        Bar::Settled => passes(value, &field.shape, bar) && !is_lost(field, value),
    }
}

/// Amounts are counted in thousandths at the finest.
fn is_canonical_amount(text: &str) -> bool {
    const MILLI: i128 = 1_000_000;
    let amount = text.parse::<Quantity>().ok();
    amount.is_some_and(|amount| amount.nanos().rem_euclid(MILLI) == 0 && amount.to_string() == text)
}

/// `2026-11-16T10:00:00Z`, and surely a moment: the last days of months are left to whoever knows calendars.
fn is_canonical_time(text: &[u8]) -> bool {
    let Some((moment, b"Z")) = text.split_at_checked(19) else {
        return false;
    };
    is_moment(moment)
}

/// `2026-11-16T10:00:00.000000Z`.
fn is_canonical_micro_time(text: &[u8]) -> bool {
    let Some((moment, fraction)) = text.split_at_checked(19) else {
        return false;
    };
    let [b'.', digits @ .., b'Z'] = fraction else {
        return false;
    };
    is_moment(moment) && digits.len() == 6 && digits.iter().all(u8::is_ascii_digit)
}

/// `2026-11-16T10:00:00`.
fn is_moment(text: &[u8]) -> bool {
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let two = |at: usize, within: RangeInclusive<u8>| {
        let (ten, one) = (text[at], text[at + 1]);
        ten.is_ascii_digit() && one.is_ascii_digit() && within.contains(&((ten - b'0') * 10 + (one - b'0')))
    };
    separators.iter().all(|(at, separator)| text[*at] == *separator)
        && two(0, 1..=99)
        && two(2, 0..=99)
        && two(5, 1..=12)
        && two(8, 1..=28)
        && two(11, 0..=23)
        && two(14, 0..=59)
        && two(17, 0..=59)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::conform::{conform, read_whole};
    use super::*;

    fn settled(kind: (&str, &str), object: &Value) -> bool {
        let shape = shapes::of(kind.0, kind.1).unwrap();
        let claimed = is_settled(object, &shape);
        let mut read = object.clone();
        let unknown = read_whole(&mut read, &shape);
        let known = unknown.is_ok_and(|unknown| unknown.is_empty());
        assert!(known || !is_known(object, &shape), "{object} is not known");
        assert!(
            known && read == *object || !claimed,
            "{object} would become {read}"
        );
        claimed
    }

    const LEASE: (&str, &str) = ("coordination.k8s.io/v1", "Lease");

    fn lease(spec: &Value) -> Value {
        json!({"apiVersion": LEASE.0, "kind": LEASE.1, "metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn what_a_server_wrote_is_settled() {
        let time = "2026-11-16T10:00:00.120000Z";
        assert!(settled(
            LEASE,
            &lease(&json!({"holderIdentity": "a", "renewTime": time, "leaseDurationSeconds": 15}))
        ));
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "creationTimestamp": "2026-11-16T10:00:00Z"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}});
        assert!(!settled(("v1", "Pod"), &pod), "it has no status yet");
        conform("v1", "Pod", &mut pod).unwrap();
        assert!(settled(("v1", "Pod"), &pod));
    }

    #[test]
    fn whatever_would_change_is_not_settled() {
        for spec in [
            json!({"holderIdentity": "a", "typo": 1}),
            json!({"holderIdentity": null}),
            json!({"leaseDurationSeconds": "15"}),
            json!({"leaseDurationSeconds": 3_000_000_000_i64}),
            json!({"renewTime": "2026-11-16T10:00:00Z"}),
            json!({"renewTime": "2026-02-30T10:00:00.000000Z"}),
            json!({"renewTime": "2026-13-01T10:00:00.000000Z"}),
            json!({"renewTime": "0000-01-01T10:00:00.000000Z"}),
            json!({"renewTime": "2026-11-16T10:00:00.00000aZ"}),
            json!([]),
        ] {
            assert!(!settled(LEASE, &lease(&spec)), "{spec}");
        }
        let pod = |amount: &str| {
            let resources = json!({"requests": {"cpu": amount}});
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "resources": {}}]}});
            conform("v1", "Pod", &mut pod).unwrap();
            pod["spec"]["containers"][0]["resources"] = resources;
            pod
        };
        assert!(settled(("v1", "Pod"), &pod("1500m")));
        for amount in ["0.5", "1000m", "1n", "one"] {
            assert!(!settled(("v1", "Pod"), &pod(amount)), "{amount}");
        }
    }
}
