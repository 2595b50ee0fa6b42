//! What extends the API: webhooks and definitions of custom resources.

use serde_json::{Value, json};

use super::{each, each_mut, fill, inside, is_set, text};

/// What a webhook may do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Changes {
    Object,
    Nothing,
}

pub(super) fn webhooks(object: &mut Value, changes: Changes) {
    for webhook in each_mut(object, "webhooks") {
        fill(webhook, "failurePolicy", "Fail");
        fill(webhook, "matchPolicy", "Equivalent");
        fill(webhook, "namespaceSelector", json!({}));
        fill(webhook, "objectSelector", json!({}));
        fill(webhook, "timeoutSeconds", 10);
        if changes == Changes::Object {
            fill(webhook, "reinvocationPolicy", "Never");
        }
        each_mut(webhook, "rules").for_each(|rule| fill(rule, "scope", "*"));
        service_port(webhook);
    }
}

fn service_port(client: &mut Value) {
    if let Some(service) = inside(client, &["clientConfig", "service"]) {
        fill(service, "port", 443);
    }
}

pub(super) fn definition(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    if let Some(names) = inside(spec, &["names"]) {
        let kind = text(names, "kind").to_owned();
        fill(names, "singular", kind.to_lowercase());
        if !kind.is_empty() {
            fill(names, "listKind", format!("{kind}List"));
        }
    }
    fill(spec, "conversion", json!({"strategy": "None"}));
    if let Some(webhook) = inside(spec, &["conversion", "webhook"]) {
        service_port(webhook);
    }
    let stored = each(spec, "versions").find(|version| version["storage"] == true);
    let stored = stored.map(|version| version["name"].clone());
    if let (Some(stored), Some(status)) = (stored, inside(object, &["status"]))
        && !is_set(status, "storedVersions")
    {
        status["storedVersions"] = json!([stored]);
    }
}
