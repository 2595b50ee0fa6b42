//! The NodeClaim that a plan asks for. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::api::{NODE_POOL_HASH_VERSION, NodeClaim, NodeClaimSpec, NodePool, ResourceRequirements, names};
use crate::hash::fnv1a;
use crate::model::pod::NODE_NAME;
use crate::model::requirements::Meaningless;
use crate::model::{Requirements, Values};
use crate::quantity::{Notation, Quantity, WrittenQuantity};
use crate::resources::{CPU, Resources};
use crate::scheduling::MinValues;

/// A claim's name is its node's, and a node's name is a label's value: at most 63 characters, of which the hash takes 11.
const POOL_PART_MAX: usize = 52;

/// What a claim is made for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// What labels its node must have, besides what the pool says.
    pub requirements: Requirements,
    /// The types that launch may choose from; all if there are none.
    pub types: Vec<String>,
    /// What must fit.
    pub requests: Resources,
    /// The pods, by uid.
    pub pods: Vec<String>,
    /// Whether the number of different values that the pool asks for was given up.
    pub min_values: Option<MinValues>,
}

/// Why a pool cannot be made a claim from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// A requirement of the pool has no meaning.
    #[error(transparent)]
    Requirement(#[from] Meaningless),
}

/// The name of a claim of `pool` that is told from others by `identity`: the same for whoever makes it.
pub fn name_for(pool: &NodePool, identity: &str) -> String {
    let name = pool.name_any();
    let part: String = name.chars().take(POOL_PART_MAX).collect();
    let part = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let told_from = format!("{}\n{name}\n{identity}", pool.uid().unwrap_or_default());
    let hash = fnv1a(told_from.as_bytes());
    // 40 bits: ten digits.
    format!("{part}-{:010x}", hash >> 24)
}

/// The claim.
pub fn manifest(pool: &NodePool, name: String, wanted: &Wanted) -> Result<NodeClaim, ClaimError> {
    let template = &pool.spec.template;
    let requirements = requirements(pool, wanted)?;
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut labels = chosen_labels(&requirements);
    labels.extend(metadata.labels.unwrap_or_default());
    labels.insert(names::NODE_POOL.to_owned(), pool.name_any());
    labels.insert(
        names::NODE_CLASS.to_owned(),
        template.spec.node_class_ref.name.clone(),
    );
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.extend(own_annotations(pool, wanted));
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: Some(vec![owner(pool)]),
        ..ObjectMeta::default()
    };
    let spec = NodeClaimSpec {
        requirements: requirements.to_api(),
        resources: Some(ResourceRequirements {
            requests: Some(written(&wanted.requests)),
        }),
        node_class_ref: template.spec.node_class_ref.clone(),
        taints: template.spec.taints.clone(),
        startup_taints: template.spec.startup_taints.clone(),
        expire_after: Some(pool.spec.expire_after().to_owned()),
        termination_grace_period: template.spec.termination_grace_period.clone(),
    };
    Ok(NodeClaim {
        metadata,
        spec,
        status: None,
    })
}

/// What the pool requires and what its pods do, but for what only a node that is there can have, and for labels that pods
/// do without and the pool says nothing of: no node of it has them. To say so changes nothing, and a claim may neither name
/// labels in Karpenter's own domain nor make more than a hundred requirements, so it would be refused for them, and with it
/// every other pod that it is made for.
fn requirements(pool: &NodePool, wanted: &Wanted) -> Result<Requirements, ClaimError> {
    let own = Requirements::from_api(&pool.spec.template.spec.requirements)?;
    let mut all = own.and(&wanted.requirements);
    if !wanted.types.is_empty() {
        all.narrow(names::INSTANCE_TYPE, &Values::one_of(wanted.types.clone()));
    }
    let is_said = |key: &str| own.get(key).is_some() || names::WELL_KNOWN_LABELS.contains(&key);
    let needless = wanted
        .requirements
        .iter()
        .filter(|(key, values)| !is_said(key) && values.allows_absence())
        .map(|(key, _)| key.as_str());
    let of_nodes = [names::HOSTNAME, NODE_NAME, names::REGISTERED, names::INITIALIZED];
    let left_out: Vec<&str> = needless.chain(of_nodes).collect();
    Ok(all.without(&left_out))
}

/// Labels that are the user's own need a value, and somebody must choose it: nobody else will.
fn chosen_labels(requirements: &Requirements) -> BTreeMap<String, String> {
    let own = requirements
        .iter()
        .filter(|(key, _)| !names::WELL_KNOWN_LABELS.contains(&key.as_str()) && *key != names::NODE_CLASS);
    let chosen = own.filter_map(|(key, values)| Some((key.clone(), any_of(values)?)));
    chosen.collect()
}

fn any_of(values: &Values) -> Option<String> {
    if let Some(listed) = values.listed() {
        return listed.first().cloned();
    }
    if values.allows_absence() {
        return None;
    }
    let (least, most) = values.bounds();
    let numbers = (0_i64..=100).filter_map(|by| match (least, most) {
        (Some(least), _) => least.checked_add(by),
        (None, Some(most)) => most.checked_sub(by),
        (None, None) => Some(by),
    });
    numbers
        .map(|number| number.to_string())
        .find(|value| values.allows(value))
}

fn own_annotations(pool: &NodePool, wanted: &Wanted) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = [
        (names::NODE_POOL_HASH.to_owned(), pool.hash()),
        (
            names::NODE_POOL_HASH_VERSION.to_owned(),
            NODE_POOL_HASH_VERSION.to_owned(),
        ),
    ]
    .into();
    if let Some(min_values) = wanted.min_values {
        let relaxed = min_values == MinValues::Relaxed;
        all.insert(names::MIN_VALUES_RELAXED.to_owned(), relaxed.to_string());
    }
    if !wanted.pods.is_empty() {
        all.insert(names::NOMINATED_PODS.to_owned(), wanted.pods.join(","));
    }
    all
}

/// The pool: its claims go when it goes.
fn owner(pool: &NodePool) -> OwnerReference {
    OwnerReference {
        api_version: NodePool::api_version(&()).into_owned(),
        kind: NodePool::kind(&()).into_owned(),
        name: pool.name_any(),
        uid: pool.uid().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

/// Amounts as they are written in manifests.
pub fn written(amounts: &Resources) -> BTreeMap<String, WrittenQuantity> {
    let quantity = |name: &str, amount: i64| {
        const MILLI: i128 = 1_000_000;
        if name == CPU {
            return Quantity::from_nanos(i128::from(amount) * MILLI, Notation::Decimal);
        }
        let nanos = i128::from(amount) * 1_000_000_000;
        let is_binary = ["memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
        let notation = if is_binary {
            Notation::Binary
        } else {
            Notation::Decimal
        };
        Quantity::from_nanos(nanos, notation)
    };
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), quantity(name, *amount).into()))
        .collect()
}
