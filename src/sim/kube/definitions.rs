//! CustomResourceDefinitions: judged, and established as soon as they are stored.
//!
//! Judged are names, versions, conversion, columns and the structure of schemas, as far as authors of definitions run
//! into it, and that each CEL rule parses. What rules mean is not checked against the types of their schema, and the
//! cost of rules is not estimated.

use serde_json::{Value, json};

use super::builtin::words;
use super::object;
use super::schema::{Cause, Schema, SchemaError};

/// Writes the status that a definition has once its kinds are served.
pub fn establish(crd: &mut Value) {
    let names = crd["spec"]["names"].clone();
    let mut stored: Vec<Value> = crd["status"]["storedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for version in each(&crd["spec"], "versions").filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    let since = object::meta(crd, "creationTimestamp").to_owned();
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since});
    crd["status"] = json!({
        "acceptedNames": names,
        "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    });
}

fn each<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object[field].as_array().into_iter().flatten()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Everything that is wrong with a definition.
pub fn problems(crd: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &crd["spec"];
    let expected = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    if object::name(crd) != expected {
        let name = json!(object::name(crd));
        causes.push(Cause::invalid(
            "metadata.name",
            &name,
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    match text(spec, "group") {
        "" => causes.push(Cause::required("spec.group", "")),
        group if !words::subdomain(group).is_empty() => {
            causes.push(Cause::invalid(
                "spec.group",
                &spec["group"],
                "must be a subdomain",
            ));
        }
        group if !group.contains('.') => causes.push(Cause::invalid(
            "spec.group",
            &spec["group"],
            "should be a domain with at least one dot",
        )),
        _ => {}
    }
    match &spec["scope"] {
        scope if scope.is_null() || *scope == "" => causes.push(Cause::required("spec.scope", "")),
        scope if *scope != "Cluster" && *scope != "Namespaced" => {
            let allowed = [json!("Cluster"), json!("Namespaced")];
            causes.push(Cause::not_supported("spec.scope", scope, &allowed));
        }
        _ => {}
    }
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &json!(true), detail));
    }
    versions(&mut causes, spec);
    names(&mut causes, &spec["names"]);
    conversion(&mut causes, &spec["conversion"]);
    causes
}

fn versions(causes: &mut Vec<Cause>, spec: &Value) {
    let all: Vec<&Value> = each(spec, "versions").collect();
    for (index, version) in all.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        if !words::label_1035(text(version, "name")).is_empty() {
            let detail = "must be a DNS-1035 label";
            causes.push(Cause::invalid(&format!("{at}.name"), &version["name"], detail));
            if index == 0 {
                causes.push(Cause::invalid("spec.version", &version["name"], detail));
            }
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        // A real server has one schema for all versions where they agree, and calls it by its place of old.
        let agreed = all.iter().all(|other| other["schema"] == version["schema"]);
        if schema.is_object() && agreed {
            structure(causes, "spec.validation.openAPIV3Schema", schema, Place::Root);
        } else if schema.is_object() {
            let path = format!("{at}.schema.openAPIV3Schema");
            structure(causes, &path, schema, Place::Root);
        } else {
            let path = format!("{at}.schema.openAPIV3Schema");
            causes.push(Cause::required(&path, "schemas are required"));
        }
        columns(causes, &at, version);
        scale(causes, &at, &version["subresources"]["scale"]);
    }
    let stored = all.iter().filter(|version| version["storage"] == true).count();
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], detail));
    }
    if stored == 0 {
        let detail = "must have at least one stored version";
        causes.push(Cause::invalid("status.storedVersions", &Value::Null, detail));
    }
    let names: std::collections::BTreeSet<&str> = all.iter().map(|version| text(version, "name")).collect();
    if names.len() != all.len() {
        let detail = "must contain unique version names";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], detail));
    }
}

fn columns(causes: &mut Vec<Cause>, at: &str, version: &Value) {
    const TYPES: [&str; 5] = ["integer", "number", "string", "boolean", "date"];
    for (index, column) in each(version, "additionalPrinterColumns").enumerate() {
        let at = format!("{at}.additionalPrinterColumns[{index}]");
        if text(column, "name").is_empty() {
            causes.push(Cause::required(&format!("{at}.name"), ""));
        }
        match text(column, "type") {
            "" => causes.push(Cause::required(&format!("{at}.type"), "")),
            kind if !TYPES.contains(&kind) => {
                causes.push(Cause::invalid(
                    &format!("{at}.type"),
                    &column["type"],
                    "must be a known type",
                ));
            }
            _ => {}
        }
        if text(column, "jsonPath").is_empty() {
            causes.push(Cause::required(&format!("{at}.jsonPath"), ""));
        }
    }
}

