//! What can be bought for each pool now. A pool whose class cannot be used, or not be read, is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use tokio::time::Instant;

use super::Error;
use crate::api::{IBMNodeClass, NodePool};
use crate::cloud::{self, Subnet};
use crate::cluster::Types;
use crate::controllers::capacity;
use crate::controllers::context::Context;
use crate::controllers::node_class::Resolved;
use crate::controllers::node_pool::readiness::{self, Verdict, judge};
use crate::model::offerings::types_for;
use crate::model::{ClassFacts, DiscountFactors, InstanceType, Kind, Withheld};
use crate::panics::caught;

/// How old the count of free addresses may be: launch counts them once more.
const FRESH: Duration = Duration::from_secs(10);

/// What was read of subnets, by network, and the last price list of each class. A restart forgets both, which costs reads.
#[derive(Default)]
pub(super) struct Catalog {
    /// Whether somebody found nothing in it the last time.
    is_doubted: bool,
    subnets: BTreeMap<String, (Instant, Arc<Vec<Subnet>>)>,
    lists: BTreeMap<String, PriceList>,
}

/// What can be bought for a class, with all that it was made from. Passes are frequent and most of them change none of
/// it, while a list of all profiles costs more than most plans.
struct PriceList {
    facts: ClassFacts,
    kinds: Arc<Vec<Kind>>,
    /// What is in force: one whose time was over would make this list older than it looks.
    withheld: Arc<Withheld>,
    factors: DiscountFactors,
    types: Arc<Vec<InstanceType>>,
}

/// What can be bought for pods.
#[derive(Debug, Default)]
pub(super) struct Sold {
    /// The types of each pool from which nodes are made.
    pub(super) types: Types,
    /// The other pools, with what keeps nodes from being made from them.
    pub(super) closed: Vec<(String, String)>,
}

impl Catalog {
    /// What can be bought from each pool that makes nodes for pods.
    pub(super) async fn read(&mut self, context: &Context) -> Result<Sold, Error> {
        let (pools, closed) = usable(context);
        let mut all = Sold {
            types: Types::new(),
            closed,
        };
        if pools.is_empty() {
            return Ok(all);
        }
        let kinds = self.kinds(context).await?;
        context.unavailable.known().await;
        let now = context.clock.now();
        let withheld = Arc::new(context.unavailable.snapshot(now).ok_or(Error::HoldsUnknown)?);
        let factors = context.discounts.current();
        let mut by_class: BTreeMap<String, Arc<Vec<InstanceType>>> = BTreeMap::new();
        for (pool, class) in pools {
            let name = class.name_any();
            if !by_class.contains_key(&name) {
                let Some(subnets) = self.subnets(context, &class).await else {
                    let why = format!("the subnets of IBMNodeClass {name} cannot be read now");
                    all.closed.push((pool.name_any(), why));
                    continue;
                };
                // One that cannot be priced closes its pools, and no others.
                let priced = caught(|| {
                    let class = taught(context, class, &kinds);
                    let resolved = Resolved::new(class, None, &context.settings.allowed);
                    let facts = resolved.facts(resolved.subnets(&subnets, &BTreeSet::new()));
                    self.sold(&name, facts, &kinds, &withheld, &factors, now)
                });
                match priced {
                    Ok(sold) => {
                        by_class.insert(name.clone(), sold);
                    }
                    Err(panicked) => {
                        tracing::error!(class = name, error = %panicked, "what is sold to it cannot be listed");
                        context.metrics.panicked("provisioning");
                        let why = format!("nothing can be bought for IBMNodeClass {name}: {panicked}");
                        all.closed.push((pool.name_any(), why));
                        continue;
                    }
                }
            }
            if let Some(sold) = by_class.get(&name) {
                all.types.insert(pool.name_any(), sold.clone());
            }
        }
        self.lists.retain(|name, _| by_class.contains_key(name));
        Ok(all)
    }

    /// What is sold. Where pods were left out, that may be because something was withdrawn for some minutes when it was read.
    async fn kinds(&self, context: &Context) -> Result<Arc<Vec<Kind>>, cloud::Error> {
        if self.is_doubted {
            context.cloud.recent_kinds().await
        } else {
            context.cloud.kinds().await
        }
    }

    /// Takes note of whether the last plan had a place for everybody.
    pub(super) fn doubt(&mut self, left_out: bool) {
        self.is_doubted = left_out;
    }

    /// The types of a class, made anew only where something is not as it was.
    fn sold(
        &mut self,
        class: &str,
        mut facts: ClassFacts,
        kinds: &Arc<Vec<Kind>>,
        withheld: &Arc<Withheld>,
        factors: &DiscountFactors,
        now: Timestamp,
    ) -> Arc<Vec<InstanceType>> {
        // With every machine there is one address less; offerings ask only whether there is one.
        for subnet in &mut facts.subnets {
            subnet.free = subnet.free.min(1);
        }
        let is_current = |list: &&PriceList| {
            let same_kinds = Arc::ptr_eq(&list.kinds, kinds);
            same_kinds && list.facts == facts && list.withheld == *withheld && list.factors == *factors
        };
        if let Some(list) = self.lists.get(class).filter(is_current) {
            return list.types.clone();
        }
        let types = Arc::new(types_for(&facts, kinds, withheld, factors, now));
        let list = PriceList {
            facts,
            kinds: kinds.clone(),
            withheld: withheld.clone(),
            factors: factors.clone(),
            types: types.clone(),
        };
        self.lists.insert(class.to_owned(), list);
        types
    }

