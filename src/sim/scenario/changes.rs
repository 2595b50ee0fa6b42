//! What happened between two moments, in plain words: how a story is told while it is played.

use std::collections::BTreeMap;

use super::expectation::{ClaimState, MachineState, NodeState, PodState};
use super::scene::{Claim, PodSeen, Scene, capacity_type, machine_state};
use crate::sim::ibm::InstanceTruth;

/// Who else's events are worth telling: the operator's own.
const REPORTER: &str = "karpenter-ibm.sh/controller";

/// What happened, one line for each thing, in the order in which such things come about: claims, machines, nodes,
/// pods, holds, events.
pub fn changes(before: &Scene, after: &Scene) -> Vec<String> {
    let mut lines = Vec::new();
    claims(before, after, &mut lines);
    machines(before, after, &mut lines);
    nodes(before, after, &mut lines);
    pods(before, after, &mut lines);
    holds(before, after, &mut lines);
    events(before, after, &mut lines);
    lines
}

fn claims(before: &Scene, after: &Scene, lines: &mut Vec<String>) {
    for (name, claim) in &after.claims {
        let earlier = before.claims.get(name).filter(|earlier| earlier.uid == claim.uid);
        if earlier.is_none() {
            lines.push(format!("claim {name} asks for {}", wishes(claim)));
        }
        held(name, earlier, claim, lines);
        let was = earlier.map_or(ClaimState::Present, |earlier| earlier.state);
        if claim.state != was {
            lines.push(format!("claim {name} {}", turn(claim.state)));
        }
    }
    for name in before
        .claims
        .keys()
        .filter(|name| !after.claims.contains_key(*name))
    {
        lines.push(format!("claim {name} is gone"));
    }
}

fn held(name: &str, earlier: Option<&Claim>, claim: &Claim, lines: &mut Vec<String>) {
    let Some(holds) = &claim.holds else { return };
    let before = earlier.and_then(|earlier| earlier.holds.as_ref());
    if before.is_none_or(|before| before.attempt != holds.attempt) {
        let attempt = if holds.attempt > 1 {
            format!(", attempt {}", holds.attempt)
        } else {
            String::new()
        };
        lines.push(format!(
            "claim {name} intends to buy {} {} in {}{attempt}",
            holds.capacity_type, holds.profile, holds.zone
        ));
    }
}

fn wishes(claim: &Claim) -> String {
    let [profile, zone, capacity] = &claim.wishes;
    let or = |wish: &Option<String>, other: &str| wish.clone().unwrap_or_else(|| other.to_owned());
    let (profile, capacity) = (or(profile, "any machine"), or(capacity, "any"));
    match zone {
        Some(zone) => format!("{profile} in {zone}, {capacity}"),
        None => format!("{profile}, {capacity}"),
    }
}

fn turn(state: ClaimState) -> &'static str {
    match state {
        ClaimState::Present => "starts over",
        ClaimState::Launched => "is launched: its machine runs",
        ClaimState::Registered => "is registered: its node has joined",
        ClaimState::Initialized => "is initialized: its node takes pods",
        ClaimState::Leaving => "is leaving",
        ClaimState::Gone => "is gone",
    }
}

fn machines(before: &Scene, after: &Scene, lines: &mut Vec<String>) {
    for (id, machine) in &after.machines {
        let whose = whose(machine, after, before);
        match before.machines.get(id) {
            None => lines.push(format!("the cloud makes {whose}: {}", described(machine))),
            Some(earlier) if earlier.name != machine.name => {
                lines.push(format!("{whose} is renamed to make room for another"));
            }
            Some(_) => {}
        }
        let was = before
            .machines
            .get(id)
            .map_or(MachineState::Starting, machine_state);
        let is = machine_state(machine);
        if is != was || stops(before.machines.get(id), machine) {
            lines.push(format!("{whose} {}", fate(machine, is)));
        }
    }
    for (id, machine) in &before.machines {
        if !after.machines.contains_key(id) {
            lines.push(format!("{} no longer exists", whose(machine, before, after)));
        }
    }
}

/// Pending and starting are one state, and so are all others that a machine only passes through; stopping is told.
fn stops(earlier: Option<&InstanceTruth>, machine: &InstanceTruth) -> bool {
    machine.status == "stopping" && earlier.is_none_or(|earlier| earlier.status != "stopping")
}

fn whose(machine: &InstanceTruth, first: &Scene, second: &Scene) -> String {
    let claim = first.claim_of(machine).or_else(|| second.claim_of(machine));
    claim.map_or_else(
        || format!("machine {}", machine.name),
        |claim| format!("the machine of {claim}"),
    )
}

