//! The drawing in `src/lib.rs`, kept true: reads every source file and refuses an import that points up.
//!
//! The tables below are the whole policy; modules that are drawn but not yet built are in them already. What is
//! behind `#[cfg(test)]`, in a `tests.rs` or under `tests/` may import anything. Comments and strings are not read,
//! so a macro that builds a path, or a name re-exported under another, is not seen.

#![expect(
    clippy::unwrap_used,
    reason = "a check that cannot read the sources has failed"
)]

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "architecture/catches.rs"]
mod catches;
#[path = "architecture/documents.rs"]
mod documents;
#[path = "architecture/plans.rs"]
mod plans;
#[path = "architecture/source.rs"]
mod source;

use source::{Token, paths, tokens, without_tests};

/// From top to bottom. A module may use those after it, never those before it.
const ORDER: &[&str] = &[
    "lib",
    "bin",
    "main",
    "cli",
    "sim",
    "operator",
    "controllers",
    "cluster",
    "ibm",
    "cloud",
    "audit",
    "disruption",
    "scheduling",
    "workload",
    "allocation",
    "lifecycle",
    "bootstrap",
    "drain",
    "model",
    "api",
    "resources",
    "cron",
    "quantity",
    "money",
    "hash",
    "secret",
    "entropy",
    "panics",
    "wake",
    "clock",
];

/// Decisions and values: no effect, no time and no chance of their own.
const PURE: &[&str] = &[
    "audit",
    "disruption",
    "scheduling",
    "workload",
    "allocation",
    "lifecycle",
    "bootstrap",
    "drain",
    "model",
    "api",
    "resources",
    "cron",
    "quantity",
    "money",
    "hash",
    "secret",
];

/// Modules that see less of what is below them than the order alone would allow.
const ONLY: &[Only] = &[
    Only {
        name: "main hands over to cli",
        of: "main",
        may_use: &["cli"],
    },
    Only {
        name: "sim speaks on the wire and never reaches into what it tests",
        of: "sim",
        may_use: &[
            "operator",
            "ibm::http",
            "ibm::builtin",
            "ibm::Transports",
            "ibm::secret",
            "cloud",
            "audit",
            "api",
            "resources",
            "cron",
            "quantity",
            "money",
            "hash",
            "entropy",
            "panics",
            "wake",
            "clock",
        ],
    },
    Only {
        name: "audit sees the data of plans, and nothing of how they are made",
        of: "audit",
        may_use: &[
            "scheduling::Cheapest",
            "scheduling::Destination",
            "scheduling::LeftOut",
            "scheduling::MinValues",
            "scheduling::MinValuesPolicy",
            "scheduling::NewClaim",
            "scheduling::Placement",
            "scheduling::Plan",
            "model",
            "api",
            "resources",
            "money",
        ],
    },
];

/// Everyone but these is kept from `sim`, which is not in the shipped binary.
const MAY_USE_SIM: &[&str] = &["bin", "cli", "sim"];

/// What certain modules must not mention.
const NEVER: &[Never] = &[
    Never {
        name: "controllers know a cloud only through `cloud`",
        within: &["controllers", "cluster"],
        paths: &["crate::ibm"],
        words: &[],
        tests: Tests::Exempt,
    },
    Never {
        name: "ibm never sees kube",
        within: &["ibm"],
        paths: &["kube", "k8s_openapi"],
        words: &[],
        tests: Tests::Exempt,
    },
    Never {
        name: "a pure module has no effects",
        within: PURE,
        paths: &[
            "tokio",
            "reqwest",
            "kube::Client",
            "kube::client",
            "kube::Api",
            "kube::api::Api",
            "kube::runtime",
            "std::env",
            "std::fs",
            "std::net",
            "std::process",
        ],
        words: &["async", "await"],
        tests: Tests::Exempt,
    },
    Never {
        name: "a pure module takes time and chance as arguments",
        within: PURE,
        paths: &["fastrand"],
        words: &["Clock", "Instant", "SystemTime"],
        tests: Tests::Exempt,
    },
    // A mistake in any of these would be in a plan and in the audit of it alike. What is data may be read: `get`, `listed`.
    Never {
        name: "audit says itself what requirements, selectors and tolerations mean",
        within: &["audit"],
        paths: &[],
        words: &[
            ".allows",
            ".allows_another_than",
            ".allows_state",
            ".and",
            ".conflict",
            ".conflicts",
            ".covers",
            ".include",
            ".is_never",
            ".label_states",
            ".matches",
            ".meets",
            ".narrow",
            ".needs",
            ".unmet_by",
            ".without",
            "untolerated",
        ],
        tests: Tests::Exempt,
    },
    Never {
        name: "output goes through cli::output or tracing",
        within: ORDER,
        paths: &[],
        words: &["print!", "println!", "eprint!", "eprintln!", "dbg!"],
        tests: Tests::Exempt,
    },
    Never {
        name: "every queue has a limit",
        within: ORDER,
        paths: &["std::sync::mpsc::channel"],
        words: &[
            "unbounded",
            "unbounded_channel",
            "UnboundedSender",
            "UnboundedReceiver",
        ],
        tests: Tests::Exempt,
    },
    Never {
        name: "no unsafe",
        within: ORDER,
        paths: &[],
        words: &["unsafe", "unsafe_code"],
        tests: Tests::Included,
    },
];

