//! Create and update: from a decoded object through admission to the store.
//!
//! Admission may wait for webhooks, so an object is drafted, judged and only then committed, if nothing else was
//! written to it meanwhile; otherwise it is drafted anew, as a real server does.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::admission::{self, Admission, Operation, quota};
use super::builtin::strategy;
use super::certificates;
use super::decode;
use super::events;
use super::identity::{self, User};
use super::kind::{Kind, Scope};
use super::object;
use super::patch::managed;
use super::refusal::{About, Refusal};
use super::request::{Ask, Form};
use super::schema::Cause;
use super::server::{ApiServer, State, about, bytes_response, json_response};
use super::store::{ObjectKey, Stored};
use super::table::{self, Headers};
use super::{heartbeat, namespaces, read, warning};

/// How often an object is drafted anew before the client is told to do it itself.
const TRIES_MAX: usize = 5;

/// What became of a write.
#[derive(Debug)]
pub struct Written {
    /// The object as it is now (or would be, in a dry run).
    pub object: Arc<Value>,
    /// The same as it is stored, if that is how it is answered.
    stored: Option<Arc<Stored>>,
    /// Whether it did not exist before.
    pub created: bool,
    /// Whether it is gone: its last finalizer was taken off.
    pub removed: bool,
}

impl Written {
    /// An object that stands in the store.
    pub(super) fn stored(stored: Arc<Stored>) -> Self {
        Self {
            object: stored.shared(),
            stored: Some(stored),
            created: false,
            removed: false,
        }
    }

    /// An object that does not: of a dry run, or one that is gone.
    fn not_stored(object: Value) -> Self {
        Self {
            object: Arc::new(object),
            stored: None,
            created: false,
            removed: false,
        }
    }
}

/// `POST` of a new object.
pub async fn create(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    body: &Bytes,
) -> Result<Response, Refusal> {
    if ask.target.name.is_some() {
        return Err(Refusal::method_not_allowed());
    }
    let decoded = decode::object(kind, ask, body)?;
    let mut object = events::stored(kind, decoded.object);
    place(kind, ask, &mut object)?;
    name_it(server, &mut object);
    let written = create_object(server, user, kind, ask, object).await?;
    Ok(respond(server, kind, ask, &written, &decoded.warnings))
}

/// Stores a new object after admission.
pub async fn create_object(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    mut object: Value,
) -> Result<Written, Refusal> {
    let versioned = !object::meta(&object, "resourceVersion").is_empty();
    begin_life(server, kind, &mut object);
    // Whoever makes an object owns what it says and its defaults; what admission adds is nobody's.
    admission::settle(kind, &mut object)?;
    managed::created(kind, ask, server, &mut object);
    if certificates::is_csr(kind) {
        certificates::prepare_new(kind, user, &mut object);
        admission::settle(kind, &mut object)?;
    }
    let admission = Admission {
        kind,
        user,
        operation: Operation::Create,
        subresource: None,
        old: None,
        dry_run: ask.options.dry_run,
    };
    admission::mutate(&server.state(), &admission, &mut object)?;
    let object = admission::mutating_webhooks(server, &admission, object).await?;
    admission::validate(&server.state(), &admission, &object)?;
    admission::validating_webhooks(server, &admission, &object).await?;
    let name = object::name(&object).to_owned();
    let key = ObjectKey::new(object::namespace(&object), &name);
    let written = {
        let mut state = server.state();
        quota::check(&state, &admission, &object)?;
        if state.store.get(&kind.table(), &key).is_some() {
            return Err(Refusal::already_exists(about(kind, &name)));
        }
        if ask.options.dry_run {
            Written::not_stored(object)
        } else if versioned {
            return Err(Refusal::failure(
                "resourceVersion should not be set on objects to be created",
            ));
        } else {
            Written::stored(commit(&mut state, kind, object)?)
        }
    };
    server.announce();
    if !ask.options.dry_run {
        namespaces::furnish(server, &written.object);
        identity::follow(server, kind, &written.object);
    }
    Ok(Written {
        created: true,
        ..written
    })
}

