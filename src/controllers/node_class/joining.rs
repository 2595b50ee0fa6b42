//! Whether machines of a class could become nodes at all: found out before one is bought.
//!
//! The document that a machine would get is rendered once, with a credential that is none. What cannot be rendered, and
//! what nobody has said, is a problem of the class; so no token is made and no intent written for it.

use std::collections::BTreeMap;

use super::judge::Problem;
use crate::api::{CapacityType, IBMNodeClass, ResolvedImage};
use crate::bootstrap::{self, Family, Join, Packages, Version};
use crate::controllers::context::Settings;
use crate::model::Reservation;
use crate::secret::Secret;

/// As long as a real one is: a JWT signed with RSA-2048, some claims, and room to spare.
const TOKEN_BYTES: usize = 1400;
/// Only the address of packages hangs on it, and not whether there is one.
const VERSION: Version = Version { major: 1, minor: 30 };

/// Where machines of a class reach the API server, and by which certificates they know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// `https://host:port`.
    pub endpoint: String,
    /// PEM.
    pub authority: String,
}

/// What the class says, else what is set; `None` while neither does. A document that the class brings itself needs
/// neither.
pub fn reach(class: &IBMNodeClass, settings: &Settings) -> Option<Reach> {
    let written = class.spec.bootstrap.as_ref();
    let set = settings.cluster.as_ref();
    let endpoint = written.and_then(|it| it.cluster_endpoint.clone());
    let authority = written.and_then(|it| it.cluster_ca.clone());
    let unneeded = class.spec.user_data.as_ref().map(|_| String::new());
    Some(Reach {
        endpoint: endpoint
            .or_else(|| set.map(|it| it.endpoint.clone()))
            .or_else(|| unneeded.clone())?,
        authority: authority
            .or_else(|| set.map(|it| it.authority.clone()))
            .or(unneeded)?,
    })
}

/// How a machine of a class is set up: what the class says, else what its image is.
pub fn family(class: &IBMNodeClass, image: Option<&ResolvedImage>) -> Option<Family> {
    let written = class.spec.bootstrap.as_ref().and_then(|it| it.family.as_deref());
    let os = image.and_then(|image| image.operating_system.as_deref());
    let unneeded = class.spec.user_data.as_ref().map(|_| Family::Debian);
    written.or(os).and_then(Family::of).or(unneeded)
}

/// Why no machine of a class could join, if none could. `image` is what the class boots, once that is known.
pub(super) fn problem(
    class: &IBMNodeClass,
    image: Option<&ResolvedImage>,
    settings: &Settings,
) -> Option<Problem> {
    let Some(reach) = reach(class, settings) else {
        let message = "nobody says where machines reach the API server and how they know it: set \
                       --cluster-endpoint, or spec.bootstrap.clusterEndpoint and spec.bootstrap.clusterCA";
        return Some(Problem::new("ClusterUnknown", message.to_owned()));
    };
    let Some(family) = family(class, image) else {
        // Without an image there is another problem, and this may be none.
        let message = "the image's operating system is of no family that can be set up: say \
                       spec.bootstrap.family";
        return image.map(|_| Problem::new("FamilyUnknown", message.to_owned()));
    };
    let rendered = bootstrap::render(&sample(class, settings, reach, family));
    rendered
        .err()
        .map(|error| Problem::new("UserDataInvalid", format!("no machine can be set up: {error}")))
}

/// What is worth knowing of how machines of a class join. Kubernetes' community packages have no containerd, and neither
/// have the repositories that come with RHEL.
pub(super) fn note(class: &IBMNodeClass, image: Option<&ResolvedImage>) -> Option<String> {
    let brings_its_own = class.spec.user_data.is_some();
    let bootstrap = class.spec.bootstrap.as_ref();
    let is_default = bootstrap.is_none_or(|bootstrap| bootstrap.repository.is_none());
    let is_rhel = family(class, image) == Some(Family::Rhel);
    (is_rhel && is_default && !brings_its_own).then(|| {
        "kubelet comes from Kubernetes' community packages, which have no containerd: the image must know a repository that \
         has it, or bring both; else set spec.bootstrap.repository"
            .to_owned()
    })
}

