//! The hash of a class: machines whose hash differs from it are made of something else and have drifted.
//!
//! Covered is what a machine is made of and cannot be changed on it, whatever fields the class has or will have, but for
//! those named in [`NOT_COVERED`]: names for places and images are judged by what they stand for, against the machine
//! itself; tags and the choice among places make no other machine. An empty field says the same as an absent one, a
//! default counts as if it were written, and lists count in any order. The resource group is covered although it never
//! changes: what was stamped on claims before that was so stays comparable.

use std::collections::BTreeMap;

use serde_json::Value;

use super::IBMNodeClass;
use crate::hash::{Arrays, canonical, fnv1a};

/// How [`IBMNodeClass::hash`] is computed. Hashes of different versions are never compared: nodes are stamped anew.
pub const NODE_CLASS_HASH_VERSION: &str = "v1";

/// What a machine is made of, by the field that says it, as text.
pub type Ingredients = BTreeMap<String, String>;

/// Judged against the machine itself (`region` to `securityGroups`), or no part of a machine.
const NOT_COVERED: [&str; 9] = [
    "region",
    "zone",
    "subnet",
    "image",
    "imageSelector",
    "imageOwner",
    "securityGroups",
    "placementStrategy",
    "tags",
];

/// Longer values are told by length and hash: an annotation is no place for documents.
const TOLD_BYTES_MAX: usize = 256;

impl IBMNodeClass {
    /// The hash of what machines of this class are made of, as decimal digits.
    pub fn hash(&self) -> String {
        let texts: Vec<String> = self
            .covered()
            .into_iter()
            .map(|(field, text)| format!("{field}={text}"))
            .collect();
        fnv1a(texts.join("\n").as_bytes()).to_string()
    }

    /// What machines of this class are made of, for people. User data may hold secrets, so it is never told.
    pub fn ingredients(&self) -> Ingredients {
        let told = |field: &str, text: String| {
            if field.starts_with("userData") || text.len() > TOLD_BYTES_MAX {
                format!("{} bytes, hash {:016x}", text.len(), fnv1a(text.as_bytes()))
            } else {
                text
            }
        };
        self.covered()
            .into_iter()
            .map(|(field, text)| (field.clone(), told(&field, text)))
            .collect()
    }

    /// The canonical text of every covered field that says something.
    fn covered(&self) -> Ingredients {
        let mut spec = serde_json::to_value(&self.spec).unwrap_or_default();
        for volume in array(&mut spec, "blockDeviceMappings") {
            normalize(volume);
        }
        // An empty repository says that the image brings everything, an absent one that the usual one is used.
        if let Some(repository) = spec.pointer_mut("/bootstrap/repository")
            && repository.as_object().is_some_and(serde_json::Map::is_empty)
        {
            *repository = "none".into();
        }
        let fields = spec.as_object().into_iter().flatten();
        fields
            .filter(|(field, _)| !NOT_COVERED.contains(&field.as_str()))
            .filter_map(|(field, value)| Some((field.clone(), canonical(value, Arrays::Sets)?)))
            .collect()
    }
}

fn array<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Takes away what an API server would add by default, and the tags.
fn normalize(volume: &mut Value) {
    drop_if(volume, "rootVolume", &Value::Bool(false));
    if let Some(spec) = volume.get_mut("volumeSpec") {
        drop_if(spec, "deleteOnTermination", &Value::Bool(true));
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("tags");
        }
    }
}

