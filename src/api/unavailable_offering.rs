//! `UnavailableOffering`: an offering that is not to be bought for a while. Deleting the object lifts the hold.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::condition::at_most;
use super::offering_key::OfferingKey;
use super::pattern::{OFFERING_KEY, REASON};
use super::schema;
use super::time::Time;
use super::violation::{Field, Violation, Violations};

/// Longest key: the longest object name is 253 characters, and a key is at most three longer than its name.
const KEY_LENGTH_MAX: usize = 256;
const REASON_LENGTH_MAX: usize = 128;

/// What is withheld, why, and until when.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "karpenter-ibm.sh",
    version = "v1alpha1",
    kind = "UnavailableOffering",
    plural = "unavailableofferings",
    shortname = "uo",
    category = "karpenter",
    derive = "PartialEq",
    doc = "An offering that is not to be bought for a while. Deleting the object lifts the hold.",
    printcolumn = r#"{"name": "Key", "type": "string", "jsonPath": ".spec.key"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".spec.reason"}"#,
    printcolumn = r#"{"name": "Until", "type": "string", "jsonPath": ".spec.until"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    validation = (
        "self.metadata.name == (self.spec.key == 'on-demand:gpu:*' ? 'on-demand.gpu' : \
         self.spec.key.replace(':*:*', '.all').replace(':', '.'))",
        "the name must be the key with dots for colons, or end in '.all' or '.gpu' for a whole class"
    )
)]
pub struct UnavailableOfferingSpec {
    /// What is withheld: `capacityType:profile:zone`, or `spot:*:*`, `on-demand:*:*`, `on-demand:gpu:*`.
    #[schemars(extend("maxLength" = KEY_LENGTH_MAX, "pattern" = OFFERING_KEY.text))]
    pub key: String,
    /// Why, as one word in CamelCase: `Preempted`, `Shortage`, `Quota`.
    #[schemars(extend("maxLength" = REASON_LENGTH_MAX, "pattern" = REASON.text))]
    pub reason: String,
    /// Since when. A shortage that comes back soon is withheld twice as long as the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
    /// Until when.
    #[schemars(schema_with = "schema::time")]
    pub until: Time,
}

impl UnavailableOffering {
    /// The object that withholds what `key` covers.
    pub fn withhold(key: &OfferingKey, reason: &str, since: Time, until: Time) -> Self {
        let spec = UnavailableOfferingSpec {
            key: key.to_string(),
            reason: reason.to_owned(),
            since: Some(since),
            until,
        };
        Self::new(&key.object_name(), spec)
    }

    /// What is withheld, if the key means something.
    pub fn key(&self) -> Option<OfferingKey> {
        self.spec.key.parse().ok()
    }

    /// The verdict of the CRD.
    pub fn validate(&self) -> Result<(), Vec<Violation>> {
        let mut found = Violations::default();
        let at = Field::root("spec");
        OFFERING_KEY.check(&self.spec.key, at.at("key"), &mut found);
        at_most(KEY_LENGTH_MAX, &self.spec.key, at.at("key"), &mut found);
        REASON.check(&self.spec.reason, at.at("reason"), &mut found);
        at_most(REASON_LENGTH_MAX, &self.spec.reason, at.at("reason"), &mut found);
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let stands_for_it = self.key().is_none_or(|key| key.object_name() == name);
        let message =
            "the name must be the key with dots for colons, or end in '.all' or '.gpu' for a whole class";
        found.require(stands_for_it, Field::root(ROOT), message);
        found.verdict()
    }

    /// The verdict of the CRD on an update. The key cannot change, since the name cannot.
    pub fn validate_update(&self, _old: &Self) -> Result<(), Vec<Violation>> {
        self.validate()
    }
}

/// How an API server names the whole object in a cause.
const ROOT: &str = "";
