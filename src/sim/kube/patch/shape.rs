//! What a schema says about the parts of an object: which lists are sets or maps, which maps are one value, how a
//! strategic merge patch merges them.
//!
//! The schema is OpenAPI v3 with its references resolved. Where it says nothing, a list is one value and a map is its
//! entries, as an API server assumes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::fieldset::Element;
use crate::sim::kube::kind::Kind;

/// The schema of metadata: every object has the same, and a CRD's schema does not tell it.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let owner = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "apiVersion": text, "kind": text, "name": text, "uid": text,
        "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
    }});
    json!({"type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text,
        "resourceVersion": text, "generation": number, "creationTimestamp": text,
        "deletionTimestamp": text, "deletionGracePeriodSeconds": number,
        "labels": texts, "annotations": texts,
        "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set",
                       "x-kubernetes-patch-strategy": "merge"},
        "ownerReferences": {"type": "array", "items": owner, "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["uid"], "x-kubernetes-patch-strategy": "merge",
                            "x-kubernetes-patch-merge-key": "uid"},
        "managedFields": {"type": "array", "x-kubernetes-list-type": "atomic"},
    }})
});

/// Texts at the root of every object.
static TEXT: LazyLock<Value> = LazyLock::new(|| json!({"type": "string"}));

/// What a schema says about one place.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    schema: Option<&'a Value>,
    /// Whether a whole object starts here, which has metadata.
    pub(super) is_object: bool,
}

/// How the elements of a list are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType<'a> {
    /// Not at all: the list is one value.
    Atomic,
    /// By what they are.
    Set,
    /// By these fields of theirs.
    Map(Vec<&'a str>),
}

/// What a map is to its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// One value.
    Atomic,
    /// Its entries, each with owners of its own.
    Granular,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy<'a> {
    /// The patch's value takes the place of the old.
    Replace,
    /// Maps and lists are merged; the elements of a list of maps by this key.
    Merge(Option<&'a str>),
}

/// What a field that is to be patched holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// An object.
    Map,
    /// An array.
    List,
}

/// The schema of a kind.
pub fn open_api(kind: &Kind) -> Option<&Value> {
    kind.open_api()
}

impl<'a> Shape<'a> {
    /// The shape of a whole object of a kind.
    pub fn of(kind: &'a Kind) -> Self {
        Self::of_object(open_api(kind))
    }

    /// The shape of a whole object with this schema, if it is known.
    pub fn of_object(schema: Option<&'a Value>) -> Self {
        Self {
            schema,
            is_object: true,
        }
    }

    fn below(schema: Option<&'a Value>) -> Self {
        Self {
            schema,
            is_object: false,
        }
    }

