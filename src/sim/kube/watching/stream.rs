//! One watcher: how far it has come, and what it is told next.

use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

use super::backlog::{Backlog, coalesce};
use super::control::{Ending, RuleId, Standing};
use crate::sim::kube::identity::User;
use crate::sim::kube::kind::{Kind, TableKey};
use crate::sim::kube::refusal::Refusal;
use crate::sim::kube::request::{Ask, Form};
use crate::sim::kube::server::ApiServer;
use crate::sim::kube::store::{Change, Event, Stored};
use crate::sim::kube::table::{self, Headers};
use crate::sim::kube::{events, read};

/// How often a quiet stream says how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// A watcher.
pub(super) struct Stream {
    server: ApiServer,
    user: String,
    kind: Arc<Kind>,
    table: TableKey,
    ask: Ask,
    /// What is told next.
    ready: VecDeque<Line>,
    /// What is told when its time has come.
    backlog: Backlog,
    /// Every change up to this revision is taken up.
    cursor: u64,
    changed: watch::Receiver<u64>,
    control: watch::Receiver<u64>,
    standing: Standing,
    opened: RuleId,
    bookmark_at: Instant,
    ends_at: Instant,
    /// Wakes for whichever of the times comes first.
    timer: Pin<Box<Sleep>>,
    over: bool,
    /// Only the first table of a stream says what its columns are.
    headers: Cell<Headers>,
}

/// Something to tell. Objects are put into the form of the watcher when their turn comes, not before: a watch of 50,000
/// pods begins without a copy of them.
enum Line {
    Object(Event, Arc<Stored>),
    Encoded(Bytes),
}

impl Stream {
    /// Begins where the request says.
    pub(super) fn open(
        server: &ApiServer,
        user: &User,
        kind: &Arc<Kind>,
        ask: &Ask,
        lasts: Duration,
    ) -> Result<Self, Refusal> {
        let (control, clock, table) = (server.watching(), server.clock(), kind.table());
        let now = clock.instant();
        let ends_at = now + clock.real(lasts);
        let mut stream = Self {
            server: server.clone(),
            user: user.name.clone(),
            kind: Arc::clone(kind),
            ask: ask.clone(),
            ready: VecDeque::new(),
            backlog: Backlog::default(),
            cursor: 0,
            changed: server.state().store.follow(&table),
            control: control.changes(),
            standing: control.standing(&user.name, &table),
            opened: control.moment(),
            bookmark_at: now + clock.real(BOOKMARK_EVERY),
            ends_at,
            timer: Box::pin(tokio::time::sleep_until(ends_at)),
            over: false,
            headers: Cell::new(Headers::Shown),
            table,
        };
        stream.begin()?;
        Ok(stream)
    }

    fn begin(&mut self) -> Result<(), Refusal> {
        if super::begins_with_all(&self.ask.options) {
            return self.begin_with_what_is_there();
        }
        let version = self.ask.options.resource_version.as_deref();
        // Without a version and without what is there: from now on.
        self.cursor = match version {
            None | Some("0") => self.server.state().store.revision(),
            Some(version) => read::expected_revision(version)?,
        };
        if !self.server.state().store.remembers(&self.table, self.cursor) {
            self.expire();
        }
        Ok(())
    }

    /// Synthetic additions of everything that is there, up to the horizon of this client.
    fn begin_with_what_is_there(&mut self) -> Result<(), Refusal> {
        let (objects, revision) = read::visible(&self.server, &self.user, &self.kind, &self.ask.options)?;
        self.cursor = revision;
        let selected = objects
            .into_iter()
            .filter(|stored| read::selects(&self.ask, stored));
        self.ready = selected
            .map(|stored| Line::Object(Event::Added, stored))
            .collect();
        if self.ask.options.send_initial_events == Some(true) && self.ask.options.bookmarks {
            let end = self.bookmark(&json!({"k8s.io/initial-events-end": "true"}));
            self.ready.push_back(Line::Encoded(end));
        }
        Ok(())
    }

