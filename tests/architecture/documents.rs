//! What documents cite is there.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file below a folder, with its text.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            all.push((path, text));
        }
    }
    all
}

/// The words in backticks of the cells that say where something is held: the last of each row.
fn cited(document: &str) -> Vec<&str> {
    let rows = document.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let held = cells.filter(|cell| cell.starts_with("covered") || cell.starts_with('`'));
    let names = held.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.filter(|name| !name.starts_with("karpenter_ibm_")).collect()
}

/// Whether a function of a text is a test: its attributes stand right above it.
fn is_test(text: &str, name: impl Fn(&str) -> bool) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = (0..lines.len()).filter(|at| {
        let named = lines[*at].split("fn ").nth(1);
        named.is_some_and(|rest| name(rest.split(['(', '<']).next().unwrap_or(rest)))
    });
    let above = |at: usize| {
        let attributes = lines[..at].iter().rev();
        attributes.take_while(|line| line.starts_with("#[") || line.starts_with("//"))
    };
    found.any(|at| above(at).any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test")))
}

/// Whether a module with tests, or a test of that name is there: `spread`, `model::storage`,
/// `limits::nodes_are_counted_…`, `audit::Rule::Purchase`. Modules without a place are those of the solver's tests.
fn is_there(name: &str, all: &[(PathBuf, String)]) -> bool {
    let parts: Vec<&str> = name.split("::").collect();
    let is_module = |path: &Path, parts: &[&str]| {
        let path = path.with_extension("");
        let path = path.to_string_lossy();
        let path = path.trim_end_matches("/mod").trim_end_matches("/tests");
        let tail = parts.join("/");
        [
            format!("src/{tail}"),
            format!("src/scheduling/tests/{tail}"),
            format!("tests/suite/{tail}"),
        ]
        .iter()
        .any(|wanted| path.ends_with(wanted.as_str()))
    };
    let has_item = |text: &str, item: &str| match item.strip_suffix('…') {
        Some(begin) => is_test(text, |name| name.starts_with(begin)),
        None if item.starts_with(char::is_uppercase) => ["enum ", "    "].iter().any(|kind| {
            let after = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
            let wanted = format!("{kind}{item}");
            text.match_indices(&wanted)
                .any(|(at, _)| after(&text[at + wanted.len()..]))
        }),
        None => is_test(text, |name| name == item),
    };
    all.iter().any(|(path, text)| {
        (0..parts.len().min(3)).any(|items| {
            let (module, items) = parts.split_at(parts.len() - items);
            let holds = items.iter().all(|item| has_item(text, item));
            !module.is_empty()
                && is_module(path, module)
                && holds
                && (!items.is_empty() || is_test(text, |_| true))
        })
    })
}

#[test]
fn every_test_that_the_table_of_compatibility_cites_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = sources(&root.join("src"));
    all.extend(sources(&root.join("tests")));
    let document = fs::read_to_string(root.join("docs/compatibility.md")).unwrap();
    let cited = cited(&document);
    assert!(cited.len() > 60, "only {} are cited", cited.len());
    let missing: Vec<&&str> = cited.iter().filter(|name| !is_there(name, &all)).collect();
    assert!(missing.is_empty(), "cited and not there: {missing:?}");
}

#[test]
fn what_is_not_there_is_not_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let all = sources(&root.join("src"));
    for name in [
        "nowhere",
        "limits::nodes_are_never_counted",
        "limits::nodes_are_never_…",
        "audit::Rule::Beauty",
        // There, and no test.
        "model::snapshot",
        "packing::pods",
        "limits::limited",
    ] {
        assert!(!is_there(name, &all), "{name}");
    }
    for name in [
        "limits",
        "model::storage",
        "limits::nodes_are_counted_within_one_plan",
        "audit::Rule::Purchase",
    ] {
        assert!(is_there(name, &all), "{name}");
    }
}
