//! What a story costs: machines and dollars an hour over time, and what the same machines would have cost on demand.
//!
//! It is kept from the cloud's own truth, whatever anybody was told, and in whole nano-dollars. A machine is paid for
//! while it runs.

use std::fmt;
use std::time::Duration;

use super::expectation::MachineState;
use super::scene::{Scene, machine_state};
use crate::money::Price;
use crate::sim::ibm::{Class, InstanceTruth};

const MILLIS_PER_HOUR: u128 = 3_600_000;
const NANOS_PER_DOLLAR: f64 = 1e9;

/// What is paid for at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Spot machines that run.
    pub spot: u32,
    /// Machines on demand that run.
    pub on_demand: u32,
    /// What the spot machines cost, in nano-dollars an hour.
    pub spot_nanos: u64,
    /// What the machines on demand cost, in nano-dollars an hour.
    pub on_demand_nanos: u64,
    /// What all of them would cost if all were bought on demand, in nano-dollars an hour.
    pub undiscounted_nanos: u64,
}

impl Rate {
    fn of(scene: &Scene) -> Self {
        let mut rate = Self::default();
        for machine in scene.machines.values() {
            if machine_state(machine) == MachineState::Running {
                rate.add(machine);
            }
        }
        rate
    }

    fn add(&mut self, machine: &InstanceTruth) {
        let paid = machine.usd_per_hour.map_or(0, Price::nanos);
        let (count, nanos) = match machine.class {
            Class::Spot => (&mut self.spot, &mut self.spot_nanos),
            Class::Standard => (&mut self.on_demand, &mut self.on_demand_nanos),
        };
        *count += 1;
        *nanos += paid;
        self.undiscounted_nanos += machine.on_demand_usd_per_hour.map_or(paid, Price::nanos);
    }

    /// What all machines cost, in nano-dollars an hour.
    pub fn nanos(&self) -> u64 {
        self.spot_nanos + self.on_demand_nanos
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spot, on_demand, .. } = self;
        write!(
            f,
            "{} an hour: {spot} spot, {on_demand} on demand",
            dollars(self.nanos())
        )
    }
}

/// What was paid for since the start.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// From when on which rate held.
    entries: Vec<(Duration, Rate)>,
}

impl Ledger {
    /// Writes down what runs at a moment, which is not before the last one.
    pub fn note(&mut self, at: Duration, scene: &Scene) {
        let rate = Rate::of(scene);
        let last = self.entries.last().map(|(_, rate)| *rate).unwrap_or_default();
        if rate != last {
            self.entries.push((at, rate));
        }
    }

    /// From when on which rate held, oldest first.
    pub fn entries(&self) -> &[(Duration, Rate)] {
        &self.entries
    }

    /// Everything up to a moment.
    pub fn bill(&self, until: Duration) -> Bill {
        let mut bill = Bill::default();
        for (number, &(from, rate)) in self.entries.iter().enumerate() {
            let to = self.entries.get(number + 1).map_or(until, |(at, _)| *at);
            bill.add(rate, to.min(until).saturating_sub(from));
        }
        bill
    }

    /// A line for each rate that held, up to a moment.
    pub fn lines(&self, until: Duration) -> Vec<String> {
        let held = self.entries.iter().filter(|(from, _)| *from <= until);
        held.map(|(from, rate)| format!("from {} {rate}", minutes(*from)))
            .collect()
    }
}

/// What a time came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    /// How long spot machines ran, all together.
    pub spot: Duration,
    /// How long machines on demand ran, all together.
    pub on_demand: Duration,
    paid: u128,
    undiscounted: u128,
}

impl Bill {
    fn add(&mut self, rate: Rate, time: Duration) {
        self.spot += time * rate.spot;
        self.on_demand += time * rate.on_demand;
        self.paid += u128::from(rate.nanos()) * time.as_millis();
        self.undiscounted += u128::from(rate.undiscounted_nanos) * time.as_millis();
    }

    /// What was paid, in nano-dollars.
    pub fn paid_nanos(&self) -> u64 {
        u64::try_from(self.paid / MILLIS_PER_HOUR).unwrap_or(u64::MAX)
    }

    /// What the same machines would have cost on demand, in nano-dollars.
    pub fn undiscounted_nanos(&self) -> u64 {
        u64::try_from(self.undiscounted / MILLIS_PER_HOUR).unwrap_or(u64::MAX)
    }

    /// How much of that was not paid, out of a hundred.
    pub fn saved_percent(&self) -> u64 {
        let saved = self.undiscounted_nanos().saturating_sub(self.paid_nanos());
        (saved * 100).checked_div(self.undiscounted_nanos()).unwrap_or(0)
    }
}

impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} paid for {} of spot and {} on demand; all on demand {}: {} % saved",
            dollars(self.paid_nanos()),
            minutes(self.spot),
            minutes(self.on_demand),
            dollars(self.undiscounted_nanos()),
            self.saved_percent()
        )
    }
}

/// `$0.0483`
pub(super) fn dollars(nanos: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    let dollars = nanos as f64 / NANOS_PER_DOLLAR;
    format!("${dollars:.4}")
}

/// `08:31`, minutes and seconds.
pub(super) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn rate(spot: u32, on_demand: u32) -> Rate {
        Rate {
            spot,
            on_demand,
            spot_nanos: u64::from(spot) * 50_000_000,
            on_demand_nanos: u64::from(on_demand) * 200_000_000,
            undiscounted_nanos: u64::from(spot + on_demand) * 200_000_000,
        }
    }

    fn ledger() -> Ledger {
        Ledger {
            entries: vec![(HOUR, rate(2, 0)), (2 * HOUR, rate(1, 1)), (3 * HOUR, rate(0, 0))],
        }
    }

    #[test]
    fn every_machine_is_paid_for_while_it_runs() {
        let bill = ledger().bill(9 * HOUR);
        assert_eq!((bill.spot, bill.on_demand), (3 * HOUR, HOUR));
        assert_eq!(bill.paid_nanos(), 350_000_000);
        assert_eq!(bill.undiscounted_nanos(), 800_000_000);
        assert_eq!(bill.saved_percent(), 56);
        assert_eq!(
            bill.to_string(),
            "$0.3500 paid for 180:00 of spot and 60:00 on demand; all on demand $0.8000: 56 % saved"
        );
    }

    #[test]
    fn a_bill_ends_when_it_is_asked_for() {
        assert_eq!(ledger().bill(HOUR * 3 / 2).paid_nanos(), 50_000_000);
        assert_eq!(ledger().bill(HOUR), Bill::default());
        assert_eq!(Ledger::default().bill(HOUR).saved_percent(), 0);
    }

    #[test]
    fn only_what_changes_is_written_down() {
        let mut ledger = Ledger::default();
        ledger.note(HOUR, &Scene::default());
        assert_eq!(ledger.entries(), []);
    }
}
