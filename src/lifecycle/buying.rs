//! From the wish to the machine that runs: allocated, checked, ordered, followed; and what becomes of an attempt that
//! comes to nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use super::facts::{self, Doubt, Facts};
use super::{
    Blocker, Choice, Credential, End, HeldBack, LastOrder, Limits, NoChoice, Observed, Sighting, Standing,
    Step, Withholding,
};
use super::{is_ours, leaving, stranger, unrecorded};
use crate::api::{self, Allocation, NodeClaim, WrittenPrice, names};
use crate::clock::{earlier, later};
use crate::model::{Machine, MachineStatus, StatusReason};

/// The next step of a claim whose machine was not seen running yet.
pub(super) fn next(claim: &NodeClaim, observed: &Observed, limits: &Limits, now: Timestamp) -> Step {
    let buying = Buying {
        claim,
        observed,
        limits,
        now,
    };
    let step = match claim.allocation() {
        None => buying.allocate(None, 1),
        Some(allocation) if allocation.instance_id.is_none() => buying.buy(allocation),
        Some(allocation) => buying.launch(allocation),
    };
    match step {
        // What may be said next is reckoned from, and would keep the time of what is said now.
        Step::Create { .. } | Step::NoteShortage(_) if claim.is_blocked() => Step::Unblock,
        step => step,
    }
}

/// What a step is decided from.
struct Buying<'a> {
    claim: &'a NodeClaim,
    observed: &'a Observed,
    limits: &'a Limits,
    now: Timestamp,
}

