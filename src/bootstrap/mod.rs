//! What a machine is told at its first boot, so that it becomes a node: structured cloud-init, rendered from a [`Join`].
//!
//! Values become data and never text of a program: the document is JSON (which is YAML), the kubelet's configuration and
//! kubeconfig are JSON files, and the scripts are the same for every machine. The few values that stand in a unit or in
//! a list of packages follow a grammar that has no character with a meaning there; others are refused.
//!
//! `userData` of a class replaces all of this, verbatim. `userDataAppend` comes after it: a script runs once the kubelet
//! is started, a `#cloud-config` is merged by cloud-init itself, its lists after ours.

mod append;
mod document;
mod kubelet;
mod labels;
mod packages;

use std::collections::BTreeMap;

use crate::api::{CapacityType, KubeletSettings, Taint};
use crate::secret::Secret;

pub use crate::model::Reservation;
pub use labels::may_be_set_by_kubelet;
pub use packages::{Family, Packages, Version};

/// The longest user data that the VPC API takes.
pub const USER_DATA_BYTES_MAX: usize = 65_536;

/// Where everything of ours lies on a machine, but what others look for elsewhere.
const FOLDER: &str = "/var/lib/karpenter-ibm";

/// Everything that a machine must know to become a certain node.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// The name of the Node: that of the claim.
    pub node_name: String,
    /// The region of the provider id.
    pub region: String,
    /// How the machine is bought; one that may be preempted shuts down gracefully.
    pub capacity_type: CapacityType,
    /// Where the API server is, `https://host:port`.
    pub endpoint: String,
    /// The certificates that it is known by, PEM.
    pub authority: String,
    /// What the machine asks for its certificate with.
    pub token: Secret,
    /// What the class says of kubelets.
    pub kubelet: KubeletSettings,
    /// What is kept from pods: the same that the size of the machine was judged by.
    pub reservation: Reservation,
    /// The labels of the Node. Those that no kubelet may set are left to whoever registers the Node.
    pub labels: BTreeMap<String, String>,
    /// The taints of the Node; that it is not registered is always one of them.
    pub taints: Vec<Taint>,
    /// The name servers of the cluster, unless the class names others.
    pub dns: Vec<String>,
    /// Which operating system it boots.
    pub family: Family,
    /// Where kubelet and containerd come from.
    pub packages: Packages,
    /// Replaces everything above.
    pub user_data: Option<String>,
    /// Comes after everything.
    pub user_data_append: Option<String>,
}

/// A rendered document. It holds a credential, so it is as secret as that.
#[derive(Clone, Debug, PartialEq)]
pub struct UserData(Secret);

impl UserData {
    /// The text itself, for the one request that makes the machine.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// Why there is no document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// It does not fit.
    #[error("the user data has {bytes} bytes, {over} more than the 65536 that the VPC API takes")]
    TooLarge {
        /// How long it would be.
        bytes: usize,
        /// By how much that is too long.
        over: usize,
    },
    /// A value that would be more than data where it stands.
    #[error("{value:?} cannot be {what}")]
    Illegal {
        /// What it should be.
        what: &'static str,
        /// What it is.
        value: String,
    },
    /// What the class appends cannot be appended.
    #[error("userDataAppend {0}")]
    Append(String),
    /// A value cannot be written.
    #[error("writing the document: {0}")]
    Unwritable(String),
}

impl From<serde_json::Error> for RenderError {
    fn from(error: serde_json::Error) -> Self {
        Self::Unwritable(error.to_string())
    }
}

/// The user data of one machine.
pub fn render(join: &Join) -> Result<UserData, RenderError> {
    let appended = join.user_data_append.as_deref();
    let text = match (&join.user_data, appended) {
        (Some(replaced), None) => replaced.clone(),
        (Some(replaced), Some(appended)) => append::after_replacement(replaced, appended)?,
        (None, appended) => append::after(document(join)?, appended)?,
    };
    let bytes = text.len();
    if bytes > USER_DATA_BYTES_MAX {
        let over = bytes - USER_DATA_BYTES_MAX;
        return Err(RenderError::TooLarge { bytes, over });
    }
    Ok(UserData(Secret::new(text)))
}

/// Files first; then packages, the kernel, what only the machine knows, and the kubelet.
fn document(join: &Join) -> Result<document::Document, RenderError> {
    let mut document = document::Document::default();
    packages::add(&join.packages, join.family, &mut document)?;
    kubelet::add(join, &mut document)?;
    Ok(document)
}

/// The value, if every character of it is one of `legal` and there is at least one.
fn legal(what: &'static str, value: &str, legal: impl Fn(char) -> bool) -> Result<(), RenderError> {
    if !value.is_empty() && value.chars().all(legal) {
        return Ok(());
    }
    Err(RenderError::Illegal {
        what,
        value: value.to_owned(),
    })
}

#[cfg(test)]
mod tests;
