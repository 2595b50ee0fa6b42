//! The corpus, through the CRD and through `validate`.

use std::fs;
use std::path::{Path, PathBuf};

use karpenter_ibm::api::NodePool;
use karpenter_ibm::sim::kube::schema::Schema;
use serde::Deserialize;
use serde_json::Value;

use super::{KINDS, Kind, Verdict, admit};

/// One file of the corpus.
pub(super) struct Case {
    pub(super) file: String,
    pub(super) kind: Kind,
    pub(super) old: Option<Value>,
    pub(super) object: Value,
    /// The field to blame, empty for the whole object; `None` for a valid manifest.
    pub(super) blames: Option<String>,
    /// Whether it is about something that upstream does not have.
    pub(super) addition: bool,
}

/// All files about a kind, sorted by name.
pub(super) fn cases(kind: Kind) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(kind.folder());
    let mut cases = Vec::new();
    for (group, addition) in [
        ("valid", false),
        ("invalid", false),
        ("additions/valid", true),
        ("additions/invalid", true),
    ] {
        let mut files: Vec<PathBuf> = fs::read_dir(folder.join(group))
            .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
            .unwrap_or_default();
        files.sort();
        cases.extend(
            files
                .iter()
                .map(|path| read(path, kind, addition, group.ends_with("invalid"))),
        );
    }
    cases
}

fn read(path: &Path, kind: Kind, addition: bool, invalid: bool) -> Case {
    let file = path
        .strip_prefix(env!("CARGO_MANIFEST_DIR"))
        .unwrap()
        .display()
        .to_string();
    let text = fs::read_to_string(path).unwrap();
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let object = documents.pop().unwrap();
    assert_eq!(Kind::of(&object), kind, "{file}");
    let blames = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# blames: "));
    assert_eq!(
        blames.is_some(),
        invalid,
        "{file}: an invalid manifest, and no other, names the field to blame"
    );
    let blames = blames.map(|field| {
        if field == "the whole object" {
            String::new()
        } else {
            field.to_owned()
        }
    });
    Case {
        file,
        kind,
        old: documents.pop(),
        object,
        blames,
        addition,
    }
}

#[test]
fn crd_and_validate_agree_on_every_manifest_and_on_whom_to_blame() {
    let mut count = 0;
    for kind in KINDS {
        let schema = Schema::compile(&kind.schema()).unwrap();
        for case in cases(kind) {
            check(&case, &schema);
            count += 1;
        }
    }
    assert!(count > 400, "only {count} manifests were found");
}

#[test]
fn defaulting_changes_neither_a_verdict_nor_a_hash() {
    for kind in KINDS {
        let schema = Schema::compile(&kind.schema()).unwrap();
        for case in cases(kind).into_iter().filter(|case| case.blames.is_none()) {
            let mut defaulted = case.object.clone();
            assert_eq!(schema.admit(&mut defaulted, None), [], "{}", case.file);
            assert_eq!(
                kind.validate(&defaulted, None),
                Verdict::Accepted,
                "{}",
                case.file
            );
            if kind == Kind::NodePool {
                let hash = |pool: &Value| NodePool::deserialize(pool).unwrap().hash();
                assert_eq!(hash(&defaulted), hash(&case.object), "{}", case.file);
            }
        }
    }
}

fn check(case: &Case, schema: &Schema) {
    let Case {
        file,
        kind,
        old,
        object,
        blames,
        ..
    } = case;
    let causes = admit(schema, object, old.as_ref());
    let verdict = kind.validate(object, old.as_ref());
    let Some(blames) = blames else {
        assert_eq!(causes, [], "{file}");
        assert_eq!(verdict, Verdict::Accepted, "{file}");
        return;
    };
    assert!(
        causes.iter().any(|cause| cause.field == *blames),
        "{file}: the CRD blames {causes:#?}"
    );
    match verdict {
        Verdict::Accepted => panic!("{file}: validate accepts it"),
        Verdict::Unreadable => {}
        Verdict::Refused(violations) => {
            assert!(
                violations.iter().any(|it| it.field == *blames),
                "{file}: validate blames {violations:#?}"
            );
        }
    }
}
