//! A NodePool as the scheduler sees it: a template of nodes, and the types they can be of.

use std::sync::Arc;

use super::instance_type::InstanceType;
use super::node::limits;
use super::requirements::{Meaningless, Requirements};
use super::taint::Taint;
use super::values::Values;
use crate::api::NodePool;
use crate::api::names::{NODE_CLASS, NODE_POOL};
use crate::resources::Resources;

/// A template of nodes.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Those with more are tried first.
    pub weight: i64,
    /// What the labels of its nodes can be: its requirements, its labels, its own name and its class's.
    pub requirements: Requirements,
    /// The taints of its nodes. Startup taints are not among them: they go before pods arrive.
    pub taints: Vec<Taint>,
    /// What all its nodes may have together; `nodes` counts them.
    pub limits: Option<Resources>,
    /// The types its nodes can be of.
    pub types: Arc<Vec<InstanceType>>,
}

impl Pool {
    /// That of the API, with the types that its class offers.
    pub fn from_api(pool: &NodePool, types: Arc<Vec<InstanceType>>) -> Result<Self, Meaningless> {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let template = &pool.spec.template;
        let mut requirements = Requirements::from_api(&template.spec.requirements)?;
        let labels = template
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.labels.as_ref());
        if let Some(labels) = labels {
            requirements = requirements.and(&Requirements::from_labels(labels));
        }
        requirements.narrow(NODE_POOL, &Values::one_of([name.as_str()]));
        let class = template.spec.node_class_ref.name.as_str();
        requirements.narrow(NODE_CLASS, &Values::one_of([class]));
        Ok(Self {
            name,
            weight: pool.spec.weight.unwrap_or_default(),
            requirements,
            taints: template
                .spec
                .taints
                .iter()
                .flatten()
                .filter_map(Taint::from_api)
                .collect(),
            limits: limits(pool),
            types,
        })
    }
}
