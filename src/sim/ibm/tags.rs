//! Global Tagging: user tags by CRN. What goes wrong with one resource is said inside a 200.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::faults::FaultKind;
use super::fields::{self, Fields};
use super::state::State;

/// The longest tag.
const LENGTH_MAX: usize = 128;
/// The most tags of one resource.
const PER_RESOURCE_MAX: usize = 1000;

/// `POST /v3/tags/attach`
pub(super) fn attach(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (tags, resources) = read(ask)?;
    let (update, replace) = (
        ask.query("update") == Some("true"),
        ask.query("replace") == Some("true"),
    );
    Ok(each(state, ask, &resources, |state, crn| {
        let tags = legal(&tags)?;
        let own = state.tags.entry(crn.to_owned()).or_default();
        let mut next = if replace { BTreeSet::new() } else { own.clone() };
        for tag in &tags {
            if update && let Some((key, _)) = tag.split_once(':') {
                next.retain(|other| {
                    other
                        .split_once(':')
                        .is_none_or(|(other_key, _)| other_key != key)
                });
            }
            next.insert(tag.clone());
        }
        if next.len() > PER_RESOURCE_MAX {
            return Err(format!("a resource may have at most {PER_RESOURCE_MAX} tags"));
        }
        *own = next;
        Ok(())
    }))
}

/// `POST /v3/tags/detach`
pub(super) fn detach(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (tags, resources) = read(ask)?;
    Ok(each(state, ask, &resources, |state, crn| {
        let tags = legal(&tags)?;
        if let Some(own) = state.tags.get_mut(crn) {
            own.retain(|tag| !tags.contains(tag));
        }
        Ok(())
    }))
}

/// `GET /v3/tags`
#[expect(clippy::unnecessary_wraps, reason = "the type of a handler")]
pub(super) fn list(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let number = |name: &str, default: usize| ask.query(name).and_then(|n| n.parse().ok()).unwrap_or(default);
    let (offset, limit) = (number("offset", 0), number("limit", 100).clamp(1, 1000));
    let attached_to = ask.query("attached_to");
    let all: BTreeSet<&String> = state
        .tags
        .iter()
        .filter(|(crn, _)| attached_to.is_none_or(|wanted| wanted == crn.as_str()))
        .flat_map(|(_, tags)| tags)
        .collect();
    let items: Vec<Value> = all
        .iter()
        .skip(offset)
        .take(limit)
        .map(|name| json!({ "name": name }))
        .collect();
    Ok(Answer::ok(
        json!({ "total_count": all.len(), "offset": offset, "limit": limit, "items": items }),
    ))
}

/// The tags and the CRNs of a request. Resources chosen by a query are not supported.
fn read(ask: &Ask) -> Result<(Vec<String>, Vec<String>), Refusal> {
    if ask.query("tag_type").is_some_and(|kind| kind != "user") {
        return Err(Refusal::parameter(
            "bad_request",
            "tag_type",
            None,
            "only user tags are simulated",
        ));
    }
    let sent = fields::parse(&ask.body)?;
    let body = Fields::of(&sent)?;
    let mut tags = body.texts("tag_names")?;
    tags.extend(body.text("tag_name")?);
    let mut resources = Vec::new();
    for resource in body.objects("resources")? {
        resource.text("resource_type")?;
        let id = resource.text("resource_id")?;
        resources.push(resource.need("resource_id", id)?);
        resource.done()?;
    }
    body.done()?;
    // A comma separates tags, wherever it comes from.
    let tags = tags
        .iter()
        .flat_map(|tag| tag.split(','))
        .map(|tag| tag.trim().to_owned())
        .collect();
    Ok((tags, resources))
}

fn each(
    state: &mut State,
    ask: &Ask,
    resources: &[String],
    change: impl Fn(&mut State, &str) -> Result<(), String>,
) -> Answer {
    let mut results = Vec::new();
    for crn in resources {
        let id = crn.rsplit(':').next().unwrap_or_default();
        let outcome = if state.faults.hits(FaultKind::TagFails, ask.operation) {
            Err("the resource could not be tagged".into())
        } else if !is_there(state, crn, id) {
            Err("the resource was not found".into())
        } else {
            change(state, crn)
        };
        if outcome.is_ok() {
            state.reindex(crn);
        }
        let message = outcome.as_ref().err().cloned().unwrap_or_else(|| "OK".into());
        results.push(json!({ "resource_id": crn, "is_error": outcome.is_err(), "message": message }));
    }
    Answer::ok(json!({ "results": results }))
}

/// Whether the CRN is that of an instance or a subnet; others are not tagged here.
fn is_there(state: &State, crn: &str, id: &str) -> bool {
    let instance = state.instances.get(id);
    let subnet = state.subnets.get(id);
    instance.is_some_and(|instance| instance.crn() == crn) || subnet.is_some_and(|subnet| subnet.crn() == crn)
}

/// The tags as they are kept: letters, digits, space and `_-.:`, folded to lower case.
fn legal(tags: &[String]) -> Result<Vec<String>, String> {
    let allowed = |c: char| c.is_alphanumeric() || " _-.:".contains(c);
    let fold = |tag: &String| {
        if tag.is_empty() || tag.chars().count() > LENGTH_MAX || !tag.chars().all(allowed) {
            return Err(format!("the tag '{tag}' is not valid"));
        }
        Ok(tag.to_lowercase())
    };
    tags.iter().map(fold).collect()
}
