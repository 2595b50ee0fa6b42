//! From a request body to an object of the right kind, without fields that the kind does not have.

use bytes::Bytes;
use serde_json::{Value, json};

use super::builtin::{self, Mismatch};
use super::kind::Kind;
use super::object as objects;
use super::patch::duplicates;
use super::protobuf::{self, ProtobufError};
use super::refusal::{About, Refusal};
use super::request::{Ask, FieldValidation};
use super::schema::Cause;

/// A decoded object, and what should be said about it although it is accepted.
#[derive(Debug)]
pub struct Decoded {
    /// The object, still to be admitted.
    pub object: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// What a body says, before it is known whether that is an object of the right kind.
#[derive(Debug)]
pub struct Said {
    /// All of it; of what it says twice, the last.
    pub value: Value,
    /// The paths of fields that it has twice, which only JSON can say.
    pub twice: Vec<String>,
}

/// Decodes an object of `kind`.
pub fn object(kind: &Kind, ask: &Ask, body: &Bytes) -> Result<Decoded, Refusal> {
    admit(kind, ask, parse(&ask.content_type, body)?)
}

/// Takes what a body says for an object of `kind`, without fields that the kind does not have.
pub fn admit(kind: &Kind, ask: &Ask, said: Said) -> Result<Decoded, Refusal> {
    let Said {
        value: mut object,
        twice,
    } = said;
    if kind.custom().is_none() {
        assume_type(kind, &mut object);
    }
    check_type(kind, &object)?;
    let mut complaints = duplicates::complaints(twice);
    complaints.extend(unknown(kind, &object)?);
    if kind.custom().is_some() {
        settle_metadata(kind, &mut object)?;
    }
    let warnings = judge(ask.options.field_validation, complaints)?;
    Ok(Decoded { object, warnings })
}

/// The metadata of a custom object is as typed as that of any other: what is unknown goes.
fn settle_metadata(kind: &Kind, object: &mut Value) -> Result<(), Refusal> {
    let mut carrier = carrier(object["metadata"].take());
    builtin::conform("v1", "ConfigMap", &mut carrier).map_err(|mismatch| mistyped(kind, &mismatch))?;
    object["metadata"] = carrier["metadata"].take();
    Ok(())
}

fn unknown_metadata(kind: &Kind, metadata: &Value) -> Result<Vec<String>, Refusal> {
    builtin::unknown("v1", "ConfigMap", &carrier(metadata.clone()))
        .map_err(|mismatch| mistyped(kind, &mismatch))
}

/// An object that has metadata and need not have anything else.
fn carrier(metadata: Value) -> Value {
    let mut carrier = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    carrier["metadata"] = metadata;
    carrier
}

/// Decodes a JSON, YAML or protobuf object of whatever kind.
pub fn any(content_type: &str, body: &Bytes) -> Result<Value, Refusal> {
    parse(content_type, body).map(|said| said.value)
}

/// Reads a JSON, YAML or protobuf object.
pub fn parse(content_type: &str, body: &Bytes) -> Result<Said, Refusal> {
    let mut twice = Vec::new();
    let value: Value = match content_type {
        "" | "application/json" => {
            let read = duplicates::read(body).map_err(|error| Refusal::bad_request(error.to_string()))?;
            twice = read.twice;
            read.value
        }
        "application/yaml" | "application/apply-patch+yaml" => {
            let text = std::str::from_utf8(body).map_err(|error| Refusal::bad_request(error.to_string()))?;
            serde_saphyr::from_str(text).map_err(|error| Refusal::bad_request(error.to_string()))?
        }
        protobuf::MEDIA_TYPE => {
            protobuf::object(body).map_err(|error| match error {
                // Kinds that are not built in have no protobuf form at all.
                ProtobufError::UnknownKind { .. } => Refusal::unsupported_media_type(error.to_string()),
                _ => Refusal::bad_request(error.to_string()),
            })?
        }
        other => {
            let problem = format!(
                "the body of the request was in an unknown format ({other}) - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
            );
            return Err(Refusal::unsupported_media_type(problem));
        }
    };
    if value.is_object() {
        Ok(Said { value, twice })
    } else {
        Err(Refusal::bad_request("the body is not a JSON object"))
    }
}

/// An object of a built-in kind that does not say what it is, is what the path says.
fn assume_type(kind: &Kind, object: &mut Value) {
    for (field, value) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
        if matches!(object[field].as_str(), None | Some("")) {
            object[field] = value.into();
        }
    }
}

fn check_type(kind: &Kind, object: &Value) -> Result<(), Refusal> {
    let (its_version, its_kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
    match (its_version, its_kind) {
        (_, None | Some("")) => Err(Refusal::bad_request("Object 'Kind' is missing")),
        (None | Some(""), _) => Err(Refusal::bad_request("Object 'apiVersion' is missing")),
        (Some(version), Some(name)) if version == kind.api_version() && name == kind.kind => Ok(()),
        (Some(version), Some(name)) if version == kind.api_version() && kind.custom().is_some() => {
            let whose = About {
                group: &kind.group,
                kind: name,
                name: objects::name(object),
            };
            let why = format!("must be {}", kind.kind);
            Err(Refusal::invalid(
                whose,
                vec![Cause::invalid("kind", &json!(name), why)],
            ))
        }
        (Some(version), Some(name)) => Err(Refusal::bad_request(format!(
            "the API version in the data ({version}, Kind={name}) does not match the expected API version ({}, Kind={})",
            kind.api_version(),
            kind.kind
        ))),
    }
}

/// Complains about fields that the kind does not have, as loudly as the client asked. An object of a built-in kind that
/// has a value of the wrong type is refused.
pub fn unknown_fields(
    kind: &Kind,
    validation: FieldValidation,
    object: &Value,
) -> Result<Vec<String>, Refusal> {
    judge(validation, unknown(kind, object)?)
}

fn unknown(kind: &Kind, object: &Value) -> Result<Vec<String>, Refusal> {
    let unknown = match kind.schema() {
        Some(schema) => {
            let mut unknown = unknown_metadata(kind, &object["metadata"])?;
            unknown.extend(schema.unknown_fields(object));
            unknown
        }
        None => builtin::unknown(&kind.api_version(), &kind.kind, object)
            .map_err(|mismatch| mistyped(kind, &mismatch))?,
    };
    Ok(unknown
        .into_iter()
        .map(|field| format!("unknown field \"{field}\""))
        .collect())
}

/// What becomes of complaints: a refusal, warnings, or nothing.
fn judge(validation: FieldValidation, complaints: Vec<String>) -> Result<Vec<String>, Refusal> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if !complaints.is_empty() => {
            let list = complaints.join(", ");
            Err(Refusal::bad_request(format!("strict decoding error: {list}")))
        }
        _ => Ok(complaints),
    }
}

/// 400: an object of a built-in kind cannot hold a value.
pub fn mistyped(kind: &Kind, mismatch: &Mismatch) -> Refusal {
    Refusal::bad_request(format!(
        "{name} in version \"{}\" cannot be handled as a {name}: {mismatch}",
        kind.version,
        name = kind.kind
    ))
}
