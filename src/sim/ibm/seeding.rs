//! The account as it is found: one VPC with a subnet in each zone, images, a key, groups.

use std::net::Ipv4Addr;

use super::images::STOCK;
use super::network::Vpc;
use super::placement::TargetKind;
use super::state::{Key, ResourceGroup, State};
use super::{geography, ids};

/// Puts the first resources into an empty region.
pub(super) fn seed(state: &mut State) {
    for name in ["default", "demo"] {
        let id = ids::hex32(&mut state.rng);
        state.resource_groups.push(ResourceGroup {
            id,
            name: name.into(),
        });
    }
    let vpc = add_vpc(state, "demo-vpc");
    let (prefix, zones) = (state.options.subnet_prefix, geography::zones(&state.region));
    for (number, zone) in (0u8..).zip(&zones) {
        let network = Ipv4Addr::new(10, 240, number * 64, 0);
        state.add_subnet(&format!("demo-{zone}"), &vpc, zone, network, prefix);
    }
    for stock in STOCK {
        state.add_image(stock, "public");
    }
    add_key(state, "demo-key");
    state.add_placement_target("demo-spread", TargetKind::HostSpread);
    state.add_placement_target("demo-power-spread", TargetKind::PowerSpread);
    state.add_placement_target("demo-host", TargetKind::DedicatedHost);
}

/// Adds a VPC with its default security group.
pub(super) fn add_vpc(state: &mut State, name: &str) -> String {
    let (sequence, id) = (state.next_sequence(), state.regional_id());
    let default_security_group = state.add_security_group(&format!("{name}-default"), &id);
    let resource_group = state.default_group();
    let created_at = state.now;
    let vpc = Vpc {
        sequence,
        id: id.clone(),
        name: name.into(),
        default_security_group,
        resource_group,
        created_at,
    };
    state.vpcs.insert(id.clone(), vpc);
    id
}

fn add_key(state: &mut State, name: &str) {
    let (sequence, id) = (state.next_sequence(), state.regional_id());
    let fingerprint = format!("SHA256:{}", &ids::hex32(&mut state.rng)[..30]);
    let key = Key {
        sequence,
        id: id.clone(),
        name: name.into(),
        fingerprint,
        created_at: state.now,
    };
    state.keys.insert(id, key);
}