impl Buying<'_> {
    /// Writes the intent to buy what was chosen; when nothing was, others have their turn, and then it is tried once
    /// more before the claim ends.
    fn allocate(&self, before: Option<&Allocation>, attempt: i64) -> Step {
        match &self.observed.choice {
            None => Step::Retry,
            Some(Ok(choice)) => Step::Allocate(allocation(choice, before, attempt, self.now)),
            Some(Err(NoChoice::Unresolved(why))) => Step::Block(Blocker::Unresolved(why.clone())),
            Some(Err(NoChoice::HeldBack(why))) => Step::Block(Blocker::HeldBack(why.clone())),
            Some(Err(NoChoice::Exhausted(why))) => self.exhausted(why),
        }
    }

    fn exhausted(&self, why: &str) -> Step {
        if let Some(turn) = others_turn(self.claim, self.limits, self.now) {
            return Step::Wait(turn);
        }
        if let Some(step) = unrecorded::unproven(self.claim, self.observed, self.limits, self.now) {
            return step;
        }
        if self.claim.short_since().is_none() {
            return Step::NoteShortage(why.to_owned());
        }
        Step::GiveUp(End {
            condition: names::LAUNCHED,
            reason: names::REASON_INSUFFICIENT_CAPACITY,
            message: why.to_owned(),
        })
    }

    /// Allocated, and no machine known: it may have been ordered all the same, so the name decides.
    fn buy(&self, allocation: &Allocation) -> Step {
        match &self.observed.machine {
            Sighting::Unknown => Step::Retry,
            Sighting::Present(machine) if !is_ours(machine, Some(allocation), self.observed) => {
                stranger(machine)
            }
            // The name is free when it is gone.
            Sighting::Present(machine) if machine.status == MachineStatus::Deleting => self.poll(),
            Sighting::Present(machine) => Step::Record(machine.as_ref().clone()),
            Sighting::Absent => self.order(allocation),
        }
    }

    /// The order is made only on what the check has let pass. The same attempt goes on with another choice: an order
    /// for the first may yet be carried out, and has the same name.
    fn order(&self, allocation: &Allocation) -> Step {
        if let Some(why) = self.claim.fault() {
            return self.unbought(allocation, why);
        }
        if let Some(step) = self.unsettled(allocation) {
            return step;
        }
        match (&self.observed.standing, self.observed.credential) {
            (Standing::Unknown, _) => Step::Retry,
            (Standing::Lost, _) => self.allocate(Some(allocation), allocation.attempt),
            (Standing::HeldBack(why), _) => self.hold_back(why),
            (Standing::Good, Credential::Lost) => Step::Credential,
            (Standing::Good, Credential::AtHand) => {
                match facts::time_to_send(self.claim, self.limits, self.now) {
                    Some(within) => Step::Create {
                        allocation: allocation.clone(),
                        within,
                    },
                    None => Step::RenewIntent(later(self.now, facts::window(self.limits))),
                }
            }
        }
    }

    /// What an earlier order leaves to be waited for, if it does: reads may not show yet what it bought. A name that is
    /// taken is most likely taken by that; only when no order can be carried out any more, and reads would show what was,
    /// is it somebody else's.
    fn unsettled(&self, allocation: &Allocation) -> Option<Step> {
        match &self.observed.last_order {
            LastOrder::Settled => None,
            LastOrder::Unsure(ago) => {
                let left = self.limits.visibility.checked_sub(*ago);
                let left = left.filter(|left| !left.is_zero())?;
                Some(Step::Wait(later(self.now, left)))
            }
            LastOrder::NameTaken(why) => Some(match facts::doubt(self.claim, self.limits, self.now) {
                Doubt::Unreadable => Step::RenewIntent(later(self.now, facts::window(self.limits))),
                Doubt::Until(until) if self.now <= later(until, self.limits.visibility) => self.poll(),
                Doubt::Until(_) => Step::NoteFault(format!("attempt {}: {why}", allocation.attempt)),
            }),
        }
    }

    /// Nothing can be bought under the names of this attempt: something holds one of them that is no machine of ours, as
    /// an order that failed half way leaves it. The next attempt has other names, but for the machine.
    fn unbought(&self, allocation: &Allocation, why: &str) -> Step {
        if allocation.attempt >= self.limits.faults {
            return Step::GiveUp(End {
                condition: names::LAUNCHED,
                reason: names::REASON_LAUNCH_FAILED,
                message: why.to_owned(),
            });
        }
        self.try_again(allocation)
    }

    /// An intent that is held back counts against all others, so it does not stand for ever. It is taken back when no
    /// order can be carried out on it any more.
    fn hold_back(&self, why: &HeldBack) -> Step {
        match facts::doubt(self.claim, self.limits, self.now) {
            Doubt::Unreadable => Step::RenewIntent(later(self.now, facts::window(self.limits))),
            Doubt::Until(until) if self.now <= later(until, self.limits.visibility) => {
                Step::Block(Blocker::HeldBack(why.clone()))
            }
            Doubt::Until(_) => Step::Withdraw,
        }
    }

    /// Bought, and not yet seen running.
    fn launch(&self, allocation: &Allocation) -> Step {
        let machine = match &self.observed.machine {
            Sighting::Unknown => return Step::Retry,
            Sighting::Absent => return self.vanished(allocation),
            Sighting::Present(machine) => machine,
        };
        if self.claim.absent_since().is_some() {
            return Step::ForgetAbsence;
        }
        if allocation.instance_id.as_ref() != Some(&machine.id) {
            // The one we knew is gone and another has its name: a late order of ours.
            return if is_ours(machine, Some(allocation), self.observed) {
                Step::Record(machine.as_ref().clone())
            } else {
                stranger(machine)
            };
        }
        let is_retired = machine.name != allocation.instance_name;
        match machine.status {
            MachineStatus::Deleting if is_retired => self.try_again(allocation),
            // Its name is not free before it is gone.
            MachineStatus::Deleting => self.poll(),
            _ if is_retired => Step::Delete {
                id: machine.id.clone(),
            },
            MachineStatus::Failed | MachineStatus::Stopped => self.dead(machine, allocation),
            MachineStatus::Running => self.run(machine),
            _ if self.observed.followed_for >= launch_limit(allocation, self.limits) => {
                let minutes = launch_limit(allocation, self.limits).as_secs() / 60;
                self.fault(
                    machine,
                    allocation,
                    &format!("the machine did not run within {minutes} minutes"),
                )
            }
            _ => self.poll(),
        }
    }

    fn poll(&self) -> Step {
        Step::Wait(later(self.now, self.limits.poll))
    }

    /// What was found not to be had is withheld first, and only then the machine goes: whoever crashes in between
    /// finds the machine and its reason still there.
    fn dead(&self, machine: &Machine, allocation: &Allocation) -> Step {
        let first = |withholding| match self.observed.standing {
            Standing::Unknown => Step::Retry,
            Standing::Good | Standing::HeldBack(_) => Step::Withhold(withholding),
            Standing::Lost => retire(machine, allocation),
        };
        let is_for = |reason: StatusReason| machine.reasons.contains(&reason);
        if is_for(StatusReason::Preempted) {
            // Told of each machine, also where another has made the offering be withheld already.
            Step::TakenBack {
                machine: machine.clone(),
                attempt: attempt(allocation),
            }
        } else if is_for(StatusReason::NoCapacity) {
            first(Withholding::Shortage)
        } else if is_for(StatusReason::NoAddress) {
            first(Withholding::Subnet)
        } else {
            self.fault(machine, allocation, &fault(machine))
        }
    }

    /// A fault of configuration or infrastructure: another machine may do better, but not for ever.
    fn fault(&self, machine: &Machine, allocation: &Allocation, why: &str) -> Step {
        let message = format!("attempt {}: {why}", allocation.attempt);
        if allocation.attempt >= self.limits.faults {
            return Step::GiveUp(End {
                condition: names::LAUNCHED,
                reason: names::REASON_LAUNCH_FAILED,
                message,
            });
        }
        if self.claim.fault() == Some(message.as_str()) {
            return retire(machine, allocation);
        }
        Step::NoteFault(message)
    }

    fn run(&self, machine: &Machine) -> Step {
        let mut labels = self.observed.labels.clone();
        labels.extend(machine_labels(machine));
        let labeled = labels
            .iter()
            .all(|(key, value)| self.claim.labels().get(key) == Some(value));
        if labeled {
            Step::Launched(machine.clone())
        } else {
            Step::Label(labels)
        }
    }

    /// The machine is nowhere, although it was bought: believed when seen twice.
    fn vanished(&self, allocation: &Allocation) -> Step {
        leaving::unconfirmed(self.claim, self.begun(allocation), self.limits, self.now)
            .unwrap_or_else(|| self.try_again(allocation))
    }

    /// Since when what is seen is about this attempt. Where the clock was ahead when the attempt began, only what this
    /// process has seen itself counts.
    fn begun(&self, allocation: &Allocation) -> Timestamp {
        let since = allocation.since.0;
        if since <= self.now {
            since
        } else {
            earlier(self.now, self.observed.followed_for)
        }
    }

    /// The attempt's machine has come to its end. The next attempt follows at once if it is for something else, and
    /// else once others had their turn.
    fn try_again(&self, allocation: &Allocation) -> Step {
        let turn = later(allocation.since.0, self.limits.between_attempts);
        // A start in the future is that of a clock that was ahead; nobody waits for it.
        let is_early = turn > self.now && allocation.since.0 <= self.now;
        if is_early && self.observed.standing != Standing::Lost {
            return Step::Wait(turn);
        }
        self.allocate(Some(allocation), allocation.attempt.saturating_add(1))
    }
}

