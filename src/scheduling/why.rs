//! Why a pod has no place, in words.

use std::fmt;

use jiff::Timestamp;

use crate::hash::fnv1a;
use crate::model::HostPort;
use crate::model::pod::InvalidPod;
use crate::model::requirements::Conflict;
use crate::model::storage::VolumeProblem;
use crate::model::taint::Taint;
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Shortage};

/// What stood in the way at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The place.
    pub place: Where,
    /// What stood in the way first.
    pub why: Why,
}

/// A place that could have been one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// Everywhere.
    Everywhere,
    /// The node or claim in flight that came nearest, of so many.
    Existing {
        /// Its name.
        nearest: String,
        /// How many there are.
        of: usize,
    },
    /// A new node of this pool.
    Pool(String),
}

/// What stood in the way. The order is that in which things are looked at: what comes later came nearer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The pod says something that has no meaning.
    Invalid(InvalidPod),
    /// A volume cannot be used.
    Volume(VolumeProblem),
    /// It claims devices, by this name, which are allocated where nobody here can foresee it.
    Devices(String),
    /// The pool makes no nodes now, for this reason.
    Closed(String),
    /// There is nothing that could take a pod.
    NothingThere,
    /// A taint is not tolerated.
    Taint(Taint),
    /// A label cannot be what the pod asks for.
    Requirement(Conflict),
    /// A label cannot be what the pod's volumes need.
    VolumePlace(Conflict),
    /// Each label can be had, but no type has them all.
    NoType {
        /// What the pod asks of labels, in words.
        wanted: String,
    },
    /// A port is taken.
    Port(HostPort),
    /// Too many volumes of a driver.
    VolumeLimit {
        /// The driver.
        driver: String,
        /// How many it can attach.
        limit: u32,
    },
    /// Too little of a resource even on the type or node that comes nearest.
    Resource {
        /// How much.
        shortage: Shortage,
        /// Where.
        nearest: String,
        /// How much of it daemons take there, so that nobody else has it.
        daemons: i64,
    },
    /// What fits cannot be bought now.
    Withheld {
        /// The offering that comes back first, as type, zone and capacity type.
        offering: String,
        /// When it comes back, if that is known.
        until: Option<Timestamp>,
        /// Why it cannot be had.
        reason: String,
    },
    /// Too few different values would be left to choose from.
    MinValues {
        /// To whom.
        who: Chooser,
        /// The label.
        key: String,
        /// How many are asked for.
        least: u32,
        /// How many there are.
        found: u32,
    },
    /// The pool has as much as it may have.
    Limit {
        /// Of what.
        resource: String,
        /// How much it may have.
        allowed: i64,
        /// How much it has.
        used: i64,
        /// How much the smallest type that fits would add.
        wanted: i64,
    },
    /// Pods would be spread too unevenly over a label.
    Spread {
        /// The label.
        key: String,
        /// The values that are left.
        allowed: Vec<String>,
    },
    /// No pod that it must be near is in reach.
    Near {
        /// The label that says what is near.
        key: String,
    },
    /// It must be near in several ways, and no pod in reach is meant by all of them.
    NearAll {
        /// The label that says what is near.
        key: String,
    },
    /// Pods that it must be far from are everywhere.
    Far {
        /// The label that says what is near.
        key: String,
    },
    /// Pods that must be far from it are everywhere.
    Feared {
        /// The label that says what is near.
        key: String,
    },
    /// Nothing stood in the way when it was looked at last: others took the place, or it is one of several.
    Taken,
    /// Time ran out before its turn.
    OutOfTime,
    /// It had its turn, and time ran out before it was found out what stood in the way.
    Unexplained,
}

/// Who must have a number of different values to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooser {
    /// The claim that would be made for the pod.
    Own,
    /// Another claim of the plan, to which limits would leave too few beside it.
    Another,
}

impl Chooser {
    /// How few different values would be left, in words.
    fn left_with(self, found: u32, key: &str) -> String {
        match self {
            Self::Own => format!("{found} values of {key} would be left"),
            Self::Another => format!(
                "with another node its limits would leave a claim that is not bought yet {found} values of {key}"
            ),
        }
    }
}

impl Why {
    /// How near the pod came: what is looked at later has passed all that is looked at before.
    pub(super) fn nearness(&self) -> u8 {
        match self {
            Self::Invalid(_) | Self::Volume(_) | Self::Devices(_) | Self::Closed(_) | Self::NothingThere => 0,
            Self::Taint(_) => 1,
            Self::Requirement(_) | Self::VolumePlace(_) => 2,
            Self::NoType { .. } => 3,
            Self::Port(_) => 4,
            Self::VolumeLimit { .. } => 5,
            Self::Resource { .. } => 6,
            Self::Withheld { .. } => 7,
            Self::Limit { .. } => 8,
            Self::MinValues { .. } => 9,
            Self::Spread { .. }
            | Self::Near { .. }
            | Self::NearAll { .. }
            | Self::Far { .. }
            | Self::Feared { .. } => 10,
            Self::Taken | Self::OutOfTime | Self::Unexplained => 11,
        }
    }

