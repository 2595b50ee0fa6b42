//! Each rule fires on a line that breaks it, and on no other.

use super::*;

fn rules_broken(file: &str, text: &str) -> Vec<String> {
    check(file, text)
        .into_iter()
        .map(|violation| violation.rule)
        .collect()
}

#[test]
fn an_import_that_points_up_with_its_file_and_line() {
    let broken = check(
        "src/ibm/vpc.rs",
        "//! Doc.\n\nuse crate::{\n    money::Price,\n    cli::output,\n};\n",
    );
    let [violation] = broken.as_slice() else {
        panic!("{broken:?}")
    };
    assert_eq!(
        violation.to_string(),
        "src/ibm/vpc.rs:5: dependencies point down: cli is above ibm (found `crate::cli::output`)"
    );
}

#[test]
fn a_path_that_climbs_by_super() {
    let broken = rules_broken(
        "src/api/nodepool.rs",
        "fn f() -> super::super::cloud::Error { todo!() }",
    );
    assert_eq!(broken, ["dependencies point down: cloud is above api"]);
    assert!(rules_broken("src/api/nodepool.rs", "use super::names;").is_empty());
}

#[test]
fn controllers_that_look_behind_the_cloud() {
    assert_eq!(
        rules_broken("src/controllers/claim.rs", "use crate::ibm::vpc;").len(),
        1
    );
    assert!(rules_broken("src/controllers/claim.rs", "use crate::cloud::Cloud;").is_empty());
}

#[test]
fn an_ibm_client_that_knows_kubernetes() {
    assert_eq!(
        rules_broken("src/ibm/tags.rs", "use kube::Client;"),
        ["ibm never sees kube"]
    );
    assert_eq!(
        rules_broken("src/ibm/tags.rs", "type N = k8s_openapi::api::core::v1::Node;").len(),
        1
    );
    assert!(rules_broken("src/cluster/mod.rs", "use kube::Client;").is_empty());
}

#[test]
fn a_queue_without_a_limit() {
    for queue in [
        "let (to, from) = mpsc::unbounded_channel();",
        "let (to, from) = futures::channel::mpsc::unbounded();",
        "use std::sync::mpsc::channel;",
    ] {
        assert_eq!(
            rules_broken("src/controllers/tell.rs", queue),
            ["every queue has a limit"],
            "{queue}"
        );
    }
    assert!(rules_broken("src/controllers/tell.rs", "let queue = mpsc::channel(QUEUE);").is_empty());
}

#[test]
fn a_simulator_that_reaches_inside() {
    assert!(rules_broken("src/sim/world.rs", "use crate::ibm::{builtin, http::Exchange};").is_empty());
    for inside in [
        "ibm::vpc",
        "controllers::claim",
        "scheduling",
        "cli::output",
        "cluster",
    ] {
        assert!(
            !rules_broken("src/sim/world.rs", &format!("use crate::{inside};")).is_empty(),
            "{inside}"
        );
    }
}

#[test]
fn shipped_code_that_needs_the_simulator() {
    assert!(rules_broken("src/cli/demo.rs", "use crate::sim;").is_empty());
    assert!(rules_broken("src/bin/simulate.rs", "use karpenter_ibm::sim::world;").is_empty());
    assert!(!rules_broken("src/operator/mod.rs", "use crate::sim;").is_empty());
    assert!(!rules_broken("src/main.rs", "fn main() { karpenter_ibm::sim::run() }").is_empty());
}

#[test]
fn a_decision_with_an_effect_a_clock_or_a_die() {
    for impure in [
        "async fn solve() {}",
        "fn f() { g().await }",
        "use tokio::sync::Mutex;",
        "use kube::{Api, ResourceExt};",
        "fn f(clock: &Clock) {}",
        "use std::{env, fmt};",
        "fn f() { std::fs::read(p) }",
        "fn f() -> u64 { fastrand::u64(..) }",
    ] {
        assert_eq!(rules_broken("src/scheduling/mod.rs", impure).len(), 1, "{impure}");
        assert!(rules_broken("src/operator/mod.rs", impure).is_empty(), "{impure}");
    }
    assert!(rules_broken("src/api/mod.rs", "use kube::{CustomResource, api::ObjectMeta};").is_empty());
    assert!(rules_broken("src/lifecycle.rs", "use crate::clock::later;").is_empty());
}