    /// A keyword, beside the reference or in what it refers to: a field of a built-in kind is written as
    /// `{"default": {}, "allOf": [<its type>]}`.
    pub(super) fn keyword(self, name: &str) -> Option<&'a Value> {
        let schema = self.schema?;
        schema
            .get(name)
            .or_else(|| schema.get("allOf")?.get(0)?.get(name))
    }

    pub(super) fn is(self, keyword: &str) -> bool {
        self.keyword(keyword).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Whether the schema names this field, as it does the fields of a structure and not the entries of a map.
    pub fn declares(self, name: &str) -> bool {
        self.declared(name).is_some()
    }

    fn declared(self, name: &str) -> Option<Self> {
        match name {
            "metadata" if self.is_object => Some(Self::below(Some(&METADATA))),
            "apiVersion" | "kind" if self.is_object => Some(Self::below(Some(&TEXT))),
            _ => self
                .keyword("properties")?
                .get(name)
                .map(|schema| Self::below(Some(schema))),
        }
    }

    /// The shape of a field or of an entry.
    #[must_use]
    pub fn field(self, name: &str) -> Self {
        self.declared(name)
            .unwrap_or_else(|| Self::below(self.keyword("additionalProperties")))
    }

    /// The shape of the elements of a list.
    #[must_use]
    pub fn items(self) -> Self {
        Self::below(self.keyword("items"))
    }

    /// The shape at the end of a path.
    #[must_use]
    pub fn at(self, path: &[Element]) -> Self {
        path.iter().fold(self, |shape, element| match element {
            Element::Field(name) => shape.field(name),
            Element::Key(_) | Element::Value(_) | Element::Index(_) => shape.items(),
        })
    }

    /// How the elements of the list here are told apart.
    pub fn list_type(self) -> ListType<'a> {
        match self.keyword("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ListType::Set,
            Some("map") => {
                let keys = self
                    .keyword("x-kubernetes-list-map-keys")
                    .and_then(Value::as_array);
                ListType::Map(keys.into_iter().flatten().filter_map(Value::as_str).collect())
            }
            _ => ListType::Atomic,
        }
    }

    /// What the map here is to its owners.
    pub fn map_type(self) -> MapType {
        match self.keyword("x-kubernetes-map-type").and_then(Value::as_str) {
            Some("atomic") => MapType::Atomic,
            _ => MapType::Granular,
        }
    }

    /// How a strategic merge patch treats what is here: maps merge unless told otherwise, lists only if told so.
    pub fn strategy(self, contents: Contents) -> Strategy<'a> {
        let written = self
            .keyword("x-kubernetes-patch-strategy")
            .and_then(Value::as_str);
        let says = |word: &str| written.is_some_and(|words| words.split(',').any(|said| said == word));
        if says("replace") || (contents == Contents::List && !says("merge")) {
            return Strategy::Replace;
        }
        let key = self
            .keyword("x-kubernetes-patch-merge-key")
            .and_then(Value::as_str);
        Strategy::Merge(key)
    }

    /// The path element of each element of a list, or nothing if the list is one value.
    ///
    /// A key that is missing counts with its default, so that a port without protocol is the TCP port. An element
    /// that cannot be told apart is known by its place.
    pub fn elements(self, list: &[Value]) -> Option<Vec<Element>> {
        let list_type = self.list_type();
        let element = |(index, item): (usize, &Value)| match &list_type {
            ListType::Map(keys) => {
                let keys = self.keys(item, keys);
                if keys.is_empty() {
                    Element::Index(index)
                } else {
                    Element::Key(keys)
                }
            }
            _ if item.is_object() || item.is_array() || item.is_null() => Element::Index(index),
            _ => Element::Value(item.to_string()),
        };
        (list_type != ListType::Atomic).then(|| list.iter().enumerate().map(element).collect())
    }

    fn keys(self, item: &Value, names: &[&str]) -> BTreeMap<String, String> {
        let value = |name: &str| {
            item.as_object()?
                .get(name)
                .or_else(|| self.items().field(name).keyword("default"))
        };
        names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), value(name)?.to_string())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::patch::samples;

    fn element(key: &str) -> Element {
        let set = super::super::fieldset::FieldSet::parse(&json!({key: {}})).unwrap();
        set.paths()[0][0].clone()
    }

    #[test]
    fn list_elements_are_told_apart_as_the_schema_says() {
        let schema = samples::pod();
        let shape = Shape::of_object(Some(&schema));
        let containers = shape.field("spec").field("containers");
        assert_eq!(
            containers.elements(&[json!({"name": "a"})]).unwrap(),
            [element(r#"k:{"name":"a"}"#)]
        );
        let ports = containers.items().field("ports");
        assert_eq!(
            ports.elements(&[
                json!({"containerPort": 80}),
                json!({"containerPort": 80, "protocol": "UDP"})
            ]),
            Some(vec![
                element(r#"k:{"containerPort":80,"protocol":"TCP"}"#),
                element(r#"k:{"containerPort":80,"protocol":"UDP"}"#),
            ])
        );
        let finalizers = shape.field("metadata").field("finalizers");
        assert_eq!(
            finalizers.elements(&[json!("a/b")]),
            Some(vec![element(r#"v:"a/b""#)])
        );
        assert_eq!(
            shape.field("spec").field("tolerations").elements(&[json!({})]),
            None
        );
        assert_eq!(shape.field("spec").field("unknown").elements(&[json!(1)]), None);
    }

    #[test]
    fn lists_are_replaced_by_a_strategic_patch_unless_the_schema_says_merge() {
        let schema = samples::pod();
        let spec = Shape::of_object(Some(&schema)).field("spec");
        assert_eq!(
            spec.field("containers").strategy(Contents::List),
            Strategy::Merge(Some("name"))
        );
        assert_eq!(
            spec.field("volumes").strategy(Contents::List),
            Strategy::Merge(Some("name"))
        );
        assert_eq!(
            spec.field("podCIDRs").strategy(Contents::List),
            Strategy::Merge(None)
        );
        assert_eq!(
            spec.field("tolerations").strategy(Contents::List),
            Strategy::Replace
        );
        assert_eq!(
            spec.field("nodeSelector").strategy(Contents::Map),
            Strategy::Merge(None)
        );
    }
}