/// The one file that may be unsafe: it replaces the C library's source of entropy by a seed, and is never shipped.
const UNSAFE: &str = "src/bin/simulate.rs";

/// A file above this has more than one reason to exist.
const LINES_MAX: usize = 600;

/// Files that may be longer, each with the reason.
const LONG: &[(&str, &str)] = &[];

struct Only {
    name: &'static str,
    of: &'static str,
    may_use: &'static [&'static str],
}

struct Never {
    name: &'static str,
    within: &'static [&'static str],
    /// Path prefixes, in whole segments.
    paths: &'static [&'static str],
    /// Identifiers and keywords; with `!` at the end, macros; with `.` before, methods.
    words: &'static [&'static str],
    tests: Tests,
}

#[derive(Clone, Copy, PartialEq)]
enum Tests {
    Exempt,
    Included,
}

#[derive(Debug, PartialEq)]
struct Violation {
    file: String,
    line: usize,
    rule: String,
    found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {} (found `{}`)",
            self.file, self.line, self.rule, self.found
        )
    }
}

/// Every violation in one source file. `file` is its path from the root of the crate, `src/ibm/http/mod.rs`.
fn check(file: &str, text: &str) -> Vec<Violation> {
    let module = module_path(file);
    let top = module.first().map_or("lib", String::as_str);
    let all = tokens(text);
    let code = if is_test_file(file) {
        Vec::new()
    } else {
        without_tests(&all)
    };
    let paths = paths(&code, &module);
    let mut found = Vec::new();
    let mut report = |line: usize, rule: String, what: &str| {
        found.push(Violation {
            file: file.to_owned(),
            line,
            rule,
            found: what.to_owned(),
        });
    };

    if !ORDER.contains(&top) {
        report(
            1,
            format!("`{top}` is not in the drawing: give it a place in ORDER"),
            top,
        );
    }
    for (line, path) in &paths {
        for rule in import_rules_broken(top, path) {
            report(*line, rule, path);
        }
    }
    let applies =
        |never: &&Never| never.within.contains(&top) && !(file == UNSAFE && never.words.contains(&"unsafe"));
    for never in NEVER.iter().filter(applies) {
        for (line, path) in &paths {
            if never.paths.iter().any(|prefix| starts_with(path, prefix)) {
                report(*line, never.name.to_owned(), path);
            }
        }
        let words = if never.tests == Tests::Included {
            &all
        } else {
            &code
        };
        for (line, word) in mentions(words, never.words) {
            report(line, never.name.to_owned(), word);
        }
    }
    found
}

/// The import rules that `path`, used in the module `top`, breaks.
fn import_rules_broken(top: &str, path: &str) -> Vec<String> {
    let Some(inside) = path.strip_prefix("crate::") else {
        return Vec::new();
    };
    let target = inside.split("::").next().unwrap_or(inside);
    if target == top {
        return Vec::new();
    }
    let place = |name: &str| ORDER.iter().position(|module| *module == name);
    let mut broken = Vec::new();
    if let (Some(user), Some(used)) = (place(top), place(target))
        && used < user
    {
        broken.push(format!("dependencies point down: {target} is above {top}"));
    }
    if target == "sim" && !MAY_USE_SIM.contains(&top) {
        broken.push("only cli, the campaign runner and tests use sim".to_owned());
    }
    for only in ONLY
        .iter()
        .filter(|only| only.of == top && place(target).is_some())
    {
        if !only.may_use.iter().any(|allowed| starts_with(inside, allowed)) {
            broken.push(only.name.to_owned());
        }
    }
    broken
}