    /// The next line, when there is one; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.control.has_changed().ok()? {
                self.obey();
            }
            match self.ready.pop_front() {
                Some(Line::Object(event, stored)) => return Some(self.line(event, &stored)),
                Some(Line::Encoded(line)) => return Some(line),
                None if self.over => return None,
                None => {}
            }
            self.changed.borrow_and_update();
            self.collect();
            if self.ready.is_empty() {
                self.wait().await?;
            }
        }
    }

    /// Waits until there is something to see to.
    async fn wait(&mut self) -> Option<()> {
        let bookmark_at = self.ask.options.bookmarks.then_some(self.bookmark_at);
        let times = [Some(self.ends_at), bookmark_at, self.backlog.due()];
        let wake_at = times.into_iter().flatten().min()?;
        if self.timer.deadline() != wake_at {
            self.timer.as_mut().reset(wake_at);
        }
        tokio::select! {
            biased;
            moved = self.changed.changed() => return moved.ok(),
            moved = self.control.changed() => {
                self.control.mark_changed();
                return moved.ok();
            }
            () = &mut self.timer => {}
        }
        let now = self.server.clock().instant();
        if now >= self.ends_at {
            return None;
        }
        if bookmark_at.is_some_and(|at| now >= at) {
            self.bookmark_at = now + self.server.clock().real(BOOKMARK_EVERY);
            self.collect();
            if !self.over {
                // After everything that it stands for.
                let line = self.bookmark(&Value::Null);
                self.ready.push_back(Line::Encoded(line));
            }
        }
        Some(())
    }

    /// Looks up the rules that are in force now.
    fn obey(&mut self) {
        self.control.borrow_and_update();
        let control = self.server.watching();
        self.standing = control.standing(&self.user, &self.table);
        if let Some((rule, ending)) = control.ending(&self.user, &self.table, self.opened) {
            control.meet(rule);
            // What was on its way is lost with the connection.
            self.ready.clear();
            match ending {
                Ending::Closed => self.over = true,
                Ending::Expired => self.expire(),
            }
        }
        self.backlog.hurry(self.server.clock().instant(), self.delay());
    }

    fn delay(&self) -> Duration {
        self.server.clock().real(self.standing.delay)
    }

    /// Takes up what happened since the cursor and within the horizon, and tells what is due.
    fn collect(&mut self) {
        let now = self.server.clock().instant();
        if !self.take_up(now) {
            self.expire();
            return;
        }
        let mut changes = self.backlog.take(now);
        if let Some(rule) = self.standing.coalesced_by {
            let all = changes.len();
            changes = coalesce(changes);
            if changes.len() < all {
                self.server.watching().meet(rule);
            }
        }
        for change in changes {
            if let Some((event, stored)) = self.seen(&change) {
                self.ready.push_back(Line::Object(event, Arc::clone(&stored)));
                if let Some(rule) = self.standing.doubled_by {
                    self.ready.push_back(Line::Object(event, stored));
                    self.server.watching().meet(rule);
                }
            }
        }
    }

    /// Takes up what happened; `false` if that is no longer known.
    fn take_up(&mut self, now: Instant) -> bool {
        let due = now + self.delay();
        let state = self.server.state();
        let horizon = self.standing.horizon.min(state.store.revision());
        let Some(changes) = state.store.since(&self.table, self.cursor) else {
            return false;
        };
        let (control, concerns) = (self.server.watching(), |change: &Change| {
            concerns(&self.ask, change)
        });
        for change in changes {
            if change.revision > horizon {
                if let Some(rule) = self.standing.held_by.filter(|_| concerns(change)) {
                    control.meet(rule);
                    break;
                }
                continue;
            }
            if self.standing.coalesced_by.is_some() {
                self.backlog.join(due, change.clone());
            } else {
                self.backlog.push(due, change.clone());
            }
            if let Some(rule) = self.standing.delayed_by.filter(|_| concerns(change)) {
                control.meet(rule);
            }
        }
        self.cursor = self.cursor.max(horizon);
        true
    }

    fn expire(&mut self) {
        self.over = true;
        let refusal = Refusal::expired(format!("too old resource version: {}", self.cursor));
        let line = json!({"type": "ERROR", "object": refusal.status()});
        self.ready.push_back(Line::Encoded(format!("{line}\n").into()));
    }

    /// How a change looks through the selectors of this watcher.
    fn seen(&self, change: &Change) -> Option<(Event, Arc<Stored>)> {
        let was = change
            .before
            .as_ref()
            .is_some_and(|before| read::selects(&self.ask, before));
        let is = !change.deleted && read::selects(&self.ask, &change.after);
        match (was, is) {
            (false, true) => Some((Event::Added, Arc::clone(&change.after))),
            (true, true) => Some((Event::Modified, Arc::clone(&change.after))),
            (true, false) => Some((Event::Deleted, self.last_seen(change))),
            (false, false) => None,
        }
    }

    /// An object that leaves a selection is shown as it was when it still belonged, at the revision of leaving.
    fn last_seen(&self, change: &Change) -> Arc<Stored> {
        match &change.before {
            Some(before) if !change.deleted => Arc::new(before.left_at(&self.kind, change.revision)),
            _ => Arc::clone(&change.after),
        }
    }

    fn line(&self, event: Event, stored: &Stored) -> Bytes {
        match self.ask.form {
            Form::Full if events::renames(&self.kind) => event.line(&events::shown(&self.kind, stored)),
            Form::Full => stored.line(event),
            Form::Metadata => event.line(&stored.partial()),
            Form::Table => {
                let (objects, headers) = ([stored.value()], self.headers.replace(Headers::Omitted));
                let rows = table::of_objects(&self.kind, &self.ask, &objects, headers, self.server.clock());
                event.line(rows.to_string().as_bytes())
            }
        }
    }

    /// How far everything is told.
    fn told(&self) -> u64 {
        self.backlog
            .revision()
            .map_or(self.cursor, |next| next.saturating_sub(1))
    }

    fn bookmark(&self, annotations: &Value) -> Bytes {
        let version = self.told().to_string();
        let mut metadata = json!({"resourceVersion": version});
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
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": version},
                       "columnDefinitions": [], "rows": []})
            }
        };
        format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into()
    }
}

/// Whether a watcher with these selectors is told of a change.
fn concerns(ask: &Ask, change: &Change) -> bool {
    let before = change.before.as_ref();
    before.is_some_and(|before| read::selects(ask, before)) || read::selects(ask, &change.after)
}
