//! User data, read as cloud-init reads it: what to write and what to run at the first boot.
//!
//! `#cloud-config` YAML, a shell script, or a MIME document of several of these. What cloud-init knows and a simulated
//! machine has no use for (packages, users, mounts) is passed over; what cannot be read is an error, as on a machine
//! that comes up bare.

mod multipart;

use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// The largest file that comes out of a compressed one: user data is at most 64 KiB, and text packs tenfold.
const UNPACKED_BYTES_MAX: u64 = 1 << 20;

/// What user data asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The name that the machine gives itself.
    pub hostname: Option<String>,
    /// Scripts that run before the files are written.
    pub early_scripts: Vec<String>,
    /// The files, in the order in which they are written.
    pub files: Vec<File>,
    /// Scripts that run after that.
    pub scripts: Vec<String>,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where.
    pub path: String,
    /// What.
    pub content: Vec<u8>,
    /// Over or after what is there.
    pub placement: Placement,
}

/// Where content goes in a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In its place.
    Replace,
    /// At its end.
    Append,
}

/// Why user data cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudInitError {
    #[error("there is no user data")]
    Empty,
    #[error("unhandled user data that begins with {0:?}: neither #cloud-config nor #! nor a MIME document")]
    Unhandled(String),
    #[error("failed loading yaml blob: {0}")]
    Yaml(String),
    #[error("write_files: {path}: {problem}")]
    File { path: String, problem: String },
    #[error("{key}[{index}] is neither a string nor a list of strings")]
    Command { key: &'static str, index: usize },
    #[error("the MIME document {0}")]
    Mime(String),
    #[error("{0} is in two cloud-config parts, and without merge_how only one of them counts")]
    Ambiguous(&'static str),
}

/// Reads user data.
pub fn parse(user_data: &str) -> Result<Instructions, CloudInitError> {
    let mut config = Document::default();
    let mut instructions = Instructions::default();
    for part in parts(user_data)? {
        match part {
            Part::Config(text) => config = config.merged(read_config(&text)?)?,
            Part::Merged(text, how) => {
                let mut later = read_config(&text)?;
                later.merge_how.get_or_insert(how.into());
                config = config.merged(later)?;
            }
            Part::Script(text) => instructions.scripts.push(text),
            Part::Boothook(text) => instructions.early_scripts.push(text),
        }
    }
    instructions.hostname = config.hostname.or(config.fqdn);
    instructions
        .early_scripts
        .extend(script("bootcmd", config.bootcmd.as_deref())?);
    for file in config.write_files.unwrap_or_default() {
        instructions.files.push(file.read()?);
    }
    // Scripts of the document are called part-001 and so on and run before the one called runcmd.
    instructions
        .scripts
        .extend(script("runcmd", config.runcmd.as_deref())?);
    Ok(instructions)
}

/// A part of a document, by what is to be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Config(String),
    /// A cloud-config, and how a header says that it is merged into those before it.
    Merged(String, String),
    Script(String),
    Boothook(String),
}

impl Part {
    /// What a text is, by its first line.
    fn guess(text: &str) -> Option<Self> {
        let first = text.lines().next().unwrap_or_default().trim_end();
        match first {
            "#cloud-config" => Some(Self::Config(text.to_owned())),
            "#cloud-boothook" => Some(Self::Boothook(text.to_owned())),
            _ if first.starts_with("#!") => Some(Self::Script(text.to_owned())),
            _ => None,
        }
    }
}

fn parts(user_data: &str) -> Result<Vec<Part>, CloudInitError> {
    if user_data.trim().is_empty() {
        return Err(CloudInitError::Empty);
    }
    if multipart::is_mime(user_data) {
        return multipart::parts(user_data);
    }
    let first: String = user_data
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(40)
        .collect();
    let part = Part::guess(user_data).ok_or(CloudInitError::Unhandled(first))?;
    Ok(vec![part])
}

/// The keys of a cloud-config that matter here.
#[derive(Debug, Default, Deserialize)]
struct Document {
    hostname: Option<String>,
    fqdn: Option<String>,
    write_files: Option<Vec<WrittenFile>>,
    bootcmd: Option<Vec<Value>>,
    runcmd: Option<Vec<Value>>,
    merge_how: Option<Value>,
    merge_type: Option<Value>,
}

