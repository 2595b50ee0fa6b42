//! Patches: JSON, merge, strategic merge and server-side apply; and who owns which field.
//!
//! The kinds of patches are pure functions from a live object to the object that should be stored. Here they are
//! chosen by content type, and their answers checked as a real API server decodes them: a patched object that is not
//! of the kind is refused with 422 and a cause for the field `patch`.

pub mod apply;
pub mod compare;
pub mod duplicates;
pub mod fieldset;
pub mod fit;
pub mod json;
pub mod last_applied;
pub mod managed;
pub mod managers;
pub mod merge;
pub mod overlay;
pub mod renewal;
pub mod shape;
pub mod strategic;
pub mod zero;

use std::sync::{Arc, Mutex, PoisonError};

use axum::response::Response;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use self::apply::{Application, Conflicts};
use self::json::JsonPatch;
use self::managed::{NAME_BYTES_MAX, subresource};
use self::shape::Shape;
use super::identity::{self, User};
use super::kind::Kind;
use super::refusal::{About, Refusal};
use super::request::{Ask, FieldValidation, Verb};
use super::schema::{Cause, Reason};
use super::server::{ApiServer, about};
use super::write::{self, Written};
use super::{decode, events, object, read};

/// How often an object may come and go while it is applied to before the client is told.
const TRIES_MAX: usize = 5;

/// What a patch is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 6902.
    Json,
    /// RFC 7396.
    Merge,
    /// Merged as the schema says.
    Strategic,
    /// A configuration to apply.
    Apply,
}

impl Format {
    /// The content type of a configuration to apply.
    pub const APPLY: &'static str = "application/apply-patch+yaml";

    /// The format of a content type that a kind takes. The schema of a custom kind does not say how to merge
    /// strategically.
    pub fn of(kind: &Kind, content_type: &str) -> Result<Self, Refusal> {
        match content_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if kind.custom().is_none() => Ok(Self::Strategic),
            Self::APPLY => Ok(Self::Apply),
            strategic @ "application/strategic-merge-patch+json" => Err(Refusal::unsupported_media_type(
                format!("the body of the request was in an unknown format ({strategic})"),
            )),
            other => Err(Refusal::unsupported_patch_type(format!(
                "the body of the request was in an unknown format ({other})"
            ))),
        }
    }
}

/// What a patch makes of an object.
#[derive(Debug)]
pub struct Patched {
    /// The object, still to be checked and admitted.
    pub object: Value,
    /// What is said about the patch although it is carried out.
    pub complaints: Vec<String>,
}

/// What a patch makes of an object of this shape. A configuration to apply needs to know more than that.
pub fn patched(format: Format, live: &Value, shape: Shape<'_>, body: &Bytes) -> Result<Patched, Refusal> {
    let complaints;
    let object = match format {
        Format::Json => {
            let patch = JsonPatch::parse(body)?;
            let object = patch.apply(live)?;
            let twice = twice(body)
                .into_iter()
                .map(|complaint| format!("json patch {complaint}"));
            complaints = twice.chain(patch.complaints).collect();
            object
        }
        Format::Merge => {
            complaints = twice(body);
            merge::apply(live, &merge::parse(body)?)
        }
        Format::Strategic => {
            complaints = twice(body);
            strategic::apply(live, &strategic::parse(body)?, shape)?
        }
        Format::Apply => {
            return Err(Refusal::unsupported_media_type("this cannot be applied to"));
        }
    };
    Ok(Patched { object, complaints })
}

fn twice(body: &Bytes) -> Vec<String> {
    duplicates::read(body).map_or_else(|_| Vec::new(), |read| duplicates::complaints(read.twice))
}

/// Changes an object by a patch.
pub async fn patch(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let format = Format::of(kind, &ask.content_type)?;
    check_options(format, ask)?;
    let now = server.timestamp();
    let warnings = Mutex::new(Vec::new());
    let to = |live: &Value| {
        let shown = events::renames(kind).then(|| events::outwards(kind, live.clone()));
        let patched = outcome(kind, ask, format, body, &now, shown.as_ref().unwrap_or(live))?;
        *warnings.lock().unwrap_or_else(PoisonError::into_inner) = patched.complaints;
        Ok(events::stored(kind, patched.object))
    };
    let written = if format == Format::Apply {
        apply_configuration(server, user, kind, ask, &to).await?
    } else {
        write::change(server, user, kind, ask, &to).await?
    };
    let warnings = warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(write::respond(server, kind, ask, &written, &warnings))
}

