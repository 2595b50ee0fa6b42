//! Writes the kubeconfig of a cluster that lives no longer than a command.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::{BadInput, draft};

/// How every kubeconfig of ours begins; any other file is somebody's own.
const MARK: &str = "# Written by karpenter-ibm ";

/// Puts the file there for `command`, whole or not at all, readable for its owner only: it holds a private key.
pub(super) fn write(command: &str, path: &Path, text: &str) -> Result<(), BadInput> {
    let text = format!("{MARK}{command}; it is worthless once that has ended.\n{text}");
    put(path, &text).map_err(|error| {
        BadInput::new(format!("--kubeconfig: cannot write {}: {error}", path.display()))
            .hint("name a new file in a directory that exists and that you may write to")
    })
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    let begins = beginning(path)?;
    if !begins.is_empty() && begins != MARK.as_bytes() {
        let problem = "there is a file that was not written by this command, and it is left alone";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
    }
    draft::put(path, text, 0o600)
}

/// As much of the file that is there as the mark is long; nothing where there is none.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut begins = Vec::new();
    match fs::metadata(path) {
        Ok(there) if there.is_file() => {}
        // A pipe or a terminal holds nothing of anybody's, and whoever reads it waits for ever.
        Ok(_) => return Ok(begins),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(begins),
        Err(error) => return Err(error),
    }
    let length = u64::try_from(MARK.len()).unwrap_or(u64::MAX);
    File::open(path)?.take(length).read_to_end(&mut begins)?;
    Ok(begins)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_somebody_else_wrote_is_left_alone_in_whatever_letters() {
        let folder = std::env::temp_dir().join(format!("karpenter-ibm-kubeconfig-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("config");
        let mark = MARK.as_bytes();
        let theirs: [&[u8]; 4] = [b"x", b"\xff\xfe\x00", b"# Written by karpenter", &[0xff; 1000]];
        for theirs in theirs {
            fs::write(&path, theirs).unwrap();
            let refused = write("demo", &path, "new").unwrap_err().to_string();
            assert!(refused.contains("left alone"), "{refused}");
            assert_eq!(fs::read(&path).unwrap(), theirs);
        }
        let marked = [mark, b"demo\n\xff"].concat();
        let ours: [&[u8]; 3] = [b"", mark, &marked];
        for ours in ours {
            fs::write(&path, ours).unwrap();
            write("demo", &path, "new").unwrap();
            assert!(fs::read_to_string(&path).unwrap().ends_with("\nnew"));
        }
        let below_a_file = write("demo", &path.join("config"), "new").unwrap_err();
        assert!(
            below_a_file.to_string().contains("Not a directory"),
            "{below_a_file}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_pipe_is_written_to_and_not_read() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (done, ended) = mpsc::sync_channel(1);
        thread::spawn(move || {
            let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
            let written = write("demo", Path::new(&path), "new");
            done.send(written.map_err(|problem| problem.to_string()))
        });
        let written = ended.recv_timeout(Duration::from_secs(10));
        assert_eq!(written.expect("it waits for ever"), Ok(()));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(text.starts_with(MARK) && text.ends_with("\nnew"), "{text}");
    }
}
