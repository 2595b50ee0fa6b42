//! After healing. L2: machines and claims match, but for machines that work and of which people were told; and classes
//! have found again what they name. L3: claims that are being deleted are gone. S18: network interfaces and volumes went
//! with their machines. By when is in `deadlines`.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::book::{Book, own_name};
use super::claims::{conditions, is_true};
use super::{Check, Findings, Truth};
use crate::api::names::{
    LAUNCHED, NODE_INITIALIZED, NODE_REGISTERED, REASON_COLLECTION_STOPPED, REASON_FOREIGN_DEFINITIONS,
    REASON_GARBAGE_FOUND, REASON_HELD_BACK, REASON_INSUFFICIENT_CAPACITY, REASON_LAUNCH_BLOCKED,
    REASON_LAUNCH_FAILED, REASON_LAUNCH_REFUSED,
};
use crate::clock::between;
use crate::cloud::InstanceName;
use crate::sim::history::Entry;
use crate::sim::ibm::{InstanceTruth, PartTruth};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

/// Times of objects are in whole seconds.
const SECOND: Duration = Duration::from_secs(1);
/// Why nothing is bought for a claim.
const ABOUT_BUYING: [&str; 5] = [
    REASON_LAUNCH_BLOCKED,
    REASON_HELD_BACK,
    REASON_FOREIGN_DEFINITIONS,
    REASON_INSUFFICIENT_CAPACITY,
    REASON_LAUNCH_FAILED,
];

pub(super) struct Leftovers;

impl Check for Leftovers {
    fn observe(&mut self, _: &Entry, _: &Book, _: &Truth<'_>, _: &mut Findings) {}

    fn settled(&self, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let claims = claims(truth);
        for (_, message) in leaks(&claims, book, truth) {
            found.blame("L2", truth.since_start, message);
        }
        for claim in &claims {
            if object::is_deleting(claim) {
                let message = format!("claim {} is still being deleted", object::name(claim));
                found.blame("L3", truth.since_start, message);
            } else if let Some(problem) = lack(claim, book, truth) {
                let message = format!("claim {} {problem}", object::name(claim));
                found.blame("L2", truth.since_start, message);
            }
        }
        orphans(book, truth, found);
        classes(book, truth, found);
    }
}

/// Classes that have not found again what was withdrawn for a while: nobody buys by them.
fn classes(book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    if book.strikes("c15-image-deleted") == 0 {
        return;
    }
    let state = truth.kube.state();
    let classes = TableKey::of("karpenter-ibm.sh", "ibmnodeclasses");
    for stored in state.store.list(&classes, None) {
        if !is_true(&stored.shared(), "Ready") {
            let message = format!(
                "class {} is not ready although its image is there again",
                stored.key.name
            );
            found.blame("L2", truth.since_start, message);
        }
    }
}

/// All claims.
pub(super) fn claims(truth: &Truth<'_>) -> Vec<Value> {
    let state = truth.kube.state();
    let claims = state
        .store
        .list(&TableKey::of("karpenter.sh", "nodeclaims"), None);
    claims.map(|stored| stored.value()).collect()
}

/// Machines of ours without a claim: the id of each, and what is wrong with it.
pub(super) fn leaks(claims: &[Value], book: &Book, truth: &Truth<'_>) -> Vec<(String, String)> {
    let mut leaked = Vec::new();
    let sweep = sweep(claims, book, truth);
    for machine in truth.cloud.instances() {
        let Some(uid) = owner(&machine, book) else {
            continue;
        };
        let renamed = own_name(&machine.name) != machine.name;
        let claimed = claims.iter().any(|claim| object::uid(claim) == uid);
        if (!claimed || renamed) && !was_told_of(&machine.id, sweep, truth) {
            let (name, status) = (&machine.name, machine.status);
            let message = format!("machine {name} ({status}) belongs to no claim");
            leaked.push((machine.id, message));
        }
    }
    leaked
}

/// The uid of the claim that a machine of ours was bought for.
fn owner(machine: &InstanceTruth, book: &Book) -> Option<String> {
    let name = own_name(&machine.name).parse::<InstanceName>().ok();
    let ours = name.filter(|name| {
        machine.resource_group == book.settings.resource_group && Some(name.cluster()) == book.cluster
    });
    ours.map(|name| name.claim_uid())
}

/// Whether there is so much that the sweep waits for a person.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sweep {
    Goes,
    Stops,
}

