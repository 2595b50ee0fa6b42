//! What the operator's owner allows classes to use. Whoever may write a class would otherwise be root on new machines
//! in any network, with any identity of the account.
//!
//! Judged on what is written, before the cloud is asked anything. Where a list is given, what it covers must be written
//! out in the class, in the list's own spelling; only subnets and images that the class leaves open are chosen among the
//! allowed ones. Judged again where something is ordered: a class that was found ready before a restart may name what is
//! allowed no more.

use std::collections::BTreeSet;

use super::judge::Problem;
use crate::api::{IBMNodeClass, IBMNodeClassSpec};
use crate::cloud::Image;

/// What classes may use; an empty list allows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowLists {
    /// Ids of security groups.
    pub security_groups: BTreeSet<String>,
    /// Ids of subnets.
    pub subnets: BTreeSet<String>,
    /// Ids or names of images.
    pub images: BTreeSet<String>,
    /// Ids of SSH keys.
    pub keys: BTreeSet<String>,
    /// Ids or names of resource groups.
    pub resource_groups: BTreeSet<String>,
    /// Ids of trusted profiles.
    pub trusted_profiles: BTreeSet<String>,
}

/// Whether a field may be left out where a list is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absence {
    /// Nothing is used then, or only what is allowed is chosen.
    Allowed,
    /// The account's or network's default would be used, which nobody allowed.
    Refused,
}

impl AllowLists {
    /// What of a class is not allowed.
    pub(super) fn refusals(&self, spec: &IBMNodeClassSpec) -> Vec<Problem> {
        let one = |text: &Option<String>| text.iter().cloned().collect::<Vec<_>>();
        let many = |texts: &Option<Vec<String>>| texts.clone().unwrap_or_default();
        let judged = [
            check(
                &self.security_groups,
                &many(&spec.security_groups),
                Absence::Refused,
                ("securityGroups", "--allowed-security-groups"),
            ),
            check(
                &self.subnets,
                &one(&spec.subnet),
                Absence::Allowed,
                ("subnet", "--allowed-subnets"),
            ),
            check(
                &self.images,
                &one(&spec.image),
                Absence::Allowed,
                ("image", "--allowed-images"),
            ),
            check(
                &self.keys,
                &many(&spec.ssh_keys),
                Absence::Allowed,
                ("sshKeys", "--allowed-keys"),
            ),
            check(
                &self.resource_groups,
                &one(&spec.resource_group),
                Absence::Refused,
                ("resourceGroup", "--allowed-resource-groups"),
            ),
            check(
                &self.trusted_profiles,
                &one(&spec.trusted_profile),
                Absence::Allowed,
                ("trustedProfile", "--allowed-trusted-profiles"),
            ),
        ];
        judged.into_iter().flatten().collect()
    }

    /// Why a class may not be used, whatever was found when it was judged: by what it says, or by the image that was chosen
    /// for it.
    pub fn refusal(&self, class: &IBMNodeClass) -> Option<String> {
        let refusals = self.refusals(&class.spec);
        if !refusals.is_empty() {
            let messages: Vec<String> = refusals.into_iter().map(|it| it.message).collect();
            return Some(messages.join("; "));
        }
        let status = class.status.as_ref().filter(|_| class.spec.image.is_none())?;
        let name = status.resolved_image.as_ref().map(|image| &image.name);
        let chosen: Vec<&String> = [status.resolved_image_id.as_ref(), name]
            .into_iter()
            .flatten()
            .collect();
        // Before one is chosen there is nothing to refuse.
        let is_allowed = chosen.is_empty() || chosen.iter().any(|text| self.images.contains(*text));
        (!self.images.is_empty() && !is_allowed)
            .then(|| "its image is not among what --allowed-images allows".to_owned())
    }

    /// Whether a subnet that the class leaves open may be chosen.
    pub(super) fn has_subnet(&self, id: &str) -> bool {
        self.subnets.is_empty() || self.subnets.contains(id)
    }

    /// Whether an image that the class leaves open may be chosen.
    pub(super) fn has_image(&self, image: &Image) -> bool {
        self.images.is_empty() || self.images.contains(&image.id) || self.images.contains(&image.name)
    }
}