#[test]
fn an_audit_that_asks_whom_it_judges() {
    for asking in [
        "use crate::scheduling::solve;",
        "use crate::scheduling::{Plan, solve};",
        "use crate::scheduling::*;",
        "fn f() { crate::scheduling::remedy(s, p, o, 0) }",
        "use crate::allocation::choose;",
        "fn f() { asked.and(own) }",
        "fn f() { terms.find_map(|term| term.unmet_by(&labels)) }",
        "fn f() { all.any(|one| !one\n.meets(other)) }",
        "fn f() { sets.fold(any, |a, b| Values::and(&a, b)) }",
        "fn f() { all.iter().all(Selector::matches) }",
        "use crate::model::taint::untolerated;",
    ] {
        assert_eq!(rules_broken("src/audit/place.rs", asking).len(), 1, "{asking}");
        let in_tests = format!("#[cfg(test)]\nmod tests {{ {asking} }}");
        assert!(
            rules_broken("src/audit/place.rs", &in_tests).is_empty(),
            "{asking}"
        );
        assert!(
            rules_broken("src/audit/tests/places.rs", asking).is_empty(),
            "{asking}"
        );
        assert!(
            rules_broken("src/cluster/places.rs", asking).is_empty(),
            "{asking}"
        );
    }
    for judging in [
        "use crate::scheduling::{Destination, NewClaim, Plan};",
        "use crate::model::{Values, pod::Namespaces, selector::Condition};",
        "use super::meaning::allows;",
        "fn f(and: bool) { and && meaning::allows(values, None) && matches!(a, B) }",
        "fn f() { values.listed(); values.bounds(); claim.requirements.get(key) }",
    ] {
        assert_eq!(rules_broken("src/audit/place.rs", judging), [""; 0], "{judging}");
    }
}

#[test]
fn printing_and_unsafe_code() {
    assert_eq!(rules_broken("src/lib.rs", "fn f() { println!(\"x\") }").len(), 1);
    assert!(rules_broken("src/lib.rs", "#[cfg(test)]\nmod tests { fn f() { println!() } }").is_empty());
    assert_eq!(
        rules_broken("src/hash.rs", "#[cfg(test)]\nmod tests { fn f() { unsafe {} } }"),
        ["no unsafe"]
    );
    assert_eq!(
        rules_broken("src/bin/other.rs", "#![allow(unsafe_code)]"),
        ["no unsafe"]
    );
    assert!(rules_broken(UNSAFE, "fn f() { unsafe {} }").is_empty());
}

#[test]
fn a_module_that_is_not_drawn() {
    assert_eq!(rules_broken("src/utils.rs", "").len(), 1);
}

#[test]
fn nothing_in_tests_comments_or_strings() {
    for harmless in [
        "#[cfg(test)]\nmod tests { use crate::sim::ibm; async fn f() {} }",
        "// use crate::cli;",
        "/* use /* nested */ crate::cli; */",
        "//! [`crate::cli`]",
        r##"const X: &str = "crate::cli"; const Y: &str = r#"a "crate::cli" b"#;"##,
    ] {
        assert_eq!(rules_broken("src/hash.rs", harmless), [""; 0], "{harmless}");
    }
    assert!(rules_broken("src/ibm/prices/tests.rs", "use crate::sim;").is_empty());
    assert!(!rules_broken("src/hash.rs", "#[cfg(test)]\nmod tests {}\nuse crate::cli;").is_empty());
    assert!(!rules_broken("src/hash.rs", "#[cfg(not(test))]\nuse crate::cli;").is_empty());
}