fn scale(causes: &mut Vec<Cause>, at: &str, scale: &Value) {
    if !scale.is_object() {
        return;
    }
    for (field, start) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let at = format!("{at}.subresources.scale.{field}");
        match text(scale, field) {
            "" => causes.push(Cause::required(&at, "")),
            path if !path.starts_with(start) => {
                causes.push(Cause::invalid(
                    &at,
                    &scale[field],
                    format_args!("should be a json path under {start}"),
                ));
            }
            _ => {}
        }
    }
}

fn names(causes: &mut Vec<Cause>, names: &Value) {
    for (field, cased) in [
        ("plural", false),
        ("singular", false),
        ("kind", true),
        ("listKind", true),
    ] {
        let at = format!("spec.names.{field}");
        let name = text(names, field);
        if name.is_empty() {
            causes.push(Cause::required(&at, ""));
            continue;
        }
        let lowered = if cased {
            name.to_lowercase()
        } else {
            name.to_owned()
        };
        for objection in words::label_1035(&lowered) {
            causes.push(Cause::invalid(&at, &names[field], objection));
        }
    }
    if !text(names, "kind").is_empty() && names["kind"] == names["listKind"] {
        let detail = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &names["listKind"], detail));
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in each(names, field).enumerate() {
            for objection in words::label_1035(name.as_str().unwrap_or_default()) {
                causes.push(Cause::invalid(
                    &format!("spec.names.{field}[{index}]"),
                    name,
                    objection,
                ));
            }
        }
    }
}

fn conversion(causes: &mut Vec<Cause>, conversion: &Value) {
    match text(conversion, "strategy") {
        "None" => {}
        "Webhook" => {
            if !conversion["webhook"]["clientConfig"].is_object() {
                causes.push(Cause::required("spec.conversion.webhook.clientConfig", ""));
            }
        }
        _ => {
            let allowed = [json!("None"), json!("Webhook")];
            causes.push(Cause::not_supported(
                "spec.conversion.strategy",
                &conversion["strategy"],
                &allowed,
            ));
        }
    }
}

/// Where a schema stands, which decides what it must say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
}

/// A structural schema: every value has a type, every list its items, every rule parses.
fn structure(causes: &mut Vec<Cause>, at: &str, schema: &Value, place: Place) {
    let kind = text(schema, "type");
    let free = schema["x-kubernetes-int-or-string"] == true
        || (schema["x-kubernetes-preserve-unknown-fields"] == true && place != Place::Root);
    if kind.is_empty() && !free {
        let detail = match place {
            Place::Root => "must not be empty at the root",
            Place::Field => "must not be empty for specified object fields",
            Place::Item => "must not be empty for specified array items",
        };
        causes.push(Cause::required(&format!("{at}.type"), detail));
    } else if place == Place::Root && kind != "object" {
        causes.push(Cause::invalid(
            &format!("{at}.type"),
            &schema["type"],
            "must be object at the root",
        ));
    }
    if schema["x-kubernetes-int-or-string"] == true && !kind.is_empty() {
        let detail = "must be empty if x-kubernetes-int-or-string is true";
        causes.push(Cause::forbidden(&format!("{at}.type"), detail));
    }
    if kind == "array" && !schema["items"].is_object() {
        causes.push(Cause::required(&format!("{at}.items"), "must be specified"));
    }
    if schema["properties"].is_object() && schema["additionalProperties"].is_object() {
        let detail = "additionalProperties and properties are mutual exclusive";
        causes.push(Cause::forbidden(&format!("{at}.additionalProperties"), detail));
    }
    if schema["uniqueItems"] == true {
        causes.push(Cause::forbidden(
            &format!("{at}.uniqueItems"),
            "uniqueItems cannot be set to true",
        ));
    }
    list_type(causes, at, schema);
    rules(causes, at, schema);
    default(causes, at, schema);
    if schema["items"].is_object() {
        structure(causes, &format!("{at}.items"), &schema["items"], Place::Item);
    }
    if schema["additionalProperties"].is_object() {
        let below = format!("{at}.additionalProperties");
        structure(causes, &below, &schema["additionalProperties"], Place::Field);
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        // The metadata of the object itself says nothing about its type that counts.
        if place != Place::Root || name != "metadata" {
            structure(causes, &format!("{at}.properties[{name}]"), below, Place::Field);
        }
    }
}