/// An entry of `write_files`.
#[derive(Clone, Debug, Deserialize)]
struct WrittenFile {
    path: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    encoding: String,
    #[serde(default)]
    append: bool,
}

fn read_config(text: &str) -> Result<Document, CloudInitError> {
    let read: Option<Document> =
        serde_saphyr::from_str(text).map_err(|error| CloudInitError::Yaml(error.to_string()))?;
    Ok(read.unwrap_or_default())
}

impl Document {
    /// Two parts as one. cloud-init's own default keeps one of two lists, which nobody who writes two can want.
    fn merged(self, later: Self) -> Result<Self, CloudInitError> {
        let is_asked_for = later.merge_how.is_some() || later.merge_type.is_some();
        Ok(Self {
            hostname: later.hostname.or(self.hostname),
            fqdn: later.fqdn.or(self.fqdn),
            write_files: joined("write_files", self.write_files, later.write_files, is_asked_for)?,
            bootcmd: joined("bootcmd", self.bootcmd, later.bootcmd, is_asked_for)?,
            runcmd: joined("runcmd", self.runcmd, later.runcmd, is_asked_for)?,
            merge_how: None,
            merge_type: None,
        })
    }
}

fn joined<T>(
    key: &'static str,
    first: Option<Vec<T>>,
    second: Option<Vec<T>>,
    is_asked_for: bool,
) -> Result<Option<Vec<T>>, CloudInitError> {
    match (first, second) {
        (Some(mut first), Some(second)) if is_asked_for => {
            first.extend(second);
            Ok(Some(first))
        }
        (Some(_), Some(_)) => Err(CloudInitError::Ambiguous(key)),
        (first, second) => Ok(first.or(second)),
    }
}

impl WrittenFile {
    fn read(self) -> Result<File, CloudInitError> {
        let problem = |problem: &str| CloudInitError::File {
            path: self.path.clone(),
            problem: problem.to_owned(),
        };
        if !self.path.starts_with('/') {
            return Err(problem("the path is not absolute"));
        }
        let content = match self.encoding.to_ascii_lowercase().as_str() {
            "b64" | "base64" => unbase64(&self.content).ok_or_else(|| problem("not base64"))?,
            "gz+b64" | "gz+base64" | "gzip+b64" | "gzip+base64" => {
                let packed = unbase64(&self.content).ok_or_else(|| problem("not base64"))?;
                unpack(&packed).ok_or_else(|| problem("not gzip, or more than 1 MiB"))?
            }
            "gz" | "gzip" => return Err(problem("gzip without base64 is no text")),
            // cloud-init takes an encoding that it does not know for plain text.
            _ => self.content.into_bytes(),
        };
        Ok(File {
            path: self.path,
            content,
            placement: if self.append {
                Placement::Append
            } else {
                Placement::Replace
            },
        })
    }
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let text: String = text.split_whitespace().collect();
    BASE64_STANDARD.decode(text).ok()
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(packed).take(UNPACKED_BYTES_MAX + 1);
    decoder.read_to_end(&mut content).ok()?;
    (content.len() as u64 <= UNPACKED_BYTES_MAX).then_some(content)
}

/// The commands of a list as one script, as cloud-init makes it: strings are shell, lists are words.
fn script(key: &'static str, commands: Option<&[Value]>) -> Result<Option<String>, CloudInitError> {
    let Some(commands) = commands.filter(|commands| !commands.is_empty()) else {
        return Ok(None);
    };
    let mut lines = vec!["#!/bin/sh".to_owned()];
    for (index, command) in commands.iter().enumerate() {
        let line = match command {
            Value::String(line) => Some(line.clone()),
            Value::Array(words) => words
                .iter()
                .map(word)
                .collect::<Option<Vec<_>>>()
                .map(|words| words.join(" ")),
            _ => None,
        };
        lines.push(line.ok_or(CloudInitError::Command { key, index })?);
    }
    Ok(Some(lines.join("\n") + "\n"))
}

fn word(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Some(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests;
