//! Drawing a plan: first which kinds occur at all, then how often, when, for how long and how hard.
//!
//! A uniform mix of everything hides the bugs that need one fault without another that masks it, so most seeds lack most
//! kinds, and some seeds know one side only.

use std::time::Duration;

use fastrand::Rng;

use super::kube::KubeFault;
use super::names::{FaultName, KubeKind, MachineKind, MeddlingKind};
use super::plan::{Fault, Injection, Plan, Upon};
use super::third_parties::Meddling;
use crate::sim::actors::kubelet::behavior::Behavior;
use crate::sim::ibm::{self, FaultKind};

/// What of a world a plan has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many replicas of the operator there are.
    pub replicas: usize,
    /// When people do something. Most of what can go wrong goes wrong while the operator works on it.
    pub moments: Vec<Duration>,
    /// When people give a machine back: for a few seconds its node is drained.
    pub departures: Vec<Duration>,
}

/// Which side a seed is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Everything,
    Kube,
    Cloud,
    Replicas,
    People,
}

impl Side {
    fn draw(rng: &mut Rng) -> Self {
        match rng.u8(..10) {
            0 => Self::Kube,
            1 => Self::Cloud,
            2 => Self::Replicas,
            3 => Self::People,
            _ => Self::Everything,
        }
    }

    fn has(self, name: FaultName) -> bool {
        match self {
            Self::Everything => true,
            Self::Kube => matches!(name, FaultName::Kube(_)),
            Self::Cloud => matches!(name, FaultName::Cloud(_) | FaultName::Machine(_)),
            Self::Replicas => matches!(
                name,
                FaultName::Crash | FaultName::Pause | FaultName::Handover | FaultName::Skew
            ),
            Self::People => matches!(name, FaultName::Meddling(_)),
        }
    }
}

/// The kinds that watches show and lists hide, any of which may lag behind the others,
const WATCHED: [&str; 11] = [
    "nodeclaims",
    "nodes",
    "ibmnodeclasses",
    "pods",
    "nodepools",
    "unavailableofferings",
    "poddisruptionbudgets",
    "daemonsets",
    "persistentvolumes",
    "persistentvolumeclaims",
    "csinodes",
];
/// and those of which that came to mind later.
const WATCHED_LATER: [&str; 3] = ["certificatesigningrequests", "storageclasses", "namespaces"];

/// All kinds that watches show the operator.
pub(super) fn watched() -> impl Iterator<Item = &'static str> {
    WATCHED.into_iter().chain(WATCHED_LATER)
}

/// What is bought in drawn worlds: what else is withdrawn, nobody misses.
const BOUGHT: [&str; 3] = ["bxf-4x16", "bxf-8x32", "bx2-4x16"];
/// The zones that it is bought in.
const ZONES: [&str; 3] = ["us-south-1", "us-south-2", "us-south-3"];

/// By which machines are given back.
const DELETE: &str = "instances.delete";

/// Operations that somebody may lose the right to do, or that alone may fail.
const OPERATIONS: [&str; 7] = [
    "instances.create",
    DELETE,
    "instances.get",
    "instances.list",
    "instances.patch",
    "subnets.list",
    "profiles.list",
];

impl Plan {
    /// The plan of a seed: all of it begins and ends within `lasts`.
    pub fn draw(seed: u64, world: &Shape, lasts: Duration) -> Self {
        // Not the seed itself: the servers draw from that too.
        let mut rng = Rng::with_seed(seed ^ 0x9e37_79b9_7f4a_7c15);
        let side = Side::draw(&mut rng);
        // One in two, four or eight: how crowded this seed is.
        let one_in = if side == Side::Everything {
            2_u8 << rng.u8(1..3)
        } else {
            2
        };
        let mut injections = Vec::new();
        for &name in FaultName::ALL {
            let occurs = rng.u8(..one_in) == 0;
            let often = rng.u8(1..=3);
            // Drawn for absent kinds too, so that a new kind at the end of the list changes no seed's others.
            let mut own = rng.fork();
            let occurs = occurs && is_its_turn(name, &mut own);
            if occurs && side.has(name) {
                for _ in 0..often {
                    let injection = injection(name, world, lasts, &mut own);
                    injections.extend(companion(&injection, &mut own));
                    injections.push(injection);
                }
            }
        }
        injections.sort_by_key(|injection| injection.at);
        Self { injections }
    }
}

