//! Why no new node of a pool was made for a pod.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::super::MinValuesPolicy;
use super::super::bits;
use super::super::class::requirements_of;
use super::super::limits;
use super::super::plan::Why;
use super::super::run::{Known, Run};
use super::super::space::ReqId;
use super::super::template::{Template, offer_columns};
use super::super::topology::{Obstacle, Over};
use super::obstacle_why;
use super::sold::{sold, withheld};
use crate::api::names::{CAPACITY_TYPE, ZONE};
use crate::model::requirements::Conflict;
use crate::model::taint::{Preferring, untolerated};
use crate::model::{HostPort, Pod, Pool, Requirements, Values, host_port};
use crate::resources::Shortage;

/// So many alternatives of a pod that lead to different types or offerings are judged at each pool, and one of them is told:
/// 20,000 classes with 64 alternatives each at 63 pools would make 80 million judgements of some microseconds.
const JUDGED_MAX: usize = 8;

/// The types that an alternative of a pod leads to, and the zones and capacity types that it leaves: others with the same
/// fail alike.
type Judged = (Vec<usize>, [Vec<u64>; 2]);

/// The first thing that stood in the way: of several alternatives of a pod, that of the one which came nearest.
pub(super) fn refusal(run: &mut Run<'_, '_>, class: usize, template: usize) -> Why {
    let of = &run.problem.classes[class];
    let pod = run.problem.pod(of);
    let pool = &run.problem.snapshot.pools[run.problem.templates[template].pool];
    if let Some(taint) = untolerated(&pool.taints, &pod.tolerations, Preferring::Ignored) {
        return Why::Taint(taint.clone());
    }
    let own = run.problem.templates[template].req;
    let asked = of
        .stages
        .last()
        .map(|stage| stage.nodes.clone())
        .unwrap_or_default();
    let both = |nodes: &ReqId| Some((run.problem.space.and(own, *nodes)?, *nodes));
    let met: Vec<(ReqId, ReqId)> = asked.iter().filter_map(both).collect();
    let Some((_, nearest)) = met.last() else {
        return conflict(run, pod, pool, own, &asked);
    };
    let (mut seen, mut judged): (BTreeSet<ReqId>, Vec<Judged>) = (BTreeSet::new(), Vec::new());
    let mut best: Option<Why> = None;
    for (req, _) in met.iter().filter(|(req, _)| seen.insert(*req)) {
        let all = sold(run, template, *req);
        let as_before = |judged: &Judged| judged.0 == all && judged.1 == offers_left(run, *req);
        if all.is_empty() || judged.iter().any(as_before) {
            continue;
        }
        if judged.len() == JUDGED_MAX {
            break;
        }
        judged.push((all.clone(), offers_left(run, *req)));
        let why = not_had(run, class, template, (*req, all));
        let came = |why: &Why| (Reverse(why.nearness()), why.missing());
        if best.as_ref().is_none_or(|best| came(&why) < came(best)) {
            best = Some(why);
        }
    }
    best.unwrap_or_else(|| no_type(run, pod, pool, *nearest))
}

/// The zones and capacity types that requirements leave.
fn offers_left(run: &Run<'_, '_>, req: ReqId) -> [Vec<u64>; 2] {
    let space = &run.problem.space;
    let (zone, capacity_type) = offer_columns(space);
    [zone, capacity_type].map(|column| space.states(req, column).to_vec())
}

/// The first thing that stood in the way of having one of the types that are sold with certain labels.
fn not_had(run: &mut Run<'_, '_>, class: usize, template: usize, (req, sold): (ReqId, Vec<usize>)) -> Why {
    #[cfg(test)]
    judgements::count();
    if let Some(why) = short(run, class, template, &sold) {
        return why;
    }
    let fitting = |kind: &usize| {
        let room = run.problem.templates[template].room(*kind);
        let mut asked = run.problem.classes[class].requests.iter().zip(room);
        asked.all(|(wanted, room)| !lacks(*wanted, *room))
    };
    let fitting: Vec<usize> = sold.into_iter().filter(fitting).collect();
    buyable(run, class, template, req, &fitting)
}

/// Whoever asks for nothing lacks nothing, even where daemons take more than there is.
pub(super) fn lacks(wanted: i64, room: i64) -> bool {
    wanted > 0 && wanted > room
}

/// How much is missing of what is wanted, in thousandths.
pub(super) fn part_missing(wanted: i64, room: i64) -> i64 {
    wanted.saturating_sub(room).saturating_mul(1000) / wanted.max(1)
}

