//! Turns a pass into a plan.

use std::collections::BTreeMap;

use super::bits;
use super::explain::{Tried, explain};
use super::plan::{
    Cheapest, Completeness, Destination, LeftOut, MinValues, NewClaim, Placement, Plan, pools_told,
};
use super::run::{Claim, Rest, Run};
use super::space::ReqId;
use super::template::{Template, offer_columns};
use super::{Budget, MinValuesPolicy};
use crate::model::{Requirements, Values};

/// A claim names at most so many types: the API server takes no object of more than about a megabyte, and nobody
/// needs more to choose from, unless a pool asks for a number of different values.
const OPTIONS_MAX: usize = 600;

/// So many classes are told what stood in their way even when time is over: at a millisecond each, as with 63 pools, that is a
/// tenth of a second.
const EXPLAINED_ALWAYS: usize = 100;

/// The plan that a pass has found, with the reasons for what it left out.
pub(super) fn plan(run: &mut Run<'_, '_>, rest: &Rest, budget: Budget<'_>) -> Plan {
    let nodes = run.nodes();
    let place = |(pod, bin): &(usize, usize)| Placement {
        pod: *pod,
        on: match bin.checked_sub(nodes) {
            Some(claim) => Destination::New(claim),
            None => Destination::Existing(run.problem.hosts[*bin].node),
        },
    };
    let placements = run.placed.iter().map(place).collect();
    let mut written = BTreeMap::new();
    let claims = (0..run.claims.len()).filter_map(|claim| new_claim(run, claim, &mut written));
    let claims = claims.collect();
    Plan {
        placements,
        claims,
        left_out: left_out(run, rest, budget),
        completeness: if rest.out_of_time {
            Completeness::OutOfTime
        } else {
            Completeness::Whole
        },
    }
}

/// Whoever has no place, with what stood in the way as far as there is time to find that out.
fn left_out(run: &mut Run<'_, '_>, rest: &Rest, budget: Budget<'_>) -> Vec<LeftOut> {
    let told = pools_told(rest.classes.len());
    let (mut explained, mut in_time) = (0, true);
    let mut all = Vec::with_capacity(rest.classes.len());
    for (class, pods) in &rest.classes {
        in_time = in_time && (explained < EXPLAINED_ALWAYS || budget());
        let tried = if rest.untried.contains(class) {
            Tried::No
        } else if in_time {
            explained += 1;
            Tried::Yes
        } else {
            Tried::Unexplained
        };
        all.push(LeftOut::telling(pods.clone(), explain(run, *class, tried), told));
    }
    all
}

type Written = BTreeMap<(usize, Vec<ReqId>, Vec<(usize, usize)>), Requirements>;

/// Always there: every claim has a type that can be bought.
fn new_claim(run: &Run<'_, '_>, at: usize, written: &mut Written) -> Option<NewClaim> {
    let claim = &run.claims[at];
    let problem = &*run.problem;
    let template = &problem.templates[claim.template];
    let pool = &problem.snapshot.pools[template.pool];
    let req = run.bins.req[run.nodes() + at];
    let types = run.options_of(at, &run.left[claim.template]);
    let offer = template.types[claim.kind].cheapest(&problem.space, offer_columns(&problem.space), req)?;
    let offering = &pool.types[template.types[claim.kind].index].offerings[offer.index];
    let too_few = run.too_few(claim.template, req, &types);
    debug_assert!(too_few.is_empty() || problem.options.min_values == MinValuesPolicy::BestEffort);
    let min_values = if too_few.is_empty() {
        MinValues::Kept
    } else {
        MinValues::Relaxed
    };
    let mut requirements = requirements(run, claim, req, written);
    // Launch would refuse what was given up here.
    for (column, _, found) in too_few {
        requirements.lower_min_values(&problem.space.columns()[column].key, found);
    }
    Some(NewClaim {
        pool: template.pool,
        requirements,
        requests: problem.dims.named(&with_daemons(run, claim, &types)),
        pods: claim.pods.clone(),
        options: options(template, req, &types),
        cheapest: Cheapest {
            instance_type: template.types[claim.kind].index,
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            price: offering.price,
        },
        min_values,
    })
}

/// What pods ask for, and the least that daemons will on any type that is left.
fn with_daemons(run: &Run<'_, '_>, claim: &Claim, types: &[u64]) -> Vec<i64> {
    let template = &run.problem.templates[claim.template];
    if !template.expects_daemons {
        return claim.used.clone();
    }
    let least = |dim: usize| {
        bits::iter(types)
            .map(|kind| template.types[kind].daemons[dim])
            .min()
    };
    let used = claim.used.iter().enumerate();
    used.map(|(dim, used)| used + least(dim).unwrap_or_default())
        .collect()
}

/// The types that are left, cheapest first.
fn options(template: &Template, req: ReqId, types: &[u64]) -> Vec<u32> {
    let most = if template.min_values.is_empty() {
        OPTIONS_MAX
    } else {
        usize::MAX
    };
    let index = |kind: usize| u32::try_from(template.types[kind].index).unwrap_or(u32::MAX);
    let mut options = Vec::with_capacity((bits::count(types) as usize).min(most));
    for (_, kind) in &template.known_row(req).by_price {
        if options.len() < most && bits::has(types, *kind) {
            options.push(index(*kind));
        }
    }
    options
}

/// What the labels of a claim's node must be, in full. Most claims of a plan share a few of these.
fn requirements(run: &Run<'_, '_>, claim: &Claim, req: ReqId, written: &mut Written) -> Requirements {
    let problem = &*run.problem;
    let single = |column: &usize| Some((*column, problem.space.single(req, *column)?));
    let mut pins: Vec<(usize, usize)> = claim.pins.iter().filter_map(single).collect();
    let mut parts = claim.parts.clone();
    pins.sort_unstable();
    parts.sort_unstable();
    let key = (claim.template, parts, pins);
    if let Some(known) = written.get(&key) {
        return known.clone();
    }
    let pool = &problem.snapshot.pools[problem.templates[claim.template].pool];
    let mut all = pool.requirements.clone();
    for part in &key.1 {
        if let Some(meaning) = problem.meanings.get(part) {
            all = all.and(meaning);
        }
    }
    for (column, state) in &key.2 {
        let column = &problem.space.columns()[*column];
        all.narrow(&column.key, &Values::one_of([column.values[*state].as_str()]));
    }
    written.insert(key, all.clone());
    all
}
