//! A machine, as the judge knows it.

use std::time::Duration;

use crate::cloud::InstanceName;
use crate::sim::ibm::{Class, InstanceTruth};

/// A machine, as it is or was last.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its id.
    pub id: String,
    /// Its name now.
    pub name: String,
    /// The uid of the claim that it was bought for, if it is ours.
    pub claim: Option<String>,
    /// `running` and the like.
    pub status: &'static str,
    /// Why it is so.
    pub reason: Option<String>,
    /// What it really is.
    pub profile: &'static str,
    /// Where it really is.
    pub zone: String,
    /// How it was really bought.
    pub class: Class,
    /// Its address, once it has one.
    pub address: Option<String>,
    /// When it was first seen.
    pub seen: Duration,
    /// When it was last seen stopped or failed, or to run no longer.
    pub broken: Option<Duration>,
    /// When it was last seen to be off or to have failed, or to be back after that.
    pub off: Option<Duration>,
    /// Whether it broke or went although no replica had asked for that.
    pub lost: bool,
    /// Since when it is gone.
    pub gone: Option<Duration>,
    /// Whether it has stopped or failed, and has not come back since.
    fell: bool,
    /// Whether its name was freed before it was being deleted, as that of an attempt which came to nothing.
    retired: bool,
}

impl Machine {
    /// Whether it runs or may yet.
    pub fn is_live(&self) -> bool {
        self.gone.is_none() && matches!(self.status, "pending" | "starting" | "running" | "restarting")
    }

    /// Whether another may be bought in its place: it has stopped or failed, is gone, or was given up and is being deleted, which
    /// nobody takes back. One that stops, or that somebody else deletes, has not come to its end yet.
    pub fn has_ended(&self) -> bool {
        let given_up = self.retired && self.status == "deleting";
        self.gone.is_some() || given_up || (self.fell && !self.is_live())
    }

    /// Whether it is named as it was bought: the machine of a failed attempt is renamed.
    pub fn has_its_own_name(&self) -> bool {
        self.name.parse::<InstanceName>().is_ok()
    }

    pub(super) fn new(truth: &InstanceTruth, claim: Option<String>, now: Duration) -> Self {
        let mut machine = Self {
            id: truth.id.clone(),
            name: truth.name.clone(),
            claim,
            status: truth.status,
            reason: truth.reason.clone(),
            profile: truth.profile,
            zone: truth.zone.clone(),
            class: truth.class,
            address: None,
            seen: now,
            broken: None,
            off: None,
            lost: false,
            gone: None,
            fell: false,
            retired: false,
        };
        machine.update(truth, now);
        machine
    }

    pub(super) fn update(&mut self, truth: &InstanceTruth, now: Duration) {
        if self.name != truth.name {
            self.retired |= self.status != "deleting";
            self.name.clone_from(&truth.name);
        }
        if self.address.is_none() {
            self.address = truth.address.map(|address| address.to_string());
        }
        let fell = self.status == "running" && truth.status != "running";
        if [self.status, truth.status].into_iter().any(is_off) {
            self.off = Some(now);
        }
        (self.status, self.reason) = (truth.status, truth.reason.clone());
        // A machine with another profile than asked for shows it when it runs.
        (self.profile, self.class) = (truth.profile, truth.class);
        if fell || !self.is_live() {
            self.broken = Some(now);
        }
        if self.is_live() {
            self.fell = false;
        } else {
            self.fell |= is_off(self.status);
        }
    }
}

fn is_off(status: &str) -> bool {
    matches!(status, "stopped" | "failed")
}
