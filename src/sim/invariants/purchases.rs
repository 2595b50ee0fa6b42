//! S1: at most one live machine per claim, and another only after the first has come to its end: one that stops, or that
//! somebody else deletes, is still there. Nor does one come back while another is there. L11: nothing is bought that is there
//! already.

use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::book::{Book, own_name};
use super::{Check, Findings, Truth};
use crate::cloud::InstanceName;
use crate::sim::history::{Edge, Entry, Request, What, Who};

/// A machine that has been there for so long is found by whoever looks: the API shows a new one after 10 seconds at the
/// latest, a look-up and its purchase may lie 90 seconds apart (queues for permits, slow networks).
const VISIBLE_AFTER: Duration = Duration::from_mins(2);
/// A replica that stood still goes on with what it knew before; it must look again from then on.
const AWAKE_AFTER: Duration = Duration::from_secs(5);

pub(super) struct Purchases;

impl Check for Purchases {
    fn observe(&mut self, entry: &Entry, book: &Book, _: &Truth<'_>, found: &mut Findings) {
        for id in &book.new_machines {
            one_at_a_time(id, "was made for", entry.at, book, found);
        }
        for id in &book.revived {
            one_at_a_time(id, "came back to", entry.at, book, found);
        }
        if let What::Request(request) = &entry.what
            && let Some(claim) = bought_for(request)
        {
            needed(&claim, entry, book, found);
        }
    }
}

fn one_at_a_time(id: &str, comes: &str, at: Duration, book: &Book, found: &mut Findings) {
    let Some(claim) = book.machines.get(id).and_then(|machine| machine.claim.as_deref()) else {
        return;
    };
    for other in book.machines_of(claim) {
        if other.id != id && !other.has_ended() {
            let (name, status) = (&other.name, other.status);
            found.blame(
                "S1",
                at,
                format!("machine {id} {comes} claim {claim} while its machine {name} is {status}"),
            );
        }
    }
}

/// The uid of the claim that a create is for.
pub(in crate::sim) fn bought_for(request: &Request) -> Option<String> {
    let creates =
        request.edge == Edge::Cloud && request.method == Method::POST && request.path == "/v1/instances";
    if !creates {
        return None;
    }
    let body: Value = serde_json::from_slice(&request.body).ok()?;
    let name: InstanceName = own_name(body["name"].as_str()?).parse().ok()?;
    Some(name.claim_uid())
}

fn needed(claim: &str, entry: &Entry, book: &Book, found: &mut Findings) {
    let Who::Replica { number, .. } = entry.who else {
        return;
    };
    let turns = book.replicas.get(&number);
    let resumed = turns.and_then(|turns| turns.resumed);
    if resumed.is_some_and(|resumed| entry.at.saturating_sub(resumed) < AWAKE_AFTER) {
        return;
    }
    for machine in book.machines_of(claim) {
        let age = entry.at.saturating_sub(machine.seen);
        if machine.is_live() && machine.has_its_own_name() && age > VISIBLE_AFTER {
            let message =
                format!("a machine is bought for claim {claim}, whose machine has been there for {age:?}");
            found.blame("L11", entry.at, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;

    async fn bought(stage: &mut Stage) -> (String, String) {
        let uid = stage.claim("a").await;
        let name = stage.name_of(&uid);
        let id = stage.machine(&name).await;
        (id, name)
    }

    async fn rename(stage: &mut Stage, id: &str, name: &str) {
        let body = json!({ "name": name }).to_string();
        stage
            .cloud_says(Method::PATCH, &format!("/v1/instances/{id}"), &body)
            .await;
        stage.see_cloud();
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_machine_beside_a_live_one_is_one_too_many() {
        let mut stage = Stage::new().await;
        let (first, name) = bought(&mut stage).await;
        rename(&mut stage, &first, &format!("{name}-x1")).await;
        stage.machine(&name).await;
        assert_eq!(stage.blamed(), ["S1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_machine_after_the_first_failed_is_fine() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let name = stage.name_of(&uid);
        stage.cloud.fail_start(&name, "cannot_start_capacity").unwrap();
        let first = stage.machine(&name).await;
        stage.pass(120).await;
        rename(&mut stage, &first, &format!("{name}-x1")).await;
        stage.machine(&name).await;
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_was_given_up_and_goes_has_ended_and_one_that_another_deletes_has_not() {
        for given_up in [true, false] {
            let mut stage = Stage::new().await;
            let (first, name) = bought(&mut stage).await;
            stage.pass(60).await;
            if given_up {
                rename(&mut stage, &first, &format!("{name}-x1")).await;
            }
            stage.delete_machine(&first).await;
            // Under a name of its own, since the first has that of the claim for as long as it is there.
            let second = if given_up { name } else { format!("{name}-x9") };
            stage.machine(&second).await;
            let blamed: &[&str] = if given_up { &[] } else { &["S1"] };
            assert_eq!(stage.blamed(), blamed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_stops_has_not_ended_yet_and_one_that_has_must_not_come_back() {
        let mut stage = Stage::new().await;
        let (first, name) = bought(&mut stage).await;
        stage.pass(200).await;
        rename(&mut stage, &first, &format!("{name}-x1")).await;
        stage.cloud.stop(&first).unwrap();
        stage.see_cloud();
        stage.machine(&format!("{name}-x2")).await;
        assert_eq!(stage.blamed(), ["S1"], "it stops");
        let mut stage = Stage::new().await;
        let (first, name) = bought(&mut stage).await;
        stage.pass(200).await;
        stage.cloud.stop(&first).unwrap();
        stage.pass(120).await;
        rename(&mut stage, &first, &format!("{name}-x1")).await;
        stage.machine(&name).await;
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
        let path = format!("/v1/instances/{first}/actions");
        stage.cloud_says(Method::POST, &path, r#"{"type":"start"}"#).await;
        stage.see_cloud();
        assert_eq!(stage.blamed(), ["S1"], "it came back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_somebody_deleted_may_be_replaced() {
        let mut stage = Stage::new().await;
        let (first, name) = bought(&mut stage).await;
        stage.pass(60).await;
        stage.delete_machine(&first).await;
        stage.pass(120).await;
        stage.machine(&name).await;
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn machines_of_others_do_not_count() {
        let mut stage = Stage::new().await;
        let (_, name) = bought(&mut stage).await;
        stage.machine(&name.replace("kib-", "old-")).await;
        assert!(stage.blamed().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_for_what_has_long_been_there_is_needless() {
        let mut stage = Stage::new().await;
        let (_, name) = bought(&mut stage).await;
        let order = json!({ "name": name }).to_string();
        // Reads may not show it yet.
        stage.pass(20).await;
        stage.sends(0, Edge::Cloud, &Method::POST, "/v1/instances", &order);
        assert!(stage.blamed().is_empty());
        // Decided before it stood still.
        stage.turns(1, "paused");
        stage.pass(600).await;
        stage.turns(1, "resumed");
        stage.sends(1, Edge::Cloud, &Method::POST, "/v1/instances", &order);
        assert!(stage.blamed().is_empty());
        stage.sends(0, Edge::Cloud, &Method::POST, "/v1/instances", &order);
        assert_eq!(stage.blamed(), ["L11"]);
    }
}
