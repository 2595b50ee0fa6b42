//! The live view: what there is right now, in a few lines below the story.

use std::time::Duration;

use crate::sim::scenario::scene::{Scene, machine_state};
use crate::sim::scenario::{MachineState, NodeState, PodState};

/// Machines that are listed; of more there is only the number.
const ROWS_MAX: usize = 8;

/// The lines of the view.
pub(super) fn panel(at: Duration, speed: &str, scene: &Scene) -> Vec<String> {
    let mut lines = vec![title(at, speed), totals(scene)];
    lines.extend(machines(scene));
    lines.extend(withheld(scene));
    lines
}

fn title(at: Duration, speed: &str) -> String {
    let seconds = at.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let time = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    format!("──── {time} {speed} ──── Ctrl-C ends ────")
}

fn totals(scene: &Scene) -> String {
    let ready = scene
        .nodes
        .values()
        .filter(|state| **state == NodeState::Ready)
        .count();
    let pods = |state: PodState| scene.pods.values().filter(|pod| pod.state == state).count();
    let running = scene
        .machines
        .values()
        .filter(|machine| machine_state(machine) == MachineState::Running);
    format!(
        "${:.4} an hour   machines {}/{} running   nodes {ready}/{} ready   pods {} running, {} waiting",
        scene.usd_per_hour(),
        running.count(),
        scene.machines.len(),
        scene.nodes.len(),
        pods(PodState::Running),
        pods(PodState::Pending),
    )
}

fn machines(scene: &Scene) -> Vec<String> {
    let mut rows: Vec<String> = scene
        .claims
        .iter()
        .take(ROWS_MAX)
        .map(|(name, claim)| {
            let machine = claim.holds.as_ref().map_or_else(String::new, |holds| {
                format!("{} {} {}", holds.capacity_type, holds.profile, holds.zone)
            });
            let node = scene.nodes.get(name).map_or("no node", |state| match state {
                NodeState::Ready => "node ready",
                _ => "node not ready",
            });
            let name: String = name.chars().take(20).collect();
            format!("  {name:<20} {:<12} {machine:<32} {node}", claim.state.as_str())
        })
        .collect();
    let more = scene.claims.len().saturating_sub(ROWS_MAX);
    if more > 0 {
        rows.push(format!("  and {more} more"));
    }
    rows
}

fn withheld(scene: &Scene) -> Option<String> {
    if scene.withheld.is_empty() {
        return None;
    }
    let keys: Vec<&str> = scene.withheld.keys().map(String::as_str).collect();
    Some(format!("withheld: {}", keys.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::scenario::ClaimState;
    use crate::sim::scenario::scene::{Claim, Hold, PodSeen};

    fn scene(claims: usize) -> Scene {
        let mut scene = Scene::default();
        for number in 0..claims {
            let claim = Claim {
                uid: number.to_string(),
                labels: [].into(),
                state: ClaimState::Initialized,
                wishes: [None, None, None],
                holds: None,
            };
            scene.claims.insert(format!("web-{number:02}"), claim);
        }
        scene.nodes.insert("web-00".to_owned(), NodeState::Ready);
        let pod = PodSeen {
            labels: [].into(),
            state: PodState::Pending,
            node: None,
        };
        scene.pods.insert(("default".to_owned(), "a".to_owned()), pod);
        scene
    }

    #[test]
    fn an_empty_stage_is_two_lines() {
        let lines = panel(Duration::from_secs(3725), "20x", &Scene::default());
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("01:02:05 20x"), "{}", lines[0]);
        assert!(lines[1].contains("$0.0000 an hour"), "{}", lines[1]);
    }

    #[test]
    fn claims_nodes_and_pods_are_counted_and_named() {
        let lines = panel(Duration::ZERO, "20x", &scene(1));
        assert!(
            lines[1].ends_with("nodes 1/1 ready   pods 0 running, 1 waiting"),
            "{}",
            lines[1]
        );
        assert!(
            lines[2].contains("web-00") && lines[2].contains("initialized"),
            "{}",
            lines[2]
        );
        assert!(lines[2].ends_with("node ready"), "{}", lines[2]);
    }

    #[test]
    fn many_claims_are_not_all_listed() {
        let lines = panel(Duration::ZERO, "20x", &scene(30));
        assert_eq!(lines.len(), 2 + ROWS_MAX + 1);
        assert_eq!(lines.last().unwrap(), "  and 22 more");
    }

    #[test]
    fn what_is_withheld_is_named() {
        let mut scene = scene(0);
        let hold = Hold {
            reason: "Preempted".to_owned(),
            until: jiff::Timestamp::default(),
        };
        scene.withheld.insert("spot:bxf-4x16:us-south-1".to_owned(), hold);
        let lines = panel(Duration::ZERO, "20x", &scene);
        assert_eq!(lines.last().unwrap(), "withheld: spot:bxf-4x16:us-south-1");
    }
}
