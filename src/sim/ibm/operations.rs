//! What can be asked of instances, apart from making one.

use std::time::Duration;

use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::faults::FaultKind;
use super::fields::{self, Fields};
use super::instances::{Instance, Status};
use super::network::{group_matches, stamp};
use super::options::{DeleteAgain, DeleteWhilePending};
use super::placement::PlacementTarget;
use super::state::{State, in_order};
use super::{groups, ids, page, view};
use crate::clock::between;

/// `GET /v1/instances`: there is no filter by zone, profile, subnet, status or tag.
pub(super) fn list(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    if let Some(class) = ask
        .query("availability.class")
        .filter(|class| !["spot", "standard"].contains(class))
    {
        let message = "availability.class must be one of: spot, standard";
        return Err(Refusal::parameter(
            "validation_enum",
            "availability.class",
            Some(class),
            message,
        ));
    }
    let lag = state.faults.may_hit(FaultKind::ReadLag, ask.operation);
    let shows = lag && lags(state, ask);
    let living = state
        .instances
        .values()
        .filter(|instance| !(lag && too_new(state, instance)));
    let departed = state
        .departed
        .values()
        .filter(|_| lag)
        .map(|(_, instance)| instance);
    let matching = living
        .chain(departed)
        .filter(|instance| matches(state, ask, instance));
    let items = in_order(matching.map(|instance| (instance, instance.sequence, instance.id.as_str())));
    let page = page::cut(ask, &mut state.faults, &items)?;
    if shows {
        state.faults.note(FaultKind::ReadLag, ask.operation);
    }
    Ok(page.answer(&state.region, "instances", "instances", |id| {
        let departed = || state.departed.get(id).map(|(_, instance)| instance);
        state
            .instances
            .get(id)
            .or_else(departed)
            .map(|instance| view::body(state, instance))
    }))
}

/// `GET /v1/instances/{id}`
pub(super) fn get(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let lag = state.faults.may_hit(FaultKind::ReadLag, ask.operation);
    let instance = find(state, ask)?;
    if lag && too_new(state, instance) {
        let refusal = not_found(&instance.id);
        state.faults.note(FaultKind::ReadLag, ask.operation);
        return Err(refusal);
    }
    Ok(Answer::ok(view::body(state, instance)).with_etag(instance.etag()))
}

/// `DELETE /v1/instances/{id}`: 204 at once, 404 a while later. A running instance may be deleted.
pub(super) fn delete(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let instance = find(state, ask)?;
    let (id, status) = (instance.id.clone(), instance.status);
    ask.if_match(&instance.etag())?;
    let settled = matches!(status, Status::Running | Status::Stopped | Status::Failed);
    let refused_pending =
        status == Status::Pending && state.options.delete_while_pending == DeleteWhilePending::Conflict;
    if status == Status::Deleting && state.options.delete_again == DeleteAgain::NotFound {
        return Err(not_found(&id));
    }
    let is_refused = status == Status::Deleting
        || refused_pending
        || (!settled && state.faults.hits(FaultKind::DeleteConflict, ask.operation));
    if is_refused {
        let message = format!(
            "The instance '{id}' cannot be deleted while its status is '{}'",
            status.as_str()
        );
        return Err(Refusal::conflict("instance_delete_conflict", message));
    }
    state.delete(&id);
    Ok(Answer::no_content())
}

/// `POST /v1/instances/{id}/actions`
pub(super) fn act(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let sent = fields::parse(&ask.body)?;
    let body = Fields::of(&sent)?;
    let force = body.flag("force")?.unwrap_or(false);
    let action = body.word("type", &["start", "stop", "reboot"])?;
    let action = body.need("type", action)?;
    body.done()?;
    let instance = find(state, ask)?;
    let (id, status) = (instance.id.clone(), instance.status);
    let allowed = match action.as_str() {
        "start" => status == Status::Stopped,
        "stop" => {
            matches!(status, Status::Running | Status::Starting) || (force && status == Status::Restarting)
        }
        _ => status == Status::Running,
    };
    if !allowed {
        let message = format!(
            "The action '{action}' is not possible while the status is '{}'",
            status.as_str()
        );
        return Err(Refusal::conflict("invalid_state", message));
    }
    match action.as_str() {
        "start" => state.start(&id),
        "stop" => state.stop(&id),
        _ => state.reboot(&id),
    }
    let action_id = ids::uuid(&mut state.rng);
    Ok(Answer::created(json!({
        "id": action_id,
        "href": ids::href(&state.region, &format!("instances/{id}/actions/{action_id}")),
        "type": action,
        "force": force,
        "status": "completed",
        "created_at": stamp(state.now),
        "completed_at": stamp(state.now),
    })))
}