/// The place of the resource of which the largest part is missing, if any is; of several the first.
pub(super) fn scarcest(requests: &[i64], room: &[i64]) -> Option<usize> {
    let lacking = (0..room.len()).filter(|dim| lacks(requests[*dim], room[*dim]));
    lacking.min_by_key(|dim| Reverse(part_missing(requests[*dim], room[*dim].max(0))))
}

/// The label that cannot be what the pod asks for, or what its volumes need. The term that comes nearest is the last one.
fn conflict(run: &Run<'_, '_>, pod: &Pod, pool: &Pool, own: ReqId, asked: &[ReqId]) -> Why {
    let space = &run.problem.space;
    let clash = |set: &[u64], meaning: Option<&Requirements>| {
        let key = &space.columns()[space.clash(space.bits(own), set)?].key;
        let wanted = meaning.and_then(|meaning| meaning.get(key));
        Some(Conflict {
            key: key.clone(),
            offered: pool.requirements.get(key).cloned().unwrap_or_else(Values::absent),
            wanted: wanted.cloned().unwrap_or_else(Values::never),
        })
    };
    let mut terms = pod.node_terms.iter().rev();
    if let Some(conflict) = terms.find_map(|term| clash(&space.bits_of(term), Some(term))) {
        return Why::Requirement(conflict);
    }
    let meaning = |nodes: &ReqId| run.problem.meanings.get(nodes);
    let mut places = asked.iter().rev();
    if let Some(conflict) = places.find_map(|nodes| clash(space.bits(*nodes), meaning(nodes))) {
        return Why::VolumePlace(conflict);
    }
    match torn(run, pod).filter(|_| asked.is_empty()) {
        Some(conflict) => Why::VolumePlace(conflict),
        None => Why::NoType {
            wanted: "the labels that its volumes need".to_owned(),
        },
    }
}

/// The label that the pod itself asks to be something else than one of its volumes needs, wherever that can be.
fn torn(run: &Run<'_, '_>, pod: &Pod) -> Option<Conflict> {
    let storage = &run.problem.snapshot.storage;
    let needs = pod.volumes.iter();
    let needs = needs.filter_map(|volume| storage.needs(&pod.namespace, volume).ok());
    let places: Vec<Vec<Requirements>> = needs.map(|needs| needs.nodes).collect();
    let apart = |term: &Requirements, places: &Vec<Requirements>| {
        let conflicts: Option<Vec<Conflict>> = places.iter().map(|place| term.conflict(place)).collect();
        conflicts?.into_iter().next()
    };
    let mut terms = pod.node_terms.iter().rev();
    terms.find_map(|term| places.iter().find_map(|places| apart(term, places)))
}

/// The label of which no type has what the pod and its volumes ask for, or all labels together.
fn no_type(run: &Run<'_, '_>, pod: &Pod, pool: &Pool, nodes: ReqId) -> Why {
    let Some(meaning) = run.problem.meanings.get(&nodes) else {
        return Why::NothingThere;
    };
    let (_, volumes) = requirements_of(pod, run.problem.snapshot);
    let wanted = pool.requirements.and(meaning);
    for (key, values) in wanted.iter() {
        if is_met(pool, key, values) {
            continue;
        }
        let mut needs = volumes.iter().filter_map(|need| need.get(key));
        let of_volumes = needs.any(|values| !is_met(pool, key, values));
        let conflict = Conflict {
            key: key.clone(),
            offered: offered(pool, key),
            wanted: values.clone(),
        };
        return if of_volumes {
            Why::VolumePlace(conflict)
        } else {
            Why::Requirement(conflict)
        };
    }
    Why::NoType {
        wanted: words(&wanted),
    }
}

/// Whether any type of a pool can have one of these values of a label, or be without it where that is allowed.
fn is_met(pool: &Pool, key: &str, values: &Values) -> bool {
    if [ZONE, CAPACITY_TYPE].contains(&key) {
        let sold = listed(pool, key);
        return sold.is_empty() || sold.iter().any(|value| values.allows(value));
    }
    let mut own = pool.types.iter().map(|kind| kind.requirements.get(key));
    // A type that does not tell of a label is without it where others do, unless the pool says what it is.
    let told = pool.requirements.get(key).is_none() && own.clone().any(|own| own.is_some());
    let met = |own: Option<&Values>| own.map_or(!told || values.allows_absence(), |own| own.meets(values));
    pool.types.is_empty() || own.any(met)
}

/// What a label can be on any type of a pool.
fn offered(pool: &Pool, key: &str) -> Values {
    let values = listed(pool, key);
    if !values.is_empty() {
        return Values::one_of(values);
    }
    let mut own = pool.types.iter().filter_map(|kind| kind.requirements.get(key));
    own.next().cloned().unwrap_or_else(Values::absent)
}

