//! A slow and simple judge of plans for these tests: it replays a plan pod by pod and looks at everything anew, with
//! strings and sets instead of the solver's bits.

use std::collections::BTreeMap;

use crate::api::names::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE};
use crate::model::pod::{Firmness, Inclusion};
use crate::model::taint::{Preferring, untolerated};
use crate::model::{HostPort, InstanceType, Pod, Snapshot, Values};
use crate::resources::Resources;
use crate::scheduling::{Destination, Plan};

/// A place as it fills up.
struct Place {
    name: String,
    /// What each label can be.
    labels: BTreeMap<String, Values>,
    taints: Vec<crate::model::Taint>,
    room: Resources,
    used: Resources,
    ports: Vec<HostPort>,
    pods: Vec<Pod>,
}

/// Panics unless a plan is legal.
pub(super) fn check(snapshot: &Snapshot, plan: &Plan) {
    every_pod_once(snapshot, plan);
    let mut places = places(snapshot, plan);
    let nodes = snapshot.nodes.len();
    for placement in &plan.placements {
        let at = match placement.on {
            Destination::Existing(node) => node,
            Destination::New(claim) => nodes + claim,
        };
        let member = &snapshot.pending.members[placement.pod];
        let pod = snapshot.pending.classes[member.class].as_ref().unwrap();
        let context = format!("{} on {}", member.name, places[at].name);
        alone(snapshot, &places[at], pod, &context);
        among_others(snapshot, &places, at, pod, &context);
        places[at].used.add(&pod.requests);
        places[at].ports.extend(pod.ports.iter().cloned());
        places[at].pods.push(pod.clone());
    }
    for place in &places {
        assert_eq!(place.used.shortage(&place.room), None, "{}", place.name);
    }
    limits(snapshot, plan);
}

fn every_pod_once(snapshot: &Snapshot, plan: &Plan) {
    let placed = plan.placements.iter().map(|placement| placement.pod);
    let left = plan.left_out.iter().flat_map(|left| left.pods.iter().copied());
    let mut all: Vec<usize> = placed.chain(left).collect();
    all.sort_unstable();
    assert_eq!(
        all,
        (0..snapshot.pending.members.len()).collect::<Vec<_>>(),
        "every pod once"
    );
    for (at, claim) in plan.claims.iter().enumerate() {
        let here = |placement: &&crate::scheduling::Placement| placement.on == Destination::New(at);
        let placed: Vec<usize> = plan
            .placements
            .iter()
            .filter(here)
            .map(|placement| placement.pod)
            .collect();
        assert_eq!(placed, claim.pods);
        assert!(!placed.is_empty(), "a claim for nobody");
    }
    for left in &plan.left_out {
        assert!(!left.refusals.is_empty(), "left out without a reason");
    }
}

fn places(snapshot: &Snapshot, plan: &Plan) -> Vec<Place> {
    let mut all = Vec::new();
    for node in &snapshot.nodes {
        let labels = node.label_states();
        let one = |(key, value): (String, String)| (key, Values::one_of([value]));
        let on = |member: &&crate::model::pod::Member| member.node.as_deref() == Some(&node.name);
        let pods = snapshot.bound.members.iter().filter(on);
        all.push(Place {
            name: node.name.clone(),
            labels: labels.into_iter().map(one).collect(),
            taints: node.taints.clone(),
            room: node.allocatable.clone(),
            used: node.used.clone(),
            ports: node.ports.clone(),
            pods: pods
                .map(|member| snapshot.bound.classes[member.class].clone().unwrap())
                .collect(),
        });
    }
    for (at, claim) in plan.claims.iter().enumerate() {
        let pool = &snapshot.pools[claim.pool];
        let kind = &pool.types[claim.cheapest.instance_type];
        assert_eq!(
            Some(claim.cheapest.instance_type),
            claim.options.first().map(|option| *option as usize),
            "the cheapest comes first"
        );
        let mut labels: BTreeMap<String, Values> = claim
            .requirements
            .iter()
            .map(|(key, values)| (key.clone(), values.clone()))
            .collect();
        for (key, values) in kind.requirements.iter() {
            let known = labels.entry(key.clone()).or_insert_with(Values::anything);
            *known = known.and(values);
            assert!(!known.is_never(), "{key} of {}", kind.name);
        }
        for (key, value) in [
            (ZONE, claim.cheapest.zone.as_str()),
            (CAPACITY_TYPE, claim.cheapest.capacity_type.as_str()),
            (INSTANCE_TYPE, kind.name.as_str()),
        ] {
            let known = labels.entry(key.to_owned()).or_insert_with(Values::anything);
            assert!(known.allows(value), "{key} {value}");
        }
        available(kind, claim, &labels);
        labels.insert(HOSTNAME.to_owned(), Values::one_of([format!("new-{at}")]));
        all.push(Place {
            name: format!("new-{at}"),
            labels,
            taints: pool.taints.clone(),
            room: kind.allocatable.clone(),
            used: Resources::new(),
            ports: Vec::new(),
            pods: Vec::new(),
        });
    }
    all
}

