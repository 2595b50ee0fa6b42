//! What a simulated cloud is told when it is made: where, by which seed and clock, how much there is of everything.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::faults::FaultPlan;
use crate::clock::Clock;

/// The settings of a [`Cloud`](super::Cloud). Start from [`Options::new`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The region whose VPC endpoint this is; the catalogue knows all regions.
    pub region: String,
    /// Everything random is drawn from it: ids, names, latencies, faults.
    pub seed: u64,
    /// The only source of time.
    pub clock: Clock,
    /// The API keys that IAM takes.
    pub api_keys: Vec<String>,
    /// The prefix length of the subnet in each zone; /24 has 251 usable addresses.
    pub subnet_prefix: u8,
    pub quotas: Quotas,
    pub stock: Stock,
    pub timings: Timings,
    pub answers: Answers,
    pub rename: Rename,
    pub delete_while_pending: DeleteWhilePending,
    pub delete_again: DeleteAgain,
    /// The faults that are on from the start.
    pub faults: FaultPlan,
}

impl Options {
    /// A cloud as IBM documents it, without faults, answering at once.
    pub fn new(region: impl Into<String>, seed: u64, clock: Clock) -> Self {
        Self {
            region: region.into(),
            seed,
            clock,
            api_keys: vec!["demo-api-key".into()],
            subnet_prefix: 24,
            quotas: Quotas::default(),
            stock: Stock::default(),
            timings: Timings::default(),
            answers: Answers::AtOnce,
            rename: Rename::AtOnce,
            delete_while_pending: DeleteWhilePending::Accepted,
            delete_again: DeleteAgain::Conflict,
            faults: FaultPlan::default(),
        }
    }

    /// With room for thousands of machines: neither quotas nor stock nor addresses are a bound.
    pub fn make_roomy(&mut self) {
        self.subnet_prefix = 18;
        self.quotas.vcpu = 100_000;
        self.quotas.memory_gib = 1_000_000;
        self.quotas.volumes = 100_000;
        self.quotas.spot_instances = 100_000;
        self.stock.standard = 100_000;
        self.stock.spot = 100_000;
    }
}

/// What an account may hold in a region. The defaults are IBM's documented ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Of standard instances; spot ones count by number only.
    pub vcpu: u32,
    pub memory_gib: u32,
    pub gpu: u32,
    /// Instance storage, in GB.
    pub storage_gb: u32,
    pub spot_instances: u32,
    pub volumes: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            vcpu: 200,
            memory_gib: 5600,
            gpu: 16,
            storage_gb: 18_000,
            spot_instances: 100,
            volumes: 300,
        }
    }
}

/// How many machines of one profile a zone has, for each class. IBM publishes nothing here: the figures are large
/// enough for a demo and small enough to be reached by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    pub standard: u32,
    pub spot: u32,
    pub gpu_standard: u32,
    pub gpu_spot: u32,
}

impl Default for Stock {
    fn default() -> Self {
        Self {
            standard: 500,
            spot: 100,
            gpu_standard: 4,
            gpu_spot: 2,
        }
    }
}

/// A span of time that is drawn anew each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub min: Duration,
    pub max: Duration,
}

impl Span {
    /// From `min` to `max` seconds.
    pub const fn seconds(min: u64, max: u64) -> Self {
        Self {
            min: Duration::from_secs(min),
            max: Duration::from_secs(max),
        }
    }

    pub(super) fn draw(self, rng: &mut Rng) -> Duration {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let (min, max) = (millis(self.min), millis(self.max));
        Duration::from_millis(if max > min { rng.u64(min..=max) } else { min })
    }
}

/// How long things take. IBM publishes none of these; they are operators' experience.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// The answer to a create, when [`Answers::Realistic`].
    pub create_answer: Span,
    /// Any other answer, when [`Answers::Realistic`].
    pub answer: Span,
    /// `pending`
    pub pending: Span,
    /// `starting`
    pub starting: Span,
    /// `starting`, for one VM in thirty.
    pub starting_tail: Span,
    /// `starting`, for profiles with GPUs and local disks.
    pub starting_gpu: Span,
    pub stopping: Span,
    pub restarting: Span,
    pub deleting: Span,
    /// From the notice of a preemption to power off. IBM documents 30 seconds, best effort.
    pub preemption_notice: Duration,
    /// Until a detached network interface that was deleted is gone, and its address free.
    pub interface_deleting: Span,
    /// Until a change is found by Global Search.
    pub search: Span,
    /// How long reads lag under the `read-lag` fault.
    pub read_lag: Duration,
    /// The latest a create is carried out under the `late-create` fault.
    pub late_create_max: Duration,
    /// How late an answer is under the `slow` fault: beyond any sensible deadline.
    pub slow: Duration,
    /// Until the old name is free under the `rename-slow` fault.
    pub rename: Duration,
    /// The life of an IAM token.
    pub token: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            create_answer: Span::seconds(1, 4),
            answer: Span {
                min: Duration::from_millis(40),
                max: Duration::from_millis(400),
            },
            pending: Span::seconds(5, 15),
            starting: Span::seconds(15, 45),
            starting_tail: Span::seconds(60, 165),
            starting_gpu: Span::seconds(115, 585),
            stopping: Span::seconds(10, 60),
            restarting: Span::seconds(15, 60),
            deleting: Span::seconds(10, 90),
            preemption_notice: Duration::from_secs(30),
            interface_deleting: Span::seconds(1, 5),
            search: Span::seconds(2, 60),
            read_lag: Duration::from_secs(10),
            late_create_max: Duration::from_mins(1),
            slow: Duration::from_mins(3),
            rename: Duration::from_secs(30),
            token: Duration::from_hours(1),
        }
    }
}

/// How soon answers come, faults aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    AtOnce,
    /// After a time drawn from [`Timings`]; half of it passes before the effect, half after.
    Realistic,
}

/// What a rename does. The documentation is silent, so clients must live with all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename {
    /// The new name holds and the old one is free with the answer.
    AtOnce,
    /// 409
    Refused,
    /// The new name holds with the answer; the old one stays taken for [`Timings::rename`].
    Slow,
}

/// What deleting a `pending` instance does: old documentation says 409, today's is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteWhilePending {
    Accepted,
    Conflict,
}

/// What deleting a `deleting` instance does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteAgain {
    NotFound,
    Conflict,
}

/// How a machine is sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    Spot,
    Standard,
}

impl Class {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Spot, Self::Standard];

    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spot => "spot",
            Self::Standard => "standard",
        }
    }

    /// The class of that name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }
}
