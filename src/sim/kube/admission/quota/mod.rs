//! ResourceQuota: what a namespace may hold in all.
//!
//! A write is checked against the usage that the quota's status shows, under the same lock in which it is stored; then
//! everything that the quota is about is counted anew. On a real cluster a controller does the counting a moment later.

mod usage;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::{Admission, Operation};
use crate::quantity::Quantity;
use crate::sim::kube::builtin::amounts::Amounts;
use crate::sim::kube::builtin::fields::{each, text};
use crate::sim::kube::kind::{Kind, TableKey};
use crate::sim::kube::object;
use crate::sim::kube::refusal::Refusal;
use crate::sim::kube::server::{State, about};
use crate::sim::kube::write::commit;

/// Where quotas are; looked at after every write.
static TABLE: LazyLock<TableKey> = LazyLock::new(|| TableKey::of("", "resourcequotas"));

/// Refuses a write that takes more than a quota leaves.
pub fn check(state: &State, admission: &Admission<'_>, object: &Value) -> Result<(), Refusal> {
    if !is_concerned(admission, object) {
        return Ok(());
    }
    let kind = admission.kind;
    for quota in quotas(state, object::namespace(object)) {
        let hard = Amounts::of(&quota["status"]["hard"]);
        let resources: Vec<&String> = hard
            .0
            .keys()
            .filter(|resource| usage::concerns(kind, resource))
            .collect();
        if resources.is_empty() || !usage::is_in_scope(kind, &quota, object) {
            continue;
        }
        let refuse = |why: String| Err(Refusal::forbidden(about(kind, object::name(object)), why));
        let silent = silent_containers(kind, &resources, object);
        if !silent.is_empty() {
            let name = object::name(&quota);
            return refuse(format!(
                "failed quota: {name}: must specify {}",
                silent.join("; ")
            ));
        }
        let before = admission.old.filter(|old| usage::is_in_scope(kind, &quota, old));
        if let Some(why) = exceeded(kind, &quota, object, before) {
            return refuse(why);
        }
    }
    Ok(())
}

fn quotas(state: &State, namespace: &str) -> Vec<Value> {
    let all = state.store.list(&TABLE, Some(namespace));
    all.map(|stored| stored.value()).collect()
}

/// Which writes can change what is counted.
fn is_concerned(admission: &Admission<'_>, object: &Value) -> bool {
    let core = admission.kind.group.is_empty();
    let ends = |pod: &Value| pod["spec"]["activeDeadlineSeconds"].as_i64().is_some();
    match (
        admission.operation,
        admission.subresource,
        admission.kind.plural.as_str(),
    ) {
        (Operation::Create, None, _) => true,
        (Operation::Update, None, "pods") if core => {
            admission.old.is_some_and(|old| ends(old) != ends(object))
        }
        (Operation::Update, Some("resize"), "pods")
        | (Operation::Update, None, "services" | "persistentvolumeclaims") => core,
        _ => false,
    }
}

/// Containers that do not say how much they need of what is limited, by resource.
fn silent_containers(kind: &Kind, resources: &[&String], pod: &Value) -> Vec<String> {
    const NEEDED: [&str; 6] = [
        "cpu",
        "limits.cpu",
        "limits.memory",
        "memory",
        "requests.cpu",
        "requests.memory",
    ];
    let whole = pod["spec"]["resources"]
        .as_object()
        .is_some_and(|resources| !resources.is_empty());
    if kind.plural != "pods" || !kind.group.is_empty() || whole {
        return Vec::new();
    }
    let mut silent = Vec::new();
    for resource in NEEDED
        .iter()
        .filter(|name| resources.iter().any(|known| known == *name))
    {
        let containers = each(&pod["spec"], "containers").chain(each(&pod["spec"], "initContainers"));
        let names: BTreeSet<&str> = containers
            .filter(|container| {
                let list = |list: &str| Amounts::of(&container["resources"][list]);
                let known = usage::of_container(&list("requests"), &list("limits"));
                !known.0.contains_key(*resource)
            })
            .map(|container| text(container, "name"))
            .collect();
        if !names.is_empty() {
            let names: Vec<&str> = names.into_iter().collect();
            silent.push(format!("{resource} for: {}", names.join(",")));
        }
    }
    silent
}