/// The values of a label that any type of a pool can have.
fn listed(pool: &Pool, key: &str) -> Vec<String> {
    let offerings = || pool.types.iter().flat_map(|kind| &kind.offerings);
    let mut all: Vec<String> = match key {
        ZONE => offerings().map(|offering| offering.zone.clone()).collect(),
        CAPACITY_TYPE => offerings()
            .map(|offering| offering.capacity_type.to_string())
            .collect(),
        _ => {
            let values = pool
                .types
                .iter()
                .filter_map(|kind| kind.requirements.get(key)?.listed());
            values.flatten().cloned().collect()
        }
    };
    all.sort();
    all.dedup();
    all
}

fn words(requirements: &Requirements) -> String {
    let all: Vec<String> = requirements
        .iter()
        .map(|(key, values)| format!("{key} {values}"))
        .collect();
    all.join(", ")
}

/// What is shortest on the type that comes nearest, unless one of them has room.
fn short(run: &Run<'_, '_>, class: usize, template: usize, kinds: &[usize]) -> Option<Why> {
    let requests = &run.problem.classes[class].requests;
    let of = &run.problem.templates[template];
    let missing = |kind: &usize| -> i64 {
        let amounts = requests.iter().zip(of.room(*kind));
        let lacking = amounts.filter(|(wanted, room)| lacks(**wanted, **room));
        lacking
            .map(|(wanted, room)| part_missing(*wanted, *room))
            .fold(0, i64::saturating_add)
    };
    let nearest = kinds.iter().copied().min_by_key(|kind| (missing(kind), *kind))?;
    let room = of.room(nearest);
    let dim = scarcest(requests, room)?;
    let kind = &of.types[nearest];
    let pool = &run.problem.snapshot.pools[of.pool];
    Some(Why::Resource {
        shortage: Shortage {
            resource: run.problem.dims.names()[dim].clone(),
            wanted: requests[dim],
            available: room[dim].max(0),
        },
        nearest: pool.types[kind.index].name.clone(),
        daemons: kind.daemons[dim],
    })
}

/// What keeps types that fit from being bought.
fn buyable(run: &mut Run<'_, '_>, class: usize, template: usize, req: ReqId, fitting: &[usize]) -> Why {
    let of = &run.problem.templates[template];
    let mut types = vec![0; bits::words(of.types.len())];
    for kind in fitting {
        bits::put(&mut types, *kind);
    }
    let ports = &run.problem.classes[class].ports;
    let before = types.clone();
    of.keep_without_ports(&mut types, ports);
    if bits::is_empty(&types)
        && let Some(port) = taken(of, &before, ports)
    {
        return Why::Port(port.clone());
    }
    let before = types.clone();
    let volumes = run.attached(template, Some(class), None);
    of.keep_attaching(&mut types, &volumes);
    if bits::is_empty(&types)
        && let Some((driver, limit)) = exceeded(of, &before, &volumes)
    {
        return Why::VolumeLimit { driver, limit };
    }
    let columns = offer_columns(&run.problem.space);
    let had = |kind: &usize| {
        of.types[*kind]
            .cheapest(&run.problem.space, columns, req)
            .is_some()
    };
    let now: Vec<usize> = bits::iter(&types).filter(had).collect();
    if now.is_empty() {
        return withheld(run, template, req, types);
    }
    if let Some(why) = limit(run, template, &now) {
        return why;
    }
    too_few(run, class, template, req).unwrap_or_else(|| topology(run, class, req))
}

/// The first port that daemons take on some of these types; if they take none, the first.
fn taken<'p>(template: &Template, types: &[u64], ports: &'p [HostPort]) -> Option<&'p HostPort> {
    let comes = |on: &[u64]| types.iter().zip(on).any(|(types, on)| types & on != 0);
    let daemons = template.daemon_ports.iter();
    let clashes = daemons.filter_map(|(own, on)| host_port::conflict(ports, own).filter(|_| comes(on)));
    clashes.min().or_else(|| ports.first())
}

/// Who would have too few values of a label to choose from if a node was made for the pod, where limits let a type in.
fn too_few(run: &mut Run<'_, '_>, class: usize, template: usize, req: ReqId) -> Option<Why> {
    let asks = !run.problem.templates[template].min_values.is_empty();
    if !asks || run.problem.options.min_values != MinValuesPolicy::Strict {
        return None;
    }
    let (who, (column, least, found)) = run.starvation(class, template, req)?;
    let key = run.problem.space.columns()[column].key.clone();
    Some(Why::MinValues {
        who,
        key,
        least,
        found,
    })
}