/// Until when others have their turn, before it is tried once more for a claim that nothing is left for; `None` when they
/// had it, or when it was not said yet that nothing is left.
pub(super) fn others_turn(claim: &NodeClaim, limits: &Limits, now: Timestamp) -> Option<Timestamp> {
    let since = claim.short_since()?;
    let turn = later(since, limits.between_attempts);
    // A time in the future was written by a clock that was ahead; nobody waits for it.
    (now < turn && since <= now).then_some(turn)
}

fn allocation(choice: &Choice, before: Option<&Allocation>, attempt: i64, now: Timestamp) -> Allocation {
    Allocation {
        profile: choice.profile.clone(),
        zone: choice.zone.clone(),
        capacity_type: choice.capacity_type.clone(),
        subnet: choice.subnet.clone(),
        price: choice.price.map(WrittenPrice),
        instance_name: choice.instance_name.clone(),
        instance_id: None,
        attempt,
        credentials: before.and_then(|before| credentials(before, attempt)),
        since: now.into(),
    }
}

/// The credentials that an attempt takes over. Where no machine of the attempt before it is known, none was given up: one
/// that is found all the same has the claim's one name, so it is the claim's machine, and may join with what it was
/// ordered with.
fn credentials(before: &Allocation, attempt: i64) -> Option<Vec<api::Credential>> {
    let mut credentials = before.credentials.clone()?;
    if before.instance_id.is_none() {
        let last = credentials.iter_mut().filter(|it| it.attempt == before.attempt);
        last.for_each(|credential| credential.attempt = attempt);
    }
    Some(credentials)
}

/// What the machine is, as labels of claim and Node: its own values, whatever was ordered.
pub(super) fn machine_labels(machine: &Machine) -> BTreeMap<String, String> {
    [
        (names::INSTANCE_TYPE, machine.profile.as_str()),
        (names::ZONE, machine.zone.as_str()),
        (names::CAPACITY_TYPE, machine.capacity_type.as_str()),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// What a machine that will never run says of itself.
fn fault(machine: &Machine) -> String {
    let codes: Vec<&str> = machine
        .reasons
        .iter()
        .filter_map(|reason| match reason {
            StatusReason::Other(code) => Some(code.as_str()),
            StatusReason::Preempted | StatusReason::NoCapacity | StatusReason::NoAddress => None,
        })
        .collect();
    let state = match machine.status {
        MachineStatus::Failed => "failed",
        _ => "stopped",
    };
    match codes.as_slice() {
        [] => format!("the machine {state} and does not say why"),
        codes => format!("the machine {state}: {}", codes.join(", ")),
    }
}

fn retire(machine: &Machine, allocation: &Allocation) -> Step {
    Step::Retire {
        id: machine.id.clone(),
        attempt: attempt(allocation),
    }
}

fn attempt(allocation: &Allocation) -> u32 {
    u32::try_from(allocation.attempt).unwrap_or(u32::MAX)
}

/// How long a machine may take until it runs. Profiles with GPUs are the families that begin with g: gx2, gx3, gx3d.
pub fn launch_limit(allocation: &Allocation, limits: &Limits) -> Duration {
    if allocation.profile.starts_with('g') {
        limits.launch_gpu
    } else {
        limits.launch
    }
}