fn starts_with(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn mentions<'a>(tokens: &'a [Token], words: &'a [&str]) -> impl Iterator<Item = (usize, &'a str)> {
    tokens.iter().enumerate().flat_map(move |(at, token)| {
        let hit = move |word: &&&str| is_said(tokens, at, word);
        words.iter().filter(hit).map(|word| (token.line, *word))
    })
}

/// Whether the token at `at` is a word of a rule.
fn is_said(tokens: &[Token], at: usize, word: &str) -> bool {
    let text = |at: Option<usize>| {
        let token = at.and_then(|at| tokens.get(at));
        token.map_or("", |token| token.text.as_str())
    };
    let (this, next) = (text(Some(at)), text(Some(at + 1)));
    let before = |steps: usize| text(at.checked_sub(steps));
    if let Some(name) = word.strip_suffix('!') {
        this == name && next == "!"
    } else if let Some(name) = word.strip_prefix('.') {
        // `a.b()` and `A::b(a)`.
        let of_type = before(1) == "::" && before(2).starts_with(char::is_uppercase);
        this == name && (before(1) == "." || of_type)
    } else {
        this == word
    }
}

/// `src/ibm/http/exchange.rs` is the module `ibm::http::exchange`; the files of `src/bin` are all `bin`.
fn module_path(file: &str) -> Vec<String> {
    let inside = file.trim_start_matches("src/").trim_end_matches(".rs");
    let mut segments: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if matches!(segments.last().map(String::as_str), Some("mod" | "lib")) {
        segments.pop();
    }
    segments
}

fn is_test_file(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.contains("/tests/")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below `folder`, in order, by their path from the root of the crate.
fn rust_files(folder: &str) -> Vec<String> {
    let mut folders: Vec<PathBuf> = vec![root().join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

#[test]
fn dependencies_point_down_and_pure_modules_are_pure() {
    let files = rust_files("src");
    assert!(
        files.contains(&"src/lib.rs".to_owned()),
        "the sources were not found"
    );
    let violations: Vec<String> = files
        .iter()
        .flat_map(|file| check(file, &read(file)))
        .map(|violation| violation.to_string())
        .collect();
    assert!(
        violations.is_empty(),
        "the house rules are broken:\n{}",
        violations.join("\n")
    );
}

#[test]
fn no_file_is_too_long() {
    let too_long = |file: &&String| read(file).lines().count() > LINES_MAX;
    let excused = |file: &String| LONG.iter().any(|(path, _)| *path == file.as_str());
    let files: Vec<String> = rust_files("src").into_iter().chain(rust_files("tests")).collect();
    let long: Vec<&String> = files.iter().filter(too_long).collect();
    let wrong: Vec<_> = long.iter().filter(|file| !excused(file)).collect();
    assert!(
        wrong.is_empty(),
        "over {LINES_MAX} lines, split or give the reason in LONG: {wrong:?}"
    );
    let stale: Vec<_> = LONG
        .iter()
        .filter(|(path, _)| !long.iter().any(|file| file.as_str() == *path))
        .collect();
    assert!(stale.is_empty(), "listed in LONG but not long: {stale:?}");
}

#[test]
fn a_folder_of_modules_has_a_mod_rs() {
    let files = rust_files("src");
    for file in &files {
        let folder = file.rsplit_once('/').unwrap().0;
        let is_module = !["src", "src/bin"].contains(&folder);
        assert!(
            !is_module || files.contains(&format!("{folder}/mod.rs")),
            "{folder} has no mod.rs"
        );
    }
}

#[test]
fn the_compiler_denies_unsafe_code() {
    assert!(
        read("Cargo.toml")
            .lines()
            .any(|line| line.trim() == r#"unsafe_code = "deny""#)
    );
}