/// The first driver of which more volumes are asked for than any of these types attaches, and how many one does at most.
fn exceeded(template: &Template, types: &[u64], volumes: &[(&str, u32)]) -> Option<(String, u32)> {
    let most = |driver: &str| {
        let (_, limits) = template.attachable.iter().find(|(of, _)| of == driver)?;
        bits::iter(types).map(|kind| limits[kind]).max()
    };
    let mut all = volumes.iter().filter_map(|(driver, wanted)| {
        let limit = most(driver)?;
        (*wanted > limit).then(|| ((*driver).to_owned(), limit))
    });
    all.next()
}

fn limit(run: &Run<'_, '_>, template: usize, kinds: &[usize]) -> Option<Why> {
    let of = &run.problem.templates[template];
    let (left, limits) = (&run.left[template], of.limits.as_ref()?);
    let counted = |kind: usize| &of.types[kind].counted;
    if kinds.iter().any(|kind| limits::allow(left, None, counted(*kind))) {
        return None;
    }
    let smallest = kinds.iter().min_by_key(|kind| (counted(**kind), **kind))?;
    let over = |at: &usize| counted(*smallest)[*at] > left[*at];
    let at = (0..left.len()).find(over)?;
    Some(Why::Limit {
        resource: limits.names[at].clone(),
        allowed: limits.allowed[at],
        used: limits.allowed[at].saturating_sub(left[at]),
        wanted: counted(*smallest)[at],
    })
}

fn topology(run: &mut Run<'_, '_>, class: usize, req: ReqId) -> Why {
    let Some(stage) = run.problem.classes[class].stages.len().checked_sub(1) else {
        return Why::Taken;
    };
    let mut known = Known::default();
    let hosts = match run.turn(class, stage, &mut known) {
        Ok(turn) => turn.hosts,
        Err(obstacle) => return obstacle_why(run, obstacle),
    };
    if let Some(obstacle) = hosts.wants_company() {
        return obstacle_why(run, obstacle);
    }
    masked(run, class, stage, req)
}

/// Which label others leave values of that cannot be had.
pub(super) fn masked(run: &mut Run<'_, '_>, class: usize, stage: usize, req: ReqId) -> Why {
    let of = &run.problem.classes[class];
    let asks = &of.stages[stage].asks;
    let own = asks.near.iter().chain(&asks.spreads).chain(&asks.far);
    let own = own.map(|ask| Obstacle::Own(ask.group));
    let all = own.chain(of.feared.iter().map(|group| Obstacle::Others(*group)));
    let labelled: Vec<(Obstacle, usize)> = all
        .filter_map(|obstacle| {
            let (Obstacle::Own(group) | Obstacle::Others(group)) = obstacle;
            match run.problem.groups[group].over {
                Over::Label(column) => Some((obstacle, column)),
                Over::Hosts => None,
            }
        })
        .collect();
    let mut known = Known::default();
    let wanted = match run.turn(class, stage, &mut known) {
        Ok(turn) => turn.wanted,
        Err(obstacle) => return obstacle_why(run, obstacle),
    };
    for (obstacle, column) in labelled {
        let space = &run.problem.space;
        let column_of = &space.columns()[column];
        let values = column_of.values.len();
        let states = wanted.first().map(|(both, _)| space.states(*both, column));
        let left: Vec<usize> = states
            .into_iter()
            .flat_map(bits::iter)
            .filter(|state| *state < values)
            .collect();
        if left.len() == values
            && left
                .iter()
                .all(|state| bits::has(space.states(req, column), *state))
        {
            continue;
        }
        let why = obstacle_why(run, obstacle);
        return match why {
            Why::Spread { key, .. } => Why::Spread {
                key,
                allowed: left
                    .iter()
                    .map(|state| column_of.values[*state].clone())
                    .collect(),
            },
            why => why,
        };
    }
    Why::Taken
}

/// How often an alternative was judged on this thread: what reasons take grows with it.
#[cfg(test)]
pub(in crate::scheduling) mod judgements {
    use std::cell::Cell;

    thread_local! {
        static JUDGEMENTS: Cell<usize> = const { Cell::new(0) };
    }

    /// One more.
    pub(super) fn count() {
        JUDGEMENTS.set(JUDGEMENTS.get() + 1);
    }

    /// How many there were since this was asked last.
    pub(in crate::scheduling) fn take() -> usize {
        JUDGEMENTS.take()
    }
}