/// `PUT` of an object.
pub async fn update(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let said = decode::parse(&ask.content_type, body)?;
    if let Some(written) = heartbeat::renewed(server, kind, ask, &said) {
        return Ok(respond(server, kind, ask, &written, &[]));
    }
    let decoded = decode::admit(kind, ask, said)?;
    let mut sent = events::stored(kind, decoded.object);
    place(kind, ask, &mut sent)?;
    let name = ask.target.name.as_deref().unwrap_or_default();
    if object::name(&sent).is_empty() {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if object::name(&sent) != name {
        let problem = format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            object::name(&sent)
        );
        return Err(Refusal::bad_request(problem));
    }
    let exists = server.state().store.get(&kind.table(), &read::key(ask)).is_some();
    if !exists && strategy::is_made_by_update(kind) && ask.target.subresource.is_none() {
        check_version(object::meta(&sent, "resourceVersion"))?;
        let version = object::metadata_mut(&mut sent).remove("resourceVersion");
        let mut written = create_object(server, user, kind, ask, sent).await?;
        // What is not stored has no version but the one that was sent.
        if let Some(version) = version.filter(|_| ask.options.dry_run) {
            Arc::make_mut(&mut written.object)["metadata"]["resourceVersion"] = version;
        }
        return Ok(respond(server, kind, ask, &written, &decoded.warnings));
    }
    let blind = strategy::needs_version(kind) && object::meta(&sent, "resourceVersion").is_empty();
    let replaced = |_: &Value| {
        if blind {
            let why = "must be specified for an update";
            let cause = Cause::invalid("metadata.resourceVersion", &json!(0), why);
            return Err(Refusal::invalid(about(kind, name), vec![cause]));
        }
        Ok(sent.clone())
    };
    let written = change(server, user, kind, ask, &replaced).await?;
    Ok(respond(server, kind, ask, &written, &decoded.warnings))
}

/// Changes an existing object: `to` makes the new one from the old, and may be asked again if it changed meanwhile.
pub async fn change(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    to: &(dyn Fn(&Value) -> Result<Value, Refusal> + Send + Sync),
) -> Result<Written, Refusal> {
    let key = read::key(ask);
    for _ in 0..TRIES_MAX {
        let Some(old) = server.state().store.get(&kind.table(), &key).cloned() else {
            return Err(Refusal::not_found(about(kind, &key.name)));
        };
        let old_value = old.shared();
        let sent = to(&old_value)?;
        check_preconditions(kind, &old_value, &sent)?;
        if let Some(written) = try_change(server, user, kind, ask, &old, &old_value, sent).await? {
            return Ok(written);
        }
    }
    Err(Refusal::conflict(about(kind, &key.name), MODIFIED))
}

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// One try; `None` if the object changed meanwhile.
async fn try_change(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    old: &Arc<Stored>,
    old_value: &Value,
    sent: Value,
) -> Result<Option<Written>, Refusal> {
    let subresource = ask.target.subresource.as_deref();
    let record = sent["metadata"].get("managedFields").cloned();
    let deletion = match subresource {
        None => written_deletion(old_value, &sent["metadata"]),
        Some(_) => Vec::new(),
    };
    let pods_own = matches!(subresource, Some("ephemeralcontainers" | "resize"));
    let asked = pods_own.then(|| sent.clone());
    let mut object = strategy::carry_over(kind, subresource, old_value, sent);
    // What is asked for on a pod's own paths is owned even where it is not done: a real server does not look. And what
    // is decided about a certificate is prepared from what was sent, where no condition is not the same as nothing.
    let owned = asked.or_else(|| certificates::is_csr(kind).then(|| object.clone()));
    if let Some(mut owned) = owned {
        admission::settle(kind, &mut owned)?;
        managed::updated(kind, ask, server, old_value, record, &mut owned);
        managed::carry(&owned, &mut object);
        certificates::prepare_change(server, kind, subresource, old_value, &mut object);
        admission::settle(kind, &mut object)?;
    } else {
        admission::settle(kind, &mut object)?;
        managed::updated(kind, ask, server, old_value, record, &mut object);
    }
    let admission = Admission {
        kind,
        user,
        operation: Operation::Update,
        subresource,
        old: Some(old_value),
        dry_run: ask.options.dry_run,
    };
    admission::mutate(&server.state(), &admission, &mut object)?;
    let mut object = admission::mutating_webhooks(server, &admission, object).await?;
    strategy::count(kind, old_value, &mut object);
    let mut causes = added_finalizers(old_value, &object);
    causes.extend(deletion);
    judge(&server.state(), &admission, &object, causes)?;
    admission::validating_webhooks(server, &admission, &object).await?;

    let mut state = server.state();
    match state.store.get(&kind.table(), &old.key) {
        None => return Err(Refusal::not_found(about(kind, &old.key.name))),
        Some(current) if current.revision != old.revision => return Ok(None),
        Some(_) => quota::check(&state, &admission, &object)?,
    }
    if managed::same(old_value, &object) {
        return Ok(Some(Written::stored(Arc::clone(old))));
    }
    if ask.options.dry_run {
        return Ok(Some(Written::not_stored(object)));
    }
    let written = if is_finished(&object) {
        // The answer shows the version that the object had, not that of its removal, which watchers see.
        let mut last = remove(&mut state, kind, &old.key, object);
        last["metadata"]["resourceVersion"] = old_value["metadata"]["resourceVersion"].clone();
        Written {
            removed: true,
            ..Written::not_stored(last)
        }
    } else {
        Written::stored(commit(&mut state, kind, object)?)
    };
    drop(state);
    server.announce();
    identity::follow(server, kind, &written.object);
    Ok(Some(written))
}