impl FaultName {
    /// The kinds that must strike in a campaign of some size.
    pub fn expected() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied()
    }
}

/// Whether a kind that came late occurs in a seed in which it may: in a third or a half of them, which is often enough for a
/// campaign. The histories of the others stay what they were before there was such a kind; those of all seeds did that were
/// recorded for mutants by then. A startup taint needs a world with pools, of which there are few; a volume needs one with
/// volumes, of which there are half as many, and in the others nothing comes of it.
fn is_its_turn(name: FaultName, own: &mut Rng) -> bool {
    match name {
        FaultName::Meddling(
            MeddlingKind::OldVersion | MeddlingKind::ClassDeleted | MeddlingKind::StolenProviderId,
        ) => own.u8(..3) == 1,
        FaultName::Meddling(MeddlingKind::StartupTaintStays) => own.bool(),
        FaultName::Machine(MachineKind::LessDisk | MachineKind::FewerPods) => own.u8(..3) == 2,
        _ => true,
    }
}

/// What must go wrong besides for a fault to show: a page can fail only where there are several, a machine is renamed
/// only when its start has failed, and nobody misses a claim that comes and goes while watches tell everything.
fn companion(injection: &Injection, rng: &mut Rng) -> Option<Injection> {
    let stream = rng.u64(..);
    let fault = match injection.fault.name() {
        FaultName::Cloud(
            FaultKind::PageFails
            | FaultKind::PageTokenExpired
            | FaultKind::PageRepeats
            | FaultKind::PageMisses,
        ) => Fault::Cloud(ibm::Fault::new(FaultKind::SmallPages)),
        FaultName::Cloud(FaultKind::RenameRefused | FaultKind::RenameSlow) => {
            Fault::Cloud(ibm::Fault::new(FaultKind::StartFails))
        }
        FaultName::Meddling(MeddlingKind::CreatedAndDeleted) if rng.bool() => {
            Fault::Kube(KubeFault::new(KubeKind::Coalesced).delay(COALESCED))
        }
        _ => return None,
    };
    let at = injection.at.saturating_sub(Duration::from_secs(1));
    Some(Injection {
        at,
        lasts: (injection.at + injection.lasts.max(COALESCED)).saturating_sub(at),
        stream,
        fault,
    })
}

/// For so long a claim that comes and goes at once is kept from everybody.
const COALESCED: Duration = Duration::from_secs(5);

/// Half of the time shortly before somebody does something, else at any time.
fn beginning(world: &Shape, millis: u64, rng: &mut Rng) -> u64 {
    let any = rng.u64(..millis * 9 / 10);
    let before = rng.u64(..15_000);
    match rng.choice(&world.moments) {
        Some(moment) if rng.bool() => {
            let moment = u64::try_from(moment.as_millis()).unwrap_or(u64::MAX);
            moment.saturating_sub(before).min(millis * 9 / 10)
        }
        _ => any,
    }
}

/// A minute after somebody did something, perhaps asked for a machine.
fn while_machines_boot(world: &Shape, millis: u64, rng: &mut Rng) -> u64 {
    let moment = rng.choice(&world.moments).copied().unwrap_or_default();
    let after = moment + Duration::from_secs(rng.u64(40..75));
    u64::try_from(after.as_millis()).map_or(0, |after| after.min(millis * 9 / 10))
}

/// Right after a machine was given back: within a second its pods are asked to leave, and before five have passed since
/// its node was tainted, it cannot go.
fn while_nodes_leave(world: &Shape, millis: u64, rng: &mut Rng) -> u64 {
    let after = if rng.bool() {
        rng.u64(50..700)
    } else {
        rng.u64(700..5_500)
    };
    let departure = rng.choice(&world.departures).copied().unwrap_or_default();
    u64::try_from(departure.as_millis()).map_or(0, |departure| (departure + after).min(millis))
}

