//! Get and list.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::events;
use super::identity::User;
use super::kind::Kind;
use super::refusal::{About, Refusal};
use super::request::{Ask, Form, Options, Verb};
use super::schema::{Cause, Reason};
use super::server::{ApiServer, about, bytes_response, json_response};
use super::store::{ObjectKey, Stored};
use super::table::{self, Headers};
use super::watching::Reads;

/// One object.
pub fn get(server: &ApiServer, user: &User, kind: &Kind, ask: &Ask) -> Result<Response, Refusal> {
    ask.options
        .resource_version
        .as_deref()
        .map(expected_revision)
        .transpose()?;
    let key = key(ask);
    let stored = match stale(server, user, kind) {
        Some(objects) => objects.get(&key).cloned(),
        None => server.state().store.get(&kind.table(), &key).cloned(),
    };
    let stored = stored.ok_or_else(|| Refusal::not_found(about(kind, &key.name)))?;
    Ok(match ask.form {
        Form::Full => bytes_response(StatusCode::OK, events::shown(kind, &stored)),
        Form::Metadata => json_response(StatusCode::OK, &partial(&stored.value())),
        Form::Table => json_response(
            StatusCode::OK,
            &table::of_objects(kind, ask, &[stored.value()], Headers::Shown, server.clock()),
        ),
    })
}

/// The key of the object that a request names.
pub fn key(ask: &Ask) -> ObjectKey {
    ObjectKey::new(
        ask.target.namespace.as_deref().unwrap_or_default(),
        ask.target.name.as_deref().unwrap_or_default(),
    )
}

/// The table as a client that is held back sees it, if it is and its reads are.
fn stale(server: &ApiServer, user: &User, kind: &Kind) -> Option<BTreeMap<ObjectKey, Arc<Stored>>> {
    let hold = server
        .watching()
        .hold(&user.name, &kind.table())
        .filter(|hold| hold.reads == Reads::Stale)?;
    server.state().store.at(&kind.table(), hold.revision)
}

/// Every object of a kind that a user's watch begins with, and the revision of that view.
pub fn visible(server: &ApiServer, user: &str, kind: &Kind) -> (Vec<Arc<Stored>>, u64) {
    let (table, hold) = (kind.table(), server.watching().hold(user, &kind.table()));
    let state = server.state();
    if let Some(hold) = hold
        && let Some(objects) = state.store.at(&table, hold.revision)
    {
        return (objects.into_values().collect(), hold.revision);
    }
    (
        state.store.list(&table, None).cloned().collect(),
        state.store.revision(),
    )
}

/// Every object that is selected, in pages if so asked.
pub fn list(server: &ApiServer, user: &User, kind: &Kind, ask: &Ask) -> Result<Response, Refusal> {
    check_fields(kind, ask)?;
    check_options(ask)?;
    if ask.options.continue_token.is_some()
        && ask
            .options
            .resource_version
            .as_deref()
            .is_some_and(|version| version != "0")
    {
        return Err(Refusal::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let past = server
        .watching()
        .hold(&user.name, &kind.table())
        .filter(|hold| hold.reads == Reads::Stale);
    let page = {
        let state = server.state();
        let token = ask
            .options
            .continue_token
            .as_deref()
            .map(Continue::decode)
            .transpose()?;
        match token {
            Some(token) => {
                let objects = state.store.at(&kind.table(), token.rv).ok_or_else(|| {
                    Refusal::expired(
                        "The provided continue parameter is too old to display a consistent list result.",
                    )
                })?;
                Page::of(
                    objects.values().filter(|stored| stored.key > token.after()),
                    ask,
                    token.rv,
                )
            }
            None => match exact_revision(&ask.options)?.or(past.map(|hold| hold.revision)) {
                Some(revision) if revision > state.store.revision() => {
                    return Err(too_large_version(revision, state.store.revision()));
                }
                Some(revision) => {
                    let too_old = || {
                        Refusal::expired(format!(
                            "The resourceVersion for the provided list is too old: {revision}"
                        ))
                    };
                    let objects = state.store.at(&kind.table(), revision).ok_or_else(too_old)?;
                    Page::of(objects.values(), ask, revision)
                }
                None => {
                    check_not_ahead(&ask.options, state.store.revision())?;
                    let namespace = ask.target.namespace.as_deref();
                    Page::of(
                        state.store.list(&kind.table(), namespace),
                        ask,
                        state.store.revision(),
                    )
                }
            },
        }
    };
    Ok(match ask.form {
        Form::Full => bytes_response(StatusCode::OK, page.full(kind)),
        Form::Metadata => {
            let items: Vec<Value> = page.items.iter().map(|stored| partial(&stored.value())).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                              "metadata": page.plain_metadata(), "items": items});
            json_response(StatusCode::OK, &list)
        }
        Form::Table => {
            let items: Vec<Value> = page.items.iter().map(|stored| stored.value()).collect();
            let mut rows = table::of_objects(kind, ask, &items, Headers::Shown, server.clock());
            rows["metadata"] = page.plain_metadata();
            json_response(StatusCode::OK, &rows)
        }
    })
}

