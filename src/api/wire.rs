//! How JSON is read where serde and an API server differ, so that both take the same manifests.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use crate::quantity::whole_number;

/// Reads an integer that may be written as `2.0`, as an API server does; `null` is absence.
pub(super) fn integer<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Ok(Option::<Integer>::deserialize(from)?.map(|integer| integer.0))
}

/// Reads an integer that must be there.
pub(super) fn required_integer<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(Integer::deserialize(from)?.0)
}

/// Reads a map and leaves out the keys whose value is `null`, as an API server does; `null` is absence.
pub(super) fn map<'de, D, T>(from: D) -> Result<Option<BTreeMap<String, T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let map = Option::<BTreeMap<String, Option<T>>>::deserialize(from)?;
    Ok(map.map(|map| {
        map.into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }))
}

struct Integer(i64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Integer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Integer, E> {
                Ok(Integer(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Integer, E> {
                i64::try_from(number).map(Integer).map_err(E::custom)
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Integer, E> {
                whole_number(number)
                    .map(Integer)
                    .ok_or_else(|| E::custom(format!("{number} is not an integer")))
            }
        }
        from.deserialize_any(Number)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_integer_may_be_written_with_a_zero_fraction() {
        assert_eq!(integer(json!(2.0)).unwrap(), Some(2));
        assert_eq!(integer(json!(null)).unwrap(), None);
        assert!(integer(json!(2.5)).is_err());
        assert!(integer(json!("2")).is_err());
        assert!(integer(json!(1e19)).is_err());
        assert!(required_integer(json!(null)).is_err());
    }

    #[test]
    fn a_null_in_a_map_is_an_absence() {
        let read = map::<_, String>(json!({"a": "b", "c": null})).unwrap().unwrap();
        assert_eq!(
            read.into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), "b".to_owned())]
        );
    }
}
