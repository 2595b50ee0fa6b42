//! The pools of a snapshot as templates, with what daemons will take on each type.

use std::sync::Arc;

use super::bits;
use super::dims::Dims;
use super::labels::Labels;
use super::limits::Limits;
use super::space::{ReqId, Space};
use super::template::{Kind, Template, UNSOLD, offer_columns, offers};
use super::tolerance::Tolerance;
use crate::api::names::{HOSTNAME, INITIALIZED, INSTANCE_TYPE, REGISTERED, WELL_KNOWN_LABELS};
use crate::model::pod::NODE_NAME;
use crate::model::taint::{Preferring, untolerated};
use crate::model::{InstanceType, Pod, Pool, Requirements, Snapshot};

/// The pools, those with more weight first and then by name.
pub(super) fn templates(
    snapshot: &Snapshot,
    space: &mut Space,
    dims: &Dims,
    tolerance: &mut Tolerance,
) -> Vec<Template> {
    let mut order: Vec<(usize, &Pool)> = snapshot.pools.iter().enumerate().collect();
    order.sort_by_key(|(_, pool)| (-pool.weight, &pool.name));
    let mut all = Vec::with_capacity(order.len());
    for at in order {
        let Some(req) = pool_req(space, at.1) else {
            continue;
        };
        let types = kinds(space, at.1, dims);
        let mut template = Template::new(at, req, tolerance.taints(&at.1.taints), types, dims);
        expect_daemons(&mut template, at.1, &snapshot.daemons, space, dims);
        template.limits = Limits::of(at.1, &snapshot.nodes);
        if let Some(limits) = &template.limits {
            for kind in &mut template.types {
                kind.counted = limits.count(&at.1.types[kind.index].capacity);
            }
            let counted = |at: usize| template.types.iter().map(move |kind| kind.counted[at]);
            let most = |at: usize| counted(at).max().unwrap_or_default();
            let least = |at: usize| counted(at).min().unwrap_or_default();
            let names = limits.names.len();
            template.counted_most = (0..names).map(most).collect();
            template.counted_range = (0..names).map(|at| most(at) - least(at)).collect();
        }
        let least = at.1.requirements.min_values().iter();
        template.min_values = least
            .filter_map(|(key, least)| Some((space.column(key)?, *least)))
            .collect();
        all.push(template);
    }
    all
}

/// Takes note of what types and pools say about the labels that are asked about.
pub(super) fn mention(labels: &mut Labels, snapshot: &Snapshot) {
    for pool in &snapshot.pools {
        labels.mention(&pool.requirements);
    }
    for pool in &snapshot.pools {
        for kind in pool.types.iter() {
            labels.mention_value(INSTANCE_TYPE, &kind.name);
            for (key, values) in kind.requirements.iter() {
                labels.mention_values(key, values);
            }
        }
    }
}

/// What the labels of a pool's nodes can be. What neither the pool nor its types say anything about is absent, but for
/// labels that every node has.
fn pool_req(space: &mut Space, pool: &Pool) -> Option<ReqId> {
    let mut set = space.bits_of(&pool.requirements);
    for (at, column) in space.told_apart().iter().enumerate() {
        let key = column.key.as_str();
        if pool.requirements.get(key).is_some() {
            continue;
        }
        match key {
            // A name that a node of the future will have, and nobody knows.
            HOSTNAME | NODE_NAME => space.pin(&mut set, at, column.other()),
            // Nodes get these before pods do, so daemons may ask for them.
            REGISTERED | INITIALIZED => space.pin(&mut set, at, column.state_of("true")),
            _ if WELL_KNOWN_LABELS.contains(&key) || told_by_types(pool, key) => {}
            _ => space.pin(&mut set, at, column.absent()),
        }
    }
    space.meet(&set, &set).then(|| space.intern(&set))
}

fn told_by_types(pool: &Pool, key: &str) -> bool {
    pool.types.iter().any(|kind| kind.requirements.get(key).is_some())
}

fn kinds(space: &Space, pool: &Pool, dims: &Dims) -> Vec<Kind> {
    let columns = offer_columns(space);
    let told: Vec<bool> = space
        .told_apart()
        .iter()
        .map(|column| told_by_types(pool, &column.key) && pool.requirements.get(&column.key).is_none())
        .collect();
    let kind = |(index, kind): (usize, &InstanceType)| {
        let offers = offers(space, columns, kind);
        Kind {
            index,
            set: kind_set(space, kind, &told),
            floor: offers.iter().map(|offer| offer.price).min().unwrap_or(UNSOLD),
            offers,
            counted: Vec::new(),
            daemons: vec![0; dims.len()],
        }
    };
    let mut all: Vec<Kind> = pool.types.iter().enumerate().map(kind).collect();
    all.sort_by(|one, two| {
        let name = |kind: &Kind| &pool.types[kind.index].name;
        one.floor.cmp(&two.floor).then_with(|| name(one).cmp(name(two)))
    });
    all
}

/// What the labels of a type can be. A label that other types of the pool tell about and this one does not is absent.
fn kind_set(space: &Space, kind: &InstanceType, told: &[bool]) -> Vec<u64> {
    let mut set = space.bits_of(&kind.requirements);
    for (at, column) in space.told_apart().iter().enumerate() {
        if kind.requirements.get(&column.key).is_some() {
            continue;
        }
        if column.key == INSTANCE_TYPE {
            space.pin(&mut set, at, column.state_of(&kind.name));
        } else if told[at] {
            space.pin(&mut set, at, column.absent());
        }
    }
    set
}

fn expect_daemons(
    template: &mut Template,
    pool: &Pool,
    daemons: &[Arc<Pod>],
    space: &mut Space,
    dims: &Dims,
) {
    for daemon in daemons {
        if untolerated(&pool.taints, &daemon.tolerations, Preferring::Ignored).is_some() {
            continue;
        }
        let on = daemon_types(template, &daemon.node_terms, space);
        let asked = dims.amounts(&daemon.requests);
        for kind in bits::iter(&on) {
            let sum = &mut template.types[kind].daemons;
            for (sum, asked) in sum.iter_mut().zip(&asked) {
                *sum = sum.saturating_add(*asked);
            }
        }
        if !daemon.ports.is_empty() && !bits::is_empty(&on) {
            template.daemon_ports.push((daemon.ports.clone(), on));
        }
    }
    if !daemons.is_empty() {
        template.set_rooms(pool, dims);
    }
}

/// The types on which a daemon with these terms will run.
fn daemon_types(template: &mut Template, terms: &[Requirements], space: &mut Space) -> Vec<u64> {
    let mut on = vec![0; bits::words(template.types.len())];
    for term in terms {
        let term = space.id_of(term);
        if let Some(req) = term.and_then(|term| space.and(template.req, term)) {
            let types = &template.row(space, req).types;
            on.iter_mut().zip(types).for_each(|(on, types)| *on |= types);
        }
    }
    on
}