/// Why a quota does not allow an object, in place of what it was before.
fn exceeded(kind: &Kind, quota: &Value, object: &Value, before: Option<&Value>) -> Option<String> {
    let status = &quota["status"];
    let (hard, used) = (Amounts::of(&status["hard"]), Amounts::of(&status["used"]));
    let before = before.map(|before| usage::of(kind, before)).unwrap_or_default();
    let nanos = |amounts: &Amounts, name: &str| amounts.0.get(name).map_or(0, |amount| amount.nanos());
    let mut words: [Vec<String>; 3] = Default::default();
    for (name, amount) in usage::of(kind, object).0 {
        let asked = (amount.nanos() - nanos(&before, &name)).max(0);
        let Some(limit) = hard.0.get(&name).filter(|_| asked > 0) else {
            continue;
        };
        let Some(taken) = used.0.get(&name) else {
            let quota = object::name(quota);
            return Some(format!("status unknown for quota: {quota}, resources: {name}"));
        };
        if taken.nanos() + asked > limit.nanos() {
            let asked = Quantity::from_nanos(asked, amount.notation());
            for (list, amount) in words.iter_mut().zip([asked, *taken, *limit]) {
                list.push(format!("{name}={amount}"));
            }
        }
    }
    let [asked, taken, limits] = words.map(|list| list.join(","));
    (!asked.is_empty()).then(|| {
        let name = object::name(quota);
        format!("exceeded quota: {name}, requested: {asked}, used: {taken}, limited: {limits}")
    })
}

/// Counts for every quota what its namespace holds, if anything was written since the last time.
pub fn recount(state: &mut State) {
    if state.counted == state.store.revision() {
        return;
    }
    let all: Vec<Value> = state
        .store
        .list(&TABLE, None)
        .map(|stored| stored.value())
        .collect();
    // Nearly always: there is none.
    let kind = (!all.is_empty()).then(|| state.registry.find("", "v1", "resourcequotas"));
    let Some(kind) = kind.flatten() else {
        state.counted = state.store.revision();
        return;
    };
    for mut quota in all {
        let status =
            json!({"hard": Amounts::of(&quota["spec"]["hard"]).print(), "used": used(state, &quota).print()});
        let known = quota["status"] == status || quota["spec"]["hard"].is_null();
        if !known {
            quota["status"] = status;
            // A quota is no definition, whose storing could fail.
            let _ = commit(state, &kind, quota);
        }
    }
    state.counted = state.store.revision();
}

fn used(state: &State, quota: &Value) -> Amounts {
    let hard = Amounts::of(&quota["spec"]["hard"]);
    let mut used = Amounts::default();
    // Some objects have kinds in several versions.
    let mut seen = BTreeSet::new();
    let kinds: Vec<&Arc<Kind>> = state.registry.all().collect();
    for kind in kinds {
        let resources: Vec<&String> = hard
            .0
            .keys()
            .filter(|resource| usage::concerns(kind, resource))
            .collect();
        if resources.is_empty() || !seen.insert(kind.table()) {
            continue;
        }
        let mut sum = Amounts::default();
        for resource in &resources {
            sum.0.insert((*resource).clone(), Quantity::ZERO);
        }
        for stored in state.store.list(&kind.table(), Some(object::namespace(quota))) {
            let object = stored.value();
            if usage::is_in_scope(kind, quota, &object) {
                sum.add(&usage::of(kind, &object));
            }
        }
        sum.0.retain(|name, _| hard.0.contains_key(name));
        used.add(&sum);
    }
    used
}

#[cfg(test)]
mod tests;