fn injection(name: FaultName, world: &Shape, lasts: Duration, rng: &mut Rng) -> Injection {
    let millis = u64::try_from(lasts.as_millis())
        .unwrap_or(u64::MAX)
        .clamp(10, u64::MAX / 9);
    let at = match name {
        FaultName::Meddling(MeddlingKind::ImpostorNode | MeddlingKind::StolenProviderId) => {
            while_machines_boot(world, millis, rng)
        }
        FaultName::Meddling(kind) if is_about_leaving(kind) => while_nodes_leave(world, millis, rng),
        // The catalogue is read when a replica begins, and then not for hours.
        FaultName::Cloud(kind) if kind.is_about_prices() => 0,
        _ => beginning(world, millis, rng),
    };
    let fault = fault(name, world, rng);
    let span = Duration::from_millis(span(&fault, rng).min(millis - at));
    let lasts = if is_momentary(&fault) {
        Duration::ZERO
    } else {
        span
    };
    Injection {
        at: Duration::from_millis(at),
        lasts,
        stream: rng.u64(..),
        fault,
    }
}

/// In milliseconds: mostly short, sometimes a minute or two, seldom ten. A pause is mostly longer than a Lease, since
/// nobody notices a shorter one; pages go wrong for longer than from one sweep of all machines to the next; machines may
/// not go for an hour, or until everything is put right; and a startup taint may stay for longer than anybody waits.
fn span(fault: &Fault, rng: &mut Rng) -> u64 {
    match (fault.name(), rng.u8(..10)) {
        (_, 6..) if holds_machines(fault) => rng.u64(600_000..3_600_000),
        (FaultName::Pause, 2..) => rng.u64(20_000..150_000),
        (FaultName::Cloud(kind), _) if is_about_pages(kind) || kind.is_about_prices() => {
            rng.u64(130_000..600_000)
        }
        // A machine runs half a minute after it was ordered, or has failed by then.
        (FaultName::Cloud(kind), _) if is_about_starts(kind) => rng.u64(60_000..300_000),
        // Machines begin to run half a minute after they were ordered; how a node is shows over minutes.
        (FaultName::Machine(MachineKind::Flaps), _) => rng.u64(300_000..1_200_000),
        (FaultName::Machine(_), _) => rng.u64(60_000..300_000),
        // A claim must be made meanwhile and its Node be ready but for it; a Node has half an hour to become so.
        (FaultName::Meddling(MeddlingKind::StartupTaintStays), 7..) => rng.u64(1_900_000..2_300_000),
        (FaultName::Meddling(MeddlingKind::StartupTaintStays), _) => rng.u64(240_000..900_000),
        // As long as people take to put a new key where it is read. What keeps others from acting is told once.
        (FaultName::Meddling(MeddlingKind::KeyRotated), _) => rng.u64(5_000..60_000),
        (FaultName::Meddling(kind), _) if kind.lasts() => rng.u64(30_000..300_000),
        // What is sold is read every hour, or every five minutes while something is not to be had; what classes name every
        // five minutes.
        (FaultName::Cloud(kind), _) if is_withdrawal(kind) => rng.u64(300_000..1_200_000),
        (_, 0..=4) => rng.u64(1_000..20_000),
        (_, 5..=8) => rng.u64(20_000..120_000),
        _ => rng.u64(120_000..600_000),
    }
}

/// Whether machines that are given back do not go.
fn holds_machines(fault: &Fault) -> bool {
    let Fault::Cloud(fault) = fault else { return false };
    match fault.kind {
        FaultKind::DeleteStuck | FaultKind::DeleteConflict | FaultKind::DeleteFails => true,
        FaultKind::ServerError => fault.operation.as_deref() == Some(DELETE),
        _ => false,
    }
}