/// Whether a stored object is selected by a request.
pub fn selects(ask: &Ask, stored: &Stored) -> bool {
    let here = ask
        .target
        .namespace
        .as_ref()
        .is_none_or(|namespace| *namespace == stored.key.namespace);
    let named = ask
        .target
        .name
        .as_ref()
        .is_none_or(|name| *name == stored.key.name);
    here && named
        && ask.options.labels.matches(&stored.labels)
        && ask.options.fields.matches(|field| stored.field(field))
}

/// Only the fields that the kind makes selectable may be named.
pub fn check_fields(kind: &Kind, ask: &Ask) -> Result<(), Refusal> {
    let known = |field: &str| {
        matches!(field, "metadata.name" | "metadata.namespace")
            || kind.selectable.iter().any(|known| known == field)
    };
    match ask.options.fields.fields().find(|field| !known(field)) {
        Some(field) => Err(Refusal::bad_request(format!(
            "field label not supported: {field}"
        ))),
        None => Ok(()),
    }
}

/// Whether the options of a list or a watch go together.
pub fn check_options(ask: &Ask) -> Result<(), Refusal> {
    let options = &ask.options;
    let forbidden = |field: &str, why: &str| Cause::forbidden(field, why);
    let matching = options.resource_version_match.as_deref();
    let mut causes = Vec::new();
    let by = "resourceVersionMatch";
    let supported: &[&str] = if ask.verb == Verb::Watch {
        match (options.send_initial_events, matching) {
            (Some(_), Some("NotOlderThan")) | (None, None) => {}
            (Some(_), _) => causes.push(forbidden(
                by,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )),
            (None, Some(_)) => causes.push(forbidden(
                by,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )),
        }
        &["NotOlderThan"]
    } else {
        if matching.is_some() && options.resource_version.is_none() {
            causes.push(forbidden(
                by,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if matching == Some("Exact") && options.resource_version.as_deref() == Some("0") {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(forbidden(by, why));
        }
        if options.send_initial_events.is_some() {
            causes.push(forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
        &["Exact", "NotOlderThan"]
    };
    if matching.is_some() && options.continue_token.is_some() {
        causes.push(forbidden(
            by,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if let Some(other) = matching.filter(|matching| !supported.contains(matching)) {
        let supported: Vec<Value> = supported.iter().map(|value| json!(value)).collect();
        causes.push(Cause::not_supported(by, &json!(other), &supported));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Refusal::invalid(About::options("ListOptions"), causes))
    }
}

fn exact_revision(options: &Options) -> Result<Option<u64>, Refusal> {
    // With a limit and a version but no match rule, the version is meant exactly.
    let legacy = options.resource_version_match.is_none() && options.limit.is_some();
    let exact = options.resource_version_match.as_deref() == Some("Exact") || legacy;
    match options.resource_version.as_deref() {
        Some(version) if exact && version != "0" => parse_revision(version).map(Some),
        _ => Ok(None),
    }
}

fn check_not_ahead(options: &Options, current: u64) -> Result<(), Refusal> {
    let Some(version) = options.resource_version.as_deref() else {
        return Ok(());
    };
    let wanted = parse_revision(version)?;
    if wanted > current {
        Err(too_large_version(wanted, current))
    } else {
        Ok(())
    }
}

/// 504 with the cause that clients look for: they retry until the server has caught up.
pub fn too_large_version(wanted: u64, current: u64) -> Refusal {
    Refusal::timeout(
        format!("Too large resource version: {wanted}, current: {current}"),
        1,
    )
    .with_causes(vec![Cause::new(
        "",
        Reason::ResourceVersionTooLarge,
        "Too large resource version".to_owned(),
    )])
}

/// A resource version as a number.
pub fn parse_revision(version: &str) -> Result<u64, Refusal> {
    version
        .parse()
        .map_err(|_| Refusal::bad_request(format!("Invalid value: \"{version}\": resourceVersion")))
}

/// The same where a real server expects nothing but numbers, and fails at anything else.
pub fn expected_revision(version: &str) -> Result<u64, Refusal> {
    version.parse().map_err(|_| {
        Refusal::failure(format!(
            "resourceVersion: Invalid value: \"{version}\": strconv.ParseUint: parsing \"{version}\": invalid syntax"
        ))
    })
}

/// Metadata alone, as `PartialObjectMetadata`.
pub fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// A part of a list.
struct Page {
    items: Vec<Arc<Stored>>,
    revision: u64,
    next: Option<String>,
    remaining: Option<usize>,
}

impl Page {
    fn of<'a>(objects: impl Iterator<Item = &'a Arc<Stored>>, ask: &Ask, revision: u64) -> Self {
        let namespace = ask.target.namespace.as_ref();
        let mut objects =
            objects.filter(|stored| namespace.is_none_or(|namespace| *namespace == stored.key.namespace));
        let limit = ask.options.limit.unwrap_or(usize::MAX);
        let items: Vec<_> = objects
            .by_ref()
            .filter(|stored| selects(ask, stored))
            .take(limit)
            .cloned()
            .collect();
        // A full page ends without a look at what follows, so whether any of that is selected shows on the next one.
        let alone = ask.options.fields.demanded_name().is_some();
        let left = if alone { 0 } else { objects.count() };
        let next = items
            .last()
            .filter(|_| left > 0)
            .map(|last| Continue::new(revision, &last.key).encode());
        // With selectors a real server does not know how many are left.
        let plain = ask.options.labels.is_empty() && ask.options.fields.is_empty();
        Self {
            items,
            revision,
            next,
            remaining: (left > 0 && plain).then_some(left),
        }
    }

    /// As the list of a kind says it: those of custom kinds say where they go on even if they do not.
    fn metadata(&self, kind: &Kind) -> Value {
        let mut metadata = self.plain_metadata();
        if kind.custom().is_some() && self.next.is_none() {
            metadata["continue"] = "".into();
        }
        metadata
    }

    /// The same in forms that are made from lists of any kind.
    fn plain_metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(next) = &self.next {
            metadata["continue"] = next.clone().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }

    /// The list, its items copied as the bytes that they are stored as.
    fn full(&self, kind: &Kind) -> Bytes {
        let size: usize = self.items.iter().map(|stored| stored.body.len() + 1).sum();
        let mut body = BytesMut::with_capacity(size + 256);
        let head = json!({"kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": self.metadata(kind)});
        let head = head.to_string();
        body.put(head[..head.len() - 1].as_bytes());
        body.put(&b",\"items\":["[..]);
        for (index, stored) in self.items.iter().enumerate() {
            if index > 0 {
                body.put_u8(b',');
            }
            body.put(events::listed(kind, stored));
        }
        body.put(&b"]}"[..]);
        body.freeze()
    }
}

/// Where a list goes on: at which revision, after which object. Opaque to clients.
#[derive(Serialize, Deserialize)]
struct Continue {
    rv: u64,
    ns: String,
    name: String,
}

impl Continue {
    fn new(revision: u64, last: &ObjectKey) -> Self {
        Self {
            rv: revision,
            ns: last.namespace.clone(),
            name: last.name.clone(),
        }
    }

    fn encode(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(json!(self).to_string())
    }

    fn decode(text: &str) -> Result<Self, Refusal> {
        let decode = || {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
            serde_json::from_slice(&bytes).ok()
        };
        decode().ok_or_else(|| Refusal::bad_request("continue key is not valid"))
    }

    fn after(&self) -> ObjectKey {
        ObjectKey::new(&self.ns, &self.name)
    }
}
