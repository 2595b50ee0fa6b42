//! Which simulators run on this machine: each writes a small file while it does.
//!
//! A file proves nothing, since a simulator that was killed leaves its behind; so what it names is asked.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::{Host, Url};

use crate::cli::{BadInput, output};

/// How long a simulator may take to say that it is one: it is on this machine.
const PROBE: Duration = Duration::from_secs(2);

/// The file of a running simulator; dropping it removes the file.
pub(in crate::cli) struct Announcement(PathBuf);

#[derive(Serialize, Deserialize)]
struct Entry {
    pid: u32,
    url: String,
}

impl Announcement {
    /// Tells other commands of this user where the simulator is, or its user that they cannot know it.
    pub(in crate::cli) fn publish(url: &str) -> Option<Self> {
        let published = Self::write(url);
        published
            .inspect_err(|error| {
                output::talk(format_args!(
                    "other commands will need --endpoint {url}: {error:#}"
                ));
            })
            .ok()
    }

    fn write(url: &str) -> anyhow::Result<Self> {
        let folder = make_folder()?;
        let at = || format!("writing to {}", folder.display());
        let pid = std::process::id();
        let path = folder.join(format!("cloud-{pid}.json"));
        let entry = serde_json::to_vec(&Entry {
            pid,
            url: url.to_owned(),
        })?;
        fs::write(&path, entry).with_context(at)?;
        Ok(Self(path))
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // A file that stays is stale, and ignored.
        let _ = fs::remove_file(&self.0);
    }
}

/// The simulator to command: the one given, or the only one that runs.
pub(super) async fn find(client: &reqwest::Client, endpoint: Option<&Url>) -> anyhow::Result<Url> {
    if let Some(url) = endpoint {
        return match probe(client, url).await {
            Some(()) => Ok(url.clone()),
            None => Err(BadInput::new(format!("no simulator answers at {url}"))
                .hint("karpenter-ibm cloud serve starts one")
                .into()),
        };
    }
    let mut live = Vec::new();
    for url in announced(&folder()) {
        if probe(client, &url).await.is_some() {
            live.push(url);
        }
    }
    match live.as_slice() {
        [url] => Ok(url.clone()),
        [] => Err(BadInput::new("no simulated IBM Cloud runs on this machine")
            .hint("start one with karpenter-ibm cloud serve, or name one with --endpoint")
            .into()),
        several => {
            let urls: Vec<&str> = several.iter().map(Url::as_str).collect();
            let problem = BadInput::new(format!(
                "{} simulated IBM Clouds run on this machine",
                several.len()
            ));
            Err(problem
                .hint(format!("choose one with --endpoint: {}", urls.join(", ")))
                .into())
        }
    }
}

/// The addresses in the files of a folder, in order of file name. Only loopback ones: the folder may be in a place
/// where others can write.
fn announced(folder: &Path) -> Vec<Url> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(io::Result::ok)
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let entry: Entry = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let url = Url::parse(&entry.url).ok()?;
        loopback(&url).then_some(url)
    };
    paths.into_iter().filter_map(read).collect()
}

fn loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    }
}

async fn probe(client: &reqwest::Client, url: &Url) -> Option<()> {
    let status = url.join("/sim/v1/status").ok()?;
    let answer = client.get(status).timeout(PROBE).send().await.ok()?;
    let body: Value = answer.json().await.ok()?;
    (body["simulator"] == "karpenter-ibm").then_some(())
}

/// The folder for what this user's commands know of each other, made if need be.
pub(in crate::cli) fn make_folder() -> anyhow::Result<PathBuf> {
    let folder = folder();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("writing to {}", folder.display()))?;
    Ok(folder)
}

/// The user's own runtime directory, or one in the temporary directory that bears the user's name.
fn folder() -> PathBuf {
    let of_user = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(runtime) = of_user("XDG_RUNTIME_DIR") {
        return Path::new(&runtime).join("karpenter-ibm");
    }
    let user = of_user("USER")
        .or_else(|| of_user("LOGNAME"))
        .unwrap_or_else(|| "user".into());
    env::temp_dir().join(format!("karpenter-ibm-{user}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_loopback_address_is_not_asked() {
        let folder = env::temp_dir().join(format!("karpenter-ibm-announced-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("cloud-1.json", r#"{"pid":1,"url":"http://127.0.0.1:4000"}"#);
        write("cloud-2.json", r#"{"pid":2,"url":"http://10.0.0.1:4000"}"#);
        write("cloud-3.json", r#"{"pid":3,"url":"http://example.com"}"#);
        write("cloud-4.json", "not JSON");
        let urls: Vec<String> = announced(&folder).iter().map(ToString::to_string).collect();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(urls, ["http://127.0.0.1:4000/"]);
    }
}
