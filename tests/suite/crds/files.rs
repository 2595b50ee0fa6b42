//! The files in `crds/` are what `karpenter-ibm crds --dir crds` writes.

use std::path::Path;
use std::process::Command;

use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::cli::crds::to_yaml;

fn karpenter_ibm(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_karpenter-ibm"))
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn the_files_in_crds_are_current() {
    for definition in definitions().unwrap() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("crds")
            .join(&definition.file_name);
        let current = std::fs::read_to_string(path).unwrap_or_default();
        let expected = to_yaml(&definition).unwrap();
        assert!(
            current == expected,
            "crds/{} is not current: cargo run -- crds --dir crds",
            definition.file_name
        );
    }
}

#[test]
fn printing_gives_the_same_documents_as_the_files() {
    let output = karpenter_ibm(&["crds"]);
    assert!(output.status.success());
    let expected: String = definitions()
        .unwrap()
        .iter()
        .map(|it| to_yaml(it).unwrap())
        .collect();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn a_directory_is_made_and_filled() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crds/made/on/demand");
    let output = karpenter_ibm(&["crds", "--dir", dir.to_str().unwrap()]);
    assert!(output.status.success());
    assert!(output.stdout.is_empty());
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 4);
}

#[test]
fn a_directory_that_cannot_be_written_is_bad_input() {
    let output = karpenter_ibm(&[
        "crds",
        "--dir",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ]);
    assert_eq!(output.status.code(), Some(2));
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(
        talk.starts_with("error: cannot write ") && talk.contains("\nhint: --dir takes a directory"),
        "{talk}"
    );
}