fn drop_if(value: &mut Value, field: &str, default: &Value) {
    if let Some(fields) = value.as_object_mut()
        && fields.get(field) == Some(default)
    {
        fields.remove(field);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn class(spec: &Value) -> IBMNodeClass {
        let mut whole = json!({
            "region": "us-south", "vpc": "r006-cd031a72-f3d8-46cf-af44-0d76e89cd51e", "image": "ibm-a",
        });
        for (field, value) in spec.as_object().unwrap() {
            whole[field] = value.clone();
        }
        serde_json::from_value(json!({"metadata": {"name": "default"}, "spec": whole})).unwrap()
    }

    fn hash(spec: &Value) -> String {
        class(spec).hash()
    }

    #[test]
    fn a_hash_never_changes_between_releases() {
        assert_eq!(hash(&json!({})), "10399314220559477657");
    }

    #[test]
    fn what_machines_are_made_of_changes_the_hash() {
        let before = hash(&json!({}));
        for change in [
            json!({"vpc": "r006-00000000-f3d8-46cf-af44-0d76e89cd51e"}),
            json!({"sshKeys": ["k"]}),
            json!({"resourceGroup": "g"}),
            json!({"placementTarget": "p"}),
            json!({"trustedProfile": "p"}),
            json!({"userData": "x"}),
            json!({"blockDeviceMappings": [{"rootVolume": true}]}),
            json!({"blockDeviceMappings": [{"volumeSpec": {"deleteOnTermination": false}}]}),
        ] {
            assert_ne!(hash(&change), before, "{change}");
        }
    }

    #[test]
    fn what_is_judged_elsewhere_or_makes_no_other_machine_does_not() {
        let before = hash(&json!({}));
        for change in [
            json!({"zone": "us-south-1"}),
            json!({"subnet": "s"}),
            json!({"image": "ibm-b", "imageOwner": "ibm"}),
            json!({"securityGroups": ["g"]}),
            json!({"placementStrategy": {"subnetSelection": {"minimumAvailableIPs": 3}}}),
            json!({"tags": {"team": "a"}}),
            json!({"sshKeys": []}),
        ] {
            assert_eq!(hash(&change), before, "{change}");
        }
    }

    #[test]
    fn a_default_counts_as_if_it_were_written_and_volume_tags_not_at_all() {
        let bare = json!({"blockDeviceMappings": [{"rootVolume": true}, {"volumeSpec": {"capacity": 9}}]});
        let full = json!({"blockDeviceMappings": [
            {"rootVolume": true, "volumeSpec": {"deleteOnTermination": true}},
            {"rootVolume": false, "volumeSpec": {"capacity": 9, "deleteOnTermination": true, "tags": ["a"]}},
        ]});
        assert_eq!(hash(&bare), hash(&full));
    }

    #[test]
    fn user_data_is_told_by_length_and_hash_only() {
        let told = class(&json!({"userData": "canary"})).ingredients();
        assert!(!format!("{told:?}").contains("canary"), "{told:?}");
        assert!(told["userData"].starts_with("8 bytes, hash "), "{told:?}");
    }

    #[test]
    fn nor_does_that_of_a_class_which_says_everything() {
        let full = json!({
            "sshKeys": ["k"], "resourceGroup": "g", "placementTarget": "p", "trustedProfile": "t",
            "userDataAppend": "#!/bin/sh", "kubelet": {"maxPods": 60, "clusterDNS": ["10.0.0.2"]},
            "bootstrap": {"repository": {}},
            "blockDeviceMappings": [{"rootVolume": true, "volumeSpec": {"capacity": 200}}],
        });
        assert_eq!(hash(&full), "16260933568152848580");
    }

    /// What a volume may say, in part.
    fn any_volume() -> impl Strategy<Value = Value> {
        let spec = (prop::option::of(10i64..12), prop::option::of(any::<bool>()));
        (any::<bool>(), prop::option::of(spec)).prop_map(|(is_root, spec)| {
            let mut volume = json!({});
            if is_root {
                volume["rootVolume"] = true.into();
            }
            if let Some((capacity, goes)) = spec {
                volume["volumeSpec"] = json!({});
                if let Some(capacity) = capacity {
                    volume["volumeSpec"]["capacity"] = capacity.into();
                }
                if let Some(goes) = goes {
                    volume["volumeSpec"]["deleteOnTermination"] = goes.into();
                }
            }
            volume
        })
    }

    fn any_spec() -> impl Strategy<Value = Value> {
        let keys = prop::collection::vec("[a-c]{1,2}", 0..5);
        let servers = prop::collection::vec("10\\.0\\.0\\.[1-3]", 0..4);
        let volumes = prop::collection::vec(any_volume(), 0..4);
        (keys, servers, volumes).prop_map(|(keys, servers, volumes)| {
            json!({"sshKeys": keys, "kubelet": {"clusterDNS": servers}, "blockDeviceMappings": volumes})
        })
    }

    /// Every list the other way round.
    fn turned(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().rev().map(turned).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| (key.clone(), turned(value)))
                .collect(),
            other => other.clone(),
        }
    }

    /// With what an API server writes where nothing is said.
    fn defaulted(spec: &Value) -> Value {
        let mut spec = spec.clone();
        for volume in array(&mut spec, "blockDeviceMappings") {
            let unsaid = volume.get("rootVolume").is_none();
            if unsaid {
                volume["rootVolume"] = false.into();
            }
            if let Some(spec) = volume.get_mut("volumeSpec")
                && spec.get("deleteOnTermination").is_none()
            {
                spec["deleteOnTermination"] = true.into();
            }
        }
        spec
    }

    proptest! {
        #[test]
        fn neither_the_order_of_lists_counts_nor_whether_a_default_is_written(spec in any_spec()) {
            let before = hash(&spec);
            prop_assert_eq!(&before, &hash(&turned(&spec)));
            prop_assert_eq!(&before, &hash(&defaulted(&spec)));
        }

        #[test]
        fn a_key_more_or_less_is_another_machine(spec in any_spec()) {
            let mut more = spec.clone();
            more["sshKeys"].as_array_mut().unwrap().push("another".into());
            prop_assert_ne!(hash(&spec), hash(&more));
        }
    }
}