    /// Of two that came as far by [`Self::nearness`], the one of which less is missing came nearer.
    pub(super) fn missing(&self) -> i64 {
        let thousandths = |missing: i64, of: i64| missing.max(0).saturating_mul(1000) / of.max(1);
        match self {
            Self::Resource { shortage, .. } => {
                thousandths(shortage.wanted - shortage.available, shortage.wanted)
            }
            Self::Withheld { until, .. } => until.map_or(i64::MAX, Timestamp::as_second),
            Self::Limit {
                allowed,
                used,
                wanted,
                ..
            } => thousandths(used.saturating_add(*wanted).saturating_sub(*allowed), *wanted),
            Self::MinValues { least, found, .. } => i64::from(least.saturating_sub(*found)),
            _ => 0,
        }
    }
}

impl Refusal {
    /// What stands in the way without its amounts and without which node is nearest, which change all the time.
    fn gist(&self) -> String {
        let place = match &self.place {
            Where::Everywhere => "everywhere",
            Where::Existing { .. } => "existing",
            Where::Pool(name) => name,
        };
        let why = match &self.why {
            Why::Resource { shortage, .. } => format!("resource {}", shortage.resource),
            Why::Limit { resource, .. } => format!("limit {resource}"),
            Why::Withheld { reason, .. } => format!("withheld {reason}"),
            Why::MinValues { who, key, .. } => match who {
                Chooser::Own => format!("min values {key}"),
                Chooser::Another => format!("min values {key} of another"),
            },
            Why::Spread { key, .. } => format!("spread {key}"),
            Why::VolumeLimit { driver, .. } => format!("volumes {driver}"),
            Why::Closed(_) => "closed".to_owned(),
            why => why.to_string(),
        };
        format!("{place}: {why}")
    }
}

/// What tells refusals from others. What is there already comes and goes; what pools refuse stays until somebody changes
/// something, so where pools refuse, they alone count. Which comes nearest hangs on amounts, so the order is no part of it.
pub(super) fn gist(refusals: &[Refusal]) -> u64 {
    let lasting = |refusal: &&Refusal| !matches!(refusal.place, Where::Existing { .. });
    let of = |refusal: &Refusal| fnv1a(refusal.gist().as_bytes());
    let mut same: Vec<u64> = refusals.iter().filter(lasting).map(of).collect();
    if same.is_empty() {
        same = refusals.iter().map(of).collect();
    }
    same.sort_unstable();
    let bytes: Vec<u8> = same.into_iter().flat_map(u64::to_le_bytes).collect();
    fnv1a(&bytes)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Where::Everywhere => write!(f, "{}", self.why),
            Where::Existing { nearest, of: 1 } => write!(f, "node {nearest}: {}", self.why),
            Where::Existing { nearest, of } => write!(f, "{of} nodes, nearest {nearest}: {}", self.why),
            Where::Pool(name) => write!(f, "NodePool {name}: {}", self.why),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => write!(f, "{invalid}"),
            Self::Volume(problem) => write!(f, "{problem}"),
            Self::Devices(claim) => write!(
                f,
                "it claims devices (resourceClaims: {claim}), and no node is bought for pods that do"
            ),
            Self::Closed(why) => f.write_str(why),
            Self::NothingThere => f.write_str("there is neither a node nor a ready NodePool"),
            Self::Taint(taint) => write!(f, "taint {taint} is not tolerated"),
            Self::Requirement(conflict) => write!(f, "{conflict}"),
            Self::VolumePlace(Conflict { key, offered, wanted }) => {
                write!(f, "its volumes need label {key} {wanted}, but it is {offered}")
            }
            Self::NoType { wanted } => write!(f, "no instance type has all of {wanted}"),
            Self::Port(port) => write!(f, "port {}/{} of the host is taken", port.port, port.protocol),
            Self::VolumeLimit { driver, limit } => {
                write!(f, "no more than {limit} volumes of {driver} can be attached")
            }
            Self::Resource {
                shortage,
                nearest,
                daemons,
            } => short(f, shortage, nearest, *daemons),
            Self::Withheld {
                offering,
                until,
                reason,
            } => match until {
                Some(until) => write!(f, "{offering} is withheld until {until}: {reason}"),
                None => write!(f, "{offering} is not sold: {reason}"),
            },
            Self::MinValues {
                who,
                key,
                least,
                found,
            } => write!(
                f,
                "{}, and minValues asks for {least}",
                who.left_with(*found, key)
            ),
            Self::Limit {
                resource,
                allowed,
                used,
                wanted,
            } => over(f, resource, (*allowed, *used), *wanted),
            Self::Spread { key, allowed } if allowed.is_empty() => {
                write!(f, "no value of {key} would keep pods spread evenly enough")
            }
            Self::Spread { key, allowed } => write!(
                f,
                "pods stay spread evenly enough over {key} only in [{}], where nothing can be had",
                allowed.join(", ")
            ),
            Self::Near { key } => write!(f, "no pod that it must be near by {key} is in reach"),
            Self::NearAll { key } => write!(
                f,
                "no pod in reach by {key} is meant by all of its required pod affinities at once, and only such a pod counts"
            ),
            Self::Far { key } => write!(f, "pods that it must be far from by {key} are everywhere"),
            Self::Feared { key } => write!(f, "pods that must be far from it by {key} are everywhere"),
            Self::Taken => f.write_str("others have taken the last place"),
            Self::OutOfTime => f.write_str("time ran out before its turn"),
            Self::Unexplained => f.write_str("time ran out before it was found out what stood in its way"),
        }
    }
}

