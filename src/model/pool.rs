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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::names::CAPACITY_TYPE;
    use crate::model::Effect;

    fn read(template: &Value) -> Result<Pool, Meaningless> {
        let mut spec = json!({"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "fast"}}}});
        json_patch::merge(&mut spec["template"], template);
        let pool = json!({"metadata": {"name": "blue"}, "spec": spec});
        Pool::from_api(&serde_json::from_value(pool).unwrap(), Arc::default())
    }

    #[test]
    fn its_nodes_have_its_taints_and_none_that_go_before_pods_arrive() {
        let pool = read(&json!({"spec": {
            "taints": [{"key": "team", "value": "red", "effect": "NoSchedule"}, {"key": "odd", "effect": "Sometimes"}],
            "startupTaints": [{"key": "begin", "effect": "NoExecute"}],
        }}));
        let team = Taint::new("team", "red", Effect::parse("NoSchedule").unwrap());
        assert_eq!(pool.unwrap().taints, [team], "and no effect that nobody knows");
        assert_eq!(read(&json!({})).unwrap().taints, []);
    }

    #[test]
    fn its_nodes_have_its_labels_its_name_and_its_class_beside_what_it_requires() {
        let pool = read(&json!({
            "metadata": {"labels": {"team": "red"}},
            "spec": {"requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": ["spot"]}]},
        }))
        .unwrap();
        for (key, value) in [
            ("team", "red"),
            (NODE_POOL, "blue"),
            (NODE_CLASS, "fast"),
            (CAPACITY_TYPE, "spot"),
        ] {
            assert_eq!(
                pool.requirements.get(key),
                Some(&Values::one_of([value])),
                "{key}"
            );
        }
    }

    #[test]
    fn one_whose_requirements_mean_nothing_is_refused() {
        let odd = json!({"spec": {"requirements": [{"key": "size", "operator": "Gt", "values": ["many"]}]}});
        assert!(read(&odd).is_err());
    }
}
