//! The command line with which systemd starts the kubelet, from its unit, drop-ins and environment files.
//!
//! Where no unit is written, it is the one that Kubernetes' own packages install: its variables and files are those
//! of `10-kubeadm.conf`.

use std::collections::BTreeMap;

use super::disk::Disk;

/// What the packages install as the unit and its drop-in, as far as it matters.
const PACKAGED: &str = r#"[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
EnvironmentFile=-/etc/sysconfig/kubelet
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
"#;

/// Where units and drop-ins are looked for; later ones win.
const DIRECTORIES: [&str; 3] = [
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/etc/systemd/system",
];

/// Why the service cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    #[error("kubelet.service: failed to load environment files: {0}: no such file or directory")]
    NoEnvironmentFile(String),
    #[error("kubelet.service: {0} does not start a kubelet")]
    NotAKubelet(String),
}

/// The arguments that the kubelet is started with.
pub fn arguments(disk: &Disk) -> Result<Vec<String>, UnitError> {
    let mut unit = Unit::default();
    unit.read(PACKAGED);
    for text in DIRECTORIES
        .iter()
        .filter_map(|at| disk.text(&format!("{at}/kubelet.service")))
    {
        unit = Unit::default();
        unit.read(&text);
    }
    for at in DIRECTORIES {
        for path in disk.paths(&format!("{at}/kubelet.service.d/"), ".conf") {
            unit.read(&disk.text(&path).unwrap_or_default());
        }
    }
    let environment = unit.environment(disk)?;
    let words = expanded(&unit.start, &environment);
    match words.split_first() {
        Some((program, arguments)) if program.ends_with("kubelet") => Ok(arguments.to_vec()),
        _ => Err(UnitError::NotAKubelet(unit.start)),
    }
}

#[derive(Debug, Default)]
struct Unit {
    variables: BTreeMap<String, String>,
    files: Vec<String>,
    start: String,
}

impl Unit {
    /// Adds what a unit or drop-in says. An empty value takes back what was said before.
    fn read(&mut self, text: &str) {
        for line in text.replace("\\\n", " ").lines().map(str::trim) {
            let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else {
                continue;
            };
            match (key.trim(), value.trim()) {
                ("Environment", "") => self.variables.clear(),
                ("Environment", value) => {
                    let pairs = words(value);
                    let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
                    self.variables
                        .extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
                }
                ("EnvironmentFile", "") => self.files.clear(),
                ("EnvironmentFile", value) => self.files.push(value.to_owned()),
                ("ExecStart", value) => value.clone_into(&mut self.start),
                _ => {}
            }
        }
    }

    /// The variables, those of files last. A file with `-` before its path may be missing.
    fn environment(&self, disk: &Disk) -> Result<BTreeMap<String, String>, UnitError> {
        let mut environment = self.variables.clone();
        for file in &self.files {
            let path = file.strip_prefix('-').unwrap_or(file);
            let Some(text) = disk.text(path) else {
                if file.starts_with('-') {
                    continue;
                }
                return Err(UnitError::NoEnvironmentFile(path.to_owned()));
            };
            for line in text.lines().map(str::trim) {
                if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) {
                    let value = value.trim().trim_matches(['"', '\'']);
                    environment.insert(name.trim().to_owned(), value.to_owned());
                }
            }
        }
        Ok(environment)
    }
}

/// `$NAME` as a word of its own becomes as many words as its value has; `${NAME}` stays within its word. Variables
/// in a value are not looked at again: systemd expands once.
fn expanded(line: &str, environment: &BTreeMap<String, String>) -> Vec<String> {
    let value = |name: &str| environment.get(name).cloned().unwrap_or_default();
    let mut all = Vec::new();
    for word in words(line) {
        match word.strip_prefix('$').filter(|name| !name.starts_with('{')) {
            Some(name) => all.extend(words(&value(name))),
            None => all.push(braces(&word, &value)),
        }
    }
    all
}

fn braces(word: &str, value: &impl Fn(&str) -> String) -> String {
    let (mut done, mut rest) = (String::new(), word);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        done.push_str(before);
        done.push_str(&value(name));
        rest = after;
    }
    done + rest
}

/// Words, in which quotes hold blanks together.
fn words(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
    for c in text.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => (quote, begun) = (Some(c), true),
            (c, None) if c.is_whitespace() => {
                if begun {
                    all.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            _ => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        all.push(word);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(files: &[(&str, &str)]) -> Disk {
        let disk = Disk::default();
        for (path, content) in files {
            disk.write(path, *content);
        }
        disk
    }

    const DEFAULTS: [&str; 3] = [
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--config=/var/lib/kubelet/config.yaml",
    ];

    #[test]
    fn without_a_unit_it_is_the_packages_own() {
        assert_eq!(arguments(&Disk::default()).unwrap(), DEFAULTS);
    }

    #[test]
    fn extra_arguments_come_from_a_drop_in_or_from_the_defaults_file_which_wins() {
        let drop_in = (
            "/etc/systemd/system/kubelet.service.d/20-extra.conf",
            "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--hostname-override=a --provider-id=x\"\n",
        );
        let said = arguments(&disk(&[drop_in])).unwrap();
        assert_eq!(said[3..], ["--hostname-override=a", "--provider-id=x"]);
        let file = (
            "/etc/default/kubelet",
            "# comment\nKUBELET_EXTRA_ARGS=\"--v=2 --node-ip=1.2.3.4\"\n",
        );
        assert_eq!(
            arguments(&disk(&[drop_in, file])).unwrap()[3..],
            ["--v=2", "--node-ip=1.2.3.4"]
        );
    }

    #[test]
    fn a_unit_of_ones_own_replaces_everything() {
        let unit = (
            "/etc/systemd/system/kubelet.service",
            "[Service]\nEnvironmentFile=/run/id\nEnvironment=A=b\nExecStart=/opt/bin/kubelet --x=${ID}/${A} \\\n  --y $A\n",
        );
        let missing = arguments(&disk(&[unit])).unwrap_err();
        assert_eq!(missing, UnitError::NoEnvironmentFile("/run/id".to_owned()));
        let said = arguments(&disk(&[unit, ("/run/id", "ID=7\n")])).unwrap();
        assert_eq!(said, ["--x=7/b", "--y", "b"]);
    }

    #[test]
    fn variables_are_expanded_once_only_as_systemd_does() {
        let drop_in = (
            "/etc/systemd/system/kubelet.service.d/20.conf",
            "[Service]\nEnvironment=ID=7\nEnvironment=\"KUBELET_EXTRA_ARGS=--provider-id=ibm:///r/${ID}\"\n",
        );
        assert_eq!(
            arguments(&disk(&[drop_in])).unwrap()[3..],
            ["--provider-id=ibm:///r/${ID}"]
        );
    }

    #[test]
    fn a_later_drop_in_can_take_the_command_back() {
        let drop_in = (
            "/etc/systemd/system/kubelet.service.d/30.conf",
            "[Service]\nExecStart=\nExecStart=/bin/sleep 1\n",
        );
        let refused = arguments(&disk(&[drop_in])).unwrap_err();
        assert_eq!(refused, UnitError::NotAKubelet("/bin/sleep 1".to_owned()));
    }
}
