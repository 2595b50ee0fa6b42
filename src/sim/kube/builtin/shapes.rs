//! The shapes of built-in kinds, from `openapi.json` (made by `hack/openapi-data` from a real server).
//!
//! Read once per process. [`Shape`]s refer to each other and are shared; [`open_api`] writes a kind's shape out as one
//! schema for those who walk schemas, when somebody first asks for it.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value, json};

/// A shape that would contain itself; written out it takes anything.
const RECURSIVE: &str = "apiextensions.v1.JSONSchemaProps";

static DATA: LazyLock<Data> = LazyLock::new(|| {
    // What is compiled in is well-formed: a test reads it.
    let data: Value = serde_json::from_str(include_str!("openapi.json")).unwrap_or_default();
    Data::read(data)
});

/// What a value must look like, and how it looks once a server has read and written it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Text,
    /// Base64.
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Int32,
    Int64,
    Float,
    Bool,
    List(Box<Self>),
    Map(Box<Self>),
    /// A structure.
    Struct(StructId),
    /// An object whose fields nobody knows.
    AnyObject,
    /// A schema, or what stands in its place: a truth, a list.
    SchemaOr,
    Any,
}

/// Which of the structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StructId(usize);

/// A structure.
#[derive(Debug)]
pub(super) struct Struct {
    pub(super) name: String,
    pub(super) fields: Fields,
    /// How many of its fields are always written.
    pub(super) always: usize,
}

/// A field of a structure.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) shape: Shape,
    pub(super) zero: Zero,
    /// What is written where nothing was said.
    pub(super) default: Option<Value>,
}

impl Field {
    /// Whether it is written even where nothing was said.
    pub(super) fn is_always_written(&self) -> bool {
        self.default.is_some() || matches!(self.zero, Zero::Written | Zero::Null)
    }
}

/// What becomes of a field that is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zero {
    /// It is told apart from absence.
    Kept,
    /// It is absence.
    Omitted,
    /// Absence is zero.
    Written,
    /// Absence is null.
    Null,
}

/// The fields of a structure by name.
pub(super) type Fields = BTreeMap<String, Field>;

struct Data {
    /// The name of a kind's shape, by `apps/v1 Deployment`.
    kinds: BTreeMap<String, String>,
    /// A kind's structure, by version and then kind.
    kind_structs: BTreeMap<String, BTreeMap<String, StructId>>,
    structs: Vec<Struct>,
    /// The structure of schemas, the one that contains itself.
    schema: Option<StructId>,
    raw: Map<String, Value>,
    written_out: BTreeMap<String, OnceLock<Value>>,
}

impl Data {
    fn read(mut data: Value) -> Self {
        let kinds: BTreeMap<String, String> = crate::sim::kube::object::texts(&data["kinds"]);
        let raw = match data["shapes"].take() {
            Value::Object(raw) => raw,
            _ => Map::new(),
        };
        let names = names(&raw);
        let structs = names.keys().map(|name| structure(name, &raw, &names)).collect();
        let mut kind_structs: BTreeMap<String, BTreeMap<String, StructId>> = BTreeMap::new();
        for (kind, name) in &kinds {
            if let (Some((version, kind)), Some(id)) = (kind.split_once(' '), names.get(name)) {
                let of_version = kind_structs.entry(version.to_owned()).or_default();
                of_version.insert(kind.to_owned(), *id);
            }
        }
        let schema = names.get(RECURSIVE).copied();
        let written_out = kinds.keys().map(|kind| (kind.clone(), OnceLock::new())).collect();
        Self {
            kinds,
            kind_structs,
            structs,
            schema,
            raw,
            written_out,
        }
    }
}

/// The numbers of structures by name, in the order of their names.
type Names = BTreeMap<String, StructId>;

fn names(raw: &Map<String, Value>) -> Names {
    let structs = raw.iter().filter(|(_, shape)| shape.get("properties").is_some());
    let numbered = structs.map(|(name, _)| name.clone()).enumerate();
    numbered.map(|(index, name)| (name, StructId(index))).collect()
}

fn structure(name: &str, raw: &Map<String, Value>, names: &Names) -> Struct {
    let properties = raw[name]["properties"].as_object().into_iter().flatten();
    let fields: Fields = properties
        .map(|(name, property)| (name.clone(), field(property, raw, names)))
        .collect();
    let always = fields.values().filter(|field| field.is_always_written()).count();
    Struct {
        name: name.to_owned(),
        fields,
        always,
    }
}

fn field(property: &Value, raw: &Map<String, Value>, names: &Names) -> Field {
    let zero = match property["x-go-zero"].as_str() {
        Some("omit") => Zero::Omitted,
        Some("zero") => Zero::Written,
        Some("null") => Zero::Null,
        _ => Zero::Kept,
    };
    // `default: {}`, and zeros of fields that are always or never written, only repeat what `x-go-zero` says.
    let repeats = |default: &&Value| match zero {
        Zero::Written => true,
        Zero::Omitted => **default == 0 || **default == "" || **default == false,
        Zero::Kept | Zero::Null => default.is_object(),
    };
    Field {
        shape: shape(property, raw, names),
        zero,
        default: property
            .get("default")
            .filter(|default| !repeats(default))
            .cloned(),
    }
}

