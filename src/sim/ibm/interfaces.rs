//! Virtual network interfaces: what holds an address and, in time, gives it back.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::fields::{self, Fields, join};
use super::geography::zone_reference;
use super::network::{ReservedIp, Subnet, SubnetCondition, group_matches, merge, stamp};
use super::state::{Event, State, in_order};
use super::{groups, ids, page};

/// The most security groups one target may have.
const SECURITY_GROUPS_MAX: usize = 5;

/// A virtual network interface.
#[derive(Clone, Debug)]
pub(super) struct VirtualInterface {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) subnet: String,
    pub(super) zone: String,
    pub(super) vpc: String,
    pub(super) address: Ipv4Addr,
    pub(super) security_groups: Vec<String>,
    pub(super) resource_group: String,
    pub(super) auto_delete: bool,
    pub(super) ip_spoofing: bool,
    pub(super) filtering_mode: String,
    /// The instance it is attached to; without one it is an orphan.
    pub(super) instance: Option<String>,
    pub(super) deleting: bool,
    pub(super) created_at: Timestamp,
}

/// A network interface somebody asks for: an existing one, or a new one.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Existing(String),
    New(NewInterface),
}

/// The prototype of a new network interface.
#[derive(Clone, Debug)]
pub(super) struct NewInterface {
    path: String,
    name: Option<String>,
    pub(super) subnet: String,
    security_groups: Vec<String>,
    address: Option<Ipv4Addr>,
    resource_group: Option<String>,
    pub(super) auto_delete: bool,
    ip_spoofing: bool,
    filtering_mode: String,
}

impl VirtualInterface {
    /// The reference to the interface inside other resources.
    pub(super) fn reference(&self, region: &str) -> Value {
        json!({
            "id": self.id, "name": self.name, "crn": ids::crn(&self.zone, "virtual-network-interface", &self.id),
            "href": ids::href(region, &format!("virtual_network_interfaces/{}", self.id)),
            "resource_type": "virtual_network_interface",
        })
    }
}

/// Reads the interface of an attachment: an identity, or a prototype.
pub(super) fn read_wish(fields: &Fields<'_>) -> Result<Wish, Refusal> {
    if ["id", "crn", "href"].iter().any(|key| fields.has(key)) {
        return fields.identity(&[]).map(Wish::Existing);
    }
    read_new(fields).map(Wish::New)
}

/// Reads a prototype. `primary_ip` may name an address; a reserved IP by id is not supported.
pub(super) fn read_new(fields: &Fields<'_>) -> Result<NewInterface, Refusal> {
    if fields.flag("enable_infrastructure_nat")? == Some(false) {
        let path = fields.path("enable_infrastructure_nat");
        return Err(Refusal::field(
            "bad_field",
            path,
            "enable_infrastructure_nat must be true for an instance",
        ));
    }
    fields.objects("ips")?;
    let subnet = fields.reference("subnet", &[])?;
    let new = NewInterface {
        path: fields.own_path().to_owned(),
        name: fields.text("name")?,
        subnet: fields.need("subnet", subnet)?,
        security_groups: read_security_groups(fields)?,
        address: read_address(fields)?,
        resource_group: fields.reference("resource_group", &[])?,
        auto_delete: fields.flag("auto_delete")?.unwrap_or(false),
        ip_spoofing: fields.flag("allow_ip_spoofing")?.unwrap_or(false),
        filtering_mode: fields
            .word("protocol_state_filtering_mode", &["auto", "enabled", "disabled"])?
            .unwrap_or_else(|| "auto".into()),
    };
    fields.done()?;
    Ok(new)
}