/// Whether it shows only where a list has several pages.
fn is_about_pages(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::PageFails
            | FaultKind::PageTokenExpired
            | FaultKind::PageRepeats
            | FaultKind::PageMisses
            | FaultKind::SmallPages
    )
}

/// Whether it shows only when a machine begins to run, or does not.
fn is_about_starts(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::Preemption
            | FaultKind::PreemptionDeletes
            | FaultKind::HostFailure
            | FaultKind::RenameRefused
            | FaultKind::RenameSlow
    )
}

/// Whether something is not to be had from beginning to end.
fn is_withdrawal(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::ProfileWithdrawn
            | FaultKind::ZoneWithdrawn
            | FaultKind::ImageDeprecated
            | FaultKind::ImageDeleted
    )
}

/// Whether it is done to what is on a node that goes.
fn is_about_leaving(kind: MeddlingKind) -> bool {
    matches!(
        kind,
        MeddlingKind::DeletePod
            | MeddlingKind::ForceDeletePod
            | MeddlingKind::UndisturbedPod
            | MeddlingKind::PreemptedLeaving
            | MeddlingKind::BudgetOfNone
            | MeddlingKind::SecondBudget
    )
}

/// Whether it strikes any request, so that it may strike one operation alone.
fn is_about_requests(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::RateLimit
            | FaultKind::ServerError
            | FaultKind::Forbidden
            | FaultKind::HtmlError
            | FaultKind::ErrorBody
            | FaultKind::EmptyBody
            | FaultKind::Slow
            | FaultKind::WrongContentType
    )
}

fn is_momentary(fault: &Fault) -> bool {
    match fault {
        Fault::Crash { .. } | Fault::Handover { .. } => true,
        Fault::ThirdParty(meddling) => !meddling.kind.lasts(),
        _ => false,
    }
}

fn fault(name: FaultName, world: &Shape, rng: &mut Rng) -> Fault {
    let replica = rng.usize(..world.replicas.max(1));
    match name {
        FaultName::Kube(kind) => Fault::Kube(kube(kind, rng)),
        FaultName::Cloud(kind) => Fault::Cloud(cloud(kind, rng)),
        FaultName::Meddling(kind) => Fault::ThirdParty(Meddling::new(kind)),
        FaultName::Machine(kind) => Fault::Machine {
            behavior: behavior(kind, rng),
            machines: rng.u32(1..=2),
        },
        FaultName::Crash => crash(replica, rng),
        FaultName::Pause => Fault::Pause {
            replica,
            upon: [Upon::Now, Upon::Order, Upon::Renewal][rng.usize(..3)],
        },
        FaultName::Handover => Fault::Handover {
            replica,
            upon: [Upon::Now, Upon::Order][rng.usize(..2)],
        },
        FaultName::Skew => Fault::Skew {
            seconds: skew(rng),
            // Mostly that of one, so that a leader and the next disagree; sometimes all follow the same wrong server.
            replica: (rng.u8(..4) > 0).then_some(replica),
        },
    }
}

/// Anywhere, or where the most is at stake: a machine is bought, and nobody knows its id.
fn crash(replica: usize, rng: &mut Rng) -> Fault {
    let (after_effects, upon) = if rng.u8(..3) == 0 {
        (0, Upon::Order)
    } else {
        (rng.u64(..12), Upon::Now)
    };
    Fault::Crash {
        replica,
        after_effects,
        upon,
    }
}

/// How odd a machine is. Machines have a quarter of an hour to join, and some join just then.
fn behavior(kind: MachineKind, rng: &mut Rng) -> Behavior {
    match kind {
        MachineKind::NeverJoins => Behavior::NeverJoins,
        MachineKind::JoinsLate => Behavior::JoinsLate {
            seconds: if rng.bool() {
                rng.u64(30..300)
            } else {
                rng.u64(840..930)
            },
        },
        MachineKind::LessMemory => Behavior::LessMemory {
            percent: rng.u8(3..=25),
        },
        // Longer than the 40 seconds after which a node is taken for lost, or shorter.
        MachineKind::Flaps => Behavior::Flaps {
            every: rng.u64(30..240),
            lasts: rng.u64(5..90),
        },
        MachineKind::LessDisk => Behavior::LessDisk {
            percent: rng.u8(5..=60),
        },
        // Of 110 at least 16 are left: fewer than fit by what they ask for, and enough for daemons and some more.
        MachineKind::FewerPods => Behavior::FewerPods {
            percent: rng.u8(5..=85),
        },
    }
}

