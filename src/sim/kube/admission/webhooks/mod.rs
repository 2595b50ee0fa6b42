//! Admission webhooks: whoever is configured to be asked before an object is stored, is asked.
//!
//! Mutating ones one after the other, in the order of their configurations' names, each seeing what the one before it
//! made; those that ask for it are asked once more if somebody changed the object after them. Validating ones all at
//! once; of several refusals the first in order counts, so that the same world always gives the same answer.
//!
//! Not done: `authorizer` in match conditions, and reviews of versions before v1.

mod call;
mod condition;
mod matching;
mod review;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use futures::future::join_all;
use serde_json::Value;

pub use call::Webhooks;

use super::{Admission, Operation};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::refusal::Refusal;
use crate::sim::kube::server::{ApiServer, State};
use crate::sim::kube::warning;
use call::Failure;
use matching::{Hook, Invocation};

const GROUP: &str = "admissionregistration.k8s.io";

/// What a webhook may do to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    Mutate,
    Validate,
}

/// Where the configurations of both kinds are; asked for with every renewal of a Lease.
static TABLES: LazyLock<[TableKey; 2]> = LazyLock::new(|| {
    ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
        .map(|plural| TableKey::of(GROUP, plural))
});

/// Whether there is a configuration of either kind.
pub(super) fn are_configured(state: &State) -> bool {
    TABLES.iter().any(|table| state.store.count(table) > 0)
}

/// Asks the mutating webhooks; the object as they leave it.
pub(super) async fn mutate(
    server: &ApiServer,
    admission: &Admission<'_>,
    object: Value,
) -> Result<Value, Refusal> {
    let hooks = hooks(server, admission, "mutatingwebhookconfigurations");
    if hooks.is_empty() {
        return Ok(object);
    }
    let mut turns = Turns::default();
    let mut object = turns.turn(Turn::First, server, admission, &hooks, object).await?;
    if !turns.changed {
        return Ok(object);
    }
    // Defaults and plugins see what the webhooks made, and webhooks what those make of it.
    let before = object.clone();
    if admission.operation != Operation::Delete {
        super::settle(admission.kind, &mut object)?;
    }
    super::mutate(&server.state(), admission, &mut object)?;
    if object != before {
        turns.require_again();
    }
    turns.turn(Turn::Second, server, admission, &hooks, object).await
}

/// Asks the validating webhooks.
pub(super) async fn validate(
    server: &ApiServer,
    admission: &Admission<'_>,
    object: &Value,
) -> Result<(), Refusal> {
    let hooks = hooks(server, admission, "validatingwebhookconfigurations");
    if hooks.is_empty() {
        return Ok(());
    }
    // Nothing is left of an object that is being deleted but what it was.
    let null = Value::Null;
    let object = if admission.operation == Operation::Delete {
        &null
    } else {
        object
    };
    let mut asked = Vec::new();
    for hook in &hooks {
        if let Some(invocation) = matching::invocation(server, admission, object, hook)? {
            asked.push((hook, invocation));
        }
    }
    let calls = asked.iter().map(|(hook, invocation)| async move {
        ask(server, admission, hook, invocation, object, Power::Validate)
            .await
            .map(|_| ())
    });
    join_all(calls).await.into_iter().collect()
}

/// The webhooks of a kind of configuration, in order; none for the configurations themselves, or nobody could ever
/// take a broken one away.
fn hooks(server: &ApiServer, admission: &Admission<'_>, plural: &str) -> Vec<Hook> {
    if admission.kind.group == GROUP {
        return Vec::new();
    }
    let state = server.state();
    let configurations = state.store.list(&TableKey::of(GROUP, plural), None);
    configurations
        .flat_map(|stored| Hook::all(&stored.value()))
        .collect()
}

/// Every webhook has its first turn; a second is had by those who listen for changes after them, and is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    First,
    Second,
}

/// Who has been asked, and who is to be asked again.
#[derive(Default)]
struct Turns {
    changed: bool,
    /// Those asked since the last change that want to hear of changes after them.
    listening: Vec<usize>,
    again: BTreeSet<usize>,
}

impl Turns {
    fn require_again(&mut self) {
        self.again.extend(self.listening.drain(..));
    }

    /// Asks those of a turn, one after the other. In the second turn a change makes those after it be asked too, if
    /// they were asked before and listen.
    async fn turn(
        &mut self,
        turn: Turn,
        server: &ApiServer,
        admission: &Admission<'_>,
        hooks: &[Hook],
        mut object: Value,
    ) -> Result<Value, Refusal> {
        for (index, hook) in hooks.iter().enumerate() {
            if turn == Turn::Second && !self.again.contains(&index) {
                continue;
            }
            let Some(invocation) = matching::invocation(server, admission, &object, hook)? else {
                continue;
            };
            if let Some(patched) = ask(server, admission, hook, &invocation, &object, Power::Mutate).await? {
                object = patched;
                self.changed = true;
                self.require_again();
            }
            if hook.is_reinvocable() {
                self.listening.push(index);
            }
        }
        Ok(object)
    }
}

/// Asks one webhook. The changed object, if it changed it.
async fn ask(
    server: &ApiServer,
    admission: &Admission<'_>,
    hook: &Hook,
    invocation: &Invocation,
    object: &Value,
    power: Power,
) -> Result<Option<Value>, Refusal> {
    if admission.dry_run && !hook.is_free_of_side_effects() {
        let problem = format!("admission webhook \"{}\" does not support dry run", hook.name());
        return Err(Refusal::bad_request(problem));
    }
    let uid = server.new_uid();
    let request = review::request(&uid, admission, invocation, object);
    let answer = call::post(server, hook, &request).await;
    let verdict = match answer.and_then(|answer| review::verdict(&uid, &answer, power)) {
        Ok(verdict) => verdict,
        Err(_) if hook.ignores_failures() => return Ok(None),
        Err(failure) => return Err(failed(hook, &failure)),
    };
    for text in &verdict.warnings {
        warning::say(text);
    }
    match verdict.result {
        Ok(patch) => patched(admission, hook, invocation, object, &patch),
        Err(status) => Err(review::denial(hook.name(), &status)),
    }
}

fn failed(hook: &Hook, failure: &Failure) -> Refusal {
    let problem = format!("failed calling webhook \"{}\": {failure}", hook.name());
    Refusal::internal_error(&problem)
}

/// The object with a patch applied, if that makes a difference.
fn patched(
    admission: &Admission<'_>,
    hook: &Hook,
    invocation: &Invocation,
    object: &Value,
    patch: &json_patch::Patch,
) -> Result<Option<Value>, Refusal> {
    if patch.is_empty() {
        return Ok(None);
    }
    if object.is_null() {
        let problem = format!(
            "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
            hook.name()
        );
        return Err(Refusal::internal_error(&problem));
    }
    let mut shown = invocation.shown(object);
    json_patch::patch(&mut shown, patch).map_err(|error| Refusal::internal_error(&error.to_string()))?;
    let patched = invocation.taken_back(admission.kind, shown);
    Ok((patched != *object).then_some(patched))
}