/// Up to so many the sweep removes without asking, or a tenth of all.
const FEW: usize = 3;

/// Whether the sweep has reason to stop now: machines of nobody with claims that are not there and left something behind, or
/// claims that lack their machine or their Node.
fn sweep(claims: &[Value], book: &Book, truth: &Truth<'_>) -> Sweep {
    let is_there = |uid: &String| claims.iter().any(|claim| object::uid(claim) == uid);
    let machines: Vec<InstanceTruth> = truth.cloud.instances();
    let ours: Vec<String> = machines.iter().filter_map(|it| owner(it, book)).collect();
    let orphans = ours.iter().filter(|uid| !is_there(uid)).count();
    let parts = truth.cloud.parts_without_instance();
    let owners = parts.iter().filter_map(|part| owner_of_swept(part, book));
    let forgotten: BTreeSet<String> = owners.filter(|uid| !is_there(uid)).collect();
    let launched: Vec<&Value> = claims.iter().filter(|claim| is_true(claim, LAUNCHED)).collect();
    let state = truth.kube.state();
    let nodes: BTreeSet<String> = state
        .store
        .list(&TableKey::of("", "nodes"), None)
        .map(|stored| stored.key.name.clone())
        .collect();
    let lacks = |claim: &&&Value| {
        let has_machine = ours.iter().any(|uid| uid == object::uid(claim));
        !has_machine || is_true(claim, NODE_REGISTERED) && !nodes.contains(object::name(claim))
    };
    let lacking = launched.iter().filter(lacks).count();
    let is_much = orphans + forgotten.len() > FEW.max(ours.len() / 10);
    if is_much || lacking > FEW.max(launched.len() / 10) {
        Sweep::Stops
    } else {
        Sweep::Goes
    }
}

/// Whether people were told of a machine, or what is left of one, that is not collected: its Node is ready, or so many belong
/// to no claim that somebody must confirm it. What was told when there were more is no excuse for those that are left.
fn was_told_of(id: &str, sweep: Sweep, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let told = |reason: &str| {
        let mut events = state.store.list(&TableKey::of("", "events"), None);
        events.any(|stored| {
            let event = stored.shared();
            let note = event["message"].as_str().or(event["note"].as_str());
            event["reason"] == reason && note.is_some_and(|note| note.contains(id))
        })
    };
    let mut nodes = state.store.list(&TableKey::of("", "nodes"), None);
    let works = nodes.any(|stored| is_ready_node(&stored.shared(), id));
    works && told(REASON_GARBAGE_FOUND) || sweep == Sweep::Stops && told(REASON_COLLECTION_STOPPED)
}

fn is_ready_node(node: &Value, machine: &str) -> bool {
    let provider_id = node["spec"]["providerID"].as_str().unwrap_or_default();
    let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    provider_id.ends_with(machine) && conditions(node).iter().any(ready)
}

/// The names of claims that have no machine that works, and do not say why.
pub(super) fn waiting(book: &Book, truth: &Truth<'_>) -> Vec<String> {
    let claims = claims(truth);
    let waits = |claim: &&Value| !object::is_deleting(claim) && lack(claim, book, truth).is_some();
    let waiting = claims.iter().filter(waits);
    waiting.map(|claim| object::name(claim).to_owned()).collect()
}

/// What a claim lacks that neither has its machine nor says why not.
fn lack(claim: &Value, book: &Book, truth: &Truth<'_>) -> Option<String> {
    let name = book
        .cluster
        .and_then(|cluster| InstanceName::new(cluster, object::uid(claim)));
    let machine = name.and_then(|name| truth.cloud.instance(&name.to_string()));
    let explained = conditions(claim).iter().any(says_why_not) || was_warned_of(claim, book, truth);
    match &machine {
        Some(machine) if machine.resource_group != book.settings.resource_group => None,
        Some(machine) if machine.status != "running" => {
            Some(format!("has a machine that is {}", machine.status))
        }
        Some(_) if !is_true(claim, LAUNCHED) => Some("does not know that its machine runs".to_owned()),
        Some(_) if !is_true(claim, NODE_INITIALIZED) => Some("has a machine that is no node yet".to_owned()),
        Some(_) => None,
        None if conditions(claim).iter().any(is_refusal) => {
            Some("was refused for good and has not come to its end".to_owned())
        }
        None if explained => None,
        None => Some("has no machine and does not say why".to_owned()),
    }
}

