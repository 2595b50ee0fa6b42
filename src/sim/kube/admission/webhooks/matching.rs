//! Whether a webhook wants to be asked about a write, and as which kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::condition;
use crate::sim::kube::admission::{Admission, Operation};
use crate::sim::kube::kind::{Kind, Scope, TableKey};
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::server::ApiServer;
use crate::sim::kube::store::ObjectKey;
use crate::sim::kube::{events, object};

/// A configured webhook.
#[derive(Clone, Debug)]
pub(super) struct Hook(Value);

impl Hook {
    /// The webhooks of a configuration.
    pub(super) fn all(configuration: &Value) -> Vec<Self> {
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        webhooks.cloned().map(Self).collect()
    }

    pub(super) fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }

    pub(super) fn client(&self) -> &Value {
        &self.0["clientConfig"]
    }

    /// How long it may take; 10 seconds unless it is configured.
    pub(super) fn timeout_seconds(&self) -> u64 {
        self.0["timeoutSeconds"].as_u64().unwrap_or(10)
    }

    /// Whether a webhook that cannot be asked is passed over.
    pub(super) fn ignores_failures(&self) -> bool {
        self.0["failurePolicy"] == "Ignore"
    }

    pub(super) fn is_reinvocable(&self) -> bool {
        self.0["reinvocationPolicy"] == "IfNeeded"
    }

    /// Whether it may be asked about what will not be done.
    pub(super) fn is_free_of_side_effects(&self) -> bool {
        matches!(self.0["sideEffects"].as_str(), Some("None" | "NoneOnDryRun"))
    }

    fn texts(rule: &Value, field: &str) -> Vec<String> {
        let items = rule[field].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

/// As what a webhook is asked.
#[derive(Clone, Debug)]
pub(super) struct Invocation {
    /// The kind of the request, or another version or group of the same objects that the webhook's rules name.
    pub(super) kind: Arc<Kind>,
}

impl Invocation {
    /// An object of the pipeline as the webhook sees it.
    pub(super) fn shown(&self, object: &Value) -> Value {
        if object.is_null() || object["kind"] != self.kind.kind.as_str() {
            return object.clone();
        }
        let mut shown = events::outwards(&self.kind, object.clone());
        shown["apiVersion"] = self.kind.api_version().into();
        shown
    }

    /// An object that the webhook saw, back in the form of the pipeline.
    pub(super) fn taken_back(&self, kind: &Kind, shown: Value) -> Value {
        if shown["kind"] != self.kind.kind.as_str() {
            return shown;
        }
        let mut taken = events::stored(&self.kind, shown);
        if kind.table() == self.kind.table() && kind.plural != "events" {
            taken["apiVersion"] = kind.api_version().into();
        }
        taken
    }
}

/// Whether a webhook is to be asked about this write.
pub(super) fn invocation(
    server: &ApiServer,
    admission: &Admission<'_>,
    new: &Value,
    hook: &Hook,
) -> Result<Option<Invocation>, Refusal> {
    let selected = in_namespace(server, admission, new, &hook.0["namespaceSelector"]);
    if matches!(selected, Ok(false)) || !object_selected(admission, new, &hook.0["objectSelector"]) {
        return Ok(None);
    }
    let Some(kind) = matched_kind(server, admission, hook) else {
        return Ok(None);
    };
    // That its namespace is missing matters only to a webhook that would be asked.
    selected?;
    let invocation = Invocation { kind };
    let conditions = hook.0["matchConditions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let holds = conditions.is_empty() || condition::hold(admission, &invocation, new, hook, conditions)?;
    Ok(holds.then_some(invocation))
}

/// The kind that the rules name: that of the request, or one that has the same objects.
fn matched_kind(server: &ApiServer, admission: &Admission<'_>, hook: &Hook) -> Option<Arc<Kind>> {
    let rules = hook.0["rules"].as_array().map_or(&[][..], Vec::as_slice);
    let state = server.state();
    let of_request = |kind: &Arc<Kind>| {
        kind.group == admission.kind.group
            && kind.version == admission.kind.version
            && kind.plural == admission.kind.plural
    };
    let table = admission.kind.table();
    let (own, others): (Vec<Arc<Kind>>, Vec<Arc<Kind>>) = state
        .registry
        .all()
        .filter(|kind| kind.table() == table)
        .cloned()
        .partition(of_request);
    let equivalent = hook.0["matchPolicy"] != "Exact";
    let candidates = own.into_iter().chain(others.into_iter().filter(|_| equivalent));
    candidates
        .into_iter()
        .find(|kind| rules.iter().any(|rule| rule_matches(rule, admission, kind)))
}

fn rule_matches(rule: &Value, admission: &Admission<'_>, kind: &Kind) -> bool {
    let named = |field: &str, wanted: &str| {
        Hook::texts(rule, field)
            .iter()
            .any(|item| item == "*" || item == wanted)
    };
    let operation = match admission.operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    };
    let scope = match rule["scope"].as_str() {
        Some("Namespaced") => kind.scope == Scope::Namespaced,
        Some("Cluster") => kind.scope == Scope::Cluster,
        _ => true,
    };
    let subresource = admission.subresource.unwrap_or_default();
    let resource = Hook::texts(rule, "resources").iter().any(|item| {
        let (resource, below) = item.split_once('/').unwrap_or((item, ""));
        (resource == "*" || resource == kind.plural) && (below == "*" || below == subresource)
    });
    scope
        && resource
        && named("operations", operation)
        && named("apiGroups", &kind.group)
        && named("apiVersions", &kind.version)
}

/// The namespace of a write; that of a namespace is itself.
pub(super) fn namespace_of(admission: &Admission<'_>, new: &Value) -> String {
    let subject = if new.is_null() {
        admission.old.unwrap_or(new)
    } else {
        new
    };
    if is_namespace(admission.kind) {
        object::name(subject).to_owned()
    } else {
        object::namespace(subject).to_owned()
    }
}

fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "namespaces"
}

