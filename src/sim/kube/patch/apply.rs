//! Server-side apply: a manager says what it wants, the server works out what that changes and who minds.
//!
//! What a manager applies it owns. What it applied before and no longer does goes, unless somebody else owns it. What
//! somebody else owns and the manager wants otherwise is a conflict, unless the manager forces it.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::compare::{compare, fields};
use super::fieldset::{Element, FieldSet, path_text};
use super::last_applied;
use super::managed::{self, out_of_reach, ownable};
use super::managers::{Holding, Manager, Managers};
use super::merge::discard_nulls;
use super::overlay::{lay_over, take_out};
use super::shape::Shape;
use crate::sim::kube::kind::Kind;
use crate::sim::kube::object;
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::schema::{Cause, Reason};

/// Who owns the fields of an object of which no record was kept when it is first applied to.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// What becomes of fields that others own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// They are reported, and nothing changes.
    Refused,
    /// They are taken.
    Forced,
}

/// An application of a configuration by a manager.
#[derive(Debug)]
pub struct Application<'a> {
    /// To an object of which kind.
    pub kind: &'a Kind,
    /// What is applied.
    pub configuration: &'a Value,
    /// Who applies.
    pub manager: &'a str,
    /// `status` or empty.
    pub subresource: &'a str,
    /// What becomes of fields that others own.
    pub conflicts: Conflicts,
    /// When.
    pub now: &'a str,
}

/// Reads a configuration, YAML or JSON, of a kind.
pub fn parse(kind: &Kind, body: &Bytes) -> Result<Value, Refusal> {
    let undecodable =
        |error: &dyn std::fmt::Display| Refusal::bad_request(format!("error decoding YAML: {error}"));
    let configuration = match serde_json::from_slice(body) {
        Ok(configuration) => configuration,
        Err(_) if body.trim_ascii().is_empty() => Value::Object(Map::new()),
        Err(_) => {
            let text = std::str::from_utf8(body).map_err(|error| undecodable(&error))?;
            serde_saphyr::from_str::<Value>(text).map_err(|error| undecodable(&error))?
        }
    };
    if !configuration.is_object() {
        return Err(undecodable(&"it is not an object"));
    }
    let (version, name) = (&configuration["apiVersion"], &configuration["kind"]);
    if *version != kind.api_version() || *name != kind.kind {
        let problem = format!("invalid object type: {version}, Kind={name}");
        return Err(Refusal::bad_request(problem));
    }
    let record = configuration
        .get("metadata")
        .and_then(|metadata| metadata.get("managedFields"));
    if record.is_some_and(|record| !record.is_null()) {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    Ok(configuration)
}

impl Application<'_> {
    /// The object as it should be now, with its record of ownership; `live` is an empty object if there is none yet.
    pub fn to(&self, live: &Value) -> Result<Value, Refusal> {
        let shape = Shape::of(self.kind);
        self.check(shape)?;
        let mut live = live.clone();
        let mut managers = self.known(&live, shape);
        object::metadata_mut(&mut live).remove("managedFields");

        let manager = Manager::applier(self.manager, self.subresource);
        let before = managers.get(&manager).cloned();
        let merged = lay_over(&live, self.configuration, shape);
        let applied = fields(self.configuration, shape).without(&out_of_reach(self.kind, self.subresource));
        let holding = Holding {
            fields: applied,
            api_version: self.kind.api_version(),
            time: before.as_ref().and_then(|holding| holding.time.clone()),
        };
        managers.set(manager.clone(), holding);
        let mut object = match &before {
            Some(before) => prune(&merged, &before.fields, &managers.owned(), shape),
            None => merged,
        };
        self.take_fields(&live, &object, &mut managers, &manager)?;
        self.settle(&live, &object, &mut managers, &manager);
        discard_nulls(&mut object["metadata"]);
        // Read as its type, a built-in kind knows what its nulls mean.
        if self.kind.custom().is_some() {
            self.check_nulls(&object, shape)?;
        }
        if self.manager == last_applied::KUBECTL {
            last_applied::follow(self.configuration, &mut object);
        }
        managed::write(&managers, &mut object);
        Ok(object)
    }

    /// Whether the configuration can be owned at all. A real server answers 500 without a reason.
    fn check(&self, shape: Shape<'_>) -> Result<(), Refusal> {
        let problem = shape
            .unownable(self.configuration)
            .or_else(|| shape.mistyped(self.configuration));
        problem.map_or(Ok(()), |problem| {
            Err(Refusal::failure(format!(
                "failed to create typed patch object: {problem}"
            )))
        })
    }

    /// The record of ownership. If none was kept, somebody owns everything that is there.
    fn known(&self, live: &Value, shape: Shape<'_>) -> Managers {
        let mut managers = Managers::parse(&live["metadata"]["managedFields"]).unwrap_or_default();
        if managers.is_empty() {
            let nothing = Value::Object(Map::new());
            let api_version = self.kind.api_version();
            let changes = compare(&nothing, live, shape).without(&out_of_reach(self.kind, self.subresource));
            let manager = Manager::updater(BEFORE_FIRST_APPLY, self.subresource, &api_version);
            let holding = Holding {
                fields: ownable(&changes.added),
                api_version,
                time: Some(self.now.to_owned()),
            };
            managers.set(manager, holding);
        }
        managers
    }

    /// Takes what changed from its owners, or says who they are.
    fn take_fields(
        &self,
        live: &Value,
        object: &Value,
        managers: &mut Managers,
        manager: &Manager,
    ) -> Result<(), Refusal> {
        let changes =
            compare(live, object, Shape::of(self.kind)).without(&out_of_reach(self.kind, self.subresource));
        let mut conflicts = managers.owners_of(&changes.written(), manager);
        if self.manager == last_applied::KUBECTL && !conflicts.is_empty() {
            let own = last_applied::still_applied(self.kind, live);
            for (_, fields) in &mut conflicts {
                *fields = fields.difference(&own);
            }
            conflicts.retain(|(_, fields)| !fields.is_empty());
        }
        if self.conflicts == Conflicts::Refused && !conflicts.is_empty() {
            return Err(conflict(&conflicts));
        }
        managers.take(&changes, manager);
        Ok(())
    }

    /// Leaves the applier with what can be owned, and the time if it changed anything.
    fn settle(&self, live: &Value, object: &Value, managers: &mut Managers, manager: &Manager) {
        let Some(mut holding) = managers.get(manager).cloned() else {
            return;
        };
        holding.fields = ownable(&holding.fields);
        if live != object {
            holding.time = Some(self.now.to_owned());
        }
        managers.set(manager.clone(), holding);
    }

    /// A custom resource of which a container is left that somebody owns, but nothing in it, is invalid.
    fn check_nulls(&self, object: &Value, shape: Shape<'_>) -> Result<(), Refusal> {
        let Some(field) = shape.null_field(object) else {
            return Ok(());
        };
        let message = format!("Invalid value: \"null\": {field} in body must not be null");
        let cause = Cause::new(&field, Reason::TypeInvalid, message);
        let about = About {
            group: &self.kind.group,
            kind: &self.kind.kind,
            name: object::name(object),
        };
        Err(Refusal::invalid(about, vec![cause]))
    }
}