/// Reads the older form, `primary_network_interface`: the interface goes with its instance.
pub(super) fn read_older(fields: &Fields<'_>) -> Result<NewInterface, Refusal> {
    let subnet = fields.reference("subnet", &[])?;
    let new = NewInterface {
        path: fields.own_path().to_owned(),
        // The name is that of the interface on its instance, and need not be unique.
        name: None,
        subnet: fields.need("subnet", subnet)?,
        security_groups: read_security_groups(fields)?,
        address: read_address(fields)?,
        resource_group: None,
        auto_delete: true,
        ip_spoofing: fields.flag("allow_ip_spoofing")?.unwrap_or(false),
        filtering_mode: "auto".into(),
    };
    fields.done()?;
    Ok(new)
}

fn read_security_groups(fields: &Fields<'_>) -> Result<Vec<String>, Refusal> {
    fields
        .objects("security_groups")?
        .iter()
        .map(|group| group.identity(&[]))
        .collect()
}

fn read_address(fields: &Fields<'_>) -> Result<Option<Ipv4Addr>, Refusal> {
    let Some(ip) = fields.object("primary_ip")? else {
        return Ok(None);
    };
    let path = ip.path("address");
    ip.flag("auto_delete")?;
    ip.text("name")?;
    let address = ip.text("address")?;
    ip.done()?;
    let parse = |text: String| {
        text.parse().map_err(|_| {
            Refusal::field(
                "bad_field",
                path.clone(),
                format!("'{text}' is not an IPv4 address"),
            )
        })
    };
    address.map(parse).transpose()
}

impl State {
    /// Checks a prototype and fills in its defaults.
    pub(super) fn check_interface(&self, new: &mut NewInterface) -> Result<(), Refusal> {
        let subnet = self.subnet(&new.subnet, &new.path)?;
        if let Some(name) = &new.name {
            check_interface_name(self, subnet, name, &new.path)?;
        }
        if new.security_groups.is_empty() {
            new.security_groups = self
                .vpcs
                .get(&subnet.vpc)
                .map(|vpc| vpc.default_security_group.clone())
                .into_iter()
                .collect();
        }
        if new.security_groups.len() > SECURITY_GROUPS_MAX {
            let message = format!("A target may have at most {SECURITY_GROUPS_MAX} security groups");
            let path = join(&new.path, "security_groups");
            return Err(Refusal::field(
                "security_group_sgs_per_interface_exceeded",
                path,
                message,
            ));
        }
        for id in &new.security_groups {
            let group = self
                .security_groups
                .get(id)
                .ok_or_else(|| Refusal::not_found("security group", id))?;
            if group.vpc != subnet.vpc {
                let message = format!("The security group '{id}' is not in the VPC of the subnet");
                return Err(Refusal::field(
                    "security_group_not_in_vpc",
                    join(&new.path, "security_groups"),
                    message,
                ));
            }
        }
        check_address(subnet, new.address, &new.path)
    }

    /// The subnet a field names.
    pub(super) fn subnet(&self, id: &str, path: &str) -> Result<&Subnet, Refusal> {
        let not_found = || Refusal::not_found("subnet", id).blames("field", join(path, "subnet"), Some(id));
        let usable = |subnet: &&Subnet| subnet.condition == SubnetCondition::Available;
        self.subnets.get(id).filter(usable).ok_or_else(not_found)
    }

    /// Makes a checked interface; takes an address.
    pub(super) fn make_interface(&mut self, new: NewInterface, instance: Option<&str>) -> Option<String> {
        let subnet = self.subnets.get(&new.subnet)?;
        let (zone, vpc) = (subnet.zone.clone(), subnet.vpc.clone());
        let address = new.address.or_else(|| subnet.first_free())?;
        let (id, ip_id) = (self.zonal_id(&zone), self.zonal_id(&zone));
        let name = new.name.unwrap_or_else(|| ids::words(&mut self.rng));
        let (sequence, ip_sequence) = (self.next_sequence(), self.next_sequence());
        let interface = VirtualInterface {
            sequence,
            id: id.clone(),
            name,
            subnet: new.subnet.clone(),
            zone,
            vpc,
            address,
            security_groups: new.security_groups,
            resource_group: new.resource_group.unwrap_or_else(|| self.default_group()),
            auto_delete: new.auto_delete,
            ip_spoofing: new.ip_spoofing,
            filtering_mode: new.filtering_mode,
            instance: instance.map(Into::into),
            deleting: false,
            created_at: self.now,
        };
        let ip_name = ids::words(&mut self.rng);
        let ip = ReservedIp {
            sequence: ip_sequence,
            id: ip_id,
            name: ip_name,
            interface: Some(id.clone()),
        };
        self.subnets.get_mut(&new.subnet)?.reserved.insert(address, ip);
        self.interfaces.insert(id.clone(), interface);
        Some(id)
    }

