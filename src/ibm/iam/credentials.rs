//! Who we are to IBM Cloud: an API key, or a trusted profile.

use std::path::{Path, PathBuf};

use crate::ibm::secret::Secret;

/// The longest key or token file that is read. IBM's keys have 44 characters, ServiceAccount tokens about 1,500.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// How tokens are obtained.
#[derive(Clone, Debug, PartialEq)]
pub enum Credentials {
    /// By an API key.
    ApiKey(KeySource),
    /// By a trusted profile that this pod's ServiceAccount may assume: the projected token is exchanged for one of
    /// IAM's.
    ServiceAccount {
        /// Where the projected ServiceAccount token is mounted.
        token_file: PathBuf,
        /// The profile to assume.
        profile: TrustedProfile,
    },
    /// By a trusted profile that this machine may assume, through the VPC's metadata service.
    InstanceIdentity {
        /// The profile to assume; `None` for the one linked to the machine.
        profile: Option<TrustedProfile>,
    },
}

/// Where an API key comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySource {
    /// Given directly, in the environment.
    Given(Secret),
    /// A file that is read again for every token, so that a rotated key is picked up without a restart.
    File(PathBuf),
}

/// A trusted profile, by id or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedProfile {
    /// `Profile-…`
    Id(String),
    /// Unique in the account.
    Name(String),
}

impl TrustedProfile {
    /// IBM's ids begin with `Profile-`; anything else is a name.
    pub fn parse(text: &str) -> Self {
        if text.starts_with("Profile-") {
            Self::Id(text.to_owned())
        } else {
            Self::Name(text.to_owned())
        }
    }
}

/// Why a secret could not be read from its file.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SecretFileError {
    /// It cannot be opened or read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// It holds nothing, or nothing that could travel in a header.
    #[error("{path} holds no usable secret: {reason}")]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with its content; never the content.
        reason: &'static str,
    },
}

impl KeySource {
    /// The key as it is now.
    pub fn read(&self) -> Result<Secret, SecretFileError> {
        match self {
            Self::Given(key) => Ok(key.clone()),
            Self::File(path) => read_secret(path),
        }
    }
}

/// Reads a file that holds one secret, without the white space around it.
pub fn read_secret(path: &Path) -> Result<Secret, SecretFileError> {
    let unreadable = |error: std::io::Error| SecretFileError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let unusable = |reason| SecretFileError::Unusable {
        path: path.to_owned(),
        reason,
    };
    if std::fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(unusable("it is longer than 64 KiB"));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let secret = text.trim();
    if secret.is_empty() {
        return Err(unusable("it is empty"));
    }
    if secret.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(unusable("it has spaces or characters that no key has"));
    }
    Ok(Secret::new(secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("karpenter-ibm-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        path
    }

    #[test]
    fn white_space_around_a_key_is_no_part_of_it() {
        let path = file("key", "  abc-DEF_123\n");
        assert_eq!(read_secret(&path).unwrap().expose(), "abc-DEF_123");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_without_a_key_is_named_and_its_content_is_not() {
        for content in ["", " \n", "two words", "bad\u{7f}byte", "schlüssel"] {
            let path = file("bad", content);
            let error = read_secret(&path).unwrap_err().to_string();
            assert!(error.contains("karpenter-ibm-"), "{error}");
            assert!(content.trim().is_empty() || !error.contains(content), "{error}");
            std::fs::remove_file(path).unwrap();
        }
        assert!(read_secret(Path::new("/nonexistent/key")).is_err());
    }

    #[test]
    fn profiles_are_told_apart_by_ibms_prefix() {
        assert_eq!(
            TrustedProfile::parse("Profile-9fd8"),
            TrustedProfile::Id("Profile-9fd8".into())
        );
        assert_eq!(
            TrustedProfile::parse("karpenter"),
            TrustedProfile::Name("karpenter".into())
        );
    }
}
