//! A second look at the claims that pods led to: they and the pods that they name are taken for one plan, which the audit
//! judges as it judges every plan. Whoever came so late that no claim names it must have room on what is claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use karpenter_ibm::api::names::{CAPACITY_TYPE, INSTANCE_TYPE, NOMINATED_PODS, ZONE};
use karpenter_ibm::api::{IBMNodeClass, NodeClaim, NodePool};
use karpenter_ibm::audit;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::cluster::{Index, Types};
use karpenter_ibm::controllers::node_class::{AllowLists, Resolved};
use karpenter_ibm::entropy::Entropy;
use karpenter_ibm::ibm::Transports;
use karpenter_ibm::ibm::secret::Secret;
use karpenter_ibm::model::offerings::types_for;
use karpenter_ibm::model::{InstanceType, Requirements, Snapshot, Withheld};
use karpenter_ibm::operator::{self, Edges, RawSettings, Settings};
use karpenter_ibm::resources::Resources;
use karpenter_ibm::scheduling::{
    Cheapest, Destination, MinValues, NewClaim, Options, Placement, Plan, solve,
};
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::place::Place;

/// Looks at all claims that so many pods led to.
pub(crate) async fn look(place: &Place, pods: usize) -> Result<()> {
    let (mut index, now) = (Index::default(), Clock::system().now());
    for pod in all::<Pod>(place).await? {
        index.apply_pod(&pod);
    }
    for class in all::<IBMNodeClass>(place).await? {
        index.apply(&class);
    }
    let mut types = Types::new();
    for pool in all::<NodePool>(place).await? {
        let class = index.classes.get(&pool.spec.template.spec.node_class_ref.name);
        let class = class.context("a pool has no class")?.clone();
        types.insert(pool.name_any(), Arc::new(sold(place, class).await?));
        index.apply(&pool);
    }
    let claims = all::<NodeClaim>(place).await?;
    let named: BTreeSet<&str> = claims.iter().flat_map(uids).collect();
    let waiting = index.pods.waiting().map(|(uid, _)| uid);
    let late: BTreeSet<String> = waiting
        .filter(|uid| !named.contains(uid.as_str()))
        .cloned()
        .collect();

    // Before there were claims.
    let snapshot = index.situation(&types, &late, now).snapshot;
    let counted = snapshot.pending.members.len() + late.len();
    ensure!(counted == pods, "{counted} of {pods} pods wait");
    judge(&snapshot, &plan_of(&snapshot, &claims)?)?;

    for claim in &claims {
        index.apply(claim);
    }
    let snapshot = index.situation(&types, &BTreeSet::new(), now).snapshot;
    let plan = solve(&snapshot, Options::default(), &|| true);
    ensure!(
        plan.claims.is_empty() && plan.left_out.is_empty(),
        "of {} pods that came late some have no place",
        late.len()
    );
    judge(&snapshot, &plan)
}

fn judge(snapshot: &Snapshot, plan: &Plan) -> Result<()> {
    let findings = audit::plan(snapshot, plan);
    ensure!(findings.is_empty(), "what is claimed is not legal: {findings:?}");
    Ok(())
}

async fn all<K>(place: &Place) -> Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::all(place.client.clone());
    Ok(api.list(&ListParams::default()).await?.items)
}

/// What the account sells to a class, read as the operator reads it.
async fn sold(place: &Place, class: IBMNodeClass) -> Result<Vec<InstanceType>> {
    let settings = Settings::validate(&RawSettings {
        api_key: Some(Secret::new("demo-api-key".to_owned())),
        region: Some(class.spec.region.clone()),
        ..RawSettings::default()
    })?;
    let exchange = Arc::new(place.cloud.exchange());
    let edges = Edges {
        kube: place.client.clone(),
        ibm: Transports {
            cloud: exchange.clone(),
            metadata: exchange,
        },
        clock: Clock::system(),
        entropy: Entropy::seeded(1),
        registry: prometheus::Registry::new(),
        stop: CancellationToken::new(),
    };
    let context = operator::context(&settings, edges)?;
    let subnets = context.cloud.subnets(&class.spec.vpc).await?;
    let resolved = Resolved::new(class, None, &AllowLists::default());
    let facts = resolved.facts(resolved.subnets(&subnets, &BTreeSet::new()));
    let (kinds, factors) = (context.cloud.kinds().await?, context.discounts.current());
    Ok(types_for(
        &facts,
        &kinds,
        &Withheld::default(),
        &factors,
        context.clock.now(),
    ))
}

