//! The live view: what there is right now, in a few lines below the story.

use std::time::Duration;

use console::measure_text_width;

use super::wrap::wrapped;
use crate::sim::ibm::InstanceTruth;
use crate::sim::scenario::scene::{Claim, Hold, Scene, machine_state};
use crate::sim::scenario::{ClaimState, MachineState, NodeState, PodState};

/// Machines that are listed; of more there is only the number.
const ROWS_MAX: usize = 8;
/// Offerings that are withheld and listed; of more there is only the number.
const HOLDS_MAX: usize = 4;
/// What a machine says of itself that IBM took back.
const PREEMPTED: &str = "stopped_by_preemption";

/// What the title says beside the time.
pub(super) struct Heading {
    /// How fast time passes.
    pub(super) speed: String,
    /// Where the kubeconfig is, as a shell reads it.
    pub(super) kubeconfig: String,
}

/// How much of a terminal the view may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) lines: usize,
    pub(super) columns: usize,
}

/// The lines of the view: at most as many as there is room for. What does not fit is left out from the end, and counted.
pub(super) fn panel(at: Duration, heading: &Heading, scene: &Scene, room: Room) -> Vec<String> {
    let mut lines = vec![title(at, heading, room.columns)];
    lines.extend(wrapped(&totals(scene), room.columns, 2));
    lines.truncate(room.lines);
    let left = room.lines - lines.len();
    lines.extend(shortened(machines(scene), ROWS_MAX, left, "more"));
    let left = room.lines - lines.len();
    lines.extend(shortened(withheld(scene), HOLDS_MAX, left, "more withheld"));
    lines
}

fn title(at: Duration, heading: &Heading, columns: usize) -> String {
    let seconds = at.as_secs();
    // As the story has it.
    let time = format!("{:02}:{:02} {}", seconds / 60, seconds % 60, heading.speed);
    let kubeconfig = &heading.kubeconfig;
    let choices = [
        format!("──── {time} ──── Ctrl-C ends ──── {kubeconfig} ────"),
        format!("{time} ── Ctrl-C ends ── {kubeconfig}"),
    ];
    let fitting = choices
        .into_iter()
        .find(|choice| measure_text_width(choice) <= columns);
    fitting.unwrap_or_else(|| format!("──── {time} ──── Ctrl-C ends ────"))
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
        "${:.4} an hour, {}/{} machines run, {ready}/{} nodes ready, {} pods run, {} wait",
        scene.usd_per_hour(),
        running.count(),
        scene.machines.len(),
        scene.nodes.len(),
        pods(PodState::Running),
        pods(PodState::Pending),
    )
}

/// At most so many lines, the last of which says how many more there are.
fn shortened(mut lines: Vec<String>, most: usize, room: usize, what: &str) -> Vec<String> {
    if lines.len() > most.min(room) {
        let listed = most.min(room.saturating_sub(1));
        let more = lines.len() - listed;
        lines.truncate(listed);
        lines.push(format!("  and {more} {what}"));
        lines.truncate(room);
    }
    lines
}

/// A row for each claim, in columns as wide as what is in them: names can be copied whole.
fn machines(scene: &Scene) -> Vec<String> {
    let rows: Vec<[String; 4]> = scene
        .claims
        .iter()
        .map(|(name, claim)| row(name, claim, scene))
        .collect();
    let widths = [0, 1, 2].map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let aligned = rows.iter().map(|[name, state, machine, price]| {
        let [first, second, third] = widths;
        let row = format!("  {name:first$} {state:second$} {machine:third$} {price}");
        row.trim_end().to_owned()
    });
    aligned.collect()
}

/// The name of a claim, how far it is, what it holds, and what that costs an hour.
fn row(name: &str, claim: &Claim, scene: &Scene) -> [String; 4] {
    let machine = claim.holds.as_ref().and_then(|holds| {
        let mut machines = scene.machines.values();
        machines.find(|machine| machine.name == holds.instance_name)
    });
    let state = state(claim, machine, scene.nodes.get(name).copied());
    let holds = claim.holds.as_ref();
    let described = holds.map(|holds| format!("{} {} {}", holds.capacity_type, holds.profile, holds.zone));
    let price = machine
        .and_then(|machine| machine.usd_per_hour)
        .or_else(|| holds?.price.as_ref().map(|price| price.0));
    [
        name.to_owned(),
        state.to_owned(),
        described.unwrap_or_default(),
        price.map(|price| price.to_string()).unwrap_or_default(),
    ]
}

