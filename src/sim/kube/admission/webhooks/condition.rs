//! Match conditions: CEL over the object, what it was, and the request.

use std::sync::Arc;

use kube::core::cel::KubeCelExt;
use kube::core::cel::cel::{Context, Program, Value as Cel, objects::Map};
use serde_json::Value;

use super::matching::{Hook, Invocation};
use super::review;
use crate::sim::kube::admission::Admission;
use crate::sim::kube::object;
use crate::sim::kube::refusal::{About, Refusal};

/// Whether all conditions hold. One that is false decides, whatever the others do; otherwise one that cannot be
/// evaluated makes the webhook be passed over or the request refused, as its failure policy says.
pub(super) fn hold(
    admission: &Admission<'_>,
    invocation: &Invocation,
    new: &Value,
    hook: &Hook,
    conditions: &[Value],
) -> Result<bool, Refusal> {
    let request = review::request("", admission, invocation, new);
    let request = &request["request"];
    let mut context = Context::default().with_all();
    for (name, value) in [
        ("object", &request["object"]),
        ("oldObject", &request["oldObject"]),
        ("request", request),
    ] {
        context.add_variable_from_value(name, cel(value));
    }
    let mut problems = Vec::new();
    for condition in conditions {
        match evaluate(condition["expression"].as_str().unwrap_or_default(), &context) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(problem) => problems.push(problem),
        }
    }
    match problems.as_slice() {
        [] => Ok(true),
        _ if hook.ignores_failures() => Ok(false),
        _ => {
            let about = About {
                group: &admission.kind.group,
                kind: &admission.kind.plural,
                name: object::name(if new.is_null() {
                    admission.old.unwrap_or(new)
                } else {
                    new
                }),
            };
            Err(Refusal::forbidden(about, problems.join(", ")))
        }
    }
}

fn evaluate(expression: &str, context: &Context<'_>) -> Result<bool, String> {
    let program = Program::compile(expression).map_err(|error| error.to_string())?;
    match program.execute(context) {
        Ok(Cel::Bool(holds)) => Ok(holds),
        Ok(other) => Err(format!("expression '{expression}' is not a truth but {other:?}")),
        Err(error) => Err(format!("expression '{expression}' resulted in error: {error}")),
    }
}

/// JSON as CEL sees it: whole numbers are signed.
fn cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Cel::Int(whole),
            None => Cel::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(elements) => Cel::List(Arc::new(elements.iter().map(cel).collect())),
        Value::Object(fields) => {
            let entries = fields
                .iter()
                .map(|(name, value)| (name.clone().into(), cel(value)));
            Cel::Map(Map {
                map: Arc::new(entries.collect()),
            })
        }
    }
}