fn in_namespace(
    server: &ApiServer,
    admission: &Admission<'_>,
    new: &Value,
    selector: &Value,
) -> Result<bool, Refusal> {
    let namespace = namespace_of(admission, new);
    // Cluster-scoped objects are in no namespace that could be exempted.
    if namespace.is_empty() || is_empty(selector) {
        return Ok(true);
    }
    if is_namespace(admission.kind) && admission.subresource.is_none() && !new.is_null() {
        return Ok(selects(selector, &object::labels(new)));
    }
    let state = server.state();
    let stored = state
        .store
        .get(&TableKey::of("", "namespaces"), &ObjectKey::new("", &namespace));
    let about = About {
        group: "",
        kind: "namespaces",
        name: &namespace,
    };
    let stored = stored.ok_or_else(|| Refusal::not_found(about))?;
    Ok(selects(selector, &stored.labels))
}

/// Either what it was or what it becomes may be selected.
fn object_selected(admission: &Admission<'_>, new: &Value, selector: &Value) -> bool {
    let selected = |object: &Value| !object.is_null() && selects(selector, &object::labels(object));
    is_empty(selector) || selected(new) || admission.old.is_some_and(selected)
}

fn is_empty(selector: &Value) -> bool {
    let none = |field: &str| match &selector[field] {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => true,
    };
    none("matchLabels") && none("matchExpressions")
}

/// Whether a `LabelSelector` object selects labels.
pub(super) fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let equal = object::texts(&selector["matchLabels"])
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal
        && expressions.into_iter().all(|expression| {
            let value = labels.get(expression["key"].as_str().unwrap_or_default());
            let values = Hook::texts(expression, "values");
            match expression["operator"].as_str() {
                Some("In") => value.is_some_and(|value| values.contains(value)),
                Some("NotIn") => value.is_none_or(|value| !values.contains(value)),
                Some("Exists") => value.is_some(),
                Some("DoesNotExist") => value.is_none(),
                _ => false,
            }
        })
}
