//! Documents of many kinds, written where `hack/cloud-init-schema` has cloud-init judge them.

use std::path::Path;

use super::*;
use crate::api::IBMNodeClass;

const SERVER: Version = Version { major: 1, minor: 35 };
const ARMORED: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBGMHoXcBCADukGOEQyle\n=OHrG\n-----END PGP PUBLIC KEY BLOCK-----\n";
const HOSTILE: &str = "#!/bin/sh\r\n$(reboot) `id` ${X} ' \" \\ \0 \t \u{7f} \u{85} \u{2028} \u{feff} é \u{1f600}\nEOF\non: 0600\n";

fn kinds() -> Vec<(String, Join)> {
    let mut kinds = Vec::new();
    for family in [Family::Debian, Family::Rhel] {
        let of = |key: &str| Packages::Repository {
            address: "https://packages.example/core:/".to_owned(),
            key: key.to_owned(),
        };
        for (name, packages) in [
            ("image", Packages::Image),
            ("community", Packages::of(None, family, SERVER)),
            ("armored", of(ARMORED)),
        ] {
            let join = Join {
                family,
                packages,
                ..join()
            };
            kinds.push((format!("{family:?}-{name}"), join));
        }
    }
    let hostile = Join {
        authority: HOSTILE.to_owned(),
        token: Secret::new(HOSTILE.to_owned()),
        user_data_append: Some(HOSTILE.to_owned()),
        ..join()
    };
    kinds.push(("hostile".to_owned(), hostile));
    let appended = Join {
        user_data_append: Some(
            "#cloud-config\nwrite_files:\n- {path: /etc/motd, content: hello, permissions: '0644'}\n\
             runcmd:\n- [echo, hello]\n- echo $HOME\n"
                .to_owned(),
        ),
        ..join()
    };
    kinds.push(("appended".to_owned(), appended));
    kinds
}

/// One for each class among the examples.
fn examples() -> Vec<(String, Join)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for document in documents.into_iter().filter(|it| it["kind"] == "IBMNodeClass") {
            let spec = serde_json::from_value::<IBMNodeClass>(document).unwrap().spec;
            let join = Join {
                packages: Packages::of(spec.bootstrap.as_ref(), Family::Debian, SERVER),
                kubelet: spec.kubelet.unwrap_or_default(),
                user_data: spec.user_data,
                user_data_append: spec.user_data_append,
                ..join()
            };
            let stem = path.file_stem().unwrap().to_string_lossy();
            found.push((format!("example-{stem}"), join));
        }
    }
    found
}

#[test]
fn documents_of_many_kinds_are_rendered() {
    let documents: Vec<(String, UserData)> = kinds()
        .into_iter()
        .chain(examples())
        .map(|(name, join)| (name, render(&join).unwrap()))
        .collect();
    assert!(documents.iter().any(|(name, _)| name.starts_with("example-")));
    let Some(folder) = std::env::var_os("CLOUD_INIT_DOCUMENTS") else {
        return;
    };
    for (name, document) in documents {
        let path = Path::new(&folder).join(format!("{name}.txt"));
        std::fs::write(path, document.expose()).unwrap();
    }
}
