//! The scripts that install what an image lacks, run by a real shell: in a folder that stands for the root of a machine,
//! with programs that only write down how they were called.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;

/// Programs of this machine that the scripts use as they are.
const REAL: [&str; 2] = ["cat", "install"];
const SERVER: Version = Version { major: 1, minor: 35 };
const ARMORED: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n";
const CONTAINERD_CONFIG: &str = "/etc/containerd/config.toml";
const KEYRING: &str = "/etc/apt/keyrings/karpenter-ibm.asc";

/// One machine at a time: a program that was just written cannot run while a process that another test has begun still
/// has it open.
static ALONE: Mutex<()> = Mutex::new(());

/// A machine with the files of a document, which goes with the test.
struct Machine {
    root: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Machine {
    fn new(family: Family, packages: Packages) -> Self {
        let root = format!("karpenter-ibm-{}-installs", std::process::id());
        let machine = Self {
            root: std::env::temp_dir().join(root),
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let join = Join {
            family,
            packages,
            ..join()
        };
        let config = config(&join);
        for file in config["write_files"].as_array().unwrap() {
            let path = file["path"].as_str().unwrap();
            machine.write(path, &machine.rooted(&content(&config, path)));
        }
        let folders = std::env::var("PATH").unwrap();
        for program in REAL {
            let mut places = folders.split(':').map(|folder| Path::new(folder).join(program));
            let found = places.find(|place| place.exists()).unwrap();
            std::os::unix::fs::symlink(found, machine.program(program)).unwrap();
        }
        machine.stub("systemctl", "");
        // Whoever tries again in vain would do so for ever.
        machine.stub("sleep", "kill $PPID");
        machine
    }

    /// The same text where the root of the machine is not that of this one.
    fn rooted(&self, text: &str) -> String {
        let root = self.root.display();
        ["/etc/", "/usr/lib/", "/var/lib/"]
            .iter()
            .fold(text.to_owned(), |text, folder| {
                text.replace(&format!(" {folder}"), &format!(" {root}{folder}"))
            })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn program(&self, name: &str) -> PathBuf {
        let folder = self.at("/bin");
        fs::create_dir_all(&folder).unwrap();
        folder.join(name)
    }

    /// A program that notes its call, and then does `more`.
    fn stub(&self, name: &str, more: &str) {
        let path = self.program(name);
        self.stub_at(&path, name, more);
    }

    fn stub_at(&self, path: &Path, name: &str, more: &str) {
        let log = self.at("/log");
        let text = format!("#!/bin/sh\necho \"{name} $*\" >> {}\n{more}\n", log.display());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the script, and gives back how it ended and what it called.
    fn install(&self) -> (ExitStatus, Vec<String>) {
        let ended = Command::new("/bin/sh")
            .arg(self.at(&format!("{FOLDER}/install")))
            .env_clear()
            .env("PATH", self.at("/bin"))
            .status();
        let log = self.read("/log").unwrap_or_default();
        (ended.unwrap(), log.lines().map(str::to_owned).collect())
    }

    /// The same of a script that must succeed: which programs did what with packages and services.
    fn installed(&self) -> Vec<String> {
        let (ended, calls) = self.install();
        assert!(ended.success(), "{ended}: {calls:?}");
        calls
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).ok();
    }
}

/// A machine that can install packages, of a class that leaves open where they are.
fn community(family: Family) -> Machine {
    machine(family, Packages::of(None, family, SERVER))
}

fn machine(family: Family, packages: Packages) -> Machine {
    let machine = Machine::new(family, packages);
    match family {
        Family::Debian => {
            machine.stub("apt-get", "");
            machine.stub("apt-mark", "");
        }
        Family::Rhel => machine.stub("dnf", ""),
    }
    machine
}

/// What becomes of the last two arguments: one is an address, whose text is the key here, the other the file for it.
const WRITES_SECOND: &str = "while [ $# -gt 2 ]; do shift; done; echo \"$1\" > \"$2\"";
const WRITES_FIRST: &str = "while [ $# -gt 2 ]; do shift; done; echo \"$2\" > \"$1\"";

#[test]
fn nothing_is_installed_where_the_image_has_both() {
    for family in [Family::Debian, Family::Rhel] {
        let machine = community(family);
        machine.stub("kubelet", "");
        machine.stub("containerd", "");
        assert!(machine.installed().is_empty(), "{family:?}");
        assert_eq!(
            machine.read(CONTAINERD_CONFIG),
            None,
            "{family:?}: the image's own stays"
        );
        assert_eq!(machine.read(KEYRING), None);
    }
}

#[test]
fn where_the_image_lacks_one_both_come_from_the_repository() {
    for (family, has) in [
        (Family::Debian, "kubelet"),
        (Family::Debian, "containerd"),
        (Family::Rhel, "kubelet"),
        (Family::Rhel, "containerd"),
    ] {
        let machine = community(family);
        machine.stub(has, "");
        machine.stub("curl", WRITES_FIRST);
        let calls = machine.installed();
        let expected: &[&str] = match family {
            Family::Debian => &[
                "curl -fsSL --proto =https --retry 10 --retry-connrefused -o packages.asc \
                 https://pkgs.k8s.io/core:/stable:/v1.35/deb/Release.key",
                "apt-get -q -o DPkg::Lock::Timeout=300 update",
                "apt-get -qy -o DPkg::Lock::Timeout=300 install kubelet containerd",
                "apt-mark hold kubelet",
                "systemctl restart containerd",
            ],
            Family::Rhel => &[
                "dnf -y install kubelet containerd",
                "systemctl restart containerd",
            ],
        };
        assert_eq!(calls, expected, "{family:?} with {has}");
        let config = machine.read(CONTAINERD_CONFIG).unwrap();
        assert!(config.contains("SystemdCgroup = true"), "{config}");
        match family {
            Family::Debian => {
                let key = machine.read(KEYRING).unwrap();
                assert_eq!(key, "https://pkgs.k8s.io/core:/stable:/v1.35/deb/Release.key\n");
                let sources = machine
                    .read("/etc/apt/sources.list.d/karpenter-ibm.sources")
                    .unwrap();
                assert!(sources.contains("URIs: https://pkgs.k8s.io/core:/stable:/v1.35/deb/\n"));
                assert!(sources.ends_with(&format!("Signed-By: {}\n", machine.at(KEYRING).display())));
            }
            Family::Rhel => {
                let listed = machine.read("/etc/yum.repos.d/karpenter-ibm.repo").unwrap();
                assert!(listed.contains("baseurl=https://pkgs.k8s.io/core:/stable:/v1.35/rpm/\n"));
                assert!(
                    listed.contains("gpgcheck=1\ngpgkey=https://pkgs.k8s.io/"),
                    "{listed}"
                );
            }
        }
    }
}

#[test]
fn a_minimal_image_without_curl_reads_the_key_with_apt() {
    let machine = community(Family::Debian);
    let helper = machine.at("/usr/lib/apt/apt-helper");
    machine.stub_at(&helper, "apt-helper", WRITES_SECOND);
    let calls = machine.installed();
    assert_eq!(
        calls[0],
        "apt-helper -o Acquire::Retries=10 download-file \
         https://pkgs.k8s.io/core:/stable:/v1.35/deb/Release.key packages.asc"
    );
    let key = machine.read(KEYRING).unwrap();
    assert_eq!(key, "https://pkgs.k8s.io/core:/stable:/v1.35/deb/Release.key\n");
}

#[test]
fn a_key_that_the_class_holds_is_asked_of_nobody() {
    for family in [Family::Debian, Family::Rhel] {
        let packages = Packages::Repository {
            address: "https://packages.example/".to_owned(),
            key: ARMORED.to_owned(),
        };
        let machine = machine(family, packages);
        let calls = machine.installed();
        let is_reader = |call: &String| call.starts_with("curl") || call.starts_with("apt-helper");
        assert!(!calls.iter().any(is_reader), "{calls:?}");
        let kept = match family {
            Family::Debian => machine.read(KEYRING),
            Family::Rhel => machine.read(&format!("{FOLDER}/packages.asc")),
        };
        assert_eq!(kept.as_deref(), Some(ARMORED));
    }
}

#[test]
fn a_repository_that_calls_it_containerd_io_will_do() {
    let machine = community(Family::Rhel);
    machine.stub("dnf", "[ \"$4\" = containerd.io ]");
    let expected = [
        "dnf -y install kubelet containerd",
        "dnf -y install kubelet containerd.io",
        "systemctl restart containerd",
    ];
    assert_eq!(machine.installed(), expected);
    assert!(machine.read(CONTAINERD_CONFIG).is_some());
}

#[test]
fn a_lock_that_others_hold_is_waited_for() {
    let machine = community(Family::Debian);
    machine.stub("curl", WRITES_FIRST);
    machine.stub("sleep", "");
    let released = machine.at("/released").display().to_string();
    machine.stub(
        "apt-get",
        &format!("[ -f {released} ] || {{ : > {released}; exit 1; }}"),
    );
    let calls = machine.installed();
    assert_eq!(calls.iter().filter(|call| call.contains("update")).count(), 2);
    assert!(calls.contains(&"sleep 5".to_owned()), "{calls:?}");
}

#[test]
fn without_a_key_nothing_is_installed() {
    let machine = community(Family::Debian);
    machine.stub("curl", "exit 22");
    let (ended, calls) = machine.install();
    assert!(!ended.success());
    assert!(calls.iter().all(|call| call.starts_with("curl")), "{calls:?}");
}