fn described(machine: &InstanceTruth) -> String {
    let class = capacity_type(machine.class);
    let price = machine
        .usd_per_hour
        .map(|price| format!(", {price} an hour"))
        .unwrap_or_default();
    format!("{class} {} in {}{price}", machine.profile, machine.zone)
}

fn fate(machine: &InstanceTruth, state: MachineState) -> String {
    let why = machine
        .reason
        .as_ref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    match state {
        MachineState::Starting => "starts".to_owned(),
        MachineState::Running => "runs".to_owned(),
        MachineState::Stopped => format!("is stopped{why}"),
        MachineState::Failed => format!("cannot start{why}"),
        MachineState::Deleting => "is being deleted".to_owned(),
        MachineState::Present => format!("is {}{why}", machine.status),
    }
}

fn nodes(before: &Scene, after: &Scene, lines: &mut Vec<String>) {
    for (name, state) in &after.nodes {
        match (before.nodes.get(name), state) {
            (None, NodeState::Ready) => lines.push(format!("node {name} joins, ready")),
            (None, _) => lines.push(format!("node {name} joins")),
            (Some(was), now) if was == now => {}
            (Some(_), NodeState::Ready) => lines.push(format!("node {name} is ready")),
            (Some(_), _) => lines.push(format!("node {name} is not ready")),
        }
    }
    for name in before
        .nodes
        .keys()
        .filter(|name| !after.nodes.contains_key(*name))
    {
        lines.push(format!("node {name} is gone"));
    }
}

/// Pods of one owner to which the same happens at once are told of in one line.
fn pods(before: &Scene, after: &Scene, lines: &mut Vec<String>) {
    let seen = after.pods.iter().filter_map(|(key, pod)| {
        let was = before.pods.get(key).map(|was| was.state);
        Some((key.1.as_str(), deed(was, pod)?))
    });
    let gone = before.pods.keys().filter(|key| !after.pods.contains_key(*key));
    let mut told: BTreeMap<(&str, Deed<'_>), Vec<&str>> = BTreeMap::new();
    for (name, deed) in seen.chain(gone.map(|key| (key.1.as_str(), Deed::Goes))) {
        told.entry((owner(name), deed)).or_default().push(name);
    }
    for ((owner, deed), names) in told {
        lines.push(match names[..] {
            [name] => format!("pod {name} {}", deed.of_one()),
            _ => format!("{} pods of {owner} {}", names.len(), deed.of_many()),
        });
    }
}

fn deed(was: Option<PodState>, pod: &PodSeen) -> Option<Deed<'_>> {
    match (was, pod.state) {
        (None, PodState::Pending) => Some(Deed::Waits),
        (was, PodState::Running) if was != Some(PodState::Running) => {
            Some(Deed::Runs(pod.node.as_deref().unwrap_or_default()))
        }
        (Some(PodState::Running), PodState::Present) => Some(Deed::Stops),
        (Some(PodState::Running), PodState::Pending) => Some(Deed::WaitsAgain),
        _ => None,
    }
}

/// What happens to pods, in the order in which it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed<'a> {
    Waits,
    WaitsAgain,
    Runs(&'a str),
    Stops,
    Goes,
}

impl Deed<'_> {
    fn of_one(self) -> String {
        match self {
            Self::Waits => "waits for a node".to_owned(),
            Self::WaitsAgain => "waits for a node again".to_owned(),
            Self::Runs(node) => format!("runs on {node}"),
            Self::Stops => "stops".to_owned(),
            Self::Goes => "is gone".to_owned(),
        }
    }

    fn of_many(self) -> String {
        match self {
            Self::Waits => "wait for a node".to_owned(),
            Self::WaitsAgain => "wait for a node again".to_owned(),
            Self::Runs(node) => format!("run on {node}"),
            Self::Stops => "stop".to_owned(),
            Self::Goes => "are gone".to_owned(),
        }
    }
}

/// Whoever made a pod: all of its name but the last word.
fn owner(pod: &str) -> &str {
    pod.rsplit_once('-').map_or(pod, |(owner, _)| owner)
}

fn holds(before: &Scene, after: &Scene, lines: &mut Vec<String>) {
    for (key, hold) in &after.withheld {
        if before.withheld.get(key) != Some(hold) {
            let minutes = (after.at.duration_until(hold.until).as_secs() + 30) / 60;
            let minutes = if minutes == 1 {
                "a minute".to_owned()
            } else {
                format!("{minutes} minutes")
            };
            lines.push(format!("{key} is withheld for {minutes}: {}", hold.reason));
        }
    }
    for key in before
        .withheld
        .keys()
        .filter(|key| !after.withheld.contains_key(*key))
    {
        lines.push(format!("{key} is offered again"));
    }
}

