//! Whether what was expected is so.

use super::expectation::{ClaimState, Condition, Expectation, Left, MachineState, NodeState, PodState};
use super::scene::{Scene, machine_state, traits};

/// What came of looking for something that was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is so.
    Met,
    /// It is not: what is so instead.
    Unmet(String),
}

impl Expectation {
    /// Judges a moment.
    pub fn judge(&self, scene: &Scene) -> Verdict {
        let unmet: Vec<String> = self
            .conditions
            .iter()
            .filter_map(|condition| match condition.judge(scene) {
                Verdict::Met => None,
                Verdict::Unmet(instead) => Some(instead),
            })
            .collect();
        if unmet.is_empty() {
            Verdict::Met
        } else {
            Verdict::Unmet(unmet.join("; "))
        }
    }
}

impl Condition {
    /// Judges a moment.
    pub fn judge(&self, scene: &Scene) -> Verdict {
        match self {
            Self::Nodes(count, state) => {
                let fits = |seen: NodeState| *state == NodeState::Present || seen == *state;
                let nodes = scene.nodes.values().map(|&seen| (fits(seen), seen.as_str()));
                counted(*count, "nodes", nodes)
            }
            Self::Machines(count, state, selector) => {
                let fits = |seen: MachineState| *state == MachineState::Present || seen == *state;
                let machines = scene.machines.values();
                let meant = machines.filter(|machine| selector.matches(&traits(machine)));
                let states = meant.map(machine_state);
                counted(*count, "machines", states.map(|seen| (fits(seen), seen.as_str())))
            }
            Self::Claims(count, state) => {
                let states = scene.claims.values().map(|claim| claim.state);
                let claims = states.map(|seen| (reached(seen, *state), seen.as_str()));
                counted(*count, "claims", claims)
            }
            Self::Pods(count, state, selector) => {
                let fits = |seen: PodState| *state == PodState::Present || seen == *state;
                let pods = scene.pods.values().filter(|pod| selector.matches(&pod.labels));
                counted(
                    *count,
                    "pods",
                    pods.map(|pod| (fits(pod.state), pod.state.as_str())),
                )
            }
            other => other.judge_one(scene),
        }
    }

    fn judge_one(&self, scene: &Scene) -> Verdict {
        match self {
            Self::Claim(name, state) => claim(scene, name, *state),
            Self::Event(reason, on) => {
                let said = scene.events.values().any(|event| {
                    event.reason == *reason
                        && event.kind == on.kind
                        && (on.name == "*" || event.name == on.name)
                });
                met(said, || format!("no event {reason} on {}/{}", on.kind, on.name))
            }
            Self::LeftInCloud(Left::Nothing) => {
                let (machines, others) = (scene.machines.len(), scene.orphans.len());
                met(machines + others == 0, || {
                    format!("{machines} machines and {others} volumes or interfaces without one are left")
                })
            }
            Self::Holds(count, reason) => {
                let holds = scene.withheld.values();
                let held = holds.filter(|hold| hold.reason == *reason).count();
                met(usize::try_from(*count).is_ok_and(|count| count == held), || {
                    format!("{held} offerings are withheld as {reason}")
                })
            }
            Self::Withheld(key) => met(scene.withheld.contains_key(&key.to_string()), || {
                format!("{key} is not withheld")
            }),
            Self::Offered(key) => met(!scene.withheld.contains_key(&key.to_string()), || {
                format!("{key} is withheld")
            }),
            Self::Nodes(..) | Self::Machines(..) | Self::Claims(..) | Self::Pods(..) => self.judge(scene),
        }
    }
}

fn claim(scene: &Scene, name: &str, state: ClaimState) -> Verdict {
    match (scene.claims.get(name), state) {
        (None, ClaimState::Gone) => Verdict::Met,
        (None, _) => Verdict::Unmet(format!("there is no claim {name}")),
        (Some(claim), _) => met(reached(claim.state, state), || {
            format!("claim {name} is {}", claim.state.as_str())
        }),
    }
}

/// Whether a claim is as far as `state`: one that is initialized was registered and launched before. One that leaves
/// has left them all behind.
fn reached(seen: ClaimState, state: ClaimState) -> bool {
    match state {
        ClaimState::Present => true,
        ClaimState::Gone => false,
        ClaimState::Leaving => seen == ClaimState::Leaving,
        ClaimState::Launched | ClaimState::Registered | ClaimState::Initialized => {
            seen >= state && seen <= ClaimState::Initialized
        }
    }
}

