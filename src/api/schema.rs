//! The parts of schemas that a derive cannot express, or that several kinds share.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::condition::Condition;
use super::node_pool::{BUDGET_REASONS, BUDGET_REASONS_MAX};
use super::pattern;
use super::requirement::Requirement;
use super::taint::Taint;

/// Longest label value.
pub(super) const LABEL_VALUE_LENGTH_MAX: usize = 63;
/// Most labels of a template.
pub(super) const LABELS_MAX: usize = 100;
/// Most requirements of a template or claim.
pub(super) const REQUIREMENTS_MAX: usize = 100;
/// Most tags we put on anything; IBM Cloud allows 1000 per resource, shared with everybody else's.
pub(super) const TAGS_MAX: usize = 100;
/// Longest tag, `key:value` together.
pub(super) const TAG_LENGTH_MAX: usize = 128;

/// A map from resource names to quantities.
pub(super) fn resource_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "pattern": pattern::QUANTITY.text,
            "x-kubernetes-int-or-string": true,
        },
    })
}

/// The labels of a template.
pub(super) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": "string",
            "maxLength": LABEL_VALUE_LENGTH_MAX,
            "pattern": pattern::LABEL_VALUE.text,
        },
        "maxProperties": LABELS_MAX,
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [
            {
                "message": "label domain \"karpenter.sh\" is restricted",
                "rule": "self.all(x, x in [\"karpenter.sh/capacity-type\", \"karpenter.sh/nodepool\"] || \
                         !x.find(\"^([^/]+)\").endsWith(\"karpenter.sh\"))",
            },
            {"message": "label \"karpenter.sh/nodepool\" is restricted", "rule": "self.all(x, x != \"karpenter.sh/nodepool\")"},
            {"message": "label \"kubernetes.io/hostname\" is restricted", "rule": "self.all(x, x != \"kubernetes.io/hostname\")"},
        ],
    })
}

/// The annotations of a template.
pub(super) fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string"},
        "x-kubernetes-map-type": "granular",
    })
}

/// The tags of machines or subnets: a map from key to value.
pub(super) fn tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": "string",
            "maxLength": TAG_LENGTH_MAX,
            "pattern": pattern::TAG.text,
        },
        "maxProperties": TAGS_MAX,
        "x-kubernetes-validations": [
            {
                "message": "a tag's key is letters, digits, spaces, '_', '-' and '.'",
                "rule": format!("self.all(k, k.matches('{}'))", pattern::TAG_KEY.text),
            },
            {
                "message": "a tag 'key:value' has at most 128 characters",
                "rule": format!("self.all(k, size(k) + 1 + size(self[k]) <= {TAG_LENGTH_MAX})"),
            },
        ],
    })
}

/// Requirements of a NodePool's template, which may not name the NodePool itself.
pub(super) fn pool_requirements(generator: &mut SchemaGenerator) -> Schema {
    requirements(
        generator,
        &[
            RESTRICTED_DOMAIN,
            (
                "label \"karpenter.sh/nodepool\" is restricted",
                "self != \"karpenter.sh/nodepool\"",
            ),
            RESTRICTED_HOSTNAME,
        ],
    )
}

/// Requirements of a NodeClaim.
pub(super) fn claim_requirements(generator: &mut SchemaGenerator) -> Schema {
    requirements(generator, &[RESTRICTED_DOMAIN, RESTRICTED_HOSTNAME])
}

const RESTRICTED_DOMAIN: (&str, &str) = (
    "label domain \"karpenter.sh\" is restricted",
    "self in [\"karpenter.sh/capacity-type\", \"karpenter.sh/nodepool\"] || \
     !self.find(\"^([^/]+)\").endsWith(\"karpenter.sh\")",
);
const RESTRICTED_HOSTNAME: (&str, &str) = (
    "label \"kubernetes.io/hostname\" is restricted",
    "self != \"kubernetes.io/hostname\"",
);

fn requirements(generator: &mut SchemaGenerator, key_rules: &[(&str, &str)]) -> Schema {
    let mut item = Requirement::json_schema(generator).to_value();
    item["properties"]["key"]["x-kubernetes-validations"] = key_rules
        .iter()
        .map(|(message, rule)| json!({"message": message, "rule": rule}))
        .collect();
    json_schema!({
        "type": "array",
        "items": item,
        "maxItems": REQUIREMENTS_MAX,
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-validations": [
            {
                "message": "requirements with operator 'In' must have a value defined",
                "rule": "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
            },
            {
                "message": "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
                "rule": "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || \
                         x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
            },
            {
                "message": "requirements with 'minValues' must have at least that many values specified in the 'values' field",
                "rule": "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
            },
        ],
    })
}

/// Taints of a template or claim.
pub(super) fn taints(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": Taint::json_schema(generator),
        "x-kubernetes-list-type": "atomic",
    })
}

/// The reasons that a budget applies to, each once.
pub(super) fn budget_reasons(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "string", "enum": BUDGET_REASONS},
        "maxItems": BUDGET_REASONS_MAX,
        "x-kubernetes-list-type": "set",
    })
}

/// A point in time.
pub(super) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// A list of ids of regional resources, each once.
pub(super) fn regional_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "string", "maxLength": 64, "pattern": pattern::REGIONAL_ID.text},
        "x-kubernetes-list-type": "set",
    })
}

/// A list of whole tags, each once.
pub(super) fn tag_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "string", "maxLength": TAG_LENGTH_MAX, "pattern": pattern::TAG.text},
        "x-kubernetes-list-type": "set",
    })
}

/// Conditions whose reason and message are given.
pub(super) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut item = Condition::json_schema(generator).to_value();
    item["required"] = json!(["lastTransitionTime", "message", "reason", "status", "type"]);
    item["properties"]["reason"]["minLength"] = json!(1);
    item["properties"]["reason"]["pattern"] = json!(pattern::REASON.text);
    by_type(&item)
}

/// Conditions whose reason and message may be left out, as a NodeClaim's may.
pub(super) fn claim_conditions(generator: &mut SchemaGenerator) -> Schema {
    by_type(&Condition::json_schema(generator).to_value())
}

fn by_type(item: &Value) -> Schema {
    json_schema!({
        "type": "array",
        "items": item,
        "x-kubernetes-list-map-keys": ["type"],
        "x-kubernetes-list-type": "map",
    })
}
