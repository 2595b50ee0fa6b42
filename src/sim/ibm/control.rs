//! The simulator's own routes, `/sim/v1`: what a person or a test does to the cloud from outside.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::faults::{Fault, FaultKind, RetryAfter};
use super::fields::{self, Fields};
use super::instances::HostFailure;
use super::options::Class;
use super::routes::operation_names;
use super::state::State;
use super::truth::NoSuch;
use crate::clock::later;

impl From<NoSuch> for Refusal {
    fn from(no_such: NoSuch) -> Self {
        let choices = no_such.choices.join("\n");
        Self::status(StatusCode::NOT_FOUND, "no_such", no_such.to_string()).blames(
            "field",
            no_such.what,
            Some(&choices),
        )
    }
}

/// `GET /sim/v1/status`
#[expect(clippy::unnecessary_wraps, reason = "the type of a handler")]
pub(super) fn status(state: &mut State, _ask: &Ask) -> Result<Answer, Refusal> {
    Ok(Answer::ok(json!({
        "simulator": "karpenter-ibm",
        "region": state.region,
        "seed": state.options.seed,
        "now": state.now.to_string(),
        "next_due": state.next_due().map(|due| due.to_string()),
        "instances": state.instances.len(),
        "faults": state.faults.active(),
        "account": super::truth::account(state),
    })))
}

/// `GET /sim/v1/instances`: all instances as they are.
#[expect(clippy::unnecessary_wraps, reason = "the type of a handler")]
pub(super) fn instances(state: &mut State, _ask: &Ask) -> Result<Answer, Refusal> {
    Ok(Answer::ok(
        json!({ "now": state.now.to_string(), "instances": state.truth() }),
    ))
}

/// `POST /sim/v1/preempt` `{"instance"}`
pub(super) fn preempt(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let sent = fields::parse(&ask.body)?;
    let body = Fields::of(&sent)?;
    let instance = required(&body, "instance")?;
    body.done()?;
    state.preempt(&instance)?;
    Ok(done())
}

/// `POST /sim/v1/host-failure` `{"instance", "outcome": "restart" | "stop"}`
pub(super) fn host_failure(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let sent = fields::parse(&ask.body)?;
    let body = Fields::of(&sent)?;
    let instance = required(&body, "instance")?;
    let outcome = body.word("outcome", &["restart", "stop"])?;
    body.done()?;
    let outcome = outcome.map(|word| {
        if word == "stop" {
            HostFailure::Stop
        } else {
            HostFailure::Restart
        }
    });
    state.fail_host_of(&instance, outcome)?;
    Ok(done())
}

/// `POST /sim/v1/fail-start` `{"instance", "reason"}`: the instance may not exist yet.
pub(super) fn fail_start(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let sent = fields::parse(&ask.body)?;
    let body = Fields::of(&sent)?;
    let (instance, reason) = (required(&body, "instance")?, required(&body, "reason")?);
    body.done()?;
    state.doom(&instance, &reason)?;
    Ok(done())
}

/// `POST /sim/v1/drain` `{"profile", "zone", "class"?}`
pub(super) fn drain(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (profile, zone, class) = offering(ask)?;
    state.drain(&profile, &zone, class)?;
    Ok(done())
}

/// `POST /sim/v1/refill` `{"profile", "zone", "class"?}`
pub(super) fn refill(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (profile, zone, class) = offering(ask)?;
    state.refill(&profile, &zone, class)?;
    Ok(done())
}

/// `POST /sim/v1/remove` `{"what": "profile" | "price" | "image", "name"}`
pub(super) fn remove(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (what, name) = thing(ask, &["profile", "price", "image"])?;
    state.withdraw(&what, &name)?;
    Ok(done())
}

/// `POST /sim/v1/restore` `{"what": "profile" | "price", "name"}`
pub(super) fn restore(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (what, name) = thing(ask, &["profile", "price"])?;
    let removed = if what == "price" {
        &mut state.removed_prices
    } else {
        &mut state.removed_profiles
    };
    removed.remove(&name);
    Ok(done())
}