/// The chosen offering can be had, and no type that is offered can be had for less.
fn available(kind: &InstanceType, claim: &crate::scheduling::NewClaim, labels: &BTreeMap<String, Values>) {
    let allowed = |offering: &&crate::model::Offering| {
        let is = |key: &str, value: &str| labels.get(key).is_none_or(|values| values.allows(value));
        offering.is_available()
            && is(ZONE, &offering.zone)
            && is(CAPACITY_TYPE, offering.capacity_type.as_str())
    };
    let prices = kind
        .offerings
        .iter()
        .filter(allowed)
        .filter_map(|offering| offering.price);
    assert_eq!(prices.min(), claim.cheapest.price);
}

/// What a pod asks of its node alone.
fn alone(snapshot: &Snapshot, place: &Place, pod: &Pod, context: &str) {
    let taint = untolerated(&place.taints, &pod.tolerations, Preferring::Ignored);
    assert_eq!(taint, None, "{context}");
    let absent = Values::absent();
    let met = |term: &crate::model::Requirements| {
        term.iter().all(|(key, wanted)| {
            let offered = place.labels.get(key).unwrap_or(&absent);
            // A label that is not decided yet must be decided by what the claim requires, not by luck.
            offered.and(wanted) == *offered || offered.meets(wanted) && offered.listed().is_none()
        })
    };
    assert!(
        pod.node_terms.iter().any(met),
        "{context}: labels {:?}",
        place.labels
    );
    let conflict = crate::model::host_port::conflict(&pod.ports, &place.ports);
    assert_eq!(conflict, None, "{context}");
    for volume in &pod.volumes {
        let needs = snapshot.storage.needs(&pod.namespace, volume).unwrap();
        assert!(
            needs.nodes.is_empty() || needs.nodes.iter().any(met),
            "{context}: volume"
        );
    }
}

fn value<'p>(place: &'p Place, key: &str) -> Option<&'p str> {
    let values = place.labels.get(key)?.listed()?;
    (values.len() == 1)
        .then(|| values.first().map(String::as_str))
        .flatten()
}

