//! The `CustomResourceDefinition`s: what the derives generate, adjusted in this one place.
//!
//! What the derives say and we do not mean: `nullable`, which schemars puts on every optional field, makes an API
//! server keep `null`s instead of taking them for absence, and defaults stop working for them. Whole numbers come out
//! as floats (`minimum: 1.0`), because the typed schema holds floats. Descriptions keep the line breaks of the source.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Number, Value};

use super::{IBMNodeClass, NodeClaim, NodePool, UnavailableOffering};
use crate::quantity::whole_number;

/// A definition, ready to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The name of its file: `karpenter.sh_nodepools.yaml`.
    pub file_name: String,
    /// The whole object.
    pub object: Value,
}

impl Definition {
    /// The schema of its only version.
    pub fn schema(&self) -> &Value {
        &self.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    }
}

/// All definitions, in a fixed order.
pub fn definitions() -> Result<Vec<Definition>, serde_json::Error> {
    [
        IBMNodeClass::crd(),
        UnavailableOffering::crd(),
        NodeClaim::crd(),
        NodePool::crd(),
    ]
    .iter()
    .map(definition)
    .collect()
}

fn definition(crd: &CustomResourceDefinition) -> Result<Definition, serde_json::Error> {
    let mut object = serde_json::to_value(crd)?;
    if let Some(schema) = object.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
        adjust(schema);
    }
    whole_numbers(&mut object);
    Ok(Definition {
        file_name: format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural),
        object,
    })
}

/// Mends every node of a schema. Walks by keyword, so that a field called `nullable` or `title` stays.
fn adjust(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    node.remove("nullable");
    node.remove("title");
    if let Some(Value::String(description)) = node.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    for keyword in ["items", "additionalProperties"] {
        node.get_mut(keyword).into_iter().for_each(adjust);
    }
    if let Some(properties) = node.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(adjust);
    }
}

/// Writes numbers without a fraction as the integers they are.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole_number) {
                *value = Value::Number(Number::from(whole));
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_has_a_file_of_its_own() {
        let names: Vec<String> = definitions()
            .unwrap()
            .into_iter()
            .map(|it| it.file_name)
            .collect();
        assert_eq!(
            names,
            [
                "karpenter-ibm.sh_ibmnodeclasses.yaml",
                "karpenter-ibm.sh_unavailableofferings.yaml",
                "karpenter.sh_nodeclaims.yaml",
                "karpenter.sh_nodepools.yaml",
            ]
        );
    }

    #[test]
    fn no_field_keeps_nulls_and_no_number_is_a_needless_float() {
        for definition in definitions().unwrap() {
            let text = definition.object.to_string();
            assert!(!text.contains("nullable"), "{}", definition.file_name);
            assert!(!text.contains(".0"), "{}", definition.file_name);
        }
    }

    #[test]
    fn conditions_are_keyed_by_type_so_that_each_controller_owns_its_own() {
        for definition in definitions().unwrap() {
            let conditions = &definition.schema()["properties"]["status"]["properties"]["conditions"];
            if conditions.is_object() {
                assert_eq!(
                    conditions["x-kubernetes-list-type"], "map",
                    "{}",
                    definition.file_name
                );
                assert_eq!(
                    conditions["x-kubernetes-list-map-keys"],
                    json!(["type"]),
                    "{}",
                    definition.file_name
                );
            }
        }
    }

    #[test]
    fn a_node_pool_can_be_scaled() {
        let definitions = definitions().unwrap();
        let pool = definitions
            .iter()
            .find(|it| it.file_name.ends_with("nodepools.yaml"))
            .unwrap();
        let subresources = &pool.object["spec"]["versions"][0]["subresources"];
        assert_eq!(
            *subresources,
            json!({
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
                "status": {},
            })
        );
    }
}
