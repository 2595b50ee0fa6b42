//! Whether claims can be bought as planned.

use std::collections::{BTreeMap, BTreeSet};

use super::labels::{Labels, for_sale, options};
use super::meaning::{allows, telling_states};
use super::{Finding, Rule, finding};
use crate::api::names::{CAPACITY_TYPE, ZONE};
use crate::model::{InstanceType, Pod, Pool, Snapshot, Values};
use crate::money::Price;
use crate::resources::Resources;
use crate::scheduling::{MinValues, MinValuesPolicy, NewClaim, Plan};

/// Claims that cannot be bought as planned.
pub(super) fn claims(policy: MinValuesPolicy, snapshot: &Snapshot, plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, claim) in plan.claims.iter().enumerate() {
        let pool = &snapshot.pools[claim.pool];
        let name = format!("new-{at}");
        let broken = bought(claim, pool)
            .or_else(|| named(claim, pool))
            .or_else(|| asked(snapshot, claim))
            .or_else(|| missed(snapshot, claim, pool));
        findings.extend(broken.map(|found| finding(Rule::Purchase, &name, found)));
        let values = starved(policy, claim, pool);
        findings.extend(values.map(|found| finding(Rule::MinValues, &name, found)));
    }
    findings
}

/// The planned offering is there, is the cheapest of its type, and its type comes first.
fn bought(claim: &NewClaim, pool: &Pool) -> Option<String> {
    let planned = &claim.cheapest;
    if claim.options.first().map(|first| *first as usize) != Some(planned.instance_type) {
        return Some("the planned type does not come first".to_owned());
    }
    let kind = pool.types.get(planned.instance_type)?;
    let mut offerings = kind.offerings.iter().filter(|offering| for_sale(claim, offering));
    let there = offerings.any(|offering| {
        offering.zone == planned.zone
            && offering.capacity_type == planned.capacity_type
            && offering.price == planned.price
    });
    if !there {
        return Some(format!(
            "{} cannot be had in {} as {}",
            kind.name, planned.zone, planned.capacity_type
        ));
    }
    (lowest(claim, kind).is_some_and(|lowest| lowest != rank(planned.price)))
        .then(|| format!("{} can be had for less", kind.name))
}

/// Prices in order; an unknown one is more than any.
fn rank(price: Option<Price>) -> (bool, Option<Price>) {
    (price.is_none(), price)
}

/// What a type costs at least, if it can be had at all.
fn lowest(claim: &NewClaim, kind: &InstanceType) -> Option<(bool, Option<Price>)> {
    let offerings = kind.offerings.iter().filter(|offering| for_sale(claim, offering));
    offerings.map(|offering| rank(offering.price)).min()
}

/// Every type that is named can be had with the labels that are asked for and no others than its pool allows, the cheapest
/// first.
fn named(claim: &NewClaim, pool: &Pool) -> Option<String> {
    let mut before = None;
    let pools = pool.requirements.iter();
    let differing: Vec<(&String, &Values)> = pools
        .filter(|(key, values)| claim.requirements.get(key) != Some(values))
        .collect();
    for option in &claim.options {
        let Some(kind) = pool.types.get(*option as usize) else {
            return Some("no such type".to_owned());
        };
        let Some(price) = lowest(claim, kind) else {
            return Some(format!("{} cannot be had", kind.name));
        };
        if before.is_some_and(|before| price < before) {
            return Some(format!("{} is cheaper than the one before it", kind.name));
        }
        before = Some(price);
        let clash = |(key, asked): (&String, &Values)| {
            let own = kind.requirements.get(key)?;
            let states = telling_states([own, asked].into_iter());
            let both =
                |state: &Option<String>| allows(own, state.as_deref()) && allows(asked, state.as_deref());
            (!states.iter().any(both)).then(|| format!("{} never has the {key} that is asked for", kind.name))
        };
        let left_open = |(key, values): &(&String, &Values)| {
            let ruled_out = |state: &Option<String>| !allows(values, state.as_deref());
            let state = states(claim, kind, key, values).into_iter().find(ruled_out)?;
            let state = state.as_deref().unwrap_or("absent");
            Some(format!(
                "{} may have the {key} {state}, which its pool rules out",
                kind.name
            ))
        };
        let found = claim.requirements.iter().find_map(clash);
        if let Some(found) = found.or_else(|| differing.iter().find_map(left_open)) {
            return Some(found);
        }
    }
    None
}

/// What a label may be on one of a claim's types, as far as that tells anything beside what its pool says.
fn states(claim: &NewClaim, kind: &InstanceType, key: &str, pools: &Values) -> BTreeSet<Option<String>> {
    let offerings = kind.offerings.iter().filter(|offering| for_sale(claim, offering));
    match key {
        ZONE => offerings.map(|offering| Some(offering.zone.clone())).collect(),
        CAPACITY_TYPE => offerings
            .map(|offering| Some(offering.capacity_type.to_string()))
            .collect(),
        _ => {
            let said = [kind.requirements.get(key), claim.requirements.get(key)];
            let said = said.into_iter().flatten();
            let mut states = telling_states(said.clone().chain([pools]));
            states.retain(|state| said.clone().all(|values| allows(values, state.as_deref())));
            states
        }
    }
}

