//! CustomResourceDefinitions: judged, and established as soon as they are stored.
//!
//! Judged are names, versions, conversion, columns and the structure of schemas, as far as authors of definitions run
//! into it, and CEL rules, as far as their types follow from the schema. The cost of rules is not estimated.

mod rules;
mod structure;
mod types;
mod typing;

use serde_json::{Value, json};

use super::builtin::words;
use super::object;
use super::schema::Cause;

use structure::{Place, structure};

/// What keeps a definition until nothing of its kind is left.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Writes the status that a definition has once its kinds are served.
pub fn establish(crd: &mut Value) {
    let names = crd["spec"]["names"].clone();
    let mut stored: Vec<Value> = each(&crd["status"], "storedVersions").cloned().collect();
    for version in each(&crd["spec"], "versions").filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    let since = object::meta(crd, "creationTimestamp").to_owned();
    if each(&crd["status"], "conditions").next().is_none() {
        crd["status"]["conditions"] = json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found", &since),
            condition(
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted",
                &since
            ),
        ]);
    }
    crd["status"]["acceptedNames"] = names;
    crd["status"]["storedVersions"] = stored.into();
}

fn condition(kind: &str, reason: &str, message: &str, since: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since})
}

/// Writes on a definition that it is going, and keeps it until its objects are gone.
pub fn terminate(crd: &mut Value, now: &str) {
    let list = object::metadata_mut(crd)
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.contains(&json!(CLEANUP))
    {
        list.push(CLEANUP.into());
    }
    let message = "CustomResource deletion is in progress";
    if let Some(conditions) = crd["status"]["conditions"].as_array_mut() {
        conditions.push(condition(
            "Terminating",
            "InstanceDeletionInProgress",
            message,
            now,
        ));
    }
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

/// Judges a schema, and its rules if it is sound otherwise.
fn judge_schema(causes: &mut Vec<Cause>, at: &str, schema: &Value) {
    let before = causes.len();
    structure(causes, at, schema, Place::Root);
    if causes.len() == before {
        rules::problems(causes, at, schema);
    }
}

fn versions(causes: &mut Vec<Cause>, spec: &Value) {
    let all: Vec<&Value> = each(spec, "versions").collect();
    // What all versions have in common is judged once, and blamed on a place of older days.
    let shared = |field: &str| all.iter().all(|version| version[field] == all[0][field]);
    for (index, version) in all.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        if !words::label_1035(text(version, "name")).is_empty() {
            let detail = "must be a DNS-1035 label";
            causes.push(Cause::invalid(&format!("{at}.name"), &version["name"], detail));
            if index == 0 {
                // The first version is also the version of older days.
                causes.push(Cause::invalid("spec.version", &version["name"], detail));
            }
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            let path = format!("{at}.schema.openAPIV3Schema");
            causes.push(Cause::required(&path, "schemas are required"));
        } else if !shared("schema") {
            judge_schema(causes, &format!("{at}.schema.openAPIV3Schema"), schema);
        } else if index == 0 {
            judge_schema(causes, "spec.validation.openAPIV3Schema", schema);
        }
        match (shared("additionalPrinterColumns"), index) {
            (true, 0) => columns(causes, "spec", version),
            (true, _) => {}
            (false, _) => columns(causes, &at, version),
        }
        match (shared("subresources"), index) {
            (true, 0) => scale(causes, "spec", &version["subresources"]["scale"]),
            (true, _) => {}
            (false, _) => scale(causes, &at, &version["subresources"]["scale"]),
        }
    }
    let stored = all.iter().filter(|version| version["storage"] == true).count();
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], detail));
    }
    if stored == 0 {
        let detail = "must have at least one stored version";
        causes.push(Cause::invalid("status.storedVersions", &json!([]), detail));
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
            causes.push(Cause::required(&format!("{at}.JSONPath"), ""));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(schema: &Value) -> Value {
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
        let mut wrong = crd(&json!({"type": "object"}));
        assert_eq!(fields(&wrong), Vec::<String>::new());
        wrong["metadata"]["name"] = "x.example.com".into();
        assert_eq!(fields(&wrong), ["Invalid metadata.name"]);
    }

    #[test]
    fn every_value_of_a_schema_has_a_type() {
        let schema = json!({"type": "object", "properties": {"spec": {}, "list": {"type": "array"}}});
        assert_eq!(
            fields(&crd(&schema)),
            [
                format!("Required {ROOT}.properties[list].items"),
                format!("Required {ROOT}.properties[spec].type"),
            ]
        );
    }

    #[test]
    fn a_rule_that_does_not_parse_is_named() {
        let rules = json!([{"rule": "self.a > 1"}, {"rule": "self.a >"}]);
        let spec = json!({"type": "object", "x-kubernetes-validations": rules, "properties": {"a": {"type": "integer"}}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        assert_eq!(
            fields(&crd(&schema)),
            [format!(
                "Invalid {ROOT}.properties[spec].x-kubernetes-validations[1].rule"
            )]
        );
    }

    #[test]
    fn one_version_is_stored() {
        let mut wrong = crd(&json!({"type": "object"}));
        wrong["spec"]["versions"][0]["storage"] = false.into();
        assert_eq!(
            fields(&wrong),
            ["Invalid spec.versions", "Invalid status.storedVersions"]
        );
    }
}