    /// The instance of an interface is gone: with `auto_delete` the interface goes too, unless that is forgotten.
    pub(super) fn release_interface(&mut self, id: &str, forgotten: bool) {
        let Some(interface) = self.interfaces.get_mut(id) else {
            return;
        };
        interface.instance = None;
        if interface.auto_delete && !forgotten {
            self.remove_interface(id);
        }
    }

    /// Removes an interface; its address is free again.
    pub(super) fn remove_interface(&mut self, id: &str) {
        if let Some(interface) = self.interfaces.remove(id)
            && let Some(subnet) = self.subnets.get_mut(&interface.subnet)
        {
            subnet.reserved.remove(&interface.address);
        }
    }

    /// The address of an interface as other resources show it: `0.0.0.0` until it is known.
    pub(super) fn primary_ip(&self, interface: &VirtualInterface, shown: Ipv4Addr) -> Value {
        let reserved = self
            .subnets
            .get(&interface.subnet)
            .and_then(|subnet| subnet.reserved.get(&interface.address));
        let (id, name) = reserved.map_or(("", ""), |ip| (ip.id.as_str(), ip.name.as_str()));
        json!({
            "address": shown.to_string(), "id": id, "name": name, "resource_type": "subnet_reserved_ip",
            "href": ids::href(&self.region, &format!("subnets/{}/reserved_ips/{id}", interface.subnet)),
        })
    }
}

fn check_interface_name(state: &State, subnet: &Subnet, name: &str, path: &str) -> Result<(), Refusal> {
    let path = join(path, "name");
    super::names::check(name, &path)?;
    if name.starts_with("ibm-") {
        return Err(Refusal::field(
            "validation_invalid_name",
            path,
            "Names that begin with 'ibm-' are reserved",
        ));
    }
    let taken = state
        .interfaces
        .values()
        .any(|other| other.vpc == subnet.vpc && other.name == name);
    if taken {
        Err(Refusal::taken(&path, name))
    } else {
        Ok(())
    }
}

fn check_address(subnet: &Subnet, address: Option<Ipv4Addr>, path: &str) -> Result<(), Refusal> {
    let field = join(path, "primary_ip.address");
    match address {
        None if subnet.available() == 0 => Err(out_of_addresses(subnet, path)),
        Some(address) if !subnet.contains(address) => Err(Refusal::field(
            "bad_field",
            field,
            format!("{address} is not in the subnet"),
        )),
        Some(address) if subnet.reserved.contains_key(&address) => Err(Refusal::field(
            "address_is_already_reserved",
            field,
            format!("{address} is already reserved"),
        )),
        _ => Ok(()),
    }
}

/// 400: the subnet has no address left.
pub(super) fn out_of_addresses(subnet: &Subnet, path: &str) -> Refusal {
    let message = format!("The subnet '{}' has no available IP addresses", subnet.id);
    Refusal::field("subnet_out_of_ip_addresses", join(path, "subnet"), message)
}

/// `GET /v1/virtual_network_interfaces`
pub(super) fn list(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let interfaces = state
        .interfaces
        .values()
        .filter(|interface| group_matches(ask, &interface.resource_group));
    let items = in_order(interfaces.map(|interface| (interface, interface.sequence, interface.id.as_str())));
    let page = page::cut(ask, &mut state.faults, &items)?;
    let name = "virtual_network_interfaces";
    Ok(page.answer(&state.region, name, name, |id| {
        state.interfaces.get(id).map(|i| body(state, i))
    }))
}

