//! JSON, read with an eye on fields that are there twice: of those the last counts, and serde_json alone says nothing.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A JSON text, read.
#[derive(Debug)]
pub struct Read {
    /// What it says.
    pub value: Value,
    /// The paths of fields that are there twice, in the order in which they are met: `data.k`, `spec.ports[0].name`.
    pub twice: Vec<String>,
}

/// Reads a JSON text.
pub fn read(json: &[u8]) -> serde_json::Result<Read> {
    let mut twice = Vec::new();
    let walk = Walk {
        at: Place::Top,
        twice: &mut twice,
    };
    let mut text = serde_json::Deserializer::from_slice(json);
    let value = walk.deserialize(&mut text)?;
    text.end()?;
    Ok(Read { value, twice })
}

/// What is said of fields that are there twice.
pub fn complaints(twice: Vec<String>) -> Vec<String> {
    let fields = twice.into_iter();
    fields
        .map(|field| format!("duplicate field \"{field}\""))
        .collect()
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

struct Walk<'a> {
    at: Place<'a>,
    twice: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let at = Place::Field(&self.at, &name);
            let value = if object.contains_key(&name) {
                self.twice.push(at.to_string());
                fields.next_value::<Value>()?
            } else {
                fields.next_value_seed(Walk {
                    at,
                    twice: &mut *self.twice,
                })?
            };
            object.insert(name, value);
        }
        Ok(object.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Walk {
            at: Place::Item(&self.at, list.len()),
            twice: &mut *self.twice,
        })? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
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
        let whole = read(text).unwrap();
        assert_eq!(whole.twice, ["a.k", "l[1].b", "a"]);
        assert_eq!(whole.value, serde_json::from_slice::<Value>(text).unwrap());
    }

    #[test]
    fn what_is_no_json_is_told_as_serde_json_tells_it() {
        for text in [
            "{\"a\": 1, \"a\": 2",
            "",
            "{} x",
            "[1,]",
            "{\"a\" 1}",
            "nul",
            "\"\\u12\"",
            "1e999",
        ] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            let plain = serde_json::from_slice::<Value>(text.as_bytes()).unwrap_err();
            assert_eq!(error, plain.to_string(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_value_is_read_as_it_was_written_and_has_nothing_twice(object in samples::object()) {
            let read = read(object.to_string().as_bytes()).unwrap();
            prop_assert_eq!((read.value, read.twice), (object, Vec::<String>::new()));
        }
    }
}