/// Seconds, minutes, an hour, or ten years (a dead battery); ahead or behind.
fn skew(rng: &mut Rng) -> i64 {
    let seconds = match rng.u8(..8) {
        0..=2 => rng.i64(1..30),
        3..=5 => rng.i64(30..600),
        6 => 3600,
        _ => 10 * 365 * 86_400,
    };
    if rng.bool() { seconds } else { -seconds }
}

fn kube(kind: KubeKind, rng: &mut Rng) -> KubeFault {
    let mut fault = KubeFault::new(kind);
    // Half of the time everything is hit until the fault ends or has struck a few times.
    if rng.bool() {
        fault = fault.percent(rng.u8(5..=60));
    }
    if rng.bool() {
        fault = fault.times(rng.u32(1..=4));
    }
    let resource = WATCHED[rng.usize(..WATCHED.len())];
    match kind {
        // One kind lags behind the others, half of the time that of claims.
        KubeKind::Lag if rng.bool() => fault.on("nodeclaims").delay(Duration::from_secs(rng.u64(1..40))),
        KubeKind::Lag => {
            let resource = lagging(resource, rng);
            fault.on(resource).delay(Duration::from_secs(rng.u64(1..40)))
        }
        KubeKind::AdmissionRejects => fault.on("nodeclaims"),
        KubeKind::BookmarksOnly | KubeKind::TimeTravel if rng.bool() => fault.on(resource),
        KubeKind::Coalesced | KubeKind::Reordered => fault.delay(Duration::from_secs(rng.u64(1..30))),
        // Both ways; in all a little less than the half minute after which nobody waits for an answer any more.
        KubeKind::Slow => fault.delay(Duration::from_millis(rng.u64(50..14_500))),
        _ if rng.u8(..4) == 0 => fault.on("nodeclaims"),
        _ => fault,
    }
}

/// What lags where this was drawn: in one of four cases a kind that came to mind later. From a copy of the chance, so that
/// nothing else changes by it.
fn lagging(drawn: &'static str, rng: &Rng) -> &'static str {
    let mut own = rng.clone().fork();
    if own.u8(..4) == 0 {
        WATCHED_LATER[own.usize(..WATCHED_LATER.len())]
    } else {
        drawn
    }
}

fn cloud(kind: FaultKind, rng: &mut Rng) -> ibm::Fault {
    let mut fault = ibm::Fault::new(kind);
    if is_withdrawal(kind) {
        let target = match kind {
            FaultKind::ProfileWithdrawn => Some(BOUGHT[rng.usize(..BOUGHT.len())]),
            FaultKind::ZoneWithdrawn => Some(ZONES[rng.usize(..ZONES.len())]),
            _ => None,
        };
        fault.target = target.map(str::to_owned);
        return fault;
    }
    // No machine goes for as long as it lasts, however often somebody asks.
    if kind == FaultKind::DeleteFails {
        return fault;
    }
    if is_about_requests(kind) && rng.u8(..3) == 0 {
        fault = fault.on(OPERATIONS[rng.usize(..OPERATIONS.len())]);
    }
    // Few machines begin to run while a fault lasts: what waits for that does not wait for chance besides.
    if rng.u8(..4) > 0 && !is_about_starts(kind) {
        fault = fault.probability(f64::from(rng.u8(5..=60)) / 100.0);
    }
    // A machine is stuck for as long as the fault is on: one that ends by striking would hold nothing.
    if rng.bool() && kind != FaultKind::DeleteStuck {
        fault = fault.times(rng.u32(1..=4));
    }
    fault
}

#[cfg(test)]
mod tests;
