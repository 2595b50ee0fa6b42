//! S22: a machine that the cloud took back goes only when that is told on its claim and what it was is withheld: the proof
//! goes with it.
//!
//! Judged on what a replica was last shown of the machine when it asks for its deletion: one that cannot know tells nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::book::Book;
use super::machine::Machine;
use super::ownership::target;
use super::{Check, Findings, Truth};
use crate::api::names::{REASON_SPOT_PREEMPTION, WITHHELD_STOPPING};
use crate::sim::history::{Answer, Edge, Entry, What, Who};
use crate::sim::kube::kind::TableKey;

const PROOF: &str = "stopped_by_preemption";

#[derive(Default)]
pub(super) struct Told {
    /// Whether each life of a replica was last shown the proof, by machine.
    shown: BTreeMap<(Who, String), bool>,
    /// When each offering was last seen withheld for longer than until it is clear why a machine stops.
    held: BTreeMap<String, Duration>,
    /// How far the holds have been read.
    read: u64,
}

impl Check for Told {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        self.read_holds(entry.at, truth);
        match &entry.what {
            What::Answer(answer) => self.is_shown(&entry.who, answer, book),
            What::Request(request) if request.edge == Edge::Cloud && request.method == Method::DELETE => {
                let machine = target(request).and_then(|id| book.machines.get(id));
                let machine = machine.filter(|it| self.is_known_taken(&entry.who, it));
                if let Some(machine) = machine {
                    self.judge(machine, entry.at, book, truth, found);
                }
            }
            _ => {}
        }
    }
}

impl Told {
    fn read_holds(&mut self, at: Duration, truth: &Truth<'_>) {
        let changed = truth.kube.state().store.changed_at(&holds());
        if changed != self.read {
            self.read = changed;
            self.held.extend(held(truth).into_iter().map(|key| (key, at)));
        }
    }

    /// Takes note of what an answer says of machines. Most say nothing of this, and are not read.
    fn is_shown(&mut self, who: &Who, answer: &Answer, book: &Book) {
        let reads = book.answered.as_ref().is_some_and(|sent| {
            let request = &sent.request;
            request.edge == Edge::Cloud
                && request.method == Method::GET
                && request.path.starts_with("/v1/instances")
        });
        let says_so = || memchr::memmem::find(&answer.body, PROOF.as_bytes()).is_some();
        if !reads || self.shown.is_empty() && !says_so() {
            return;
        }
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let listed = body["instances"].as_array().map(Vec::as_slice);
        for instance in listed.unwrap_or(std::slice::from_ref(&body)) {
            let Some(id) = instance["id"].as_str() else {
                continue;
            };
            self.shown
                .insert((who.clone(), id.to_owned()), is_proof(instance));
        }
    }

    /// Whether a machine under its own name was taken back and this replica was shown it. One that was renamed was given up
    /// before, for a reason of its own.
    fn is_known_taken(&self, who: &Who, machine: &Machine) -> bool {
        let is_taken = machine.status == "stopped" && machine.reason.as_deref() == Some(PROOF);
        let key = (who.clone(), machine.id.clone());
        is_taken && machine.has_its_own_name() && self.shown.get(&key) == Some(&true)
    }

    fn judge(&self, machine: &Machine, at: Duration, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let Some(uid) = &machine.claim else {
            return;
        };
        let name = &machine.name;
        let key = format!("spot:{}:{}", machine.profile, machine.zone);
        // What was written when the machine was there already was written of it, or of one like it.
        let was_held = self.held.get(&key).is_some_and(|held| *held >= machine.seen);
        if !was_held && !held(truth).contains(&key) {
            let message = format!("machine {name} was taken back and goes, and {key} is not withheld");
            found.blame("S22", at, message);
        }
        let is_there = book.claims.get(uid).is_some_and(|claim| claim.gone.is_none());
        if is_there && !was_told(uid, truth) {
            found.blame(
                "S22",
                at,
                format!("machine {name} was taken back and goes, and nobody was told"),
            );
        }
    }
}

fn holds() -> TableKey {
    TableKey::of("karpenter-ibm.sh", "unavailableofferings")
}

