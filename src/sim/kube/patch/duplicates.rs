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
    // Hardly anybody writes a field twice: where they stand is worked out only then.
    let mut any = false;
    let looked = Glance(&mut any).deserialize(&mut serde_json::Deserializer::from_slice(json));
    if looked.is_err() || !any {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let walk = Walk {
        path: String::new(),
        found: &mut found,
    };
    match walk.deserialize(&mut reader) {
        Ok(()) => found,
        Err(_) => Vec::new(),
    }
}

/// Sees whether any field is there twice.
struct Glance<'a>(&'a mut bool);

impl<'de> DeserializeSeed<'de> for Glance<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Glance<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            *self.0 |= !seen.insert(name);
            map.next_value_seed(Glance(&mut *self.0))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Glance(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
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
}

/// The name of a field, not copied unless it is written with escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct Walk<'a> {
    path: String,
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
        while let Some(name) = map.next_key::<String>()? {
            let path = if self.path.is_empty() {
                name.clone()
            } else {
                format!("{}.{name}", self.path)
            };
            if seen.insert(name) {
                map.next_value_seed(Walk {
                    path,
                    found: &mut *self.found,
                })?;
            } else {
                self.found.push(path);
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0_usize;
        let element = |index: usize| format!("{}[{index}]", self.path);
        while items
            .next_element_seed(Walk {
                path: element(index),
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