/// `GET /sim/v1/faults`
#[expect(clippy::unnecessary_wraps, reason = "the type of a handler")]
pub(super) fn faults(state: &mut State, _ask: &Ask) -> Result<Answer, Refusal> {
    let kinds: Vec<Value> = FaultKind::ALL
        .iter()
        .map(|kind| json!({ "kind": kind.as_str(), "description": kind.description() }))
        .collect();
    Ok(Answer::ok(
        json!({ "active": state.faults.active(), "kinds": kinds }),
    ))
}

/// `PUT /sim/v1/faults/{kind}`
/// `{"for_seconds"?, "percent"?, "times"?, "operation"?, "retry_after"?, "reason"?}`
pub(super) fn start_fault(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let mut fault = Fault::new(kind(ask)?);
    let sent = if ask.body.is_empty() {
        json!({})
    } else {
        fields::parse(&ask.body)?
    };
    let body = Fields::of(&sent)?;
    let percent = body.number("percent")?.unwrap_or(100).min(100);
    fault.probability = f64::from(u32::try_from(percent).unwrap_or(100)) / 100.0;
    fault.times = body.number("times")?.and_then(|times| u32::try_from(times).ok());
    fault.until = body
        .number("for_seconds")?
        .map(|seconds| later(state.now, Duration::from_secs(seconds)));
    fault.operation = body.text("operation")?.map(operation).transpose()?;
    fault.retry_after = match body
        .word("retry_after", &["seconds", "date", "absurd", "missing"])?
        .as_deref()
    {
        Some("seconds") => Some(RetryAfter::Seconds),
        Some("date") => Some(RetryAfter::Date),
        Some("absurd") => Some(RetryAfter::Absurd),
        Some(_) => Some(RetryAfter::Missing),
        None => None,
    };
    fault.reason = body.text("reason")?;
    body.done()?;
    state.faults.start(fault);
    Ok(done())
}

/// `DELETE /sim/v1/faults/{kind}`
pub(super) fn stop_fault(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    state.faults.stop(kind(ask)?);
    Ok(done())
}

fn done() -> Answer {
    Answer::ok(json!({ "done": true }))
}

fn operation(name: String) -> Result<String, Refusal> {
    let known = operation_names();
    if known.contains(&name.as_str()) {
        return Ok(name);
    }
    let choices = known.into_iter().map(str::to_owned).collect();
    let what = "operation";
    Err(NoSuch { what, name, choices }.into())
}

fn kind(ask: &Ask) -> Result<FaultKind, Refusal> {
    let name = ask.param("kind");
    let choices = || {
        FaultKind::ALL
            .iter()
            .map(|kind| kind.as_str().to_owned())
            .collect()
    };
    let no_such = || NoSuch {
        what: "kind of fault",
        name: name.into(),
        choices: choices(),
    };
    Ok(FaultKind::parse(name).ok_or_else(no_such)?)
}

fn required(body: &Fields<'_>, key: &str) -> Result<String, Refusal> {
    let value = body.text(key)?;
    body.need(key, value)
}

fn offering(ask: &Ask) -> Result<(String, String, Option<Class>), Refusal> {
    let sent = fields::parse(&ask.body)?;
    let body = Fields::of(&sent)?;
    let (profile, zone) = (required(&body, "profile")?, required(&body, "zone")?);
    let class = body
        .word("class", &["spot", "standard"])?
        .as_deref()
        .and_then(Class::parse);
    body.done()?;
    Ok((profile, zone, class))
}

fn thing(ask: &Ask, kinds: &[&str]) -> Result<(String, String), Refusal> {
    let sent = fields::parse(&ask.body)?;
    let body = Fields::of(&sent)?;
    let what = body.word("what", kinds)?;
    let (what, name) = (body.need("what", what)?, required(&body, "name")?);
    body.done()?;
    Ok((what, name))
}