/// The plan that claims were made by, as far as they say.
fn plan_of(snapshot: &Snapshot, claims: &[NodeClaim]) -> Result<Plan> {
    let members = snapshot.pending.members.iter().enumerate();
    let pods: BTreeMap<&str, usize> = members.map(|(at, member)| (member.uid.as_str(), at)).collect();
    let mut plan = Plan::default();
    for claim in claims {
        let name = claim.name_any();
        plan.claims
            .push(new_claim(snapshot, claim, &pods).with_context(|| format!("claim {name}"))?);
    }
    // The first pod of each, then the second: so are pods spread that must not be two on a node before others have one.
    let most = plan.claims.iter().map(|claim| claim.pods.len()).max();
    for nth in 0..most.unwrap_or_default() {
        for (at, claim) in plan.claims.iter().enumerate() {
            let pod = claim.pods.get(nth);
            plan.placements.extend(pod.map(|pod| Placement {
                pod: *pod,
                on: Destination::New(at),
            }));
        }
    }
    Ok(plan)
}

/// What a claim was before it was made, from the one pool that there is.
fn new_claim(snapshot: &Snapshot, claim: &NodeClaim, pods: &BTreeMap<&str, usize>) -> Result<NewClaim> {
    let pool = snapshot.pools.first().context("there is no pool")?;
    let asked = Requirements::from_api(&claim.spec.requirements)?;
    let types = asked.get(INSTANCE_TYPE).context("it names no types")?;
    let requirements = asked.clone().without(&[INSTANCE_TYPE]);
    let allowed = |key: &str, value: &str| requirements.get(key).is_none_or(|it| it.allows(value));
    let mut options = Vec::new();
    for (kind, known) in pool.types.iter().enumerate() {
        let ways = known
            .available()
            .filter(|way| allowed(ZONE, &way.zone) && allowed(CAPACITY_TYPE, way.capacity_type.as_str()));
        // A price that nobody knows is more than any.
        let cheapest = ways.min_by_key(|way| (way.price.is_none(), way.price));
        options.extend(
            cheapest
                .filter(|_| types.allows(&known.name))
                .map(|way| (kind, way)),
        );
    }
    options.sort_by_key(|(_, way)| (way.price.is_none(), way.price));
    let (first, way) = options.first().context("no type is left")?;
    let cheapest = Cheapest {
        instance_type: *first,
        zone: way.zone.clone(),
        capacity_type: way.capacity_type,
        price: way.price,
    };
    let listed = types.listed().map_or(0, BTreeSet::len);
    ensure!(
        options.len() == listed,
        "of {listed} types {} are sold",
        options.len()
    );
    let requests = claim.spec.resources.as_ref().and_then(|it| it.requests.as_ref());
    let written = serde_json::to_value(requests.context("it asks for nothing")?)?;
    let named = uids(claim).map(|uid| {
        pods.get(uid)
            .copied()
            .context("it names a pod that does not wait")
    });
    Ok(NewClaim {
        pool: 0,
        requirements,
        requests: Resources::parse(&serde_json::from_value(written)?)?,
        pods: named.collect::<Result<_>>()?,
        options: options
            .iter()
            .map(|(kind, _)| u32::try_from(*kind))
            .collect::<Result<_, _>>()?,
        cheapest,
        min_values: MinValues::Kept,
    })
}

/// The pods that a claim was made for.
fn uids(claim: &NodeClaim) -> impl Iterator<Item = &str> {
    let named = claim.annotations().get(NOMINATED_PODS);
    named.into_iter().flat_map(|uids| uids.split(','))
}
