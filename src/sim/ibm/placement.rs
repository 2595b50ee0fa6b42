//! What an instance may be placed on: placement groups, dedicated hosts and groups of them, as far as a placement target
//! needs them.

use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::network::stamp;
use super::state::{State, in_order};
use super::{groups, ids, page};

/// A placement group or a dedicated host.
#[derive(Clone, Debug)]
pub(super) struct PlacementTarget {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: TargetKind,
}

/// What the target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetKind {
    /// On different hosts: at most twelve instances.
    HostSpread,
    /// With different power supplies: at most four instances.
    PowerSpread,
    DedicatedHost,
    DedicatedHostGroup,
}

impl TargetKind {
    fn instances_max(self) -> usize {
        match self {
            Self::HostSpread => 12,
            Self::PowerSpread => 4,
            Self::DedicatedHost | Self::DedicatedHostGroup => usize::MAX,
        }
    }

    /// Whether instances stand on hosts of their own.
    pub(super) fn is_dedicated(self) -> bool {
        matches!(self, Self::DedicatedHost | Self::DedicatedHostGroup)
    }

    fn path(self) -> &'static str {
        match self {
            Self::HostSpread | Self::PowerSpread => "placement_groups",
            Self::DedicatedHost => "dedicated_hosts",
            Self::DedicatedHostGroup => "dedicated_host/groups",
        }
    }

    fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::HostSpread | Self::PowerSpread => ("placement-group", "placement_group"),
            Self::DedicatedHost => ("dedicated-host", "dedicated_host"),
            Self::DedicatedHostGroup => ("dedicated-host-group", "dedicated_host_group"),
        }
    }
}

impl State {
    /// Adds a placement target.
    pub(super) fn add_placement_target(&mut self, name: &str, kind: TargetKind) -> String {
        let (sequence, id) = (self.next_sequence(), self.regional_id());
        self.placement.insert(
            id.clone(),
            PlacementTarget {
                sequence,
                id: id.clone(),
                name: name.into(),
                kind,
            },
        );
        id
    }

    /// Whether the instance's placement group has room for it.
    pub(super) fn placement_allows(&self, instance: &str) -> bool {
        let target = self
            .instances
            .get(instance)
            .and_then(|instance| instance.placement_target.as_ref());
        let Some(target) = target.and_then(|id| self.placement.get(id)) else {
            return true;
        };
        let placed = self
            .instances
            .values()
            .filter(|other| other.holds_host && other.placement_target.as_ref() == Some(&target.id))
            .count();
        placed < target.kind.instances_max()
    }
}

/// `GET /v1/placement_groups`
pub(super) fn list_groups(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    list(state, ask, "placement_groups")
}

/// `GET /v1/placement_groups/{id}`
pub(super) fn get_group(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    get(state, ask, "placement_groups")
}

/// `GET /v1/dedicated_hosts`
pub(super) fn list_hosts(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    list(state, ask, "dedicated_hosts")
}

/// `GET /v1/dedicated_hosts/{id}`
pub(super) fn get_host(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    get(state, ask, "dedicated_hosts")
}

/// `GET /v1/dedicated_host/groups/{id}`
pub(super) fn get_host_group(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    get(state, ask, "dedicated_host/groups")
}

/// The reference to a placement target inside an instance.
pub(super) fn reference(state: &State, target: &PlacementTarget) -> Value {
    let (crn_kind, resource_type) = target.kind.resource();
    json!({
        "id": target.id, "name": target.name, "crn": ids::crn(&state.region, crn_kind, &target.id),
        "href": ids::href(&state.region, &format!("{}/{}", target.kind.path(), target.id)),
        "resource_type": resource_type,
    })
}

fn list(state: &mut State, ask: &Ask, path: &str) -> Result<Answer, Refusal> {
    let targets = state
        .placement
        .values()
        .filter(|target| target.kind.path() == path);
    let items = in_order(targets.map(|target| (target, target.sequence, target.id.as_str())));
    let page = page::cut(ask, &mut state.faults, &items)?;
    Ok(page.answer(&state.region, path, path, |id| {
        state.placement.get(id).map(|target| body(state, target))
    }))
}

fn get(state: &mut State, ask: &Ask, path: &str) -> Result<Answer, Refusal> {
    let id = ask.param("id");
    let target = state
        .placement
        .get(id)
        .filter(|target| target.kind.path() == path);
    target
        .map(|target| Answer::ok(body(state, target)).with_etag("W/\"1\"".into()))
        .ok_or_else(|| Refusal::not_found("placement target", id))
}

fn body(state: &State, target: &PlacementTarget) -> Value {
    let mut body = reference(state, target);
    body["created_at"] = json!(stamp(state.now));
    body["lifecycle_state"] = json!("stable");
    body["resource_group"] = groups::reference(state, &state.default_group());
    match target.kind {
        TargetKind::HostSpread => body["strategy"] = json!("host_spread"),
        TargetKind::PowerSpread => body["strategy"] = json!("power_spread"),
        TargetKind::DedicatedHost => body["instance_placement_enabled"] = json!(true),
        TargetKind::DedicatedHostGroup => {}
    }
    body
}
