//! Jobs, and what makes them by the clock.

use serde_json::{Value, json};

use super::findings::Findings;
use super::workload::counts;
use super::{is_set, pod, text};
use crate::sim::kube::builtin::label_selector;
use crate::sim::kube::object;

pub(super) fn job(found: &mut Findings, object: &Value, old: Option<&Value>) {
    let spec = &object["spec"];
    job_specification(found, "spec", spec);
    let template = &spec["template"];
    let labels = object::labels(template);
    if spec["manualSelector"] != true && old.is_none() {
        generated_labels(found, object);
    } else if !spec["selector"].is_object() {
        found.required("spec.selector", "");
    }
    if !label_selector::selects(&spec["selector"], &labels) {
        found.invalid(
            "spec.template.metadata.labels",
            &template["metadata"]["labels"],
            "`selector` does not match template `labels`",
        );
    }
}

/// A job that leaves the selector to the server has no business setting one.
fn generated_labels(found: &mut Findings, job: &Value) {
    const OWN: &str = "batch.kubernetes.io/controller-uid";
    let chosen = &job["spec"]["selector"];
    let expected = json!({"matchLabels": {OWN: job["metadata"]["uid"]}});
    let legacy = json!({"matchLabels": {"controller-uid": job["metadata"]["uid"]}});
    if *chosen != expected && *chosen != legacy {
        found.invalid("spec.selector", chosen, "`selector` not auto-generated");
    }
}

fn job_specification(found: &mut Findings, at: &str, spec: &Value) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ] {
        found.at_least(&format!("{at}.{field}"), &spec[field], 0);
    }
    let mode = format!("{at}.completionMode");
    found.optional_one_of(&mode, &spec["completionMode"], &["NonIndexed", "Indexed"]);
    if spec["completionMode"] == "Indexed" && !is_set(spec, "completions") {
        found.required(&format!("{at}.completions"), "when completion mode is Indexed");
    }
    let template = format!("{at}.template");
    pod::template(found, &template, &spec["template"]);
    let policy = &spec["template"]["spec"]["restartPolicy"];
    let at = format!("{template}.spec.restartPolicy");
    if *policy == "Always" || policy.is_null() {
        found.required(&at, "valid values: \"OnFailure\", \"Never\"");
    }
}

pub(super) fn cron_job(found: &mut Findings, object: &Value) {
    let spec = &object["spec"];
    match text(spec, "schedule") {
        "" => found.required("spec.schedule", ""),
        schedule if !is_schedule(schedule) => {
            found.invalid("spec.schedule", &spec["schedule"], "is not a cron schedule");
        }
        _ => {}
    }
    if let Some(zone) = spec["timeZone"].as_str() {
        let known = jiff::tz::TimeZone::get(zone).is_ok() && zone != "Local";
        if !known {
            found.invalid(
                "spec.timeZone",
                &spec["timeZone"],
                format_args!("unknown time zone {zone}"),
            );
        }
    }
    found.one_of(
        "spec.concurrencyPolicy",
        &spec["concurrencyPolicy"],
        &["Allow", "Forbid", "Replace"],
    );
    counts(
        found,
        spec,
        &[
            "startingDeadlineSeconds",
            "successfulJobsHistoryLimit",
            "failedJobsHistoryLimit",
        ],
    );
    job_specification(found, "spec.jobTemplate.spec", &spec["jobTemplate"]["spec"]);
}

/// Five fields, or a name for them.
fn is_schedule(text: &str) -> bool {
    const NAMES: [&str; 7] = [
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
    ];
    const BOUNDS: [(u32, u32); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    if NAMES.contains(&text) {
        return true;
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    fields.len() == BOUNDS.len()
        && fields
            .iter()
            .zip(BOUNDS)
            .all(|(field, bounds)| is_cron_field(field, bounds))
}

fn is_cron_field(field: &str, (low, high): (u32, u32)) -> bool {
    const WORDS: &str = "jan feb mar apr may jun jul aug sep oct nov dec sun mon tue wed thu fri sat";
    let number = |text: &str| {
        let named = text.len() == 3 && WORDS.contains(&text.to_lowercase());
        named
            || text
                .parse::<u32>()
                .is_ok_and(|number| (low..=high).contains(&number))
    };
    field.split(',').all(|part| {
        let (range, step) = part
            .split_once('/')
            .map_or((part, None), |(range, step)| (range, Some(step)));
        let step_holds = step.is_none_or(|step| step.parse::<u32>().is_ok_and(|step| step > 0));
        let range_holds = match range.split_once('-') {
            _ if range == "*" || range == "?" => true,
            Some((from, to)) => number(from) && number(to),
            None => number(range),
        };
        step_holds && range_holds
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_five_fields_within_their_bounds() {
        for schedule in ["* * * * *", "*/5 0-6 1,15 jan mon", "@daily", "0 0 * * 0"] {
            assert!(is_schedule(schedule), "{schedule}");
        }
        for schedule in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "*/0 * * * *",
            "x * * * *",
            "@often",
        ] {
            assert!(!is_schedule(schedule), "{schedule}");
        }
    }
}