fn over(f: &mut fmt::Formatter<'_>, resource: &str, (allowed, used): (i64, i64), wanted: i64) -> fmt::Result {
    write!(
        f,
        "its limit of {} {resource} leaves {}, and the smallest type that fits has {}",
        at_most(resource, allowed),
        at_most(resource, allowed.saturating_sub(used).max(0)),
        amount(resource, wanted),
    )
}

fn short(f: &mut fmt::Formatter<'_>, shortage: &Shortage, nearest: &str, daemons: i64) -> fmt::Result {
    let amount = |of: i64| amount(&shortage.resource, of);
    write!(
        f,
        "{} is short by {} on {nearest}, which has {} of {}",
        shortage.resource,
        amount(shortage.wanted - shortage.available),
        at_most(&shortage.resource, shortage.available),
        amount(shortage.wanted),
    )?;
    if daemons > 0 {
        write!(f, " beside the {} that daemons take", amount(daemons))?;
    }
    Ok(())
}

/// How an amount is made a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounded {
    Up,
    Down,
}

/// An amount as people write it, or a little more: of what is missing, no less will do.
pub(super) fn amount(resource: &str, amount: i64) -> String {
    written(resource, amount, Rounded::Up)
}

/// An amount as people write it, or a little less: whoever asks for so much of what there is must get it.
pub(super) fn at_most(resource: &str, amount: i64) -> String {
    written(resource, amount, Rounded::Down)
}

fn written(resource: &str, amount: i64, rounded: Rounded) -> String {
    const KI: i64 = 1024;
    match resource {
        CPU if amount % 1000 == 0 => (amount / 1000).to_string(),
        CPU => format!("{amount}m"),
        MEMORY | EPHEMERAL_STORAGE if amount.abs() >= KI * KI => {
            let more = rounded == Rounded::Up && amount.rem_euclid(KI * KI) != 0;
            let mi = amount.div_euclid(KI * KI) + i64::from(more);
            if mi % KI == 0 {
                format!("{}Gi", mi / KI)
            } else {
                format!("{mi}Mi")
            }
        }
        _ => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_plain_sentences() {
        let why = Why::Resource {
            shortage: Shortage {
                resource: MEMORY.to_owned(),
                wanted: 32 << 30,
                available: (15 << 30) + 1,
            },
            nearest: "bxf-4x16".to_owned(),
            daemons: 0,
        };
        assert_eq!(
            why.to_string(),
            "memory is short by 17Gi on bxf-4x16, which has 15Gi of 32Gi"
        );
        let why = Why::Limit {
            resource: CPU.to_owned(),
            allowed: 10_000,
            used: 8000,
            wanted: 4000,
        };
        let refusal = Refusal {
            place: Where::Pool("default".to_owned()),
            why,
        };
        assert_eq!(
            refusal.to_string(),
            "NodePool default: its limit of 10 cpu leaves 2, and the smallest type that fits has 4"
        );
    }

    #[test]
    fn what_there_is_is_rounded_down_and_what_is_missing_up() {
        let odd = (15 << 30) + 1;
        assert_eq!(
            (amount(MEMORY, odd), at_most(MEMORY, odd)),
            ("15361Mi".to_owned(), "15Gi".to_owned())
        );
        let why = Why::Limit {
            resource: MEMORY.to_owned(),
            allowed: 32 << 30,
            used: (17 << 30) - 1,
            wanted: odd,
        };
        assert_eq!(
            why.to_string(),
            "its limit of 32Gi memory leaves 15Gi, and the smallest type that fits has 15361Mi"
        );
    }

    #[test]
    fn an_amount_of_processors_that_is_not_whole_is_told_in_thousandths() {
        assert_eq!(
            (amount(CPU, 1500), amount(CPU, 2000)),
            ("1500m".to_owned(), "2".to_owned())
        );
    }
}
