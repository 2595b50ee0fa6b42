//! A shell that knows just enough for the scripts by which machines join a cluster.
//!
//! It writes files (`cat > FILE <<'EOF'`, `echo … > FILE`), edits them (`sed -i s/A/B/`), sets variables, runs scripts
//! that are on the disk, asks the metadata service, and notices that a kubelet is started. Everything else succeeds
//! and does nothing: a simulated machine has no packages to install. Loops run once, conditionals are passed over and
//! said so.
//!
//! The metadata service is whatever asks `169.254.169.254` or `api.metadata.cloud.ibm.com` in a `$(…)`: for
//! `/instance_identity/v1/token` the answer is a token, for `/metadata/v1/instance` what `jq -r .FIELD` behind it picks
//! (`.id`, `.name`, `.zone.name`, `.profile.name`), and the id without such a filter. Where the service is off, as it is
//! by default at IBM, the answer is empty.

mod words;

use std::collections::BTreeMap;

use super::cloud_init::Placement;
use super::disk::Disk;
use words::{Expand, redirected, split_commands, split_words};

/// How deep scripts may call scripts.
const DEPTH_MAX: u8 = 4;

/// What the machine can be told about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Whether the metadata service answers.
    pub service: bool,
    /// `0717_e21b7391-…`
    pub id: String,
    /// The name of the instance, which need not be that of the node.
    pub name: String,
    /// `us-south-1`
    pub zone: String,
    /// `bxf-4x16`
    pub profile: String,
}

/// How a kubelet was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// As a service, by `systemctl`.
    Service,
    /// As a command with these arguments.
    Command(Vec<String>),
}

/// A shell on one machine. What scripts leave behind stays in it.
pub struct Shell<'a> {
    disk: &'a Disk,
    metadata: &'a Metadata,
    variables: BTreeMap<String, String>,
    /// The name that the machine has.
    pub hostname: String,
    /// The kubelet, once there is one.
    pub started: Option<Started>,
    /// What is worth telling.
    pub said: Vec<String>,
}

impl<'a> Shell<'a> {
    /// A shell on a machine that was just switched on.
    pub fn new(disk: &'a Disk, metadata: &'a Metadata, hostname: &str) -> Self {
        Self {
            disk,
            metadata,
            variables: BTreeMap::new(),
            hostname: hostname.to_owned(),
            started: None,
            said: Vec::new(),
        }
    }

    /// Runs a script in a process of its own: its variables end with it.
    pub fn run(&mut self, script: &str) {
        self.run_at(script, 0);
    }

    fn run_at(&mut self, script: &str, depth: u8) {
        let outer = self.variables.clone();
        let mut lines = script.lines();
        let mut skipping = 0_usize;
        while let Some(line) = lines.next() {
            let mut line = line.trim().to_owned();
            if let Some(document) = HereDocument::begin(&line) {
                let content = document.read(&mut lines);
                if skipping == 0 {
                    self.write_document(&document, &content);
                }
                continue;
            }
            while line.ends_with('\\') {
                line.pop();
                line.push_str(lines.next().unwrap_or_default().trim());
            }
            for command in split_commands(&line) {
                let first = command.split_whitespace().next().unwrap_or_default();
                match first {
                    "if" | "case" => {
                        skipping += 1;
                        self.said.push(format!("passed over: {command}"));
                    }
                    "fi" | "esac" => skipping = skipping.saturating_sub(1),
                    _ if skipping > 0 => {}
                    _ => self.command(&command, depth),
                }
            }
        }
        self.variables = outer;
    }

    fn write_document(&mut self, document: &HereDocument, content: &str) {
        let content = if document.is_literal {
            content.to_owned()
        } else {
            words::expand(content, self)
        };
        let path = words::expand(&document.path, self);
        self.write(&path, document.placement, &content);
    }

    fn write(&self, path: &str, placement: Placement, content: &str) {
        match placement {
            Placement::Replace => self.disk.write(path, content),
            Placement::Append => self.disk.append(path, content.as_bytes()),
        }
    }

    fn command(&mut self, command: &str, depth: u8) {
        let mut words = split_words(command, self);
        let prefixes = [
            "until", "while", "do", "done", "!", "sudo", "exec", "nohup", "export",
        ];
        while words
            .first()
            .is_some_and(|word| prefixes.contains(&word.as_str()))
        {
            words.remove(0);
        }
        if let Some((name, value)) = words.first().and_then(|word| assignment(word)) {
            if words.len() == 1 {
                self.variables.insert(name.to_owned(), value.to_owned());
                return;
            }
            words.remove(0);
        }
        let Some(program) = words.first().cloned() else {
            return;
        };
        let name = program.rsplit('/').next().unwrap_or_default();
        match name {
            "echo" | "printf" => self.print(&words[1..]),
            "sed" => self.edit(&words[1..]),
            "systemctl" => self.systemctl(&words[1..]),
            "hostnamectl" => {
                if let [_, action, name] = words.as_slice()
                    && ["set-hostname", "hostname"].contains(&action.as_str())
                {
                    self.hostname.clone_from(name);
                }
            }
            "kubelet" => self.started = Some(Started::Command(background_free(&words[1..]))),
            "sh" | "bash" => self.run_file(words.iter().skip(1).find(|word| !word.starts_with('-')), depth),
            _ => self.run_file(Some(&program), depth),
        }
    }