/// `GET /v1/instances/{id}/initialization`: user data is never given back.
pub(super) fn initialization(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let instance = find(state, ask)?;
    let keys = instance.keys.iter().filter_map(|id| state.keys.get(id));
    let keys: Vec<Value> = keys.map(|key| groups::key_reference(state, key)).collect();
    let mut body = json!({ "keys": keys });
    if let Some((profile, auto_link)) = &instance.trusted_profile {
        let crn = format!(
            "crn:v1:bluemix:public:iam-identity::a/{}::profile:{profile}",
            ids::ACCOUNT
        );
        let target = json!({ "id": profile, "crn": crn, "resource_type": "trusted_profile" });
        body["default_trusted_profile"] = json!({ "auto_link": auto_link, "target": target });
    }
    Ok(Answer::ok(body))
}

/// `GET /v1/instances/{id}/network_attachments`, not in pages.
pub(super) fn network_attachments(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let instance = find(state, ask)?;
    Ok(Answer::ok(
        json!({ "network_attachments": view::network_attachments(state, instance) }),
    ))
}

/// `GET /v1/instances/{id}/network_interfaces`, not in pages.
pub(super) fn network_interfaces(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let instance = find(state, ask)?;
    let all: Vec<Value> = instance
        .attachments
        .iter()
        .map(|own| view::interface(state, instance, own))
        .collect();
    Ok(Answer::ok(json!({ "network_interfaces": all })))
}

/// `GET /v1/instances/{id}/volume_attachments`, not in pages.
pub(super) fn volume_attachments(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let instance = find(state, ask)?;
    let all: Vec<Value> = instance
        .volumes
        .iter()
        .enumerate()
        .map(|(number, own)| {
            let mut body = view::volume_attachment(state, instance, own);
            body["delete_volume_on_instance_delete"] = json!(own.delete_with_instance);
            body["status"] = json!(if instance.provisioned {
                "attached"
            } else {
                "attaching"
            });
            body["type"] = json!(if number == 0 { "boot" } else { "data" });
            body
        })
        .collect();
    Ok(Answer::ok(json!({ "volume_attachments": all })))
}

/// `GET /v1/instances/{id}/disks`
pub(super) fn disks(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    Ok(Answer::ok(json!({ "disks": view::disks(find(state, ask)?) })))
}

/// `GET /v1/instances/{id}/software_attachments`
pub(super) fn software_attachments(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    find(state, ask)?;
    Ok(Answer::ok(json!({ "software_attachments": [] })))
}

/// The instance that the path names.
pub(super) fn find<'a>(state: &'a State, ask: &Ask) -> Result<&'a Instance, Refusal> {
    let id = ask.param("id");
    state.instances.get(id).ok_or_else(|| not_found(id))
}

/// 404, in the words that instances have.
pub(super) fn not_found(id: &str) -> Refusal {
    Refusal::not_found("instance", id)
}

/// Whether a list that lags is another than one that does not.
fn lags(state: &State, ask: &Ask) -> bool {
    let hidden = state.instances.values().filter(|it| too_new(state, it));
    let departed = state.departed.values().map(|(_, instance)| instance);
    hidden
        .chain(departed)
        .any(|instance| matches(state, ask, instance))
}

fn too_new(state: &State, instance: &Instance) -> bool {
    let age: Duration = between(instance.created_at, state.now);
    age < state.options.timings.read_lag
}

fn matches(state: &State, ask: &Ask, instance: &Instance) -> bool {
    let target = instance
        .placement_target
        .as_ref()
        .and_then(|id| state.placement.get(id));
    let nothing_has = ["cluster_network", "reservation", "instance_group_membership"];
    let asks_for_nothing = ask.query.iter().any(|(key, _)| {
        nothing_has
            .iter()
            .any(|prefix| key.strip_prefix(prefix).is_some_and(|r| r.starts_with('.')))
    });
    !asks_for_nothing
        && group_matches(ask, &instance.resource_group)
        && state.vpc_matches(ask, &instance.vpc)
        && ask.query("name").is_none_or(|name| name == instance.name)
        && ask
            .query("availability.class")
            .is_none_or(|class| class == instance.class.as_str())
        && ask
            .query("reservation_affinity.policy")
            .is_none_or(|policy| policy == instance.reservation_policy)
        && target_matches(state, ask, "placement_group", target)
        && target_matches(state, ask, "dedicated_host", target)
}

/// Whether a placement target passes the filters `<prefix>.id`, `.crn` and `.name`.
fn target_matches(state: &State, ask: &Ask, prefix: &str, target: Option<&PlacementTarget>) -> bool {
    let crn_kind = prefix.replace('_', "-");
    ["id", "crn", "name"].iter().all(|field| {
        let Some(wanted) = ask.query(&format!("{prefix}.{field}")) else {
            return true;
        };
        target.is_some_and(|target| match *field {
            "id" => wanted == target.id,
            "name" => wanted == target.name,
            _ => wanted == ids::crn(&state.region, &crn_kind, &target.id),
        })
    })
}
