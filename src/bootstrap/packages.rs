//! Where kubelet and containerd come from: the image, or a repository of packages that a script reads when the image
//! lacks one of them.

use std::fmt;
use std::str::FromStr;

use super::document::{Access, Document};
use super::{FOLDER, RenderError, legal};
use crate::api;

/// Which tools an operating system installs packages with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Debian, Ubuntu: apt.
    Debian,
    /// RHEL, CentOS, Rocky: dnf.
    Rhel,
}

/// Where kubelet and containerd come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packages {
    /// The image brings both.
    Image,
    /// From here, unless the image brings both.
    Repository {
        /// Where the packages are.
        address: String,
        /// The key that they are signed with, armored, or where there is one.
        key: String,
    },
}

/// The version of an API server, as far as packages hang on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// `1`
    pub major: u16,
    /// `35`
    pub minor: u16,
}

/// A text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no version of Kubernetes")]
pub struct NotAVersion(String);

impl FromStr for Version {
    type Err = NotAVersion;

    /// Reads `v1.35.4`, and what vendors put after it.
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let wrong = || NotAVersion(text.to_owned());
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let mut number = || {
            let part = parts.next()?;
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse().ok()
        };
        Ok(Self {
            major: number().ok_or_else(wrong)?,
            minor: number().ok_or_else(wrong)?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.major, self.minor)
    }
}

impl Family {
    /// The family of an operating system, by the name that its images carry; `None` for one that we cannot set up.
    pub fn of(os: &str) -> Option<Self> {
        match os.to_ascii_lowercase().split(['-', ' ']).next()? {
            "debian" | "ubuntu" => Some(Self::Debian),
            "rhel" | "red" | "redhat" | "centos" | "rocky" | "rockylinux" | "alma" | "almalinux"
            | "fedora" => Some(Self::Rhel),
            _ => None,
        }
    }
}

impl Packages {
    /// What a class says, and where it says nothing, Kubernetes' community packages of the same minor version: a
    /// kubelet must not be newer than its API server.
    pub fn of(bootstrap: Option<&api::Bootstrap>, family: Family, server: Version) -> Self {
        let Some(repository) = bootstrap.and_then(|bootstrap| bootstrap.repository.as_ref()) else {
            return Self::community(family, server);
        };
        match (&repository.address, &repository.key) {
            (Some(address), Some(key)) => Self::Repository {
                address: address.clone(),
                key: key.clone(),
            },
            _ => Self::Image,
        }
    }

    fn community(family: Family, server: Version) -> Self {
        let (folder, key) = match family {
            Family::Debian => ("deb", "Release.key"),
            Family::Rhel => ("rpm", "repodata/repomd.xml.key"),
        };
        let address = format!("https://pkgs.k8s.io/core:/stable:/{server}/{folder}/");
        Self::Repository {
            key: format!("{address}{key}"),
            address,
        }
    }
}

/// The first lines of a key that is there and not elsewhere.
const ARMOR: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

/// Version 2 is read by containerd 1 and 2 alike. The kubelet counts on the cgroups being systemd's.
const CONTAINERD: &str = r#"version = 2

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = true
"#;

/// What the packages do not load by themselves and the network of pods needs.
const MODULES: &str = "overlay\nbr_netfilter\n";
const SYSCTL: &str = "net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\n";

/// Adds what comes before the kubelet.
pub(super) fn add(packages: &Packages, family: Family, document: &mut Document) -> Result<(), RenderError> {
    document.file("/etc/modules-load.d/karpenter-ibm.conf", Access::Public, MODULES);
    document.file("/etc/sysctl.d/99-karpenter-ibm.conf", Access::Public, SYSCTL);
    document.run(&["modprobe", "--all", "overlay", "br_netfilter"]);
    document.run(&["sysctl", "--system"]);
    if let Packages::Repository { address, key } = packages {
        install(family, address, key, document)?;
    }
    Ok(())
}