/// What is said in the same words about several objects of a kind is told in one line.
fn events(before: &Scene, after: &Scene, lines: &mut Vec<String>) {
    let mut told: BTreeMap<(&str, String, &str), Vec<&str>> = BTreeMap::new();
    for (key, event) in &after.events {
        if event.reporter == REPORTER && !before.events.contains_key(key) {
            let what = (
                event.reason.as_str(),
                event.kind.to_lowercase(),
                event.message.as_str(),
            );
            told.entry(what).or_default().push(&event.name);
        }
    }
    for ((reason, kind, message), names) in told {
        lines.push(match names[..] {
            [name] => format!("event {reason} on {kind} {name}: {message}"),
            _ => format!("event {reason} on {} {kind}s: {message}", names.len()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::scenario::scene::{EventSeen, Hold};

    fn claim(state: ClaimState) -> Claim {
        Claim {
            uid: "u".to_owned(),
            labels: [].into(),
            state,
            wishes: [Some("bxf-4x16".to_owned()), None, Some("spot".to_owned())],
            holds: None,
        }
    }

    fn with(change: impl FnOnce(&mut Scene)) -> Scene {
        let mut scene = Scene::default();
        change(&mut scene);
        scene
    }

    fn claimed(state: ClaimState) -> Scene {
        with(|scene| {
            scene.claims.insert("a".to_owned(), claim(state));
        })
    }

    #[test]
    fn pods_of_one_owner_are_told_of_together() {
        let after = with(|scene| {
            for name in ["web-7f-a", "web-7f-b", "web-7f-c", "db-0"] {
                let pod = PodSeen {
                    labels: [].into(),
                    state: PodState::Running,
                    node: Some(if name == "web-7f-c" { "m" } else { "n" }.to_owned()),
                };
                scene.pods.insert(("default".to_owned(), name.to_owned()), pod);
            }
        });
        assert_eq!(
            changes(&Scene::default(), &after),
            [
                "pod db-0 runs on n",
                "pod web-7f-c runs on m",
                "2 pods of web-7f run on n"
            ]
        );
        assert_eq!(
            changes(&after, &Scene::default()),
            ["pod db-0 is gone", "3 pods of web-7f are gone"]
        );
    }

    #[test]
    fn nothing_is_told_when_nothing_happened() {
        let scene = claimed(ClaimState::Launched);
        assert!(changes(&scene, &scene).is_empty());
    }

    #[test]
    fn a_claim_is_followed_from_the_wish_to_the_end() {
        let nothing = Scene::default();
        let told = |before: &Scene, after: &Scene| changes(before, after).join("; ");
        let (wish, joined) = (claimed(ClaimState::Present), claimed(ClaimState::Registered));
        assert_eq!(told(&nothing, &wish), "claim a asks for bxf-4x16, spot");
        assert_eq!(told(&wish, &joined), "claim a is registered: its node has joined");
        assert_eq!(told(&joined, &claimed(ClaimState::Leaving)), "claim a is leaving");
        assert_eq!(told(&joined, &nothing), "claim a is gone");
    }

    #[test]
    fn a_claim_of_the_same_name_is_another_claim() {
        let mut other = claimed(ClaimState::Present);
        other.claims.get_mut("a").unwrap().uid = "v".to_owned();
        assert_eq!(
            changes(&claimed(ClaimState::Present), &other),
            ["claim a asks for bxf-4x16, spot"]
        );
    }

    #[test]
    fn pods_nodes_holds_and_our_own_events_are_told() {
        let after = with(|scene| {
            scene.at = "2026-11-16T10:00:00.4Z".parse().unwrap();
            scene.nodes.insert("n".to_owned(), NodeState::Ready);
            let pod = PodSeen {
                labels: [].into(),
                state: PodState::Running,
                node: Some("n".to_owned()),
            };
            scene.pods.insert(("default".to_owned(), "p".to_owned()), pod);
            let hold = Hold {
                reason: "Preempted".to_owned(),
                until: "2026-11-16T11:00:00Z".parse().unwrap(),
            };
            scene.withheld.insert("spot:bxf-4x16:us-south-1".to_owned(), hold);
            for (name, reporter) in [("1", REPORTER), ("2", "kubelet")] {
                let event = EventSeen {
                    reason: "SpotPreemption".to_owned(),
                    kind: "NodeClaim".to_owned(),
                    name: "a".to_owned(),
                    message: "IBM took it back".to_owned(),
                    reporter: reporter.to_owned(),
                };
                scene.events.insert(name.to_owned(), event);
            }
        });
        assert_eq!(
            changes(&Scene::default(), &after),
            [
                "node n joins, ready",
                "pod p runs on n",
                "spot:bxf-4x16:us-south-1 is withheld for 60 minutes: Preempted",
                "event SpotPreemption on nodeclaim a: IBM took it back",
            ]
        );
    }
}
