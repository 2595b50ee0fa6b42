//! What is sold under certain requirements, whether it can be had now or not, and what comes back first.

use jiff::Timestamp;

use super::super::bits;
use super::super::plan::Why;
use super::super::run::Run;
use super::super::space::ReqId;
use super::super::template::{Kind, Template, offer_columns};
use crate::model::{Availability, Offering};

/// What is sold is remembered for so many requirements and pools: at up to 2 KB each, 8 MB. So is what comes back first of so
/// many sets of types.
const KNOWN_MAX: usize = 4096;

/// The types that have the labels and are sold somewhere that is allowed, whether they can be had now or not.
pub(super) fn sold(run: &mut Run<'_, '_>, template: usize, req: ReqId) -> Vec<usize> {
    if let Some(known) = run.sold.get(&(template, req)) {
        return known.clone();
    }
    if run.sold.len() >= KNOWN_MAX {
        run.sold.clear();
    }
    let space = &run.problem.space;
    let of = &run.problem.templates[template];
    let pool = &run.problem.snapshot.pools[of.pool];
    let met = |kind: &Kind| {
        let mut offerings = pool.types[kind.index].offerings.iter();
        space.meet(&kind.set, space.bits(req)) && offerings.any(|offering| allowed(run, req, offering))
    };
    let kinds = of.types.iter().enumerate();
    let all: Vec<usize> = kinds.filter(|(_, kind)| met(kind)).map(|(at, _)| at).collect();
    run.sold.insert((template, req), all.clone());
    all
}

fn allowed(run: &Run<'_, '_>, req: ReqId, offering: &Offering) -> bool {
    let space = &run.problem.space;
    let (zone, capacity) = offer_columns(space);
    let has = |column: usize, value: &str| {
        bits::has(space.states(req, column), space.columns()[column].state_of(value))
    };
    has(zone, &offering.zone) && has(capacity, offering.capacity_type.as_str())
}

/// The offering that comes back first, asked once for all classes that these types have room for.
pub(super) fn withheld(run: &mut Run<'_, '_>, template: usize, req: ReqId, types: Vec<u64>) -> Why {
    let key = (template, req, types);
    if let Some(known) = run.withheld.get(&key) {
        return known.clone();
    }
    if run.withheld.len() >= KNOWN_MAX {
        run.withheld.clear();
    }
    let why = back_first(run, &run.problem.templates[template], req, &key.2);
    run.withheld.insert(key, why.clone());
    why
}

/// There are thousands of offerings, so that only the one which is told of is put into words.
fn back_first(run: &Run<'_, '_>, template: &Template, req: ReqId, types: &[u64]) -> Why {
    let pool = &run.problem.snapshot.pools[template.pool];
    let kinds = bits::iter(types).map(|kind| &pool.types[template.types[kind].index]);
    let offers = kinds.flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)));
    let offers = offers.filter(|(_, offering)| allowed(run, req, offering));
    let first = offers.min_by(|(kind, offering), (other, its)| {
        let times = back(offering).cmp(&back(its));
        let names = || (&kind.name, &offering.zone).cmp(&(&other.name, &its.zone));
        let sold = || offering.capacity_type.as_str().cmp(its.capacity_type.as_str());
        times.then_with(names).then_with(sold)
    });
    let Some((kind, offering)) = first else {
        return Why::NothingThere;
    };
    let (until, reason) = match &offering.availability {
        Availability::Withheld { until, reason } => (Some(*until), reason.clone()),
        Availability::Unsold(unsold) => (None, unsold.to_string()),
        Availability::Available => (None, String::new()),
    };
    Why::Withheld {
        offering: format!("{} in {} as {}", kind.name, offering.zone, offering.capacity_type),
        until,
        reason,
    }
}

/// When an offering comes back; what nobody knows of comes last.
fn back(offering: &Offering) -> (bool, Option<Timestamp>) {
    match &offering.availability {
        Availability::Withheld { until, .. } => (false, Some(*until)),
        Availability::Unsold(_) | Availability::Available => (true, None),
    }
}
