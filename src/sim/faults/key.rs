//! The operator's API key, as a cluster mounts it: in a file that replicas read again for every token. People who rotate
//! keys put the new one there when the old one is no good any more.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

/// Worlds of one process have a file each.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The file, and the key that it is to hold. Clones are the same one; the file goes with the last of them.
#[derive(Clone, Debug)]
pub struct KeyFile(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    path: PathBuf,
    key: Mutex<String>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // What stays is worthless.
        let _ = fs::remove_file(&self.path);
    }
}

impl KeyFile {
    /// A file with that key.
    pub fn new(key: &str) -> io::Result<Self> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("karpenter-ibm-{}-{number}.key", std::process::id());
        let file = Self(Arc::new(Kept {
            path: std::env::temp_dir().join(name),
            key: Mutex::new(key.to_owned()),
        }));
        file.publish()?;
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// There is another key from now on; the file does not say so yet.
    pub(super) fn rotate(&self, key: &str) {
        let mut known = self.0.key.lock().unwrap_or_else(PoisonError::into_inner);
        key.clone_into(&mut known);
    }

    /// Puts the key into the file: the last one, whoever does so.
    pub(super) fn publish(&self) -> io::Result<()> {
        let key = self.0.key.lock().unwrap_or_else(PoisonError::into_inner);
        fs::write(&self.0.path, key.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_the_last_key_once_it_is_told_and_goes_with_its_world() {
        let file = KeyFile::new("first").unwrap();
        let said = || fs::read_to_string(file.path()).unwrap();
        for key in ["second", "third"] {
            file.rotate(key);
            assert_eq!(said(), "first");
        }
        file.publish().unwrap();
        assert_eq!(said(), "third");
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }
}