fn check(
    allowed: &BTreeSet<String>,
    written: &[String],
    absence: Absence,
    (field, setting): (&str, &str),
) -> Option<Problem> {
    if allowed.is_empty() {
        return None;
    }
    let refused: Vec<&str> = written
        .iter()
        .filter(|text| !allowed.contains(*text))
        .map(String::as_str)
        .collect();
    let message = if !refused.is_empty() {
        format!(
            "spec.{field}: {} is not among what {setting} allows",
            refused.join(", ")
        )
    } else if written.is_empty() && absence == Absence::Refused {
        format!("spec.{field} must be written: {setting} allows no default")
    } else {
        return None;
    };
    Some(Problem::new("NotAllowed", message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(lists: &AllowLists, change: &Value) -> Vec<String> {
        let mut spec = json!({
            "region": "us-south", "vpc": "v", "image": "i1", "securityGroups": ["g1"], "resourceGroup": "r1",
        });
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let refusals = lists.refusals(&serde_json::from_value(spec).unwrap());
        assert!(refusals.iter().all(|it| it.reason == "NotAllowed"));
        refusals.into_iter().map(|it| it.message).collect()
    }

    fn lists() -> AllowLists {
        let one = |text: &str| BTreeSet::from([text.to_owned()]);
        AllowLists {
            security_groups: one("g1"),
            subnets: one("s1"),
            images: one("i1"),
            keys: one("k1"),
            resource_groups: one("r1"),
            trusted_profiles: one("p1"),
        }
    }

    #[test]
    fn empty_lists_allow_everything() {
        assert_eq!(
            refused(
                &AllowLists::default(),
                &json!({"sshKeys": ["x"], "trustedProfile": "x"})
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_is_in_the_lists_is_allowed() {
        let all = json!({"subnet": "s1", "sshKeys": ["k1"], "trustedProfile": "p1"});
        assert_eq!(refused(&lists(), &all), Vec::<String>::new());
        assert_eq!(refused(&lists(), &json!({})), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_in_a_list_is_refused_by_field_and_setting() {
        for (change, field, setting) in [
            (
                json!({"securityGroups": ["g1", "g2"]}),
                "securityGroups: g2",
                "--allowed-security-groups",
            ),
            (json!({"subnet": "s2"}), "subnet: s2", "--allowed-subnets"),
            (json!({"image": "i2"}), "image: i2", "--allowed-images"),
            (json!({"sshKeys": ["k2"]}), "sshKeys: k2", "--allowed-keys"),
            (
                json!({"resourceGroup": "r2"}),
                "resourceGroup: r2",
                "--allowed-resource-groups",
            ),
            (
                json!({"trustedProfile": "p2"}),
                "trustedProfile: p2",
                "--allowed-trusted-profiles",
            ),
        ] {
            let [message] = refused(&lists(), &change).try_into().unwrap();
            assert!(message.contains(field) && message.contains(setting), "{message}");
        }
    }

    #[test]
    fn an_image_that_was_chosen_under_other_lists_is_refused() {
        let class = |image: &str| -> IBMNodeClass {
            let spec = json!({
                "region": "us-south", "vpc": "v", "imageSelector": {"os": "ubuntu", "majorVersion": "24"},
                "securityGroups": ["g1"], "resourceGroup": "r1",
            });
            let status = json!({"resolvedImageID": "id", "resolvedImage": {"name": image}});
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": status}))
                .unwrap()
        };
        assert_eq!(lists().refusal(&class("i1")), None);
        let refused = lists().refusal(&class("i2")).unwrap();
        assert!(refused.contains("--allowed-images"), "{refused}");
        assert_eq!(AllowLists::default().refusal(&class("i2")), None);
    }

    #[test]
    fn a_default_that_nobody_allowed_is_refused() {
        for field in ["securityGroups", "resourceGroup"] {
            let [message] = refused(&lists(), &json!({field: null})).try_into().unwrap();
            assert!(message.contains("must be written"), "{message}");
        }
    }
}
