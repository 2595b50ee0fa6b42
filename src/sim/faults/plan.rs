//! What goes wrong in a run, and when: a value that can be stored, read, shortened and played again.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact;
use serde::{Deserialize, Serialize};

use super::draw::watched;
use super::kube::{KubeFault, watches};
use super::names::{FaultName, MachineKind};
use super::third_parties::Meddling;
use crate::ibm::builtin::{REGIONS, find_profile};
use crate::sim::actors::kubelet::behavior::Behavior;
use crate::sim::ibm::{self, FaultKind};

/// Something that goes wrong for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Injection {
    /// When it begins, since the start of the run.
    #[serde(with = "compact::required")]
    pub at: Duration,
    /// How long it lasts; what happens once takes no time.
    #[serde(
        with = "compact::required",
        default,
        skip_serializing_if = "Duration::is_zero"
    )]
    pub lasts: Duration,
    /// Where its own chance comes from, so that taking another injection out of the plan leaves this one as it was.
    pub stream: u64,
    /// What it is.
    pub fault: Fault,
}

/// A fault and its particulars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// Between the operator and its API server.
    Kube(KubeFault),
    /// Inside the cloud, or between it and the operator.
    Cloud(ibm::Fault),
    /// A replica dies and is started anew.
    Crash {
        /// Which, from 0.
        replica: usize,
        /// After so many more effects of its own: 0 is at once.
        #[serde(default)]
        after_effects: u64,
        /// Or by what: of its next order, when that has landed and before the answer is there.
        #[serde(default, skip_serializing_if = "Upon::is_now")]
        upon: Upon,
    },
    /// A replica stands still until the injection ends.
    Pause {
        /// Which, from 0.
        replica: usize,
        /// From when on.
        #[serde(default, skip_serializing_if = "Upon::is_now")]
        upon: Upon,
    },
    /// A replica is asked to stop, as before a roll-out: it gives its Leases back, ends, and is started anew.
    Handover {
        /// Which, from 0.
        replica: usize,
        /// When.
        #[serde(default, skip_serializing_if = "Upon::is_now")]
        upon: Upon,
    },
    /// The operator's wall clock is wrong by so much.
    Skew {
        /// Ahead of everybody else's, or behind if negative.
        seconds: i64,
        /// Whose, from 0: replicas run on machines of their own. All of them are wrong alike if it names none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replica: Option<usize>,
    },
    /// Something is odd about machines that begin to run.
    Machine {
        /// What.
        behavior: Behavior,
        /// About how many of them, at most.
        machines: u32,
    },
    /// Somebody else does something.
    ThirdParty(Meddling),
}

/// What a plan says that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("injections[{place}].fault.{field}: {problem}")]
pub struct Impossible {
    /// Which injection, from 0.
    pub place: usize,
    /// The field of its fault, such as `crash.replica`.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

/// When something that was planned happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Upon {
    /// At once.
    #[default]
    Now,
    /// When the replica next orders a machine, right after the order has left: the worst moment there is.
    Order,
    /// When the replica next renews its leadership, right after the renewal has left. When it goes on it finds the
    /// answer of long ago, and acts as the leader that it no longer is until it looks again. A process is held up
    /// between any two instructions; here it is between two polls, and of those this is the one that shows.
    Renewal,
    /// When so many more effects of the replica have landed, before it is told of the last.
    Effects(u64),
}

impl Upon {
    fn is_now(&self) -> bool {
        *self == Self::Now
    }
}

impl Fault {
    /// Its kind.
    pub fn name(&self) -> FaultName {
        match self {
            Self::Kube(fault) => FaultName::Kube(fault.kind),
            Self::Cloud(fault) => FaultName::Cloud(fault.kind),
            Self::Crash { .. } => FaultName::Crash,
            Self::Pause { .. } => FaultName::Pause,
            Self::Handover { .. } => FaultName::Handover,
            Self::Skew { .. } => FaultName::Skew,
            Self::Machine { behavior, .. } => FaultName::Machine(MachineKind::of(*behavior)),
            Self::ThirdParty(meddling) => FaultName::Meddling(meddling.kind),
        }
    }

    /// Refuses what would do nothing, or something else than it says: the field, and what is wrong with it.
    fn check(&self, replicas: usize) -> Result<(), (&'static str, String)> {
        match self {
            Self::Kube(fault) => {
                within_hundred("kube.percent", fault.percent)?;
                watched_by_somebody(fault)
            }
            Self::Cloud(fault) => {
                probable("cloud.probability", fault.probability)?;
                asked_by_somebody(fault.operation.as_deref())?;
                withdrawable(fault.kind, fault.target.as_deref())
            }
            Self::Crash {
                replica,
                after_effects,
                upon,
            } => {
                one_of(replicas, "crash.replica", *replica)?;
                crashes(*after_effects, *upon)
            }
            Self::Pause { replica, .. } => one_of(replicas, "pause.replica", *replica),
            Self::Handover { replica, upon } => {
                one_of(replicas, "handover.replica", *replica)?;
                match upon {
                    Upon::Now | Upon::Order => Ok(()),
                    Upon::Renewal | Upon::Effects(_) => {
                        Err(("handover.upon", "must be now or order".to_owned()))
                    }
                }
            }
            Self::Skew { replica, .. } => {
                replica.map_or(Ok(()), |replica| one_of(replicas, "skew.replica", replica))
            }
            Self::Machine { .. } | Self::ThirdParty(_) => Ok(()),
        }
    }
}

