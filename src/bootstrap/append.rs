//! What a class adds to the end of user data.
//!
//! It is carried verbatim: YAML that is read and written anew can mean something else to cloud-init, which reads an
//! older YAML than we do. So a script becomes a file that is run last, and a `#cloud-config` a part of a MIME document
//! that cloud-init merges: lists are appended, maps are merged, and nothing that is there is replaced.

use std::collections::BTreeSet;
use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::document::{Access, Document};
use super::{FOLDER, RenderError};

/// How cloud-init merges the second part into the first.
const MERGE: &str = "list(append)+dict(no_replace,recurse_list)+str(no_replace)";
/// Its hyphens occur in no base64, so no part can hold it.
const BOUNDARY: &str = "==karpenter-ibm-part==";
/// Characters of base64 in a line of a MIME document.
const LINE: usize = 76;

/// What user data is, by its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Config,
    Script,
    Other,
}

impl Kind {
    fn of(text: &str) -> Self {
        let first = text.lines().next().unwrap_or_default().trim_end();
        match first {
            "#cloud-config" => Self::Config,
            _ if first.starts_with("#!") => Self::Script,
            _ => Self::Other,
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Config => "text/cloud-config",
            Self::Script | Self::Other => "text/x-shellscript",
        }
    }
}

/// Our document, followed by what the class appends.
pub(super) fn after(mut document: Document, appended: Option<&str>) -> Result<String, RenderError> {
    let Some(appended) = appended.filter(|text| !text.trim().is_empty()) else {
        return document.text();
    };
    match Kind::of(appended) {
        Kind::Script => {
            let path = format!("{FOLDER}/append");
            document.file(&path, Access::Program, appended);
            document.run(&[&path]);
            document.text()
        }
        Kind::Config => {
            let ours = document.write_files.iter().map(|file| file.path.as_str());
            check_config(appended, &ours.collect())?;
            Ok(mime(&[&document.text()?, appended]))
        }
        Kind::Other => Err(neither()),
    }
}

/// What the class says instead of our document, followed by what it appends.
pub(super) fn after_replacement(replaced: &str, appended: &str) -> Result<String, RenderError> {
    if appended.trim().is_empty() {
        return Ok(replaced.to_owned());
    }
    if Kind::of(replaced) == Kind::Other {
        let problem = "can follow a userData that begins with '#cloud-config' or '#!' only";
        return Err(RenderError::Append(problem.to_owned()));
    }
    match Kind::of(appended) {
        Kind::Other => return Err(neither()),
        Kind::Config => check_config(appended, &BTreeSet::new())?,
        Kind::Script => {}
    }
    Ok(mime(&[replaced, appended]))
}

fn neither() -> RenderError {
    RenderError::Append("begins with neither '#cloud-config' nor '#!'".to_owned())
}

/// As much of a `#cloud-config` as could undo ours.
#[derive(Debug, Default, Deserialize)]
struct Config {
    #[serde(default)]
    write_files: Option<Vec<Written>>,
}

#[derive(Debug, Deserialize)]
struct Written {
    path: String,
}

fn check_config(text: &str, ours: &BTreeSet<&str>) -> Result<(), RenderError> {
    let read: Option<Config> = serde_saphyr::from_str(text)
        .map_err(|error| RenderError::Append(format!("is not a cloud-config: {error}")))?;
    let files = read.and_then(|config| config.write_files).unwrap_or_default();
    match files.iter().find(|file| ours.contains(file.path.as_str())) {
        Some(file) => Err(RenderError::Append(format!(
            "writes {}, which machines join with",
            file.path
        ))),
        None => Ok(()),
    }
}

fn mime(parts: &[&str]) -> String {
    let mut text = format!("Content-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\nMIME-Version: 1.0\n\n");
    for part in parts {
        // Writing to a String cannot fail.
        _ = write!(
            text,
            "--{BOUNDARY}\nContent-Type: {}; charset=\"utf-8\"\nContent-Transfer-Encoding: base64\nMerge-Type: {MERGE}\n\n",
            Kind::of(part).media_type()
        );
        let encoded = BASE64_STANDARD.encode(part);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(LINE));
            text.push_str(line);
            text.push('\n');
            rest = after;
        }
    }
    text + "--" + BOUNDARY + "--\n"
}
