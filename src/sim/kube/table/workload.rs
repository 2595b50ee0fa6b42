//! Deployments and what else makes pods, and the budgets that guard them.

use jiff::Timestamp;
use serde_json::Value;

use super::column::{
    Cells, Printer, age, condition, count, first_few, labels, list, named, number, or_none, selector, text,
    text_or,
};
use super::duration;
use crate::sim::kube::object;

pub(super) fn printer(group: &str, plural: &str) -> Option<Printer> {
    let (columns, cells): (&'static str, Cells) = match (group, plural) {
        ("apps", "deployments") => (
            "Name/name | Ready | Up-to-date | Available | Age | Containers* | Images* | Selector*",
            deployment,
        ),
        ("apps", "replicasets") => (REPLICAS, replica_set),
        ("", "replicationcontrollers") => (REPLICAS, replication_controller),
        ("apps", "statefulsets") => ("Name/name | Ready | Age | Containers* | Images*", stateful_set),
        ("apps", "daemonsets") => (
            "Name/name | Desired:integer | Current:integer | Ready:integer | Up-to-date:integer | Available:integer \
             | Node Selector | Age | Containers* | Images* | Selector*",
            daemon_set,
        ),
        ("apps", "controllerrevisions") => ("Name/name | Controller | Revision | Age", controller_revision),
        ("batch", "jobs") => (
            "Name/name | Status | Completions | Duration | Age | Containers* | Images* | Selector*",
            job,
        ),
        ("batch", "cronjobs") => (
            "Name/name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age | Containers* \
             | Images* | Selector*",
            cron_job,
        ),
        ("autoscaling", "horizontalpodautoscalers") => (
            "Name/name | Reference | Targets | MinPods | MaxPods | Replicas | Age",
            autoscaler,
        ),
        ("policy", "poddisruptionbudgets") => (
            "Name/name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age",
            disruption_budget,
        ),
        ("", "podtemplates") => ("Name/name | Containers | Images | Pod Labels", pod_template),
        _ => return None,
    };
    Some(Printer { columns, cells })
}

const REPLICAS: &str = "Name/name | Desired:integer | Current:integer | Ready:integer | Age | Containers* | Images* \
                        | Selector*";

/// Names and images of the containers of a pod template.
fn containers(object: &Value, template: &str) -> [Value; 2] {
    let containers = list(object, &format!("{template}.spec.containers"));
    ["name", "image"].map(|field| {
        let texts: Vec<&str> = containers
            .iter()
            .map(|container| text(container, field))
            .collect();
        texts.join(",").into()
    })
}

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!(
        "{}/{}",
        number(object, "status.readyReplicas"),
        number(object, "spec.replicas")
    );
    let [names, images] = containers(object, "spec.template");
    vec![
        named(object),
        ready.into(),
        number(object, "status.updatedReplicas").into(),
        number(object, "status.availableReplicas").into(),
        age(object, now),
        names,
        images,
        selector(object, "spec.selector").into(),
    ]
}

fn replicas(object: &Value, selector: String, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "spec.template");
    vec![
        named(object),
        number(object, "spec.replicas").into(),
        number(object, "status.replicas").into(),
        number(object, "status.readyReplicas").into(),
        age(object, now),
        names,
        images,
        selector.into(),
    ]
}

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    replicas(object, or_none(selector(object, "spec.selector")), now)
}

fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    replicas(object, labels(object, "spec.selector"), now)
}

fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!(
        "{}/{}",
        number(object, "status.readyReplicas"),
        number(object, "spec.replicas")
    );
    let [names, images] = containers(object, "spec.template");
    vec![named(object), ready.into(), age(object, now), names, images]
}

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let counted = |field: &str| number(&object["status"], field).into();
    let [names, images] = containers(object, "spec.template");
    vec![
        named(object),
        counted("desiredNumberScheduled"),
        counted("currentNumberScheduled"),
        counted("numberReady"),
        counted("updatedNumberScheduled"),
        counted("numberAvailable"),
        labels(object, "spec.template.spec.nodeSelector").into(),
        age(object, now),
        names,
        images,
        or_none(selector(object, "spec.selector")).into(),
    ]
}

fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let controller = list(object, "metadata.ownerReferences")
        .iter()
        .find(|owner| owner["controller"] == true)
        .map_or("<none>".to_owned(), |owner| {
            let group = text(owner, "apiVersion")
                .split_once('/')
                .map(|(group, _)| format!(".{group}"));
            let kind = format!("{}{}", text(owner, "kind"), group.unwrap_or_default()).to_lowercase();
            format!("{kind}/{}", text(owner, "name"))
        });
    vec![
        named(object),
        controller.into(),
        number(object, "revision").into(),
        age(object, now),
    ]
}

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "spec.template");
    vec![
        named(object),
        job_status(object).into(),
        completions(object).into(),
        job_duration(object, now).into(),
        age(object, now),
        names,
        images,
        or_none(selector(object, "spec.selector")).into(),
    ]
}

fn job_status(object: &Value) -> &'static str {
    let is = |type_name: &str| condition(object, type_name) == Some("True");
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if object::is_deleting(object) {
        "Terminating"
    } else {
        let open = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        open.into_iter()
            .find(|type_name| is(type_name))
            .unwrap_or("Running")
    }
}

fn completions(object: &Value) -> String {
    let succeeded = number(object, "status.succeeded");
    match (
        object["spec"]["completions"].as_i64(),
        number(object, "spec.parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(object: &Value, now: Timestamp) -> String {
    let Some(start) = duration::parse(&object["status"]["startTime"]) else {
        return String::new();
    };
    let end = duration::parse(&object["status"]["completionTime"]).unwrap_or(now);
    duration::human(end.duration_since(start))
}

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let suspend = match object["spec"]["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match &object["status"]["lastScheduleTime"] {
        Value::Null => "<none>".to_owned(),
        time => duration::since(time, now),
    };
    let [names, images] = containers(object, "spec.jobTemplate.spec.template");
    vec![
        named(object),
        text(object, "spec.schedule").into(),
        text_or(object, "spec.timeZone", "<none>").into(),
        suspend.into(),
        count(object, "status.active").into(),
        last.into(),
        age(object, now),
        names,
        images,
        or_none(selector(object, "spec.jobTemplate.spec.selector")).into(),
    ]
}

fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let target = &object["spec"]["scaleTargetRef"];
    let least = object["spec"]["minReplicas"]
        .as_i64()
        .map(|least| least.to_string());
    vec![
        named(object),
        format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
        metrics(object).into(),
        least.unwrap_or_else(|| "<unset>".to_owned()).into(),
        number(object, "spec.maxReplicas").into(),
        number(object, "status.currentReplicas").into(),
        age(object, now),
    ]
}

/// Current and wanted value of each metric.
fn metrics(object: &Value) -> String {
    let statuses = list(object, "status.currentMetrics");
    let shown: Vec<String> = list(object, "spec.metrics")
        .iter()
        .enumerate()
        .map(|(index, spec)| metric(spec, statuses.get(index).unwrap_or(&Value::Null)))
        .collect();
    or_none(first_few(&shown, 2, ", "))
}

fn metric(spec: &Value, status: &Value) -> String {
    let source = match text(spec, "type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (spec, status) = (&spec[source], &status[source]);
    let of_resource = matches!(source, "resource" | "containerResource");
    let averages = spec["target"]["averageValue"].is_string();
    let field = match source {
        _ if averages || source == "pods" => "averageValue",
        _ if of_resource => "averageUtilization",
        _ => "value",
    };
    let shown = |value: &Value, otherwise: &str| match value {
        Value::String(text) => text.clone(),
        Value::Number(percent) => format!("{percent}%"),
        _ => otherwise.to_owned(),
    };
    let current = shown(&status["current"][field], "<unknown>");
    let wanted = shown(&spec["target"][field], "<auto>");
    match source {
        _ if of_resource => format!("{}: {current}/{wanted}", text(spec, "name")),
        "external" | "object" if averages => format!("{current}/{wanted} (avg)"),
        _ => format!("{current}/{wanted}"),
    }
}

fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |field: &str| match object::scalar(&object["spec"][field]) {
        text if text.is_empty() => "N/A".to_owned(),
        text => text,
    };
    vec![
        named(object),
        bound("minAvailable").into(),
        bound("maxUnavailable").into(),
        number(object, "status.disruptionsAllowed").into(),
        age(object, now),
    ]
}

fn pod_template(object: &Value, _: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "template");
    vec![
        named(object),
        names,
        images,
        labels(object, "template.metadata.labels").into(),
    ]
}
