//! Writes the kubeconfig of a cluster that lives no longer than a command.

use std::fs;
use std::io;
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
    if let Ok(present) = fs::read_to_string(path)
        && !present.is_empty()
        && !present.starts_with(MARK)
    {
        let problem = "there is a file that was not written by this command, and it is left alone";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
    }
    draft::put(path, text, 0o600)
}
