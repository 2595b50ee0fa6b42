//! Files that are written whole or not at all: into a draft beside them, which takes their place when it is done. Where a
//! link leads to the file, that stays.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Puts a file there, with a mode of which the user's mask is taken off.
pub(super) fn put(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if is_special(path) {
        let at_once = open_at_once(path)?;
        // Whoever reads from a pipe takes its time, and is waited for: so it is opened once more, which takes no time while
        // somebody reads.
        let mut file = OpenOptions::new().write(true).open(path)?;
        drop(at_once);
        return file.write_all(text.as_bytes());
    }
    let path = behind_links(path)?;
    let draft = draft_of(&path);
    let written = begin(&draft, mode)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&draft, &path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Whether a file can be put there, as far as that can be known without doing so. What is given back is kept until it is
/// done: whoever reads from a pipe takes it for the end when everybody closes it who has opened it to write.
pub(super) fn check(path: &Path) -> io::Result<Option<fs::File>> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if is_special(path) {
        return open_at_once(path).map(Some);
    }
    let draft = draft_of(&behind_links(path)?);
    begin(&draft, 0o600)?;
    fs::remove_file(&draft).map(|()| None)
}

/// Whether it is a pipe or a device, whose place no file may take.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Opens a pipe or a device, or fails: a pipe that nobody reads from would be waited for until somebody does, and no signal
/// that we listen for ends that.
fn open_at_once(path: &Path) -> io::Result<fs::File> {
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => io::Error::other("it is no file, and nobody reads from it"),
        _ => error,
    })
}

/// Where the file itself is, or is to be: what is renamed onto a link would take the link's place.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    match (fs::canonicalize(path), fs::read_link(path)) {
        // A link to what is not there yet.
        (Err(error), Ok(target)) if error.kind() == io::ErrorKind::NotFound => {
            behind_links(&path.parent().unwrap_or(Path::new("")).join(target))
        }
        (Err(error), Err(_)) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        (found, _) => found,
    }
}

fn begin(draft: &Path, mode: u32) -> io::Result<fs::File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(draft)
}

fn draft_of(path: &Path) -> PathBuf {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    draft.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_there_stays_until_there_is_something_new() {
        let folder = std::env::temp_dir().join(format!("karpenter-ibm-draft-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.svg");
        fs::write(&path, "old").unwrap();
        check(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        put(&path, "new", 0o666).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        check(&folder.join("y.svg")).unwrap();
        let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
        assert_eq!(
            left.len(),
            1,
            "no draft is left, and no file that was only asked about"
        );
        assert!(check(&folder).is_err(), "a folder");
        assert!(check(&folder.join("nosuch/x.svg")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_link_stays_one_and_what_it_leads_to_is_written() {
        let folder = std::env::temp_dir().join(format!("karpenter-ibm-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("elsewhere")).unwrap();
        let there = folder.join("elsewhere/there.svg");
        fs::write(&there, "old").unwrap();
        let links = [
            ("whole.svg", there.clone()),
            ("relative.svg", "elsewhere/there.svg".into()),
            ("of-a-link.svg", "whole.svg".into()),
            ("to-nothing-yet.svg", "elsewhere/new.svg".into()),
        ];
        for (name, target) in links {
            let link = folder.join(name);
            symlink(&target, &link).unwrap();
            check(&link).unwrap();
            put(&link, name, 0o666).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), target);
            assert_eq!(fs::read_to_string(&link).unwrap(), name);
        }
        assert_eq!(fs::read_to_string(&there).unwrap(), "of-a-link.svg");
        let circle = folder.join("circle.svg");
        symlink("circle.svg", &circle).unwrap();
        assert!(check(&circle).is_err());
        assert!(put(&circle, "x", 0o666).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_device_is_written_to_and_stays_one() {
        let null = Path::new("/dev/null");
        check(null).unwrap();
        put(null, "anything", 0o666).unwrap();
        assert!(is_special(null));
    }
    /// A pipe with a name, in a folder of its own.
    fn pipe(name: &str) -> (PathBuf, PathBuf) {
        let folder = std::env::temp_dir().join(format!("karpenter-ibm-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("pipe");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        (folder, path)
    }

    /// What comes of it, if anything does.
    fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, ended) = mpsc::sync_channel(1);
        thread::spawn(move || done.send(work()));
        ended
            .recv_timeout(Duration::from_secs(30))
            .expect("it waits for ever")
    }

    #[test]
    fn a_pipe_that_nobody_reads_from_is_refused_and_not_waited_for() {
        let (folder, path) = pipe("unread");
        let asked = path.clone();
        let checked = soon(move || check(&asked).map(drop));
        let written = soon(move || put(&path, "anything", 0o666));
        for refused in [checked, written] {
            let why = refused.unwrap_err().to_string();
            assert_eq!(why, "it is no file, and nobody reads from it");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn whoever_reads_from_a_pipe_is_waited_for_and_reads_all_that_is_put_there() {
        let (folder, path) = pipe("read");
        // More than a pipe holds.
        let text = "x".repeat(1 << 20);
        let (to_read, expected) = (path.clone(), text.clone());
        let reader = thread::spawn(move || fs::read_to_string(to_read).unwrap());
        soon(move || {
            // It may take a moment until it is there to read.
            let kept = loop {
                match check(&path) {
                    Ok(kept) => break kept,
                    Err(_) => thread::yield_now(),
                }
            };
            put(&path, &text, 0o666).unwrap();
            drop(kept);
        });
        assert_eq!(reader.join().unwrap().len(), expected.len());
        fs::remove_dir_all(&folder).unwrap();
    }
}
