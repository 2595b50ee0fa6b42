//! Events: when, about what, and the words. The cells of both groups are read from the form that is stored.

use jiff::Timestamp;
use serde_json::Value;

use super::column::{Printer, named, number, text, text_or};
use super::duration;

pub(super) fn printer(_group: &str, plural: &str) -> Option<Printer> {
    (plural == "events").then_some(Printer {
        columns: "Last Seen | Type | Reason | Object | Subobject* | Source* | Message | First Seen* | Count* | Name/name*",
        cells,
    })
}

fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let seen = |field: &str| {
        event[field]
            .is_string()
            .then(|| duration::since(&event[field], now))
    };
    let first = seen("firstTimestamp").unwrap_or_else(|| duration::since(&event["eventTime"], now));
    let (last, count) = if event["series"].is_object() {
        let last = duration::since(&event["series"]["lastObservedTime"], now);
        (last, number(event, "series.count"))
    } else {
        // An event of the newer form that happened once has no count.
        let last = seen("lastTimestamp").unwrap_or_else(|| first.clone());
        (last, number(event, "count").max(1))
    };
    vec![
        last.into(),
        text(event, "type").into(),
        text(event, "reason").into(),
        target(event).into(),
        text(event, "involvedObject.fieldPath").into(),
        source(event).into(),
        text(event, "message").trim().into(),
        first.into(),
        count.into(),
        named(event),
    ]
}

fn target(event: &Value) -> String {
    let kind = text(event, "involvedObject.kind").to_lowercase();
    match text(event, "involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let component = text_or(event, "source.component", text(event, "reportingComponent"));
    match text_or(event, "source.host", text(event, "reportingInstance")) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}
