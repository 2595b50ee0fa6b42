//! The same workloads solved here and by another program, in one run: how long both take, and what both plans cost.
//!
//! The other program reads a workload as JSON from its standard input and answers with JSON on its standard output. Both
//! clocks run from typed objects in memory to the plan. It decides how many rounds are made (fewer where one takes long),
//! and as many are made here; on both sides the fastest counts. Prices are the cheapest available offering of every claim.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use karpenter_ibm::audit;
use serde::Deserialize;
use serde_json::json;

use crate::workload::{self, Workload};
use crate::{Arguments, Kind, dollars, fastest};

/// How many rounds are asked for.
const ROUNDS: usize = 3;

/// What the other program answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct There {
    seconds: f64,
    solve_seconds: f64,
    rounds: usize,
    nodes: usize,
    price_nanos: u64,
    left_out: std::collections::BTreeMap<String, String>,
}

/// One line of the table.
struct Row {
    name: &'static str,
    pods: usize,
    there: There,
    seconds: f64,
    solve_seconds: f64,
    nodes: usize,
    price_nanos: u64,
    left_out: usize,
    illegal: Vec<audit::Finding>,
}

/// Compares what the arguments ask for: 1,000 diverse pods if nothing.
pub(crate) fn run(peer: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let usual = [(Kind::Diverse, 1000)];
    let what = if arguments.what.is_empty() {
        &usual[..]
    } else {
        &arguments.what
    };
    let mut rows = Vec::new();
    if !arguments.json {
        head();
    }
    for (kind, pods) in what {
        let row = compare(peer, *kind, *pods)?;
        if !arguments.json {
            row.print();
        }
        rows.push(row);
    }
    if arguments.json {
        let all: Vec<serde_json::Value> = rows.iter().map(Row::json).collect();
        println!("{}", serde_json::Value::Array(all));
    }
    let ratio = arguments.require.unwrap_or_default();
    let broken: Vec<String> = rows.iter().flat_map(|row| row.broken(ratio)).collect();
    for broken in &broken {
        complain(broken);
    }
    let failed = arguments.require.is_some() && !broken.is_empty();
    Ok(ExitCode::from(u8::from(failed)))
}

#[expect(clippy::print_stderr, reason = "standard output is data")]
fn complain(what: &str) {
    eprintln!("not held: {what}");
}

fn compare(peer: &Path, kind: Kind, pods: usize) -> Result<Row, String> {
    let workload = kind.build(pods);
    let there = ask(peer, kind, &workload)?;
    let options = kind.options();
    let best = fastest(&workload, options, there.rounds);
    Ok(Row {
        name: kind.name(),
        pods,
        there,
        seconds: best.seconds,
        solve_seconds: best.solve_seconds,
        nodes: best.plan.claims.len(),
        price_nanos: best.plan.price_nanos(),
        left_out: best.plan.pods_left_out(),
        illegal: audit::plan_under(options.min_values, &best.snapshot, &best.plan),
    })
}

fn ask(peer: &Path, kind: Kind, workload: &Workload) -> Result<There, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{}: {what}: {error}", peer.display());
    let mut command = Command::new(peer);
    command.arg(format!("--rounds={ROUNDS}"));
    if kind == Kind::Ignored {
        command.arg("--ignore-preferences");
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed("starting", &error))?;
    // It reads everything before it answers, so writing first cannot block on its answer.
    let mut input = child.stdin.take().ok_or("no standard input")?;
    let written = input.write_all(workload::to_json(workload).to_string().as_bytes());
    written.map_err(|error| failed("writing the workload", &error))?;
    drop(input);
    let output = child
        .wait_with_output()
        .map_err(|error| failed("waiting", &error))?;
    if !output.status.success() {
        return Err(failed("ended", &output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed("reading its answer", &error))
}

fn head() {
    println!(
        "{:<12} {:>6}  {:>9} {:>9} {:>7}  {:>9} {:>9}  {:>6} {:>6}  {:>11} {:>11}  {:>5} {:>5}  {:>7}",
        "workload",
        "pods",
        "s here",
        "s there",
        "ratio",
        "solve",
        "solve",
        "nodes",
        "nodes",
        "$/h here",
        "$/h there",
        "left",
        "left",
        "illegal"
    );
}

impl Row {
    fn ratio(&self) -> f64 {
        self.there.seconds / self.seconds
    }

    fn print(&self) {
        let there = &self.there;
        println!(
            "{:<12} {:>6}  {:>9.4} {:>9.3} {:>7.0}  {:>9.4} {:>9.3}  {:>6} {:>6}  {:>11.4} {:>11.4}  {:>5} {:>5}  {:>7}",
            self.name,
            self.pods,
            self.seconds,
            there.seconds,
            self.ratio(),
            self.solve_seconds,
            there.solve_seconds,
            self.nodes,
            there.nodes,
            dollars(self.price_nanos),
            dollars(there.price_nanos),
            self.left_out,
            there.left_out.len(),
            self.illegal.len(),
        );
    }

    fn json(&self) -> serde_json::Value {
        json!({"pods": self.pods, "seconds_here": self.seconds, "seconds_there": self.there.seconds,
            "ratio": self.ratio(), "nodes_here": self.nodes, "nodes_there": self.there.nodes,
            "price_here": dollars(self.price_nanos), "price_there": dollars(self.there.price_nanos)})
    }

    /// What does not hold: so many times faster, no dearer, at the same price no more nodes, no pod more left out, and
    /// nothing illegal.
    fn broken(&self, ratio: f64) -> Vec<String> {
        let there = &self.there;
        let mut broken = Vec::new();
        let mut say = |what: String| broken.push(format!("{} {}: {what}", self.name, self.pods));
        if self.ratio() < ratio {
            say(format!("{:.0} times faster, not {ratio}", self.ratio()));
        }
        if self.left_out > there.left_out.len() {
            say(format!(
                "{} pods are left out, not {}",
                self.left_out,
                there.left_out.len()
            ));
        }
        if self.left_out == there.left_out.len() && self.price_nanos > there.price_nanos {
            say("dearer".to_owned());
        }
        if self.price_nanos == there.price_nanos && self.nodes > there.nodes {
            say("more nodes at the same price".to_owned());
        }
        for finding in self.illegal.iter().take(5) {
            say(finding.to_string());
        }
        broken
    }
}