/// How far a claim is, in plain words: what its machine does, and once that runs, what its node does.
fn state(claim: &Claim, machine: Option<&InstanceTruth>, node: Option<NodeState>) -> &'static str {
    let is_leaving = claim.state == ClaimState::Leaving;
    let Some(machine) = machine else {
        return if is_leaving { "leaving" } else { "ordered" };
    };
    match machine_state(machine) {
        MachineState::Stopped if machine.reason.as_deref() == Some(PREEMPTED) => "preempted",
        MachineState::Stopped => "stopped",
        MachineState::Failed => "failed",
        MachineState::Deleting => "leaving",
        MachineState::Present if machine.status == "stopping" => "stopping",
        _ if is_leaving => "leaving",
        MachineState::Starting => "starting",
        _ => match (node, claim.state) {
            (None, _) => "running",
            (Some(NodeState::Ready), ClaimState::Initialized) => "ready",
            (Some(_), ClaimState::Initialized) => "not ready",
            (Some(_), _) => "joining",
        },
    }
}

fn withheld(scene: &Scene) -> Vec<String> {
    let line = |(key, hold): (&String, &Hold)| {
        let seconds = scene.at.duration_until(hold.until).as_secs().max(0);
        format!(
            "withheld: {} ({}, {} min)",
            key.replace(':', " "),
            hold.reason.to_lowercase(),
            (seconds + 59) / 60,
        )
    };
    scene.withheld.iter().map(line).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::money::Price;
    use crate::sim::ibm::Class;
    use crate::sim::scenario::scene::PodSeen;

    /// As most terminals begin, with the last column and the cursor's line left free.
    const USUAL: Room = Room {
        lines: 23,
        columns: 79,
    };

    pub(in crate::cli::demo) fn heading() -> Heading {
        Heading {
            speed: "20x".to_owned(),
            kubeconfig: "/run/user/1000/karpenter-ibm/demo-12345.kubeconfig".to_owned(),
        }
    }

    /// A moment with so many claims without machines, of which the first has a node, and a pod that waits.
    pub(in crate::cli::demo) fn scene(claims: usize) -> Scene {
        let mut scene = Scene::default();
        for number in 0..claims {
            scene
                .claims
                .insert(format!("web-{number:02}"), claim(ClaimState::Initialized));
        }
        if claims > 0 {
            scene.nodes.insert("web-00".to_owned(), NodeState::Ready);
        }
        let pod = PodSeen {
            labels: [].into(),
            state: PodState::Pending,
            node: None,
        };
        scene.pods.insert(("default".to_owned(), "a".to_owned()), pod);
        scene
    }

    fn claim(state: ClaimState) -> Claim {
        Claim {
            uid: "u".to_owned(),
            labels: [].into(),
            state,
            wishes: [None, None, None],
            holds: None,
        }
    }

    fn machine(name: &str, status: &'static str) -> InstanceTruth {
        InstanceTruth {
            id: name.to_owned(),
            name: name.to_owned(),
            crn: String::new(),
            profile: "cxf-4x8",
            zone: "us-south-1".to_owned(),
            class: Class::Spot,
            status,
            reason: None,
            created_at: Timestamp::default(),
            address: None,
            vpc: String::new(),
            subnet: String::new(),
            resource_group: String::new(),
            image: String::new(),
            user_data: None,
            metadata_service: true,
            boot_volume_gb: 100,
            tags: [].into(),
            usd_per_hour: Price::from_usd(0.171),
            on_demand_usd_per_hour: None,
            price_certainty: "",
        }
    }

    /// A claim and its machine, in a state of its node.
    fn add(scene: &mut Scene, name: &str, capacity_type: &str, node: NodeState) {
        let holds = serde_json::json!({
            "profile": "cxf-4x8", "zone": "us-south-1", "capacityType": capacity_type, "subnet": "s",
            "instanceName": name, "attempt": 1, "since": "1970-01-01T00:00:00Z",
        });
        let mut claim = claim(ClaimState::Initialized);
        claim.holds = Some(serde_json::from_value(holds).unwrap());
        scene.claims.insert(name.to_owned(), claim);
        scene.machines.insert(name.to_owned(), machine(name, "running"));
        scene.nodes.insert(name.to_owned(), node);
    }

    fn withhold(scene: &mut Scene, profile: &str) {
        let hold = Hold {
            reason: "Preempted".to_owned(),
            until: "1970-01-01T00:51:30Z".parse().unwrap(),
        };
        scene.withheld.insert(format!("spot:{profile}:us-south-1"), hold);
    }

    #[test]
    fn an_empty_stage_is_two_lines_and_tells_the_time_as_the_story_does() {
        let lines = panel(Duration::from_secs(3725), &heading(), &Scene::default(), USUAL);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("62:05 20x ── "), "{}", lines[0]);
        assert!(lines[1].contains("$0.0000 an hour"), "{}", lines[1]);
    }

    #[test]
    fn the_title_names_the_kubeconfig_where_it_fits() {
        let title = |columns| title(Duration::ZERO, &heading(), columns);
        let path = heading().kubeconfig;
        assert!(title(120).ends_with(&format!(" {path} ────")), "{}", title(120));
        assert!(title(79).ends_with(&path), "{}", title(79));
        assert_eq!(title(70), "──── 00:00 20x ──── Ctrl-C ends ────");
    }

    #[test]
    fn the_demo_fits_a_usual_terminal_with_its_names_whole() {
        let mut scene = scene(0);
        let spot = [
            "spot-first-1d8b8191b2",
            "spot-first-58b2d81e46",
            "spot-first-5b0e11d785",
        ];
        for name in spot {
            add(&mut scene, name, "spot", NodeState::Ready);
        }
        let fallback = "on-demand-fallback-b78b6a35fb";
        add(&mut scene, fallback, "on-demand", NodeState::NotReady);
        for profile in ["bxf-4x16", "cxf-4x8"] {
            withhold(&mut scene, profile);
        }
        let lines = panel(Duration::from_mins(25), &heading(), &scene, USUAL);
        for line in &lines {
            assert!(measure_text_width(line) <= USUAL.columns, "{line}");
        }
        assert_eq!(
            lines[1..],
            [
                "$0.6840 an hour, 4/4 machines run, 3/4 nodes ready, 0 pods run, 1 wait",
                "  on-demand-fallback-b78b6a35fb not ready on-demand cxf-4x8 us-south-1 $0.1710",
                "  spot-first-1d8b8191b2         ready     spot cxf-4x8 us-south-1      $0.1710",
                "  spot-first-58b2d81e46         ready     spot cxf-4x8 us-south-1      $0.1710",
                "  spot-first-5b0e11d785         ready     spot cxf-4x8 us-south-1      $0.1710",
                "withheld: spot bxf-4x16 us-south-1 (preempted, 52 min)",
                "withheld: spot cxf-4x8 us-south-1 (preempted, 52 min)",
            ]
        );
    }

    #[test]
    fn totals_that_do_not_fit_go_on_in_the_next_line() {
        let room = Room {
            lines: 23,
            columns: 40,
        };
        let lines = panel(Duration::ZERO, &heading(), &scene(0), room);
        assert_eq!(
            lines[1..],
            [
                "$0.0000 an hour, 0/0 machines run, 0/0",
                "  nodes ready, 0 pods run, 1 wait"
            ]
        );
    }

    #[test]
    fn how_far_a_claim_is_is_said_in_plain_words() {
        let told = |claimed, status, reason: Option<&str>, node| {
            let mut machine = machine("m", status);
            machine.reason = reason.map(str::to_owned);
            state(&claim(claimed), Some(&machine), node)
        };
        let (ready, not_ready) = (Some(NodeState::Ready), Some(NodeState::NotReady));
        let table = [
            (ClaimState::Present, "starting", None, None, "starting"),
            (ClaimState::Launched, "running", None, None, "running"),
            (ClaimState::Registered, "running", None, ready, "joining"),
            (ClaimState::Initialized, "running", None, ready, "ready"),
            (ClaimState::Initialized, "running", None, not_ready, "not ready"),
            (ClaimState::Initialized, "stopping", None, not_ready, "stopping"),
            (
                ClaimState::Leaving,
                "stopped",
                Some(PREEMPTED),
                not_ready,
                "preempted",
            ),
            (ClaimState::Present, "stopped", None, None, "stopped"),
            (ClaimState::Leaving, "running", None, ready, "leaving"),
            (ClaimState::Leaving, "deleting", None, not_ready, "leaving"),
        ];
        for (claimed, status, reason, node, words) in table {
            assert_eq!(told(claimed, status, reason, node), words, "{claimed:?} {status}");
        }
        assert_eq!(state(&claim(ClaimState::Present), None, None), "ordered");
        assert_eq!(state(&claim(ClaimState::Leaving), None, not_ready), "leaving");
    }

    #[test]
    fn many_claims_and_holds_are_not_all_listed() {
        let mut scene = scene(30);
        for number in 0..6 {
            withhold(&mut scene, &format!("bxf-{number}"));
        }
        let lines = panel(Duration::ZERO, &heading(), &scene, USUAL);
        assert_eq!(lines.len(), 2 + ROWS_MAX + 1 + HOLDS_MAX + 1);
        assert_eq!(lines[2 + ROWS_MAX], "  and 22 more");
        assert_eq!(lines.last().unwrap(), "  and 2 more withheld");
    }

    #[test]
    fn the_view_is_never_longer_than_the_room_and_what_is_left_out_is_counted() {
        for claims in 0..12 {
            for holds in 0..6 {
                let mut scene = scene(claims);
                for number in 0..holds {
                    withhold(&mut scene, &format!("bxf-{number}"));
                }
                for lines in 0..20 {
                    let room = Room { lines, columns: 79 };
                    let view = panel(Duration::ZERO, &heading(), &scene, room);
                    assert!(view.len() <= lines, "{lines}: {view:?}");
                    let listed = view.iter().filter(|line| line.starts_with("  web-")).count();
                    let counted = format!("  and {} more", claims - listed);
                    let is_counted = view.contains(&counted);
                    assert!(listed == claims || lines <= 2 || is_counted, "{lines}: {view:?}");
                }
            }
        }
    }
}