/// Puts an object into the store, and a definition into the registry.
pub fn commit(state: &mut State, kind: &Kind, mut object: Value) -> Result<Arc<Stored>, Refusal> {
    if kind.plural == "customresourcedefinitions" {
        super::definitions::establish(&mut object);
        state.registry.define(&object).map_err(|error| {
            let cause = Cause::invalid("spec.versions", &Value::Null, error);
            Refusal::invalid(
                About {
                    group: &kind.group,
                    kind: &kind.kind,
                    name: object::name(&object),
                },
                vec![cause],
            )
        })?;
    }
    Ok(state.store.put(kind, object))
}

/// Takes an object out of the store; what it was last.
pub fn remove(state: &mut State, kind: &Kind, key: &ObjectKey, last: Value) -> Value {
    if kind.plural == "customresourcedefinitions" {
        state.registry.forget(&last);
    }
    state
        .store
        .remove(kind, key, last)
        .map_or(Value::Null, |stored| stored.value())
}

/// Stores an object past admission: what a cluster begins with, and what the server itself keeps.
pub fn insert(server: &ApiServer, mut object: Value) {
    let api_version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = {
        let state = server.state();
        let name = object["kind"].as_str().unwrap_or_default();
        state
            .registry
            .by_kind(group, name)
            .filter(|kind| kind.version == version)
    };
    let Some(kind) = kind else { return };
    begin_life(server, &kind, &mut object);
    strategy::begin(&mut object);
    if kind.plural == "customresourcedefinitions" {
        let _ = commit(&mut server.state(), &kind, object.clone());
    } else {
        server.state().store.put(&kind, object.clone());
    }
    server.announce();
    namespaces::furnish(server, &object);
}

/// Puts the object into the namespace of the path, or refuses one that says otherwise.
pub fn place(kind: &Kind, ask: &Ask, object: &mut Value) -> Result<(), Refusal> {
    let its = object::namespace(object).to_owned();
    match (kind.scope, ask.target.namespace.as_deref()) {
        (Scope::Namespaced, Some(namespace)) if its.is_empty() || its == namespace => {
            object::metadata_mut(object).insert("namespace".to_owned(), namespace.into());
            Ok(())
        }
        (Scope::Namespaced, None) => Err(Refusal::method_not_allowed()),
        (Scope::Cluster, _) => {
            object::metadata_mut(object).remove("namespace");
            Ok(())
        }
        (Scope::Namespaced, Some(namespace)) => Err(Refusal::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request ({its} != {namespace})"
        ))),
    }
}

/// Makes a name from `generateName` where none is given.
pub fn name_it(server: &ApiServer, object: &mut Value) {
    const PREFIX_MAX: usize = 58;
    let prefix: String = object::meta(object, "generateName")
        .chars()
        .take(PREFIX_MAX)
        .collect();
    if !object::name(object).is_empty() || prefix.is_empty() {
        return;
    }
    let name = format!("{prefix}{}", server.new_suffix());
    object::metadata_mut(object).insert("name".to_owned(), name.into());
}

