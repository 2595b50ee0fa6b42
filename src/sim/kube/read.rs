//! Get and list.
//!
//! Reads without a `resourceVersion` are consistent, as on a real server: they see every write that was answered before
//! them, whatever is held back. Reads that say how old an answer may be are answered from the past if the client is held
//! back; those that name a revision exactly, and the later pages of a list, from history.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::events;
use super::identity::User;
use super::kind::Kind;
use super::page::{Continue, Page};
use super::refusal::{About, Refusal};
use super::request::{Ask, Form, Options, Verb};
use super::schema::{Cause, Reason};
use super::server::{ApiServer, about, body_response, bytes_response, json_response};
use super::store::{ObjectKey, Store, Stored};
use super::table::{self, Headers};
use super::watching::Reads;

/// One object.
pub fn get(server: &ApiServer, user: &User, kind: &Kind, ask: &Ask) -> Result<Response, Refusal> {
    ask.options
        .resource_version
        .as_deref()
        .map(expected_revision)
        .transpose()?;
    let (key, table) = (key(ask), kind.table());
    let stored = {
        let past = allowed_past(server, user, kind, &ask.options)?;
        let state = server.state();
        check_not_ahead(&ask.options, state.store.revision())?;
        let view = past.and_then(|revision| state.store.at(&table, revision));
        if let Some(past) = past {
            note_past(server, &state.store, &user.name, kind, past);
        }
        match view {
            Some(view) => view.get(&key).cloned(),
            None => state.store.get(&table, &key).cloned(),
        }
    };
    let stored = stored.ok_or_else(|| Refusal::not_found(about(kind, &key.name)))?;
    Ok(match ask.form {
        Form::Full => bytes_response(StatusCode::OK, events::shown(kind, &stored)),
        Form::Metadata => bytes_response(StatusCode::OK, stored.partial()),
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

/// The revision that a read is answered at, if the client is held back and said that it does not mind: with a
/// `resourceVersion` the answer may be that old and no older.
fn allowed_past(
    server: &ApiServer,
    user: &User,
    kind: &Kind,
    options: &Options,
) -> Result<Option<u64>, Refusal> {
    let Some(version) = options.resource_version.as_deref() else {
        return Ok(None);
    };
    let oldest = parse_revision(version)?;
    let hold = server.watching().hold(&user.name, &kind.table());
    match hold.filter(|hold| hold.reads == Reads::Stale) {
        Some(hold) if oldest > hold.revision => Err(too_large_version(oldest, hold.revision)),
        hold => Ok(hold.map(|hold| hold.revision)),
    }
}

/// Every object of a kind that a watch begins with, and the revision of that view.
pub fn visible(
    server: &ApiServer,
    user: &str,
    kind: &Kind,
    options: &Options,
) -> Result<(Vec<Arc<Stored>>, u64), Refusal> {
    let table = kind.table();
    let oldest = options
        .resource_version
        .as_deref()
        .map(parse_revision)
        .transpose()?;
    let hold = server.watching().hold(user, &table);
    let state = server.state();
    let mut revision = state.store.revision();
    // Whoever does not say how old it may be wants it as it is now.
    if let (Some(_), Some(hold)) = (oldest, hold)
        && state.store.remembers(&table, hold.revision)
    {
        revision = revision.min(hold.revision);
    }
    if oldest.is_some_and(|oldest| oldest > revision) {
        return Err(too_large_version(oldest.unwrap_or_default(), revision));
    }
    note_past(server, &state.store, user, kind, revision);
    let view = state.store.at(&table, revision);
    let objects = view.iter().flat_map(|view| view.after(None, None)).cloned();
    Ok((objects.collect(), revision))
}

/// Every object that is selected, in pages if so asked.
pub fn list(server: &ApiServer, user: &User, kind: &Kind, ask: &Ask) -> Result<Response, Refusal> {
    check_fields(kind, ask)?;
    check_options(ask)?;
    let versioned = ask.options.resource_version.as_deref();
    if ask.options.continue_token.is_some() && versioned.is_some_and(|version| version != "0") {
        return Err(Refusal::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let token = ask.options.continue_token.as_deref().map(Continue::decode);
    let page = match token.transpose()? {
        Some(token) => next_page(server, user, kind, ask, &token)?,
        None => first_page(server, user, kind, ask)?,
    };
    Ok(match ask.form {
        Form::Full => body_response(StatusCode::OK, page.of_kind(kind)),
        Form::Metadata => body_response(StatusCode::OK, page.of_metadata()),
        Form::Table => {
            let items: Vec<Value> = page.items.iter().map(|stored| stored.value()).collect();
            let mut rows = table::of_objects(kind, ask, &items, Headers::Shown, server.clock());
            rows["metadata"] = page.metadata();
            json_response(StatusCode::OK, &rows)
        }
    })
}

fn first_page(server: &ApiServer, user: &User, kind: &Kind, ask: &Ask) -> Result<Page, Refusal> {
    let exact = exact_revision(&ask.options)?;
    let past = match exact {
        Some(_) => None,
        None => allowed_past(server, user, kind, &ask.options)?,
    };
    let items_max = items_max(server, user, kind, ask);
    let state = server.state();
    let now = state.store.revision();
    check_not_ahead(&ask.options, now)?;
    // A cache that is held back remembers what it shows; where we do not, it has caught up.
    let past = past.filter(|past| state.store.remembers(&kind.table(), *past));
    if let Some(past) = past {
        note_past(server, &state.store, &user.name, kind, past);
    }
    let revision = exact.or(past).unwrap_or(now);
    page_at(&state.store, kind, ask, items_max, revision, None).ok_or_else(|| {
        Refusal::expired(format!(
            "The resourceVersion for the provided list is too old: {revision}"
        ))
    })
}

fn next_page(
    server: &ApiServer,
    user: &User,
    kind: &Kind,
    ask: &Ask,
    token: &Continue,
) -> Result<Page, Refusal> {
    let expired = || {
        Refusal::expired("The provided continue parameter is too old to display a consistent list result.")
    };
    if server.watching().forgets_page(&user.name, &kind.table()) {
        return Err(expired());
    }
    let items_max = items_max(server, user, kind, ask);
    let state = server.state();
    page_at(
        &state.store,
        kind,
        ask,
        items_max,
        token.revision(),
        Some(&token.after()),
    )
    .ok_or_else(expired)
}

/// How many objects a page has at most: what the client wants, or less. Whoever wants no pages gets none.
fn items_max(server: &ApiServer, user: &User, kind: &Kind, ask: &Ask) -> usize {
    let Some(wanted) = ask.options.limit else {
        return usize::MAX;
    };
    let longest = server.watching().page_items_max(&user.name, &kind.table());
    longest.map_or(wanted, |longest| wanted.min(longest))
}

/// Notes that somebody is shown a kind as it was, if it has changed since.
fn note_past(server: &ApiServer, store: &Store, user: &str, kind: &Kind, revision: u64) {
    let table = kind.table();
    let since = store.since(&table, revision);
    if since.is_some_and(|mut changes| changes.next().is_some()) {
        server.watching().meet_hold(user, &table);
    }
}

/// The objects that are selected, as they were at a revision; `None` if that is no longer known.
fn page_at(
    store: &Store,
    kind: &Kind,
    ask: &Ask,
    items_max: usize,
    revision: u64,
    after: Option<&ObjectKey>,
) -> Option<Page> {
    let view = store.at(&kind.table(), revision)?;
    let objects = view.after(after, ask.target.namespace.as_deref());
    Some(Page::of(objects, ask, items_max, revision))
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