/// The pods of a claim.
fn pods<'a>(snapshot: &'a Snapshot, claim: &'a NewClaim) -> impl Iterator<Item = &'a Pod> {
    let classes = claim.pods.iter().map(|pod| snapshot.pending.members[*pod].class);
    classes.filter_map(|class| snapshot.pending.classes[class].as_ref().ok())
}

fn total(snapshot: &Snapshot, claim: &NewClaim) -> Resources {
    let mut total = Resources::new();
    pods(snapshot, claim).for_each(|pod| total.add(&pod.requests));
    total
}

/// A type that costs less than the planned one, would do as well, and is not named. Looked at where nothing but labels and
/// room decides: without limits, daemons and volumes.
fn missed(snapshot: &Snapshot, claim: &NewClaim, pool: &Pool) -> Option<String> {
    let plain = pool.limits.is_none() && snapshot.daemons.is_empty();
    if !plain || pods(snapshot, claim).any(|pod| !pod.volumes.is_empty()) {
        return None;
    }
    let total = total(snapshot, claim);
    let would_do = |(at, kind): &(usize, &InstanceType)| {
        let mut asked = total.iter();
        if claim.options.iter().any(|option| *option as usize == *at)
            || asked.any(|(name, amount)| *amount > kind.allocatable.get(name).max(0))
            || lowest(claim, kind).is_none_or(|lowest| lowest >= rank(claim.cheapest.price))
        {
            return false;
        }
        let as_this = NewClaim {
            options: u32::try_from(*at).into_iter().collect(),
            ..claim.clone()
        };
        let labels = Labels::of_claim("new".to_owned(), &as_this, pool);
        let welcome = |pod: &Pod| pod.node_terms.iter().any(|term| labels.meet(term));
        named(&as_this, pool).is_none()
            && labels.meet(&claim.requirements)
            && pods(snapshot, claim).all(welcome)
    };
    let found = pool.types.iter().enumerate().find(would_do);
    found.map(|(_, kind)| format!("{} would do for less", kind.name))
}

/// The claim asks for at least what its pods ask for.
fn asked(snapshot: &Snapshot, claim: &NewClaim) -> Option<String> {
    let total = total(snapshot, claim);
    let mut amounts = total.iter();
    amounts
        .find(|(name, amount)| claim.requests.get(name) < **amount)
        .map(|(name, amount)| format!("its pods ask for {amount} of {name}, and it asks for less"))
}

/// What is wrong with how many values stay possible, or with how many of them launch is asked for. A claim may say that it
/// gives some up only where the policy allows it, whether or not it really does; what it still asks for must be there to
/// choose from.
fn starved(policy: MinValuesPolicy, claim: &NewClaim, pool: &Pool) -> Option<String> {
    let (asked, pools) = (claim.requirements.min_values(), pool.requirements.min_values());
    match (claim.min_values, policy) {
        (MinValues::Kept, _) => too_few(claim, pool, pools).or_else(|| asked_otherwise(asked, pools)),
        (MinValues::Relaxed, MinValuesPolicy::BestEffort) => too_few(claim, pool, asked),
        (MinValues::Relaxed, MinValuesPolicy::Strict) => {
            Some("values are given up, and the policy is strict".to_owned())
        }
    }
}

/// How many different values of a label must stay possible, by label.
type Least = BTreeMap<String, u32>;

/// A label of which a claim asks for another number of values than its pool.
fn asked_otherwise(asked: &Least, pools: &Least) -> Option<String> {
    let mut keys = asked.keys().chain(pools.keys());
    let key = keys.find(|key| asked.get(*key) != pools.get(*key))?;
    let of = |all: &Least| all.get(key).copied().unwrap_or_default();
    Some(format!(
        "it asks for {} values of {key}, and its pool for {}",
        of(asked),
        of(pools)
    ))
}

/// A label of which fewer values stay possible than are asked for.
fn too_few(claim: &NewClaim, pool: &Pool, asked_for: &Least) -> Option<String> {
    for (key, least) in asked_for {
        let mut found: BTreeSet<&str> = BTreeSet::new();
        for kind in options(claim, pool) {
            let offerings = kind.offerings.iter().filter(|offering| for_sale(claim, offering));
            match key.as_str() {
                ZONE => found.extend(offerings.map(|offering| offering.zone.as_str())),
                CAPACITY_TYPE => found.extend(offerings.map(|offering| offering.capacity_type.as_str())),
                _ => {
                    let values = kind.requirements.get(key).and_then(Values::listed);
                    let asked = claim.requirements.get(key);
                    let allowed = |value: &&str| asked.is_none_or(|asked| allows(asked, Some(value)));
                    found.extend(values.into_iter().flatten().map(String::as_str).filter(allowed));
                }
            }
        }
        if found.len() < *least as usize {
            return Some(format!(
                "{} values of {key}, and {least} are asked for",
                found.len()
            ));
        }
    }
    None
}
