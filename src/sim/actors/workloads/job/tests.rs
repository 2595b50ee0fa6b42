use serde_json::{Value, json};

use super::super::trial::{at, deeds, deleting, in_phase, named, owned, pod, status, told, with};
use super::*;

fn job(spec: &Value) -> Job {
    let mut value = json!({"spec": {"completions": 3, "parallelism": 2, "backoffLimit": 2,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}}});
    json_patch::merge(&mut value["spec"], spec);
    named("sum", value)
}

fn plain() -> Job {
    job(&json!({}))
}

fn own(name: &str, phase: &str) -> Pod {
    owned(in_phase(pod(name), phase), "Job", "sum")
}

fn seen(job: Job, pods: Vec<Pod>, now: i64) -> Next {
    next(&with(with(View::default(), [job]), pods), at(now))
}

/// The job as it is after the status that it wants.
fn after(mut job: Job, wanted: &Next) -> Job {
    let mut value = serde_json::to_value(&job).unwrap();
    json_patch::merge(&mut value, &json!({"status": status(wanted, "sum")}));
    job.status = serde_json::from_value(value["status"].clone()).unwrap();
    job
}

fn conditions(job: &Job) -> Vec<(&str, &str)> {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .map(|one| (one.type_.as_str(), one.reason.as_deref().unwrap()))
        .collect()
}

#[test]
fn so_many_pods_run_at_once_and_no_more_than_are_needed() {
    assert_eq!(
        deeds(&seen(plain(), vec![], 0)),
        ["create Pod sum-", "create Pod sum-"]
    );
    let pods = vec![own("a", "Succeeded"), own("b", "Succeeded")];
    assert_eq!(deeds(&seen(plain(), pods, 0)), ["create Pod sum-"]);
    let pods = vec![own("a", "Running"), own("b", "Running"), own("c", "Running")];
    assert_eq!(deeds(&seen(plain(), pods, 0)), ["delete a"]);
}

#[test]
fn a_job_is_complete_when_enough_have_succeeded_and_nothing_runs() {
    let done = || ["a", "b", "c"].map(|name| own(name, "Succeeded")).to_vec();
    let mut pods = done();
    pods.push(deleting(own("d", "Running")));
    let waiting = after(plain(), &seen(plain(), pods, 50));
    assert_eq!(
        conditions(&waiting),
        [("SuccessCriteriaMet", "CompletionsReached")]
    );
    let complete = after(waiting.clone(), &seen(waiting, done(), 60));
    assert_eq!(conditions(&complete)[1], ("Complete", "CompletionsReached"));
    let told_status = complete.status.as_ref().unwrap();
    assert_eq!(told_status.succeeded, Some(3));
    assert_eq!(told_status.completion_time, Some(at(60).into()));
    assert_eq!(seen(complete, done(), 70), Next::default());
}

#[test]
fn a_success_is_not_forgotten_with_its_pod() {
    let once = after(
        plain(),
        &seen(plain(), vec![own("a", "Succeeded"), own("b", "Succeeded")], 0),
    );
    assert_eq!(deeds(&seen(once, vec![], 1)), ["create Pod sum-"]);
}

#[test]
fn failures_are_waited_out_and_too_many_end_it() {
    let mut failed = own("a", "Failed");
    failed.metadata.creation_timestamp = Some(at(100).into());
    let soon = seen(plain(), vec![failed.clone()], 105);
    assert_eq!((deeds(&soon), soon.again_at), (vec![], Some(at(110))));
    assert_eq!(deeds(&seen(plain(), vec![failed.clone()], 110)).len(), 2);
    let pods = vec![
        failed.clone(),
        own("b", "Failed"),
        own("c", "Failed"),
        own("d", "Running"),
    ];
    let ending = seen(plain(), pods, 200);
    assert_eq!(deeds(&ending), ["delete d"]);
    let ended = after(plain(), &ending);
    assert_eq!(conditions(&ended), [("FailureTarget", "BackoffLimitExceeded")]);
    let ended = after(ended.clone(), &seen(ended, vec![failed], 210));
    assert_eq!(conditions(&ended)[1], ("Failed", "BackoffLimitExceeded"));
}

#[test]
fn a_job_that_takes_too_long_fails() {
    let limited = job(&json!({"activeDeadlineSeconds": 30}));
    let pods = || vec![own("a", "Running"), own("b", "Running")];
    let started = after(limited.clone(), &seen(limited, pods(), 100));
    assert_eq!(seen(started.clone(), pods(), 110).again_at, Some(at(130)));
    let late = seen(started, pods(), 130);
    assert_eq!(deeds(&late), ["delete a", "delete b"]);
}

#[test]
fn each_index_is_done_once() {
    let indexed = || job(&json!({"completionMode": "Indexed"}));
    let with_index = |name: &str, phase: &str, index: i32| {
        let mut pod = own(name, phase);
        pod.metadata.annotations = Some([(COMPLETION_INDEX.to_owned(), index.to_string())].into());
        pod
    };
    let pods = vec![with_index("a", "Succeeded", 1), with_index("b", "Running", 0)];
    let wanted = seen(indexed(), pods, 0);
    assert_eq!(deeds(&wanted), ["create Pod sum-2-"]);
    assert_eq!(status(&wanted, "sum")["completedIndexes"], "1");
    let Act::Create { object, .. } = &wanted.acts[0] else {
        panic!("{wanted:?}")
    };
    assert_eq!(object["spec"]["hostname"], "sum-2");
    assert_eq!(object["spec"]["containers"][0]["env"][0]["value"], "2");
    let known = after(indexed(), &wanted);
    assert_eq!(
        deeds(&seen(known, vec![], 1)),
        ["create Pod sum-0-", "create Pod sum-2-"]
    );
}

#[test]
fn a_suspended_job_runs_nothing_and_begins_anew() {
    let suspended = job(&json!({"suspend": true}));
    let stopping = seen(suspended.clone(), vec![own("a", "Running")], 10);
    assert_eq!(deeds(&stopping), ["delete a"]);
    let mut resumed = after(suspended, &stopping);
    assert_eq!(resumed.status.as_ref().unwrap().start_time, None);
    resumed.spec.as_mut().unwrap().suspend = Some(false);
    let going = after(resumed.clone(), &seen(resumed, vec![], 20));
    assert_eq!(going.status.as_ref().unwrap().start_time, Some(at(20).into()));
    assert_eq!(conditions(&going), [("Suspended", "JobResumed")]);
}

#[test]
fn a_finished_job_goes_when_its_time_is_over() {
    let short = job(&json!({"ttlSecondsAfterFinished": 60}));
    let done = || ["a", "b", "c"].map(|name| own(name, "Succeeded")).to_vec();
    let complete = after(short.clone(), &seen(short, done(), 100));
    let waiting = seen(complete.clone(), done(), 159);
    assert_eq!((told(&waiting), waiting.again_at), (vec![], Some(at(160))));
    assert_eq!(told(&seen(complete, done(), 160)), ["delete sum"]);
}
