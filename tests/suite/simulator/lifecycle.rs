//! What becomes of an instance, under a clock that stands still unless it is moved.

use http::StatusCode;
use karpenter_ibm::sim::ibm::{
    DeleteAgain, DeleteWhilePending, Fault, FaultKind, HostFailure, Options, Rename,
};
use serde_json::json;

use super::{Api, api, options};

#[tokio::test(start_paused = true)]
async fn a_new_instance_is_pending_without_address_and_without_volume() {
    let api = api().await;
    let said = api.post("/v1/instances", api.prototype("a")).await;
    assert_eq!(said.status, StatusCode::CREATED);
    assert_eq!(
        (&said.body["status"], &said.body["lifecycle_state"]),
        (&json!("pending"), &json!("pending"))
    );
    assert_eq!(
        said.body["primary_network_attachment"]["primary_ip"]["address"],
        "0.0.0.0"
    );
    assert_eq!(said.body["boot_volume_attachment"].get("volume"), None);
    assert_eq!(said.body["vcpu"]["manufacturer"], "unassigned");
}

#[tokio::test(start_paused = true)]
async fn it_starts_and_runs_within_three_minutes_and_then_has_everything() {
    let api = api().await;
    let id = api.create(api.prototype("a")).await;
    let starting = api.wait_for(&id, "starting").await;
    assert_ne!(
        starting["primary_network_attachment"]["primary_ip"]["address"],
        "0.0.0.0"
    );
    let running = api.wait_for(&id, "running").await;
    assert!(running["boot_volume_attachment"]["volume"]["id"].is_string());
    assert_eq!(
        (&running["health_state"], &running["lifecycle_state"]),
        (&json!("ok"), &json!("stable"))
    );
    assert_eq!(running["status_reasons"], json!([]));
    let age = api.clock.now().as_second() - api.cloud.instance("a").unwrap().created_at.as_second();
    assert!((20..=180).contains(&age), "{age}");
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_between_two_looks_and_the_next_event_is_known() {
    let api = api().await;
    assert_eq!(api.cloud.next_due(), None);
    api.create(api.prototype("a")).await;
    let due = api.cloud.next_due().unwrap();
    assert!(due > api.clock.now());
    let seconds = u64::try_from((due - api.clock.now()).get_seconds()).unwrap() + 1;
    api.pass(seconds).await;
    assert_eq!(api.cloud.instance("a").unwrap().status, "starting");
}

#[tokio::test(start_paused = true)]
async fn events_are_dated_when_they_were_due_not_when_somebody_looked() {
    let (watched, unwatched) = (api().await, api().await);
    let id = watched.create(watched.prototype("a")).await;
    assert_eq!(unwatched.create(unwatched.prototype("a")).await, id);
    for _ in 0..200 {
        watched.pass(1).await;
        watched.get(&format!("/v1/instances/{id}")).await;
    }
    assert_eq!(watched.cloud.instance("a").unwrap().status, "running");
    assert_eq!(unwatched.cloud.instances(), watched.cloud.instances());
}

#[tokio::test(start_paused = true)]
async fn shortage_is_accepted_and_shows_later_and_holds_address_and_quota() {
    let api = api().await;
    let subnet = api.cloud.account().subnets[0].clone();
    api.cloud.drain("bxf-2x8", "us-south-1", None).unwrap();
    let id = api.create(api.prototype("a")).await;
    api.pass(60).await;
    let body = api.get(&format!("/v1/instances/{id}")).await.body;
    assert!(body["status"] == "stopped" || body["status"] == "failed");
    assert_eq!(body["status_reasons"][0]["code"], "cannot_start_capacity");
    assert_eq!(body["startable"], body["status"] == "stopped");
    assert_eq!(api.cloud.free_addresses(&subnet), Some(250));
    api.pass(24 * 3600).await;
    assert_eq!(
        api.cloud.instances().len(),
        1,
        "it stays until somebody deletes it"
    );
    let mut api = api;
    api.log_in().await;
    api.delete(&format!("/v1/instances/{id}")).await;
    api.wait_until_gone(&id).await;
    assert_eq!(api.cloud.free_addresses(&subnet), Some(251));
    api.cloud.refill("bxf-2x8", "us-south-1", None).unwrap();
    api.create_running(api.prototype("a")).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_fails_for_the_reason_it_was_told_to() {
    let api = api().await;
    api.cloud.fail_start("doomed", "cannot_start_storage").unwrap();
    api.create(api.prototype("doomed")).await;
    api.create_running(api.prototype("lucky")).await;
    assert_eq!(
        api.cloud.instance("doomed").unwrap().reason.as_deref(),
        Some("cannot_start_storage")
    );
    assert!(
        !api.cloud
            .fail_start("x", "bad_luck")
            .unwrap_err()
            .choices
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_preempted_instance_has_thirty_seconds_and_keeps_the_evidence() {
    let api = api().await;
    let id = api.create_running(api.spot("a")).await;
    api.cloud.preempt("a").unwrap();
    let get = async || api.get(&format!("/v1/instances/{id}")).await.body;
    let noticed = get().await;
    assert_eq!(
        (&noticed["status"], &noticed["status_reasons"]),
        (&json!("stopping"), &json!([]))
    );
    api.pass(29).await;
    assert_eq!(get().await["status"], "stopping");
    api.pass(1).await;
    let off = get().await;
    assert_eq!(off["status"], "stopped");
    assert_eq!(off["status_reasons"][0]["code"], "stopped_by_preemption");
    assert_eq!(
        off["status_reasons"][0]["message"],
        "The virtual server instance was stopped due to preemption."
    );
    assert_eq!(off["lifecycle_state"], "stable");
}

#[tokio::test(start_paused = true)]
async fn a_preempted_instance_with_policy_delete_vanishes() {
    let api = api().await;
    let mut spot = api.spot("a");
    spot["availability_policy"] = json!({ "preemption": "delete" });
    let id = api.create_running(spot).await;
    api.cloud.preempt(&id).unwrap();
    api.pass(29).await;
    assert_eq!(api.cloud.instance("a").unwrap().status, "stopping");
    let seconds = api.wait_until_gone(&id).await;
    assert!((1..=91).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn only_a_spot_instance_that_is_up_can_be_preempted() {
    let api = api().await;
    api.create_running(api.prototype("standard")).await;
    api.create_running(api.spot("spot")).await;
    let refused = api.cloud.preempt("standard").unwrap_err();
    assert_eq!(refused.choices, ["spot"]);
    api.cloud.preempt("spot").unwrap();
    assert!(api.cloud.preempt("spot").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_failed_host_restarts_or_stops_by_policy_and_by_command() {
    let api = api().await;
    let restarts = api.create_running(api.prototype("restarts")).await;
    let mut stops = api.prototype("stops");
    stops["availability_policy"] = json!({ "host_failure": "stop" });
    let stops = api.create_running(stops).await;
    for id in [&restarts, &stops] {
        api.cloud.fail_host(id, None).unwrap();
    }
    assert_eq!(api.cloud.instance("restarts").unwrap().status, "restarting");
    assert_eq!(
        api.cloud.instance("stops").unwrap().reason.as_deref(),
        Some("stopped_by_host_failure")
    );
    api.wait_for(&restarts, "running").await;
    api.cloud.fail_host(&restarts, Some(HostFailure::Stop)).unwrap();
    assert_eq!(api.cloud.instance("restarts").unwrap().status, "stopped");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_instance_is_deleting_for_a_while_and_then_not_found() {
    let api = api().await;
    let id = api.create_running(api.prototype("a")).await;
    let path = format!("/v1/instances/{id}");
    assert_eq!(api.delete(&path).await.status, StatusCode::NO_CONTENT);
    assert_eq!(api.get(&path).await.body["status"], "deleting");
    let again = api.delete(&path).await;
    assert_eq!(
        (again.status, again.code()),
        (StatusCode::CONFLICT, "instance_delete_conflict")
    );
    let seconds = api.wait_until_gone(&id).await;
    assert!((10..=91).contains(&seconds), "{seconds}");
    assert_eq!(api.get(&path).await.code(), "not_found");
    assert!(
        api.cloud.orphans().is_empty(),
        "volume and interface went with it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_of_course_voids_what_was_to_come() {
    let api = api().await;
    let (pending, starting) = (
        api.create(api.prototype("a")).await,
        api.create(api.spot("b")).await,
    );
    api.delete(&format!("/v1/instances/{pending}")).await;
    api.wait_for(&starting, "starting").await;
    api.cloud.preempt("b").unwrap();
    let mut seen = Vec::new();
    for _ in 0..300 {
        api.pass(1).await;
        seen.extend(
            api.cloud
                .instances()
                .into_iter()
                .map(|one| (one.name, one.status)),
        );
    }
    seen.sort_unstable();
    seen.dedup();
    let expected = [("a", "deleting"), ("b", "stopped"), ("b", "stopping")];
    assert_eq!(seen, expected.map(|(name, status)| (name.to_owned(), status)));
}

#[tokio::test(start_paused = true)]
async fn deleting_what_is_pending_or_deleting_is_answered_as_the_options_say() {
    let options = Options {
        delete_while_pending: DeleteWhilePending::Conflict,
        delete_again: DeleteAgain::NotFound,
        ..options(1)
    };
    let api = Api::to(options).await;
    let id = api.create(api.prototype("a")).await;
    let path = format!("/v1/instances/{id}");
    assert_eq!(api.delete(&path).await.code(), "instance_delete_conflict");
    api.wait_for(&id, "running").await;
    assert_eq!(api.delete(&path).await.status, StatusCode::NO_CONTENT);
    assert_eq!(api.delete(&path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_to_go_with_the_instance_stays() {
    let api = api().await;
    let mut prototype = api.prototype("a");
    prototype["boot_volume_attachment"] =
        json!({ "delete_volume_on_instance_delete": false, "volume": { "profile": { "name": "sdp" } } });
    let id = api.create_running(prototype).await;
    api.delete(&format!("/v1/instances/{id}")).await;
    api.wait_until_gone(&id).await;
    let orphans = api.cloud.orphans();
    assert_eq!(orphans.len(), 1);
    let unattached = api.get("/v1/volumes?attachment_state=unattached").await.body;
    assert_eq!(unattached["volumes"][0]["id"], orphans[0].as_str());
    assert_eq!(
        api.delete(&format!("/v1/volumes/{}", orphans[0])).await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        api.get(&format!("/v1/volumes/{}", orphans[0])).await.code(),
        "volume_not_found"
    );
}

#[tokio::test(start_paused = true)]
async fn actions_stop_start_and_reboot_in_the_states_that_allow_it() {
    let api = api().await;
    let id = api.create_running(api.prototype("a")).await;
    let act = async |action: &str| {
        api.post(&format!("/v1/instances/{id}/actions"), json!({ "type": action }))
            .await
    };
    assert_eq!(act("start").await.code(), "invalid_state");
    assert_eq!(act("reboot").await.status, StatusCode::CREATED);
    api.wait_for(&id, "running").await;
    assert_eq!(act("stop").await.status, StatusCode::CREATED);
    let stopped = api.wait_for(&id, "stopped").await;
    assert_eq!(stopped["status_reasons"], json!([]));
    assert_eq!(act("start").await.status, StatusCode::CREATED);
    api.wait_for(&id, "running").await;
    assert_eq!(act("explode").await.code(), "validation_enum");
}

#[tokio::test(start_paused = true)]
async fn class_and_profile_change_only_while_it_is_off() {
    let api = api().await;
    let id = api.create_running(api.spot("a")).await;
    let path = format!("/v1/instances/{id}");
    let standard = json!({ "availability": { "class": "standard" } });
    assert_eq!(api.patch(&path, standard.clone()).await.code(), "invalid_state");
    assert_eq!(
        api.patch(&path, json!({ "profile": { "name": "bxf-4x16" } }))
            .await
            .code(),
        "invalid_state"
    );
    api.cloud.preempt("a").unwrap();
    api.wait_for(&id, "stopped").await;
    assert_eq!(
        api.patch(&path, standard).await.body["availability"]["class"],
        "standard"
    );
    assert_eq!(
        api.patch(&path, json!({ "profile": { "name": "bxf-4x16" } }))
            .await
            .body["memory"],
        16
    );
    assert_eq!(
        api.patch(&path, json!({ "user_tags": ["a"] })).await.code(),
        "invalid_request_field"
    );
}

#[tokio::test(start_paused = true)]
async fn a_patch_is_a_merge_patch() {
    let api = api().await;
    let id = api.create(api.prototype("a")).await;
    let mut request = api.request(
        "PATCH",
        &format!("/v1/instances/{id}"),
        Some(json!({ "name": "b" })),
    );
    request
        .headers_mut()
        .insert("content-type", "application/json".parse().unwrap());
    assert_eq!(
        api.send(request).await.unwrap().status,
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
    let array = json!({ "reservation_affinity": { "policy": "manual", "pool": [] } });
    assert_eq!(
        api.patch(&format!("/v1/instances/{id}"), array).await.target(),
        "If-Match"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rename_frees_the_old_name_at_once() {
    let api = api().await;
    let id = api.create_running(api.prototype("a")).await;
    let said = api
        .patch(&format!("/v1/instances/{id}"), json!({ "name": "a-x1" }))
        .await;
    assert_eq!(said.body["name"], "a-x1");
    api.create(api.prototype("a")).await;
    let taken = api
        .patch(&format!("/v1/instances/{id}"), json!({ "name": "a" }))
        .await;
    assert_eq!(taken.code(), "validation_unique_failed");
    assert_eq!(
        api.patch(&format!("/v1/instances/{id}"), json!({ "name": "a-x1" }))
            .await
            .status,
        StatusCode::OK
    );
}

#[tokio::test(start_paused = true)]
async fn a_rename_may_be_refused_or_free_the_old_name_late() {
    for (rename, kind) in [
        (Rename::Refused, FaultKind::RenameRefused),
        (Rename::Slow, FaultKind::RenameSlow),
    ] {
        for by_fault in [false, true] {
            let mut options = options(1);
            if !by_fault {
                options.rename = rename;
            }
            let api = Api::to(options).await;
            if by_fault {
                api.cloud.faults().start(Fault::new(kind));
            }
            let id = api.create(api.prototype("a")).await;
            let said = api
                .patch(&format!("/v1/instances/{id}"), json!({ "name": "a-x1" }))
                .await;
            if rename == Rename::Refused {
                assert_eq!(
                    (said.status, api.cloud.instance("a").is_some()),
                    (StatusCode::CONFLICT, true)
                );
                continue;
            }
            assert_eq!(said.body["name"], "a-x1");
            assert_eq!(
                api.post("/v1/instances", api.prototype("a")).await.code(),
                "validation_unique_failed"
            );
            api.pass(30).await;
            assert_eq!(
                api.post("/v1/instances", api.prototype("a")).await.status,
                StatusCode::CREATED
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_placement_group_fails_the_start() {
    let api = api().await;
    let group = api.cloud.account().placement_group;
    for number in 0..13 {
        let mut prototype = api.prototype(&format!("i{number}"));
        prototype["placement_target"] = json!({ "id": group });
        api.create(prototype).await;
    }
    api.pass(200).await;
    let failed: Vec<_> = api
        .cloud
        .instances()
        .into_iter()
        .filter_map(|one| one.reason)
        .collect();
    assert_eq!(failed, ["cannot_start_placement_group"]);
}