/// What the cloud refuses for good is over when the time to launch is.
fn is_refusal(condition: &Value) -> bool {
    condition["type"] == LAUNCHED
        && condition["status"] == "Unknown"
        && condition["reason"] == REASON_LAUNCH_REFUSED
}

/// Whether a claim says now that it has come to its end, or what keeps others from buying for it: that word is taken back
/// when it is no longer so. That its name is taken is seen from the machine that has it.
fn says_why_not(condition: &Value) -> bool {
    let blocked = [REASON_LAUNCH_BLOCKED, REASON_HELD_BACK].map(Value::from);
    condition["type"] == LAUNCHED
        && (condition["status"] == "False"
            || condition["status"] == "Unknown" && blocked.contains(&condition["reason"]))
}

/// Whether people were told what is wrong with the purchase for a claim since everything was put right: what was wrong
/// before is no reason any more.
fn was_warned_of(claim: &Value, book: &Book, truth: &Truth<'_>) -> bool {
    let healed_for = book
        .healed_at
        .map(|healed| truth.since_start.saturating_sub(healed));
    let told = |event: &Value| {
        let told_at = event["metadata"]["creationTimestamp"].as_str();
        let told_at = told_at.and_then(|it| it.parse::<Timestamp>().ok());
        let told_for = told_at.map(|at| between(at, truth.now));
        healed_for.is_none_or(|healed| told_for.is_some_and(|told| told <= healed + SECOND))
    };
    let state = truth.kube.state();
    let mut events = state.store.list(&TableKey::of("", "events"), None);
    events.any(|stored| {
        let event = stored.shared();
        event["involvedObject"]["uid"] == claim["metadata"]["uid"]
            && event["type"] == "Warning"
            && event["reason"]
                .as_str()
                .is_some_and(|it| ABOUT_BUYING.contains(&it))
            && told(&event)
    })
}

/// What outlived its machine. Where the cloud itself failed to clear up, what bears the name of a machine of ours must
/// have been swept since; the rest is the cloud's.
fn orphans(book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    let failed = book.strikes("c13-partial-create") + book.strikes("c13-auto-delete-ignored") > 0;
    let sweep = sweep(&claims(truth), book, truth);
    for part in truth.cloud.parts_without_instance() {
        let is_blamed = is_swept(&part, book) || !failed && !is_kept(&part, book);
        if is_blamed && !was_told_of(&part.id, sweep, truth) {
            let message = format!("{} ({}) outlived its machine", part.id, part.name);
            found.blame("S18", truth.since_start, message);
        }
    }
}

/// Whether the sweep answers for it: interfaces and volumes that go with their machine say so in their names.
pub(super) fn is_swept(part: &PartTruth, book: &Book) -> bool {
    owner_of_swept(part, book).is_some()
}

/// The uid of the claim that something was made for which the sweep answers for.
fn owner_of_swept(part: &PartTruth, book: &Book) -> Option<String> {
    let unnumbered = part.name.trim_end_matches(|c: char| c.is_ascii_digit());
    let machine = part.name.strip_suffix("-vni");
    let machine = machine.or(part.name.strip_suffix("-boot"));
    owner_of(machine.or(unnumbered.strip_suffix("-scratch-")), part, book)
}

/// Whether it is a volume that somebody wished to outlive its machine.
fn is_kept(part: &PartTruth, book: &Book) -> bool {
    let unnumbered = part.name.trim_end_matches(|c: char| c.is_ascii_digit());
    let machine = part.name.strip_suffix("-boot-kept");
    owner_of(machine.or(unnumbered.strip_suffix("-data-")), part, book).is_some()
}