/// Judges a number, given for each thing whether it counts and what it is.
fn counted(wanted: u32, what: &str, things: impl Iterator<Item = (bool, &'static str)>) -> Verdict {
    let mut things: Vec<(bool, &str)> = things.collect();
    let count = things.iter().filter(|(counts, _)| *counts).count();
    if usize::try_from(wanted).is_ok_and(|wanted| wanted == count) {
        return Verdict::Met;
    }
    things.sort_by_key(|(_, word)| *word);
    let words: Vec<&str> = things.iter().map(|(_, word)| *word).collect();
    Verdict::Unmet(if words.is_empty() {
        format!("there are no {what}")
    } else {
        format!("{} {what}: {}", words.len(), words.join(", "))
    })
}

fn met(so: bool, instead: impl FnOnce() -> String) -> Verdict {
    if so {
        Verdict::Met
    } else {
        Verdict::Unmet(instead())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::scenario::scene::{Claim, EventSeen, PodSeen};
    use crate::sim::scenario::{Selector, Target};

    fn claim_in(state: ClaimState) -> Claim {
        Claim {
            uid: String::new(),
            labels: [].into(),
            state,
            wishes: [None, None, None],
            holds: None,
        }
    }

    fn pod(app: &str, state: PodState) -> PodSeen {
        PodSeen {
            labels: [("app".to_owned(), app.to_owned())].into(),
            state,
            node: None,
        }
    }

    fn scene() -> Scene {
        let mut scene = Scene::default();
        scene.nodes.insert("a".to_owned(), NodeState::Ready);
        scene.nodes.insert("b".to_owned(), NodeState::NotReady);
        scene
            .claims
            .insert("a".to_owned(), claim_in(ClaimState::Initialized));
        scene.claims.insert("b".to_owned(), claim_in(ClaimState::Leaving));
        for (name, app, state) in [("x", "web", PodState::Running), ("y", "db", PodState::Pending)] {
            scene
                .pods
                .insert(("default".to_owned(), name.to_owned()), pod(app, state));
        }
        scene
    }

    fn web() -> Selector {
        Selector([("app".to_owned(), "web".to_owned())].into())
    }

    #[test]
    fn what_is_so_is_met() {
        for condition in [
            Condition::Nodes(2, NodeState::Present),
            Condition::Nodes(1, NodeState::Ready),
            Condition::Claims(1, ClaimState::Launched),
            Condition::Claim("a".to_owned(), ClaimState::Registered),
            Condition::Claim("b".to_owned(), ClaimState::Leaving),
            Condition::Claim("c".to_owned(), ClaimState::Gone),
            Condition::Pods(1, PodState::Running, web()),
            Condition::Pods(2, PodState::Present, Selector::default()),
            Condition::Machines(0, MachineState::Present, Selector::default()),
            Condition::LeftInCloud(Left::Nothing),
            Condition::Offered("spot:bxf-4x16:us-south-1".parse().unwrap()),
        ] {
            assert_eq!(condition.judge(&scene()), Verdict::Met, "{condition}");
        }
    }

    #[test]
    fn what_is_not_so_says_what_is() {
        let table = [
            (Condition::Nodes(2, NodeState::Ready), "2 nodes: not-ready, ready"),
            (
                Condition::Machines(1, MachineState::Running, Selector::default()),
                "there are no machines",
            ),
            (
                Condition::Claim("b".to_owned(), ClaimState::Launched),
                "claim b is leaving",
            ),
            (
                Condition::Claim("b".to_owned(), ClaimState::Gone),
                "claim b is leaving",
            ),
            (
                Condition::Claim("c".to_owned(), ClaimState::Present),
                "there is no claim c",
            ),
            (Condition::Pods(3, PodState::Running, web()), "1 pods: running"),
            (
                Condition::Withheld("spot:bxf-4x16:us-south-1".parse().unwrap()),
                "spot:bxf-4x16:us-south-1 is not withheld",
            ),
        ];
        for (condition, said) in table {
            assert_eq!(
                condition.judge(&scene()),
                Verdict::Unmet(said.to_owned()),
                "{condition}"
            );
        }
    }

    #[test]
    fn an_event_counts_by_reason_kind_and_name() {
        let mut scene = scene();
        let event = EventSeen {
            reason: "SpotPreemption".to_owned(),
            kind: "NodeClaim".to_owned(),
            name: "a".to_owned(),
            message: String::new(),
            reporter: String::new(),
        };
        scene.events.insert("default/a.1".to_owned(), event);
        let on = |name: &str| {
            let target = Target {
                api_version: None,
                kind: "NodeClaim".to_owned(),
                namespace: None,
                name: name.to_owned(),
            };
            Condition::Event("SpotPreemption".to_owned(), target)
        };
        assert_eq!(on("a").judge(&scene), Verdict::Met);
        assert_ne!(on("b").judge(&scene), Verdict::Met);
    }

    #[test]
    fn an_expectation_is_met_when_all_of_it_is() {
        let both = Expectation {
            within: std::time::Duration::ZERO,
            conditions: vec![
                Condition::Nodes(1, NodeState::Ready),
                Condition::Nodes(5, NodeState::Present),
            ],
        };
        assert_eq!(
            both.judge(&scene()),
            Verdict::Unmet("2 nodes: not-ready, ready".to_owned())
        );
    }
}
