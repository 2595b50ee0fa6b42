//! Commands to a simulator that runs.

use std::time::Duration;

use anyhow::Context;
use comfy_table::{Table, presets};
use http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use url::Url;

use super::running;
use crate::cli::{BadInput, output};
use crate::clock::between;
use crate::sim::ibm::FaultKind;

/// A simulator answers at once, or not at all.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Which simulator is meant.
#[derive(Debug, clap::Args)]
struct Target {
    /// Address of the simulator; needed only when several run on this machine
    #[arg(long, value_name = "URL")]
    endpoint: Option<Url>,
}

/// Lists the instances.
#[derive(Debug, clap::Args)]
pub(super) struct Ls {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Preempts a spot instance: 30 seconds of stopping, then what its policy says.
#[derive(Debug, clap::Args)]
pub(super) struct Preempt {
    /// Name or id of the instance
    instance: String,
    #[command(flatten)]
    target: Target,
}

/// Fails the host of an instance.
#[derive(Debug, clap::Args)]
pub(super) struct HostFailure {
    /// Name or id of the instance
    instance: String,
    /// What becomes of it, whatever its policy says: restart or stop
    #[arg(long)]
    outcome: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Lets an instance fail to start; it may be one that is yet to be created.
#[derive(Debug, clap::Args)]
pub(super) struct FailStart {
    /// Name or id of the instance
    instance: String,
    /// Reason why, e.g. `cannot_start_storage`
    #[arg(long, default_value = "cannot_start_capacity")]
    reason: String,
    #[command(flatten)]
    target: Target,
}

/// Leaves no free machine of a profile in a zone.
#[derive(Debug, clap::Args)]
pub(super) struct Drain {
    #[command(flatten)]
    offering: Offering,
}

/// Gives a profile in a zone its machines back.
#[derive(Debug, clap::Args)]
pub(super) struct Refill {
    #[command(flatten)]
    offering: Offering,
}

#[derive(Debug, clap::Args)]
struct Offering {
    profile: String,
    zone: String,
    /// Only this class: spot or standard
    #[arg(long)]
    class: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Takes a profile, the price of a profile, or an image away.
#[derive(Debug, clap::Args)]
pub(super) struct Remove {
    /// profile, price or image
    what: String,
    name: String,
    #[command(flatten)]
    target: Target,
}

/// Turns a fault on or off; without a kind, lists those that are on.
#[derive(Debug, clap::Args)]
#[command(after_help = kinds_help())]
pub(super) struct FaultArgs {
    /// Kind of fault, see below
    kind: Option<String>,
    /// How long, in simulated time: 30s, 10m, 1h [default: until --off]
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<SignedDuration>,
    /// How often out of a hundred times
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    percent: u64,
    /// How many times in all [default: no end]
    #[arg(long)]
    times: Option<u64>,
    /// Only on this operation, e.g. instances.create
    #[arg(long)]
    operation: Option<String>,
    /// Turn it off
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    target: Target,
}

fn kinds_help() -> String {
    let width = FaultKind::ALL
        .iter()
        .map(|kind| kind.as_str().len())
        .max()
        .unwrap_or(0);
    let lines = FaultKind::ALL
        .iter()
        .map(|kind| format!("  {:width$}  {}", kind.as_str(), kind.description()));
    format!("Kinds:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

pub(super) fn ls(args: &Ls) -> anyhow::Result<()> {
    let answer = call(&args.target, &Method::GET, "instances", None)?;
    if args.json {
        return Ok(output::data(serde_json::to_string_pretty(&answer["instances"])?)?);
    }
    Ok(output::data(table(&answer))?)
}

pub(super) fn preempt(args: &Preempt) -> anyhow::Result<()> {
    call(
        &args.target,
        &Method::POST,
        "preempt",
        Some(json!({ "instance": args.instance })),
    )?;
    output::talk(format_args!("{} is being preempted", args.instance));
    Ok(())
}

pub(super) fn host_failure(args: &HostFailure) -> anyhow::Result<()> {
    let mut body = json!({ "instance": args.instance });
    set(&mut body, "outcome", args.outcome.as_ref());
    call(&args.target, &Method::POST, "host-failure", Some(body))?;
    output::talk(format_args!("the host of {} failed", args.instance));
    Ok(())
}

pub(super) fn fail_start(args: &FailStart) -> anyhow::Result<()> {
    let body = json!({ "instance": args.instance, "reason": args.reason });
    call(&args.target, &Method::POST, "fail-start", Some(body))?;
    output::talk(format_args!(
        "the next start of {} will fail with {}",
        args.instance, args.reason
    ));
    Ok(())
}

pub(super) fn drain(args: &Drain) -> anyhow::Result<()> {
    let what = args.offering.send("drain")?;
    output::talk(format_args!("no {what} is left"));
    Ok(())
}

pub(super) fn refill(args: &Refill) -> anyhow::Result<()> {
    let what = args.offering.send("refill")?;
    output::talk(format_args!("{what} can be had again"));
    Ok(())
}

pub(super) fn remove(args: &Remove) -> anyhow::Result<()> {
    let body = json!({ "what": args.what, "name": args.name });
    call(&args.target, &Method::POST, "remove", Some(body))?;
    output::talk(format_args!("the {} {} is gone", args.what, args.name));
    Ok(())
}

pub(super) fn fault(args: &FaultArgs) -> anyhow::Result<()> {
    let Some(kind) = &args.kind else {
        let answer = call(&args.target, &Method::GET, "faults", None)?;
        return Ok(output::data(serde_json::to_string_pretty(&answer["active"])?)?);
    };
    if FaultKind::parse(kind).is_none() {
        let kinds: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.as_str()).collect();
        let problem = BadInput::new(format!("there is no kind of fault {kind:?}"));
        return Err(problem.hint(format!("one of: {}", kinds.join(", "))).into());
    }
    let path = format!("faults/{kind}");
    if args.off {
        call(&args.target, &Method::DELETE, &path, None)?;
        output::talk(format_args!("{kind} is off"));
        return Ok(());
    }
    let mut body = json!({ "percent": args.percent });
    set(&mut body, "times", args.times);
    set(&mut body, "operation", args.operation.as_ref());
    let seconds = args
        .duration
        .map(|duration| u64::try_from(duration.as_secs()))
        .transpose();
    set(
        &mut body,
        "for_seconds",
        seconds.map_err(|_| BadInput::new("--for must not be negative"))?,
    );
    call(&args.target, &Method::PUT, &path, Some(body))?;
    output::talk(format_args!("{kind} is on"));
    Ok(())
}

impl Offering {
    /// Sends the offering; what it is, in words.
    fn send(&self, command: &str) -> anyhow::Result<String> {
        let mut body = json!({ "profile": self.profile, "zone": self.zone });
        set(&mut body, "class", self.class.as_ref());
        call(&self.target, &Method::POST, command, Some(body))?;
        let class = self
            .class
            .as_deref()
            .map(|class| format!("{class} "))
            .unwrap_or_default();
        Ok(format!("{class}{} in {}", self.profile, self.zone))
    }
}

fn set(body: &mut Value, key: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        body[key] = json!(value);
    }
}

/// Sends a command and gives the answer; a refusal is bad input, with what it might have been.
fn call(target: &Target, method: &Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        // A proxy has no business between this command and a port of this machine.
        let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build()?;
        let url = running::find(&client, target.endpoint.as_ref()).await?;
        let url = url.join(&format!("/sim/v1/{path}"))?;
        let mut request = client.request(method.clone(), url.clone());
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request
            .send()
            .await
            .with_context(|| format!("asking the simulator at {url}"))?;
        let (status, body) = (
            answer.status(),
            answer.json::<Value>().await.context("reading its answer")?,
        );
        if status == StatusCode::OK {
            Ok(body)
        } else {
            Err(refusal(&body))
        }
    })
}

fn refusal(body: &Value) -> anyhow::Error {
    let problem = BadInput::new(
        body["error"]
            .as_str()
            .unwrap_or("the simulator refused the command"),
    );
    let choices: Vec<&str> = body["choices"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if choices.is_empty() {
        problem.into()
    } else {
        problem.hint(format!("one of: {}", choices.join(", "))).into()
    }
}

fn table(answer: &Value) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["NAME", "PROFILE", "ZONE", "CLASS", "STATUS", "REASON", "AGE"]);
    let now = time(&answer["now"]);
    for instance in answer["instances"].as_array().into_iter().flatten() {
        let text = |key: &str| instance[key].as_str().unwrap_or("-").to_owned();
        let age = now
            .zip(time(&instance["created_at"]))
            .map_or_else(|| "-".into(), |(now, born)| age(born, now));
        table.add_row([
            text("name"),
            text("profile"),
            text("zone"),
            text("class"),
            text("status"),
            text("reason"),
            age,
        ]);
    }
    table
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|text| text.parse().ok())
}

/// In the largest whole unit, as kubectl does.
fn age(born: Timestamp, now: Timestamp) -> String {
    match between(born, now).as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_per_instance_and_a_dash_for_nothing() {
        let answer = json!({ "now": "2026-11-16T00:10:00Z", "instances": [{
            "name": "kib-1", "profile": "bxf-2x8", "zone": "us-south-1", "class": "spot", "status": "running",
            "reason": null, "created_at": "2026-11-16T00:00:00Z",
        }] });
        let text = table(&answer).to_string();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows[0],
            ["NAME", "PROFILE", "ZONE", "CLASS", "STATUS", "REASON", "AGE"]
        );
        assert_eq!(
            rows[1],
            ["kib-1", "bxf-2x8", "us-south-1", "spot", "running", "-", "10m"]
        );
    }

    #[test]
    fn help_describes_every_kind_of_fault() {
        let help = kinds_help();
        assert!(
            FaultKind::ALL
                .iter()
                .all(|kind| help.contains(kind.as_str()) && help.contains(kind.description()))
        );
    }
}