fn owner_of(machine: Option<&str>, part: &PartTruth, book: &Book) -> Option<String> {
    let name = machine.and_then(InstanceName::of_machine);
    let ours = name.filter(|name| {
        part.resource_group == book.settings.resource_group && Some(name.cluster()) == book.cluster
    });
    ours.map(|name| name.claim_uid())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::sim::kube::write;

    fn unmet(stage: &Stage) -> Vec<&'static str> {
        stage.unmet().iter().map(|unmet| unmet.id).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn every_claim_has_its_machine_and_every_machine_its_claim() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        assert_eq!(unmet(&stage), ["L2"], "no machine yet");
        let name = stage.name_of(&uid);
        let id = stage.machine(&name).await;
        assert_eq!(unmet(&stage), ["L2"], "not running yet");
        stage.pass(200).await;
        assert_eq!(unmet(&stage), ["L2"], "not known to run yet");
        stage.conditions("a", &[(LAUNCHED, "True", 1)]).await;
        assert_eq!(unmet(&stage), ["L2"], "not joined yet");
        let joined = [(LAUNCHED, "True", 1), (NODE_INITIALIZED, "True", 1)];
        stage.conditions("a", &joined).await;
        assert_eq!(unmet(&stage), [""; 0]);
        // Somebody else's is none of our business.
        stage.machine("billing").await;
        assert_eq!(unmet(&stage), [""; 0]);
        stage.machine(&format!("{name}-x1")).await;
        assert_eq!(unmet(&stage), ["L2"], "left from an attempt: {id}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_without_a_claim_is_a_leak_and_a_claim_that_lingers_is_late() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        stage.machine(&stage.name_of(&uid)).await;
        stage.delete("a").await;
        assert_eq!(unmet(&stage), ["L3"]);
        stage.release("a").await;
        assert_eq!(unmet(&stage), ["L2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_says_why_it_has_no_machine_is_fine() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        stage.conditions("a", &[(LAUNCHED, "False", 1)]).await;
        assert_eq!(unmet(&stage), [""; 0]);
    }

    fn warn(stage: &Stage, name: &str, uid: &str, reason: &str) {
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "Event",
                "metadata": {"name": name, "namespace": "default"},
                "involvedObject": {"kind": "NodeClaim", "uid": uid}, "type": "Warning", "reason": reason,
            }),
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_wrong_before_healing_is_no_reason_to_have_no_machine() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        warn(&stage, "old", &uid, REASON_LAUNCH_FAILED);
        assert_eq!(unmet(&stage), [""; 0], "nothing was put right yet");
        stage.pass(60).await;
        stage.judge.healed(Duration::from_mins(1));
        stage.pass(60).await;
        assert_eq!(unmet(&stage), ["L2"]);
        warn(&stage, "other", &uid, "Unhealthy");
        assert_eq!(unmet(&stage), ["L2"], "that is not why");
        warn(&stage, "new", &uid, REASON_HELD_BACK);
        assert_eq!(unmet(&stage), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_well_must_be_so_in_the_end() {
        let mut stage = Stage::new().await;
        stage.settles();
        stage.pass(600).await;
        stage.ends();
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
        stage.claim("a").await;
        stage.ends();
        assert_eq!(stage.blamed(), ["L2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_says_what_keeps_others_from_buying_for_it_may_wait() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        stage.judge.healed(Duration::ZERO);
        for (reason, blamed) in [(REASON_LAUNCH_FAILED, &["L2"][..]), (REASON_LAUNCH_BLOCKED, &[])] {
            let word = json!({
                "type": LAUNCHED, "status": "Unknown", "reason": reason, "message": "there is no such class",
                "lastTransitionTime": "2026-11-16T10:00:00Z",
            });
            stage.patch("a", json!({"status": {"conditions": [word]}})).await;
            assert_eq!(unmet(&stage), blamed, "{reason}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_was_refused_for_good_has_yet_to_end() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        let refused = json!({
            "type": LAUNCHED, "status": "Unknown", "reason": REASON_LAUNCH_REFUSED, "message": "no such zone",
            "lastTransitionTime": "2026-11-16T10:00:00Z",
        });
        stage
            .patch("a", json!({"status": {"conditions": [refused]}}))
            .await;
        let uid = stage.uid_of_claim("a");
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
                "involvedObject": {"kind": "NodeClaim", "uid": uid}, "type": "Warning", "reason": "LaunchFailed",
            }),
        );
        assert_eq!(unmet(&stage), ["L2"], "also where people were told");
        stage.conditions("a", &[(LAUNCHED, "False", 1)]).await;
        assert_eq!(unmet(&stage), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_finds_its_image_when_it_is_there_again() {
        for (ready, blamed) in [("False", &["L2"][..]), ("True", &[])] {
            let mut stage = Stage::new().await;
            let class = json!({
                "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass",
                "metadata": {"name": "default"}, "spec": {},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            });
            {
                let mut state = stage.server.state();
                let kind = state
                    .registry
                    .by_kind("karpenter-ibm.sh", "IBMNodeClass")
                    .unwrap();
                state.store.put(&kind, class);
            }
            assert_eq!(unmet(&stage), [""; 0], "it may name what there never was");
            stage.struck("c15-image-deleted", "images.get");
            assert_eq!(unmet(&stage), blamed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_machine_had_dies_with_it_or_is_swept_if_the_cloud_fails_to() {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let name = stage.name_of(&uid);
        stage.conditions("a", &[(LAUNCHED, "False", 1)]).await;
        let account = stage.cloud.account();
        let path = "/v1/virtual_network_interfaces";
        let interface = json!({"subnet": {"id": account.subnets[0]}, "auto_delete": true});
        stage
            .cloud_says(http::Method::POST, path, &interface.to_string())
            .await;
        assert_eq!(unmet(&stage), ["S18"]);
        stage.struck("c13-partial-create", "instances.create");
        assert_eq!(unmet(&stage), [""; 0], "it bears no name of ours");
        let interface = json!({"name": format!("{name}-x2-vni"), "subnet": {"id": account.subnets[0]}});
        stage
            .cloud_says(http::Method::POST, path, &interface.to_string())
            .await;
        assert_eq!(unmet(&stage), ["S18"], "the sweep has missed it");
        let parts = stage.cloud.parts_without_instance();
        let missed = parts.iter().find(|part| part.name.ends_with("-x2-vni")).unwrap();
        for reason in [REASON_GARBAGE_FOUND, REASON_COLLECTION_STOPPED] {
            write::insert(
                &stage.server,
                json!({
                    "apiVersion": "v1", "kind": "Event", "metadata": {"name": reason.to_lowercase(), "namespace": "default"},
                    "reason": reason, "message": format!("to delete these ({})", missed.id),
                }),
            );
            assert_eq!(
                unmet(&stage),
                ["S18"],
                "{reason}: it is one, and the sweep goes on"
            );
        }
        // Now so many claims are not there that nothing is swept.
        for number in 1..=4 {
            let forgotten = stage.name_of(&format!("00000000-0000-4000-8000-{number:012}"));
            let interface = json!({"name": format!("{forgotten}-vni"), "subnet": {"id": account.subnets[0]}});
            stage
                .cloud_says(http::Method::POST, path, &interface.to_string())
                .await;
        }
        let blamed: Vec<String> = stage.unmet().into_iter().map(|it| it.message).collect();
        assert!(blamed.iter().all(|it| !it.contains(&missed.id)), "{blamed:?}");
        assert_eq!(blamed.len(), 4, "nobody was told of these");
    }

    /// A volume of that name outlives a machine that is none of our business.
    async fn leave_volume(stage: &mut Stage, name: &str) {
        let account = stage.cloud.account();
        let volume = json!({"name": name, "capacity": 10, "profile": {"name": "general-purpose"}});
        let prototype = json!({
            "name": "billing", "profile": {"name": "bxf-2x8"}, "image": {"id": account.image},
            "zone": {"name": "us-south-1"}, "vpc": {"id": account.vpc},
            "primary_network_attachment": {
                "virtual_network_interface": {"subnet": {"id": account.subnets[0]}, "auto_delete": true},
            },
            "volume_attachments": [{"volume": volume, "delete_volume_on_instance_delete": false}],
        });
        let (post, path) = (http::Method::POST, "/v1/instances");
        let made = stage.cloud_says(post, path, &prototype.to_string()).await;
        stage.pass(200).await;
        stage.delete_machine(made["id"].as_str().unwrap()).await;
        stage.pass(200).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_data_volume_says_by_its_name_whether_it_outlives_its_machine() {
        for (part, blamed) in [
            ("-scratch-0", &["S18"][..]),
            ("-x3-scratch-12", &["S18"]),
            ("-data-0", &[]),
            ("-boot-kept", &[]),
        ] {
            for failed in [false, true] {
                let mut stage = Stage::new().await;
                let uid = stage.claim("a").await;
                let name = stage.name_of(&uid);
                stage.conditions("a", &[(LAUNCHED, "False", 1)]).await;
                leave_volume(&mut stage, &format!("{name}{part}")).await;
                if failed {
                    stage.struck("c13-auto-delete-ignored", "instances.delete");
                }
                assert_eq!(unmet(&stage), blamed, "{part}");
            }
        }
    }
}