fn within_hundred(field: &'static str, percent: u8) -> Result<(), (&'static str, String)> {
    match percent {
        0..=100 => Ok(()),
        more => Err((field, format!("is {more}, and must be from 0 to 100"))),
    }
}

fn probable(field: &'static str, probability: f64) -> Result<(), (&'static str, String)> {
    if (0.0..=1.0).contains(&probability) {
        return Ok(());
    }
    Err((field, format!("is {probability}, and must be from 0 to 1")))
}

/// What watches tell of a resource that the operator does not watch meets nobody.
fn watched_by_somebody(fault: &KubeFault) -> Result<(), (&'static str, String)> {
    match fault.resource.as_deref() {
        Some(resource) if watches::is_about_watches(fault.kind) && watched().all(|it| it != resource) => {
            Err((
                "kube.resource",
                format!("is {resource:?}, and must be what the operator watches, such as nodeclaims"),
            ))
        }
        _ => Ok(()),
    }
}

fn asked_by_somebody(operation: Option<&str>) -> Result<(), (&'static str, String)> {
    match operation {
        Some(operation) if !ibm::operation_names().contains(&operation) => Err((
            "cloud.operation",
            format!("is {operation:?}, and must be an operation of the cloud, such as instances.create"),
        )),
        _ => Ok(()),
    }
}

/// Only what is withdrawn has a target. Which ids images have is up to the world.
fn withdrawable(kind: FaultKind, target: Option<&str>) -> Result<(), (&'static str, String)> {
    let Some(target) = target else { return Ok(()) };
    let wanted = match kind {
        FaultKind::ProfileWithdrawn if find_profile(target).is_none() => "be a profile, such as bxf-4x16",
        FaultKind::ZoneWithdrawn if !is_zone(target) => "be a zone, such as us-south-1",
        FaultKind::ProfileWithdrawn
        | FaultKind::ZoneWithdrawn
        | FaultKind::ImageDeprecated
        | FaultKind::ImageDeleted => return Ok(()),
        _ => "stand beside a withdrawal only",
    };
    Err(("cloud.target", format!("is {target:?}, and must {wanted}")))
}

fn is_zone(name: &str) -> bool {
    let mut zones = REGIONS.iter().flat_map(|region| ibm::zones(region.name));
    zones.any(|zone| zone == name)
}

fn one_of(replicas: usize, field: &'static str, replica: usize) -> Result<(), (&'static str, String)> {
    if replica < replicas {
        return Ok(());
    }
    Err((
        field,
        format!("is {replica}, and there are {replicas} replicas, from 0"),
    ))
}

/// A crash comes after effects, or upon an order.
fn crashes(after_effects: u64, upon: Upon) -> Result<(), (&'static str, String)> {
    match upon {
        Upon::Now => Ok(()),
        Upon::Order if after_effects == 0 => Ok(()),
        Upon::Order => Err((
            "crash.after_effects",
            "cannot stand beside `upon: order`".to_owned(),
        )),
        Upon::Renewal | Upon::Effects(_) => Err((
            "crash.upon",
            "must be now or order; for effects there is `after_effects`".to_owned(),
        )),
    }
}

/// Everything that goes wrong in a run, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// By their beginning.
    pub injections: Vec<Injection>,
}

impl Plan {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// Refuses what cannot be in a run with so many replicas.
    pub fn check(&self, replicas: usize) -> Result<(), Impossible> {
        for (place, injection) in self.injections.iter().enumerate() {
            let checked = injection.fault.check(replicas);
            checked.map_err(|(field, problem)| Impossible {
                place,
                field,
                problem,
            })?;
        }
        Ok(())
    }

