//! A `#cloud-config` document: files and commands.
//!
//! It is written as JSON, in which every text is quoted: cloud-init reads YAML 1.1, where a bare `on`, `0600` or
//! `12:30` is not the text that it seems.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use super::RenderError;

/// What cloud-init is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Document {
    /// In this order, before anything runs.
    pub(super) write_files: Vec<File>,
    /// One after the other, each a program and its arguments.
    pub(super) runcmd: Vec<Vec<String>>,
}

/// A file, and who may read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct File {
    pub(super) path: String,
    owner: &'static str,
    permissions: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    content: String,
}

/// Who may do what with a file; all belong to root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Everybody may read it.
    Public,
    /// Only root may read it.
    Secret,
    /// Only root may run it.
    Program,
}

impl Document {
    /// Adds a file. What no YAML can hold as text is encoded.
    pub(super) fn file(&mut self, path: &str, access: Access, content: &str) {
        let is_text = content
            .chars()
            .all(|c| matches!(c, ' '..='~' | '\n' | '\t' | '\r'));
        let (encoding, content) = if is_text {
            (None, content.to_owned())
        } else {
            (Some("b64"), BASE64_STANDARD.encode(content))
        };
        self.write_files.push(File {
            path: path.to_owned(),
            owner: "root:root",
            permissions: match access {
                Access::Public => "0644",
                Access::Secret => "0600",
                Access::Program => "0700",
            },
            encoding,
            content,
        });
    }

    /// Adds a file with a value in it.
    pub(super) fn json<T: Serialize>(
        &mut self,
        path: &str,
        access: Access,
        value: &T,
    ) -> Result<(), RenderError> {
        let content = serde_json::to_string_pretty(value)? + "\n";
        self.file(path, access, &content);
        Ok(())
    }

    /// Adds a command.
    pub(super) fn run(&mut self, command: &[&str]) {
        self.runcmd
            .push(command.iter().map(|&word| word.to_owned()).collect());
    }

    /// The text that cloud-init reads.
    pub(super) fn text(&self) -> Result<String, RenderError> {
        let json = serde_json::to_string_pretty(self)?;
        Ok(format!("#cloud-config\n{}\n", ascii(&json)))
    }
}

/// The same JSON without characters that YAML forbids or takes for the end of a line. They stand in strings only, where
/// an escape means the same. Beyond 16 bits JSON has pairs of escapes, which YAML does not know; those are allowed as
/// they are.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | ' '..='~' | '\u{10000}'.. => text.push(c),
            // Writing to a String cannot fail.
            _ => _ = write!(text, "\\u{:04x}", u32::from(c)),
        }
    }
    text
}