/// What a patch in any format makes of a live object; still one of its kind, and the same one.
pub fn outcome(
    kind: &Kind,
    ask: &Ask,
    format: Format,
    body: &Bytes,
    now: &str,
    live: &Value,
) -> Result<Patched, Refusal> {
    let (object, complaints) = if format == Format::Apply {
        applied(kind, ask, body, now, live)?
    } else {
        let patched = patched(format, live, Shape::of(kind), body)?;
        let complaints = check_fields(kind, ask, &patched)?;
        (patched.object, complaints)
    };
    let object = finish(kind, ask, format, live, object)?;
    Ok(Patched { object, complaints })
}

/// What a configuration makes of an object, and what is said about it.
pub fn applied(
    kind: &Kind,
    ask: &Ask,
    body: &Bytes,
    now: &str,
    live: &Value,
) -> Result<(Value, Vec<String>), Refusal> {
    let application = Application {
        kind,
        configuration: &apply::parse(kind, body)?,
        manager: &managed::manager_name(ask),
        subresource: subresource(ask),
        conflicts: match ask.options.force {
            Some(true) => Conflicts::Forced,
            Some(false) | None => Conflicts::Refused,
        },
        now,
    };
    let object = application.to(live)?;
    let uid = object::uid(&object);
    if object::uid(live).is_empty() && !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Refusal::conflict(about(kind, read::key(ask).name.as_str()), why));
    }
    let twice = twice(body);
    match ask.options.field_validation {
        FieldValidation::Strict if !twice.is_empty() => {
            let problem = format!("error strict decoding YAML: {}", twice.join(", "));
            Err(Refusal::bad_request(problem))
        }
        FieldValidation::Ignore => Ok((object, Vec::new())),
        FieldValidation::Strict | FieldValidation::Warn => Ok((object, twice)),
    }
}

/// Applies a configuration, to a new object if there is none yet.
async fn apply_configuration(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    to: &(dyn Fn(&Value) -> Result<Value, Refusal> + Send + Sync),
) -> Result<Written, Refusal> {
    for _ in 1..TRIES_MAX {
        let exists = server.state().store.get(&kind.table(), &read::key(ask)).is_some();
        let outcome = if exists || ask.target.subresource.is_some() {
            write::change(server, user, kind, ask, to).await
        } else {
            create(server, user, kind, ask, to(&Value::Object(Map::new()))?).await
        };
        match outcome {
            // It went, or came, since the look.
            Err(refusal) if exists && refusal.reason() == "NotFound" => {}
            Err(refusal) if !exists && refusal.reason() == "AlreadyExists" => {}
            settled => return settled,
        }
    }
    let name = ask.target.name.as_deref().unwrap_or_default();
    Err(Refusal::conflict(about(kind, name), "it comes and goes"))
}

/// Makes an object by applying to it, for which one must be allowed to create it.
async fn create(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    mut object: Value,
) -> Result<Written, Refusal> {
    let as_create = Ask {
        verb: Verb::Create,
        ..ask.clone()
    };
    identity::authorize(server, user, &as_create)?;
    // A real server does not mind a version here, although no object can have it.
    object::metadata_mut(&mut object).remove("resourceVersion");
    write::create_object(server, user, kind, ask, object).await
}

/// Refuses options that do not go with the format.
pub fn check_options(format: Format, ask: &Ask) -> Result<(), Refusal> {
    let mut causes = Vec::new();
    match (format, &ask.options.field_manager) {
        (Format::Apply, None) => causes.push(Cause::required("fieldManager", "is required for apply patch")),
        (Format::Apply, Some(_)) => {}
        (_, _) if ask.options.force.is_some() => {
            causes.push(Cause::forbidden(
                "force",
                "may not be specified for non-apply patch",
            ));
        }
        _ => {}
    }
    let manager = ask.options.field_manager.as_deref().unwrap_or_default();
    if manager.len() > NAME_BYTES_MAX {
        let message = format!("Too long: may not be more than {NAME_BYTES_MAX} bytes");
        causes.push(Cause::new("fieldManager", Reason::TooLong, message));
    }
    if manager.chars().any(char::is_control) {
        causes.push(Cause::invalid(
            "fieldManager",
            &json!(manager),
            "should only contain printable characters",
        ));
    }
    if causes.is_empty() {
        return Ok(());
    }
    let options = About {
        group: "meta.k8s.io",
        kind: "PatchOptions",
        name: "",
    };
    Err(Refusal::invalid(options, causes))
}