    /// The end of the last injection.
    pub fn ends(&self) -> Duration {
        let ends = self
            .injections
            .iter()
            .map(|injection| injection.at + injection.lasts);
        ends.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::Shape;
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        for seed in 0..50 {
            let shape = Shape {
                replicas: 2,
                moments: vec![Duration::from_mins(3)],
                departures: Vec::new(),
            };
            let plan = Plan::draw(seed, &shape, Duration::from_mins(40));
            let text = serde_saphyr::to_string(&plan).unwrap();
            assert_eq!(serde_saphyr::from_str::<Plan>(&text).unwrap(), plan, "{text}");
            assert_eq!(plan.check(shape.replicas), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_plan_is_written_for_people() {
        let text = "
injections:
- at: 1m 30s
  lasts: 20s
  stream: 7
  fault:
    kube: {kind: k2-answer-lost, percent: 50, times: 1, resource: nodeclaims}
- at: 2m
  stream: 8
  fault:
    crash: {replica: 0, after_effects: 3}
- at: 3m
  stream: 9
  fault:
    third-party: {kind: k14-strip-finalizer}
- at: 4m
  lasts: 1m
  stream: 10
  fault:
    machine: {behavior: {joins-late: {seconds: 60}}, machines: 1}
";
        let plan: Plan = serde_saphyr::from_str(text).unwrap();
        assert_eq!(plan.injections[0].at, Duration::from_secs(90));
        let names: Vec<_> = plan
            .injections
            .iter()
            .map(|injection| injection.fault.name().as_str())
            .collect();
        assert_eq!(
            names,
            [
                "k2-answer-lost",
                "k1-crash",
                "k14-strip-finalizer",
                "n1-joins-late"
            ]
        );
        assert_eq!(plan.ends(), Duration::from_mins(5));
        assert!(serde_saphyr::from_str::<Plan>("injections: [{at: soon}]").is_err());
    }

    fn plan(fault: &str) -> Result<Plan, serde_saphyr::Error> {
        serde_saphyr::from_str(&format!(
            "injections: [{{at: 1m, stream: 1, fault: {{{fault}}}}}]"
        ))
    }

    fn is_refused(fault: &str, said: &str) {
        let refused = plan(fault).unwrap().check(2).unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("injections[0].fault.{said}")),
            "{refused}"
        );
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_field() {
        let table = [
            (
                "crash: {replica: 7}",
                "crash.replica: is 7, and there are 2 replicas",
            ),
            (
                "crash: {replica: 0, upon: renewal}",
                "crash.upon: must be now or order",
            ),
            (
                "crash: {replica: 0, upon: {effects: 3}}",
                "crash.upon: must be now or order",
            ),
            (
                "crash: {replica: 0, upon: order, after_effects: 3}",
                "crash.after_effects: cannot stand beside",
            ),
            ("pause: {replica: 2}", "pause.replica: is 2"),
            ("handover: {replica: 2}", "handover.replica: is 2"),
            (
                "handover: {replica: 0, upon: renewal}",
                "handover.upon: must be now or order",
            ),
            ("skew: {seconds: 1, replica: 2}", "skew.replica: is 2"),
            (
                "cloud: {kind: slow, probability: 7}",
                "cloud.probability: is 7, and must be from 0 to 1",
            ),
            (
                "kube: {kind: k11-duplicates, percent: 101}",
                "kube.percent: is 101, and must be from 0 to 100",
            ),
        ];
        for (fault, said) in table {
            is_refused(fault, said);
        }
        for fault in [
            "crash: {replica: 1, upon: order}",
            "pause: {replica: 0, upon: {effects: 3}}",
            "skew: {seconds: 1}",
        ] {
            assert_eq!(plan(fault).unwrap().check(2), Ok(()), "{fault}");
        }
    }

    #[test]
    fn what_would_meet_nobody_is_refused_by_its_field() {
        let table = [
            (
                "kube: {kind: k8-lag, resource: nodeclaim}",
                "kube.resource: is \"nodeclaim\", and must be what the operator watches",
            ),
            (
                "cloud: {kind: slow, probability: 1.0, operation: instances.buy}",
                "cloud.operation: is \"instances.buy\", and must be an operation of the cloud",
            ),
            (
                "cloud: {kind: slow, probability: 1.0, target: bxf-4x16}",
                "cloud.target: is \"bxf-4x16\", and must stand beside a withdrawal only",
            ),
            (
                "cloud: {kind: profile-withdrawn, probability: 1.0, target: bxf-4x17}",
                "cloud.target: is \"bxf-4x17\", and must be a profile",
            ),
            (
                "cloud: {kind: zone-withdrawn, probability: 1.0, target: us-south-4}",
                "cloud.target: is \"us-south-4\", and must be a zone",
            ),
        ];
        for (fault, said) in table {
            is_refused(fault, said);
        }
        let fine = [
            "kube: {kind: k8-lag, resource: certificatesigningrequests, delay: 20s}",
            "kube: {kind: k4-slow, resource: leases, delay: 1s}",
            "cloud: {kind: slow, probability: 1.0, operation: instances}",
            "cloud: {kind: profile-withdrawn, probability: 1.0, target: bxf-4x16}",
            "cloud: {kind: zone-withdrawn, probability: 1.0, target: eu-de-3}",
            "cloud: {kind: image-deleted, probability: 1.0, target: r006-a}",
        ];
        for fault in fine {
            assert_eq!(plan(fault).unwrap().check(2), Ok(()), "{fault}");
        }
    }

    #[test]
    fn a_field_that_nothing_reads_is_refused() {
        for fault in [
            "cloud: {kind: slow, probability: 1.0, percent: 50}",
            "kube: {kind: k11-duplicates, probability: 1.0}",
            "crash: {replica: 0, after: 3}",
        ] {
            let refused = plan(fault).unwrap_err().to_string();
            assert!(refused.contains("unknown field"), "{fault}: {refused}");
        }
    }
}