/// What a machine of the class would be told.
fn sample(class: &IBMNodeClass, settings: &Settings, reach: Reach, family: Family) -> Join {
    let spec = &class.spec;
    Join {
        node_name: "a".to_owned(),
        region: settings.region.clone(),
        capacity_type: CapacityType::Spot,
        endpoint: reach.endpoint,
        authority: reach.authority,
        token: Secret::new("a".repeat(TOKEN_BYTES)),
        kubelet: spec.kubelet.clone().unwrap_or_default(),
        reservation: Reservation::default(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        dns: settings
            .cluster
            .as_ref()
            .map(|it| it.dns.clone())
            .unwrap_or_default(),
        family,
        packages: Packages::of(spec.bootstrap.as_ref(), family, VERSION),
        user_data: spec.user_data.clone(),
        user_data_append: spec.user_data_append.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controllers::context::ClusterAccess;

    const CA: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    fn class(change: &Value) -> IBMNodeClass {
        let mut spec = json!({"region": "us-south", "vpc": "v", "image": "i"});
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value(json!({"metadata": {"name": "default"}, "spec": spec})).unwrap()
    }

    /// Nobody says where the cluster is.
    fn untold() -> Settings {
        Settings::new("us-south", "n", "n/p")
    }

    /// The settings do.
    fn told() -> Settings {
        let access = ClusterAccess {
            endpoint: "https://10.0.0.1:6443".to_owned(),
            authority: CA.to_owned(),
            dns: vec!["10.96.0.10".to_owned()],
        };
        Settings {
            cluster: Some(access),
            ..untold()
        }
    }

    fn image(os: &str) -> ResolvedImage {
        ResolvedImage {
            name: "i".to_owned(),
            architecture: None,
            operating_system: Some(os.to_owned()),
        }
    }

    fn reason(change: &Value, settings: &Settings) -> Option<&'static str> {
        let image = image("ubuntu-24-04-amd64");
        problem(&class(change), Some(&image), settings).map(|it| it.reason)
    }

    #[test]
    fn somebody_must_say_where_the_api_server_is() {
        assert_eq!(reason(&json!({}), &told()), None);
        assert_eq!(reason(&json!({}), &untold()), Some("ClusterUnknown"));
        let said = json!({"bootstrap": {"clusterEndpoint": "https://10.0.0.2:6443", "clusterCA": CA}});
        assert_eq!(reason(&said, &untold()), None);
        let half = json!({"bootstrap": {"clusterEndpoint": "https://10.0.0.2:6443"}});
        assert_eq!(reason(&half, &untold()), Some("ClusterUnknown"));
        let own = json!({"userData": "#!/bin/sh\n"});
        assert_eq!(reason(&own, &untold()), None, "it joins by means of its own");
    }

    #[test]
    fn an_image_of_no_known_family_needs_a_word() {
        let of = |change: &Value, os: &str| {
            let image = image(os);
            problem(&class(change), Some(&image), &told()).map(|it| it.reason)
        };
        assert_eq!(of(&json!({}), "windows-2022-amd64"), Some("FamilyUnknown"));
        assert_eq!(
            of(&json!({"bootstrap": {"family": "debian"}}), "windows-2022-amd64"),
            None
        );
        assert_eq!(of(&json!({}), "red-9-amd64"), None);
        assert_eq!(problem(&class(&json!({})), None, &told()), None, "not known yet");
    }

    #[test]
    fn an_image_of_the_rhel_family_must_know_where_containerd_is() {
        let of = |change: &Value, os: &str| {
            let image = image(os);
            note(&class(change), Some(&image)).is_some()
        };
        let rhel = "red-9-amd64";
        assert!(of(&json!({}), rhel));
        assert!(of(
            &json!({"bootstrap": {"family": "rhel"}}),
            "ubuntu-24-04-amd64"
        ));
        assert!(!of(&json!({}), "ubuntu-24-04-amd64"));
        assert!(
            !of(&json!({"bootstrap": {"repository": {}}}), rhel),
            "it brings both"
        );
        assert!(!of(&json!({"userData": "#!/bin/sh"}), rhel));
    }

    #[test]
    fn what_cannot_be_rendered_is_told_before_anything_is_bought() {
        let append = |text: &str| reason(&json!({"userDataAppend": text}), &told());
        for good in [
            "#!/bin/sh\necho $(id)\nEOF\n",
            "#cloud-config\r\nruncmd: []\r\n",
            "",
        ] {
            assert_eq!(append(good), None, "{good:?}");
        }
        let long = format!("#!/bin/sh\n{}", "#".repeat(64_000));
        for bad in [
            "hello",
            "Content-Type: multipart/mixed; boundary=\"a\"\n\n--a--\n",
            "#cloud-config\n- [",
            &long,
        ] {
            assert_eq!(append(bad), Some("UserDataInvalid"), "{bad:.40}");
        }
    }
}