/// The offerings that are withheld for longer than until it is clear why a machine stops.
fn held(truth: &Truth<'_>) -> Vec<String> {
    let state = truth.kube.state();
    let all = state.store.list(&holds(), None).map(|stored| stored.shared());
    let lasting = all.filter(|hold| hold["spec"]["reason"] != WITHHELD_STOPPING);
    lasting
        .filter_map(|hold| hold["spec"]["key"].as_str().map(str::to_owned))
        .collect()
}

fn is_proof(instance: &Value) -> bool {
    let reasons = instance["status_reasons"].as_array().map(Vec::as_slice);
    let is_reason = |reason: &Value| reason["code"] == PROOF;
    instance["status"] == "stopped" && reasons.unwrap_or_default().iter().any(is_reason)
}

fn was_told(claim: &str, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let mut events = state.store.list(&TableKey::of("", "events"), None);
    events.any(|stored| {
        let event = stored.shared();
        event["reason"] == REASON_SPOT_PREEMPTION && event["involvedObject"]["uid"] == claim
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::sim::kube::write;

    /// A claim that goes, whose machine was taken back; the machine.
    async fn taken() -> (Stage, String) {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let id = stage.spot_machine(&stage.name_of(&uid)).await;
        stage.pass(200).await;
        stage.delete("a").await;
        stage.cloud.preempt(&id).unwrap();
        stage.pass(31).await;
        (stage, id)
    }

    /// A replica reads the machine, and is shown that.
    fn shows(stage: &mut Stage, id: &str, status: &str) {
        let number = stage.sends(0, Edge::Cloud, &Method::GET, &format!("/v1/instances/{id}"), "");
        let body = json!({"id": id, "status": status, "status_reasons": [{"code": PROOF}]});
        stage.hears(0, number, Some(200), &body.to_string());
    }

    fn withhold(stage: &mut Stage, reason: &str) {
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
                "metadata": {"name": "spot.bxf-2x8.us-south-1"},
                "spec": {
                    "key": "spot:bxf-2x8:us-south-1", "reason": reason,
                    "since": "2026-11-16T10:04:00Z", "until": "2026-11-16T11:04:00Z",
                },
            }),
        );
        stage.look();
    }

    fn tell(stage: &mut Stage) {
        let uid = stage.uid_of_claim("a");
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
                "involvedObject": {"kind": "NodeClaim", "uid": uid}, "reason": REASON_SPOT_PREEMPTION,
            }),
        );
        stage.look();
    }

    /// How often it is blamed that a replica deletes the machine now.
    fn blamed(stage: &mut Stage, id: &str) -> usize {
        stage.sends(
            0,
            Edge::Cloud,
            &Method::DELETE,
            &format!("/v1/instances/{id}"),
            "",
        );
        stage.blamed().iter().filter(|it| **it == "S22").count()
    }

    #[tokio::test(start_paused = true)]
    async fn the_proof_goes_only_when_it_is_withheld_and_told() {
        let (mut stage, id) = taken().await;
        shows(&mut stage, &id, "stopped");
        withhold(&mut stage, "Preempted");
        tell(&mut stage);
        assert_eq!(blamed(&mut stage, &id), 0);
        let (mut stage, id) = taken().await;
        shows(&mut stage, &id, "stopped");
        withhold(&mut stage, "Preempted");
        assert_eq!(blamed(&mut stage, &id), 1, "nobody was told");
        let (mut stage, id) = taken().await;
        shows(&mut stage, &id, "stopped");
        tell(&mut stage);
        withhold(&mut stage, "Stopping");
        assert_eq!(blamed(&mut stage, &id), 1, "it is not withheld for long");
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_not_shown_it_need_not_know() {
        let (mut stage, id) = taken().await;
        assert_eq!(blamed(&mut stage, &id), 0);
        shows(&mut stage, &id, "stopped");
        shows(&mut stage, &id, "stopping");
        assert_eq!(blamed(&mut stage, &id), 0, "what was said last counts");
        shows(&mut stage, &id, "stopped");
        assert_eq!(blamed(&mut stage, &id), 2);
    }
}
