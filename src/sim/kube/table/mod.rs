//! Rows for people: what `kubectl get` prints.
//!
//! The server, not kubectl, decides the columns. Those of built-in kinds are a real server's; a custom kind has the
//! ones that its definition names. Times are relative to the server's clock.

mod access;
mod column;
mod config;
mod custom;
mod duration;
mod event;
mod network;
mod node;
mod pod;
mod storage;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::events;
use super::kind::Kind;
use super::read;
use super::request::{Ask, IncludeObject};
use crate::clock::Clock;
use column::{Column, Printer};

/// Whether a table says what its columns are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// It does.
    Shown,
    /// It does not: an earlier table of the same stream has.
    Omitted,
}

/// A `Table` of objects as they are stored.
pub fn of_objects(kind: &Kind, ask: &Ask, objects: &[Value], headers: Headers, clock: &Clock) -> Value {
    let (printer, now) = (printer(kind), clock.now());
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": cells(&printer, object, now), "object": shown(kind, ask, object)});
            if let Some(conditions) = pod::row_conditions(kind, object) {
                row["conditions"] = conditions;
            }
            row
        })
        .collect();
    let columns: Value = match headers {
        Headers::Shown => columns(&printer).iter().map(Column::json).collect(),
        Headers::Omitted => Value::Null,
    };
    let metadata = match objects {
        [only] => json!({"resourceVersion": only["metadata"]["resourceVersion"]}),
        _ => json!({}),
    };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns,
           "rows": rows})
}

/// As much of the object as a row is to carry.
fn shown(kind: &Kind, ask: &Ask, object: &Value) -> Value {
    match ask.options.include_object {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => read::partial(object),
        IncludeObject::Object => events::outwards(kind, object.clone()),
    }
}

/// Where the rows of a kind come from.
enum Source {
    BuiltIn(Printer),
    Custom(Vec<custom::Path>),
}

fn columns(source: &Source) -> Vec<Column> {
    match source {
        Source::BuiltIn(printer) => printer.columns(),
        Source::Custom(paths) => custom::columns(paths),
    }
}

fn cells(source: &Source, object: &Value, now: Timestamp) -> Vec<Value> {
    match source {
        Source::BuiltIn(printer) => (printer.cells)(object, now),
        Source::Custom(paths) => custom::cells(paths, object, now),
    }
}

fn printer(kind: &Kind) -> Source {
    if let Some(custom) = kind.custom() {
        return Source::Custom(custom::paths(&custom.columns));
    }
    let (group, plural) = (kind.group.as_str(), kind.plural.as_str());
    let known = None
        .or_else(|| pod::printer(group, plural))
        .or_else(|| node::printer(group, plural))
        .or_else(|| workload::printer(group, plural))
        .or_else(|| event::printer(group, plural))
        .or_else(|| network::printer(group, plural))
        .or_else(|| storage::printer(group, plural))
        .or_else(|| access::printer(group, plural))
        .or_else(|| config::printer(group, plural));
    Source::BuiltIn(known.unwrap_or(PLAIN))
}

/// Kinds that nobody wrote columns for: CRDs, roles, limit ranges.
const PLAIN: Printer = Printer {
    columns: "Name/name | Created At:date",
    cells: |object, _| {
        vec![
            column::named(object),
            object["metadata"]["creationTimestamp"].clone(),
        ]
    },
};

#[cfg(test)]
mod tests;
