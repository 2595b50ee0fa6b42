//! The files of a VM, in memory. They outlive a reboot and go with the VM.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::config::Kubeconfig;
use secrecy::SecretString;

/// The disk of one VM. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Disk {
    /// The content of a file.
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.files().get(path).cloned()
    }

    /// The content of a file, if it is text.
    pub fn text(&self, path: &str) -> Option<String> {
        String::from_utf8(self.read(path)?).ok()
    }

    /// Writes a file, over one of the same path.
    pub fn write(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.files().insert(path.to_owned(), content.into());
    }

    /// Takes a file away, if it is there.
    pub fn remove(&self, path: &str) {
        self.files().remove(path);
    }

    /// Writes at the end of a file, which may be new.
    pub fn append(&self, path: &str, content: &[u8]) {
        self.files()
            .entry(path.to_owned())
            .or_default()
            .extend_from_slice(content);
    }

    /// The paths below a directory that end in `suffix`, in order.
    pub fn paths(&self, directory: &str, suffix: &str) -> Vec<String> {
        let files = self.files();
        let inside = files
            .keys()
            .filter(|path| path.starts_with(directory) && path.ends_with(suffix));
        inside.cloned().collect()
    }

    /// A kubeconfig with the files that it refers to put into it.
    pub fn kubeconfig(&self, path: &str) -> Result<Kubeconfig, String> {
        let text = self
            .text(path)
            .ok_or_else(|| format!("open {path}: no such file or directory"))?;
        let mut kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| format!("{path}: {error}"))?;
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .flat_map(|named| &mut named.cluster)
        {
            let path = cluster.certificate_authority.take();
            self.inline(path, "CERTIFICATE", &mut cluster.certificate_authority_data)?;
        }
        for user in kubeconfig
            .auth_infos
            .iter_mut()
            .flat_map(|named| &mut named.auth_info)
        {
            let path = user.client_certificate.take();
            self.inline(path, "CERTIFICATE", &mut user.client_certificate_data)?;
            let mut key = None;
            self.inline(user.client_key.take(), "PRIVATE KEY", &mut key)?;
            user.client_key_data = user.client_key_data.take().or(key.map(SecretString::from));
            if let Some(path) = user.token_file.take().filter(|_| user.token.is_none()) {
                let token = self.text(&path).ok_or_else(|| missing(&path))?;
                user.token = Some(token.trim().to_owned().into());
            }
        }
        Ok(kubeconfig)
    }

    /// What a kubeconfig holds itself wins over the file that it names. A kubelet keeps key and certificate in one
    /// file, so only what is asked for is taken out of it.
    fn inline(&self, path: Option<String>, label: &str, data: &mut Option<String>) -> Result<(), String> {
        if let Some(path) = path.filter(|_| data.is_none()) {
            let content = self.text(&path).ok_or_else(|| missing(&path))?;
            *data = Some(BASE64_STANDARD.encode(blocks(&content, label)));
        }
        Ok(())
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The PEM blocks of one kind.
fn blocks(text: &str, label: &str) -> String {
    let (open, close) = (
        format!("-----BEGIN {label}-----"),
        format!("-----END {label}-----"),
    );
    let mut kept = String::new();
    let mut is_inside = false;
    for line in text.lines() {
        is_inside |= line.trim() == open;
        if is_inside {
            kept.push_str(line);
            kept.push('\n');
        }
        is_inside &= line.trim() != close;
    }
    kept
}

fn missing(path: &str) -> String {
    format!("open {path}: no such file or directory")
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    const CONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: https://x, certificate-authority: /ca.crt}}]
users: [{name: u, user: {tokenFile: /token}}]
";

    #[test]
    fn files_that_a_kubeconfig_names_are_read_from_the_vm() {
        let disk = Disk::default();
        disk.write("/config", CONFIG);
        assert_eq!(
            disk.kubeconfig("/config").unwrap_err(),
            "open /ca.crt: no such file or directory"
        );
        let certificate = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";
        disk.write(
            "/ca.crt",
            format!("comment\n{certificate}-----BEGIN X-----\n-----END X-----\n"),
        );
        disk.write("/token", "secret\n");
        let config = disk.kubeconfig("/config").unwrap();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        let data = cluster.certificate_authority_data.as_ref().unwrap();
        assert_eq!(BASE64_STANDARD.decode(data).unwrap(), certificate.as_bytes());
        let user = config.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.token.as_ref().unwrap().expose_secret(), "secret");
    }

    #[test]
    fn appending_makes_a_file_or_makes_it_longer() {
        let disk = Disk::default();
        disk.append("/etc/a.conf", b"1");
        disk.append("/etc/a.conf", b"2");
        assert_eq!(disk.text("/etc/a.conf").as_deref(), Some("12"));
        assert_eq!(disk.paths("/etc/", ".conf"), ["/etc/a.conf"]);
        assert_eq!(disk.text("/nowhere"), None);
    }
}
