//! What could be changed so that a pod gets in, in words.

use std::fmt;

use jiff::Timestamp;

use super::why::{amount, at_most};
use crate::model::{Taint, Values};

/// One change to a pod, to a pool, or with time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The pod tolerates a taint.
    Tolerate(Taint),
    /// The pod no longer asks this of a label.
    Unrequire {
        /// The label.
        key: String,
        /// What it asks now.
        wanted: Values,
    },
    /// The pod asks for less.
    AskLess {
        /// Of what.
        resource: String,
        /// How much less.
        less: i64,
        /// What it asks for then.
        then: i64,
    },
    /// The pod takes no port of the host.
    FreePort(i32),
    /// The pod no longer asks this of where others are.
    Unbind {
        /// What it no longer asks.
        what: Bond,
        /// The label that says what is near.
        key: String,
    },
    /// The pod mounts fewer volumes.
    FewerVolumes {
        /// Of which driver.
        driver: String,
        /// How many less.
        fewer: u32,
        /// How many it mounts then.
        then: u32,
    },
    /// The pod does not have a label by which others mean it that must be far from it.
    Unlabel {
        /// The label.
        label: String,
        /// What it is now.
        value: String,
        /// The label that says what is near.
        key: String,
    },
    /// The pool may have more.
    RaiseLimit {
        /// Of what.
        resource: String,
        /// How much it may have then.
        to: i64,
    },
    /// The pool asks for fewer different values of a label.
    FewerValues {
        /// The label.
        key: String,
        /// How many there are.
        to: u32,
    },
    /// The pool makes nodes again, which it does not now for this reason. Whether that lets the pod in is not known before.
    Open(String),
    /// An offering comes back.
    Wait {
        /// Which, as type, zone and capacity type.
        offering: String,
        /// When.
        until: Timestamp,
    },
}

/// What a pod asks of where others are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// To be spread.
    Spread,
    /// To be near.
    Near,
    /// To be far.
    Far,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tolerate(taint) => write!(f, "let the pod tolerate the taint {taint}"),
            Self::Unrequire { key, wanted } => {
                write!(f, "let the pod not require that label {key} is {wanted}")
            }
            Self::AskLess { resource, less, then } => write!(
                f,
                "let the pod ask for {} less of {resource}, at most {}",
                amount(resource, *less),
                at_most(resource, *then)
            ),
            Self::FreePort(port) => write!(f, "let the pod not take port {port} of the host"),
            Self::Unbind { what, key } => {
                let what = match what {
                    Bond::Spread => "be spread over",
                    Bond::Near => "be near to others by",
                    Bond::Far => "be far from others by",
                };
                write!(f, "let the pod not have to {what} {key}")
            }
            Self::FewerVolumes { driver, fewer, then } => {
                let plural = if *fewer == 1 { "" } else { "s" };
                write!(
                    f,
                    "let the pod mount {fewer} volume{plural} less of {driver}, at most {then}"
                )
            }
            Self::Unlabel { label, value, key } => write!(
                f,
                "let the pod not have the label {label}={value}, as others must be far from such pods by {key}"
            ),
            Self::RaiseLimit { resource, to } => write!(
                f,
                "raise the pool's limit of {resource} to {}",
                amount(resource, *to)
            ),
            // One is the least that can be asked for.
            Self::FewerValues { key, to: 0 } => {
                write!(f, "let the pool ask for no minimum of values of {key}")
            }
            Self::FewerValues { key, to } => write!(f, "let the pool ask for {to} values of {key}"),
            Self::Open(why) => write!(f, "mend what keeps the pool from making nodes: {why}"),
            Self::Wait { offering, until } => write!(f, "wait until {until}, when {offering} comes back"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::MEMORY;

    #[test]
    fn whoever_asks_for_what_is_told_gets_it() {
        let change = Change::AskLess {
            resource: MEMORY.to_owned(),
            less: (1 << 30) + 1,
            then: (15 << 30) + 1,
        };
        assert_eq!(
            change.to_string(),
            "let the pod ask for 1025Mi less of memory, at most 15Gi"
        );
    }

    #[test]
    fn a_pool_is_never_to_ask_for_no_values_at_all() {
        let told = |to: u32| {
            let key = "size".to_owned();
            Change::FewerValues { key, to }.to_string()
        };
        assert_eq!(told(0), "let the pool ask for no minimum of values of size");
        assert_eq!(told(2), "let the pool ask for 2 values of size");
    }
}
