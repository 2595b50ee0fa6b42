//! Where files are that nobody needs afterwards: plans of faults, calm plays, and whatever runs in processes of their own
//! leave behind when they are ended in the middle.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// A folder that goes with this, and all that is in it.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// An empty one.
    pub(super) fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("simulate-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left in a folder for temporary files is in nobody's way.
        let _ = fs::remove_dir_all(&self.0);
    }
}