/// `GET /v1/virtual_network_interfaces/{id}`
pub(super) fn get(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let id = ask.param("id");
    let interface = state
        .interfaces
        .get(id)
        .ok_or_else(|| Refusal::not_found("virtual network interface", id))?;
    Ok(Answer::ok(body(state, interface)).with_etag("W/\"1\"".into()))
}

/// `POST /v1/virtual_network_interfaces`
pub(super) fn create(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let sent = fields::parse(&ask.body)?;
    let mut new = read_new(&Fields::of(&sent)?)?;
    state.check_interface(&mut new)?;
    let id = state.make_interface(new, None);
    let interface = id.and_then(|id| state.interfaces.get(&id));
    interface
        .map(|interface| Answer::created(body(state, interface)))
        .ok_or_else(|| Refusal::server(http::StatusCode::INTERNAL_SERVER_ERROR))
}

/// `DELETE /v1/virtual_network_interfaces/{id}`: 202 with the interface, which is gone a little later.
pub(super) fn delete(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let id = ask.param("id");
    let interface = state
        .interfaces
        .get(id)
        .ok_or_else(|| Refusal::not_found("virtual network interface", id))?;
    ask.if_match("W/\"1\"")?;
    if interface.instance.is_some() {
        return Err(Refusal::conflict(
            "target_in_use",
            format!("The virtual network interface '{id}' is attached"),
        ));
    }
    if !interface.deleting {
        let span = state.options.timings.interface_deleting;
        let delay = state.draw(span);
        state.after(delay, Event::InterfaceGone(id.to_owned()));
    }
    let interface = state
        .interfaces
        .get_mut(id)
        .ok_or_else(|| Refusal::not_found("virtual network interface", id))?;
    interface.deleting = true;
    let interface = interface.clone();
    Ok(Answer::accepted(body(state, &interface)))
}

fn body(state: &State, interface: &VirtualInterface) -> Value {
    let mut body = interface.reference(&state.region);
    let (region, ip) = (&state.region, state.primary_ip(interface, interface.address));
    let groups: Vec<Value> = interface
        .security_groups
        .iter()
        .filter_map(|id| state.security_groups.get(id))
        .map(|group| group.reference(region))
        .collect();
    let mac = ids::fingerprint(&interface.id) & 0xff_ffff;
    let fields = json!({
        "allow_ip_spoofing": interface.ip_spoofing,
        "auto_delete": interface.auto_delete,
        "created_at": stamp(interface.created_at),
        "enable_infrastructure_nat": true,
        "ips": [ip],
        "lifecycle_state": if interface.deleting { "deleting" } else { "stable" },
        "mac_address": format!("02:00:04:{:02X}:{:02X}:{:02X}", mac >> 16, mac >> 8 & 0xff, mac & 0xff),
        "primary_ip": ip,
        "protocol_state_filtering_mode": interface.filtering_mode,
        "resource_group": groups::reference(state, &interface.resource_group),
        "security_groups": groups,
        "subnet": state.subnets.get(&interface.subnet).map(|subnet| subnet.reference(region)),
        "vpc": state.vpcs.get(&interface.vpc).map(|vpc| vpc.reference(region)),
        "zone": zone_reference(&interface.zone),
    });
    merge(&mut body, fields);
    if let Some(instance) = interface.instance.as_ref().and_then(|id| state.instances.get(id))
        && let Some(attachment) = instance.attachments.iter().find(|a| a.interface == interface.id)
    {
        body["target"] = json!({
            "id": attachment.id, "name": attachment.name, "resource_type": "instance_network_attachment",
            "href": ids::href(region, &format!("instances/{}/network_attachments/{}", instance.id, attachment.id)),
        });
    }
    body
}
