//! Every plan that is made in a test or a benchmark is looked at a second time.

use super::source::{paths, tokens};
use super::{module_path, read, rust_files};

/// Whoever runs the operator in a test or a benchmark lets every plan be looked at a second time: these do that for all
/// others. One that is broken on purpose is made by its mutant.
const RUNS_THE_OPERATOR: &[&str] = &["tests/suite/operator/audited.rs", "benches/stage/mod.rs"];

/// Where a file makes replicas of the operator whose plans nobody looks at.
fn unwatched(file: &str, text: &str) -> Vec<String> {
    let ends = ["operator::factory", "operator::factory_of"];
    let paths = paths(&tokens(text), &module_path(file));
    let plain = paths
        .iter()
        .filter(|(_, path)| ends.iter().any(|end| path.ends_with(end)));
    plain
        .map(|(line, path)| format!("{file}:{line}: {path}"))
        .collect()
}

#[test]
fn every_plan_in_tests_and_benchmarks_is_looked_at_a_second_time() {
    let files = rust_files("tests").into_iter().chain(rust_files("benches"));
    let files = files.filter(|file| !RUNS_THE_OPERATOR.contains(&file.as_str()));
    let found: Vec<String> = files.flat_map(|file| unwatched(&file, &read(&file))).collect();
    assert!(
        found.is_empty(),
        "plans of these replicas are not audited; `audited::factory` makes one whose are:\n{}",
        found.join("\n")
    );
    for file in RUNS_THE_OPERATOR {
        assert!(
            !unwatched(file, &read(file)).is_empty(),
            "{file} runs no operator"
        );
    }
}

#[test]
fn a_replica_whose_plans_nobody_looks_at_is_found() {
    for plain in [
        "use karpenter_ibm::operator;\nfn f() { operator::factory(s) }",
        "use karpenter_ibm::operator::{self, factory_of};",
        "fn f() { karpenter_ibm::operator::factory_of(s, e, c) }",
    ] {
        assert_eq!(unwatched("tests/suite/x.rs", plain).len(), 1, "{plain}");
    }
    let watched = "use super::audited;\nfn f() { audited::factory(s); mutant.factory(s) }";
    assert!(unwatched("tests/suite/x.rs", watched).is_empty());
}