/// What a pod asks of where others are, and others of where it is.
fn among_others(snapshot: &Snapshot, places: &[Place], at: usize, pod: &Pod, context: &str) {
    let names = &snapshot.namespaces;
    let selected = |term: &crate::model::pod::Term, other: &Pod| {
        term.namespaces.include(&other.namespace, names) && term.selector.matches(&other.labels)
    };
    let near = |key: &str| -> Vec<&Place> {
        let here = value(&places[at], key);
        places
            .iter()
            .filter(|place| here.is_some() && value(place, key) == here)
            .collect()
    };
    for term in &pod.anti_affinity {
        let others = near(&term.key);
        let mut others = others.iter().flat_map(|place| &place.pods);
        assert!(!others.any(|other| selected(term, other)), "{context}: too near");
    }
    for place in places {
        for other in &place.pods {
            for term in &other.anti_affinity {
                let together = value(place, &term.key).is_some()
                    && value(place, &term.key) == value(&places[at], &term.key);
                assert!(
                    !(together && selected(term, pod)),
                    "{context}: too near to one that minds"
                );
            }
        }
    }
    let everywhere = |term: &crate::model::pod::Term| {
        places
            .iter()
            .filter(|place| value(place, &term.key).is_some())
            .flat_map(|place| &place.pods)
            .any(|other| selected(term, other))
    };
    let first = pod
        .affinity
        .iter()
        .all(|term| selected(term, pod) && !everywhere(term));
    for term in &pod.affinity {
        assert!(
            value(&places[at], &term.key).is_some(),
            "{context}: nowhere by {}",
            term.key
        );
        let others = near(&term.key);
        let mut others = others.iter().flat_map(|place| &place.pods);
        assert!(
            first || others.any(|other| selected(term, other)),
            "{context}: alone"
        );
    }
    for spread in pod
        .spreads
        .iter()
        .filter(|spread| spread.firmness == Firmness::Required)
    {
        even(places, at, pod, spread, context);
    }
}

/// Over the values that some place has. Values that could be bought and are not yet in use count as empty only if the
/// solver said so, so they are not looked at here: that would allow less, never more.
fn even(places: &[Place], at: usize, pod: &Pod, spread: &crate::model::pod::Spread, context: &str) {
    let absent = Values::absent();
    let counts = |place: &&Place| {
        let met = |term: &crate::model::Requirements| {
            term.iter()
                .all(|(key, wanted)| place.labels.get(key).unwrap_or(&absent).meets(wanted))
        };
        let tolerated = untolerated(&place.taints, &pod.tolerations, Preferring::Ignored).is_none();
        (spread.node_affinity == Inclusion::Ignore || pod.node_terms.iter().any(met))
            && (spread.node_taints == Inclusion::Ignore || tolerated)
    };
    let mut by_value: BTreeMap<&str, i64> = BTreeMap::new();
    for place in places.iter().filter(counts) {
        let Some(value) = value(place, &spread.key) else {
            continue;
        };
        let here = place
            .pods
            .iter()
            .filter(|other| other.namespace == pod.namespace && spread.selector.matches(&other.labels));
        *by_value.entry(value).or_default() += i64::try_from(here.count()).unwrap();
    }
    let here =
        value(&places[at], &spread.key).unwrap_or_else(|| panic!("{context}: nowhere by {}", spread.key));
    let domains = u32::try_from(by_value.len()).unwrap();
    let least = if spread.key == HOSTNAME || spread.min_domains.is_some_and(|least| domains < least) {
        0
    } else {
        by_value.values().copied().min().unwrap_or(0)
    };
    let itself = i64::from(spread.selector.matches(&pod.labels));
    let skew = by_value.get(here).copied().unwrap_or(0) + itself - least;
    assert!(
        skew <= spread.max_skew,
        "{context}: skew {skew} over {} ({by_value:?})",
        spread.key
    );
}

fn limits(snapshot: &Snapshot, plan: &Plan) {
    for (at, pool) in snapshot.pools.iter().enumerate() {
        let Some(limits) = &pool.limits else { continue };
        let mut total = Resources::new();
        for node in snapshot
            .nodes
            .iter()
            .filter(|node| node.pool.as_deref() == Some(&pool.name))
        {
            total.add(&node.capacity);
            total.add(&Resources::new().with("nodes", 1));
        }
        let before = total.clone();
        for claim in plan.claims.iter().filter(|claim| claim.pool == at) {
            total.add(&pool.types[claim.cheapest.instance_type].capacity);
            total.add(&Resources::new().with("nodes", 1));
        }
        for (name, limit) in limits {
            let allowed = (*limit).max(before.get(name));
            assert!(
                total.get(name) <= allowed,
                "{name} of {} exceeds {limit}",
                pool.name
            );
        }
    }
}
