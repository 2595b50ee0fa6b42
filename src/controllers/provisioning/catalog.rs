//! What can be bought for each pool now. A pool whose class cannot be used, or not be read, is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use tokio::time::Instant;

use super::Error;
use crate::api::{IBMNodeClass, NodePool};
use crate::cloud::Subnet;
use crate::cluster::Types;
use crate::controllers::capacity;
use crate::controllers::context::Context;
use crate::controllers::node_class::Resolved;
use crate::controllers::node_pool::readiness::{Verdict, judge};
use crate::model::offerings::types_for;
use crate::model::{InstanceType, Kind};

/// How old the count of free addresses may be: launch counts them once more.
const FRESH: Duration = Duration::from_secs(10);

/// What was read of subnets, by network. A restart forgets it, which costs reads.
#[derive(Default)]
pub(super) struct Catalog {
    subnets: BTreeMap<String, (Instant, Arc<Vec<Subnet>>)>,
}

impl Catalog {
    /// The types of each pool from which nodes are made for pods.
    pub(super) async fn read(&mut self, context: &Context) -> Result<Types, Error> {
        let pools = usable(context);
        if pools.is_empty() {
            return Ok(Types::new());
        }
        let kinds = context.cloud.kinds().await?;
        context.unavailable.known().await;
        let now = context.clock.now();
        let withheld = context.unavailable.snapshot(now).ok_or(Error::HoldsUnknown)?;
        let factors = context.discounts.current();
        let mut by_class: BTreeMap<String, Arc<Vec<InstanceType>>> = BTreeMap::new();
        let mut types = Types::new();
        for (pool, class) in pools {
            let name = class.name_any();
            if !by_class.contains_key(&name) {
                let Some(subnets) = self.subnets(context, &class).await else {
                    continue;
                };
                let resolved = resolved(taught(context, class, &kinds));
                let facts = resolved.facts(resolved.subnets(&subnets, &BTreeSet::new()));
                let sold = types_for(&facts, &kinds, &withheld, &factors, now);
                by_class.insert(name.clone(), Arc::new(sold));
            }
            if let Some(sold) = by_class.get(&name) {
                types.insert(pool.name_any(), sold.clone());
            }
        }
        Ok(types)
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

/// The pools that make nodes for pods, each with its class.
fn usable(context: &Context) -> Vec<(NodePool, IBMNodeClass)> {
    context.cluster.with(|index| {
        let dynamic = index
            .pools
            .iter()
            .filter(|(_, pool)| pool.spec.replicas.is_none() && pool.metadata.deletion_timestamp.is_none());
        let ready = dynamic.filter_map(|(_, pool)| {
            let class = index.classes.get(&pool.spec.template.spec.node_class_ref.name);
            let Verdict::Ready = judge(pool, class) else {
                return None;
            };
            Some((pool.clone(), class?.clone()))
        });
        ready.collect()
    })
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

fn resolved(class: IBMNodeClass) -> Resolved {
    let resolution = class.resolution();
    Resolved {
        image: resolution.and_then(|it| it.resolved_image_id.clone()),
        resource_group: resolution.and_then(|it| it.resolved_resource_group_id.clone()),
        class,
    }
}
