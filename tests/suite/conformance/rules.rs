//! Definitions whose rules cannot be: refused, with the rule to blame.

use serde_json::{Value, json};

use super::Lab;
use super::objects::With;

fn definition(rule: &Value) -> Value {
    let text = json!({"type": "string", "maxLength": 10});
    let part = json!({"type": "object", "properties": {"name": text, "count": {"type": "integer"}}, "required": ["name"]});
    let spec = json!({
        "type": "object", "x-kubernetes-validations": [rule],
        "properties": {
            "size": {"type": "integer"}, "ratio": {"type": "number"}, "name": text, "on": {"type": "boolean"},
            "since": {"type": "string", "format": "date-time"}, "any": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "x-y": text, "namespace": text,
            "tags": {"type": "array", "maxItems": 3, "items": text},
            "labels": {"type": "object", "maxProperties": 3, "additionalProperties": text},
            "parts": {"type": "array", "maxItems": 3, "items": part},
            "named": {"type": "array", "maxItems": 3, "items": part, "x-kubernetes-list-type": "map",
                      "x-kubernetes-list-map-keys": ["name"]},
        },
    });
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": "rules.$ns.example.com"},
           "spec": {"group": "$ns.example.com", "scope": "Namespaced", "versions": [version],
                    "names": {"kind": "Rule", "listKind": "RuleList", "plural": "rules", "singular": "rule"}}})
}

const SOUND: &[&str] = &[
    "self.size < 5 && self.name.startsWith('a')",
    "!has(self.name) || size(self.name) > 1",
    "self.tags.all(tag, tag.matches('^a')) && self.tags.exists_one(tag, tag == 'x')",
    "self.parts.map(part, part.count).sum() < 5",
    "self.parts.filter(part, part.count > 1).size() == 1",
    "self.labels.all(key, self.labels[key] != '') && 'x' in self.labels",
    "self.any == 5 || self.any == '5'",
    "type(self.any) == int ? self.any < 5 : self.any == 'max'",
    "self.size == oldSelf.size",
    "self.size > 1.5 && self.ratio > 1",
    "self.x__dash__y == self.__namespace__",
    "quantity(self.name).isLessThan(quantity('1Gi'))",
    "isIP(self.name) && ip(self.name).family() == 4",
    "self.since > timestamp('2026-11-16T10:00:00Z')",
    "self.since + duration('1h') > timestamp('2026-11-16T10:00:00Z')",
    "self.tags.map(tag, tag.size()).max() < 5",
    "self.name.split(',').size() > 1",
    "self.named.exists(part, part.name in self.tags)",
    "self.tags == ['a', 'b'] || self.tags.isSorted()",
    "'x' in self.labels && self.labels['x'] == 'y'",
    "(self.size + 1) * 2 % 3 == -1",
    "string(self.size) == self.name",
    "sets.contains(self.tags, ['a'])",
    "self.name.lowerAscii() == self.name.trim()",
    "dyn(self.size) == self.name",
    "!self.on || self.on == true",
    "self.tags.size() == self.labels.size()",
    "self.namespace == 'a'",
];

const FLAWED: &[&str] = &[
    "",
    "self.",
    "self.size <",
    "self.missing == 1",
    "self.free.field == 1",
    "has(self.missing)",
    "other == 1",
    "size == 1",
    "frobnicate(self)",
    "self.name.frobnicate()",
    "self.size",
    "self.name",
    "'text'",
    "self.size == 'x'",
    "self.size + self.name == 1",
    "self.name - 'x' == ''",
    "self.size && true",
    "!self.name",
    "-self.name == ''",
    "self.size < 'x'",
    "self.tags < self.tags",
    "self.tags.all(tag, tag > 1)",
    "self.tags.all(tag, tag)",
    "self.tags[0].count == 1",
    "self.tags['a'] == 'b'",
    "self.labels[0] == 'b'",
    "self[0] == 'b'",
    "self.size.startsWith('x')",
    "self.size.size() == 1",
    "self.name in [1, 2]",
    "self.name in self.size",
    "self.size.all(x, x > 1)",
    "self.all(x, x == '')",
    "true ? self.size : self.name",
    "self.size ? true : false",
    "self.parts.map(part, part.missing).size() == 0",
    "self.parts.filter(part, part.count > 1).exists(part, part.other == 1)",
    "self.x-y == 'a'",
    "oldSelf.missing == 1",
    "Thing{field: 1} == self",
    "self.ratio == self.size",
];

#[tokio::test]
async fn a_rule_must_make_sense_for_its_schema() {
    let mut lab = Lab::open("ruling").await;
    let path = "customresourcedefinitions?dryRun=All";
    for rule in SOUND {
        lab.post(path, &definition(&json!({"rule": rule})))
            .is("201")
            .await;
    }
    let to_blame = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
    for rule in FLAWED {
        lab.post(path, &definition(&json!({"rule": rule})))
            .is(&format!("422 Invalid {to_blame}"))
            .await;
    }
    for message in [
        "'it is ' + self.name",
        "self.size",
        "self.missing",
        "1 +",
        "oldSelf.name",
    ] {
        let rule = json!({"rule": "self.size > 1", "messageExpression": message});
        lab.post(path, &definition(&rule)).compare().await;
    }
}

#[tokio::test]
async fn what_cannot_be_found_again_has_no_past() {
    let mut lab = Lab::open("ruling").await;
    let path = "customresourcedefinitions?dryRun=All";
    let root = "spec/versions/0/schema/openAPIV3Schema";
    let none = json!({"rule": "true"});
    let compare = json!([{"rule": "self.count == oldSelf.count"}]);
    for (list, expected) in [("parts", "422 Invalid"), ("named", "201")] {
        let at = format!("{root}/properties/spec/properties/{list}/items/x-kubernetes-validations");
        lab.post(path, &definition(&none).with(&at, compare.clone()))
            .is(expected)
            .await;
    }
    let names =
        json!([{"rule": "self.metadata.name == 'a' && self.kind == 'Rule' && self.apiVersion != ''"}]);
    let at = format!("{root}/x-kubernetes-validations");
    lab.post(path, &definition(&none).with(&at, names))
        .is("201")
        .await;
    let labels = json!([{"rule": "self.metadata.labels.size() == 1"}]);
    lab.post(path, &definition(&none).with(&at, labels))
        .is("422 Invalid")
        .await;
}
