//! Global Search: an index that lags behind the truth.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::faults::FaultKind;
use super::fields::{self, Fields};
use super::ids;
use super::state::State;

/// What the index holds of a resource.
#[derive(Clone, Debug)]
pub(super) struct Document {
    name: String,
    kind: &'static str,
    location: String,
    resource_group: String,
    tags: BTreeSet<String>,
}

impl State {
    /// Brings the index up to date for one resource.
    pub(super) fn index_resource(&mut self, crn: &str) {
        self.unlearned.remove(crn);
        match self.document(crn) {
            None => self.index.remove(crn),
            Some(document) => self.index.insert(crn.to_owned(), document),
        };
    }

    /// What an index that is up to date holds of a resource.
    fn document(&self, crn: &str) -> Option<Document> {
        let id = crn.rsplit(':').next().unwrap_or_default();
        let tags = self.tags.get(crn).cloned().unwrap_or_default();
        let instance = self.instances.get(id).map(|instance| Document {
            name: instance.name.clone(),
            kind: "instance",
            location: instance.zone.clone(),
            resource_group: instance.resource_group.clone(),
            tags: tags.clone(),
        });
        let subnet = self.subnets.get(id).map(|subnet| Document {
            name: subnet.name.clone(),
            kind: "subnet",
            location: subnet.zone.clone(),
            resource_group: subnet.resource_group.clone(),
            tags,
        });
        instance.or(subnet)
    }

    /// Whether a query finds a resource that it would not find in an index that is up to date, or the other way round.
    fn is_misled(&self, query: &Query, crn: &str) -> bool {
        let finds = |document: &Document| query.matches(crn, document);
        self.index.get(crn).is_some_and(finds) != self.document(crn).as_ref().is_some_and(finds)
    }
}

/// `POST /v3/resources/search`: ten items unless `limit` says otherwise; the cursor goes on after the last one.
pub(super) fn search(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    const LIMIT_DEFAULT: usize = 10;
    const LIMIT_MAX: usize = 1000;
    let sent = if ask.body.is_empty() {
        json!({})
    } else {
        fields::parse(&ask.body)?
    };
    let body = Fields::of(&sent)?;
    let query = Query::parse(&body.text("query")?.unwrap_or_else(|| "*".into()))?;
    let wanted = body.texts("fields")?;
    let cursor = body.text("search_cursor")?;
    body.done()?;
    let limit = ask
        .query("limit")
        .and_then(|limit| limit.parse().ok())
        .unwrap_or(LIMIT_DEFAULT)
        .clamp(1, LIMIT_MAX);
    let after = cursor
        .as_deref()
        .and_then(|cursor| cursor.strip_prefix("after."))
        .unwrap_or_default();
    if state.unlearned.iter().any(|crn| state.is_misled(&query, crn)) {
        state.faults.note(FaultKind::SearchLag, ask.operation);
    }
    let found: Vec<&String> = state
        .index
        .iter()
        .filter(|(crn, document)| crn.as_str() > after && query.matches(crn, document))
        .map(|(crn, _)| crn)
        .take(limit)
        .collect();
    let items: Vec<Value> = found
        .iter()
        .map(|crn| item(crn, &state.index[*crn], &wanted))
        .collect();
    let mut answer = json!({ "items": items, "limit": limit });
    if let Some(last) = found.last().filter(|_| found.len() == limit) {
        answer["search_cursor"] = json!(format!("after.{last}"));
    }
    Ok(Answer::ok(answer))
}

fn item(crn: &str, document: &Document, wanted: &[String]) -> Value {
    let all = json!({
        "crn": crn, "name": document.name, "type": document.kind, "service_name": "is", "family": "is",
        "region": document.location, "resource_group_id": document.resource_group, "account_id": ids::ACCOUNT,
        "tags": document.tags,
    });
    let Value::Object(all) = all else { return all };
    let keep = |key: &str| {
        key == "crn" || wanted.is_empty() || wanted.iter().any(|field| field == key || field == "*")
    };
    Value::Object(
        all.into_iter()
            .filter(|(key, _)| keep(key))
            .collect::<Map<_, _>>(),
    )
}

/// A query of the form `field:value AND field:"value" OR …`; `AND` binds tighter.
struct Query(Vec<Vec<(String, String)>>);

impl Query {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let term = |term: &str| -> Result<(String, String), Refusal> {
            let term = term.trim().trim_matches(|c| c == '(' || c == ')');
            if term == "*" {
                return Ok(("name".into(), "*".into()));
            }
            let (field, value) = term.split_once(':').ok_or_else(|| {
                Refusal::field(
                    "bad_request",
                    "query",
                    format!("'{term}' is not of the form field:value"),
                )
            })?;
            Ok((field.to_owned(), value.trim_matches('"').to_lowercase()))
        };
        let all = |group: &str| group.split(" AND ").map(term).collect::<Result<Vec<_>, _>>();
        text.split(" OR ").map(all).collect::<Result<_, _>>().map(Self)
    }

    fn matches(&self, crn: &str, document: &Document) -> bool {
        self.0.iter().any(|group| {
            group
                .iter()
                .all(|(field, value)| has(crn, document, field, value))
        })
    }
}

fn has(crn: &str, document: &Document, field: &str, value: &str) -> bool {
    let is = |text: &str| match value.strip_suffix('*') {
        Some(prefix) => text.to_lowercase().starts_with(prefix),
        None => text.to_lowercase() == value,
    };
    match field {
        "tags" | "tag" => document.tags.iter().any(|tag| is(tag)),
        "type" => is(document.kind),
        "service_name" | "family" => is("is"),
        "name" => is(&document.name),
        "crn" => is(crn),
        "region" | "location" => is(&document.location),
        "resource_group_id" => is(&document.resource_group),
        "account_id" => is(ids::ACCOUNT),
        _ => false,
    }
}
