//! Resource groups (Resource Manager, `/v2`) and SSH keys: what an instance merely points at.

use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::network::{group_matches, stamp};
use super::state::{Key, ResourceGroup, State, in_order};
use super::{ids, page};

/// The reference to a resource group inside VPC resources.
pub(super) fn reference(state: &State, id: &str) -> Value {
    let name = state
        .resource_groups
        .iter()
        .find(|group| group.id == id)
        .map_or("", |group| group.name.as_str());
    json!({ "id": id, "name": name, "href": format!("https://resource-controller.cloud.ibm.com/v2/resource_groups/{id}") })
}

/// `GET /v2/resource_groups`
#[expect(clippy::unnecessary_wraps, reason = "the type of a handler")]
pub(super) fn list(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let default = state.default_group();
    let resources: Vec<Value> = state
        .resource_groups
        .iter()
        .filter(|_| {
            ask.query("account_id")
                .is_none_or(|account| account == ids::ACCOUNT)
        })
        .filter(|group| ask.query("name").is_none_or(|name| name == group.name))
        .filter(|group| {
            ask.query("default")
                .is_none_or(|wanted| (wanted == "true") == (group.id == default))
        })
        .map(|group| body(group, &default))
        .collect();
    Ok(Answer::ok(json!({ "resources": resources })))
}

/// `GET /v2/resource_groups/{id}`
pub(super) fn get(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (id, default) = (ask.param("id"), state.default_group());
    let group = state.resource_groups.iter().find(|group| group.id == id);
    group
        .map(|group| Answer::ok(body(group, &default)))
        .ok_or_else(|| Refusal::not_found("resource group", id))
}

fn body(group: &ResourceGroup, default: &str) -> Value {
    json!({
        "id": group.id,
        "crn": format!("crn:v1:bluemix:public:resource-controller::a/{}::resource-group:{}", ids::ACCOUNT, group.id),
        "account_id": ids::ACCOUNT,
        "name": group.name,
        "state": "ACTIVE",
        "default": group.id == default,
        "resource_linkages": [],
    })
}

/// `GET /v1/keys`
pub(super) fn list_keys(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let group = state.default_group();
    let keys = state.keys.values().filter(|_| group_matches(ask, &group));
    let items = in_order(keys.map(|key| (key, key.sequence, key.id.as_str())));
    let page = page::cut(ask, &mut state.faults, &items)?;
    Ok(page.answer(&state.region, "keys", "keys", |id| {
        state.keys.get(id).map(|key| key_body(state, key))
    }))
}

/// `GET /v1/keys/{id}`
pub(super) fn get_key(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let id = ask.param("id");
    let key = state.keys.get(id).ok_or_else(|| Refusal::not_found("key", id))?;
    Ok(Answer::ok(key_body(state, key)))
}

/// The reference to a key inside an instance's initialization.
pub(super) fn key_reference(state: &State, key: &Key) -> Value {
    json!({
        "id": key.id, "name": key.name, "fingerprint": key.fingerprint,
        "crn": ids::crn(&state.region, "key", &key.id),
        "href": ids::href(&state.region, &format!("keys/{}", key.id)),
    })
}

fn key_body(state: &State, key: &Key) -> Value {
    let mut body = key_reference(state, key);
    let fields = json!({
        "created_at": stamp(key.created_at), "length": 256, "type": "ed25519",
        "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemoDemoDemoDemoDemoDemoDemoDemoDemoDemoDemo",
        "resource_group": reference(state, &state.default_group()),
    });
    super::network::merge(&mut body, fields);
    body
}
