//! How the story goes: a script to its end, and any other until the user ends the demo.
//!
//! A script fails with the first step that does not happen. Otherwise there may be somebody who meddles, as the demo itself
//! invites people to: what does not happen then ends the story alone, and they have the stage. An illegal plan is nobody's
//! doing but the operator's, and ends either. The stage is handed over with a cloud that is well: what the story did to it
//! ends with it.

use super::show::{Afterwards, Show};
use super::troubles;
use crate::sim::scenario::{Audience, Failure, Hands, Player};

/// What is said when everything is prepared for whoever watches.
const YOURS: &str = "The stage is yours, with its NodePools: `kubectl create deployment web --image nginx --replicas 3`, and machines \
                     come. Ctrl-C ends the demo.";

/// Tells the story; what comes after it lasts for as long as this is polled. `spare` takes back a crash of the operator that
/// is yet to come, and says whether there was one.
pub(super) async fn tell(
    show: &Show,
    hands: &Hands,
    spare: &dyn Fn() -> bool,
    house: &mut dyn Audience,
) -> Result<(), Failure> {
    let mut player = Player::new(hands, house);
    let played = player.play(&show.scenario).await;
    if show.afterwards == Afterwards::Over {
        return played;
    }
    let mut taken = show.scenario.steps.as_slice();
    if let Err(failure) = played {
        let (step, why) = meddled(failure)?;
        taken = taken.get(..step).unwrap_or(taken);
        player.narrate(&format!("The story goes no further: {why}."));
    }
    troubles::end(taken, hands, spare, &mut player).await;
    let yours = open(show, &mut player).await;
    player.narrate(&yours);
    player.watch().await
}

/// The step that did not happen, from 1, and why, if that may be the work of somebody who has a hand in the story.
fn meddled(failure: Failure) -> Result<(usize, String), Failure> {
    match failure {
        Failure::Unmet {
            step,
            expected,
            within,
            instead,
            ..
        } => {
            let within = jiff::SignedDuration::try_from(within).unwrap_or(jiff::SignedDuration::MAX);
            let why = format!("{expected} was expected within {within:#}, but {instead}");
            Ok((step, why))
        }
        Failure::Refused { step, reason, .. } => Ok((step, reason.to_string())),
        fault @ (Failure::Absent { .. } | Failure::IllegalPlan(_)) => Err(fault),
    }
}