fn install(family: Family, address: &str, key: &str, document: &mut Document) -> Result<(), RenderError> {
    check_url("the address of a repository", address)?;
    let is_armored = key.starts_with(ARMOR);
    if !is_armored {
        check_url("the key of a repository", key)?;
    }
    let at = |name: &str| format!("{FOLDER}/{name}");
    if is_armored {
        document.file(&at("packages.asc"), Access::Public, key);
    }
    document.file(&at("containerd.toml"), Access::Public, CONTAINERD);
    let script = match family {
        Family::Debian => {
            if !is_armored {
                document.file(&at("key-address"), Access::Public, key);
            }
            let sources = format!(
                "Types: deb\nURIs: {address}\nSuites: /\nSigned-By: /etc/apt/keyrings/karpenter-ibm.asc\n"
            );
            document.file(&at("packages.sources"), Access::Public, &sources);
            include_str!("scripts/install-debian.sh")
        }
        Family::Rhel => {
            let key = if is_armored {
                format!("file://{}", at("packages.asc"))
            } else {
                key.to_owned()
            };
            let repository = format!(
                "[karpenter-ibm]\nname=Kubernetes\nbaseurl={address}\nenabled=1\ngpgcheck=1\ngpgkey={key}\n"
            );
            document.file(&at("packages.repo"), Access::Public, &repository);
            include_str!("scripts/install-rhel.sh")
        }
    };
    document.file(&at("install"), Access::Program, script);
    document.run(&["sh", &at("install")]);
    Ok(())
}

/// Refuses what could end a line, or be a variable of a package manager.
fn check_url(what: &'static str, url: &str) -> Result<(), RenderError> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "._~:+%/-".contains(c);
    let rest = url.strip_prefix("https://").unwrap_or_default();
    legal(what, rest, is_legal).map_err(|_| RenderError::Illegal {
        what,
        value: url.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_server_is_read_with_whatever_vendors_add() {
        let version = |text: &str| text.parse::<Version>().map(|it| it.to_string());
        assert_eq!(version("v1.35.4").unwrap(), "v1.35");
        assert_eq!(version("v1.30.2+IKS").unwrap(), "v1.30");
        assert_eq!(version("1.31+").unwrap(), "v1.31");
        assert!(version("v1").is_err() && version("one.two").is_err());
    }

    #[test]
    fn an_absent_repository_is_the_communitys_and_an_empty_one_is_the_image() {
        let server = Version { major: 1, minor: 35 };
        let of = |bootstrap: Option<&api::Bootstrap>, family| Packages::of(bootstrap, family, server);
        let Packages::Repository { address, key } = of(None, Family::Rhel) else {
            panic!("no repository")
        };
        assert_eq!(address, "https://pkgs.k8s.io/core:/stable:/v1.35/rpm/");
        assert!(key.starts_with(&address));
        let silent = api::Bootstrap::default();
        assert_eq!(of(Some(&silent), Family::Debian), of(None, Family::Debian));
        let empty = api::Bootstrap {
            repository: Some(api::Repository::default()),
            ..silent
        };
        assert_eq!(of(Some(&empty), Family::Debian), Packages::Image);
    }

    #[test]
    fn a_family_is_known_by_the_name_of_the_system() {
        assert_eq!(Family::of("ubuntu-24-04-amd64"), Some(Family::Debian));
        assert_eq!(Family::of("red-9-amd64"), Some(Family::Rhel));
        assert_eq!(Family::of("windows-2022-amd64"), None);
    }

    #[test]
    fn an_address_that_could_end_its_line_is_refused() {
        for address in [
            "http://a.example",
            "https://a\nb",
            "https://a b",
            "https://",
            "https://$releasever",
        ] {
            let packages = Packages::Repository {
                address: address.to_owned(),
                key: "https://a.example/key".to_owned(),
            };
            let refused = add(&packages, Family::Rhel, &mut Document::default());
            assert!(refused.is_err(), "{address}");
        }
    }
}
