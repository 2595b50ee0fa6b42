//! Where files are that nobody needs afterwards: plans of faults, calm plays, and whatever runs in processes of their own
//! leave behind when they are ended in the middle.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// So many folders may have been left behind by others who had this process's number before: containers begin to count
/// anew each time, and often come by the same one.
const TAKEN_MAX: u32 = 10_000;

/// A folder that goes with this, and all that is in it.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// An empty one, that nobody has used before: what another run kept, this one would take for its own.
    pub(super) fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    fn within(place: &Path) -> io::Result<Self> {
        fs::create_dir_all(place)?;
        let name = format!("simulate-{}", std::process::id());
        let others = (1..TAKEN_MAX).map(|number| format!("{name}-{number}"));
        for name in std::iter::once(name.clone()).chain(others) {
            let folder = place.join(name);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self(folder)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_run_left_behind_is_not_taken_over() {
        let place = std::env::temp_dir().join(format!("scratch-{}", std::process::id()));
        let left = place.join(format!("simulate-{}", std::process::id()));
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("calm.json"), "of another run").unwrap();
        let (first, second) = (Scratch::within(&place).unwrap(), Scratch::within(&place).unwrap());
        for scratch in [&first, &second] {
            assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        }
        assert_ne!(first.path(), second.path());
        drop((first, second));
        assert_eq!(
            fs::read_dir(&place).unwrap().count(),
            1,
            "what is another's stays"
        );
        fs::remove_dir_all(&place).unwrap();
    }
}