    fn run_file(&mut self, path: Option<&String>, depth: u8) {
        let script = path.and_then(|path| self.disk.text(path));
        if let Some(script) = script.filter(|_| depth < DEPTH_MAX) {
            self.run_at(&script, depth + 1);
        }
    }

    fn print(&mut self, words: &[String]) {
        let (words, Some((path, placement))) = redirected(words) else {
            return;
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let text = match words.as_slice() {
            ["-n", rest @ ..] => rest.join(" "),
            [format, rest @ ..] if format.contains("%s") => {
                let mut text = format.replace("\\n", "\n");
                for word in rest {
                    text = text.replacen("%s", word, 1);
                }
                text
            }
            rest => rest.join(" ") + "\n",
        };
        self.write(&path, placement, &text);
    }

    /// `sed -i s/A/B/g FILE…`, in which A is taken literally.
    fn edit(&mut self, words: &[String]) {
        let mut rest = words.iter().filter(|word| !word.starts_with('-'));
        let (Some(expression), in_place) = (rest.next(), words.iter().any(|word| word.starts_with("-i")))
        else {
            return;
        };
        let replacement = expression.strip_prefix('s').and_then(|rest| {
            let delimiter = rest.chars().next()?;
            let mut pieces = rest[delimiter.len_utf8()..].split(delimiter);
            Some((pieces.next()?.to_owned(), pieces.next()?.to_owned()))
        });
        let Some((from, to)) = replacement.filter(|(from, _)| in_place && !from.is_empty()) else {
            return;
        };
        for path in rest {
            if let Some(text) = self.disk.text(path) {
                self.disk.write(path, text.replace(&from, &to));
            }
        }
    }

    fn systemctl(&mut self, words: &[String]) {
        let names_kubelet = words
            .iter()
            .any(|word| word == "kubelet" || word == "kubelet.service");
        let starts = words
            .iter()
            .any(|word| ["start", "restart", "reload-or-restart", "--now"].contains(&word.as_str()));
        if names_kubelet && starts {
            self.started = Some(Started::Service);
        }
    }

    fn ask_metadata(&mut self, command: &str) -> String {
        if !self.metadata.service {
            self.said.push(
                "curl: (7) Failed to connect to 169.254.169.254: the metadata service is off".to_owned(),
            );
            return String::new();
        }
        if command.contains("instance_identity") || command.contains("identity/v1") {
            return "metadata-token".to_owned();
        }
        let filter = command.split_once("jq ").map(|(_, rest)| rest);
        let field = filter
            .and_then(|rest| {
                rest.split_whitespace()
                    .find(|word| word.trim_matches(['\'', '"']).starts_with('.'))
            })
            .map_or(".id", |word| word.trim_matches(['\'', '"']));
        match field {
            ".name" => self.metadata.name.clone(),
            ".zone.name" => self.metadata.zone.clone(),
            ".profile.name" => self.metadata.profile.clone(),
            _ => self.metadata.id.clone(),
        }
    }
}

impl Expand for Shell<'_> {
    fn variable(&self, name: &str) -> String {
        self.variables.get(name).cloned().unwrap_or_default()
    }

    fn output(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            _ if command.contains("169.254.169.254") || command.contains("api.metadata.cloud.ibm.com") => {
                self.ask_metadata(command)
            }
            ["hostname", ..] => self.hostname.clone(),
            ["cat", path] => {
                let text = self.disk.text(path).unwrap_or_default();
                text.trim_end().to_owned()
            }
            _ => String::new(),
        }
    }
}

/// `NAME=value`, if that is what a word is.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then_some((name, value))
}

/// The arguments of a command, without what sends it to the background or its output elsewhere.
fn background_free(words: &[String]) -> Vec<String> {
    let words = words
        .iter()
        .take_while(|word| !["&", ">", ">>", "2>&1"].contains(&word.as_str()));
    words.cloned().collect()
}

/// `cat > FILE <<'EOF'` and what follows it.
struct HereDocument {
    path: String,
    placement: Placement,
    mark: String,
    is_literal: bool,
    strips_tabs: bool,
}

impl HereDocument {
    /// Both orders, `cat > FILE <<EOF` and `cat <<EOF > FILE`.
    fn begin(line: &str) -> Option<Self> {
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        let rest = line.strip_prefix("cat ")?;
        let (before, after) = rest.split_once("<<")?;
        let strips_tabs = after.starts_with('-');
        let after = after.trim_start_matches('-').trim_start();
        let (quoted, after) = after
            .split_once(char::is_whitespace)
            .map_or((after, ""), |(mark, rest)| (mark, rest.trim()));
        let target = if before.trim().is_empty() {
            after
        } else {
            before.trim()
        };
        let target = target.strip_prefix('>')?;
        let (placement, path) = match target.strip_prefix('>') {
            Some(path) => (Placement::Append, path),
            None => (Placement::Replace, target),
        };
        Some(Self {
            path: path.trim().trim_matches(['"', '\'']).to_owned(),
            placement,
            mark: quoted.trim_matches(['"', '\'']).to_owned(),
            is_literal: quoted.starts_with(['"', '\'']),
            strips_tabs,
        })
    }

    fn read<'t>(&self, lines: &mut impl Iterator<Item = &'t str>) -> String {
        let mut content = String::new();
        for line in lines {
            let line = if self.strips_tabs {
                line.trim_start_matches('\t')
            } else {
                line
            };
            if line == self.mark {
                break;
            }
            content.push_str(line);
            content.push('\n');
        }
        content
    }
}

#[cfg(test)]
mod tests;