/// Prepares the stage for whoever watches, and gives what is to be said then.
async fn open(show: &Show, player: &mut Player<'_>) -> String {
    if show.encore.is_empty() {
        return YOURS.to_owned();
    }
    match player.apply(&show.encore).await {
        Ok(()) => YOURS.to_owned(),
        Err(reason) => {
            format!("The stage is yours, but without its NodePools: {reason}. Ctrl-C ends the demo.")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use super::super::show::Tempo;
    use super::*;
    use crate::api::crd::definitions;
    use crate::audit::{Finding, Rule};
    use crate::clock::Clock;
    use crate::sim::ibm::{self, Cloud};
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options, write};
    use crate::sim::scenario::{Line, Scenario};
    use crate::sim::world::product::Findings;

    /// How long the stage is looked at after the story at most.
    const LOOKED_AT: Duration = Duration::from_mins(5);

    fn hands() -> Hands {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock: clock.clone(),
            seed: 1,
            keys: Keys::Fixed,
        });
        for definition in definitions().unwrap() {
            write::insert(&server, definition.object);
        }
        Hands {
            client: server.admin(),
            cloud: Cloud::new(ibm::Options::new("us-south", 1, clock.clone())),
            clock,
            crash: Arc::new(|_| {}),
            configuration: None,
            findings: Findings::default(),
        }
    }

    fn show(steps: &str, encore: &str, afterwards: Afterwards) -> Show {
        let text = format!("name: x\nabout: y\nsteps:\n{steps}");
        Show {
            scenario: Scenario::parse("x.yaml", &text).unwrap(),
            encore: vec![json!({ "apiVersion": "v1", "kind": encore, "metadata": { "name": "a" } })],
            tempo: Tempo::Unbounded,
            afterwards,
            seed: 1,
            kubeconfig: None,
            listen: "127.0.0.1:0".parse().unwrap(),
            cloud_listen: "127.0.0.1:0".parse().unwrap(),
            picture: None,
        }
    }

    /// What was told, and why the story ended: nothing if whoever watches still has the stage.
    async fn told(show: &Show, hands: &Hands) -> (Vec<String>, Option<Failure>) {
        told_before_a_crash(show, hands, false).await
    }

    /// The same, and whether the operator is to crash.
    async fn told_before_a_crash(show: &Show, hands: &Hands, comes: bool) -> (Vec<String>, Option<Failure>) {
        let (mut lines, comes) = (Vec::new(), Cell::new(comes));
        let mut house = |line: Line| lines.push(line.to_string());
        let spare = || comes.replace(false);
        let told = tokio::time::timeout(LOOKED_AT, tell(show, hands, &spare, &mut house)).await;
        let failure = told.ok().map(|told| told.expect_err("it ended by itself"));
        (lines, failure)
    }

    /// A step that somebody may keep from happening, and what is said of it.
    const IN_VAIN: [(&str, &str); 2] = [
        (
            "  - expect: {within: 1m30s, nodes: 1 ready}\n",
            "[01:30] The story goes no further: 1 node ready was expected within 1m 30s, but there are no nodes.",
        ),
        (
            "  - delete: {kind: ConfigMap, name: nosuch}\n",
            "[00:00] The story goes no further: deleting ConfigMap nosuch: configmaps \"nosuch\" not found.",
        ),
    ];

    #[tokio::test(start_paused = true)]
    async fn whoever_meddles_with_the_story_has_the_stage() {
        for (step, said) in IN_VAIN {
            let steps = format!("{step}  - say: Never told.\n");
            let (lines, failure) = told(&show(&steps, "ConfigMap", Afterwards::Open), &hands()).await;
            assert!(failure.is_none(), "{failure:?}");
            assert_eq!(lines[0], said);
            assert!(lines[1].ends_with("> somebody applies ConfigMap a"), "{lines:?}");
            assert!(lines[2].ends_with(YOURS), "{lines:?}");
            assert_eq!(lines.len(), 3, "{lines:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gets_the_stage_in_the_midst_of_troubles_gets_it_without_them() {
        let steps = "  - drain: {profile: cxf-4x8, class: spot}\n  - drain: {profile: bxf-4x16}\n  \
                     - refill: {profile: bxf-4x16}\n  - fault: {kind: slow, for: 9h}\n  \
                     - fault: {kind: lost-create, times: 1}\n  - crash: {after-effects: 5}\n  \
                     - delete: {kind: ConfigMap, name: nosuch}\n  - drain: {profile: bxf-2x8}\n";
        let hands = hands();
        let show = show(steps, "ConfigMap", Afterwards::Open);
        let (lines, failure) = told_before_a_crash(&show, &hands, true).await;
        assert!(failure.is_none(), "{failure:?}");
        let stopped = lines.iter().position(|line| line.contains("goes no further"));
        let after = &lines[stopped.unwrap() + 1..];
        let said = [
            "> there is spot cxf-4x8 again in every zone",
            "From now on no longer: ",
            "From now on no longer: ",
            "The operator does not crash after all.",
            "> somebody applies ConfigMap a",
            YOURS,
        ];
        assert_eq!(after.len(), said.len(), "{after:?}");
        for (line, said) in after.iter().zip(said) {
            assert!(line.contains(said), "{line}");
        }
        assert!(hands.cloud.faults().active().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_script_fails_with_a_step_that_does_not_happen() {
        for (step, _) in IN_VAIN {
            let (lines, failure) = told(&show(step, "ConfigMap", Afterwards::Over), &hands()).await;
            assert!(failure.is_some());
            assert_eq!(lines, [""; 0]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_illegal_plan_ends_the_demo_too() {
        let hands = hands();
        let finding = Finding {
            rule: Rule::Once,
            subject: "pod a".to_owned(),
            found: "it is placed twice".to_owned(),
        };
        (hands.findings.alarm().0)(&finding);
        let (lines, failure) = told(&show("  []\n", "ConfigMap", Afterwards::Open), &hands).await;
        assert!(matches!(failure, Some(Failure::IllegalPlan(_))), "{failure:?}");
        assert_eq!(lines, [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn pools_that_cannot_be_applied_again_do_not_end_the_demo() {
        let (lines, failure) = told(&show("  []\n", "Zebra", Afterwards::Open), &hands()).await;
        assert!(failure.is_none(), "{failure:?}");
        assert!(
            lines[0].contains("The stage is yours, but without its NodePools: "),
            "{lines:?}"
        );
    }
}
