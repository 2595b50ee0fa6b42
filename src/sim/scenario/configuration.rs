//! The operator's configuration file, as the people of a story write it: a file of its own that goes with the stage.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

/// Stages of one process have a file each.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The file. Clones are the same one; it goes with the last of them.
#[derive(Clone, Debug)]
pub struct Configuration(Arc<Temporary>);

#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // What stays is worthless.
        let _ = fs::remove_file(&self.0);
    }
}

impl Configuration {
    /// An empty file, which says nothing.
    pub fn new() -> io::Result<Self> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("karpenter-ibm-{}-{number}.yaml", std::process::id());
        let file = Self(Arc::new(Temporary(std::env::temp_dir().join(name))));
        file.write("")?;
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.0
    }

    /// Puts `text` in place of what it said.
    pub fn write(&self, text: &str) -> io::Result<()> {
        fs::write(self.path(), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_a_file_that_goes_with_it() {
        let (one, other) = (Configuration::new().unwrap(), Configuration::new().unwrap());
        assert_ne!(one.path(), other.path());
        one.write("spotDiscountFactor: 0.5").unwrap();
        assert_eq!(fs::read_to_string(one.path()).unwrap(), "spotDiscountFactor: 0.5");
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists());
    }
}