/// Takes out what the manager applied last time and nobody owns now.
fn prune(merged: &Value, last: &FieldSet, owned: &FieldSet, shape: Shape<'_>) -> Value {
    // A structure is not owned by itself, and goes when all that is in it does.
    let is_named = |path: &[Element]| match path.split_last() {
        Some((Element::Field(name), parents)) => shape.at(parents).declares(name),
        _ => false,
    };
    let with_parents = |set: &FieldSet| set.with_parents(&is_named);
    let (last, owned, all) = (
        with_parents(last),
        with_parents(owned),
        with_parents(&fields(merged, shape)),
    );
    let left = with_parents(&fields(&take_out(merged, &last, shape), shape));
    let pruned = take_out(merged, &all.difference(&left.union(&owned)), shape);
    let left = with_parents(&fields(&pruned, shape));
    take_out(merged, &all.difference(&left).intersection(&last), shape)
}

fn conflict(conflicts: &[(&Manager, FieldSet)]) -> Refusal {
    let mut causes = Vec::new();
    for (manager, fields) in conflicts {
        for path in fields.paths() {
            let message = format!("conflict with {}", manager.describe());
            causes.push(Cause::new(&path_text(&path), Reason::ManagerConflict, message));
        }
    }
    let list: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", cause.message, cause.field))
        .collect();
    let noun = if causes.len() == 1 {
        "conflict"
    } else {
        "conflicts"
    };
    let message = format!("Apply failed with {} {noun}: {}", causes.len(), list.join(", "));
    Refusal::apply_conflict(message, causes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::sim::kube::patch::samples;
    use crate::sim::kube::registry::Registry;

    fn pod_kind() -> std::sync::Arc<Kind> {
        let mut registry = Registry::default();
        let crd = json!({"spec": {"group": "", "scope": "Namespaced", "names": {"kind": "Shape", "plural": "shapes"},
            "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": samples::plain_pod()}}]}});
        registry.define(&crd).unwrap();
        registry.find("", "v1", "shapes").unwrap()
    }

    fn applied(live: &Value, manager: &str, configuration: &Value) -> Result<Value, Refusal> {
        let application = Application {
            kind: &pod_kind(),
            configuration,
            manager,
            subresource: "",
            conflicts: Conflicts::Refused,
            now: "2026-11-16T10:00:00Z",
        };
        application.to(live)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn applying_twice_is_applying_once(wanted in samples::configuration()) {
            let once = applied(&json!({}), "a", &wanted).unwrap();
            prop_assert_eq!(applied(&once, "a", &wanted).unwrap(), once);
        }

        #[test]
        fn what_one_drops_and_another_wants_stays(first in samples::configuration(), second in samples::configuration()) {
            let one = applied(&json!({}), "a", &first).unwrap();
            // Where they disagree there is a conflict, which another test looks at.
            prop_assume!(applied(&one, "b", &second).is_ok());
            let both = applied(&one, "b", &second).unwrap();
            let nothing = json!({"apiVersion": "v1", "kind": "Shape"});
            let dropped = applied(&both, "a", &nothing).unwrap();
            let kind = pod_kind();
            let wanted = fields(&second, Shape::of(&kind));
            let left = fields(&dropped, Shape::of(&kind));
            prop_assert!(wanted.difference(&left).is_empty(), "all that b wants is there");
            let only_a = ownable(&fields(&first, Shape::of(&kind)).difference(&wanted));
            prop_assert!(only_a.intersection(&left).is_empty(), "nothing that only a wanted is");
        }
    }
}