fn list_type(causes: &mut Vec<Cause>, at: &str, schema: &Value) {
    let keys: Vec<&str> = each(schema, "x-kubernetes-list-map-keys")
        .filter_map(Value::as_str)
        .collect();
    let kind = text(schema, "x-kubernetes-list-type");
    if kind != "map" {
        return;
    }
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        causes.push(Cause::required(
            &format!("{at}.x-kubernetes-list-map-keys"),
            detail,
        ));
    }
    let items = &schema["items"];
    for (index, key) in keys.iter().enumerate() {
        if items["properties"].get(*key).is_none() {
            let detail = "entries must all be names of item properties";
            causes.push(Cause::invalid(
                &format!("{at}.x-kubernetes-list-map-keys[{index}]"),
                &json!(key),
                detail,
            ));
            continue;
        }
        let required = each(items, "required").any(|name| name == key);
        if !required && items["properties"][*key].get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(
                &format!("{at}.items.properties[{key}].default"),
                detail,
            ));
        }
    }
}

/// What is filled in must fit.
fn default(causes: &mut Vec<Cause>, at: &str, schema: &Value) {
    let Some(default) = schema.get("default") else {
        return;
    };
    // Other mistakes of this schema are blamed where they are.
    let Ok(compiled) = Schema::compile(schema) else {
        return;
    };
    let mut found = compiled.validate(default, None);
    found.retain(|cause| *cause != Cause::rules_not_checked());
    for cause in found {
        let at = match cause.field.as_str() {
            "" => format!("{at}.default"),
            field => format!("{at}.default.{field}"),
        };
        causes.push(Cause::new(&at, cause.reason, cause.message));
    }
}

fn rules(causes: &mut Vec<Cause>, at: &str, schema: &Value) {
    for (index, rule) in each(schema, "x-kubernetes-validations").enumerate() {
        let at = format!("{at}.x-kubernetes-validations[{index}].rule");
        if text(rule, "rule").trim().is_empty() {
            causes.push(Cause::required(&at, "rule is not specified"));
            continue;
        }
        let alone = json!({"x-kubernetes-validations": [rule], "type": schema["type"]});
        if let Err(SchemaError::Rule { problem, .. }) = Schema::compile(&alone) {
            causes.push(Cause::invalid(
                &at,
                &rule["rule"],
                format_args!("compilation failed: {problem}"),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(schema: Value) -> Value {
        json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster", "conversion": {"strategy": "None"},
                "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
    }

    fn fields(crd: &Value) -> Vec<String> {
        let reason = |cause: &Cause| cause.reason.as_str().trim_start_matches("FieldValue").to_owned();
        problems(crd)
            .iter()
            .map(|cause| format!("{} {}", reason(cause), cause.field))
            .collect()
    }

    const ROOT: &str = "spec.validation.openAPIV3Schema";

    #[test]
    fn a_definition_is_named_after_what_it_defines() {
        let mut wrong = crd(json!({"type": "object"}));
        assert_eq!(fields(&wrong), Vec::<String>::new());
        wrong["metadata"]["name"] = "x.example.com".into();
        assert_eq!(fields(&wrong), ["Invalid metadata.name"]);
    }

    #[test]
    fn every_value_of_a_schema_has_a_type() {
        let schema = json!({"type": "object", "properties": {"spec": {}, "list": {"type": "array"}}});
        assert_eq!(
            fields(&crd(schema)),
            [
                format!("Required {ROOT}.properties[list].items"),
                format!("Required {ROOT}.properties[spec].type"),
            ]
        );
    }

    #[test]
    fn a_rule_that_does_not_parse_is_named() {
        let rules = json!([{"rule": "self.a > 1"}, {"rule": "self.a >"}]);
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": rules}}});
        assert_eq!(
            fields(&crd(schema)),
            [format!(
                "Invalid {ROOT}.properties[spec].x-kubernetes-validations[1].rule"
            )]
        );
    }

    #[test]
    fn one_version_is_stored() {
        let mut wrong = crd(json!({"type": "object"}));
        wrong["spec"]["versions"][0]["storage"] = false.into();
        assert_eq!(fields(&wrong), ["Invalid spec.versions"]);
    }
}
