//! Watch: what is there, then what happens, as a stream of JSON lines.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

mod control;

pub use control::{Control, Delivery, Hold, Reads, Who};

use super::identity::User;
use super::kind::Kind;
use super::refusal::Refusal;
use super::request::{Ask, Form};
use super::server::ApiServer;
use super::store::{Change, Stored};
use super::table::{self, Headers};
use super::{events, read};

/// How often a quiet stream says how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// How long a stream lasts when the client does not say; a real server draws 30 to 60 minutes.
const LASTS: Duration = Duration::from_mins(45);

/// Opens a stream.
pub fn watch(server: &ApiServer, user: &User, kind: &Arc<Kind>, ask: &Ask) -> Result<Response, Refusal> {
    read::check_fields(kind, ask)?;
    read::check_options(ask)?;
    let mut stream = Stream::open(server, user, kind, ask)?;
    let clock = server.clock();
    let lasts = ask
        .options
        .timeout_seconds
        .filter(|seconds| *seconds > 0)
        .map_or(LASTS, Duration::from_secs);
    stream.ends_at = clock.instant() + clock.real(lasts);
    let body = Body::from_stream(futures::stream::unfold(stream, |mut stream| async move {
        let line = stream.next().await?;
        Some((Ok::<Bytes, std::convert::Infallible>(line), stream))
    }));
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::OK;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// One watcher and how far it has come.
struct Stream {
    server: ApiServer,
    user: String,
    kind: Arc<Kind>,
    ask: Ask,
    /// Lines that are ready.
    ready: VecDeque<Bytes>,
    /// Every change up to this revision is delivered.
    cursor: u64,
    revisions: watch::Receiver<u64>,
    control: watch::Receiver<u64>,
    /// The streams of an older epoch were cut.
    epoch: u64,
    bookmark_at: Instant,
    ends_at: Instant,
    over: bool,
    /// Only the first table of a stream says what its columns are.
    headers: Cell<Headers>,
}

impl Stream {
    fn open(server: &ApiServer, user: &User, kind: &Arc<Kind>, ask: &Ask) -> Result<Self, Refusal> {
        let control = server.watching();
        let now = server.clock().instant();
        let mut stream = Self {
            server: server.clone(),
            user: user.name.clone(),
            kind: Arc::clone(kind),
            ask: ask.clone(),
            ready: VecDeque::new(),
            cursor: 0,
            revisions: server.revisions(),
            control: control.changes(),
            epoch: control.epoch(),
            bookmark_at: now + server.clock().real(BOOKMARK_EVERY),
            ends_at: now,
            over: false,
            headers: Cell::new(Headers::Shown),
        };
        let options = &ask.options;
        let version = options
            .resource_version
            .as_deref()
            .map(read::expected_revision)
            .transpose()?
            .unwrap_or(0);
        let initial = options.send_initial_events == Some(true);
        if options.send_initial_events == Some(false) && version == 0 {
            stream.cursor = server.state().store.revision();
        } else if initial || version == 0 {
            stream.begin_with_what_is_there();
        } else {
            stream.cursor = version;
        }
        Ok(stream)
    }

    /// Synthetic additions of everything that is there, up to the horizon of this client.
    fn begin_with_what_is_there(&mut self) {
        let (objects, revision) = read::visible(&self.server, &self.user, &self.kind);
        for stored in objects.iter().filter(|stored| read::selects(&self.ask, stored)) {
            let line = self.line("ADDED", stored);
            self.ready.push_back(line);
        }
        self.cursor = revision;
        if self.ask.options.send_initial_events == Some(true) && self.ask.options.bookmarks {
            let end = self.bookmark(&json!({"k8s.io/initial-events-end": "true"}));
            self.ready.push_back(end);
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.over || self.server.watching().epoch() != self.epoch {
                return None;
            }
            self.control.borrow_and_update();
            self.revisions.borrow_and_update();
            self.collect();
            if !self.ready.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                moved = self.revisions.changed() => moved.ok()?,
                moved = self.control.changed() => moved.ok()?,
                () = tokio::time::sleep_until(self.ends_at) => return None,
                () = tokio::time::sleep_until(self.bookmark_at), if self.ask.options.bookmarks => {
                    self.bookmark_at = self.server.clock().instant() + self.server.clock().real(BOOKMARK_EVERY);
                    let line = self.bookmark(&Value::Null);
                    self.ready.push_back(line);
                }
            }
        }
    }

    /// Takes up what happened since the cursor and within the horizon.
    fn collect(&mut self) {
        let table = self.kind.table();
        let hold = self.server.watching().hold(&self.user, &table);
        let (changes, revision) = {
            let state = self.server.state();
            (state.store.since(&table, self.cursor), state.store.revision())
        };
        let Some(mut changes) = changes else {
            let refusal = Refusal::expired(format!("too old resource version: {}", self.cursor));
            self.ready
                .push_back(encode("ERROR", &refusal.status().to_string().into()));
            self.over = true;
            return;
        };
        let horizon = hold.as_ref().map_or(revision, |hold| hold.revision.min(revision));
        changes.retain(|change| change.revision <= horizon);
        if self.server.watching().delivery(&self.user, &table) == Delivery::Coalesced {
            changes = coalesce(changes);
        }
        for change in changes {
            if let Some(line) = self.seen(&change) {
                self.ready.push_back(line);
            }
        }
        self.cursor = self.cursor.max(horizon);
    }

    /// How a change looks through the selectors of this watcher.
    fn seen(&self, change: &Change) -> Option<Bytes> {
        let was = change
            .before
            .as_ref()
            .is_some_and(|before| read::selects(&self.ask, before));
        let is = !change.deleted && read::selects(&self.ask, &change.after);
        match (was, is) {
            (false, true) => Some(self.line("ADDED", &change.after)),
            (true, true) => Some(self.line("MODIFIED", &change.after)),
            (true, false) => Some(self.line("DELETED", &self.last_seen(change))),
            (false, false) => None,
        }
    }

    /// An object that leaves a selection is shown as it was when it still belonged, at the revision of leaving.
    fn last_seen(&self, change: &Change) -> Arc<Stored> {
        if change.deleted {
            return Arc::clone(&change.after);
        }
        change.before.as_ref().map_or_else(
            || Arc::clone(&change.after),
            |before| Arc::new(before.at_revision(&self.kind, change.revision)),
        )
    }

    fn line(&self, event: &str, stored: &Stored) -> Bytes {
        let object = match self.ask.form {
            Form::Full => events::shown(&self.kind, stored),
            Form::Metadata => read::partial(&stored.value()).to_string().into(),
            Form::Table => {
                let (objects, headers) = ([stored.value()], self.headers.replace(Headers::Omitted));
                let rows = table::of_objects(&self.kind, &self.ask, &objects, headers, self.server.clock());
                rows.to_string().into()
            }
        };
        encode(event, &object)
    }

    fn bookmark(&self, annotations: &Value) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string()});
        if annotations.is_object() {
            metadata["annotations"] = annotations.clone();
        }
        let object = match self.ask.form {
            Form::Full => {
                json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata})
            }
            Form::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Form::Table => {
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": self.cursor.to_string()},
                                  "columnDefinitions": [], "rows": []})
            }
        };
        encode("BOOKMARK", &object.to_string().into())
    }
}

/// Of several changes of one object only the last is kept, as a watch cache that fell behind would show it; one that
/// came and went in between was never there.
fn coalesce(changes: Vec<Change>) -> Vec<Change> {
    let mut latest: Vec<Change> = Vec::new();
    for change in changes {
        match latest
            .iter_mut()
            .find(|seen| seen.after.key == change.after.key && !seen.deleted)
        {
            Some(seen) => {
                *seen = Change {
                    before: seen.before.clone(),
                    ..change
                }
            }
            None => latest.push(change),
        }
    }
    latest.retain(|change| !(change.deleted && change.before.is_none()));
    latest.sort_by_key(|change| change.revision);
    latest
}

fn encode(event: &str, object: &Bytes) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(br#"{"type":""#);
    line.extend_from_slice(event.as_bytes());
    line.extend_from_slice(br#"","object":"#);
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}
