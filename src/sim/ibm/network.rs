//! VPCs, subnets and their addresses, security groups.
//!
//! A subnet's addresses are what its reserved IPs are; an address is free again only when the interface that holds
//! it is gone.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::geography::zone_reference;
use super::state::{State, in_order};
use super::{groups, ids, page};

/// A virtual private cloud.
#[derive(Clone, Debug)]
pub(super) struct Vpc {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) default_security_group: String,
    pub(super) resource_group: String,
    pub(super) created_at: Timestamp,
}

/// A subnet in one zone.
#[derive(Clone, Debug)]
pub(super) struct Subnet {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) zone: String,
    pub(super) vpc: String,
    pub(super) resource_group: String,
    pub(super) network: Ipv4Addr,
    pub(super) prefix: u8,
    pub(super) created_at: Timestamp,
    pub(super) reserved: BTreeMap<Ipv4Addr, ReservedIp>,
    pub(super) condition: SubnetCondition,
}

/// What became of a subnet. What is in it lives on and refers to it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubnetCondition {
    /// Can be used.
    Available,
    /// There, and of no use.
    Failed,
    /// Not found any more.
    Deleted,
}

/// An address that is taken.
#[derive(Clone, Debug)]
pub(super) struct ReservedIp {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) name: String,
    /// The interface that holds it; IBM's own five have none.
    pub(super) interface: Option<String>,
}

/// A security group; rules do not matter here.
#[derive(Clone, Debug)]
pub(super) struct SecurityGroup {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) vpc: String,
    pub(super) resource_group: String,
    pub(super) created_at: Timestamp,
}

impl Subnet {
    /// All addresses, IBM's own included.
    pub(super) fn total(&self) -> u32 {
        1 << (32 - u32::from(self.prefix))
    }

    /// How many addresses are free.
    pub(super) fn available(&self) -> u32 {
        self.total() - u32::try_from(self.reserved.len()).unwrap_or(0)
    }

    /// Whether the address lies in the subnet.
    pub(super) fn contains(&self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(u32::from(self.network));
        offset < self.total()
    }

    /// The lowest free address.
    pub(super) fn first_free(&self) -> Option<Ipv4Addr> {
        (0..self.total())
            .map(|offset| Ipv4Addr::from(u32::from(self.network) + offset))
            .find(|address| !self.reserved.contains_key(address))
    }

    pub(super) fn crn(&self) -> String {
        ids::crn(&self.zone, "subnet", &self.id)
    }

    /// The reference to a subnet inside other resources.
    pub(super) fn reference(&self, region: &str) -> Value {
        json!({
            "id": self.id, "name": self.name, "crn": self.crn(),
            "href": ids::href(region, &format!("subnets/{}", self.id)), "resource_type": "subnet",
        })
    }
}

impl Vpc {
    /// The reference to a VPC inside other resources.
    pub(super) fn reference(&self, region: &str) -> Value {
        json!({
            "id": self.id, "name": self.name, "crn": ids::crn(region, "vpc", &self.id),
            "href": ids::href(region, &format!("vpcs/{}", self.id)), "resource_type": "vpc",
        })
    }
}

impl SecurityGroup {
    /// The reference to a security group inside other resources.
    pub(super) fn reference(&self, region: &str) -> Value {
        json!({
            "id": self.id, "name": self.name, "crn": ids::crn(region, "security-group", &self.id),
            "href": ids::href(region, &format!("security_groups/{}", self.id)),
        })
    }
}

impl State {
    /// Adds a subnet; IBM keeps the first four addresses and the last for itself.
    pub(super) fn add_subnet(
        &mut self,
        name: &str,
        vpc: &str,
        zone: &str,
        network: Ipv4Addr,
        prefix: u8,
    ) -> String {
        let (sequence, id) = (self.next_sequence(), self.zonal_id(zone));
        let mut subnet = Subnet {
            sequence,
            id: id.clone(),
            name: name.into(),
            zone: zone.into(),
            vpc: vpc.into(),
            resource_group: self.default_group(),
            network,
            prefix,
            created_at: self.now,
            reserved: BTreeMap::new(),
            condition: SubnetCondition::Available,
        };
        let last = subnet.total() - 1;
        for (offset, role) in [
            (0, "ibm-network-address"),
            (1, "ibm-default-gateway"),
            (2, "ibm-dns-address"),
            (3, "ibm-reserved-address"),
            (last, "ibm-broadcast-address"),
        ] {
            let (sequence, id) = (self.next_sequence(), self.zonal_id(zone));
            let address = Ipv4Addr::from(u32::from(network) + offset);
            subnet.reserved.insert(
                address,
                ReservedIp {
                    sequence,
                    id,
                    name: role.into(),
                    interface: None,
                },
            );
        }
        self.subnets.insert(id.clone(), subnet);
        id
    }

