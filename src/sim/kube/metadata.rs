//! What every object's metadata must satisfy, whatever its kind.

use serde_json::{Value, json};

use super::builtin::words;
use super::kind::Kind;
use super::object;
use super::schema::Cause;

/// All annotations of an object together, keys and values.
const ANNOTATION_BYTES_MAX: usize = 256 << 10;
/// The finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

/// Everything that is wrong with the metadata.
pub fn problems(kind: &Kind, object: &Value) -> Vec<Cause> {
    let metadata = &object["metadata"];
    let mut causes = names(kind, metadata);
    for (key, value) in object::texts(&metadata["labels"]) {
        blame(&mut causes, "metadata.labels", &key, words::qualified_name(&key));
        blame(&mut causes, "metadata.labels", &value, words::label_value(&value));
    }
    annotations(&mut causes, metadata);
    owners(&mut causes, metadata);
    finalizers(&mut causes, kind, object);
    causes
}

fn blame(causes: &mut Vec<Cause>, field: &str, value: &str, objections: Vec<&'static str>) {
    let value = json!(value);
    causes.extend(
        objections
            .into_iter()
            .map(|objection| Cause::invalid(field, &value, objection)),
    );
}

fn names(kind: &Kind, metadata: &Value) -> Vec<Cause> {
    let judge = judge(kind);
    let mut causes = Vec::new();
    // A prefix is judged by the name that was made from it.
    let name = metadata["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        let detail = "name or generateName is required";
        causes.push(Cause::required("metadata.name", detail));
    } else {
        blame(&mut causes, "metadata.name", name, judge(name));
    }
    causes
}

/// What names of a kind look like.
fn judge(kind: &Kind) -> fn(&str) -> Vec<&'static str> {
    if kind.custom().is_some() {
        return words::subdomain;
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => words::label,
        ("", "Service") => words::label_1035,
        ("rbac.authorization.k8s.io", _) => words::path_segment,
        ("batch", "CronJob") => words::cron_job_name,
        _ => words::subdomain,
    }
}

fn annotations(causes: &mut Vec<Cause>, metadata: &Value) {
    let annotations = object::texts(&metadata["annotations"]);
    let mut size = 0;
    for (key, value) in &annotations {
        blame(
            causes,
            "metadata.annotations",
            key,
            words::qualified_name(&key.to_lowercase()),
        );
        size += key.len() + value.len();
    }
    if size > ANNOTATION_BYTES_MAX {
        causes.push(Cause::too_long(
            "metadata.annotations",
            ANNOTATION_BYTES_MAX as u64,
        ));
    }
}

fn owners(causes: &mut Vec<Cause>, metadata: &Value) {
    let references = metadata["ownerReferences"].as_array().into_iter().flatten();
    let mut controllers = 0;
    for reference in references {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        // More than one slash is no version at all, to a real server.
        let version = match text("apiVersion").matches('/').count() {
            0 | 1 => text("apiVersion").rsplit('/').next().unwrap_or_default(),
            _ => "",
        };
        if version.is_empty() {
            let detail = "version must not be empty";
            causes.push(Cause::invalid(
                "metadata.ownerReferences.apiVersion",
                &json!(text("apiVersion")),
                detail,
            ));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                let field = format!("metadata.ownerReferences.{field}");
                causes.push(Cause::invalid(&field, &json!(""), "must not be empty"));
            }
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid("metadata.ownerReferences", reference, detail));
        }
        controllers += usize::from(reference["controller"] == true);
    }
    if controllers > 1 {
        let detail = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid(
            "metadata.ownerReferences",
            &metadata["ownerReferences"],
            detail,
        ));
    }
}

fn finalizers(causes: &mut Vec<Cause>, kind: &Kind, object: &Value) {
    let list = object::finalizers(object);
    for finalizer in &list {
        blame(
            causes,
            "metadata.finalizers",
            finalizer,
            words::qualified_name(finalizer),
        );
    }
    let both = ["orphan", "foregroundDeletion"]
        .iter()
        .all(|finalizer| list.contains(finalizer));
    if both {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", &json!(list), detail));
    }
    if !qualifies_finalizers(kind) {
        return;
    }
    for (index, finalizer) in list.iter().enumerate() {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(
                &format!("metadata.finalizers[{index}]"),
                &json!(finalizer),
                detail,
            ));
        }
    }
}

/// Whether finalizers need a domain. Those of custom kinds and of a few others do not, as was seen on a real server.
fn qualifies_finalizers(kind: &Kind) -> bool {
    const FREE: [&str; 6] = [
        "events",
        "leases",
        "mutatingwebhookconfigurations",
        "poddisruptionbudgets",
        "runtimeclasses",
        "validatingwebhookconfigurations",
    ];
    kind.custom().is_none() && !FREE.contains(&kind.plural.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::registry::Registry;

    fn fields(group: &str, plural: &str, metadata: &Value) -> Vec<String> {
        let kind = Registry::default().by_plural(group, plural).unwrap();
        let causes = problems(&kind, &json!({"metadata": metadata}));
        causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn names_are_judged_by_their_kind() {
        assert_eq!(fields("", "pods", &json!({"name": "a.b"})), Vec::<String>::new());
        assert_eq!(
            fields("", "namespaces", &json!({"name": "a.b"})),
            ["metadata.name"]
        );
        assert_eq!(fields("", "services", &json!({"name": "1a"})), ["metadata.name"]);
        let roles = "rbac.authorization.k8s.io";
        assert_eq!(
            fields(roles, "clusterroles", &json!({"name": "system:a:B"})),
            Vec::<String>::new()
        );
        assert_eq!(
            fields(roles, "clusterroles", &json!({"name": "a/b"})),
            ["metadata.name"]
        );
    }

    #[test]
    fn a_prefix_is_judged_by_the_name_made_from_it() {
        let generated = |prefix: &str| json!({"name": format!("{prefix}x"), "generateName": prefix});
        assert_eq!(fields("", "pods", &generated("a-")), Vec::<String>::new());
        assert_eq!(fields("", "pods", &generated("a_")), ["metadata.name"]);
        let both = json!({"name": "x", "generateName": "a_"});
        assert_eq!(fields("", "pods", &both), Vec::<String>::new());
    }

    #[test]
    fn annotations_have_a_size_together() {
        let annotations = json!({"a": "x".repeat(ANNOTATION_BYTES_MAX)});
        let metadata = json!({"name": "a", "annotations": annotations});
        assert_eq!(fields("", "pods", &metadata), ["metadata.annotations"]);
    }

    #[test]
    fn finalizers_have_a_domain_or_are_known() {
        let metadata = json!({"name": "a", "finalizers": ["orphan", "karpenter.sh/termination", "x"]});
        assert_eq!(fields("", "pods", &metadata), ["metadata.finalizers[2]"]);
    }

    #[test]
    fn an_owner_is_named_in_full_and_one_controls() {
        let metadata = json!({"name": "a", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "", "controller": true},
            {"apiVersion": "v1", "kind": "Pod", "name": "y", "uid": "v", "controller": true}]});
        assert_eq!(
            fields("", "pods", &metadata),
            ["metadata.ownerReferences.uid", "metadata.ownerReferences"]
        );
    }
}
