//! Answers that are well-formed and wrong: an error under a success, a machine without its id, a list that lost its items,
//! times at the edges of the calendar.

use serde_json::{Value, json};

use super::faults::{FaultKind, Faults};

/// Before anything was, and after anything will be; the second is beyond what some calendars can hold.
const DATES: [&str; 2] = ["1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"];

/// Spoils an answer in every way that strikes this operation.
pub(super) fn distort(body: &mut Value, faults: &mut Faults, operation: &str) {
    if announces_items(body) && faults.hits(FaultKind::EmptyList, operation) {
        empty(body);
    }
    if operation == "instances.create"
        && faults.hits(FaultKind::MissingId, operation)
        && let Some(instance) = body.as_object_mut()
    {
        instance.remove("id");
    }
    if faults.hits(FaultKind::WrongDates, operation) {
        let date = DATES[faults.pick(DATES.len())];
        date_everything(body, date);
    }
    if faults.hits(FaultKind::ErrorBody, operation) {
        let message = "The system is currently unable to fulfill the request.";
        *body = json!({"errors": [{"code": "internal_error", "message": message}]});
    }
}

fn announces_items(body: &Value) -> bool {
    body["total_count"].as_u64().is_some_and(|total| total > 0)
}

/// Leaves the total, and neither items nor a way to the next page.
fn empty(body: &mut Value) {
    let Some(page) = body.as_object_mut() else { return };
    page.remove("next");
    for items in page.values_mut().filter_map(Value::as_array_mut) {
        items.clear();
    }
}

fn date_everything(value: &mut Value, date: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| date_everything(item, date)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == "created_at" {
                    *field = json!(date);
                }
                date_everything(field, date);
            }
        }
        _ => {}
    }
}