fn shape(schema: &Value, raw: &Map<String, Value>, names: &Names) -> Shape {
    if let Some(name) = schema["$ref"].as_str() {
        let Some(target) = raw.get(name) else {
            return Shape::Any;
        };
        // Said to be an object, but anything is taken.
        if name == "runtime.RawExtension" {
            return Shape::Any;
        }
        return names
            .get(name)
            .map_or_else(|| shape(target, raw, names), |id| Shape::Struct(*id));
    }
    let below = |keyword: &str| {
        schema
            .get(keyword)
            .map(|below| Box::new(shape(below, raw, names)))
    };
    let keyword = |name: &str| schema[name].as_str().unwrap_or_default();
    match (keyword("x-go-type"), keyword("type"), keyword("format")) {
        ("Time", ..) => Shape::Time,
        ("MicroTime", ..) => Shape::MicroTime,
        ("Quantity", ..) => Shape::Quantity,
        ("SchemaOr", ..) => Shape::SchemaOr,
        (_, _, "int-or-string") => Shape::IntOrString,
        (_, "string", "byte") => Shape::Bytes,
        (_, "string", _) => Shape::Text,
        (_, "boolean", _) => Shape::Bool,
        (_, "integer", "int32") => Shape::Int32,
        (_, "integer", _) => Shape::Int64,
        (_, "number", _) => Shape::Float,
        (_, "array", _) => below("items").map_or(Shape::Any, Shape::List),
        (_, "object", _) => below("additionalProperties").map_or(Shape::AnyObject, Shape::Map),
        _ => Shape::Any,
    }
}

/// The shape of a kind's objects.
pub(super) fn of(api_version: &str, kind: &str) -> Option<Shape> {
    let id = DATA.kind_structs.get(api_version)?.get(kind)?;
    Some(Shape::Struct(*id))
}

/// A structure by its number.
pub(super) fn structure_of(id: StructId) -> &'static Struct {
    // Numbers are handed out for the structures that there are.
    &DATA.structs[id.0]
}

/// The shape of a schema inside a schema.
pub(super) fn schema() -> Shape {
    DATA.schema.map_or(Shape::Any, Shape::Struct)
}

/// A built-in kind's schema with nothing left to look up. Schemas inside schemas are not written out.
pub fn open_api(api_version: &str, kind: &str) -> Option<&'static Value> {
    let key = format!("{api_version} {kind}");
    let name = DATA.kinds.get(&key)?;
    let place = DATA.written_out.get(&key)?;
    Some(place.get_or_init(|| DATA.raw.get(name).map(write_out).unwrap_or_default()))
}

fn write_out(schema: &Value) -> Value {
    let Some(keywords) = schema.as_object() else {
        return schema.clone();
    };
    let mut whole = Map::new();
    if let Some(name) = keywords.get("$ref").and_then(Value::as_str) {
        if name == RECURSIVE {
            return json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        }
        if let Some(Value::Object(target)) = DATA.raw.get(name).map(write_out) {
            whole = target;
        }
    }
    for (keyword, value) in keywords {
        let value = match keyword.as_str() {
            "$ref" => continue,
            "properties" => each(value),
            "items" | "additionalProperties" => write_out(value),
            _ => value.clone(),
        };
        whole.insert(keyword.clone(), value);
    }
    Value::Object(whole)
}

fn each(properties: &Value) -> Value {
    let properties = properties.as_object().into_iter().flatten();
    let whole = properties.map(|(name, property)| (name.clone(), write_out(property)));
    Value::Object(whole.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::registry::Registry;

    fn fields_of(name: &str) -> &'static Fields {
        let structure = DATA.structs.iter().find(|structure| structure.name == name);
        &structure.unwrap().fields
    }

    #[test]
    fn every_built_in_kind_has_a_shape() {
        for kind in Registry::default().all() {
            let schema = open_api(&kind.api_version(), &kind.kind).unwrap_or(&Value::Null);
            assert!(
                schema["properties"]["metadata"]["properties"]["name"].is_object()
                    || kind.kind.ends_with("Review"),
                "{}",
                kind.kind
            );
            assert!(of(&kind.api_version(), &kind.kind).is_some());
        }
    }

    #[test]
    fn what_is_written_out_has_nothing_left_to_look_up() {
        let text = open_api("v1", "Pod").unwrap().to_string();
        assert!(!text.contains("$ref"));
        let containers = &open_api("v1", "Pod").unwrap()["properties"]["spec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["items"]["properties"]["image"]["type"], "string");
    }

    #[test]
    fn fields_know_what_becomes_of_their_zero() {
        let spec = fields_of("core.v1.PodSpec");
        assert_eq!(spec["hostNetwork"].zero, Zero::Omitted);
        assert_eq!(spec["automountServiceAccountToken"].zero, Zero::Kept);
        assert_eq!(spec["containers"].zero, Zero::Null);
        assert_eq!(fields_of("core.v1.Pod")["status"].zero, Zero::Written);
        assert_eq!(
            fields_of("core.v1.ContainerPort")["protocol"].default,
            Some(json!("TCP"))
        );
    }
}