    /// Adds a security group.
    pub(super) fn add_security_group(&mut self, name: &str, vpc: &str) -> String {
        let (sequence, id) = (self.next_sequence(), self.regional_id());
        let group = SecurityGroup {
            sequence,
            id: id.clone(),
            name: name.into(),
            vpc: vpc.into(),
            resource_group: self.default_group(),
            created_at: self.now,
        };
        self.security_groups.insert(id.clone(), group);
        id
    }

    /// Whether a VPC passes the `vpc.id`, `vpc.crn` and `vpc.name` filters.
    pub(super) fn vpc_matches(&self, ask: &Ask, vpc: &str) -> bool {
        let Some(vpc) = self.vpcs.get(vpc) else {
            return false;
        };
        ask.query("vpc.id").is_none_or(|id| id == vpc.id)
            && ask
                .query("vpc.crn")
                .is_none_or(|crn| crn == ids::crn(&self.region, "vpc", &vpc.id))
            && ask.query("vpc.name").is_none_or(|name| name == vpc.name)
    }
}

/// Whether a resource passes the `resource_group.id` filter.
pub(super) fn group_matches(ask: &Ask, group: &str) -> bool {
    ask.query("resource_group.id")
        .is_none_or(|wanted| wanted == group)
}

/// `GET /v1/vpcs`
pub(super) fn list_vpcs(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let classic = ask.query("classic_access") == Some("true");
    let vpcs = state
        .vpcs
        .values()
        .filter(|vpc| group_matches(ask, &vpc.resource_group) && !classic);
    let items = in_order(vpcs.map(|vpc| (vpc, vpc.sequence, vpc.id.as_str())));
    let page = page::cut(ask, &mut state.faults, &items)?;
    Ok(page.answer(&state.region, "vpcs", "vpcs", |id| {
        state.vpcs.get(id).map(|vpc| vpc_body(state, vpc))
    }))
}

/// `GET /v1/vpcs/{id}`
pub(super) fn get_vpc(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let id = ask.param("id");
    let vpc = state.vpcs.get(id).ok_or_else(|| Refusal::not_found("VPC", id))?;
    Ok(Answer::ok(vpc_body(state, vpc)).with_etag("W/\"1\"".into()))
}

/// `GET /v1/subnets`: there is no filter by name or tag.
pub(super) fn list_subnets(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let subnets = state.subnets.values().filter(|subnet| {
        group_matches(ask, &subnet.resource_group)
            && state.vpc_matches(ask, &subnet.vpc)
            && ask.query("zone.name").is_none_or(|zone| zone == subnet.zone)
            && subnet.condition != SubnetCondition::Deleted
    });
    let items = in_order(subnets.map(|subnet| (subnet, subnet.sequence, subnet.id.as_str())));
    let page = page::cut(ask, &mut state.faults, &items)?;
    Ok(page.answer(&state.region, "subnets", "subnets", |id| {
        state.subnets.get(id).map(|s| subnet_body(state, s))
    }))
}

/// `GET /v1/subnets/{id}`
pub(super) fn get_subnet(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let subnet = find_subnet(state, ask)?;
    Ok(Answer::ok(subnet_body(state, subnet)).with_etag("W/\"1\"".into()))
}

/// `GET /v1/subnets/{id}/reserved_ips`
pub(super) fn list_reserved_ips(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let subnet = find_subnet(state, ask)?.clone();
    let taken = subnet.reserved.values().filter(|ip| {
        ask.query("target.id")
            .is_none_or(|target| ip.interface.as_deref() == Some(target))
    });
    let items = in_order(taken.map(|ip| (ip, ip.sequence, ip.id.as_str())));
    let page = page::cut(ask, &mut state.faults, &items)?;
    let path = format!("subnets/{}/reserved_ips", subnet.id);
    Ok(page.answer(&state.region, &path, "reserved_ips", |id| {
        let (address, ip) = subnet.reserved.iter().find(|(_, ip)| ip.id == id)?;
        Some(reserved_ip_body(state, &subnet, *address, ip))
    }))
}

/// `GET /v1/security_groups`
pub(super) fn list_security_groups(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let groups = state
        .security_groups
        .values()
        .filter(|group| group_matches(ask, &group.resource_group) && state.vpc_matches(ask, &group.vpc));
    let items = in_order(groups.map(|group| (group, group.sequence, group.id.as_str())));
    let page = page::cut(ask, &mut state.faults, &items)?;
    Ok(
        page.answer(&state.region, "security_groups", "security_groups", |id| {
            state
                .security_groups
                .get(id)
                .map(|group| security_group_body(state, group))
        }),
    )
}