    async fn subnets(&mut self, context: &Context, class: &IBMNodeClass) -> Option<Arc<Vec<Subnet>>> {
        let (vpc, now) = (&class.spec.vpc, context.clock.instant());
        let fresh = context.clock.real(FRESH);
        if let Some((at, subnets)) = self.subnets.get(vpc)
            && now.saturating_duration_since(*at) < fresh
        {
            return Some(subnets.clone());
        }
        match context.cloud.subnets(vpc).await {
            Ok(subnets) => {
                let subnets = Arc::new(subnets);
                self.subnets.insert(vpc.clone(), (now, subnets.clone()));
                Some(subnets)
            }
            Err(error) => {
                tracing::warn!(%error, class = class.name_any(), "nothing is planned for the pools of a class");
                None
            }
        }
    }
}

/// Pools, by name, that make no nodes now, and why.
type Closed = Vec<(String, String)>;

/// The pools that make nodes for pods, each with its class, and those that would but for some reason.
fn usable(context: &Context) -> (Vec<(NodePool, IBMNodeClass)>, Closed) {
    let (mut ready, mut closed) = (Vec::new(), Vec::new());
    context.cluster.with(|index| {
        let dynamic = index.pools.iter();
        for (name, pool) in dynamic.filter(|(_, pool)| pool.spec.replicas.is_none()) {
            let class = index.classes.get(&pool.spec.template.spec.node_class_ref.name);
            let verdict = judge(pool, class);
            match (readiness::closed(pool, &verdict), class) {
                (Some(why), _) => closed.push((name.clone(), why)),
                (None, Some(class)) if verdict == Verdict::Ready => {
                    match context.settings.allowed.refusal(class) {
                        // Ready by the lists of the last life, perhaps: before it is judged anew the cloud is not asked about it.
                        Some(why) => closed.push((name.clone(), why)),
                        None => ready.push((pool.clone(), class.clone())),
                    }
                }
                _ => {}
            }
        }
    });
    (ready, closed)
}

/// The class with what its nodes say now, written or not: whoever was bought in vain is not bought again.
fn taught(context: &Context, mut class: IBMNodeClass, kinds: &[Kind]) -> IBMNodeClass {
    let learnt = context
        .cluster
        .with(|index| capacity::learnt(&class, index, kinds));
    if let Some(status) = &mut class.status {
        status.observed_capacity = Some(learnt);
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{CapacityType, OfferingKey};
    use crate::model::{Sold, SubnetFacts};

    fn kinds() -> Arc<Vec<Kind>> {
        let kind = Kind {
            name: "bx2-2x8".to_owned(),
            family: "bx2".to_owned(),
            size: "2x8".to_owned(),
            arch: "amd64".to_owned(),
            vcpu: 2,
            memory_bytes: 8 << 30,
            gpus: None,
            bandwidth_mbps: None,
            local_disks: Vec::new(),
            zones: ["us-south-1".to_owned()].into(),
            spot: Sold::Yes,
            on_demand: Sold::Yes,
            spot_price: None,
            on_demand_price: None,
        };
        Arc::new(vec![kind])
    }

    fn facts(free: u64) -> ClassFacts {
        let subnet = SubnetFacts {
            id: "subnet".to_owned(),
            zone: "us-south-1".to_owned(),
            free,
        };
        ClassFacts {
            subnets: vec![subnet],
            arch: "amd64".to_owned(),
            ..ClassFacts::default()
        }
    }

    #[test]
    fn a_price_list_serves_until_something_of_it_changes() {
        let (kinds, withheld, factors) = (kinds(), Arc::default(), DiscountFactors::default());
        let mut catalog = Catalog::default();
        let mut list = |class: &str, free| {
            let now = Timestamp::UNIX_EPOCH;
            catalog.sold(class, facts(free), &kinds, &withheld, &factors, now)
        };
        let first = list("a", 9);
        assert!(!Arc::ptr_eq(&first, &list("b", 9)));
        assert!(Arc::ptr_eq(&first, &list("a", 8)), "there are addresses still");
    }

    #[test]
    fn an_address_a_profile_a_hold_and_a_factor_make_another_price_list() {
        let (kinds, withheld, factors) = (kinds(), Arc::default(), DiscountFactors::default());
        let now = Timestamp::UNIX_EPOCH;
        let others = Arc::new(Vec::clone(&kinds));
        let held = OfferingKey::all(CapacityType::Spot);
        let held = Arc::new(Withheld::nothing().with(held, Timestamp::MAX, "Quota"));
        let set = DiscountFactors::parse(["bx2=0.5"]).unwrap();
        for (facts_then, kinds_then, withheld_then, factors_then) in [
            (facts(0), &kinds, &withheld, &factors),
            (facts(9), &others, &withheld, &factors),
            (facts(9), &kinds, &held, &factors),
            (facts(9), &kinds, &withheld, &set),
        ] {
            let mut catalog = Catalog::default();
            let first = catalog.sold("a", facts(9), &kinds, &withheld, &factors, now);
            let then = catalog.sold("a", facts_then, kinds_then, withheld_then, factors_then, now);
            assert!(!Arc::ptr_eq(&first, &then));
        }
    }
}