/// What the server alone decides about a new object.
fn begin_life(server: &ApiServer, kind: &Kind, object: &mut Value) {
    if !strategy::takes_status(kind) {
        object::object_mut(object).remove("status");
    }
    let (uid, now) = (server.new_uid(), server.timestamp());
    let metadata = object::metadata_mut(object);
    for decided in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "resourceVersion",
    ] {
        metadata.remove(decided);
    }
    metadata.insert("uid".to_owned(), uid.into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
    if kind.has_generation() {
        metadata.insert("generation".to_owned(), 1.into());
    }
}

/// A version that is given is a number; a real server does not expect anything else.
fn check_version(version: &str) -> Result<(), Refusal> {
    if version.is_empty() || version.parse::<u64>().is_ok() {
        return Ok(());
    }
    let problem = format!("strconv.ParseUint: parsing \"{version}\": invalid syntax");
    Err(Refusal::failure(problem))
}

fn check_preconditions(kind: &Kind, old: &Value, sent: &Value) -> Result<(), Refusal> {
    let name = object::name(old);
    let version = object::meta(sent, "resourceVersion");
    check_version(version)?;
    if !version.is_empty() && version != object::meta(old, "resourceVersion") {
        return Err(Refusal::conflict(about(kind, name), MODIFIED));
    }
    let uid = object::uid(sent);
    if !uid.is_empty() && uid != object::uid(old) {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            object::uid(old)
        );
        return Err(Refusal::conflict(about(kind, name), why));
    }
    Ok(())
}

/// Validates a change about which something is known to be wrong already: everything is said at once.
fn judge(
    state: &State,
    admission: &Admission<'_>,
    object: &Value,
    causes: Vec<Cause>,
) -> Result<(), Refusal> {
    match admission::validate(state, admission, object) {
        Err(refusal) if refusal.code() == 422 => Err(refusal.with_causes(causes)),
        Ok(()) if !causes.is_empty() => {
            let whose = About {
                group: &admission.kind.group,
                kind: &admission.kind.kind,
                name: object::name(object),
            };
            Err(Refusal::invalid(whose, causes))
        }
        otherwise => otherwise,
    }
}

/// While an object is being deleted, finalizers may only go.
fn added_finalizers(old: &Value, object: &Value) -> Vec<Cause> {
    if !object::is_deleting(old) {
        return Vec::new();
    }
    let known = object::finalizers(old);
    let added: Vec<&str> = object::finalizers(object)
        .into_iter()
        .filter(|finalizer| !known.contains(finalizer))
        .collect();
    if added.is_empty() {
        return Vec::new();
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
    );
    vec![Cause::forbidden("metadata.finalizers", &detail)]
}

/// Nobody deletes by an update.
fn written_deletion(old: &Value, sent: &Value) -> Vec<Cause> {
    if object::is_deleting(old) {
        return Vec::new();
    }
    let fields = ["deletionTimestamp", "deletionGracePeriodSeconds"];
    fields
        .iter()
        .filter(|field| !sent[**field].is_null())
        .map(|field| Cause::invalid(&format!("metadata.{field}"), &sent[*field], "field is immutable"))
        .collect()
}

/// Whether nothing keeps a deleted object any more.
pub fn is_finished(object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0);
    object::is_deleting(object)
        && object::finalizers(object).is_empty()
        && grace == 0
        && !namespaces::is_kept(object)
}

/// A written object as an answer, in the form that is asked for.
pub fn respond(
    server: &ApiServer,
    kind: &Kind,
    ask: &Ask,
    written: &Written,
    warnings: &[String],
) -> Response {
    let code = if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let object = &*written.object;
    let body = match (ask.form, &written.stored) {
        (Form::Full, _) if events::renames(kind) => events::outwards(kind, object.clone()),
        (Form::Full, Some(stored)) => {
            return with_warnings(bytes_response(code, stored.body.clone()), warnings);
        }
        (Form::Full, None) => return with_warnings(json_response(code, object), warnings),
        (Form::Metadata, _) => read::partial(object),
        (Form::Table, _) => {
            let objects = std::slice::from_ref(object);
            table::of_objects(kind, ask, objects, Headers::Shown, server.clock())
        }
    };
    with_warnings(json_response(code, &body), warnings)
}

fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for text in warnings {
        warning::add(&mut response, text);
    }
    response
}
