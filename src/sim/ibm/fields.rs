//! Strict reading of a JSON body: every field is asked for by name and type, and what nobody asked for is refused.
//!
//! Each refusal names the path of the field, as the VPC API does.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::errors::Refusal;

/// An object of a body, and which of its fields were read.
pub(super) struct Fields<'a> {
    path: String,
    map: &'a Map<String, Value>,
    read: RefCell<BTreeSet<String>>,
}

/// The whole body as JSON.
pub(super) fn parse(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        Refusal::field(
            "bad_request",
            "",
            format!("The request body is not valid JSON: {error}"),
        )
    })
}

impl<'a> Fields<'a> {
    /// The fields of a whole body.
    pub(super) fn of(body: &'a Value) -> Result<Self, Refusal> {
        Self::at(String::new(), body)
    }

    fn at(path: String, value: &'a Value) -> Result<Self, Refusal> {
        match value {
            Value::Object(map) => Ok(Self {
                path,
                map,
                read: RefCell::default(),
            }),
            _ => Err(wrong_type(&path, "an object")),
        }
    }

    /// The full path of one of these fields.
    pub(super) fn path(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// The full path of the object itself; empty for a whole body.
    pub(super) fn own_path(&self) -> &str {
        &self.path
    }

    /// Whether the field is there at all.
    pub(super) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// Whether the field is there and null, which a merge patch uses to remove something.
    pub(super) fn is_null(&self, key: &str) -> bool {
        matches!(self.take(key), Some(Value::Null))
    }

    fn take(&self, key: &str) -> Option<&'a Value> {
        self.read.borrow_mut().insert(key.to_owned());
        self.map.get(key)
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Null) => {
                let path = self.path(key);
                Err(Refusal::field(
                    "validation_not_null",
                    path.clone(),
                    format!("{path} must not be null"),
                ))
            }
            Some(value) => convert(value)
                .map(Some)
                .ok_or_else(|| wrong_type(&self.path(key), expected)),
        }
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Refusal> {
        self.typed(key, "a string", |value| value.as_str().map(Into::into))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Refusal> {
        self.typed(key, "a boolean", Value::as_bool)
    }

    /// A whole number, not negative.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, Refusal> {
        self.typed(key, "a non-negative integer", Value::as_u64)
    }

    /// A text out of a fixed set.
    pub(super) fn word(&self, key: &str, words: &[&str]) -> Result<Option<String>, Refusal> {
        let Some(word) = self.text(key)? else {
            return Ok(None);
        };
        if words.contains(&word.as_str()) {
            return Ok(Some(word));
        }
        let path = self.path(key);
        let message = format!("{path} must be one of: {}", words.join(", "));
        Err(Refusal::field("validation_enum", path.clone(), message).blames("field", path, Some(&word)))
    }

    /// An object.
    pub(super) fn object(&self, key: &str) -> Result<Option<Self>, Refusal> {
        match self.typed(key, "an object", Some)? {
            None => Ok(None),
            Some(value) => Self::at(self.path(key), value).map(Some),
        }
    }

    /// A list of objects; absent is empty.
    pub(super) fn objects(&self, key: &str) -> Result<Vec<Self>, Refusal> {
        let list = self.typed(key, "an array", Value::as_array)?;
        list.into_iter()
            .flatten()
            .enumerate()
            .map(|(index, value)| Self::at(format!("{}[{index}]", self.path(key)), value))
            .collect()
    }

    /// A list of texts; absent is empty.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, Refusal> {
        let list = self.typed(key, "an array", Value::as_array)?;
        list.into_iter()
            .flatten()
            .map(|value| value.as_str().map(Into::into))
            .collect::<Option<_>>()
            .ok_or_else(|| wrong_type(&self.path(key), "an array of strings"))
    }

    /// Refuses a body that lacks the field.
    pub(super) fn need<T>(&self, key: &str, value: Option<T>) -> Result<T, Refusal> {
        let path = self.path(key);
        value.ok_or_else(|| {
            Refusal::field(
                "validation_required_field",
                path.clone(),
                format!("{path} is a required field"),
            )
        })
    }

    /// The id that a reference (`{"id"}`, `{"crn"}` or `{"href"}`) names, or another identity in `also`.
    pub(super) fn identity(&self, also: &[&str]) -> Result<String, Refusal> {
        let mut found = Vec::new();
        for key in ["id", "crn", "href"].iter().chain(also) {
            if let Some(text) = self.text(key)? {
                let cut = match *key {
                    "crn" => text.rsplit(':').next(),
                    "href" => text.rsplit('/').next(),
                    _ => None,
                };
                found.push(cut.map_or(text.clone(), Into::into));
            }
        }
        let [id] = found.as_slice() else {
            let message = format!("Expected only one oneOf fields to be set: got {}", found.len());
            return Err(Refusal::field("validation_only_one", self.path.clone(), message));
        };
        self.done()?;
        Ok(id.clone())
    }

    /// The identity that the reference under `key` names.
    pub(super) fn reference(&self, key: &str, also: &[&str]) -> Result<Option<String>, Refusal> {
        self.object(key)?.map(|fields| fields.identity(also)).transpose()
    }

    /// Refuses a body with a field that was not read.
    pub(super) fn done(&self) -> Result<(), Refusal> {
        let read = self.read.borrow();
        match self.map.keys().find(|key| !read.contains(*key)) {
            None => Ok(()),
            Some(key) => {
                let path = self.path(key);
                Err(Refusal::field(
                    "invalid_request_field",
                    path.clone(),
                    format!("{path} is not a known field"),
                ))
            }
        }
    }
}

/// The path of the field `key` in the object at `path`.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn wrong_type(path: &str, expected: &str) -> Refusal {
    Refusal::field(
        "validation_invalid_field_type",
        path,
        format!("{path} must be {expected}"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code<T>(outcome: Result<T, Refusal>) -> String {
        outcome.map_or_else(|refusal| refusal.code, |_| "accepted".into())
    }

    #[test]
    fn each_kind_of_mistake_has_its_code() {
        let body = json!({ "name": 7, "zone": null, "class": "gold", "extra": 1, "image": { "id": "a", "crn": "b" } });
        let fields = Fields::of(&body).unwrap();
        assert_eq!(code(fields.text("name")), "validation_invalid_field_type");
        assert_eq!(code(fields.object("zone")), "validation_not_null");
        assert_eq!(
            code(fields.word("class", &["spot", "standard"])),
            "validation_enum"
        );
        assert_eq!(code(fields.need("vpc", None::<u8>)), "validation_required_field");
        assert_eq!(code(fields.reference("image", &[])), "validation_only_one");
        assert_eq!(code(fields.done()), "invalid_request_field");
        assert_eq!(code(parse(b"{")), "bad_request");
    }

    #[test]
    fn a_reference_may_be_an_id_a_crn_or_an_address() {
        for reference in [
            json!({"id":"r006-x"}),
            json!({"crn":"crn:v1:a::vpc:r006-x"}),
            json!({"href":"https://a/v1/vpcs/r006-x"}),
        ] {
            assert_eq!(Fields::of(&reference).unwrap().identity(&[]).unwrap(), "r006-x");
        }
    }
}
