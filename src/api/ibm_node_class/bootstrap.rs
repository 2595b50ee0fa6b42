//! How machines of a class become nodes: where they find the cluster, and where kubelet and containerd come from.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::api::condition::at_most;
use crate::api::pattern;
use crate::api::violation::{Field, Violations};

/// Longest address; far more than any that is in use.
const URL_LENGTH_MAX: usize = 512;
/// A bundle of a dozen certificates, and still a quarter of all user data.
const AUTHORITY_LENGTH_MAX: usize = 16_384;
/// An armored key with its signatures has a few thousand characters.
const KEY_LENGTH_MAX: usize = 16_384;
/// The families of operating systems that we know how to set up.
const FAMILIES: [&str; 2] = ["debian", "rhel"];

/// How machines become nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Address of the API server as nodes reach it, `https` only. The operator's own setting if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = URL_LENGTH_MAX, "pattern" = pattern::SERVER_URL.text))]
    pub cluster_endpoint: Option<String>,
    /// Certificates that the API server is known by, as PEM. The cluster's own authority if absent.
    #[serde(default, rename = "clusterCA", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = AUTHORITY_LENGTH_MAX, "pattern" = pattern::CERTIFICATES.text))]
    pub cluster_ca: Option<String>,
    /// Family of the operating system, which decides how packages are installed: `debian` or `rhel`. What the image
    /// says if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = FAMILIES))]
    pub family: Option<String>,
    /// Where kubelet and containerd come from when the image has them not. Kubernetes' community packages, at the
    /// minor version of the API server, if absent; an empty repository means that the image brings both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
}

/// A repository of packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.address) == has(self.key)", "'address' and 'key' go together"))]
pub struct Repository {
    /// Address of the repository, `https` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = URL_LENGTH_MAX, "pattern" = pattern::HTTPS_URL.text))]
    pub address: Option<String>,
    /// The key that its packages are signed with: an armored OpenPGP public key, or the `https` address of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = KEY_LENGTH_MAX, "pattern" = pattern::PACKAGE_KEY.text))]
    pub key: Option<String>,
}

impl Bootstrap {
    pub(super) fn validate(&self, at: Field<'_>, found: &mut Violations) {
        for (name, text, grammar, max) in [
            (
                "clusterEndpoint",
                &self.cluster_endpoint,
                &pattern::SERVER_URL,
                URL_LENGTH_MAX,
            ),
            (
                "clusterCA",
                &self.cluster_ca,
                &pattern::CERTIFICATES,
                AUTHORITY_LENGTH_MAX,
            ),
        ] {
            check(text.as_deref(), grammar, max, at.at(name), found);
        }
        if let Some(family) = self.family.as_deref().filter(|family| !FAMILIES.contains(family)) {
            let message = format!("{family:?} is none of {}", FAMILIES.join(", "));
            found.blame(at.at("family"), message);
        }
        if let Some(repository) = &self.repository {
            repository.validate(at.at("repository"), found);
        }
    }
}

impl Repository {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        let (address, key) = (self.address.as_deref(), self.key.as_deref());
        check(
            address,
            &pattern::HTTPS_URL,
            URL_LENGTH_MAX,
            at.at("address"),
            found,
        );
        check(key, &pattern::PACKAGE_KEY, KEY_LENGTH_MAX, at.at("key"), found);
        found.require(
            address.is_some() == key.is_some(),
            at,
            "'address' and 'key' go together",
        );
    }
}

fn check(text: Option<&str>, grammar: &pattern::Pattern, max: usize, at: Field<'_>, found: &mut Violations) {
    if let Some(text) = text {
        grammar.check(text, at, found);
        at_most(max, text, at, found);
    }
}