/// `GET /v1/security_groups/{id}`
pub(super) fn get_security_group(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let id = ask.param("id");
    let group = state
        .security_groups
        .get(id)
        .ok_or_else(|| Refusal::not_found("security group", id))?;
    Ok(Answer::ok(security_group_body(state, group)).with_etag("W/\"1\"".into()))
}

fn find_subnet<'a>(state: &'a State, ask: &Ask) -> Result<&'a Subnet, Refusal> {
    let id = ask.param("id");
    state
        .subnets
        .get(id)
        .filter(|subnet| subnet.condition != SubnetCondition::Deleted)
        .ok_or_else(|| Refusal::not_found("subnet", id))
}

fn vpc_body(state: &State, vpc: &Vpc) -> Value {
    let mut body = vpc.reference(&state.region);
    let group = state
        .security_groups
        .get(&vpc.default_security_group)
        .map(|group| group.reference(&state.region));
    let routing = ids::stable_uuid(&vpc.id);
    let fields = json!({
        "classic_access": false,
        "created_at": stamp(vpc.created_at),
        "cse_source_ips": [],
        "default_network_acl": { "id": format!("r006-{routing}"), "name": "default-acl" },
        "default_routing_table": { "id": format!("r006-{routing}"), "name": "default-table" },
        "default_security_group": group,
        "dns": { "enable_hub": false, "resolution_binding_count": 0, "resolver": { "type": "system", "servers": [] } },
        "health_reasons": [],
        "health_state": "ok",
        "resource_group": groups::reference(state, &vpc.resource_group),
        "status": "available",
    });
    merge(&mut body, fields);
    body
}

fn subnet_body(state: &State, subnet: &Subnet) -> Value {
    let status = match subnet.condition {
        SubnetCondition::Available => "available",
        SubnetCondition::Failed => "failed",
        SubnetCondition::Deleted => "deleting",
    };
    let mut body = subnet.reference(&state.region);
    let fields = json!({
        "available_ipv4_address_count": subnet.available(),
        "total_ipv4_address_count": subnet.total(),
        "created_at": stamp(subnet.created_at),
        "ip_version": "ipv4",
        "ipv4_cidr_block": format!("{}/{}", subnet.network, subnet.prefix),
        "network_acl": { "name": "default-acl" },
        "routing_table": { "name": "default-table" },
        "resource_group": groups::reference(state, &subnet.resource_group),
        "status": status,
        "vpc": state.vpcs.get(&subnet.vpc).map(|vpc| vpc.reference(&state.region)),
        "zone": zone_reference(&subnet.zone),
    });
    merge(&mut body, fields);
    body
}

fn security_group_body(state: &State, group: &SecurityGroup) -> Value {
    let mut body = group.reference(&state.region);
    let targets: Vec<Value> = state
        .interfaces
        .values()
        .filter(|interface| interface.security_groups.contains(&group.id))
        .map(|interface| interface.reference(&state.region))
        .collect();
    let fields = json!({
        "created_at": stamp(group.created_at),
        "resource_group": groups::reference(state, &group.resource_group),
        "rules": [],
        "targets": targets,
        "vpc": state.vpcs.get(&group.vpc).map(|vpc| vpc.reference(&state.region)),
    });
    merge(&mut body, fields);
    body
}

fn reserved_ip_body(state: &State, subnet: &Subnet, address: Ipv4Addr, ip: &ReservedIp) -> Value {
    let mut body = json!({
        "address": address.to_string(),
        "auto_delete": true,
        "created_at": stamp(subnet.created_at),
        "href": ids::href(&state.region, &format!("subnets/{}/reserved_ips/{}", subnet.id, ip.id)),
        "id": ip.id,
        "lifecycle_state": "stable",
        "name": ip.name,
        "owner": if ip.interface.is_some() { "user" } else { "provider" },
        "resource_type": "subnet_reserved_ip",
    });
    if let Some(interface) = ip.interface.as_ref().and_then(|id| state.interfaces.get(id)) {
        body["target"] = interface.reference(&state.region);
    }
    body
}

/// A time as the VPC API writes it: milliseconds, always.
pub(super) fn stamp(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Adds the fields of one object to another.
pub(super) fn merge(body: &mut Value, fields: Value) {
    if let (Value::Object(body), Value::Object(fields)) = (body, fields) {
        body.extend(fields);
    }
}