/// Complains about fields that the patched object cannot have, as loudly as the client asked.
fn check_fields(kind: &Kind, ask: &Ask, patched: &Patched) -> Result<Vec<String>, Refusal> {
    let unknown = decode::unknown_fields(kind, FieldValidation::Warn, &patched.object);
    let unknown = unknown.map_err(|refusal| undecodable(refusal.message()))?;
    let validation = ask.options.field_validation;
    if validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let complaints: Vec<String> = patched.complaints.iter().cloned().chain(unknown).collect();
    if validation == FieldValidation::Strict && !complaints.is_empty() {
        return Err(undecodable(&format!(
            "strict decoding error: {}",
            complaints.join(", ")
        )));
    }
    Ok(complaints)
}

/// 422: the patched object cannot be decoded as one of its kind.
fn undecodable(problem: &str) -> Refusal {
    let nothing = About {
        group: "",
        kind: "",
        name: "",
    };
    Refusal::invalid(
        nothing,
        vec![Cause::invalid("patch", &json!("the patched object"), problem)],
    )
}

/// The patched object, if it is still the same object of the same kind.
fn finish(kind: &Kind, ask: &Ask, format: Format, live: &Value, mut object: Value) -> Result<Value, Refusal> {
    check_type(kind, format, &mut object)?;
    // What else is patched has been looked at for unknown fields, and so for types.
    if format == Format::Apply
        && let Some(problem) = mistyped(kind, &object)
    {
        return Err(undecodable(&problem));
    }
    check_identity(kind, ask, live, &mut object)?;
    let metadata = object::metadata_mut(&mut object);
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let is_empty = match metadata.get(field) {
            Some(Value::Object(entries)) => entries.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            Some(value) => value.is_null(),
            None => false,
        };
        if is_empty {
            metadata.remove(field);
        }
    }
    Ok(object)
}

fn mistyped(kind: &Kind, object: &Value) -> Option<String> {
    let metadata = Shape::of(kind).field("metadata").mistyped(&object["metadata"]);
    match kind.custom() {
        // What is wrong with the rest of a custom resource, its own schema says, with better causes.
        Some(_) => metadata,
        None => metadata.or_else(|| Shape::of(kind).mistyped(object)),
    }
}

/// A patch may not turn an object into one of another kind. A built-in kind can do without saying what it is, and a
/// strategic merge patch of one never looks.
fn check_type(kind: &Kind, format: Format, object: &mut Value) -> Result<(), Refusal> {
    if !object.is_object() {
        return Err(undecodable("it is not an object"));
    }
    for (field, expected) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
        let said = object[field].as_str().unwrap_or_default().to_owned();
        if said == expected {
            continue;
        }
        match (kind.custom(), said.as_str()) {
            (Some(_), "") => return Err(undecodable(&format!("{field} is missing"))),
            (Some(_), _) => {
                let cause = Cause::invalid(field, &json!(said), format!("must be {expected}"));
                let about = About {
                    group: &kind.group,
                    kind: object["kind"].as_str().unwrap_or_default(),
                    name: object::name(object),
                };
                return Err(Refusal::invalid(about, vec![cause]));
            }
            (None, said) if !said.is_empty() && format != Format::Strategic => {
                return Err(undecodable(&format!("{field} is {said}, not {expected}")));
            }
            (None, _) => object[field] = expected.into(),
        }
    }
    Ok(())
}

/// Name, namespace and uid must be those of the object in the path.
fn check_identity(kind: &Kind, ask: &Ask, live: &Value, object: &mut Value) -> Result<(), Refusal> {
    let name = ask.target.name.as_deref().unwrap_or_default();
    match object::name(object) {
        "" => {
            let problem = format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            );
            return Err(Refusal::bad_request(problem));
        }
        other if other != name => {
            let problem =
                format!("the name of the object ({other}) does not match the name on the URL ({name})");
            return Err(Refusal::bad_request(problem));
        }
        _ => {}
    }
    write::place(kind, ask, object)?;
    let (uid, live_uid) = (object::uid(object), object::uid(live));
    // Of a scale it is a precondition of the object behind it.
    if !uid.is_empty() && !live_uid.is_empty() && uid != live_uid && subresource(ask) != "scale" {
        let cause = Cause::invalid("metadata.uid", &json!(uid), "field is immutable");
        let about = About {
            group: &kind.group,
            kind: &kind.kind,
            name,
        };
        // Two of its validations say so.
        return Err(Refusal::invalid(about, vec![cause.clone(), cause]));
    }
    let version = object::meta(object, "resourceVersion");
    if kind.custom().is_some() && !live_uid.is_empty() && version.is_empty() {
        let cause = Cause::invalid(
            "metadata.resourceVersion",
            &json!(0),
            "must be specified for an update",
        );
        return Err(Refusal::invalid(about(kind, name), vec![cause]));
    }
    Ok(())
}

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
