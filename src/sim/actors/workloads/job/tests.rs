use serde_json::{Value, json};

use super::super::trial::{at, deeds, deleting, in_phase, named, on, owned, pod, status, told, with};
use super::*;
use crate::sim::actors::scheduler::samples::carry_out;
use crate::sim::actors::view::Key;

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
    let mut pod = owned(in_phase(pod(name), phase), "Job", "sum");
    pod.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    pod
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

/// Does what is wanted until nothing is, but makes no pods.
fn settle(view: &mut View, now: i64) -> Job {
    for _ in 0..10 {
        let mut wanted = next(view, at(now));
        wanted.acts.retain(|act| !matches!(act, Act::Create { .. }));
        if wanted.acts.is_empty() {
            let job = &view.jobs[&Key::new("default", "sum")];
            return job.as_ref().clone();
        }
        carry_out(view, &wanted, at(now));
    }
    panic!("it never comes to rest");
}

fn world(job: Job, pods: Vec<Pod>) -> View {
    with(with(View::default(), [job]), pods)
}

fn counts(job: &Job) -> (Option<i32>, Option<i32>) {
    let status = job.status.as_ref().unwrap();
    assert_eq!(status.uncounted_terminated_pods, None);
    (status.succeeded, status.failed)
}

fn names(view: &View) -> Vec<&str> {
    view.pods.keys().map(|key| key.name.as_str()).collect()
}

const LET_GO: &str = r#"patch a {"metadata":{"finalizers":null}}"#;

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
    let surplus = seen(plain(), pods, 0);
    assert_eq!(deeds(&surplus), [LET_GO, "delete a"]);
}

#[test]
fn a_job_is_complete_when_enough_have_succeeded_and_nothing_runs() {
    let mut pods = ["a", "b", "c"].map(|name| own(name, "Succeeded")).to_vec();
    pods.push(deleting(on(own("d", "Running"), "n")));
    let mut view = world(plain(), pods);
    let waiting = settle(&mut view, 50);
    assert_eq!(
        conditions(&waiting),
        [("SuccessCriteriaMet", "CompletionsReached")]
    );
    view.bury(Kind::Pod, "uid-d");
    let complete = settle(&mut view, 60);
    assert_eq!(conditions(&complete)[1], ("Complete", "CompletionsReached"));
    assert_eq!(counts(&complete), (Some(3), Some(1)));
    let told_status = complete.status.as_ref().unwrap();
    assert_eq!(told_status.completion_time, Some(at(60).into()));
    assert_eq!(next(&view, at(70)), Next::default());
}

#[test]
fn a_success_is_not_forgotten_with_its_pod() {
    let mut view = world(plain(), vec![own("a", "Succeeded"), own("b", "Succeeded")]);
    assert_eq!(counts(&settle(&mut view, 0)), (Some(2), None));
    for uid in ["uid-a", "uid-b"] {
        view.bury(Kind::Pod, uid);
    }
    assert_eq!(deeds(&next(&view, at(1))), ["create Pod sum-"]);
    view.apply(own("c", "Succeeded"));
    let complete = settle(&mut view, 2);
    assert_eq!(counts(&complete), (Some(3), None));
    assert_eq!(conditions(&complete)[1], ("Complete", "CompletionsReached"));
}

#[test]
fn a_pod_stays_until_it_is_counted_and_is_counted_once() {
    let mut ended = deleting(own("a", "Succeeded"));
    ended
        .metadata
        .finalizers
        .as_mut()
        .unwrap()
        .push("other".to_owned());
    let mut view = world(plain(), vec![ended]);
    let noted = next(&view, at(0));
    assert_eq!(deeds(&noted), ["create Pod sum-", "create Pod sum-"]);
    let uncounted = &status(&noted, "sum")["uncountedTerminatedPods"];
    assert_eq!(uncounted, &json!({"succeeded": ["uid-a"]}));
    let noted = after(plain(), &noted);
    assert_eq!(noted.status.as_ref().unwrap().succeeded, None);
    // Whoever is interrupted here does the same again.
    let freed = seen(noted.clone(), vec![deleting(own("a", "Succeeded"))], 1);
    assert_eq!(deeds(&freed)[0], LET_GO);
    assert_eq!(status(&freed, "sum"), Value::Null);
    let counted = after(noted.clone(), &seen(noted, vec![], 2));
    assert_eq!(counts(&counted), (Some(1), None));
    assert_eq!(counts(&settle(&mut view, 3)), (Some(1), None));
    let left = &view.pods[&Key::new("default", "a")];
    assert_eq!(left.metadata.finalizers, Some(vec!["other".to_owned()]));
}

#[test]
fn a_pod_that_is_deleted_has_failed_unless_it_succeeded_or_was_one_too_many() {
    let gone = ["Pending", "Running", "Failed"].map(|phase| deleting(own(phase, phase)));
    let mut view = world(plain(), gone.to_vec());
    assert_eq!(counts(&settle(&mut view, 0)), (None, Some(3)));
    assert_eq!(names(&view), [""; 0]);
    let surplus = ["a", "b", "c", "d"].map(|name| own(name, "Running"));
    let mut view = world(plain(), surplus.to_vec());
    assert_eq!(counts(&settle(&mut view, 0)), (None, None));
    assert_eq!(names(&view), ["c", "d"]);
}

#[test]
fn no_pod_waits_for_a_job_that_is_gone_or_going_or_done() {
    let mut orphan = own("a", "Running");
    orphan.metadata.owner_references = None;
    for pod in [own("a", "Running"), orphan.clone(), deleting(own("a", "Failed"))] {
        let gone = with(View::default(), [pod]);
        assert_eq!(told(&next(&gone, at(0))), [LET_GO]);
    }
    let mut going = plain();
    going.metadata.deletion_timestamp = Some(at(0).into());
    assert_eq!(told(&seen(going, vec![own("a", "Running")], 0)), [LET_GO]);
    let mut another = plain();
    another.metadata.uid = Some("another".to_owned());
    let wanted = seen(another, vec![own("a", "Running")], 0);
    assert_eq!(deeds(&wanted)[0], LET_GO);
    let finished = json!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at(0).to_string()}]});
    let mut done = plain();
    done.status = serde_json::from_value(finished).unwrap();
    assert_eq!(told(&seen(done, vec![own("a", "Succeeded")], 1)), [LET_GO]);
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
    let waiting = seen(ended.clone(), vec![failed], 205);
    assert_eq!(deeds(&waiting), [LET_GO]);
    let waiting = after(ended.clone(), &waiting);
    assert_eq!(conditions(&waiting).len(), 1, "one is not counted yet");
    let ended = after(ended.clone(), &seen(ended, vec![], 210));
    assert_eq!(counts(&ended), (None, Some(3)));
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
    assert_eq!(deeds(&stopping), [LET_GO, "delete a"]);
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
    let mut view = world(short, ["a", "b", "c"].map(|name| own(name, "Succeeded")).to_vec());
    settle(&mut view, 100);
    let waiting = next(&view, at(159));
    assert_eq!((told(&waiting), waiting.again_at), (vec![], Some(at(160))));
    assert_eq!(told(&next(&view, at(160))), ["delete sum"]);
}
