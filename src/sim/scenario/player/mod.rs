//! Plays a scenario: does what its steps say when they say so, tells what happens, and waits for what is expected.
//!
//! It works through a Kubernetes client and the hands of the simulated cloud alone, so the same scenario plays in the
//! deterministic world, in the demo and on a real control plane. Expectations are judged on the truth, once a second
//! of the stage's clock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::core::TypeMeta;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::expectation::Expectation;
use super::judge::Verdict;
use super::placeholders::filled;
use super::scene::{Scene, capacity_type};
use super::{
    Action, CloudFault, Configuration, Crash, Ledger, Machine, Offering, Scenario, Step, Target, changes,
};
use crate::clock::{Clock, later};
use crate::sim::ibm::{Cloud, Fault, NoSuch};
use crate::sim::world::product::Findings;

/// How often the stage is looked at: what lasts a shorter time than this may go untold.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The field manager of whoever plays the people.
const PERSON: &str = "scenario";

/// What a player works with.
#[derive(Clone)]
pub struct Hands {
    /// Of somebody who may do everything.
    pub client: Client,
    /// The cloud below the cluster.
    pub cloud: Cloud,
    /// The time that steps are counted in.
    pub clock: Clock,
    /// Ends a replica of the operator.
    pub crash: Arc<dyn Fn(Crash) + Send + Sync>,
    /// The operator's configuration file, if it was given one.
    pub configuration: Option<Configuration>,
    /// What is wrong with the operator's plans; the play ends with it.
    pub findings: Findings,
}

/// Something that is told while a scenario is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Since the start.
    pub at: Duration,
    /// Whose voice it is.
    pub voice: Voice,
    /// What is said.
    pub text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, mark) = (self.at.as_secs(), self.voice.mark());
        write!(f, "[{:02}:{:02}] {mark}{}", at / 60, at % 60, self.text)
    }
}

/// Who tells something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// The narrator.
    Narrator,
    /// A step was done.
    Step,
    /// Something happened by itself.
    Stage,
    /// What was expected is so.
    Met,
}

impl Voice {
    /// What tells it from the others without color.
    fn mark(self) -> &'static str {
        match self {
            Self::Narrator => "",
            Self::Step => "> ",
            Self::Stage => "  ",
            Self::Met => "= ",
        }
    }
}

