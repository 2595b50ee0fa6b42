//! Fields that a JSON text has twice. Reading it into a value keeps the last and says nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What is said of fields that are there twice.
pub fn complaints(json: &[u8]) -> Vec<String> {
    let fields = find(json).into_iter();
    fields
        .map(|field| format!("duplicate field \"{field}\""))
        .collect()
}

/// The paths of fields that are there twice, in the order in which they are met: `data.k`, `spec.ports[0].name`.
/// Nothing if the text is no JSON at all.
pub fn find(json: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let walk = Walk {
        at: Place::Top,
        found: &mut found,
    };
    match walk.deserialize(&mut serde_json::Deserializer::from_slice(json)) {
        Ok(()) => found,
        Err(_) => Vec::new(),
    }
}

/// Where a value stands. Spelled out only where it is told: hardly anybody writes a field twice.
#[derive(Clone, Copy)]
enum Place<'a> {
    Top,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => Ok(()),
            Self::Field(Place::Top, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// The name of a field, not copied unless it is written with escapes.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct Walk<'a> {
    at: Place<'a>,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let at = Place::Field(&self.at, &name.0);
            if seen.contains(&name) {
                self.found.push(at.to_string());
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            map.next_value_seed(Walk {
                at,
                found: &mut *self.found,
            })?;
            seen.insert(name);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0_usize;
        while items
            .next_element_seed(Walk {
                at: Place::Item(&self.at, index),
                found: &mut *self.found,
            })?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sim::kube::patch::samples;

    #[test]
    fn what_is_there_twice_is_found_wherever_it_is() {
        let text =
            br#"{"a": {"k": 1, "k": {"x": 1, "x": 2}}, "l": [1, {"b": null, "b": true}], "a": "", "n": 1.5}"#;
        assert_eq!(find(text), ["a.k", "l[1].b", "a"]);
        assert_eq!(find(b"{\"a\": 1, \"a\": 2"), [""; 0], "no JSON");
    }

    proptest! {
        #[test]
        fn a_value_has_nothing_twice(object in samples::object()) {
            prop_assert!(find(object.to_string().as_bytes()).is_empty());
        }
    }
}