/// Why a scenario did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something did not become so in time.
    #[error("step {step} (line {line}): expected {expected} within {within:?}, but {instead}")]
    Unmet {
        /// Which, from 1.
        step: usize,
        /// Where it stands.
        line: u64,
        /// What should have been.
        expected: String,
        /// How long it had.
        within: Duration,
        /// What was.
        instead: String,
    },
    /// A step could not be done.
    #[error("step {step} (line {line}): {reason}")]
    Refused {
        /// Which, from 1.
        step: usize,
        /// Where it stands.
        line: u64,
        /// Why not.
        reason: Reason,
    },
    /// Something that is there from the start cannot be.
    #[error("{object}, one of the objects: {reason}")]
    Absent {
        /// What, by kind and name.
        object: String,
        /// Why not.
        reason: Reason,
    },
    /// The operator made a plan that is not legal, whatever came of it.
    #[error("a plan is not legal: {0}")]
    IllegalPlan(String),
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// The API server refused.
    #[error("{doing}: {}", refusal(source))]
    Kube {
        /// What was being done.
        doing: String,
        /// Why it was refused.
        source: kube::Error,
    },
    /// The cloud has no such thing.
    #[error(transparent)]
    Cloud(#[from] NoSuch),
    /// There is no machine of that claim.
    #[error("no claim holds the machine meant by {0}")]
    NoMachine(String),
    /// The operator was started without a configuration file.
    #[error("the operator has no configuration file here")]
    NoConfiguration,
    /// The configuration file cannot be written.
    #[error("writing the operator's configuration file: {0}")]
    Configuration(#[from] std::io::Error),
    /// Nobody knows the group of this kind.
    #[error("the group of the kind {0} is not known; give its apiVersion")]
    UnknownKind(String),
}

/// What the API server says to people; the rest of its answer is for programs.
fn refusal(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// Whoever follows a scenario while it is played.
pub trait Audience: Send {
    /// Is told something.
    fn hear(&mut self, line: Line);

    /// Is shown the stage, about once a second of its clock.
    fn see(&mut self, _at: Duration, _scene: &Scene) {}
}

impl<F: FnMut(Line) + Send> Audience for F {
    fn hear(&mut self, line: Line) {
        self(line);
    }
}

/// Plays a scenario to its end, or to the first step that does not happen.
pub async fn play(scenario: &Scenario, hands: &Hands, audience: &mut dyn Audience) -> Result<(), Failure> {
    Player::new(hands, audience).play(scenario).await
}

/// Plays scenarios, and tells what happens between them.
pub struct Player<'a> {
    hands: &'a Hands,
    audience: &'a mut dyn Audience,
    started: Instant,
    scene: Scene,
    ledger: Ledger,
}

impl<'a> Player<'a> {
    /// Begins to count the time.
    pub fn new(hands: &'a Hands, audience: &'a mut dyn Audience) -> Self {
        Self {
            hands,
            audience,
            started: hands.clock.instant(),
            scene: Scene::default(),
            ledger: Ledger::default(),
        }
    }

    /// Plays a scenario to its end, or to the first step that does not happen.
    pub async fn play(&mut self, scenario: &Scenario) -> Result<(), Failure> {
        self.prepare(scenario).await?;
        for (number, step) in (1..).zip(&scenario.steps) {
            self.wait_until(step.at).await?;
            self.take(number, step).await?;
        }
        self.trust()
    }

    /// Applies manifests as one more step, whatever the time.
    pub async fn apply(&mut self, manifests: &[Value]) -> Result<(), Reason> {
        let text = self.apply_all(manifests).await?;
        self.say(Voice::Step, text);
        Ok(())
    }

    /// Says something in the narrator's voice.
    pub fn narrate(&mut self, text: &str) {
        self.say(Voice::Narrator, text.to_owned());
    }

    /// Tells what happens for as long as it is polled and nothing is wrong with any plan.
    pub async fn watch(&mut self) -> Result<(), Failure> {
        self.wait_until(Duration::MAX).await
    }

    /// Ends the play if something is wrong with a plan.
    fn trust(&self) -> Result<(), Failure> {
        let first = self.hands.findings.first();
        first.map_or(Ok(()), |finding| Err(Failure::IllegalPlan(finding.to_owned())))
    }

    /// Applies what is there from the start.
    pub async fn prepare(&mut self, scenario: &Scenario) -> Result<(), Failure> {
        for object in scenario.objects_in(&self.hands.cloud.account()) {
            let applied = apply(&self.hands.client, &object).await;
            applied.map_err(|reason| Failure::Absent {
                object: title(&object),
                reason,
            })?;
        }
        Ok(())
    }

    /// Takes one step, the `number`-th, whatever the time.
    pub async fn take(&mut self, number: usize, step: &Step) -> Result<(), Failure> {
        if let Action::Expect(expectation) = &step.action {
            return self.expect(number, step.line, expectation).await;
        }
        if step.action == Action::Bill {
            self.tell_bill();
            return Ok(());
        }
        let done = self.act(&step.action).await;
        let (voice, text) = done.map_err(|reason| Failure::Refused {
            step: number,
            line: step.line,
            reason,
        })?;
        self.say(voice, text);
        Ok(())
    }

    async fn expect(&mut self, step: usize, line: u64, expectation: &Expectation) -> Result<(), Failure> {
        let ends = self.elapsed() + expectation.within;
        loop {
            self.trust()?;
            let looked = self.look().await;
            let instead = match (looked, expectation.judge(&self.scene)) {
                (Ok(()), Verdict::Met) => {
                    self.say(Voice::Met, expectation.to_string());
                    return Ok(());
                }
                (Ok(()), Verdict::Unmet(instead)) => instead,
                (Err(error), _) => format!("the cluster cannot be looked at: {}", refusal(&error)),
            };
            let now = self.elapsed();
            if now >= ends {
                return Err(Failure::Unmet {
                    step,
                    line,
                    expected: expectation.to_string(),
                    within: expectation.within,
                    instead,
                });
            }
            self.hands
                .clock
                .sleep(LOOK_EVERY.min(ends.saturating_sub(now)))
                .await;
        }
    }

    fn tell_bill(&mut self) {
        let until = self.elapsed();
        self.say(Voice::Step, "the bill, at the prices of the cloud".to_owned());
        for line in self.ledger.lines(until) {
            self.say(Voice::Stage, line);
        }
        let bill = self.ledger.bill(until).to_string();
        self.say(Voice::Met, bill);
    }

    async fn wait_until(&mut self, at: Duration) -> Result<(), Failure> {
        while let Some(left) = at.checked_sub(self.elapsed()).filter(|left| !left.is_zero()) {
            // What cannot be looked at now is looked at a second later.
            let _ = self.look().await;
            self.trust()?;
            self.hands.clock.sleep(LOOK_EVERY.min(left)).await;
        }
        Ok(())
    }

    /// Looks, and tells what is new. What runs is paid for from then on.
    pub async fn look(&mut self) -> kube::Result<()> {
        let scene = Scene::look(&self.hands.client, &self.hands.cloud, self.hands.clock.now()).await?;
        for text in changes(&self.scene, &scene) {
            self.say(Voice::Stage, text);
        }
        let at = self.elapsed();
        self.ledger.note(at, &scene);
        self.audience.see(at, &scene);
        self.scene = scene;
        Ok(())
    }

    fn say(&mut self, voice: Voice, text: String) {
        let at = self.elapsed();
        self.audience.hear(Line { at, voice, text });
    }

    fn elapsed(&self) -> Duration {
        self.hands.clock.instant() - self.started
    }

    async fn act(&mut self, action: &Action) -> Result<(Voice, String), Reason> {
        let hands = self.hands;
        let text = match action {
            Action::Say(text) => return Ok((Voice::Narrator, text.clone())),
            Action::Apply(manifests) => self.apply_all(manifests).await?,
            Action::Delete(target) => delete(&hands.client, target).await?,
            Action::Scale { target, replicas } => scale(&hands.client, target, *replicas).await?,
            Action::Preempt(machine) => {
                let (name, whose) = self.machine(machine).await?;
                hands.cloud.preempt(&name)?;
                format!("IBM preempts {whose}")
            }
            Action::FailHost { machine, outcome } => {
                let (name, whose) = self.machine(machine).await?;
                hands.cloud.fail_host(&name, *outcome)?;
                format!("the host of {whose} fails")
            }
            Action::StopMachine(machine) => {
                let (name, whose) = self.machine(machine).await?;
                hands.cloud.stop(&name)?;
                format!("somebody stops {whose}")
            }
            Action::Drain(offering) => {
                for zone in zones(&hands.cloud, offering) {
                    hands.cloud.drain(&offering.profile, &zone, offering.class)?;
                }
                format!(
                    "no {} is left {}",
                    sold(offering),
                    somewhere(offering, "any zone")
                )
            }
            Action::Refill(offering) => {
                for zone in zones(&hands.cloud, offering) {
                    hands.cloud.refill(&offering.profile, &zone, offering.class)?;
                }
                format!(
                    "there is {} again {}",
                    sold(offering),
                    somewhere(offering, "every zone")
                )
            }
            Action::Fault(fault) => self.trouble(fault),
            Action::Crash(crash) => {
                (hands.crash)(*crash);
                crashed(*crash)
            }
            Action::Configure(text) => {
                let file = hands.configuration.as_ref().ok_or(Reason::NoConfiguration)?;
                file.write(text)?;
                format!("somebody writes into the configuration file: {text}")
            }
            // They are told and judged, not done.
            Action::Bill => String::new(),
            Action::Expect(expectation) => expectation.to_string(),
        };
        Ok((Voice::Step, text))
    }

    async fn apply_all(&mut self, manifests: &[Value]) -> Result<String, Reason> {
        let account = self.hands.cloud.account();
        let mut names = Vec::new();
        for manifest in manifests {
            apply(&self.hands.client, &filled(manifest, &account)).await?;
            names.push(title(manifest));
        }
        Ok(format!("somebody applies {}", names.join(", ")))
    }

    fn trouble(&self, fault: &CloudFault) -> String {
        let now = self.hands.clock.now();
        self.hands.cloud.faults().start(Fault {
            probability: f64::from(fault.percent) / 100.0,
            times: fault.times,
            until: fault.lasts.map(|lasts| later(now, lasts)),
            operation: fault.operation.clone(),
            ..Fault::new(fault.kind)
        });
        format!("from now on, {}", fault.kind.description())
    }

    /// The name of a machine, and what to call it.
    async fn machine(&mut self, meant: &Machine) -> Result<(String, String), Reason> {
        self.look()
            .await
            .map_err(|source| failed("looking for the machine", source))?;
        let mut claims = self.scene.claims.iter();
        let found = match meant {
            Machine::OfClaim(name) => claims.find(|(other, _)| *other == name),
            Machine::Selected(selector) => {
                claims.find(|(_, claim)| claim.holds.is_some() && selector.matches(&claim.labels))
            }
        };
        found
            .and_then(|(name, claim)| Some((name, claim.holds.as_ref()?)))
            .map(|(name, holds)| (holds.instance_name.clone(), format!("the machine of {name}")))
            .ok_or_else(|| {
                Reason::NoMachine(match meant {
                    Machine::OfClaim(name) => format!("claim {name}"),
                    Machine::Selected(selector) => selector.to_string(),
                })
            })
    }
}

/// The zones that are meant.
fn zones(cloud: &Cloud, offering: &Offering) -> Vec<String> {
    let one = offering.zone.clone().map(|zone| vec![zone]);
    one.unwrap_or_else(|| cloud.account().zones)
}

fn sold(offering: &Offering) -> String {
    match offering.class {
        Some(class) => format!("{} {}", capacity_type(class), offering.profile),
        None => offering.profile.clone(),
    }
}

fn somewhere(offering: &Offering, otherwise: &str) -> String {
    format!("in {}", offering.zone.as_deref().unwrap_or(otherwise))
}

fn crashed(crash: Crash) -> String {
    match crash.after_effects {
        0 => "the operator crashes".to_owned(),
        1 => "the operator will crash right after its next effect".to_owned(),
        more => format!("the operator will crash right after {more} more effects"),
    }
}

fn title(manifest: &Value) -> String {
    let text = |at: &str| manifest.pointer(at).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", text("/kind"), text("/metadata/name"))
}

fn failed(doing: impl Into<String>, source: kube::Error) -> Reason {
    Reason::Kube {
        doing: doing.into(),
        source,
    }
}

/// Server-side apply, as `kubectl apply --server-side --force-conflicts` does it.
pub(super) async fn apply(client: &Client, manifest: &Value) -> Result<(), Reason> {
    let text = |at: &str| manifest.pointer(at).and_then(Value::as_str);
    let (api_version, kind) = (text("/apiVersion"), text("/kind").unwrap_or_default());
    let api = api(client, api_version, kind, text("/metadata/namespace")).await?;
    let name = text("/metadata/name").unwrap_or_default();
    let params = PatchParams::apply(PERSON).force();
    let applied = api.patch(name, &params, &Patch::Apply(manifest)).await;
    applied
        .map(|_| ())
        .map_err(|source| failed(format!("applying {}", title(manifest)), source))
}

async fn delete(client: &Client, target: &Target) -> Result<String, Reason> {
    let what = format!("{} {}", target.kind, target.name);
    let api = of(client, target).await?;
    let deleted = api.delete(&target.name, &DeleteParams::default()).await;
    deleted.map_err(|source| failed(format!("deleting {what}"), source))?;
    Ok(format!("somebody deletes {what}"))
}

async fn scale(client: &Client, target: &Target, replicas: u32) -> Result<String, Reason> {
    let what = format!("{} {}", target.kind, target.name);
    let api = of(client, target).await?;
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let scaled = api
        .patch_scale(&target.name, &PatchParams::default(), &patch)
        .await;
    scaled.map_err(|source| failed(format!("scaling {what}"), source))?;
    Ok(format!("somebody scales {what} to {replicas}"))
}

async fn of(client: &Client, target: &Target) -> Result<Api<DynamicObject>, Reason> {
    let namespace = target.namespace.as_deref();
    api(client, target.api_version.as_deref(), &target.kind, namespace).await
}

/// The API of a kind, whose group and scope are asked for where they are not known.
async fn api(
    client: &Client,
    api_version: Option<&str>,
    kind: &str,
    namespace: Option<&str>,
) -> Result<Api<DynamicObject>, Reason> {
    let api_version = api_version
        .or_else(|| usual_group(kind))
        .ok_or_else(|| Reason::UnknownKind(kind.to_owned()))?;
    let types = TypeMeta {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    };
    let kinds = GroupVersionKind::try_from(types).map_err(|_| Reason::UnknownKind(kind.to_owned()))?;
    let (resource, capabilities) = pinned_kind(client, &kinds)
        .await
        .map_err(|source| failed(format!("asking what a {kind} is"), source))?;
    Ok(match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace.unwrap_or("default"), &resource),
    })
}

/// Kinds whose group everybody knows.
fn usual_group(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Pod" | "Node" | "Namespace" | "ConfigMap" | "Service" | "PersistentVolumeClaim" => "v1",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => "apps/v1",
        "Job" => "batch/v1",
        "PodDisruptionBudget" => "policy/v1",
        "NodeClaim" | "NodePool" => "karpenter.sh/v1",
        "IBMNodeClass" | "UnavailableOffering" => "karpenter-ibm.sh/v1alpha1",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
